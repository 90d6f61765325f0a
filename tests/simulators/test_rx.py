"""Rx messages: what each must carry, the flags of their AVPs, and that they read as they were written."""

from __future__ import annotations

import ipaddress
import struct

import pytest
from diameter.message import Message
from hypothesis import given
from hypothesis import strategies as st

from simulators.base import VENDOR_3GPP, DiameterMessage, decode
from simulators.codec import BadMessage, Result
from simulators.framing import HEADER_LENGTH, parse_header
from simulators.rx import (
    APPLICATION_RX,
    RX,
    AaAnswer,
    AaRequest,
    AbortCause,
    AbortSessionRequest,
    AccessNetworkChargingIdentifier,
    Flows,
    FlowStatus,
    MediaType,
    ReAuthRequest,
    RxRequestType,
    RxResult,
    ServiceInfoStatus,
    SpecificAction,
    TerminationCause,
    codec_data,
    experimental,
    framed,
    read_framed,
    succeeded,
)
from tests.simulators.rx_helpers import SDP, aar, audio, signalling, termination

REQUIRED = {
    258: {"destination_host", "specific_action"},
    265: set(),
    274: {"destination_host", "abort_cause"},
    275: {"termination_cause"},
}
HEAD = {"session_id", "origin_host", "origin_realm"}


def required(cls: type[DiameterMessage]) -> set[str]:
    """Attributes of a class that must be there."""
    return {row.attr_name for row in cls.avp_def if row.is_required}


def full_aar() -> AaRequest:
    """An AAR with everything an AF sends."""
    return aar(
        signalling(),
        audio(),
        service_info_status=ServiceInfoStatus.FINAL,
        af_charging_identifier=b"icid-1",
        reservation_priority=0,
        called_station_id="ims",
        service_urn=b"sos",
        rx_request_type=RxRequestType.INITIAL_REQUEST,
        authorization_lifetime=36_000,
        auth_grace_period=0,
        session_timeout=3_600,
        **framed("2001:2:0:1::7"),
    )


def test_there_are_the_four_commands_and_what_they_need() -> None:
    assert set(RX.requests) == set(REQUIRED)
    assert (RX.id, RX.vendor) == (16777236, 10415)
    for code, request in RX.requests.items():
        always = HEAD | {"auth_application_id", "destination_realm"}
        assert required(request) == always | REQUIRED[code]
        assert required(request.answer_class) == HEAD
        assert request.answer_class.code == code


@pytest.mark.parametrize("request_class", RX.requests.values(), ids=lambda cls: cls.__name__)
def test_every_message_names_the_application(request_class: type[DiameterMessage]) -> None:
    request = request_class(session_id="s")
    for message in (request, request.answer()):
        assert message.header.application_id == APPLICATION_RX
        assert message.header.is_proxyable
        assert message.auth_application_id == APPLICATION_RX
    assert request.header.is_request
    assert request.answer().session_id == "s"


def avps(data: bytes) -> list[tuple[int, int, int]]:
    """(code, flags, vendor) of all AVPs, those in groups too."""
    groups = {517, 519, 443, 510, 502, 297}
    found, position = [], 0
    while position < len(data):
        code, word = struct.unpack_from(">II", data, position)
        start = position + (12 if word >> 31 else 8)
        vendor = struct.unpack_from(">I", data, position + 8)[0] if word >> 31 else 0
        stop = position + (word & 0xFFFFFF)
        found.append((code, word >> 24, vendor))
        if code in groups:
            found += avps(data[start:stop])
        position = stop + (-stop & 3)
    return found


def test_avps_carry_vendor_and_mandatory_bits() -> None:
    """Those from 500 on are 3GPP's, 458 is ETSI's, the rest is of the base protocol and NASREQ."""
    rar = ReAuthRequest(
        session_id="s",
        specific_action=[4],
        abort_cause=0,
        ip_can_type=5,
        rat_type=1004,
        flows=[Flows(1, [1, 2])],
        access_network_charging_identifier=[AccessNetworkChargingIdentifier(b"\1")],
    )
    found = avps(full_aar().as_bytes()[HEADER_LENGTH:]) + avps(rar.as_bytes()[HEADER_LENGTH:])
    assert {517, 519, 507, 509, 512, 513, 443, 450, 97, 524, 458, 510, 502} <= {
        code for code, _, _ in found
    }
    for code, flags, vendor in found:
        expected = 13019 if code == 458 else VENDOR_3GPP if code >= 500 else 0
        assert (code, vendor, flags) == (code, expected, 0xC0 if expected else 0x40)


def test_an_aar_reads_as_it_was_written() -> None:
    request = full_aar()
    data = request.as_bytes()
    again = decode(data, parse_header(data), AaRequest)
    for row in AaRequest.avp_def:
        assert getattr(again, row.attr_name) == getattr(request, row.attr_name), row.attr_name
    assert again.media_component_description == [signalling(), audio()]
    assert again.as_bytes() == data


def test_the_librarys_decoder_reads_it_too() -> None:
    plain = Message.from_bytes(full_aar().as_bytes())
    assert isinstance(plain, AaRequest)
    assert plain.media_component_description == [signalling(), audio()]


def test_media_of_type_other_are_all_ones_on_the_wire() -> None:
    one = audio()
    one.media_type = MediaType.OTHER
    data = aar(one).as_bytes()
    assert struct.pack(">IIII", 520, 0xC0000010, 10415, 0xFFFFFFFF) in data
    again = decode(data, parse_header(data), AaRequest)
    assert again.media_component_description[0].media_type is MediaType.OTHER


def test_an_enumerated_value_that_does_not_exist_is_5004_with_its_place() -> None:
    one = audio()
    one.media_sub_component[0].flow_status = 9  # type: ignore[assignment]  # what must be refused
    data = aar(one).as_bytes()
    with pytest.raises(BadMessage) as caught:
        decode(data, parse_header(data), AaRequest)
    assert caught.value.result is Result.INVALID_AVP_VALUE
    assert caught.value.failed is not None
    assert [code for code, _, _ in avps(caught.value.failed.as_bytes())] == [517, 519, 511]


def test_an_unknown_specific_action_or_termination_cause_is_only_a_number() -> None:
    data = aar(specific_action=[1, 5, 99]).as_bytes()
    assert decode(data, parse_header(data), AaRequest).specific_action == [1, 5, 99]
    data = termination(termination_cause=11).as_bytes()
    request = decode(data, parse_header(data), RX.requests[275])
    assert request.termination_cause == 11


@pytest.mark.parametrize("missing", ["media_component_number", "flow_number"])
def test_numbers_of_components_and_flows_are_needed(missing: str) -> None:
    one = audio()
    setattr(one if missing in dir(one) else one.media_sub_component[0], missing, None)
    data = aar(one).as_bytes()
    with pytest.raises(BadMessage) as caught:
        decode(data, parse_header(data), AaRequest)
    assert caught.value.result is Result.MISSING_AVP


def test_a_result_is_one_of_two_kinds() -> None:
    request = aar()
    plain = request.answer(result_code=Result.SUCCESS)
    refused = request.answer(experimental_result=experimental(RxResult.FILTER_RESTRICTIONS))
    assert [one.outcome for one in (plain, refused)] == ["2001", "exp. 5062"]
    assert [succeeded(one) for one in (plain, refused)] == [True, False]
    data = refused.as_bytes()
    assert {298, 297} <= {code for code, _, _ in avps(data[HEADER_LENGTH:])}
    assert not succeeded(AaAnswer())


def test_enumerations_have_the_numbers_of_the_specification() -> None:
    assert [one.value for one in AbortCause] == list(range(5))
    assert [one.value for one in SpecificAction] == [1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12]
    assert [one.value for one in TerminationCause] == list(range(1, 9))
    assert FlowStatus(4).name == "REMOVED"
    assert AbortSessionRequest(session_id="s", abort_cause=AbortCause.PS_TO_CS_HANDOVER).abort_cause


def test_codec_data_is_direction_role_and_lines() -> None:
    assert codec_data("uplink", "offer", "m=audio 9\r\nb=AS:49\r\n") == (
        "uplink\noffer\nm=audio 9\nb=AS:49\n"
    )
    assert codec_data("downlink", "answer", SDP).splitlines()[2:] == SDP.splitlines()


@given(st.ip_addresses())
def test_an_address_reads_as_it_was_framed(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    values = framed(str(address))
    network = read_framed(values.get("framed_ip_address"), values.get("framed_ipv6_prefix"))
    assert network == ipaddress.ip_network(address)


def test_a_prefix_may_be_short() -> None:
    """RFC 3162 §2.3: no more octets than the prefix needs."""
    octets = bytes((0, 64)) + ipaddress.IPv6Address("2001:2:0:1::").packed[:8]
    assert read_framed(None, octets) == ipaddress.ip_network("2001:2:0:1::/64")
    assert read_framed(None, None) is None


@pytest.mark.parametrize(
    ("address", "prefix"),
    [
        (b"", None),
        (bytes(16), None),
        (None, b"\0"),
        (None, b"\1\x40" + bytes(8)),
        (None, b"\0\x81" + bytes(16)),
        (None, b"\0\x80" + bytes(17)),
    ],
)
def test_octets_that_are_no_address(address: bytes | None, prefix: bytes | None) -> None:
    with pytest.raises(ValueError, match=r"Expected|has bits|length|permitted|not a"):
        read_framed(address, prefix)
