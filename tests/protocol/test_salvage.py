"""400 to what cannot be read: only where its sender would know what is answered."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imsbench.protocol.salvage import bad_request
from imsbench.protocol.sip import Malformed, Response, parse_message, read_head, serialize_message

HEAD = (
    "REGISTER sip:ims.example SIP/2.0\r\n"
    "Via: SIP/2.0/TCP 192.0.2.1;branch=z9hG4bK1,\r\n SIP/2.0/TCP 192.0.2.2\r\n"
    "f: <sip:a@ims.example>;tag=1\r\n"
    "To: <sip:a@ims.example>\r\n"
    "Call-ID: one\r\n"
    "CSeq: 99999999999999999999 REGISTER\r\n"
    "Max-Forwards: 70"
)


def test_what_can_be_answered_has_the_requests_own_headers() -> None:
    malformed = read_head(HEAD.encode())
    assert isinstance(malformed, Malformed)
    refusal = bad_request(malformed.head, malformed.reason, to_tag="t")
    assert refusal is not None
    assert (refusal.status, refusal.reason) == (400, "Bad Request (bad CSeq)")
    assert refusal.headers == [
        ("via", "SIP/2.0/TCP 192.0.2.1;branch=z9hG4bK1, SIP/2.0/TCP 192.0.2.2"),
        ("from", "<sip:a@ims.example>;tag=1"),
        ("to", "<sip:a@ims.example>;tag=t"),
        ("call-id", "one"),
        ("cseq", "99999999999999999999 REGISTER"),
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("REGISTER sip", "ACK sip"),
        ("REGISTER sip:ims.example SIP/2.0", "SIP/2.0 200 OK"),
        ("REGISTER sip", "sip/2.0 200 sip"),
        ("Call-ID: one\r\n", ""),
        ("Call-ID: one", "Call-ID: "),
        ("Call-ID: one", "Call-ID: one\r\nCall-ID: two"),
        ("Call-ID: one", "Call-ID: one\nContact: <sip:b@evil.example>"),
        ("Call-ID: one", "Call-ID: o\0e"),
        ("Via", "Vya"),
        ("To", "Too"),
        ("f: ", "g: "),
        ("CSeq", "KSeq"),
    ],
)
def test_what_cannot_be_told_is_not_answered(old: str, new: str) -> None:
    assert HEAD.replace(old, new) != HEAD
    assert bad_request(HEAD.replace(old, new).encode(), "bad", to_tag="t") is None


@given(st.binary(max_size=80), st.integers(0, len(HEAD)))
def test_whatever_comes_a_400_is_one_message(junk: bytes, at: int) -> None:
    head = HEAD.encode()[:at] + junk + HEAD.encode()[at:]
    refusal = bad_request(head, "bad", to_tag="t")
    if refusal is not None:
        wire = serialize_message(refusal)
        assert wire.count(b"\r\n") == len(refusal.headers) + 3
        assert isinstance(parse_message(wire), Response | Malformed)
