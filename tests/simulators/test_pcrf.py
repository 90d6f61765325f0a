"""Rx procedures of the PCRF: the state of AF sessions, and service information that is right or wrong."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from simulators.base import FLAG_RETRANSMIT, DiameterMessage
from simulators.codec import BadMessage, Result
from simulators.pcrf import Procedures, Session
from simulators.pcrf.sessions import Report
from simulators.rx import (
    AaAnswer,
    FlowStatus,
    FlowUsage,
    MediaComponentDescription,
    MediaSubComponent,
    MediaType,
    ReAuthRequest,
    RxRequestType,
    SubscriptionIdType,
    framed,
)
from tests.simulators.rx_helpers import (
    ACCESS,
    ALLOCATED,
    LOSS,
    OTHER,
    RELEASE,
    aar,
    audio,
    filters,
    signalling,
    termination,
)

CALL = "pcscf.home;1;1"
REGISTRATION = "pcscf.home;1;2"


def held(pcrf: Procedures, session_id: str = CALL) -> Session:
    """A session that is there."""
    session = pcrf.sessions.get(session_id)
    assert session is not None
    return session


def counts(pcrf: Procedures) -> tuple[int, int]:
    """Sessions, and those with media."""
    return len(pcrf.sessions), pcrf.sessions.media


# --- sessions -------------------------------------------------------------------------------------


def test_a_call_leg_opens_changes_and_ends_a_session() -> None:
    pcrf = Procedures()
    answer = pcrf.answer(aar())
    assert isinstance(answer, AaAnswer)
    assert (answer.outcome, answer.session_id) == ("2001", CALL)
    assert (answer.ip_can_type, answer.rat_type) == (5, 1004)
    session = held(pcrf)
    assert (session.af_host, session.af_realm) == (b"pcscf.home", b"home")
    assert session.actions == {LOSS, RELEASE}
    assert session.subscriptions == (
        (SubscriptionIdType.END_USER_SIP_URI, "sip:+15550000001@home"),
    )
    assert str(session.phone) == "198.18.0.7/32"
    assert session.components[1].media_type is MediaType.AUDIO
    assert session.components[1].bandwidth == (49_000, 49_000)
    assert session.components[1].flows[2].usage is FlowUsage.RTCP
    assert counts(pcrf) == (1, 1)
    assert pcrf.answer(aar()).outcome == "2001"
    assert counts(pcrf) == (1, 1)
    assert pcrf.answer(termination()).outcome == "2001"
    assert counts(pcrf) == (0, 0)
    assert pcrf.sessions.most_media == 1
    assert pcrf.counters == {"ended_by_cause_1": 1}
    assert not pcrf.wrong


def test_a_registration_has_a_session_of_its_signalling() -> None:
    pcrf = Procedures()
    assert pcrf.answer(aar(signalling(), session_id=REGISTRATION)).outcome == "2001"
    pcrf.answer(aar())
    assert counts(pcrf) == (2, 1)
    assert not held(pcrf, REGISTRATION).is_media
    pcrf.answer(termination(REGISTRATION))
    assert counts(pcrf) == (1, 1)
    assert not pcrf.wrong


def test_signalling_with_filters_of_its_own_is_signalling_whatever_its_number() -> None:
    pcrf = Procedures()
    flow = MediaSubComponent(1, filters(), flow_usage=FlowUsage.AF_SIGNALLING)
    one = MediaComponentDescription(1, [flow], media_type=MediaType.CONTROL)
    assert pcrf.answer(aar(one)).outcome == "2001"
    assert counts(pcrf) == (1, 0)
    assert pcrf.wrong == {"signalling_component_numbered": 1}


def test_an_str_of_a_session_that_is_not_there() -> None:
    pcrf = Procedures()
    pcrf.answer(aar())
    for session_id, outcome in ((REGISTRATION, "5002"), (CALL, "2001"), (CALL, "5002")):
        assert pcrf.answer(termination(session_id)).outcome == outcome
    assert counts(pcrf) == (0, 0)
    assert pcrf.wrong == {"str_of_unknown_session": 2}


def test_the_request_type_must_fit_the_session() -> None:
    pcrf = Procedures()
    update = aar(rx_request_type=RxRequestType.UPDATE_REQUEST)
    initial = aar(rx_request_type=RxRequestType.INITIAL_REQUEST)
    assert pcrf.answer(update).outcome == "5002"
    assert counts(pcrf) == (0, 0)
    assert pcrf.answer(initial).outcome == "2001"
    assert pcrf.answer(update).outcome == "2001"
    assert pcrf.answer(initial).outcome == "exp. 5064"
    assert pcrf.wrong == {"update_of_unknown_session": 1, "initial_of_known_session": 1}


def test_a_request_sent_again_after_a_failover_is_served_once() -> None:
    pcrf = Procedures()
    first = aar(specific_action=[ALLOCATED], rx_request_type=RxRequestType.INITIAL_REQUEST)
    first.header.end_to_end_identifier = 7
    pcrf.answer(first)
    held(pcrf).reports.clear()
    first.header.command_flags |= FLAG_RETRANSMIT
    assert pcrf.answer(first).outcome == "2001"
    assert not held(pcrf).reports
    assert pcrf.counters["retransmissions"] == 1
    first.header.end_to_end_identifier = 8  # marked so, but another request
    assert pcrf.answer(first).outcome == "exp. 5064"


def test_what_a_change_leaves_out_stays() -> None:
    pcrf = Procedures()
    pcrf.answer(aar())
    before = held(pcrf).components
    bare = MediaComponentDescription(1, flow_status=FlowStatus.DISABLED)
    assert pcrf.answer(aar(bare, specific_action=[], subscription_id=[])).outcome == "2001"
    session = held(pcrf)
    assert session.actions == {LOSS, RELEASE}
    assert session.subscriptions
    assert session.components[1].status is FlowStatus.DISABLED
    assert session.components[1].flows == before[1].flows
    assert session.components[1].bandwidth == (49_000, 49_000)
    pcrf.answer(aar(bare, specific_action=[ACCESS]))
    assert held(pcrf).actions == {ACCESS}


def test_a_flow_status_of_removed_takes_a_flow_or_a_component_away() -> None:
    pcrf = Procedures()
    pcrf.answer(aar(audio(1), audio(2)))
    rtcp = MediaSubComponent(2, flow_status=FlowStatus.REMOVED)
    pcrf.answer(aar(MediaComponentDescription(1, [rtcp])))
    assert set(held(pcrf).components[1].flows) == {1}
    for number, media in ((1, 1), (2, 0)):
        gone = MediaComponentDescription(number, flow_status=FlowStatus.REMOVED)
        assert pcrf.answer(aar(gone)).outcome == "2001"
        assert counts(pcrf) == (1, media)
    pcrf.answer(termination())
    assert counts(pcrf) == (0, 0)


def test_what_an_af_does_oddly_is_counted_and_served() -> None:
    pcrf = Procedures()
    pcrf.answer(aar(subscription_id=[], specific_action=[1, 5], auth_application_id=4))
    pcrf.answer(aar(origin_host=b"pcscf2.home", **framed("198.18.0.9")))
    assert pcrf.wrong == {
        "subscription_id_missing": 1,
        "specific_action_void": 1,
        "session_of_another_af": 1,
        "address_changed": 1,
    }
    assert held(pcrf).af_host == b"pcscf2.home"
    empty = aar(session_id="other")
    empty.media_component_description = []
    assert pcrf.answer(empty).outcome == "2001"
    assert pcrf.wrong["media_missing"] == 1


def test_a_restored_pcscf_needs_no_media_and_no_address() -> None:
    pcrf = Procedures()
    request = aar(rx_request_type=RxRequestType.PCSCF_RESTORATION, framed_ip_address=None)
    request.media_component_description = []
    assert pcrf.answer(request).outcome == "2001"
    assert not pcrf.wrong


@pytest.mark.parametrize(
    ("values", "result", "name", "failed"),
    [
        ({"framed_ip_address": None}, Result.MISSING_AVP, "address_missing", 8),
        ({"framed_ip_address": b"\1"}, Result.INVALID_AVP_VALUE, "address_malformed", 8),
        (
            {"framed_ip_address": None, "framed_ipv6_prefix": b"\0"},
            Result.INVALID_AVP_VALUE,
            "address_malformed",
            97,
        ),
    ],
)
def test_a_session_is_of_a_phone_at_an_address(
    values: dict[str, bytes | None], result: Result, name: str, failed: int
) -> None:
    pcrf = Procedures()
    with pytest.raises(BadMessage) as caught:
        pcrf.answer(aar(**values))
    assert caught.value.result is result
    assert caught.value.failed is not None
    assert caught.value.failed.code == failed
    assert pcrf.wrong == {name: 1}
    assert counts(pcrf) == (0, 0)


def test_the_pcrf_serves_no_requests_of_its_own_kind() -> None:
    with pytest.raises(BadMessage) as caught:
        Procedures().answer(ReAuthRequest(session_id=CALL))
    assert caught.value.result is Result.COMMAND_UNSUPPORTED


# --- service information ----------------------------------------------------------------------------

Spoil = Callable[[MediaComponentDescription], object]


def flow(one: MediaComponentDescription) -> MediaSubComponent:
    """The first flow of a component."""
    return one.media_sub_component[0]


REFUSED: list[tuple[str, str, Spoil]] = [
    ("component_without_flows", "5061", lambda one: one.media_sub_component.clear()),
    ("flow_repeated", "5061", lambda one: one.media_sub_component.append(flow(one))),
    ("flow_description_missing", "5061", lambda one: flow(one).flow_description.clear()),
    ("flow_description_malformed", "5061", lambda one: flow(one).flow_description.append(b"x")),
    (
        "flow_description_restricted",
        "5062",
        lambda one: flow(one).flow_description.append(b"deny out 17 from any to any"),
    ),
    (
        "flow_description_restricted",
        "5062",
        lambda one: flow(one).flow_description.append(b"permit out 17 from any to assigned"),
    ),
    (
        "flow_description_restricted",
        "5062",
        lambda one: flow(one).flow_description.append(b"permit out 17 from !1.2.3.4 to any"),
    ),
    (
        "flow_description_restricted",
        "5062",
        lambda one: flow(one).flow_description.append(b"permit out 6 from any to any setup"),
    ),
    ("codec_data_malformed", "5061", lambda one: one.codec_data.append("uplink")),
    ("codec_data_malformed", "5061", lambda one: one.codec_data.append("")),
    ("codec_data_malformed", "5061", lambda one: one.codec_data.append("up\noffer\nm=audio")),
    ("codec_data_malformed", "5061", lambda one: one.codec_data.append("uplink\nask\nm=audio")),
    ("codec_data_malformed", "5061", lambda one: one.codec_data.append("uplink\noffer\nrubbish")),
    (
        "component_0_not_signalling",
        "5061",
        lambda one: setattr(one, "media_component_number", 0),
    ),
]


@pytest.mark.parametrize(("name", "result", "spoil"), REFUSED)
def test_invalid_service_information_is_refused_by_name_and_changes_nothing(
    name: str, result: str, spoil: Spoil
) -> None:
    spoilt = audio(3)
    spoil(spoilt)
    pcrf = Procedures()
    assert pcrf.answer(aar(audio(1), spoilt)).outcome == f"exp. {result}"
    assert counts(pcrf) == (0, 0)
    pcrf.answer(aar(audio(1)))
    before = held(pcrf).components, held(pcrf).actions
    answer = pcrf.answer(aar(audio(2), spoilt, specific_action=[ACCESS]))
    assert answer.outcome == f"exp. {result}"
    assert answer.error_message
    assert (held(pcrf).components, held(pcrf).actions) == before
    assert pcrf.wrong == {name: 2}


def test_a_component_may_be_there_once() -> None:
    pcrf = Procedures()
    assert pcrf.answer(aar(audio(1), audio(1))).outcome == "exp. 5061"
    assert pcrf.wrong == {"component_repeated": 1}


NOTED: list[tuple[str, Spoil]] = [
    ("codec_data_without_sdp", lambda one: one.codec_data.append("uplink\noffer\n")),
    ("codec_data_nul", lambda one: one.codec_data.append("uplink\noffer\nm=audio 9 RTP/AVP 0\n\0")),
    ("media_type_missing", lambda one: setattr(one, "media_type", None)),
    ("bandwidth_missing", lambda one: setattr(one, "max_requested_bandwidth_dl", None)),
    ("flow_descriptions_many", lambda one: flow(one).flow_description.extend(filters(shift=1))),
    (
        "flow_not_of_phone",
        lambda one: setattr(flow(one), "flow_description", filters("198.18.0.9", OTHER)),
    ),
    (
        "flow_not_of_phone",
        lambda one: setattr(flow(one), "flow_description", filters("2001:db8::1", "2001:db8::2")),
    ),
]


@pytest.mark.parametrize(("name", "spoil"), NOTED)
def test_odd_service_information_is_counted_and_accepted(name: str, spoil: Spoil) -> None:
    odd = audio()
    spoil(odd)
    pcrf = Procedures()
    assert pcrf.answer(aar(odd)).outcome == "2001"
    assert pcrf.wrong == {name: 1}


def test_a_phone_with_a_prefix_has_flows_at_any_of_its_addresses() -> None:
    pcrf = Procedures()
    prefix = bytes((0, 64)) + bytes.fromhex("2001000200000001")
    one = audio(phone="2001:2:0:1::7", other="2001:2:0:1::8")
    pcrf.answer(aar(one, framed_ip_address=None, framed_ipv6_prefix=prefix))
    assert not pcrf.wrong


# --- reports ----------------------------------------------------------------------------------------


def asked(pcrf: Procedures, request: DiameterMessage) -> dict[int, Report]:
    """The reports that are due after a request."""
    session = pcrf.sessions.get(request.session_id)
    if session is not None:
        session.reports.clear()
    pcrf.answer(request)
    return held(pcrf).reports


def test_a_report_is_due_for_new_media_to_who_subscribed() -> None:
    pcrf = Procedures()
    assert not asked(pcrf, aar())
    request = aar(specific_action=[LOSS, ACCESS, ALLOCATED])
    assert not asked(pcrf, request)  # the bearer stands already
    request = aar(audio(1), audio(2), specific_action=[LOSS, ACCESS, ALLOCATED])
    request.header.end_to_end_identifier = 7
    assert asked(pcrf, request) == {7: Report((ALLOCATED, ACCESS), (2,))}


def test_a_report_follows_what_a_bearer_depends_on() -> None:
    pcrf = Procedures()
    asked(pcrf, aar(specific_action=[ALLOCATED]))
    closed = MediaComponentDescription(1, flow_status=FlowStatus.DISABLED)
    assert not asked(pcrf, aar(closed, specific_action=[]))
    wider = MediaComponentDescription(1, max_requested_bandwidth_ul=64_000)
    assert asked(pcrf, aar(wider, specific_action=[]))
    moved = MediaComponentDescription(1, [MediaSubComponent(1, filters(shift=10))])
    assert asked(pcrf, aar(moved, specific_action=[]))
    assert not asked(pcrf, aar(moved, specific_action=[]))


def test_sessions_are_drawn_among_those_with_media_that_subscribed() -> None:
    pcrf = Procedures(seed=5)
    for n in range(20):
        actions = [RELEASE] if n % 2 else [LOSS]
        pcrf.answer(aar(session_id=f"call;{n}", specific_action=actions))
        pcrf.answer(aar(signalling(), session_id=f"registration;{n}"))
    drawn = [one.id for one in pcrf.sessions.draw(4, [RELEASE])]
    assert len(set(drawn)) == 4
    assert {one.split(";")[0] for one in drawn} == {"call"}
    assert all(int(one.split(";")[1]) % 2 for one in drawn)
    assert len(pcrf.sessions.draw(99, [RELEASE])) == 10
    assert len(pcrf.sessions.draw(99)) == 20
