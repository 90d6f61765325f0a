"""Cx procedures of the HSS: every row of TS 29.228 §6 as the project's notes sum it up, and User-Data."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from defusedxml.ElementTree import fromstring

from imsbench.protocol.aka import Milenage, SqnWindow, SyncFailure, run_aka
from imsbench.subscriber import Population
from simulators.base import DiameterMessage
from simulators.codec import BadMessage, Result
from simulators.cx import (
    AKA_SCHEME,
    LocationInfoRequest,
    MultimediaAuthRequest,
    OriginatingRequest,
    RegistrationTerminationRequest,
    ServerAssignmentRequest,
    ServerAssignmentType,
    SipAuthDataItem,
    UserAuthorizationRequest,
    UserAuthorizationType,
)
from simulators.hss import Procedures, State, Store
from simulators.hss.userdata import FilterCriteria, ServicePoint, UserDataWriter

PEOPLE = Population(count=100, seed=3)
ALICE, BOB = PEOPLE.subscriber(0), PEOPLE.subscriber(1)
S1, S2 = "sip:scscf1.home", "sip:scscf2.home"
T = ServerAssignmentType
R = UserAuthorizationType


def hss(**options: Any) -> Procedures:
    """A fresh HSS."""
    return Procedures(PEOPLE, **options)


def uar(what: R | None = None, **values: Any) -> UserAuthorizationRequest:
    """A UAR of Alice."""
    complete: dict[str, Any] = {
        "user_name": ALICE.impi,
        "public_identity": ALICE.impu_temporary,
        "visited_network_identifier": b"home",
        "user_authorization_type": what,
    }
    return UserAuthorizationRequest(**complete | values)


def mar(server_name: str = S1, **values: Any) -> MultimediaAuthRequest:
    """A MAR for one vector."""
    complete: dict[str, Any] = {
        "user_name": ALICE.impi,
        "public_identity": ALICE.impu_temporary,
        "sip_auth_data_item": SipAuthDataItem(sip_authentication_scheme=AKA_SCHEME),
        "sip_number_auth_items": 1,
        "server_name": server_name,
    }
    return MultimediaAuthRequest(**complete | values)


def resynchronising(authorization: bytes, server_name: str = S1) -> MultimediaAuthRequest:
    """A MAR after a synchronisation failure."""
    item = SipAuthDataItem(sip_authentication_scheme=AKA_SCHEME, sip_authorization=authorization)
    return mar(server_name, sip_auth_data_item=item)


def sar(what: T, server_name: str = S1, **values: Any) -> ServerAssignmentRequest:
    """A SAR of Alice."""
    complete: dict[str, Any] = {
        "user_name": ALICE.impi,
        "public_identity": [ALICE.impu_temporary],
        "server_name": server_name,
        "server_assignment_type": what,
        "user_data_already_available": 0,
        "origin_host": b"scscf1.home",
    }
    return ServerAssignmentRequest(**complete | values)


def lir(impu: str = ALICE.impu_sip, **values: Any) -> LocationInfoRequest:
    """A LIR for Alice."""
    return LocationInfoRequest(public_identity=impu, **values)


def in_state(state: str, **options: Any) -> Procedures:
    """An HSS whose Alice is: new, pending, registered, unregistered (all at S1)."""
    one = hss(**options)
    if state == "pending":
        one.answer(mar())
    elif state == "registered":
        one.answer(mar())
        assert one.answer(sar(T.REGISTRATION)).outcome == "2001"
    elif state == "unregistered":
        assert one.answer(sar(T.UNREGISTERED_USER)).outcome == "2001"
    return one


def refused(one: Procedures, request: DiameterMessage) -> BadMessage:
    """The error a request is refused with."""
    with pytest.raises(BadMessage) as caught:
        one.answer(request)
    assert caught.value.failed is not None
    return caught.value


def failed_code(error: BadMessage) -> int:
    """Code of the Failed-AVP."""
    assert error.failed is not None
    return int(error.failed.code)


# --- UAR ------------------------------------------------------------------------------------------

UAR_ROWS = [
    # state, authorization type, outcome, server name
    ("new", None, "exp. 2001", None),
    ("new", R.REGISTRATION, "exp. 2001", None),
    ("new", R.DE_REGISTRATION, "exp. 5003", None),
    ("new", R.REGISTRATION_AND_CAPABILITIES, "2001", None),
    ("pending", R.REGISTRATION, "exp. 2002", S1),
    ("pending", R.DE_REGISTRATION, "2001", S1),
    ("pending", R.REGISTRATION_AND_CAPABILITIES, "2001", None),
    ("registered", None, "exp. 2002", S1),
    ("registered", R.REGISTRATION, "exp. 2002", S1),
    ("registered", R.DE_REGISTRATION, "2001", S1),
    ("registered", R.REGISTRATION_AND_CAPABILITIES, "2001", None),
    ("unregistered", R.REGISTRATION, "exp. 2002", S1),
    ("unregistered", R.DE_REGISTRATION, "2001", S1),
]


@pytest.mark.parametrize(("state", "what", "outcome", "server_name"), UAR_ROWS)
@pytest.mark.parametrize("impu", ALICE.impus)
def test_uar(state: str, what: R | None, outcome: str, server_name: str | None, impu: str) -> None:
    answer = in_state(state).answer(uar(what, public_identity=impu))
    assert (answer.outcome, answer.server_name) == (outcome, server_name)


UNKNOWN_IMPIS = [
    "999990000000001@home",
    "001010000000001@elsewhere",
    PEOPLE.subscriber(99).impi.replace("100@", "101@"),
    ALICE.impu_sip,
    ALICE.impu_sip.removeprefix("sip:"),
    "",
]
UNKNOWN_IMPUS = ["sip:nobody@home", "tel:+4912345", ALICE.impi, "mailto:a@b", ""]


@pytest.mark.parametrize("impi", UNKNOWN_IMPIS)
def test_uar_and_mar_of_an_unknown_private_identity(impi: str) -> None:
    assert hss().answer(uar(user_name=impi)).outcome == "exp. 5001"
    assert hss().answer(mar(user_name=impi)).outcome == "exp. 5001"
    assert hss().answer(sar(T.REGISTRATION, user_name=impi)).outcome == "exp. 5001"


@pytest.mark.parametrize("impu", UNKNOWN_IMPUS)
def test_an_unknown_public_identity_in_any_command(impu: str) -> None:
    for request in (
        uar(public_identity=impu),
        mar(public_identity=impu),
        sar(T.REGISTRATION, public_identity=[impu]),
        lir(impu),
    ):
        assert hss().answer(request).outcome == "exp. 5001"


def test_identities_of_two_subscribers_do_not_match() -> None:
    for request in (
        uar(public_identity=BOB.impu_sip),
        mar(public_identity=BOB.impu_sip),
        sar(T.REGISTRATION, public_identity=[BOB.impu_sip]),
        sar(T.USER_DEREGISTRATION, public_identity=[ALICE.impu_sip, BOB.impu_sip]),
    ):
        assert hss().answer(request).outcome == "exp. 5002"


def test_uar_of_a_subscriber_with_barred_identities_only() -> None:
    one = hss(barred=frozenset({0}))
    answer = one.answer(uar())
    assert (answer.result_code, answer.experimental_result) == (5003, None)
    bobs = one.answer(uar(user_name=BOB.impi, public_identity=BOB.impu_temporary))
    assert bobs.outcome == "exp. 2001"


def test_uar_from_a_network_without_roaming_agreement() -> None:
    one = hss(visited_networks=frozenset({b"home"}))
    assert one.answer(uar()).outcome == "exp. 2001"
    assert one.answer(uar(visited_network_identifier=b"away")).outcome == "exp. 5004"


# --- MAR ------------------------------------------------------------------------------------------


def test_mar_stores_the_name_and_the_vector_is_one_that_a_new_phone_accepts() -> None:
    one = hss()
    answer = one.answer(mar())
    assert answer.outcome == "2001"
    assert (answer.user_name, answer.public_identity) == (ALICE.impi, ALICE.impu_temporary)
    assert answer.sip_number_auth_items == 1
    (item,) = answer.sip_auth_data_item
    assert item.sip_item_number == 1
    assert item.sip_authentication_scheme == "Digest-AKAv1-MD5"
    assert len(item.sip_authenticate) == 32
    result = run_aka(
        Milenage(ALICE.k, opc=ALICE.opc),
        item.sip_authenticate[:16],
        item.sip_authenticate[16:],
        SqnWindow(),
    )
    assert (result.res, result.ck, result.ik) == (
        item.sip_authorization,
        item.confidentiality_key,
        item.integrity_key,
    )
    entry = one.store.get(0)
    assert (entry.state, entry.server_name, entry.pending) == (State.NOT_REGISTERED, S1, True)


def test_mar_with_an_operators_op() -> None:
    people = replace(PEOPLE, op=bytes(range(16)))
    answer = Procedures(people).answer(mar())
    nonce = answer.sip_auth_data_item[0].sip_authenticate
    run_aka(Milenage(ALICE.k, op=people.op), nonce[:16], nonce[16:], SqnWindow())


@pytest.mark.parametrize(("asked", "given"), [(1, 1), (3, 3), (5, 5), (6, 5), (1000, 5)])
def test_mar_gives_no_more_vectors_than_asked_each_fresher(asked: int, given: int) -> None:
    answer = hss().answer(mar(sip_number_auth_items=asked))
    assert answer.sip_number_auth_items == len(answer.sip_auth_data_item) == given
    assert [item.sip_item_number for item in answer.sip_auth_data_item] == list(range(1, given + 1))
    window, milenage = SqnWindow(), Milenage(ALICE.k, opc=ALICE.opc)
    for item in answer.sip_auth_data_item:
        run_aka(milenage, item.sip_authenticate[:16], item.sip_authenticate[16:], window)


def test_mar_refuses_other_schemes_and_no_vectors() -> None:
    one = hss()
    for scheme in ("SIP Digest", "Digest-MD5", None):
        item = SipAuthDataItem(sip_authentication_scheme=scheme)
        answer = one.answer(mar(sip_auth_data_item=item))
        assert answer.outcome == "exp. 5006"
        assert "ask for Digest-AKAv1-MD5" in (answer.error_message or "")
    assert one.counters["schemes_refused"] == 3
    assert one.store.get(0).server_name == ""
    error = refused(hss(), mar(sip_number_auth_items=0))
    assert (error.result, failed_code(error)) == (Result.INVALID_AVP_VALUE, 607)


@pytest.mark.parametrize("scheme", ["Unknown", "unknown", "digest-akav1-md5"])
def test_mar_that_leaves_the_choice_to_the_hss_gets_aka(scheme: str) -> None:
    item = SipAuthDataItem(sip_authentication_scheme=scheme)
    (given,) = hss().answer(mar(sip_auth_data_item=item)).sip_auth_data_item
    assert given.sip_authentication_scheme == "Digest-AKAv1-MD5"


@pytest.mark.parametrize(
    ("state", "server_name", "pending", "state_after"),
    [
        ("new", S1, True, State.NOT_REGISTERED),
        ("pending", S2, True, State.NOT_REGISTERED),
        ("unregistered", S2, True, State.UNREGISTERED),
        ("registered", S1, False, State.REGISTERED),  # vectors only
        ("registered", S2, True, State.REGISTERED),  # name overwritten
    ],
)
def test_mar_by_state(state: str, server_name: str, pending: bool, state_after: State) -> None:
    one = in_state(state)
    assert one.answer(mar(server_name)).outcome == "2001"
    entry = one.store.get(0)
    assert (entry.state, entry.server_name, entry.pending) == (state_after, server_name, pending)


def synchronisation_failure(one: Procedures, sqn_ms: int) -> bytes:
    """RAND and AUTS of a phone that has seen this SQN."""
    nonce = one.answer(mar()).sip_auth_data_item[0].sip_authenticate
    milenage = Milenage(ALICE.k, opc=ALICE.opc)
    with pytest.raises(SyncFailure) as caught:
        run_aka(milenage, nonce[:16], nonce[16:], SqnWindow(highest=sqn_ms))
    return bytes(nonce[:16] + caught.value.auts)


def test_resynchronisation_goes_on_from_the_phones_sqn() -> None:
    one = hss()
    sqn_ms = 5000 << 5 | 7
    authorization = synchronisation_failure(one, sqn_ms)
    answer = one.answer(resynchronising(authorization))
    assert answer.outcome == "2001"
    nonce = answer.sip_auth_data_item[0].sip_authenticate
    milenage = Milenage(ALICE.k, opc=ALICE.opc)
    result = run_aka(milenage, nonce[:16], nonce[16:], SqnWindow(highest=sqn_ms))
    assert result.sqn >> 5 == 5001
    assert one.counters["resynchronisations"] == 1


def test_resynchronisation_is_refused_with_a_wrong_mac_or_from_another_scscf() -> None:
    one = hss()
    authorization = synchronisation_failure(one, 5000 << 5)
    before = one.store.get(0)
    wrong = authorization[:-1] + bytes((authorization[-1] ^ 1,))
    assert one.answer(resynchronising(wrong)).outcome == "5012"
    assert one.answer(resynchronising(authorization, S2)).outcome == "5012"
    assert hss().answer(resynchronising(authorization)).outcome == "5012"
    assert one.store.get(0) == before
    assert one.store.next_sqn(0) >> 5 == 2
    assert one.counters["resynchronisations_refused"] == 1


@pytest.mark.parametrize("length", [0, 14, 29, 31])
def test_rand_and_auts_have_thirty_octets(length: int) -> None:
    error = refused(in_state("pending"), resynchronising(bytes(length)))
    assert (error.result, failed_code(error)) == (Result.INVALID_AVP_VALUE, 610)


# --- SAR ------------------------------------------------------------------------------------------

SAR_ROWS = [
    # state, type, server name, outcome, state after, name after, user data
    ("new", T.REGISTRATION, S1, "2001", State.REGISTERED, S1, True),
    ("pending", T.REGISTRATION, S1, "2001", State.REGISTERED, S1, True),
    ("pending", T.REGISTRATION, S2, "exp. 5005", State.NOT_REGISTERED, S1, False),
    ("registered", T.REGISTRATION, S2, "exp. 5005", State.REGISTERED, S1, False),
    ("registered", T.RE_REGISTRATION, S1, "2001", State.REGISTERED, S1, True),
    ("registered", T.RE_REGISTRATION, S2, "exp. 5005", State.REGISTERED, S1, False),
    ("unregistered", T.REGISTRATION, S1, "2001", State.REGISTERED, S1, True),
    ("new", T.UNREGISTERED_USER, S1, "2001", State.UNREGISTERED, S1, True),
    ("unregistered", T.UNREGISTERED_USER, S2, "exp. 5005", State.UNREGISTERED, S1, False),
    ("registered", T.USER_DEREGISTRATION, S1, "2001", State.NOT_REGISTERED, "", False),
    ("registered", T.TIMEOUT_DEREGISTRATION, S1, "2001", State.NOT_REGISTERED, "", False),
    ("registered", T.ADMINISTRATIVE_DEREGISTRATION, S1, "2001", State.NOT_REGISTERED, "", False),
    ("registered", T.DEREGISTRATION_TOO_MUCH_DATA, S1, "2001", State.NOT_REGISTERED, "", False),
    ("unregistered", T.USER_DEREGISTRATION, S1, "2001", State.NOT_REGISTERED, "", False),
    ("new", T.USER_DEREGISTRATION, S1, "2001", State.NOT_REGISTERED, "", False),
    (
        "registered",
        T.USER_DEREGISTRATION_STORE_SERVER_NAME,
        S1,
        "2001",
        State.UNREGISTERED,
        S1,
        False,
    ),
    (
        "registered",
        T.TIMEOUT_DEREGISTRATION_STORE_SERVER_NAME,
        S1,
        "2001",
        State.UNREGISTERED,
        S1,
        False,
    ),
    ("pending", T.AUTHENTICATION_FAILURE, S1, "2001", State.NOT_REGISTERED, "", False),
    ("pending", T.AUTHENTICATION_TIMEOUT, S1, "2001", State.NOT_REGISTERED, "", False),
    ("registered", T.AUTHENTICATION_FAILURE, S1, "2001", State.REGISTERED, S1, False),
    ("unregistered", T.AUTHENTICATION_TIMEOUT, S1, "2001", State.UNREGISTERED, S1, False),
    ("registered", T.NO_ASSIGNMENT, S1, "2001", State.REGISTERED, S1, True),
    ("registered", T.NO_ASSIGNMENT, S2, "5012", State.REGISTERED, S1, False),
    ("new", T.NO_ASSIGNMENT, S1, "5012", State.NOT_REGISTERED, "", False),
]


@pytest.mark.parametrize(
    ("state", "what", "server_name", "outcome", "state_after", "name_after", "user_data"), SAR_ROWS
)
def test_sar(
    state: str,
    what: T,
    server_name: str,
    outcome: str,
    state_after: State,
    name_after: str,
    user_data: bool,
) -> None:
    one = in_state(state)
    answer = one.answer(sar(what, server_name))
    assert answer.outcome == outcome
    assert (answer.user_data is not None) == user_data
    assert answer.user_name == (ALICE.impi if outcome == "2001" else None)
    assert answer.server_name == (S1 if outcome == "exp. 5005" else None)
    entry = one.store.get(0)
    assert (entry.state, entry.server_name) == (state_after, name_after)
    assert not entry.pending or outcome == "exp. 5005"
    assert one.store.registered == (state_after is State.REGISTERED)
    assert len(one.store) == (1 if name_after else 0)


def test_sar_after_a_challenge_of_a_registered_subscriber_that_failed() -> None:
    one = in_state("registered")
    one.answer(mar(S2))
    one.answer(sar(T.AUTHENTICATION_FAILURE, S2))
    entry = one.store.get(0)
    assert (entry.state, entry.server_name, entry.pending) == (State.REGISTERED, S2, False)


def test_sar_that_has_the_user_data_gets_none() -> None:
    answer = hss().answer(sar(T.REGISTRATION, user_data_already_available=1))
    assert (answer.outcome, answer.user_data) == ("2001", None)


def test_sar_where_the_server_name_is_not_kept() -> None:
    one = in_state("registered", keeps_server_name=False)
    answer = one.answer(sar(T.USER_DEREGISTRATION_STORE_SERVER_NAME))
    assert answer.outcome == "exp. 2004"
    assert one.store.get(0).state is State.NOT_REGISTERED
    assert len(one.store) == 0


@pytest.mark.parametrize("what", list(T))
def test_sar_with_several_identities(what: T) -> None:
    one = in_state("registered")
    request = sar(what, public_identity=list(ALICE.impus))
    if what in (4, 5, 6, 7, 8, 11):
        assert one.answer(request).outcome == "2001"
    else:
        error = refused(one, request)
        assert (error.result, failed_code(error)) == (Result.AVP_OCCURS_TOO_MANY_TIMES, 601)


@pytest.mark.parametrize("what", list(T))
def test_sar_without_public_identity(what: T) -> None:
    one = in_state("registered")
    request = sar(what, public_identity=[])
    if what in (4, 5, 6, 7, 8, 11):  # all of the User-Name's
        assert one.answer(request).outcome == "2001"
        assert one.store.get(0).state is not State.REGISTERED
    else:
        error = refused(one, request)
        assert (error.result, failed_code(error)) == (Result.MISSING_AVP, 601)
    nobody = sar(T.USER_DEREGISTRATION, public_identity=[], user_name=None)
    assert refused(one, nobody).result is Result.MISSING_AVP


def test_sar_without_user_name_finds_the_subscriber_by_the_identity() -> None:
    answer = hss().answer(sar(T.REGISTRATION, user_name=None))
    assert (answer.outcome, answer.user_name) == ("2001", ALICE.impi)


# --- LIR ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "services", "originating", "outcome", "server_name"),
    [
        ("new", False, False, "exp. 5003", None),
        ("new", True, False, "exp. 2003", None),
        ("new", False, True, "exp. 2003", None),
        ("pending", False, False, "exp. 5003", None),
        ("pending", True, False, "2001", S1),
        ("pending", False, True, "2001", S1),
        ("registered", False, False, "2001", S1),
        ("registered", False, True, "2001", S1),
        ("unregistered", False, False, "2001", S1),
    ],
)
@pytest.mark.parametrize("impu", [ALICE.impu_sip, ALICE.impu_tel, ALICE.impu_sip + ";user=phone"])
def test_lir(
    state: str, services: bool, originating: bool, outcome: str, server_name: str, impu: str
) -> None:
    one = in_state(state, unregistered_services=services)
    flag = OriginatingRequest.ORIGINATING if originating else None
    answer = one.answer(lir(impu, originating_request=flag))
    assert (answer.outcome, answer.server_name) == (outcome, server_name)


# --- all together -----------------------------------------------------------------------------------


def test_a_registration_from_first_to_last() -> None:
    """UAR 2001, MAR, UAR 2002 with the name, SAR; then de-registration, and it all begins anew."""
    one = hss()
    for _ in range(3):
        outcomes = [
            one.answer(request).outcome
            for request in (
                uar(),
                mar(),
                uar(),
                sar(T.REGISTRATION),
                lir(),
                uar(),
                uar(R.DE_REGISTRATION),
                sar(T.USER_DEREGISTRATION),
                lir(),
            )
        ]
        assert outcomes == [
            "exp. 2001",
            "2001",
            "exp. 2002",
            "2001",
            "2001",
            "exp. 2002",
            "2001",
            "2001",
            "exp. 5003",
        ]
    assert len(one.store) == 0


def test_answers_carry_one_result_and_can_be_written() -> None:
    one = hss()
    for request in (uar(), mar(), uar(), sar(T.REGISTRATION), lir(), lir("sip:x@y")):
        answer = one.answer(request)
        assert (answer.result_code is None) != (answer.experimental_result is None)
        assert answer.as_bytes()


def test_an_hss_serves_no_rtr() -> None:
    with pytest.raises(BadMessage) as caught:
        hss().answer(RegistrationTerminationRequest())
    assert caught.value.result is Result.COMMAND_UNSUPPORTED


def test_the_same_seed_gives_the_same_challenges() -> None:
    challenges = [
        Procedures(PEOPLE, seed=seed).answer(mar()).sip_auth_data_item[0].sip_authenticate
        for seed in (1, 1, 2)
    ]
    assert challenges[0] == challenges[1] != challenges[2]


def test_sqn_counts_seq_and_ind_each_by_one() -> None:
    store = Store(2)
    assert [store.next_sqn(0) for _ in range(3)] == [1 << 5 | 1, 2 << 5 | 2, 3 << 5 | 3]
    assert store.next_sqn(1) == 1 << 5 | 1
    store.set_sqn(0, 9 << 5 | 31)
    assert store.next_sqn(0) == 10 << 5 | 0
    for wrong in (-1, 1 << 48):
        with pytest.raises(ValueError, match="48 bits"):
            store.set_sqn(0, wrong)


def test_the_store_counts_the_registered_and_keeps_only_what_changed() -> None:
    one = hss()
    expected: set[int] = set()
    source = random.Random(5)
    for _ in range(2000):
        n = source.randrange(PEOPLE.count)
        someone = PEOPLE.subscriber(n)
        what = source.choice([T.REGISTRATION, T.USER_DEREGISTRATION])
        one.answer(sar(what, user_name=someone.impi, public_identity=[someone.impu_tel]))
        (expected.add if what is T.REGISTRATION else expected.discard)(n)
        assert one.store.registered == len(one.store) == len(expected)


# --- User-Data --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("registered", "count", "drawn"), [(80, 5, 5), (80, 60, 60), (3, 2, 2), (3, 9, 3), (0, 1, 0)]
)
def test_the_store_draws_so_many_of_the_registered(registered: int, count: int, drawn: int) -> None:
    store = Store(100)
    for n in range(registered):
        store.change(n, state=State.REGISTERED)
    store.change(99, state=State.UNREGISTERED)
    found = store.draw(count, random.Random(1))
    assert len(found) == len(set(found)) == drawn
    assert set(found) <= set(range(registered))
    assert store.draw(count, random.Random(1)) == found


def test_user_data_names_the_implicit_set_and_bars_the_temporary_identity() -> None:
    root = fromstring(hss().answer(sar(T.REGISTRATION)).user_data)
    assert root.tag == "IMSSubscription"
    assert [child.tag for child in root] == ["PrivateID", "ServiceProfile"]
    assert root.findtext("PrivateID") == ALICE.impi
    identities = [
        ([child.tag for child in one], one.findtext("BarringIndication"), one.findtext("Identity"))
        for one in root.findall("ServiceProfile/PublicIdentity")
    ]
    order = ["BarringIndication", "Identity"]
    assert identities == [
        (order, "1", ALICE.impu_temporary),
        (order, "0", ALICE.impu_sip),
        (order, "0", ALICE.impu_tel),
    ]
    assert root.find("ServiceProfile/InitialFilterCriteria") is None


def test_filter_criteria_in_the_order_of_annex_e() -> None:
    criteria = FilterCriteria.from_config(
        {
            "priority": 3,
            "server_name": "sip:as.home;x=<&>",
            "conjunctive": False,
            "default_handling": 0,
            "service_info": "a & b",
            "points": [
                {"kind": "Method", "value": "REGISTER", "registration_types": [0, 2]},
                {"kind": "SIPHeader", "value": "Accept", "content": "sdp", "negated": True},
                {"kind": "SessionCase", "value": "0", "group": 1},
                {"kind": "SessionDescription", "value": "m", "content": "audio"},
            ],
        }
    )
    root = fromstring(UserDataWriter([criteria]).serialize(ALICE))
    (found,) = root.findall("ServiceProfile/InitialFilterCriteria")
    assert [one.tag for one in found] == ["Priority", "TriggerPoint", "ApplicationServer"]
    points = found.findall("TriggerPoint/SPT")
    assert [[child.tag for child in point] for point in points] == [
        ["ConditionNegated", "Group", "Method", "Extension"],
        ["ConditionNegated", "Group", "SIPHeader"],
        ["ConditionNegated", "Group", "SessionCase"],
        ["ConditionNegated", "Group", "SessionDescription"],
    ]
    assert [point.findtext("ConditionNegated") for point in points] == ["0", "1", "0", "0"]
    assert [one.text for one in points[0].findall("Extension/RegistrationType")] == ["0", "2"]
    assert points[1].findtext("SIPHeader/Content") == "sdp"
    assert points[3].findtext("SessionDescription/Line") == "m"
    assert found.findtext("TriggerPoint/ConditionTypeCNF") == "0"
    assert found.findtext("ApplicationServer/ServerName") == "sip:as.home;x=<&>"
    assert found.findtext("ApplicationServer/DefaultHandling") == "0"
    assert found.findtext("ApplicationServer/ServiceInfo") == "a & b"


def test_filter_criteria_that_look_at_nothing_known_are_refused() -> None:
    point = {"kind": "Weather", "value": "rain"}
    with pytest.raises(ValueError, match="Weather"):
        FilterCriteria.from_config({"priority": 0, "server_name": "sip:a", "points": [point]})
    assert FilterCriteria(1, "sip:a", (ServicePoint("Method", "INVITE"),)).points
