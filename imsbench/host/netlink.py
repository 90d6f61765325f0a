"""A netlink socket that sends a batch of requests in one system call (netlink(7)).

The kernel carries a batch out before sendmsg returns: its answers are there to be read without
waiting. Only the last request asks for an acknowledgement; one that fails answers in any case.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

NETLINK_XFRM = 6

_SOL_NETLINK = 270
_CAP_ACK = 10  # errors do not repeat the request
_EXT_ACK = 11  # errors bring a text
_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port
_ERROR = struct.Struct("=i")
_ATTRIBUTE = struct.Struct("=HH")
_ERROR_TEXT = 1
_REQUEST, _ACK, _DUMP = 0x001, 0x004, 0x300
_ACK_TEXTS = 0x200
_ERROR_TYPE, _DONE_TYPE = 2, 3
_READ_SIZE = 1 << 16  # the kernel fills 32 KiB at most

Request = tuple[int, bytes]
"""Message type, body."""


class NetlinkError(Exception):
    """The netlink socket itself fails; the text says how."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the kernel refused one request."""

    number: int
    """errno."""
    text: str
    """The kernel's own words; often empty."""

    def __str__(self) -> str:
        words = os.strerror(self.number)
        return f"{words} ({self.text})" if self.text else words


@dataclass(slots=True)
class Answers:
    """What the kernel says to a batch."""

    refusals: dict[int, Refusal] = field(default_factory=dict)
    """By the request's place in the batch; what is missing was done."""
    bodies: list[bytes] = field(default_factory=list)
    """Bodies of the messages it sent, in order."""


class NetlinkSocket:
    """One socket of one netlink family, in the network namespace of its making."""

    def __init__(self, family: int) -> None:
        """OSError (EPROTONOSUPPORT) if the kernel does not have the family."""
        self._sequence = 0
        self._sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, family)
        try:
            self._sock.setblocking(False)
            self._sock.setsockopt(_SOL_NETLINK, _CAP_ACK, 1)
            self._sock.setsockopt(_SOL_NETLINK, _EXT_ACK, 1)
            self._sock.bind((0, 0))
        except OSError:
            self._sock.close()
            raise

    def transact(self, requests: Sequence[Request]) -> Answers:
        """Have all of them done, in order, one after a refused one too."""
        first = self._sequence + 1
        last = self._sequence = self._sequence + len(requests)
        parts: list[bytes] = []
        for sequence, (kind, body) in enumerate(requests, first):
            flags = _REQUEST | _ACK if sequence == last else _REQUEST
            parts += (_HEADER.pack(_HEADER.size + len(body), kind, flags, sequence, 0), body)
        self._send(b"".join(parts))
        answers = Answers()
        while True:
            for kind, flags, sequence, body in self._read():
                if sequence < first:  # left over from a batch that failed while it was read
                    continue
                if kind != _ERROR_TYPE:
                    answers.bodies.append(body)
                    continue
                refusal = _refusal(flags, body)
                if refusal is not None:
                    answers.refusals[sequence - first] = refusal
                if sequence == last:
                    return answers

    def dump(self, kind: int) -> Iterator[bytes]:
        """The bodies of all objects that a GET request of this type lists."""
        self._sequence += 1
        self._send(_HEADER.pack(_HEADER.size, kind, _REQUEST | _DUMP, self._sequence, 0))
        while True:
            for kind_read, flags, sequence, body in self._read():
                if sequence != self._sequence:
                    continue
                if kind_read == _DONE_TYPE:
                    return
                if kind_read == _ERROR_TYPE:
                    raise NetlinkError(f"the kernel does not list: {_refusal(flags, body)}")
                yield body

    def close(self) -> None:
        """Close it."""
        self._sock.close()

    def _send(self, data: bytes) -> None:
        try:
            self._sock.sendto(data, (0, 0))
        except OSError as error:
            raise NetlinkError(f"netlink does not send: {error.strerror}") from error

    def _read(self) -> Iterator[tuple[int, int, int, bytes]]:
        """Type, flags, sequence and body of each message of one datagram."""
        try:
            data = self._sock.recv(_READ_SIZE)
        except BlockingIOError:
            raise NetlinkError("the kernel did not answer all requests") from None
        except OSError as error:  # ENOBUFS: answers were lost
            raise NetlinkError(f"netlink does not receive: {error.strerror}") from error
        at = 0
        while at + _HEADER.size <= len(data):
            size, kind, flags, sequence, _ = _HEADER.unpack_from(data, at)
            yield kind, flags, sequence, data[at + _HEADER.size : at + size]
            at += max(size + 3 & ~3, _HEADER.size)


def _refusal(flags: int, body: bytes) -> Refusal | None:
    """What an error message says; None for an acknowledgement."""
    (number,) = _ERROR.unpack_from(body)
    if number == 0:
        return None
    text = ""
    at = _ERROR.size + _HEADER.size
    while flags & _ACK_TEXTS and at + _ATTRIBUTE.size <= len(body):
        size, kind = _ATTRIBUTE.unpack_from(body, at)
        if kind == _ERROR_TEXT:
            text = body[at + _ATTRIBUTE.size : at + size].rstrip(b"\0").decode(errors="replace")
        at += max(size + 3 & ~3, _ATTRIBUTE.size)
    return Refusal(-number, text)
