"""Requests as Kamailio's IMS modules send them: octets of a capture, served by HSS and PCRF.

What these modules do otherwise than the specifications, or than our own core, is here by name.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TypeVar

import pytest

from imsbench.protocol.aka import Milenage, SqnWindow, SyncFailure, run_aka
from imsbench.subscriber import Population
from simulators.base import CapabilitiesExchangeRequest, DiameterMessage, decode
from simulators.cx import (
    AKA_SCHEME,
    APPLICATION_CX,
    LocationInfoRequest,
    MultimediaAuthAnswer,
    MultimediaAuthRequest,
    ServerAssignmentAnswer,
    ServerAssignmentRequest,
    ServerAssignmentType,
    UserAuthorizationRequest,
    UserAuthorizationType,
)
from simulators.framing import parse_header
from simulators.hss.procedures import Procedures as Hss
from simulators.hss.store import State
from simulators.pcrf.procedures import Procedures as Pcrf
from simulators.rx import (
    APPLICATION_RX,
    AaRequest,
    FlowUsage,
    MediaType,
    SessionTerminationRequest,
    SubscriptionIdType,
    TerminationCause,
)

S_CSCF = "sip:10.9.0.12:6060"
PEOPLE = Population(20)
ALICE = PEOPLE.subscriber(0)

M = TypeVar("M", bound=DiameterMessage)


@cache
def captured() -> dict[str, bytes]:
    """The octets, by name."""
    text = (Path(__file__).parent / "kamailio.txt").read_text()
    rows = (line.split("\t") for line in text.splitlines() if not line.startswith("#"))
    return {name: bytes.fromhex(octets) for name, octets in rows}


def message(name: str, cls: type[M]) -> M:
    """One of them, decoded; BadMessage if it cannot be served."""
    data = captured()[name]
    return decode(data, parse_header(data), cls)


@pytest.fixture
def hss() -> Hss:
    return Hss(PEOPLE)


# --- capabilities


@pytest.mark.parametrize(
    ("node", "application"),
    [("I-CSCF", APPLICATION_CX), ("S-CSCF", APPLICATION_CX), ("P-CSCF", APPLICATION_RX)],
)
def test_capabilities(node: str, application: int) -> None:
    cer = message(f"CER of the {node}", CapabilitiesExchangeRequest)
    assert cer.applications() == {application}


# --- Cx


def registered(hss: Hss) -> None:
    """Alice, as Kamailio registers her."""
    hss.answer(message("MAR", MultimediaAuthRequest))
    hss.answer(message("SAR registration", ServerAssignmentRequest))


def test_a_uar_without_a_type_is_one_of_registration(hss: Hss) -> None:
    request = message("UAR", UserAuthorizationRequest)
    assert request.user_authorization_type is None
    assert hss.answer(request).outcome == "exp. 2001"


def test_an_maa_has_what_ims_auth_looks_for(hss: Hss) -> None:
    request = message("MAR", MultimediaAuthRequest)
    answer = hss.answer(request)
    assert isinstance(answer, MultimediaAuthAnswer)
    # Without these two it answers the phone with 403.
    assert (answer.user_name, answer.public_identity) == (ALICE.impi, ALICE.impu_temporary)
    assert answer.sip_number_auth_items == 1
    (item,) = answer.sip_auth_data_item
    assert (item.sip_item_number, item.sip_authentication_scheme) == (1, AKA_SCHEME)
    keys = (item.sip_authenticate, item.sip_authorization)
    assert [len(key or b"") for key in keys] == [32, 8]
    assert len(item.confidentiality_key or b"") == len(item.integrity_key or b"") == 16
    second = hss.answer(message("UAR", UserAuthorizationRequest))
    assert (second.outcome, second.server_name) == ("exp. 2002", S_CSCF)


def test_hss_selected_is_written_in_small_letters(hss: Hss) -> None:
    request = message("MAR", MultimediaAuthRequest)
    assert request.sip_auth_data_item is not None
    request.sip_auth_data_item.sip_authentication_scheme = "unknown"
    answer = hss.answer(request)
    assert answer.outcome == "2001"
    assert answer.sip_auth_data_item[0].sip_authentication_scheme == AKA_SCHEME


def test_its_md5_is_refused_by_name(hss: Hss) -> None:
    request = message("MAR", MultimediaAuthRequest)
    assert request.sip_auth_data_item is not None
    request.sip_auth_data_item.sip_authentication_scheme = "Digest-MD5"
    assert hss.answer(request).outcome == "exp. 5006"
    assert hss.counters["schemes_refused"] == 1


def test_rand_and_auts_come_in_sip_authorization(hss: Hss) -> None:
    first = hss.answer(message("MAR", MultimediaAuthRequest)).sip_auth_data_item[0]
    milenage = Milenage(ALICE.k, opc=ALICE.opc)
    rand, autn = first.sip_authenticate[:16], first.sip_authenticate[16:]
    with pytest.raises(SyncFailure) as stale:
        run_aka(milenage, rand, autn, SqnWindow(highest=900 << 5))
    request = message("MAR", MultimediaAuthRequest)
    assert request.sip_auth_data_item is not None
    request.sip_auth_data_item.sip_authorization = rand + stale.value.auts
    assert len(request.sip_auth_data_item.sip_authorization) == 30
    item = hss.answer(request).sip_auth_data_item[0]
    rand, autn = item.sip_authenticate[:16], item.sip_authenticate[16:]
    assert run_aka(milenage, rand, autn, SqnWindow(highest=900 << 5)).sqn >> 5 == 901


def test_server_assignments_of_a_registration_its_end_and_the_next(hss: Hss) -> None:
    registered(hss)
    assert hss.store.get(0).state is State.REGISTERED
    request = message("UAR de-registration", UserAuthorizationRequest)
    assert request.user_authorization_type is UserAuthorizationType.DE_REGISTRATION
    assert hss.answer(request).outcome == "2001"
    end = message("SAR de-registration", ServerAssignmentRequest)
    assert end.server_assignment_type is ServerAssignmentType.USER_DEREGISTRATION
    assert hss.answer(end).outcome == "2001"
    assert hss.store.get(0).state is State.NOT_REGISTERED
    # It calls the next registration of a phone it still knows a re-registration.
    hss.answer(message("MAR", MultimediaAuthRequest))
    again = message("SAR re-registration", ServerAssignmentRequest)
    assert again.server_assignment_type is ServerAssignmentType.RE_REGISTRATION
    answer = hss.answer(again)
    assert isinstance(answer, ServerAssignmentAnswer)
    assert (answer.outcome, hss.store.get(0).state) == ("2001", State.REGISTERED)
    assert answer.user_name == ALICE.impi
    assert again.user_data_already_available
    assert answer.user_data is None


def test_a_location_is_asked_for_by_number(hss: Hss) -> None:
    request = message("LIR by tel", LocationInfoRequest)
    assert request.public_identity == ALICE.impu_tel
    assert hss.answer(request).outcome == "exp. 5003"
    registered(hss)
    answer = hss.answer(request)
    assert (answer.outcome, answer.server_name) == ("2001", S_CSCF)


# --- Rx


def test_the_session_of_a_registration() -> None:
    request = message("AAR of a registration", AaRequest)
    pcrf = Pcrf()
    assert pcrf.answer(request).outcome == "2001"
    (media,) = request.media_component_description
    (flow,) = media.media_sub_component
    assert (media.media_type, flow.flow_usage) == (MediaType.CONTROL, FlowUsage.AF_SIGNALLING)
    assert all(b" ip from " in rule for rule in flow.flow_description)
    assert request.vendor_specific_application_id is not None
    session = pcrf.sessions.get(request.session_id)
    assert session is not None
    assert not session.is_media
    assert session.subscriptions == ((SubscriptionIdType.END_USER_SIP_URI, ALICE.impu_temporary),)
    assert pcrf.wrong == {
        "specific_action_void": 1,  # 5
        "codec_data_nul": 2,  # offer and answer, without SDP and with a NUL at the end
        "codec_data_without_sdp": 2,
        "flow_descriptions_many": 1,  # RTCP of a signalling connection
        "signalling_component_numbered": 1,
    }


def test_the_session_of_a_call() -> None:
    request = message("AAR of a call", AaRequest)
    pcrf = Pcrf()
    assert pcrf.answer(request).outcome == "2001"
    (media,) = request.media_component_description
    (flow,) = media.media_sub_component
    assert (media.media_type, len(flow.flow_description)) == (MediaType.AUDIO, 4)
    assert (media.max_requested_bandwidth_ul, media.max_requested_bandwidth_dl) == (49_000, 49_000)
    assert request.reservation_priority == 0
    assert request.authorization_lifetime == request.session_timeout == 36_000
    assert (request.auth_grace_period, request.destination_host) == (0, None)
    session = pcrf.sessions.get(request.session_id)
    assert session is not None
    assert session.is_media
    wrong = {"specific_action_void": 1, "flow_descriptions_many": 1, "codec_data_nul": 2}
    assert pcrf.wrong == wrong
    end = message("STR of a call", SessionTerminationRequest)
    assert end.termination_cause == TerminationCause.LOGOUT
    end.session_id = request.session_id
    assert pcrf.answer(end).outcome == "2001"
    assert len(pcrf.sessions) == 0
