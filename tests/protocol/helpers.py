"""One helper that feeds a reader every way a TCP stream can arrive."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from imsbench.protocol.sip import Malformed, Request, Response
from imsbench.protocol.stream import SipReader

LEFT_OVER = b"INVITE sip:left.over SIP/2.0\r\nVia: SIP/2.0/TCP a;branch=z9hG4bK"


@dataclass(frozen=True)
class Read:
    """What a reader made of a stream: plain values that compare."""

    messages: list[tuple[object, ...]]
    """One tuple a message, see plain()."""
    pings: int = 0
    pongs: int = 0
    broken: bool = False
    objects: list[Request | Response | Malformed] = field(default_factory=list, compare=False)
    """The messages themselves, of the stream fed whole."""


def plain(message: Request | Response | Malformed) -> tuple[object, ...]:
    """A message as a tuple of all that it holds."""
    if isinstance(message, Malformed):
        return ("malformed", message.reason)
    common = (message.method, message.branch, message.call_id, message.cseq, message.headers)
    if isinstance(message, Request):
        return ("request", message.uri, *common, message.body)
    return ("response", message.status, message.reason, *common, message.body)


def feed_every_way(data: bytes, make_reader: Callable[[], SipReader] = SipReader) -> Read:
    """Feed a stream whole, byte by byte, cut in two at each place, in small pieces, and with the
    start of another message behind it; all must read the same."""
    whole = _feed(make_reader(), [data])
    ways = [[data[i : i + 1] for i in range(len(data))]]
    ways += [[data[i : i + size] for i in range(0, len(data), size)] for size in (2, 3, 7, 50)]
    step = max(1, len(data) // 200)
    ways += [[data[:cut], data[cut:]] for cut in range(1, len(data), step)]
    for pieces in ways:
        assert _feed(make_reader(), pieces) == whole, pieces[:3]
    reader = make_reader()
    before = reader.pending
    assert _feed(reader, [data + LEFT_OVER]).messages == whole.messages
    assert before == 0
    assert reader.pending == (0 if whole.broken else len(LEFT_OVER))
    return whole


def _feed(reader: SipReader, pieces: Sequence[bytes]) -> Read:
    found = [message for piece in pieces for message in reader.feed(piece)]
    return Read(
        [plain(message) for message in found], reader.pings, reader.pongs, reader.broken, found
    )
