"""SIP messages out of streams and datagrams."""

from __future__ import annotations

import itertools
import random
import zlib
from collections.abc import Hashable, Sequence

from imsbench.protocol.sip import (
    Header,
    Malformed,
    Message,
    Request,
    Response,
    parse_message,
    response_to,
    serialize_message,
    tag_of,
)
from imsbench.protocol.stream import SipReader
from tests.fuzz.harness import Run, Target
from tests.protocol.helpers import plain
from tests.protocol.test_sip import NOTIFY, REGISTER, UNAUTHORIZED

WORDS = (
    b"SIP/2.0", b"SIP/3.0", b"sip:", b"sips:", b"tel:", b"Via: ", b"v:", b"From: ", b"To: ", b"Call-ID: ",
    b"i:", b"CSeq: ", b"Content-Length: ", b"l: ", b"Contact: ", b"m: ", b"REGISTER", b"NOTIFY",
    b"SIP/2.0/TCP ", b";branch=z9hG4bK", b";BRANCH=", b";tag=", b";lr", b";rport", b"\r\n\r\n", b"\r\n\t",
    b"Content-Length: 0\r\n", b"Record-Route: <sip:a;lr>,<sip:b;lr>\r\n", b'"a, b" <sip:c>', b"401", b"1 ",
)  # fmt: skip
FOLDED = (
    b"OPTIONS sip:a@b SIP/2.0\r\nv: SIP/2.0/TCP\r\n a;branch=z9hG4bK1,\r\n\tSIP/2.0/UDP b\r\n"
    b'f: "q \\" ,;<" <sip:a@b>\r\n ;tag=1\r\nt: <sip:a@b>\r\ni: 1\r\nCSeq: 1\r\n OPTIONS\r\n'
    b"l: 3\r\n\r\nabc"
)


def seeds() -> list[bytes]:
    """Single messages, and streams of several with keep-alives between."""
    stream = b"\r\n\r\n" + REGISTER + UNAUTHORIZED + b"\r\n" + NOTIFY + b"\r\n\r\n"
    return [REGISTER, UNAUTHORIZED, NOTIFY, FOLDED, stream, REGISTER * 3]


def _stream() -> Run:
    def run(data: bytes) -> Hashable:
        whole = _read([data])
        pieces = _pieces(data)
        assert _read(pieces) == whole, "cut into pieces, the stream reads differently"
        reader = SipReader()
        for message in reader.feed(data):
            check(message)
        messages, pings, broken = whole
        return tuple(_kind(message) for message in messages[:3]), bool(pings), broken

    return run


def _datagram() -> Run:
    def run(data: bytes) -> Hashable:
        message = parse_message(data)
        check(message)
        return _kind(plain(message)), isinstance(message, Message) and len(message.headers) // 4

    return run


def _kind(message: tuple[object, ...]) -> Hashable:
    return message[:2] if message[0] != "request" else message[0]


def _read(pieces: Sequence[bytes]) -> tuple[list[tuple[object, ...]], int, bool]:
    reader = SipReader()
    messages = [plain(message) for piece in pieces for message in reader.feed(piece)]
    assert reader.pending <= 65_536 + 1_048_576 + 8
    return messages, reader.pings, reader.broken


def _pieces(data: bytes) -> list[bytes]:
    """The same cuts for the same data: at up to eight places, short ends among them."""
    source = random.Random(zlib.crc32(data))
    cuts = sorted({source.randrange(len(data) + 1) for _ in range(source.randrange(1, 9))})
    edges = [0, *cuts, len(data)]
    return [data[start:end] for start, end in itertools.pairwise(edges)]


def check(message: Request | Response | Malformed) -> None:
    """What must hold of anything that a SIP reader gives."""
    if isinstance(message, Malformed):
        assert len(message.reason) < 60
        assert len(message.data) <= 200
        return
    again = parse_message(serialize_message(message))
    assert not isinstance(again, Malformed), f"what was read cannot be written: {again.reason}"
    assert _comparable(again) == _comparable(message), "written and read again, it differs"
    assert message.values("via"), "no Via entry"
    for name in {name for name, _ in message.headers[:40]}:
        assert all(message.values(name))
    for _, value in message.headers[:40]:
        tag_of(value)
    if isinstance(message, Request):
        check_answer(message, response_to(message, 200, "OK", to_tag="mine"))


def check_answer(request: Request, response: Response) -> None:
    """An answer can be read, and belongs to its request (RFC 3261 §17.1.3)."""
    again = parse_message(serialize_message(response))
    assert isinstance(again, Response), f"the answer is no message: {again}"
    assert again.status == response.status
    for one in ("branch", "call_id", "cseq", "method"):
        assert getattr(again, one) == getattr(request, one), one
    assert len(again.headers) == sum(name != "content-length" for name, _ in response.headers) + 1


def _comparable(message: Message) -> tuple[object, ...]:
    kept: list[Header] = [
        (name, value) for name, value in message.headers if name != "content-length"
    ]
    start = (
        (message.uri,) if isinstance(message, Request)
        else (message.status, message.reason) if isinstance(message, Response) else ()
    )  # fmt: skip
    return (
        type(message), *start, message.method, message.branch, message.call_id, message.cseq, kept,
        message.body,
    )  # fmt: skip


TARGETS = [
    Target("sip-stream", "SipReader, whole and in pieces", _stream, seeds, WORDS),
    Target("sip-datagram", "parse_message, one message", _datagram, seeds, WORDS),
]
