"""reginfo documents: those notifiers write, and those an attacker would."""

from __future__ import annotations

import encodings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imsbench.protocol.reginfo import (
    MAX_BYTES,
    MAX_DEPTH,
    Contact,
    Reginfo,
    ReginfoError,
    Registration,
    parse_reginfo,
    serialize_reginfo,
)

NS = "urn:ietf:params:xml:ns:reginfo"
DOCUMENT = Reginfo(
    0,
    "full",
    [
        Registration(
            "sip:001010000000001@ims.example",
            "a1",
            "active",
            [Contact("c1", "active", "registered", "sip:1@198.18.0.1:6101;a=1&b", 3600)],
        ),
        Registration("tel:+15550000001", "a2", "terminated"),
    ],
)


def test_written_and_read_back() -> None:
    assert parse_reginfo(serialize_reginfo(DOCUMENT)) == DOCUMENT


@pytest.mark.parametrize(
    ("declared", "prefix"),
    [
        (f'xmlns="{NS}"', ""),
        (f'xmlns:r="{NS}"', "r:"),
        (f'xmlns:very-long.prefix="{NS}" xmlns="urn:other"', "very-long.prefix:"),
    ],
)
def test_any_prefix_and_unknown_content(declared: str, prefix: str) -> None:
    text = f"""<?xml version="1.0"?>
<!-- comment -->
<{prefix}reginfo {declared} version="7" state="partial" xmlns:x="urn:x">
  <x:registration aor="no" id="no" state="no"/>
  <{prefix}registration aor="sip:a@b" id="1" state="active" x:more="1">
    <x:contact><x:uri>no</x:uri></x:contact>
    <{prefix}contact id="2" state="terminated" event="expired" q="0.8" callid="c" cseq="3"
        retry-after="5" duration-registered="10">
      <{prefix}display-name xml:lang="en">A</{prefix}display-name>
      <{prefix}uri>
        sip:a@[2001:2::1]:6101<!-- still -->;ob
      </{prefix}uri>
      <{prefix}unknown-param name="x"><{prefix}uri>no</{prefix}uri></{prefix}unknown-param>
    </{prefix}contact>
  </{prefix}registration>
  <{prefix}contact id="9" state="none" event="none"/>
</{prefix}reginfo>"""
    contact = Contact("2", "terminated", "expired", "sip:a@[2001:2::1]:6101;ob")
    assert parse_reginfo(text.encode()) == Reginfo(
        7, "partial", [Registration("sip:a@b", "1", "active", [contact])]
    )


def test_other_encodings_are_read() -> None:
    text = f'<?xml version="1.0" encoding="{{}}"?><reginfo xmlns="{NS}" version="1" state="full"/>'
    for name in ("utf-8", "utf-16", "iso-8859-1"):
        assert parse_reginfo(text.format(name).encode(name)) == Reginfo(1, "full")


def _document(inner: str, head: str = "") -> bytes:
    return f'{head}<reginfo xmlns="{NS}" version="0" state="full">{inner}</reginfo>'.encode()


LAUGHS = (
    '<!DOCTYPE l [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]>',
    '<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]>',
    '<!DOCTYPE r SYSTEM "http://example.invalid/r.dtd">',
    "<!DOCTYPE reginfo>",
)


@pytest.mark.parametrize("head", LAUGHS)
def test_dtd_and_entities_are_refused(head: str) -> None:
    inner = '<registration aor="&b;" id="1" state="active"/>'
    with pytest.raises(ReginfoError, match="forbidden"):
        parse_reginfo(_document(inner, head))


def test_size_is_bounded() -> None:
    fits = _document(" " * (MAX_BYTES - len(_document(""))))
    assert parse_reginfo(fits) == Reginfo(0, "full")
    with pytest.raises(ReginfoError, match="more than"):
        parse_reginfo(fits + b" ")


def test_depth_is_bounded() -> None:
    levels = MAX_DEPTH - 1
    assert parse_reginfo(_document("<x>" * levels + "</x>" * levels)) == Reginfo(0, "full")
    with pytest.raises(ReginfoError, match="deeper"):
        parse_reginfo(_document("<x>" * MAX_DEPTH + "</x>" * MAX_DEPTH))
    with pytest.raises(ReginfoError, match="deeper"):
        parse_reginfo(_document("<x>" * 80_000))


CONTACT = '<registration aor="sip:a" id="1" state="active"><contact {}</contact></registration>'


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not well-formed"),
        (b"not XML", "not well-formed"),
        (b"<reginfo", "not well-formed"),
        (b"\xff\xfe\x00", "not well-formed"),
        (_document("</x>"), "not well-formed"),
        (_document("&undefined;"), "not well-formed"),
        (b'<?xml version="1.0" encoding="klingon"?><reginfo/>', "root element"),
        (b'<?xml version="1.0" encoding="utf-7"?><reginfo/>', "root element"),
        (b'<reginfo version="0" state="full"/>', "root element"),
        (b'<presence xmlns="urn:ietf:params:xml:ns:pidf"/>', "root element"),
        (f'<reginfo xmlns="{NS}" state="full"/>'.encode(), "reginfo without version"),
        (f'<reginfo xmlns="{NS}" version="0"/>'.encode(), "reginfo without state"),
        (f'<reginfo xmlns="{NS}" version="x" state="full"/>'.encode(), "version is not"),
        (f'<reginfo xmlns="{NS}" version="-1" state="full"/>'.encode(), "version is not"),
        (f'<reginfo xmlns="{NS}" version="0" state="half"/>'.encode(), "reginfo state 'half'"),
        (_document('<registration id="1" state="active"/>'), "registration without aor"),
        (_document('<registration aor="sip:a" state="active"/>'), "registration without id"),
        (_document('<registration aor="sip:a" id="1"/>'), "registration without state"),
        (_document('<registration aor="sip:a" id="1" state="up"/>'), "registration state 'up'"),
        (_document(CONTACT.format('state="active" event="e"><uri>u</uri>')), "contact without id"),
        (_document(CONTACT.format('id="1" event="e"><uri>u</uri>')), "contact without state"),
        (_document(CONTACT.format('id="1" state="active"><uri>u</uri>')), "without event"),
        (_document(CONTACT.format('id="1" state="active" event="e">')), "contact without uri"),
        (
            _document(CONTACT.format('id="1" state="active" event="e" expires="soon">')),
            "expires is not a number",
        ),
    ],
)
def test_broken_documents_name_their_reason(data: bytes, reason: str) -> None:
    with pytest.raises(ReginfoError, match=reason):
        parse_reginfo(data)


_text = st.text(
    st.characters(
        codec="utf-8", exclude_categories=("Cc", "Cs"), exclude_characters="\ufffe\uffff"
    ),
    min_size=1,
    max_size=20,
)
_contacts = st.builds(
    Contact,
    id=_text,
    state=st.sampled_from(["active", "terminated"]),
    event=_text,
    uri=_text.map(str.strip).filter(bool),
    expires=st.none() | st.integers(0, 2**32 - 1),
)
_registrations = st.builds(
    Registration,
    aor=_text,
    id=_text,
    state=st.sampled_from(["init", "active", "terminated"]),
    contacts=st.lists(_contacts, max_size=3),
)
_documents = st.builds(
    Reginfo,
    version=st.integers(0, 2**31),
    state=st.sampled_from(["full", "partial"]),
    registrations=st.lists(_registrations, max_size=3),
)


@given(_documents)
def test_serialize_and_parse_are_a_pair(document: Reginfo) -> None:
    assert parse_reginfo(serialize_reginfo(document)) == document


@given(st.binary(max_size=80))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with pytest.raises(ReginfoError):
        parse_reginfo(data)


def test_line_ends_in_a_uri_come_back_as_they_were() -> None:
    contact = Contact(id="c", state="active", event="created", uri="a\rb\r\nc")
    registration = Registration(aor="sip:a", id="r", state="active", contacts=[contact])
    document = Reginfo(version=0, state="full", registrations=[registration])
    assert parse_reginfo(serialize_reginfo(document)) == document


def test_no_codec_is_looked_for_by_a_name_from_the_network() -> None:
    declared = (
        b'<?xml version="1.0" encoding="xmlcharsetrefused"?>'
        + serialize_reginfo(Reginfo(version=0, state="full", registrations=[]))
        .partition(b"?>")[2]
        .lstrip()
    )
    assert parse_reginfo(declared).version == 0
    assert "xmlcharsetrefused" not in vars(encodings)["_cache"]  # it would stay there for good


def test_utf_16_is_told_by_its_mark() -> None:
    document = Reginfo(version=7, state="full", registrations=[])
    text = serialize_reginfo(document).decode().replace("UTF-8", "UTF-16")
    assert parse_reginfo(text.encode("utf-16")) == document
    assert parse_reginfo("\ufeff".encode("utf-16-be") + text.encode("utf-16-be")) == document
