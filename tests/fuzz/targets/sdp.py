"""Session descriptions: read, answered, narrowed, compared."""

from __future__ import annotations

from collections.abc import Hashable

from imsbench.protocol.sdp import (
    Qos,
    Sdp,
    SdpError,
    fits,
    make_answer,
    make_offer,
    narrowed,
    parse_sdp,
    same_session,
    serialize_sdp,
    with_status,
)
from tests.fuzz.harness import Run, Target, kind_of

_BETWEEN = b"\n--\n"
"""In an input: what follows is the answer to what stands before."""
_WORDS = (
    _BETWEEN, b"v=0\r\n", b"o=- 1 1 IN IP4 192.0.2.1\r\n", b"c=IN IP4 192.0.2.1\r\n",
    b"c=IN IP6 2001:db8::1\r\n",
    b"m=audio 40000 RTP/AVP 116\r\n", b"m=video 0 RTP/AVP 31\r\n", b"a=rtpmap:116 AMR-WB/16000/1\r\n",
    b"a=fmtp:116 x=1\r\n", b"a=curr:qos local none\r\n", b"a=des:qos mandatory local sendrecv\r\n",
    b"a=des:qos optional remote sendrecv\r\n", b"a=conf:qos remote sendrecv\r\n", b"a=sendonly\r\n",
    b"a=inactive\r\n",
    b"b=AS:49\r\n", b" 0 ", b"telephone-event/16000", b"192.0.2.1/127",
)  # fmt: skip


def _sdp() -> Run:
    def run(data: bytes) -> Hashable:
        first, _, second = data.partition(_BETWEEN)
        try:
            offer = parse_sdp(first)
        except SdpError as error:
            return kind_of(error)
        _check(offer)
        try:
            answer = make_answer(offer, "198.18.0.1", 40000, "7", 1)
        except SdpError as error:
            return kind_of(error)
        assert fits(offer, answer) == "", fits(offer, answer)
        text = serialize_sdp(answer)
        assert len(text) > 60_000 or same_session(answer, parse_sdp(text)), "our answer differs"
        try:
            theirs = parse_sdp(second)
        except SdpError as error:
            return "answered", kind_of(error)
        why = fits(offer, theirs)
        if not why:
            _check(narrowed(offer, theirs))
        return len(offer.media) % 8, len(theirs.media) % 8, not why

    return run


def _check(sdp: Sdp) -> None:
    """A description survives being written, as it is and with another status."""
    for media in sdp.media:
        assert media.direction
        assert media.qos is None or isinstance(media.qos, Qos)
    text = serialize_sdp(sdp)
    if sdp.address and len(text) < 4_000:  # with a status in every stream it still is under 64 KiB
        assert parse_sdp(text) == sdp, "written and read again, it differs"
        again = with_status(sdp, Qos(), direction="inactive")
        assert same_session(again, parse_sdp(serialize_sdp(again)))


def _seeds() -> list[bytes]:
    offer = make_offer("198.18.0.1", 40000, "1", preconditions=True)
    plain = make_offer("2001:2:0:1::1", 40002, "2", preconditions=False, direction="sendonly")
    answer = make_answer(offer, "198.18.0.2", 40004, "3", 1)
    video = (
        b"m=video 40010 RTP/AVP 31\r\nc=IN IP4 192.0.2.1\r\nb=AS:100\r\na=rtpmap:31 H261/90000\r\n"
    )
    return [
        serialize_sdp(offer) + _BETWEEN + serialize_sdp(answer),
        serialize_sdp(plain),
        serialize_sdp(offer)
        + video
        + _BETWEEN
        + serialize_sdp(answer)
        + b"m=video 0 RTP/AVP 31\r\n",
    ]


TARGETS = [
    Target("sdp", "session descriptions, offers and answers", _sdp, _seeds, _WORDS, 70_000),
]
