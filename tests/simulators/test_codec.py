"""Diameter AVPs and framing: held against python-diameter's own coder, and against broken bytes."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from diameter.message import DefinedMessage, Message
from diameter.message.avp import (
    AvpAddress,
    AvpGrouped,
    AvpInteger32,
    AvpUnsigned32,
    AvpUtf8String,
)
from diameter.message.avp.avp import get_avp_dictionary_entry
from hypothesis import given, settings
from hypothesis import strategies as st

from simulators.base import BASE, DiameterMessage, ProxyInfo, decode
from simulators.codec import (
    BadMessage,
    EncodeError,
    FailedAvp,
    Result,
    session_id_of,
)
from simulators.cx import CX, ServerAssignmentRequest, UserAuthorizationRequest
from simulators.framing import MAX_MESSAGE, MessageReader, parse_header

CLASSES = [
    cls
    for request in (*BASE.requests.values(), *CX.requests.values())
    for cls in (request, request.answer_class)
]


def uar(**values: Any) -> UserAuthorizationRequest:
    """A UAR that lacks nothing."""
    complete = {
        "session_id": "i;1;1",
        "origin_host": b"icscf",
        "origin_realm": b"home",
        "destination_realm": b"home",
        "user_name": "u@home",
        "public_identity": "sip:u@home",
        "visited_network_identifier": b"home",
    }
    return UserAuthorizationRequest(**complete | values)


def avp(
    code: int, payload: bytes, *, vendor: int = 0, flags: int = 0x40, length: int = -1
) -> bytes:
    """One AVP by hand; ``length`` lies about its length."""
    head = 12 if vendor else 8
    length = head + len(payload) if length < 0 else length
    vendor_id = struct.pack(">I", vendor) if vendor else b""
    flags |= 0x80 if vendor else 0
    return (
        struct.pack(">II", code, flags << 24 | length)
        + vendor_id
        + payload
        + bytes(-len(payload) % 4)
    )


def with_avps(message: DiameterMessage, *avps: bytes) -> bytes:
    """A message with AVPs appended and its length put right."""
    data = message.as_bytes() + b"".join(avps)
    return struct.pack(">I", 0x01000000 | len(data)) + data[4:]


def read(data: bytes, cls: type[DiameterMessage] = UserAuthorizationRequest) -> DiameterMessage:
    """Decode one message."""
    return decode(data, parse_header(data), cls)


def values_of(cls: Any) -> st.SearchStrategy[dict[str, Any]]:
    """Any values for the AVPs of a class, those required always."""
    required: dict[str, Any] = {}
    optional: dict[str, Any] = {}
    for row in cls.avp_def:
        strategy = _value(row, cls)
        if row.attr_name in cls.repeated:
            strategy = st.lists(strategy, min_size=int(row.is_required), max_size=3)
        (required if row.is_required else optional)[row.attr_name] = strategy
    return st.fixed_dictionaries(required, optional=optional)


def _value(row: Any, cls: Any) -> st.SearchStrategy[Any]:
    kind = get_avp_dictionary_entry(row.avp_code, row.vendor_id)["type"]
    if row.attr_name in cls.enums:
        return st.sampled_from(list(cls.enums[row.attr_name]))
    if issubclass(kind, AvpGrouped):
        if row.type_class is FailedAvp:
            return st.just(FailedAvp())
        return values_of(row.type_class).map(lambda values: row.type_class(**values))
    if issubclass(kind, AvpUtf8String):
        return st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
    if issubclass(kind, AvpAddress):
        return st.ip_addresses().map(str)
    if issubclass(kind, AvpInteger32):
        return st.integers(-(2**31), 2**31 - 1)
    if issubclass(kind, AvpUnsigned32):
        return st.integers(0, 2**32 - 1)
    return st.binary(max_size=20)


def visible(message: DiameterMessage) -> dict[str, Any]:
    """The AVPs of a message that are there."""
    found = {row.attr_name: getattr(message, row.attr_name) for row in message.avp_def}
    return {name: value for name, value in found.items() if value not in (None, [])}


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
@settings(deadline=None)  # a busy machine is no defect of the codec
@given(data=st.data())
def test_reads_and_writes_what_the_library_reads_and_writes(
    cls: type[DiameterMessage], data: st.DataObject
) -> None:
    message = cls(**data.draw(values_of(cls)))
    written = message.as_bytes()
    assert written == DefinedMessage.as_bytes(message)

    ours, theirs = read(written, cls), Message.from_bytes(written)
    assert type(theirs) is cls
    assert visible(ours) == visible(message) == visible(theirs)
    assert ours.as_bytes() == written


def test_golden_bytes() -> None:
    """A UAR byte by byte, after the layouts of RFC 6733 §3, §4.1 and TS 29.229 §6.3."""
    expected = bytes.fromhex(
        "010000a0 c000012c 01000000 00000000 00000000"
        "00000107 4000000d 693b313b31000000"  # Session-Id i;1;1
        "00000104 40000020 0000010a 4000000c 000028af 00000102 4000000c 01000000"
        "00000115 4000000c 00000001"  # Auth-Session-State NO_STATE_MAINTAINED
        "00000108 40000009 69000000 00000128 40000009 68000000 0000011b 40000009 68000000"
        "00000001 40000009 75000000"  # User-Name
        "00000259 c000000d 000028af 75000000"  # Public-Identity
        "00000258 c000000d 000028af 68000000"  # Visited-Network-Identifier
    )
    message = uar(
        origin_host=b"i",
        origin_realm=b"h",
        destination_realm=b"h",
        user_name="u",
        public_identity="u",
        visited_network_identifier=b"h",
    )
    assert message.as_bytes() == struct.pack(">I", 0x01000000 | len(expected)) + expected[4:]


def test_an_answer_takes_over_what_belongs_to_the_request() -> None:
    request = uar(proxy_info=[ProxyInfo(b"proxy", b"\x01")])
    request.header.hop_by_hop_identifier = 7
    request.header.end_to_end_identifier = 9
    answer = request.answer(result_code=Result.SUCCESS, origin_host=b"hss", origin_realm=b"home")
    again = read(answer.as_bytes(), type(answer))
    assert again.header.hop_by_hop_identifier == 7
    assert again.header.end_to_end_identifier == 9
    assert not again.header.is_request
    assert again.header.is_proxyable
    assert again.session_id == "i;1;1"
    assert again.proxy_info == [ProxyInfo(b"proxy", b"\x01")]
    assert again.auth_session_state == 1
    assert again.outcome == "2001"


FAULTS = {
    "unknown AVP with M bit": (avp(9999, b"x"), Result.AVP_UNSUPPORTED, 9999),
    "unknown AVP of a vendor": (avp(601, b"x", vendor=99), Result.AVP_UNSUPPORTED, 601),
    "enumeration out of range": (
        avp(623, b"\0\0\0\x63", vendor=10415),
        Result.INVALID_AVP_VALUE,
        623,
    ),
    "not UTF-8": (avp(263, b"\xff"), Result.INVALID_AVP_VALUE, 263),
    "twice": (avp(1, b"again@home"), Result.AVP_OCCURS_TOO_MANY_TIMES, 1),
    "number of three octets": (avp(623, b"\0\0\1", vendor=10415), Result.INVALID_AVP_LENGTH, 623),
    "length below its header": (avp(1, b"", length=7), Result.INVALID_AVP_LENGTH, 1),
    "length below a vendor header": (
        avp(601, b"", vendor=10415, length=11),
        Result.INVALID_AVP_LENGTH,
        601,
    ),
    "length beyond the message": (avp(1, b"", length=400), Result.INVALID_AVP_LENGTH, 1),
    "half a header": (b"\0\0\0\1", Result.INVALID_AVP_LENGTH, 1),
    "vendor bit in the last eight octets": (
        struct.pack(">II", 601, 0xC0000008),
        Result.INVALID_AVP_LENGTH,
        601,
    ),
    "reserved flag bit": (avp(1, b"x", flags=0x41), Result.INVALID_AVP_BITS, 1),
    "vendor bit without vendor": (
        struct.pack(">III", 601, 0xC000000C, 0),
        Result.INVALID_AVP_BITS,
        601,
    ),
    "inside a group": (
        avp(628, avp(266, b"\0\0\1"), vendor=10415),
        Result.INVALID_AVP_LENGTH,
        628,
    ),
    "group without what it needs": (avp(628, b"", vendor=10415), Result.MISSING_AVP, 628),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_named_by_result_code_and_failed_avp(fault: str) -> None:
    extra, result, code = FAULTS[fault]
    with pytest.raises(BadMessage) as caught:
        read(with_avps(uar(), extra))
    assert caught.value.result is result
    assert caught.value.failed is not None
    assert caught.value.failed.code == code
    assert read(refusal(caught.value), uar().answer_class).failed_avp


def refusal(error: BadMessage) -> bytes:
    """An answer with the Failed-AVP of an error, as a peer would send it."""
    answer = uar().answer(
        result_code=error.result,
        origin_host=b"h",
        origin_realm=b"h",
        failed_avp=[FailedAvp([error.failed])],
    )
    return answer.as_bytes()


def test_a_fault_inside_a_group_keeps_the_hierarchy() -> None:
    inner = avp(266, b"\0\0\1")
    with pytest.raises(BadMessage) as caught:
        read(with_avps(uar(), avp(628, inner, vendor=10415)))
    assert caught.value.failed is not None
    assert caught.value.failed.payload == avp(266, b"\0\0\1\0")  # RFC 6733 §7.5


@pytest.mark.parametrize(
    "name", [row.attr_name for row in UserAuthorizationRequest.avp_def if row.is_required]
)
def test_a_missing_avp_is_5005_with_an_example_of_it(name: str) -> None:
    message = uar()
    setattr(message, name, None)
    with pytest.raises(BadMessage, match=name) as caught:
        read(message.as_bytes())
    row = next(row for row in message.avp_def if row.attr_name == name)
    assert caught.value.result is Result.MISSING_AVP
    assert caught.value.failed is not None
    assert (caught.value.failed.code, caught.value.failed.vendor_id) == (
        row.avp_code,
        row.vendor_id,
    )


@pytest.mark.parametrize(
    "harmless",
    [
        avp(9999, b"abc", flags=0),
        avp(601, b"abc", vendor=99, flags=0),
        avp(301, b"\0\0\0\1", flags=0),
        avp(25, b"known to the dictionary, not to a UAR"),
        avp(1, b"", flags=0x20, vendor=77),
    ],
)
def test_what_is_optional_and_unknown_is_ignored(harmless: bytes) -> None:
    assert visible(read(with_avps(uar(), harmless))) == visible(uar())


@settings(deadline=None)  # a busy machine is no defect of the codec
@given(st.data())
def test_broken_bytes_raise_nothing_but_bad_message(data: st.DataObject) -> None:
    message = bytearray(uar(user_authorization_type=1).as_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        message[data.draw(st.integers(20, len(message) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(20, len(message)))
    try:
        read(bytes(message[:cut]))
    except BadMessage as caught:
        error = caught
    else:
        return
    assert error.failed is not None
    assert read(refusal(error), uar().answer_class).outcome == str(int(error.result))


@settings(deadline=None)  # a busy machine is no defect of the codec
@given(st.binary(max_size=200))
def test_random_octets_raise_nothing_but_bad_message(body: bytes) -> None:
    data = uar().as_bytes()[:20] + body
    with pytest.raises(BadMessage):
        read(data, ServerAssignmentRequest)
    session_id_of(data)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("user_name", b"bytes"),
        ("visited_network_identifier", "text"),
        ("uar_flags", 2**32),
        ("uar_flags", "1"),
        ("proxy_info", [ProxyInfo("text", b"")]),  # type: ignore[arg-type]
    ],
)
def test_a_value_that_does_not_fit_is_named(name: str, value: object) -> None:
    with pytest.raises(EncodeError, match=name if name != "proxy_info" else "proxy_host"):
        uar(**{name: value}).as_bytes()


@pytest.mark.parametrize("size", [1, 3, 4, 19, 20, 21, 1000])
def test_the_reader_cuts_a_stream_however_it_comes(size: int) -> None:
    messages = [uar(user_name="u" * n).as_bytes() for n in range(8)]
    stream = b"".join(messages) + messages[0][:-1]
    reader = MessageReader()
    found = [
        one
        for start in range(0, len(stream), size)
        for one in reader.feed(stream[start : start + size])
    ]
    assert found == messages
    assert reader.feed(messages[0][-1:]) == messages[:1]


@pytest.mark.parametrize(
    "head",
    [
        b"\x02\0\0\x14",  # version 2
        b"\x01\0\0\x10",  # shorter than a header
        b"\x01\0\0\x15",  # not a multiple of four
        struct.pack(">I", 0x01000000 | MAX_MESSAGE + 4),
        b"GET ",
    ],
)
def test_the_reader_gives_a_stream_up_that_it_cannot_cut(head: bytes) -> None:
    reader, whole = MessageReader(), uar().as_bytes()
    assert reader.feed(whole + head) == [whole]
    assert reader.lost
    assert reader.feed(whole) == []


def test_session_id_of_a_message_broken_behind_it() -> None:
    assert session_id_of(with_avps(uar(), b"\0\0\0\1")) == "i;1;1"
    assert session_id_of(uar().as_bytes()[:20]) is None
    assert session_id_of(uar(session_id=None).as_bytes()) is None
