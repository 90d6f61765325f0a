"""Cx messages: what TS 29.229 wants in each of them."""

from __future__ import annotations

from typing import Any

import pytest
from diameter.message import Message

from simulators.base import VENDOR_3GPP, DiameterMessage, ExperimentalResult, decode
from simulators.codec import Result
from simulators.cx import (
    AKA_SCHEME,
    APPLICATION_CX,
    CX,
    CxResult,
    MultimediaAuthAnswer,
    MultimediaAuthRequest,
    ServerAssignmentType,
    SipAuthDataItem,
    UserAuthorizationAnswer,
    UserAuthorizationRequest,
    experimental,
    succeeded,
)
from simulators.framing import parse_header

REQUIRED = {
    300: {"user_name", "public_identity", "visited_network_identifier"},
    301: {"server_name", "server_assignment_type", "user_data_already_available"},
    302: {"public_identity"},
    303: {
        "user_name",
        "public_identity",
        "sip_auth_data_item",
        "sip_number_auth_items",
        "server_name",
    },
    304: {"user_name", "deregistration_reason"},
    305: {"user_name"},
}
HEAD = {
    "session_id",
    "vendor_specific_application_id",
    "auth_session_state",
    "origin_host",
    "origin_realm",
}


def required(cls: type[DiameterMessage]) -> set[str]:
    """Attributes of a class that must be there."""
    return {row.attr_name for row in cls.avp_def if row.is_required}


def test_there_are_the_six_commands_and_what_they_need() -> None:
    assert set(CX.requests) == set(REQUIRED)
    for code, request in CX.requests.items():
        assert required(request) == HEAD | {"destination_realm"} | REQUIRED[code]
        assert required(request.answer_class) == HEAD
        assert request.answer_class.code == code


@pytest.mark.parametrize("request_class", CX.requests.values(), ids=lambda cls: cls.__name__)
def test_every_message_names_the_application_and_keeps_no_state(
    request_class: type[DiameterMessage],
) -> None:
    request = request_class(session_id="s")
    for message in (request, request.answer()):
        assert message.header.application_id == APPLICATION_CX
        assert message.header.is_proxyable
        assert message.vendor_specific_application_id.vendor_id == VENDOR_3GPP
        assert message.vendor_specific_application_id.auth_application_id == APPLICATION_CX
        assert message.auth_session_state == 1
    assert request.header.is_request
    assert not request.answer().header.is_request


def test_avps_carry_the_flags_of_the_specification() -> None:
    """Vendor and M bit on all but those that TS 29.229 table 6.3.1 leaves optional."""
    optional = {281, 628, 629, 630, 632, 637, 659}
    for request in CX.requests.values():
        for cls in (request, request.answer_class):
            values: dict[str, Any] = {row.attr_name: None for row in cls.avp_def}
            for row in cls.avp_def:
                if row.type_class is not None or row.attr_name in cls.repeated:
                    continue
                for value in (1, "text", b"octets"):
                    try:
                        message = cls(**values | {row.attr_name: value})
                        message.vendor_specific_application_id = None
                        message.auth_session_state = 1 if row.avp_code == 277 else None
                        data = message.as_bytes()[20:]
                        break
                    except ValueError:
                        continue
                assert int.from_bytes(data[:4]) == row.avp_code
                assert bool(data[4] & 0x80) == (row.avp_code >= 600)
                assert bool(data[4] & 0x40) == (row.avp_code not in optional), row


def test_mar_and_maa_use_the_avps_of_3gpp_not_of_rfc_4740() -> None:
    """612 with 608 as text, where the library has 376 with 377 as a number."""
    request = MultimediaAuthRequest(
        session_id="s;1",
        origin_host=b"o",
        origin_realm=b"r",
        destination_realm=b"r",
        user_name="u",
        public_identity="sip:u",
        server_name="sip:s",
        sip_number_auth_items=1,
        sip_auth_data_item=SipAuthDataItem(sip_authentication_scheme=AKA_SCHEME),
    )
    plain = Message.from_bytes(request.as_bytes(), plain_msg=True)
    item = plain.find_avps((612, VENDOR_3GPP), (608, VENDOR_3GPP))
    assert [one.value for one in item] == ["Digest-AKAv1-MD5"]
    assert not plain.find_avps((376, 0))

    vector = SipAuthDataItem(1, AKA_SCHEME, bytes(32), bytes(8), bytes(16), bytes(16))
    answer = request.answer(
        result_code=Result.SUCCESS,
        origin_host=b"h",
        origin_realm=b"r",
        sip_number_auth_items=1,
        sip_auth_data_item=[vector],
    )
    data = answer.as_bytes()
    again = decode(data, parse_header(data), MultimediaAuthAnswer)
    assert again.sip_auth_data_item == [vector]


def test_a_result_is_one_of_two_kinds() -> None:
    request = UserAuthorizationRequest(session_id="s")
    plain = request.answer(result_code=Result.SUCCESS)
    first = request.answer(experimental_result=experimental(CxResult.FIRST_REGISTRATION))
    unknown = request.answer(experimental_result=experimental(CxResult.USER_UNKNOWN))
    refused = request.answer(result_code=Result.UNABLE_TO_COMPLY)
    assert first.experimental_result == ExperimentalResult(VENDOR_3GPP, 2001)
    assert [one.outcome for one in (plain, first, unknown, refused)] == [
        "2001",
        "exp. 2001",
        "exp. 5001",
        "5012",
    ]
    assert [succeeded(one) for one in (plain, first, unknown, refused)] == [
        True,
        True,
        False,
        False,
    ]
    assert not succeeded(UserAuthorizationAnswer())


def test_enumerations_have_the_numbers_of_the_specification() -> None:
    assert [one.value for one in ServerAssignmentType] == list(range(12))
    assert ServerAssignmentType(5).name == "USER_DEREGISTRATION"
    assert CxResult(2002).name == "SUBSEQUENT_REGISTRATION"
