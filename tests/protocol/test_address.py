"""URIs, name-addr values and IP literals in SIP."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imsbench.protocol.address import (
    NameAddr,
    SipUri,
    canonical_identity,
    host_port,
    parse_name_addr,
    parse_name_addrs,
    parse_parameters,
    parse_uri,
    same_address,
    split_host_port,
    unquote,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sip:ims.example", SipUri("sip", "", "ims.example", 0)),
        ("SIP:a@ims.example:5060", SipUri("sip", "a", "ims.example", 5060)),
        ("sips:a:secret@b", SipUri("sips", "a", "b", 0)),
        (
            "sip:+15550000001@b;user=phone;LR;x=",
            SipUri("sip", "+15550000001", "b", 0, {"user": "phone", "lr": "", "x": ""}),
        ),
        ("sip:a@[2001:2:0:1::1]:6101", SipUri("sip", "a", "2001:2:0:1::1", 6101)),
        ("sip:[::1];ob", SipUri("sip", "", "::1", 0, {"ob": ""})),
        ("sip:a@b:1;p=1?Route=%3Csip:c%3E&x=y", SipUri("sip", "a", "b", 1, {"p": "1"})),
        ("sip:b?subject=x", SipUri("sip", "", "b", 0)),
        ("tel:+15550000001", SipUri("tel", "+15550000001", "", 0)),
        (
            "tel:5550001;phone-context=ims.example",
            SipUri("tel", "5550001", "", 0, {"phone-context": "ims.example"}),
        ),
        # RFC 4475 §3.1.1.13: a user part may hold ";", "?", "/" and what looks like a parameter.
        (
            "sip:1_unusual.URI~(to-be!sure)&isn't+it$/crazy?,/;;*:&it+has=1,weird!*pas$wo~d_too"
            ".(doesn't-it)@example.com",
            SipUri(
                "sip", "1_unusual.URI~(to-be!sure)&isn't+it$/crazy?,/;;*", "example.com", 0
            ),
        ),
    ],
)  # fmt: skip
def test_uri(text: str, expected: SipUri) -> None:
    assert parse_uri(text) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not a SIP"),
        ("ims.example", "not a SIP"),
        ("http://a", "not a SIP"),
        ("*", "not a SIP"),
        ("sip:", "without a host"),
        ("sip:a@", "without a host"),
        ("sip:;lr", "without a host"),
        ("sip:a@b:port", "bad port"),
        ("sip:a@b:65536", "bad port"),
        ("sip:a@b:-1", "bad port"),
        ("sip:a@b:123456", "bad port"),
        ("sip:a@[::1", "unclosed"),
        ("sip:a@[::1]junk", "bad port"),
        ("sip:a@[::1]5", "bad port"),
        ("sip:a@2001:2::1", "bad port"),  # no brackets
        ("sip:a b@c", "blank"),
        ("sip:a@b\x01", "control"),
        ("sip:a@b\x7f", "control"),
        ("sip:gröÃ@b", "non-ASCII"),
    ],
)
def test_bad_uri(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_uri(text)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("<sip:a@b>", NameAddr("sip:a@b", "", {})),
        (
            '"Last, \\"First\\" <x>" <sip:a@b;lr>;tag=1 ; Expires = "3600"',
            NameAddr("sip:a@b;lr", 'Last, "First" <x>', {"tag": "1", "expires": "3600"}),
        ),
        ("Alice B <sip:a@b>;tag=1", NameAddr("sip:a@b", "Alice B", {"tag": "1"})),
        ("sip:a@b;tag=1", NameAddr("sip:a@b", "", {"tag": "1"})),
        ("<tel:+1555;phone-context=x>", NameAddr("tel:+1555;phone-context=x", "", {})),
        (
            '<sip:1@[2001:2::1]:6101>;+g.3gpp.icsi-ref="urn%3Aurn-7,a;b";+g.3gpp.smsip;q=0.5',
            NameAddr(
                "sip:1@[2001:2::1]:6101",
                "",
                {"+g.3gpp.icsi-ref": "urn%3Aurn-7,a;b", "+g.3gpp.smsip": "", "q": "0.5"},
            ),
        ),
    ],
)
def test_name_addr(value: str, expected: NameAddr) -> None:
    assert parse_name_addr(value) == expected


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("", "no URI"),
        ("*", "no URI"),
        ("<sip:a", "unclosed"),
        ("<>", "no URI"),
        ('"a', "no URI"),
        ("sip:a@b?Route=c", "headers outside of <>"),
    ],
)
def test_bad_name_addr(value: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_name_addr(value)


def test_name_addrs_of_several_lines() -> None:
    """RFC 3261 §7.3.1."""
    values = ['<sip:a,b@c>, "x, y" <sip:d>;p="1,2"', "<sip:e>"]
    assert [entry.uri for entry in parse_name_addrs(values)] == ["sip:a,b@c", "sip:d", "sip:e"]
    with pytest.raises(ValueError, match="no URI"):
        parse_name_addrs(["<sip:a>", "b"])


def test_parameters() -> None:
    assert parse_parameters(';a=1;B;c = "x;\\"y\\"" ;;a=2') == {"a": "1", "b": "", "c": 'x;"y"'}
    assert parse_parameters("") == {}


@pytest.mark.parametrize(
    ("text", "expected"),
    [('"a"', "a"), ('"a\\"b\\\\"', 'a"b\\'), ("a", "a"), ('"', '"'), ('""', ""), ('"a', '"a')],
)
def test_unquote(text: str, expected: str) -> None:
    assert unquote(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", ("a", 0)),
        ("a:1", ("a", 1)),
        (" a : 65535 ", ("a", 65535)),
        ("[::1]", ("::1", 0)),
        ("[::1]:5060", ("::1", 5060)),
        ("[::1]:", ("::1", 0)),
    ],
)
def test_split_host_port(text: str, expected: tuple[str, int]) -> None:
    assert split_host_port(text) == expected


@given(st.ip_addresses(), st.integers(0, 65535))
def test_host_port_and_split_are_a_pair(address: object, port: int) -> None:
    """Brackets where the grammar wants them (RFC 3261 §25.1)."""
    text = host_port(str(address), port)
    assert split_host_port(text) == (str(address), port)
    assert text.startswith("[") == (":" in str(address))
    assert parse_uri(f"sip:a@{text}") == SipUri("sip", "a", str(address), port)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("198.18.0.1", "198.18.0.1", True),
        ("198.18.0.1", "198.18.0.2", False),
        ("2001:2:0:1::1", "2001:0002:0000:0001:0000:0000:0000:0001", True),
        ("2001:2:0:1::A", "[2001:2:0:1::a]", True),
        ("2001:2:0:1::1", "2001:2:0:1::2", False),
        ("198.18.0.1", "::1", False),
        ("ims.example", "ims.example", True),
        ("ims.example", "198.18.0.1", False),
    ],
)
def test_same_address(one: str, other: str, same: bool) -> None:
    assert same_address(one, other) is same
    assert same_address(other, one) is same


@pytest.mark.parametrize(
    ("written", "identity"),
    [
        ("sip:+15550@IMS.Example.org;user=phone", "sip:+15550@ims.example.org"),
        ("SIP:+1-555-0@ims.example.org:5060;user=phone", "sip:+15550@ims.example.org"),
        ("sip:a-b@ims.example.org", "sip:a-b@ims.example.org"),
        ("sip:Alice@[2001:DB8::1]", "sip:Alice@[2001:DB8::1]"),
        ("tel:+1-(555).0;phone-context=x", "tel:+15550"),
    ],
)
def test_canonical_identity(written: str, identity: str) -> None:
    assert canonical_identity(written) == identity


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    for value in (text, f"sip:{text}", f"<sip:{text}>;{text}"):
        with contextlib.suppress(ValueError):
            parse_uri(value)
        with contextlib.suppress(ValueError):
            parse_name_addr(value)
