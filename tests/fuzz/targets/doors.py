"""Doors of Diameter nodes, for targets: connections that lead nowhere, and messages cut for them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from simulators.base import DiameterMessage
from simulators.connection import Connection
from simulators.framing import HEADER_LENGTH, MessageReader, parse_header
from simulators.peer import Peer
from tests.fuzz.harness import Run
from tests.fuzz.targets.loop import Loop, NowhereTransport


def reframed(data: bytes) -> bytes:
    """Framing mended: version, and lengths that lead from message to message, so that AVPs are read.

    Odd sizes are left alone once in a while: framing is fuzzed too.
    """
    if len(data) < HEADER_LENGTH or data[-1] & 7 == 7:
        return data
    out, position = [], 0
    while len(data) - position >= HEADER_LENGTH:
        length = int.from_bytes(data[position + 1 : position + 4]) & ~3
        if not HEADER_LENGTH <= length <= len(data) - position:
            length = (len(data) - position) & ~3
        out.append(b"\x01" + length.to_bytes(3) + data[position + 4 : position + length])
        position += length
    return b"".join(out)


def connected(peer: Peer, *, initiator: bool) -> tuple[Connection, NowhereTransport]:
    """A connection of this peer whose other end is the input."""
    connection = Connection(peer, initiator=initiator)
    transport = NowhereTransport(("127.0.0.1", 40000), ("127.0.0.1", 3868))
    connection.connection_made(transport)
    return connection, transport


def messages_of(transport: NowhereTransport) -> list[bytes]:
    """What was written, which must be whole messages."""
    data = b"".join(transport.written)
    messages = MessageReader().feed(data)
    assert sum(map(len, messages)) == len(data), "not whole messages"
    return messages


def kind_of(data: bytes) -> Hashable:
    """Command, flags, and the result code where it stands first or behind the Session-Id."""
    header = parse_header(data)
    at = data.find(b"\0\0\x01\x0c\x40\0\0\x0c", HEADER_LENGTH)
    return (
        header.command_code & 0x1FF,
        header.command_flags,
        data[at + 8 : at + 12] if at > 0 else b"",
    )


def no_defect(peer: Peer) -> None:
    """AssertionError if one of its handlers raised."""
    assert not peer.counters["handler_failures"], "a handler raised"


def answered(request: bytes, answer: DiameterMessage) -> bytes:
    """The answer, with the identifiers of its request."""
    asked, header = parse_header(request), answer.header
    header.hop_by_hop_identifier = asked.hop_by_hop_identifier
    header.end_to_end_identifier = asked.end_to_end_identifier
    return answer.as_bytes()


def as_answer(request: bytes, data: bytes) -> bytes:
    """The input's first message as the answer to this request, if it is an answer at all."""
    if len(data) < HEADER_LENGTH or data[4] & 0x80:
        return data
    return data[:12] + request[12:20] + data[20:]


def target_of(work: Callable[[bytes], Any]) -> Callable[[], Run]:
    """What makes a run of a target that is a coroutine."""

    def make() -> Run:
        loop = Loop()
        return lambda data: loop.run(work(data))

    return make
