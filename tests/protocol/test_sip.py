"""SIP messages and their framing."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from imsbench.protocol.sip import (
    MAX_BODY_BYTES,
    MAX_HEADER_BYTES,
    Malformed,
    Request,
    Response,
    parse_message,
    response_to,
    serialize_message,
    tag_of,
)
from imsbench.protocol.stream import SipReader
from tests.protocol.helpers import feed_every_way, plain

REGISTER = b"""\
REGISTER sip:ims.example SIP/2.0\r
Via: SIP/2.0/TCP 198.18.0.1:6101;branch=z9hG4bKabc;rport\r
Max-Forwards: 70\r
From: <sip:001010000000001@ims.example>;tag=a1\r
To: <sip:001010000000001@ims.example>\r
Call-ID: 0123@198.18.0.1\r
CSeq: 7 REGISTER\r
Contact: <sip:001010000000001@198.18.0.1:6101>;+g.3gpp.smsip\r
Authorization: Digest username="u",realm="ims.example",uri="sip:ims.example",nonce="",response=""\r
Content-Length: 0\r
\r
"""

UNAUTHORIZED = b"""\
SIP/2.0 401 Unauthorized\r
Via: SIP/2.0/TCP 198.18.0.1:6101;branch=z9hG4bKabc;rport=40000;received=198.18.0.1\r
From: <sip:001010000000001@ims.example>;tag=a1\r
To: <sip:001010000000001@ims.example>;tag=b2\r
Call-ID: 0123@198.18.0.1\r
CSeq: 7 REGISTER\r
WWW-Authenticate: Digest realm="ims.example",nonce="bm9uY2U=",algorithm=AKAv1-MD5\r
Content-Length: 0\r
\r
"""

NOTIFY = b"""\
NOTIFY sip:001010000000001@[2001:2:0:1::1]:6101 SIP/2.0\r
v: SIP/2.0/TCP [2001:2:0:2::10]:40001;branch=z9hG4bKn1\r
v: SIP/2.0/TCP [2001:2:0:2::10]:6060;branch=z9hG4bKn0\r
f: <sip:+15550000001@ims.example>;tag=c3\r
t: <sip:+15550000001@ims.example>;tag=d4\r
i: 4567\r
CSeq: 1 NOTIFY\r
o: reg\r
c: application/reginfo+xml\r
l: 9\r
\r
<reginfo>"""


def _head(*lines: str, body: bytes = b"") -> bytes:
    return "\r\n".join((*lines, "", "")).encode() + body


def _lines(message: bytes, *, without: str = "", instead: tuple[str, ...] = ()) -> bytes:
    """A message with the lines of one header left out or replaced."""
    head, _, body = message.partition(b"\r\n\r\n")
    kept = [
        line
        for line in head.decode().split("\r\n")
        if not without or not line.lower().startswith(without.lower() + ":")
    ]
    return _head(*kept, *instead, body=body)


def _request(data: bytes) -> Request:
    message = parse_message(data)
    assert isinstance(message, Request), message
    return message


def _response(data: bytes) -> Response:
    message = parse_message(data)
    assert isinstance(message, Response), message
    return message


# what a message holds


def test_request_is_read() -> None:
    request = _request(REGISTER)
    assert (request.method, request.uri) == ("REGISTER", "sip:ims.example")
    assert (request.branch, request.call_id, request.cseq) == ("z9hG4bKabc", "0123@198.18.0.1", 7)
    assert request.get("max-forwards") == "70"
    assert request.get("contact") == "<sip:001010000000001@198.18.0.1:6101>;+g.3gpp.smsip"
    assert request.get("expires") is None
    assert [name for name, _ in request.headers][:3] == ["via", "max-forwards", "from"]
    assert request.body == b""


def test_response_is_read() -> None:
    response = _response(UNAUTHORIZED)
    assert (response.status, response.reason, response.method) == (401, "Unauthorized", "REGISTER")
    assert (response.branch, response.cseq) == ("z9hG4bKabc", 7)


def test_compact_names_are_long_ones() -> None:
    notify = _request(NOTIFY)
    assert [name for name, _ in notify.headers] == [
        "via", "via", "from", "to", "call-id", "cseq", "event", "content-type", "content-length",
    ]  # fmt: skip
    assert notify.branch == "z9hG4bKn1"
    assert notify.body == b"<reginfo>"
    for upper in (NOTIFY.replace(b"\nv:", b"\nV:"), NOTIFY.replace(b"\nl:", b"\nL \t:")):
        assert plain(_request(upper)) == plain(notify)


@pytest.mark.parametrize("name", ["CONTACT", "contact", "CoNtAcT", "Contact ", "m", "M\t"])
def test_names_in_any_case_with_blanks_before_the_colon(name: str) -> None:
    data = _lines(REGISTER, without="Contact", instead=(f"{name}: <sip:a>",))
    assert _request(data).get("contact") == "<sip:a>"


def test_folded_headers_are_joined() -> None:
    """RFC 3261 §7.3.1."""
    folded = (
        "Subject: one",
        "  two",
        "\tthree: not a header",
        "Via:",
        " SIP/2.0/UDP b;branch=z9hG4bKx",
        "X-Last: 1",
    )
    request = _request(_lines(REGISTER, instead=folded))
    assert request.get("subject") == "one two three: not a header"
    assert request.get_all("via")[1] == "SIP/2.0/UDP b;branch=z9hG4bKx"
    assert request.get("x-last") == "1"


def test_list_headers_on_one_line_or_many_are_the_same() -> None:
    one = ('Route: <sip:a;lr>, "a, b" <sip:c,d@e;lr>,<sip:f>;x="1,2"',)
    many = ("Route: <sip:a;lr>", 'Route: "a, b" <sip:c,d@e;lr>', 'route: <sip:f>;x="1,2"')
    expected = ["<sip:a;lr>", '"a, b" <sip:c,d@e;lr>', '<sip:f>;x="1,2"']
    for lines in (one, many):
        assert _request(_lines(REGISTER, instead=lines)).values("route") == expected
    assert _request(REGISTER).values("route") == []
    assert _request(_lines(REGISTER, instead=("Supported:",))).values("supported") == []


@pytest.mark.parametrize(
    ("via", "branch"),
    [
        ("SIP/2.0/TCP a;branch=z9hG4bK1;rport", "z9hG4bK1"),
        ("SIP/2.0/TCP a;rport;branch=z9hG4bK1", "z9hG4bK1"),
        ("SIP/2.0/TCP a;Branch=z9hG4bK1", "z9hG4bK1"),
        ("SIP / 2.0 / TCP a ; branch = z9hG4bK1 ; rport", "z9hG4bK1"),
        ("SIP/2.0/TCP a;branch=z9hG4bK1,SIP/2.0/UDP b;branch=z9hG4bK2", "z9hG4bK1"),
        ("SIP/2.0/TCP a, SIP/2.0/UDP b;branch=z9hG4bK2", ""),
        ('SIP/2.0/TCP a;x="1,2;branch";branch=z9hG4bK1', "z9hG4bK1"),
        ("SIP/2.0/TCP [2001:2::1]:6101;branch=z9hG4bK1", "z9hG4bK1"),
        ("SIP/2.0/TCP a;xbranch=1", ""),
        ("SIP/2.0/TCP a", ""),
    ],
)
def test_branch_of_the_topmost_via(via: str, branch: str) -> None:
    data = _lines(REGISTER, without="Via", instead=(f"Via: {via}",))
    assert _request(data).branch == branch


@pytest.mark.parametrize(
    ("value", "tag"),
    [
        ("<sip:a@b>;tag=1", "1"),
        ("<sip:a@b;tag=no>", ""),
        ("<sip:a@b;tag=no>;x=1;TAG = 2 ", "2"),
        ('"a>;tag=no" <sip:a@b>', ""),
        ('"a" <sip:a@b>;x=">;y";tag=3', "3"),
        ("sip:a@b;tag=4", "4"),
        ("sip:a@b", ""),
        ("", ""),
    ],
)
def test_tag(value: str, tag: str) -> None:
    assert tag_of(value) == tag


def test_version_in_any_case() -> None:
    """RFC 3261 §7.1: the SIP-Version is not case-sensitive."""
    assert _request(REGISTER.replace(b"SIP/2.0\r", b"sip/2.0\r", 1)).method == "REGISTER"
    assert _response(UNAUTHORIZED.replace(b"SIP/2.0", b"Sip/2.0", 1)).status == 401


@pytest.mark.parametrize(
    ("line", "status", "reason"),
    [
        ("SIP/2.0 200 OK", 200, "OK"),
        ("SIP/2.0 200 ", 200, ""),
        ("SIP/2.0 200", 200, ""),
        ("SIP/2.0 100 Trying  well", 100, "Trying  well"),
        ("SIP/2.0 699 Ünicode", 699, "Ünicode"),
    ],
)
def test_status_lines(line: str, status: int, reason: str) -> None:
    response = _response(UNAUTHORIZED.replace(b"SIP/2.0 401 Unauthorized", line.encode(), 1))
    assert (response.status, response.reason) == (status, reason)


def test_bytes_that_are_no_utf8_do_not_hide_a_message() -> None:
    assert _request(_lines(REGISTER, instead=("Subject: x",)).replace(b"x\r", b"\xff\r")).cseq == 7


# datagrams


def test_datagram_without_content_length_reaches_to_its_end() -> None:
    data = _lines(NOTIFY, without="l")
    assert _request(data).body == b"<reginfo>"
    assert _request(NOTIFY + b"more").body == b"<reginfo>"  # RFC 3261 §18.3: discarded


MALFORMED = [
    (REGISTER[:-2], "no end of headers"),
    (b"", "no end of headers"),
    (_lines(REGISTER, without="Via"), "no Via"),
    (_lines(REGISTER, without="From"), "no From"),
    (_lines(REGISTER, without="To"), "no To"),
    (_lines(REGISTER, without="Call-ID"), "no Call-ID"),
    (_lines(REGISTER, without="CSeq"), "no CSeq"),
    (_lines(REGISTER, without="To", instead=("To: ",)), "no To"),
    (_lines(REGISTER, without="CSeq", instead=("CSeq: REGISTER",)), "bad CSeq"),
    (_lines(REGISTER, without="CSeq", instead=("CSeq: 7",)), "bad CSeq"),
    (_lines(REGISTER, without="CSeq", instead=("CSeq: -7 REGISTER",)), "bad CSeq"),
    (_lines(REGISTER, without="CSeq", instead=("CSeq: \u0667 REGISTER",)), "bad CSeq"),
    (_lines(REGISTER, without="CSeq", instead=("CSeq: 2147483648 REGISTER",)), "bad CSeq"),
    (_lines(REGISTER, without="CSeq", instead=("CSeq: 36893488147419103232 REGISTER",)), "bad CSeq"),
    (_lines(REGISTER, without="CSeq", instead=("CSeq: 7 INVITE",)), "CSeq method differs"),
    (_lines(REGISTER, instead=("no colon",)), "bad header line"),
    (_lines(REGISTER, instead=(": no name",)), "bad header line"),
    (_lines(REGISTER, instead=("two words: x",)), "bad header line"),
    (_lines(REGISTER, instead=("Ünicode: x",)), "bad header line"),
    (_lines(REGISTER, instead=("\u212a: x",)), "bad header line"),  # lower-cases to "k"
    (REGISTER.replace(b"SIP/2.0\r\n", b"SIP/2.0\r\n folded\r\n", 1), "bad header line"),
    (_lines(REGISTER, instead=("X: a\0b",)), "NUL in headers"),
    (_lines(REGISTER, instead=("X: a\nVia: b",)), "lone CR or LF in headers"),
    (_lines(REGISTER, instead=("X: a\rb",)), "lone CR or LF in headers"),
    (REGISTER.replace(b"SIP/2.0\r", b"SIP/3.0\r", 1), "bad start line"),
    (REGISTER.replace(b"sip:ims.example SIP", b"sip:a b SIP", 1), "bad start line"),
    (REGISTER.replace(b"sip:ims.example SIP", b" SIP", 1), "bad start line"),
    (REGISTER.replace(b" SIP/2.0\r", b"\r", 1), "bad start line"),
    (UNAUTHORIZED.replace(b" 401 ", b" 99 ", 1), "bad status line"),
    (UNAUTHORIZED.replace(b" 401 ", b" 099 ", 1), "bad status line"),
    (UNAUTHORIZED.replace(b" 401 ", b" 700 ", 1), "bad status line"),
    (UNAUTHORIZED.replace(b" 401 ", b" 4000 ", 1), "bad status line"),
    (UNAUTHORIZED.replace(b" 401 ", b" abc ", 1), "bad status line"),
    (_lines(REGISTER, without="Via", instead=("Via: ,SIP/2.0/TCP a;branch=1",)), "bad Via"),
    (_lines(REGISTER, instead=("From: <sip:mallory@b>;tag=1",)), "two From"),
    (_lines(REGISTER, instead=("t: <sip:mallory@b>",)), "two To"),
    (_lines(REGISTER, instead=("i: another",)), "two Call-ID"),
    (_lines(REGISTER, instead=("CSeq: 8 REGISTER",)), "two CSeq"),
]  # fmt: skip
BAD_LENGTHS = [
    ("-1", "bad Content-Length"),
    ("1x", "bad Content-Length"),
    ("", "bad Content-Length"),
    ("²", "bad Content-Length"),
    ("99999999999", "bad Content-Length"),
    (str(MAX_BODY_BYTES + 1), "body over 1 MiB"),
    ("0\r\nContent-Length: 1", "two Content-Lengths"),
]


@pytest.mark.parametrize(("data", "reason"), MALFORMED)
def test_malformed_datagrams_name_their_reason(data: bytes, reason: str) -> None:
    message = parse_message(data)
    assert isinstance(message, Malformed)
    assert message.reason == reason
    assert message.data == data[: len(message.data)]
    assert len(message.data) <= 200


@pytest.mark.parametrize(
    ("length", "reason"), [*BAD_LENGTHS, ("1", "Content-Length beyond the datagram")]
)
def test_bad_length_of_a_datagram(length: str, reason: str) -> None:
    data = _lines(REGISTER, without="Content-Length", instead=(f"Content-Length: {length}",))
    message = parse_message(data)
    assert isinstance(message, Malformed)
    assert message.reason == reason


# streams


@pytest.mark.parametrize("data", [REGISTER, UNAUTHORIZED, NOTIFY])
def test_stream_reads_as_the_datagram_does(data: bytes) -> None:
    read = feed_every_way(data)
    assert read.messages == [plain(_message(data))]
    assert not read.broken


def _message(data: bytes) -> Request | Response | Malformed:
    return parse_message(data)


def test_several_messages_in_a_segment() -> None:
    read = feed_every_way(UNAUTHORIZED + NOTIFY + REGISTER)
    assert read.messages == [plain(_message(data)) for data in (UNAUTHORIZED, NOTIFY, REGISTER)]


def test_keep_alives_between_messages() -> None:
    """RFC 5626 §3.5.1: a double CRLF is a ping, cut in two or not."""
    read = feed_every_way(b"\r\n\r\n" + UNAUTHORIZED + b"\r\n\r\n\r\n\r\n" + NOTIFY)
    assert read.messages == [plain(_message(UNAUTHORIZED)), plain(_message(NOTIFY))]
    assert (read.pings, read.pongs) == (3, 0)


def test_line_ends_before_a_message_mean_nothing() -> None:
    """RFC 3261 §7.5."""
    read = feed_every_way(b"\r\n" + UNAUTHORIZED + b"\r\n\r\n\r\n" + NOTIFY + b"\n" + REGISTER)
    assert len(read.messages) == 3
    assert (read.pings, read.pongs, read.broken) == (1, 0, False)


def test_a_ping_cut_in_two_is_one_ping() -> None:
    for first in (b"\r", b"\r\n", b"\r\n\r"):
        reader = SipReader()
        assert reader.feed(first) == []
        assert (reader.pings, reader.pending) == (0, 0)
        assert reader.feed(b"\r\n\r\n"[len(first) :]) == []
        assert (reader.pings, reader.pongs, reader.pending) == (1, 0, 0)


def test_a_pong_is_read_at_once_and_never_half_a_ping() -> None:
    reader = SipReader()
    for pongs in (1, 2, 3):
        reader.pongs_due += 1
        assert reader.feed(b"\r\n") == []
        assert (reader.pongs, reader.pongs_due, reader.pings) == (pongs, 0, 0)


def test_pongs_fed_every_way() -> None:
    def waiting() -> SipReader:
        reader = SipReader()
        reader.pongs_due = 2
        return reader

    read = feed_every_way(b"\r\n" + UNAUTHORIZED + b"\r\n" + b"\r\n\r\n" + NOTIFY, waiting)
    assert (read.pongs, read.pings, len(read.messages)) == (2, 1, 2)


@pytest.mark.parametrize(("data", "reason"), MALFORMED[2:])
def test_a_malformed_message_with_a_length_does_not_break_the_stream(
    data: bytes, reason: str
) -> None:
    with_body = data.replace(b"Content-Length: 0", b"Content-Length: 5").replace(
        b"\r\n\r\n", b"\r\n\r\nabcde"
    )
    read = feed_every_way(UNAUTHORIZED + with_body + NOTIFY)
    assert read.messages == [
        plain(_message(UNAUTHORIZED)), ("malformed", reason), plain(_message(NOTIFY)),
    ]  # fmt: skip
    assert not read.broken


@pytest.mark.parametrize(("length", "reason"), BAD_LENGTHS)
def test_a_bad_length_breaks_the_stream(length: str, reason: str) -> None:
    data = _lines(REGISTER, without="Content-Length", instead=(f"Content-Length: {length}",))
    read = feed_every_way(UNAUTHORIZED + data + NOTIFY)
    assert read.messages == [plain(_message(UNAUTHORIZED)), ("malformed", reason)]
    assert read.broken


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (_lines(REGISTER, without="Content-Length"), "no Content-Length on a stream"),
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "no Via"),
        (b"GET / HTTP/1.1\r\nContent-Length: 9999999\r\n\r\n", "no Via"),
        (b"GET / HTTP/1.1\r\nContent-Length: 9999999999999\r\n\r\n", "no Via"),
    ],
)
def test_what_cannot_be_framed_breaks_the_stream(data: bytes, reason: str) -> None:
    read = feed_every_way(data)
    assert read.messages == [("malformed", reason)]
    assert read.broken


def test_a_broken_reader_reads_nothing_more() -> None:
    reader = SipReader()
    (malformed,) = reader.feed(_lines(REGISTER, without="Content-Length"))
    assert isinstance(malformed, Malformed)
    assert reader.feed(REGISTER) == []
    assert (reader.broken, reader.pending) == (True, 0)


def test_headers_are_bounded() -> None:
    padding = MAX_HEADER_BYTES - len(REGISTER) + 4 - len("X: \r\n")
    fits = _lines(REGISTER, instead=(f"X: {'x' * padding}",))
    assert fits.index(b"\r\n\r\n") == MAX_HEADER_BYTES
    for pieces in ([fits], [fits[:-3], fits[-3:]], [fits[:-1], fits[-1:]]):
        reader = SipReader()
        messages = [message for piece in pieces for message in reader.feed(piece)]
        assert [type(message) for message in messages] == [Request]
    for size in (len(fits) + 1, 1000):
        reader = SipReader()
        data = fits.replace(b"xx", b"xxx", 1)
        messages = [
            m for i in range(0, len(data), size) for m in reader.feed(data[i : i + size])
        ]  # fmt: skip
        assert [plain(message) for message in messages] == [("malformed", "headers over 64 KiB")]
        assert reader.broken


def test_a_large_body_arrives_in_segments() -> None:
    body = bytes(range(256)) * 4096
    head = _lines(REGISTER, without="Content-Length", instead=(f"Content-Length: {len(body)}",))
    data = head + body + UNAUTHORIZED
    reader = SipReader()
    messages = [m for i in range(0, len(data), 1448) for m in reader.feed(data[i : i + 1448])]
    assert isinstance(messages[0], Request)
    assert messages[0].body == body
    assert [type(message) for message in messages] == [Request, Response]


# written again


def test_serialize_writes_the_usual_names_and_the_length() -> None:
    request = _request(NOTIFY)
    assert serialize_message(request) == (
        b"NOTIFY sip:001010000000001@[2001:2:0:1::1]:6101 SIP/2.0\r\n"
        b"Via: SIP/2.0/TCP [2001:2:0:2::10]:40001;branch=z9hG4bKn1\r\n"
        b"Via: SIP/2.0/TCP [2001:2:0:2::10]:6060;branch=z9hG4bKn0\r\n"
        b"From: <sip:+15550000001@ims.example>;tag=c3\r\n"
        b"To: <sip:+15550000001@ims.example>;tag=d4\r\n"
        b"Call-ID: 4567\r\n"
        b"CSeq: 1 NOTIFY\r\n"
        b"Event: reg\r\n"
        b"Content-Type: application/reginfo+xml\r\n"
        b"Content-Length: 9\r\n\r\n<reginfo>"
    )
    assert serialize_message(_request(REGISTER)) == REGISTER
    assert serialize_message(_response(UNAUTHORIZED)) == UNAUTHORIZED


def test_a_stale_length_is_never_written() -> None:
    request = _request(NOTIFY)
    request.body = b"shorter"
    assert serialize_message(request).count(b"ontent-Length: 7\r\n") == 1
    assert b"Length: 9" not in serialize_message(request)


def test_response_copies_what_a_response_must() -> None:
    """RFC 3261 §8.2.6, §12.1.1."""
    request = _request(_lines(NOTIFY, instead=("Record-Route: <sip:p;lr>", "Max-Forwards: 7")))
    response = response_to(request, 200, "OK", to_tag="new", headers=[("expires", "60")])
    assert [name for name, _ in response.headers] == [
        "via", "via", "from", "to", "call-id", "cseq", "record-route", "expires",
    ]  # fmt: skip
    assert response.get("to") == "<sip:+15550000001@ims.example>;tag=d4"
    again = _response(serialize_message(response))
    assert (again.branch, again.call_id, again.cseq, again.method) == (
        request.branch, request.call_id, 1, "NOTIFY",
    )  # fmt: skip
    assert response_to(request, 100, "Trying").get("record-route") is None
    assert response_to(request, 404, "Not Found").get("record-route") is None


def test_response_adds_a_to_tag_where_none_is() -> None:
    request = _request(REGISTER)
    assert response_to(request, 401, "Unauthorized", to_tag="b2").get("to") == (
        "<sip:001010000000001@ims.example>;tag=b2"
    )
    assert response_to(request, 100, "Trying").get("to") == "<sip:001010000000001@ims.example>"


def test_messages_show_themselves() -> None:
    assert repr(_request(REGISTER)) == "<Request REGISTER sip:ims.example 0123@198.18.0.1 7>"
    assert repr(_response(UNAUTHORIZED)) == "<Response 401 REGISTER 0123@198.18.0.1 7>"


_tokens = st.from_regex(r"[A-Za-z0-9\-.!%*_+`'~]{1,12}", fullmatch=True)
_text = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp")), max_size=40
).map(str.strip)
_extra = st.lists(
    st.tuples(_tokens.map(str.lower).filter(lambda name: len(name) > 1), _text).filter(
        lambda header: header[0] not in ("content-length", "via", "from", "to", "call-id", "cseq")
    ),
    max_size=6,
)
_call_ids = _tokens
_bodies = st.binary(max_size=200)


@st.composite
def _messages(draw: st.DrawFn) -> Request | Response:
    method, call_id, branch = draw(_tokens), draw(_call_ids), draw(_tokens)
    cseq = draw(st.integers(0, 2**31 - 1))
    headers = [
        ("via", f"SIP/2.0/TCP [2001:2::1]:6101;branch={branch}"),
        ("from", "<sip:a@b>;tag=1"),
        ("to", "<sip:a@b>"),
        ("call-id", call_id),
        ("cseq", f"{cseq} {method}"),
        *draw(_extra),
    ]
    body = draw(_bodies)
    if draw(st.booleans()):
        return Request(method, "sip:b", headers, body, branch=branch, call_id=call_id, cseq=cseq)
    return Response(
        draw(st.integers(100, 699)), draw(_text), headers, body,
        method=method, branch=branch, call_id=call_id, cseq=cseq,
    )  # fmt: skip


@given(st.lists(_messages(), min_size=1, max_size=3))
def test_serialize_and_parse_are_a_pair(messages: list[Request | Response]) -> None:
    stream = b""
    for message in messages:
        data = serialize_message(message)
        message.headers.append(("content-length", str(len(message.body))))
        assert plain(parse_message(data)) == plain(message)
        stream += data
    assert [plain(m) for m in SipReader().feed(stream)] == [plain(m) for m in messages]


@settings(max_examples=300)
@given(st.lists(st.binary(max_size=60) | st.sampled_from([REGISTER, b"\r\n", NOTIFY[:90]])))
def test_any_bytes_are_read_or_named(pieces: list[bytes]) -> None:
    reader = SipReader()
    for piece in pieces:
        for message in reader.feed(piece):
            assert not isinstance(message, Malformed) or message.reason
    parse_message(b"".join(pieces))
