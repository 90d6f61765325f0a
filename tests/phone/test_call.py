"""Calls between two phones on virtual time, asserted as ladders (IR.92, RFC 3261, 3262, 3311, 3312)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from imsbench.kpi.sessions import SessionKpis
from imsbench.phone.leg import CallPlan, CallSettings
from imsbench.protocol.sdp import parse_sdp
from imsbench.protocol.sip import (
    Request,
    Response,
    parse_message,
    response_to,
    serialize_message,
)
from tests.phone.helpers import registered
from tests.phone.pair import Pair

PRECONDITIONS = [
    "-> INVITE", "<- 100", "<- 183", "-> PRACK", "<- 200", "-> UPDATE", "<- 200", "<- 180",
    "<- 200", "-> ACK", "-> BYE", "<- 200",
]  # fmt: skip


def plan(**values: Any) -> CallPlan:
    """A short call."""
    common = {
        name: values.pop(name) for name in list(values) if name in CallSettings.__dataclass_fields__
    }
    return CallPlan(CallSettings(**common), **({"hold_s": 10.0} | values))


def test_a_call_with_preconditions() -> None:
    pair = Pair(plan()).run()
    assert pair.ladder == PRECONDITIONS
    outcome = pair.outcome
    assert pair.over
    assert not outcome.cause, outcome
    assert not pair.side.cause
    assert not outcome.wrong
    assert not pair.side.wrong
    assert (outcome.status, outcome.release_by, outcome.dropped) == (200, "caller", False)
    assert outcome.progress_at == pytest.approx(0.010)  # RFC 6076 SRD ends at the 183
    assert outcome.setup_at == outcome.ringing_at == pytest.approx(0.030)  # TS 32.409: at the 180
    assert outcome.released_at - outcome.answered_at == pytest.approx(10.0)
    assert pair.side.reached_at == pytest.approx(0.005)


def test_the_invite_has_the_headers_of_ir92() -> None:
    seen: list[Request] = []

    def look(_pair: Pair, _name: str, message: Request | Response) -> bool:
        if isinstance(message, Request):
            copy = parse_message(serialize_message(message))
            assert isinstance(copy, Request)
            seen.append(copy)
        return True

    pair = Pair(plan())
    pair.hook = look
    pair.run()
    invite, prack, update, ack, bye = seen
    assert invite.uri == f"{pair.callee.phone.subscriber.impu_sip};user=phone"
    assert invite.values("supported") == ["100rel", "precondition", "timer"]
    assert "precondition" not in invite.values("require")  # TS 24.229 §5.1.3.1
    assert invite.get("p-preferred-service") == "urn:urn-7:3gpp-service.ims.icsi.mmtel"
    assert invite.get_all("route") == ["<sip:198.19.0.10:5060;lr>", "<sip:orig@scscf;lr>"]
    assert prack.get("rack") == "1 1 INVITE"
    assert [m.cseq for m in (invite, prack, update, ack, bye)] == [1, 2, 3, 1, 4]
    assert prack.get_all("route") == ["<sip:198.19.0.10;lr>"]
    assert "precondition" in update.values("require")
    statuses = [parse_sdp(message.body).media[0].qos for message in (invite, update)]
    assert [qos.curr_local for qos in statuses if qos] == ["none", "sendrecv"]
    assert parse_sdp(update.body).version == 2


def test_a_call_without_preconditions() -> None:
    pair = Pair(plan(preconditions=False)).run()
    assert pair.ladder == [
        "-> INVITE", "<- 100", "<- 180", "<- 200", "-> ACK", "-> BYE", "<- 200",
    ]  # fmt: skip
    assert not pair.outcome.cause
    assert not pair.outcome.wrong


def test_reliable_ringing_and_ring_time() -> None:
    pair = Pair(plan(reliable_ringing=True, ring_s=3.0)).run()
    assert pair.ladder[7:11] == ["<- 180", "-> PRACK", "<- 200", "<- 200"]
    assert pair.outcome.answered_at - pair.outcome.ringing_at == pytest.approx(3.0, abs=0.02)


def test_answered_early_without_180() -> None:
    pair = Pair(plan(ringing=False)).run()
    assert "<- 180" not in pair.ladder
    assert pair.outcome.setup_at == pair.outcome.answered_at


def test_the_called_phone_hangs_up() -> None:
    pair = Pair(plan(bye_by_callee=True)).run()
    assert pair.ladder[-2:] == ["<- BYE", "-> 200"]
    assert (pair.outcome.release_by, pair.outcome.dropped, pair.outcome.cause) == (
        "callee",
        False,
        "",
    )
    assert pair.over


@pytest.mark.parametrize(("expected", "status"), [("busy", 486), ("rejected", 603)])
def test_a_planned_refusal_is_no_failure(expected: Any, status: int) -> None:
    pair = Pair(plan(expected=expected)).run()
    assert pair.ladder == ["-> INVITE", "<- 100", f"<- {status}", "-> ACK"]
    assert (pair.outcome.status, pair.outcome.cause) == (status, "")
    assert not pair.outcome.established
    assert pair.over


def test_an_unplanned_refusal_is_one() -> None:
    pair = Pair(plan())
    pair.callee_plan = plan(expected="busy")
    pair.run()
    assert (pair.outcome.status, pair.outcome.stage, pair.outcome.cause) == (486, "invite", "486")


def test_no_answer_is_cancelled() -> None:
    pair = Pair(plan(expected="cancelled", cancel_after_s=4.0)).run()
    assert pair.ladder[-5:] == ["<- 180", "-> CANCEL", "<- 200", "<- 487", "-> ACK"]
    assert (pair.outcome.status, pair.outcome.cause) == (487, "")
    assert pair.outcome.established  # it rang
    assert pair.over


def test_a_cancel_that_crosses_the_answer_ends_in_a_bye() -> None:
    def hold_back_cancel(pair: Pair, _name: str, message: Request | Response) -> bool:
        if isinstance(message, Request) and message.method == "CANCEL":
            pair.forward(pair.caller, message, 0.5)
            return False
        return True

    pair = Pair(plan(expected="answered", ring_s=4.2, no_answer_s=4.0))
    pair.hook = hold_back_cancel
    outcome = pair.run().outcome
    assert outcome.events["cancel_crossed_answer"] == 1
    assert pair.ladder[-4:] == ["<- 200", "-> ACK", "-> BYE", "<- 200"]
    assert (outcome.stage, outcome.cause, outcome.release_by) == ("invite", "answered", "caller")
    assert (outcome.answered, outcome.dropped) == (True, False)
    assert outcome.ended_at == outcome.ladder[-1].at == pytest.approx(outcome.answered_at + 0.010)
    kpis = SessionKpis()
    kpis.record(outcome)
    assert kpis.completed == 1  # no response was missing (RFC 6076 §4.9)
    assert pair.over


@pytest.mark.parametrize("status", [0, 481])
def test_a_crossed_cancel_is_no_drop_whatever_becomes_of_its_bye(status: int) -> None:
    def refuse_bye(pair: Pair, name: str, message: Request | Response) -> bool:
        if isinstance(message, Request) and message.method == "CANCEL":
            pair.forward(pair.caller, message, 0.5)
            return False
        if isinstance(message, Response) and message.method == "BYE":
            message.status = status
            return bool(status)
        return True

    pair = Pair(plan(expected="answered", ring_s=4.2, no_answer_s=4.0))
    pair.hook = refuse_bye
    outcome = pair.run().outcome
    assert (outcome.stage, outcome.cause, outcome.dropped) == ("invite", "answered", False)
    assert outcome.events["abandoned_without_answer"] == 1
    assert outcome.ended_at > outcome.answered_at


def test_the_release_begins_at_the_first_byte_of_the_bye() -> None:
    """RFC 6076 §4.4, SDD: not at the SYN of a connection that the BYE has to open."""
    pair = Pair(plan())
    pair.connect_s = 0.7
    outcome = pair.run().outcome
    assert outcome.released_at - outcome.answered_at == pytest.approx(10.7)
    assert outcome.ended_at - outcome.released_at == pytest.approx(0.010)


def test_two_byes_cross() -> None:
    pair = Pair(plan(hold_s=10.0))
    # The called phone's time began when the ACK reached it, one way (5 ms) later.
    pair.callee_plan = plan(hold_s=9.995, bye_by_callee=True)
    pair.run()
    assert sorted(pair.ladder[-4:]) == ["-> 200", "-> BYE", "<- 200", "<- BYE"]
    assert pair.outcome.events == pair.side.events == {"bye_crossing": 1}
    assert not pair.outcome.cause
    assert not pair.outcome.dropped
    assert pair.over


def test_updates_that_cross_are_both_answered() -> None:
    pair = Pair(plan(session_expires_s=10, hold_s=7.0))
    sent: list[Request] = []

    def also_from_the_other_side(pair: Pair, name: str, message: Request | Response) -> bool:
        refresh = isinstance(message, Request) and message.method == "UPDATE" and not message.body
        if refresh and name == "caller" and not sent:
            assert isinstance(message, Request)
            headers = [
                (n, "777 UPDATE" if n == "cseq" else v) for n, v in message.headers if n != "via"
            ]
            headers.append(("via", "SIP/2.0/TCP far;branch=z9hG4bKother"))
            other = Request(
                "UPDATE", "sip:x", headers, branch="z9hG4bKother", call_id=message.call_id, cseq=777
            )
            sent.append(other)
            pair.forward(pair.callee, other, 0.001)
        return True

    pair.hook = also_from_the_other_side
    pair.run()
    assert sent
    assert "-> 200" in pair.ladder
    assert not pair.outcome.cause


@pytest.mark.parametrize("what", ["183", "200"])
def test_a_lost_response_is_repeated_until_acknowledged(what: str) -> None:
    lost: list[str] = []

    def lose_first(_pair: Pair, name: str, message: Request | Response) -> bool:
        is_it = (
            isinstance(message, Response)
            and str(message.status) == what
            and message.method == "INVITE"
        )
        if is_it and not lost:
            lost.append(what)
            return False
        return True

    pair = Pair(plan())
    pair.hook = lose_first
    pair.run()
    assert pair.repeated == 1
    assert not pair.outcome.cause
    assert pair.over


def test_repeated_183_and_200_are_answered_again_and_counted() -> None:
    def twice(pair: Pair, name: str, message: Request | Response) -> bool:
        if isinstance(message, Response) and message.method == "INVITE" and message.status > 180:
            pair.forward(pair.callee, message, 0.02)
        return True

    pair = Pair(plan())
    pair.hook = twice
    pair.run()
    assert pair.outcome.events == {"repeated_1xx": 1, "repeated_2xx": 1}
    assert pair.ladder.count("-> ACK") == 2
    assert pair.ladder.count("-> PRACK") == 1
    assert not pair.outcome.cause


def test_an_ack_that_never_comes_ends_the_call_of_the_called_phone() -> None:
    pair = Pair(plan(hold_s=100.0))
    pair.hook = lambda _p, _n, message: (
        not (isinstance(message, Request) and message.method == "ACK")
    )
    pair.run()
    assert (pair.side.stage, pair.side.cause) == ("ack", "timeout")
    assert pair.ladder[-2:] == ["<- BYE", "-> 200"]  # RFC 3261 §13.3.1.4, after 64*T1
    assert pair.outcome.released_at - pair.outcome.answered_at == pytest.approx(32.0, abs=0.05)
    assert (pair.outcome.release_by, pair.outcome.cause) == ("callee", "early bye")
    assert pair.over


def test_a_call_that_its_caller_does_not_end_is_ended_by_the_called_phone() -> None:
    pair = Pair(plan(hold_s=10.0))
    pair.callee_plan = plan(hold_s=1.0, transaction_timeout_s=2.0)
    pair.run()
    assert (pair.side.stage, pair.side.cause) == ("talk", "no bye")
    assert pair.ladder[-2:] == ["<- BYE", "-> 200"]
    assert pair.over


def test_a_prack_that_never_comes_ends_in_504() -> None:
    pair = Pair(plan())
    pair.hook = lambda _p, _n, m: not (isinstance(m, Request) and m.method == "PRACK")
    pair.run()
    assert pair.over
    assert (pair.outcome.stage, pair.outcome.cause) == ("prack", "timeout")
    assert "-> CANCEL" in pair.ladder or "<- 504" in pair.ladder


def test_nobody_answers_the_invite() -> None:
    pair = Pair(plan())
    pair.hook = lambda _p, _n, _m: False
    pair.run()
    assert (pair.outcome.stage, pair.outcome.cause) == ("invite", "timeout")
    assert pair.outcome.ended_at == pytest.approx(32.0)


@pytest.mark.parametrize(
    ("status", "expected", "cause"),
    [
        (404, "unregistered", ""),
        (480, "unregistered", ""),
        (500, "answered", "Rx"),
        (486, "answered", "486"),
    ],
)
def test_refusals_of_the_network(status: int, expected: Any, cause: str) -> None:
    def refuse(pair: Pair, name: str, message: Request | Response) -> bool:
        if isinstance(message, Request) and message.method == "INVITE":
            warning = ("warning", '399 pcscf "Rx AAR: refused"')
            reply = response_to(message, status, "No", to_tag="net", headers=[warning])
            pair.forward(pair.callee, reply)
            return False
        return True

    pair = Pair(plan(expected=expected))
    pair.hook = refuse
    pair.run()
    assert (pair.outcome.status, pair.outcome.cause) == (status, cause)
    assert "-> ACK" in pair.ladder
    if cause:
        assert "Rx AAR: refused" in pair.outcome.detail


def test_the_network_drops_the_call() -> None:
    def drop(pair: Pair, name: str, message: Request | Response) -> bool:
        if isinstance(message, Request) and message.method == "ACK":
            invite = message
            for side, other in ((pair.caller, "callee"), (pair.callee, "caller")):
                bye = Request(
                    "BYE", "sip:x",
                    [("via", f"SIP/2.0/TCP net;branch=z9hG4bKdrop{other}"),
                     ("from", "<sip:n>;tag=n"), ("to", "<sip:p>;tag=p"),
                     ("call-id", invite.call_id), ("cseq", "900 BYE"),
                     ("reason", 'SIP;cause=503;text="bearer lost"')],
                    branch=f"z9hG4bKdrop{other}", call_id=invite.call_id, cseq=900,
                )  # fmt: skip
                pair.at(2.0, side.read, bye)
        return True

    pair = Pair(plan())
    pair.hook = drop
    pair.run()
    outcome = pair.outcome
    assert (outcome.dropped, outcome.release_by, outcome.cause) == (
        True,
        "network",
        "released by the network",
    )
    assert outcome.released_at - outcome.answered_at == pytest.approx(2.0, abs=0.02)
    assert pair.over


def test_a_call_whose_phone_loses_its_registration_ends_without_a_word_in_clear() -> None:
    """TS 33.203 §7.1: its BYE has no association to leave by."""
    pair = Pair(plan())
    network = pair.caller.phone.network

    def lose(_: object) -> None:
        network.settings = replace(network.settings, ipsec=True)
        pair.caller.phone.client = pair.caller.phone.clear = None

    def answered(pair: Pair, name: str, message: Request | Response) -> bool:
        if isinstance(message, Request) and message.method == "ACK":
            pair.at(0.5, lose, None)
        return True

    pair.hook = answered
    pair.run()
    outcome = pair.outcome
    assert (outcome.cause, outcome.dropped) == ("registration lost", True)
    assert outcome.ended_at > outcome.answered_at
    assert pair.caller.done
    assert not any("BYE" in line for line in pair.ladder)


@pytest.mark.parametrize(
    ("reason", "by", "cause"),
    [
        ("Q.850;cause=16", "callee", ""),
        ('SIP ;cause=200 ;text="Call ended", Q.850;cause=16', "callee", ""),
        ("RELEASE_CAUSE;cause=1", "callee", ""),
        ("Q.850;cause=31", "network", "released by the network"),
        ("SIP;cause=16", "network", "released by the network"),
        ("Q.850;cause=16, SIP;cause=503", "network", "released by the network"),
        ('SIP;text="bearer lost"', "network", "released by the network"),
    ],
)
def test_a_bye_of_the_called_phone_is_judged_by_its_reason(
    reason: str, by: str, cause: str
) -> None:
    def give_reason(_pair: Pair, name: str, message: Request | Response) -> bool:
        if isinstance(message, Request) and message.method == "BYE":
            message.headers.append(("reason", reason))
        return True

    pair = Pair(plan(bye_by_callee=True))
    pair.hook = give_reason
    outcome = pair.run().outcome
    assert pair.ladder[-2:] == ["<- BYE", "-> 200"]
    assert (outcome.release_by, outcome.cause, outcome.dropped) == (by, cause, bool(cause))
    assert outcome.detail == (reason if cause else "")


def test_what_overtakes_an_answer_is_once_in_the_ladder_and_handled_behind_it() -> None:
    """180 and 200 of the INVITE while the UPDATE still waits for its 200."""

    def hold_back(pair: Pair, _name: str, message: Request | Response) -> bool:
        if isinstance(message, Response) and message.method == "UPDATE":
            pair.forward(pair.callee, message, 0.1)
            return False
        return True

    pair = Pair(plan())
    pair.hook = hold_back
    pair.run()
    came = [line.text for line in pair.outcome.ladder if line.direction == "<-"]
    assert came[-4:] == [
        "180 Ringing (INVITE)",
        "200 OK (INVITE)",
        "200 OK (UPDATE)",
        "200 OK (BYE)",
    ]
    times = [line.at for line in pair.outcome.ladder]
    assert times == sorted(times)
    assert not pair.outcome.cause
    assert pair.outcome.ringing_at == pytest.approx(0.030)
    assert pair.over


def test_a_wrong_caller_identity_is_found() -> None:
    pair = Pair(plan())
    forward = pair.forward

    def forged(sender: Any, message: Request | Response, delay_s: float = 0.005) -> None:
        forward(sender, message, delay_s)
        message.headers = [
            (n, "<sip:+999@elsewhere>" if n == "p-asserted-identity" else v)
            for n, v in message.headers
        ]

    pair.forward = forged  # type: ignore[method-assign]  # the test's own wire
    pair.run()
    assert pair.side.wrong == "caller shown as sip:+999@elsewhere"


def shown_as(identity: str) -> Pair:
    """A call of a phone whose default identity has user=phone, shown to the called phone so."""
    pair = Pair(plan())
    forward = pair.forward

    def network(sender: Any, message: Request | Response, delay_s: float = 0.005) -> None:
        pair.plan.caller_impu = f"{pair.caller.phone.subscriber.impu_sip};user=phone"
        forward(sender, message, delay_s)
        message.headers = [
            (n, identity if n == "p-asserted-identity" else v) for n, v in message.headers
        ]

    pair.forward = network  # type: ignore[method-assign]  # the test's own wire
    return pair.run()


def test_the_caller_is_known_by_any_spelling_of_its_identity() -> None:
    impu = Pair(plan()).caller.phone.subscriber.impu_sip
    user, _, host = impu.partition("@")
    for written in (f"<{impu};user=phone>", f"<{impu}>", f"<{user}@{host.upper()};user=phone>"):
        pair = shown_as(written)
        assert not pair.side.wrong, written
        assert not pair.outcome.cause


@pytest.mark.parametrize(
    ("sent", "arrives"),
    [
        (b"m=audio 50000", b"m=audio 40000"),
        (b"a=sendrecv", b"a=sendonly"),
        (b"b=AS:49", b"b=AS:24"),
    ],
)
def test_changed_sdp_is_found(sent: bytes, arrives: bytes) -> None:
    def change(_pair: Pair, _name: str, message: Request | Response) -> bool:
        if isinstance(message, Request) and message.method == "INVITE":
            assert sent in message.body
            message.body = message.body.replace(sent, arrives)
        return True

    pair = Pair(plan())
    pair.hook = change
    pair.run()
    assert pair.side.wrong == "the SDP of the INVITE is not what the caller sent"


def test_a_changed_answer_is_found() -> None:
    """It would fit the offer: only whoever knows what the called phone sent sees it."""

    def change(_pair: Pair, _name: str, message: Request | Response) -> bool:
        if isinstance(message, Response) and message.status == 183:
            message.body = message.body.replace(b"m=audio 50000", b"m=audio 40000")
        return True

    pair = Pair(plan())
    pair.hook = change
    pair.run()
    assert pair.outcome.wrong == "SDP of 183: not what the called phone sent"


def test_a_call_without_any_answer_is_found() -> None:
    def strip(_pair: Pair, _name: str, message: Request | Response) -> bool:
        if isinstance(message, Response):
            message.body = b""
        return True

    pair = Pair(plan(preconditions=False))
    pair.hook = strip
    pair.run()
    assert pair.outcome.answered
    assert pair.outcome.wrong == "no SDP answer by the 200"


def test_a_held_call_keeps_the_status_that_was_reached() -> None:
    offers: list[Request] = []

    def look(_pair: Pair, _name: str, message: Request | Response) -> bool:
        if isinstance(message, Request) and message.method == "INVITE":
            offers.append(message)
        return True

    pair = Pair(plan(hold_resume=True, hold_s=9.0))
    pair.hook = look
    pair.run()
    streams = [parse_sdp(offer.body).media[0] for offer in offers[1:]]
    assert [stream.direction for stream in streams] == ["sendonly", "sendrecv"]
    for qos in (stream.qos for stream in streams):
        assert qos is not None
        assert (qos.curr_local, qos.curr_remote) == ("sendrecv", "sendrecv")


def test_hold_and_resume_by_reinvite() -> None:
    pair = Pair(plan(hold_resume=True, hold_s=9.0)).run()
    assert pair.outcome.events == {"hold": 1, "resume": 1}
    assert pair.ladder.count("-> INVITE") == 3
    assert not pair.outcome.cause, pair.outcome
    assert not pair.outcome.wrong


def test_session_refreshes_by_update() -> None:
    pair = Pair(plan(session_expires_s=90, hold_s=100.0)).run()
    assert pair.outcome.events["session_refreshes"] == 2
    assert not pair.outcome.cause
    assert pair.over


def test_a_fork_has_two_early_dialogs() -> None:
    invites: list[Request] = []

    def fork(pair: Pair, _name: str, message: Request | Response) -> bool:
        if isinstance(message, Request) and message.method == "INVITE":
            invites.append(message)
        elif isinstance(message, Response) and message.status == 180:
            other = response_to(invites[0], 180, "Ringing", to_tag="fork")
            pair.forward(pair.callee, other)
        return True

    pair = Pair(plan())
    pair.hook = fork
    pair.run()
    assert pair.outcome.events["forked"] == 1
    assert not pair.outcome.cause


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from(["pass", "lose", "twice", "late"]), min_size=20, max_size=60),
    st.booleans(),
    st.sampled_from(["answered", "busy", "rejected", "cancelled"]),
)
def test_whatever_happens_on_the_wire_a_call_ends_once(
    fates: list[str], bye_by_callee: bool, expected: Any
) -> None:
    """Lost, repeated and late messages: both flows end, and each outcome is written once."""
    left = list(fates)

    def fate(pair: Pair, name: str, message: Request | Response) -> bool:
        what = left.pop(0) if left else "pass"
        sender = pair.caller if name == "caller" else pair.callee
        if what == "lose":
            return False
        if what == "twice":
            pair.forward(sender, message, 0.3)
        elif what == "late":
            pair.forward(sender, message, 1.7)
            return False
        return True

    pair = Pair(
        plan(bye_by_callee=bye_by_callee, expected=expected, reliable_ringing=True, hold_s=5.0)
    )
    pair.hook = fate
    pair.run(limit_s=5000.0)
    assert pair.over, (pair.ladder, pair.caller.done, pair.callee.done)
    assert pair.outcome.ended_at == pair.outcome.ended_at  # not NaN


def test_responses_say_where_the_phone_is_inside_associations_only() -> None:
    """TS 24.229 §5.1.2A.2: all but those to CANCEL, and the 100, which goes no further than a hop."""
    seen: dict[bool, set[str]] = {True: set(), False: set()}
    for protected in seen:
        pair = Pair(plan())
        if protected:
            pair.callee.phone.sas = registered().sas

        def look(
            _pair: Any, name: str, message: Request | Response, inside: bool = protected
        ) -> bool:
            if isinstance(message, Response) and message.get("p-access-network-info"):
                seen[inside].add(f"{message.status} {message.method}")
            return True

        pair.hook = look
        pair.run()
        assert pair.outcome.answered
    assert seen[False] == set()
    assert {"183 INVITE", "180 INVITE", "200 INVITE", "200 PRACK", "200 UPDATE", "200 BYE"} <= seen[
        True
    ]
    assert "100 INVITE" not in seen[True]
