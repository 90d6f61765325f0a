"""SDP of voice calls: what is written, what is read, offers and answers, and what is refused."""

from __future__ import annotations

import string
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imsbench.protocol.sdp import (
    MAX_BYTES,
    Direction,
    Media,
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
from imsbench.protocol.sip import Request, Response
from tests.phone.pair import Pair

IPV4, IPV6 = "198.18.0.1", "2001:2:0:1::1"

# What a VoLTE handset offers, with preconditions (IR.92; payload formats of RFC 4867 and RFC 4733).
OFFER = """v=0
o=- 7 1 IN IP4 198.18.0.1
s=-
c=IN IP4 198.18.0.1
t=0 0
m=audio 50000 RTP/AVP 116 107 118 96 111 110
b=AS:49
b=RS:600
b=RR:2000
a=rtpmap:116 AMR-WB/16000/1
a=fmtp:116 mode-change-capability=2;max-red=220
a=rtpmap:107 AMR-WB/16000/1
a=fmtp:107 octet-align=1;mode-change-capability=2;max-red=220
a=rtpmap:118 AMR/8000/1
a=fmtp:118 mode-change-capability=2;max-red=220
a=rtpmap:96 AMR/8000/1
a=fmtp:96 octet-align=1;mode-change-capability=2;max-red=220
a=rtpmap:111 telephone-event/16000
a=fmtp:111 0-15
a=rtpmap:110 telephone-event/8000
a=fmtp:110 0-15
a=ptime:20
a=maxptime:240
a=sendrecv
a=curr:qos local none
a=curr:qos remote none
a=des:qos mandatory local sendrecv
a=des:qos optional remote sendrecv
"""

ANSWER = """v=0
o=- 8 1 IN IP4 198.18.0.2
s=-
c=IN IP4 198.18.0.2
t=0 0
m=audio 50002 RTP/AVP 116 111
b=AS:49
b=RS:600
b=RR:2000
a=rtpmap:116 AMR-WB/16000/1
a=fmtp:116 mode-change-capability=2;max-red=220
a=rtpmap:111 telephone-event/16000
a=fmtp:111 0-15
a=ptime:20
a=maxptime:240
a=sendrecv
a=curr:qos local none
a=curr:qos remote none
a=des:qos mandatory local sendrecv
a=des:qos mandatory remote sendrecv
a=conf:qos remote sendrecv
"""


def crlf(text: str) -> bytes:
    """A description as it is sent."""
    return text.replace("\n", "\r\n").encode()


def offer(address: str = IPV4, *, preconditions: bool = True) -> Sdp:
    """The offer of an INVITE."""
    return make_offer(address, 50_000, "7", preconditions=preconditions)


def qos_of(sdp: Sdp) -> Qos:
    """The status of its only stream."""
    (media,) = sdp.media
    assert media.qos is not None
    return media.qos


# -- written and read


def test_the_offer_byte_by_byte() -> None:
    assert serialize_sdp(offer()) == crlf(OFFER)


def test_the_answer_byte_by_byte() -> None:
    answer = make_answer(parse_sdp(crlf(OFFER)), "198.18.0.2", 50_002, "8", 1)
    assert serialize_sdp(answer) == crlf(ANSWER)


def test_without_preconditions_there_is_no_status() -> None:
    plain = offer(preconditions=False)
    assert b"qos" not in serialize_sdp(plain)
    assert b"qos" not in serialize_sdp(make_answer(plain, IPV4, 50_002, "8", 1))
    assert plain.media[0].qos is None


def test_ipv6_is_named_in_both_lines() -> None:
    data = serialize_sdp(offer(IPV6))
    assert b"o=- 7 1 IN IP6 2001:2:0:1::1\r\n" in data
    assert b"c=IN IP6 2001:2:0:1::1\r\n" in data
    assert b"IP4" not in data
    assert parse_sdp(data) == offer(IPV6)
    answer = make_answer(parse_sdp(data), "2001:2:0:1::2", 50_002, "8", 1)
    assert parse_sdp(serialize_sdp(answer)).address == "2001:2:0:1::2"


def test_a_stream_with_an_address_of_its_own() -> None:
    text = OFFER.replace("c=IN IP4 198.18.0.1\n", "").replace(
        "b=AS:49\n", "c=IN IP6 2001:db8::9\nb=AS:49\n"
    )
    sdp = parse_sdp(crlf(text))
    assert (sdp.address, sdp.media[0].address) == ("", "2001:db8::9")


def test_line_feeds_alone_are_understood() -> None:
    assert parse_sdp(OFFER.encode()) == parse_sdp(crlf(OFFER))


def test_what_is_not_known_stays() -> None:
    text = OFFER.replace("a=ptime:20", "a=rtcp-xr:rcvr-rtt\na=ptime:20")
    assert serialize_sdp(parse_sdp(crlf(text))) == crlf(text)


TOKENS = st.text(string.ascii_letters + string.digits + "-.", min_size=1, max_size=10)
VALUES = st.text(string.ascii_letters + string.digits + " :/=;-", max_size=20)
NUMBERS = st.integers(0, 2**63 - 1)
ADDRESSES = st.one_of(
    st.ip_addresses(v=4).map(str), st.ip_addresses(v=6).map(lambda a: str(a.exploded))
)
MEDIA = st.builds(
    Media,
    TOKENS,
    st.integers(0, 65_535),
    TOKENS,
    st.lists(TOKENS, min_size=1, max_size=6).map(tuple),
    st.lists(VALUES, max_size=3),
    st.lists(VALUES, max_size=6),
    st.one_of(st.just(""), ADDRESSES),
)
SDPS = st.builds(
    Sdp,
    NUMBERS.map(str),
    NUMBERS,
    ADDRESSES,
    st.lists(MEDIA, max_size=3),
    st.lists(VALUES, max_size=3),
    st.lists(VALUES, max_size=3),
)


@given(SDPS)
def test_what_is_written_is_read_back(sdp: Sdp) -> None:
    assert parse_sdp(serialize_sdp(sdp)) == sdp


DIRECTIONS: st.SearchStrategy[Direction] = st.sampled_from(["none", "send", "recv", "sendrecv"])
DESIRED = st.builds(
    lambda strength, direction: f"{strength} {direction}",
    st.sampled_from(["mandatory", "optional", "none", "failure"]),
    DIRECTIONS,
)


@given(st.builds(Qos, DIRECTIONS, DIRECTIONS, DESIRED, DESIRED, st.sampled_from(["", "sendrecv"])))
def test_every_status_is_read_back(qos: Qos) -> None:
    sdp = with_status(offer(), qos)
    assert qos_of(parse_sdp(serialize_sdp(sdp))) == qos


# -- offers and answers with preconditions (RFC 3312 §5, RFC 3264)


def test_the_status_lines_through_a_call() -> None:
    """What both phones really send: offer 1, answer 1, offer 2, answer 2."""
    sent: list[tuple[str, Sdp]] = []

    def look(_pair: Pair, _name: str, message: Request | Response) -> bool:
        if message.body:
            method = message.method if isinstance(message, Request) else str(message.status)
            sent.append((method, parse_sdp(message.body)))
        return True

    pair = Pair()
    pair.hook = look
    pair.run()
    table = [
        (what, q.curr_local, q.curr_remote, q.des_local, q.des_remote, q.conf_remote)
        for what, sdp in sent
        for q in [qos_of(sdp)]
    ]
    must, may = "mandatory sendrecv", "optional sendrecv"
    assert table == [
        ("INVITE", "none", "none", must, may, ""),
        ("183", "none", "none", must, must, "sendrecv"),
        ("UPDATE", "sendrecv", "none", must, must, ""),
        ("200", "sendrecv", "sendrecv", must, must, ""),
    ]
    assert [sdp.version for _, sdp in sent] == [1, 1, 2, 2]
    ids = [sdp.session_id for _, sdp in sent]
    assert ids[0] == ids[2] != ids[1] == ids[3]
    assert sent[2][1].media[0].formats == ("116", "111")  # narrowed to what the answer chose
    assert not pair.outcome.wrong
    assert not pair.side.wrong


def test_the_answer_sees_the_offer_s_status_from_the_other_side() -> None:
    reserved = with_status(offer(), Qos(curr_local="sendrecv"))
    status = qos_of(make_answer(reserved, IPV4, 50_002, "8", 1))
    assert (status.curr_local, status.curr_remote) == ("none", "sendrecv")
    assert status.conf_remote == ""  # it is there already: nothing is to be confirmed


def test_each_description_of_a_side_counts_one_on() -> None:
    first = offer()
    second = with_status(first, Qos(curr_local="sendrecv"))
    third = with_status(second, second.media[0].qos, direction="sendonly")
    assert [first.version, second.version, third.version] == [1, 2, 3]
    assert first.session_id == second.session_id == third.session_id
    assert [sdp.media[0].direction for sdp in (first, second, third)] == [
        "sendrecv", "sendrecv", "sendonly",
    ]  # fmt: skip
    assert qos_of(first) == Qos()  # the one before is not changed by the next
    assert qos_of(third).curr_local == "sendrecv"


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ("sendrecv", "sendrecv"),
        ("sendonly", "recvonly"),
        ("recvonly", "sendonly"),
        ("inactive", "inactive"),
    ],
)
def test_directions_are_mirrored(asked: str, given: str) -> None:
    asking = make_offer(IPV4, 50_000, "7", preconditions=True, direction=asked)
    assert make_answer(asking, IPV4, 50_002, "8", 1).media[0].direction == given


def test_what_the_answer_did_not_take_is_offered_no_more() -> None:
    asking = parse_sdp(crlf(OFFER + "m=video 6000 RTP/AVP 99\na=rtpmap:99 H264/90000\n"))
    answer = make_answer(asking, IPV4, 50_002, "8", 1)
    audio, video = narrowed(asking, answer).media
    assert audio.formats == ("116", "111")
    assert audio.attributes[:4] == [
        "rtpmap:116 AMR-WB/16000/1",
        "fmtp:116 mode-change-capability=2;max-red=220",
        "rtpmap:111 telephone-event/16000",
        "fmtp:111 0-15",
    ]
    assert not any("AMR/8000" in value for value in audio.attributes)
    assert video == asking.media[1]  # a refused stream keeps its formats


def test_events_are_answered_at_the_clock_of_the_codec() -> None:
    narrow = parse_sdp(crlf(OFFER.replace("116 107 118 96 111 110", "118 96 111 110")))
    (media,) = make_answer(narrow, IPV4, 50_002, "8", 1).media
    assert media.formats == ("118", "110")


def test_a_static_payload_type_needs_no_rtpmap() -> None:
    plain = parse_sdp(
        b"v=0\r\no=- 1 1 IN IP4 192.0.2.1\r\ns=-\r\nc=IN IP4 192.0.2.1\r\nt=0 0\r\n"
        b"m=audio 6000 RTP/AVP 0 101\r\na=rtpmap:101 telephone-event/8000\r\n"
    )
    answer = make_answer(plain, IPV4, 50_002, "8", 1)
    assert answer.media[0].formats == ("0", "101")
    assert not fits(plain, answer)


def test_other_streams_are_refused_and_keep_their_place() -> None:
    text = OFFER.replace("m=audio", "m=video 6000 RTP/AVP 99\nm=audio")
    asking = parse_sdp(crlf(text))
    answer = make_answer(asking, IPV4, 50_002, "8", 1)
    assert [(media.kind, media.port) for media in answer.media] == [
        ("video", 0), ("audio", 50_002),
    ]  # fmt: skip
    assert not fits(asking, answer)


@pytest.mark.parametrize("line", ["m=video 6000 RTP/AVP 99", "m=audio 0 RTP/AVP 116"])
def test_an_offer_without_audio_has_no_answer(line: str) -> None:
    text = "\n".join(line if one.startswith("m=") else one for one in OFFER.split("\n"))
    with pytest.raises(SdpError, match="no audio"):
        make_answer(parse_sdp(crlf(text)), IPV4, 50_002, "8", 1)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("m=audio 50002", "m=audio 0"), "every stream is refused"),
        (("RTP/AVP 116 111", "RTP/AVP 116 112"), "not all offered"),
        (("RTP/AVP", "RTP/SAVP"), "RTP/SAVP for m=audio RTP/AVP"),
        (("m=audio 50002", "m=video 0 RTP/AVP 116\nm=audio 50002"), "2 streams for 1"),
    ],
)
def test_an_answer_that_is_none_is_found(change: tuple[str, str], why: str) -> None:
    assert not fits(offer(), parse_sdp(crlf(ANSWER)))
    assert why in fits(offer(), parse_sdp(crlf(ANSWER.replace(*change))))


@pytest.mark.parametrize(
    "change",
    [
        ("c=IN IP4 198.18.0.1", "c=IN IP4 198.18.0.9"),
        ("m=audio 50000", "m=audio 50002"),
        ("o=- 7 1", "o=- 7 2"),
        ("o=- 7 1", "o=- 6 1"),
        (" 116 107", " 107 116"),
        ("curr:qos local none", "curr:qos local sendrecv"),
        ("des:qos optional remote", "des:qos mandatory remote"),
        ("a=sendrecv", "a=sendonly"),
        ("a=sendrecv\n", "a=inactive\n"),
        ("b=AS:49", "b=AS:38"),
        ("b=RS:600\n", ""),
        ("t=0 0", "b=AS:49\nt=0 0"),
    ],
)
def test_what_a_network_may_not_change_is_seen(change: tuple[str, str]) -> None:
    assert same_session(offer(), parse_sdp(crlf(OFFER)))
    assert not same_session(offer(), parse_sdp(crlf(OFFER.replace(*change))))


@pytest.mark.parametrize(
    "change",
    [
        ("a=sendrecv\n", ""),  # it is the default (RFC 4566 §6)
        ("b=AS:49\nb=RS:600\n", "b=RS:600\nb=AS:49\n"),
        ("m=audio 50000 RTP/AVP 116 107 118 96 111 110\n",
         "m=audio 50000 RTP/AVP 116 107 118 96 111 110\nc=IN IP4 198.18.0.1\n"),
    ],
)  # fmt: skip
def test_what_means_the_same_is_the_same_session(change: tuple[str, str]) -> None:
    assert OFFER.replace(*change) != OFFER
    assert same_session(offer(), parse_sdp(crlf(OFFER.replace(*change))))


@pytest.mark.parametrize("other", ["sendonly", "inactive"])
def test_a_direction_of_the_session_is_that_of_its_streams(other: str) -> None:
    silent = OFFER.replace("a=sendrecv\n", "")
    of_session = silent.replace("t=0 0\n", f"t=0 0\na={other}\n")
    assert not same_session(offer(), parse_sdp(crlf(of_session)))
    assert same_session(
        parse_sdp(crlf(of_session)),
        parse_sdp(crlf(OFFER.replace("sendrecv\na=curr", f"{other}\na=curr"))),
    )


# -- hostile


HEAD = "v=0\no=- 7 1 IN IP4 198.18.0.1\ns=-\nc=IN IP4 198.18.0.1\nt=0 0\n"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "does not begin with v=0"),
        ("o=- 7 1 IN IP4 198.18.0.1\n", "does not begin with v=0"),
        ("v=1\n", "does not begin with v=0"),
        ("v=0\ns=-\nc=IN IP4 198.18.0.1\n", "no o= line"),
        ("v=0\no=- 7 1 IN IP4 x\nm=audio 4 RTP/AVP 0\n", "no c= line"),
        ("v=0\no=- 7 IN IP4 198.18.0.1\n", "bad o= line"),
        ("v=0\no=- 7 -1 IN IP4 198.18.0.1\n", "bad version"),
        ("v=0\no=- 7 ٣ IN IP4 198.18.0.1\n", "bad version"),
        ("v=0\no=- 7 " + "9" * 5000 + " IN IP4 198.18.0.1\n", "bad version"),
        ("v=0\no=-  1 IN IP4 198.18.0.1\n", "no session id"),
        (HEAD + "\x00\n", "not a line of SDP"),
        (HEAD + "m\n", "not a line of SDP"),
        (HEAD + "m=audio\n", "bad m= line"),
        (HEAD + "m=audio 65536 RTP/AVP 0\n", "bad m= line"),
        (HEAD + "m=audio -1 RTP/AVP 0\n", "bad m= line"),
        (HEAD + "m=audio ² RTP/AVP 0\n", "bad m= line"),
        (HEAD + "m=audio 4 RTP/AVP \n", "without a type, protocol or format"),
        (HEAD + "m= 4 RTP/AVP 0\n", "without a type, protocol or format"),
        (HEAD + "c=IN IP5 198.18.0.1\n", "bad c= line"),
        (HEAD + "c=IN IP4\n", "bad c= line"),
        (HEAD + "c=IN IP4 2001:2:0:1::1\n", "bad address"),
        (HEAD + "c=IN IP6 \n", "bad address"),
        (HEAD + "a=" + "x" * MAX_BYTES + "\n", "over 64 KiB"),
    ],
)
def test_what_is_no_description_is_refused(text: str, why: str) -> None:
    with pytest.raises(SdpError, match=why):
        parse_sdp(crlf(text))


@pytest.mark.parametrize(
    "line",
    [
        "rtpmap:0 PCMU", "rtpmap:0", "rtpmap:", "curr:qos", "curr:qos local", "curr:qos local all",
        "curr:qos middle none", "des:qos mandatory", "des:qos a b c d", "conf:qos", "conf:qos  ",
        "fmtp:0", "curr:e2e local none",
    ],
)  # fmt: skip
def test_broken_attributes_do_no_harm(line: str) -> None:
    asking = parse_sdp(crlf(f"{HEAD}m=audio 4 RTP/AVP 0\na={line}\n"))
    answer = make_answer(asking, IPV4, 50_002, "8", 1)
    assert not fits(asking, answer)
    assert parse_sdp(serialize_sdp(answer)) == answer


@given(st.binary(max_size=300))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    with pytest.raises(SdpError):
        parse_sdp(data)


@given(st.data())
def test_a_changed_offer_is_refused_or_answered(data: st.DataObject) -> None:
    """Some lines of a good offer lost, doubled or garbled."""
    lines = OFFER.strip().split("\n")
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(lines) - 1))
        junk = data.draw(st.text(string.printable, max_size=12))
        cut = data.draw(st.integers(0, len(lines[at])))
        change = data.draw(st.sampled_from(["lose", "double", "cut", "junk"]))
        if change == "lose" and len(lines) > 1:
            del lines[at]
        elif change == "double":
            lines.insert(at, lines[at])
        elif change == "cut":
            lines[at] = lines[at][:cut]
        else:
            lines[at] = lines[at][:cut] + junk + lines[at][cut:]
    try:
        asking = parse_sdp(crlf("\n".join(lines) + "\n"))
        answer = make_answer(asking, IPV4, 50_002, "8", 1)
    except SdpError:
        return
    assert not fits(asking, answer)
    assert parse_sdp(serialize_sdp(answer)).media == answer.media


@pytest.mark.parametrize("line", ["b=", "a=", "m=audio 4 RTP/AVP 0", "a=rtpmap:0 A/8000"])
def test_the_longest_description_is_read_in_no_time(line: str) -> None:
    """Nothing is quadratic: 64 KiB of the shortest lines."""
    body = HEAD + "m=audio 4 RTP/AVP 0\n"
    body += (line + "\n") * ((MAX_BYTES - len(body)) // (len(line) + 1))
    begin = time.process_time()
    asking = parse_sdp(body.encode())
    make_answer(asking, IPV4, 50_002, "8", 1)
    assert time.process_time() - begin < 0.3
