"""Calls between the phones of one worker on a real loop: who calls whom, both ends seen, nothing left."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from imsbench.engine.loop import clock
from imsbench.outcome import CallOutcome
from imsbench.profile import Step, parse_profile
from imsbench.protocol.sip import Request, Response
from imsbench.run.steps import StepRun
from tests.run.registrar import Site

PHONES = 10


def calls_step(calls: str, *, count: int = PHONES, phases: str = "{calls: %s}") -> Step:
    """The step of these calls between all phones of a profile."""
    text = (
        f"name: x\nsubscribers: {{count: {count + 1}}}\ngenerator: {{arrivals: constant}}\n"
        f"phases:\n  - fill: {{rate: 500, to: {count}}}\n  - {phases % calls}\n"
    )
    return parse_profile(text).steps()[1]


def run_step(site: Site, step: Step, drain_s: float = 5.0) -> StepRun:
    """Register everybody, then run one step to its end."""
    for phone in site.phones.all[: step.registered]:
        site.phones.register(phone, clock())
    site.turn_for(0.3)
    assert site.phones.registered == step.registered
    site.outcomes.clear()
    run = StepRun(
        site.loop, site.phones, site.calls, step,
        seed=1, worker=0, workers=1, drain_s=drain_s, on_done=site.loop.stop,
    )  # fmt: skip
    run.begin(clock() + 0.02)
    site.turn_until_stopped(20.0)
    return run


@pytest.fixture
def site() -> Iterator[Site]:
    """Ten phones, one that never registers, and their network."""
    site = Site(PHONES + 1)
    yield site
    site.close()


def in_turn(outcomes: list[CallOutcome]) -> list[CallOutcome]:
    return sorted(outcomes, key=lambda one: one.due_at)


QUICK = "{rate: 10, duration: 2s, warm_up: 0s, hold: {mean: 50ms}}"


def test_every_call_is_seen_from_both_ends_and_leaves_its_phones_idle(site: Site) -> None:
    run = run_step(site, calls_step(QUICK))
    assert (run.called, run.without_pair, run.unfinished) == (20, 0, 0)
    assert [one.cause for one in site.call_outcomes] == [""] * 20
    for one in site.call_outcomes:
        assert one.caller != one.callee
        assert one.established
        assert one.answered
        assert not one.dropped
        assert one.sent_at < one.reached_at < one.progress_at < one.answered_at < one.ended_at
        assert one.released_at - one.answered_at >= 0.05
        assert one.ladder
        assert one.callee_ladder
    assert not site.phones.in_call
    assert not site.phones.busy
    assert not site.calls.outstanding
    assert len(site.calls.spans) == 20


def test_a_phone_has_one_call_at_a_time(site: Site) -> None:
    run_step(site, calls_step("{rate: 30, duration: 2s, warm_up: 0s, hold: {mean: 100ms}}"))
    for phone in range(PHONES):
        mine = in_turn([one for one in site.call_outcomes if phone in (one.caller, one.callee)])
        assert all(a.ended_at <= b.sent_at for a, b in itertools.pairwise(mine))
    assert {one.caller for one in site.call_outcomes} == set(range(PHONES))


def test_a_profile_may_allow_several_calls_at_once() -> None:
    site = Site(3)
    wanted = "{rate: 8, duration: 500ms, warm_up: 0s, hold: {mean: 500ms}, calls_per_phone: 8}"
    run = run_step(site, calls_step(wanted, count=2))
    assert (run.called, run.without_pair) == (4, 0)
    assert all(not one.cause for one in site.call_outcomes)
    first, second, *_ = in_turn(site.call_outcomes)
    assert second.sent_at < first.released_at
    site.close()


def test_fixed_pairs_are_neighbours(site: Site) -> None:
    run_step(site, calls_step(QUICK.replace("}}", "}, pairs: fixed}")))
    assert len(site.call_outcomes) == 20
    assert all(one.caller % 2 == 0 for one in site.call_outcomes)
    assert all(one.callee == one.caller + 1 for one in site.call_outcomes)
    assert len({one.caller for one in site.call_outcomes}) == PHONES // 2


@pytest.mark.parametrize("pairs", ["random", "fixed"])
def test_an_arrival_without_an_idle_pair_is_a_counted_drop(pairs: str) -> None:
    site = Site(5)
    wanted = f"{{rate: 4, duration: 2s, warm_up: 0s, hold: {{mean: 450ms}}, pairs: {pairs}}}"
    step = calls_step(wanted, count=4)
    phones = site.phones
    for phone in phones.all[2:4]:  # two of the four are in another call all the time
        phones.in_call[phone.n] = 1
    run = run_step(site, step)
    assert run.without_pair > 0
    assert run.called + run.without_pair == 8
    assert run.dropped == 0
    assert len(site.call_outcomes) == run.called
    site.close()


def test_calls_of_the_warm_up_belong_to_no_step(site: Site) -> None:
    step = calls_step("{rate: 20, duration: 500ms, warm_up: 500ms, hold: {mean: 50ms}}")
    run = run_step(site, step)
    evaluated = [one for one in site.call_outcomes if one.step == step.index]
    assert len(site.call_outcomes) == 20
    assert len(evaluated) == run.called == step.evaluated_calls == 10
    begin = run.first_due_at + 0.5
    assert all((one.due_at >= begin) == (one.step == step.index) for one in site.call_outcomes)
    assert {one.step for one in site.call_outcomes} == {-1, step.index}


MIXED = (
    "{rate: 20, duration: 3s, warm_up: 0s, hold: {mean: 20ms}, busy: 0.2, rejected: 0.2, "
    "unregistered: 0.2, cancelled: 0.1, cancel_after: 30ms, bye_by_callee: 0.5}"
)


def test_every_share_of_calls_ends_as_it_should(site: Site) -> None:
    run_step(site, calls_step(MIXED))
    assert [(one.cause, one.detail) for one in site.call_outcomes if one.cause] == []
    statuses = {
        kind: {one.status for one in site.call_outcomes if one.expected == kind}
        for kind in ("answered", "busy", "rejected", "cancelled", "unregistered")
    }
    assert statuses == {
        "answered": {200},
        "busy": {486},
        "rejected": {603},
        "cancelled": {487},
        "unregistered": {404},
    }
    assert {one.release_by for one in site.call_outcomes if one.answered} == {"caller", "callee"}


def test_who_calls_whom_and_how_comes_from_the_seed() -> None:
    drawn = []
    for seed in (5, 5, 6):
        site = Site(PHONES + 1, seed=seed)
        # so slow that all phones are idle at each arrival: else it depends on who was fast
        wanted = MIXED.replace("20, duration: 3s", "10, duration: 1s").replace("30ms", "5ms")
        step = calls_step(wanted)
        run_step(site, step)
        drawn.append(
            [(one.caller, one.callee, one.expected) for one in in_turn(site.call_outcomes)]
        )
        site.close()
    assert drawn[0] == drawn[1]
    assert drawn[0] != drawn[2]


def another_caller(message: Request | Response) -> None:
    """Show somebody else as the caller."""
    if isinstance(message, Request) and message.method == "INVITE":
        message.headers = [
            (name, "<sip:+4930123456@example.net>" if name == "p-asserted-identity" else value)
            for name, value in message.headers
        ]


def another_port_to_callee(message: Request | Response) -> None:
    """Change the offer on its way."""
    if isinstance(message, Request) and message.method == "INVITE":
        message.body = message.body.replace(b"m=audio 50000", b"m=audio 40000")


def another_port_to_caller(message: Request | Response) -> None:
    """Change the answer on its way."""
    if isinstance(message, Response) and message.body:
        message.body = message.body.replace(b"m=audio 50000", b"m=audio 40000")


@pytest.mark.parametrize(
    ("alter", "said"),
    [
        (another_caller, "caller shown as sip:+4930123456@example.net"),
        (another_port_to_callee, "the SDP of the INVITE is not what the caller sent"),
        (another_port_to_caller, "SDP of 183: "),
    ],
)
def test_a_wrong_call_is_no_success(site: Site, alter: object, said: str) -> None:
    assert callable(alter)
    site.alter = alter
    run_step(site, calls_step("{rate: 10, duration: 300ms, warm_up: 0s, hold: {mean: 20ms}}"))
    assert len(site.call_outcomes) == 3
    for one in site.call_outcomes:
        assert one.wrong.startswith(said)
        assert (one.stage, one.cause) == ("check", "wrong call")
        assert one.detail == one.wrong


def test_phones_refresh_their_registrations_during_calls() -> None:
    site = Site(PHONES + 1, expires_s=1)  # refreshed at half: every 0.5 s
    step = calls_step("{rate: 5, duration: 1s, warm_up: 0s, hold: {mean: 900ms}}")
    run_step(site, step)
    refreshes = [one for one in site.of("reregistration") if one.step == step.index]
    assert all(one.succeeded for one in refreshes)
    assert all(not one.cause for one in site.call_outcomes)
    during = [
        refresh
        for refresh in refreshes
        for call in site.call_outcomes
        if refresh.phone in (call.caller, call.callee)
        and call.answered_at < refresh.sent_at < call.released_at
    ]
    assert during
    site.close()


TOGETHER = "{together: [{calls: %s}, {cycle: {rate: 20}}]}"


def test_a_cycle_beside_calls_takes_phones_that_have_none(site: Site) -> None:
    calls = "{rate: 10, duration: 1s, warm_up: 300ms, hold: {mean: 300ms}}"
    step = calls_step(calls, phases=TOGETHER)
    run = run_step(site, step)
    assert (run.called, run.without_pair) == (10, 0)
    assert (run.started, run.dropped) == (PHONES, 0)
    assert all(not one.cause for one in site.call_outcomes)
    ended = site.of("deregistration")
    assert len(ended) == len(site.of("registration")) == PHONES
    assert all(one.step == step.index and one.succeeded for one in site.outcomes)
    begin = run.first_due_at + 0.3
    assert [one.due_at - begin for one in sorted(ended, key=lambda one: one.due_at)] == (
        pytest.approx([i / 20 for i in range(PHONES)])
    )
    for one in ended:
        assert not any(
            one.phone in (call.caller, call.callee)
            and call.sent_at < one.started_at < call.ended_at
            for call in site.call_outcomes
        )
    assert site.phones.registered == PHONES


def test_a_hold_beside_calls_makes_them_no_longer(site: Site) -> None:
    calls = "{rate: 10, duration: 500ms, warm_up: 0s, hold: {mean: 20ms}}"
    phases = "{together: [{hold: {duration: 500ms}}, {calls: %s}]}"
    began_at = clock()
    run = run_step(site, calls_step(calls, phases=phases))
    assert run.called == 5
    assert clock() - began_at < 2.0


def test_calls_that_are_not_over_with_the_drain_are_counted(site: Site) -> None:
    step = calls_step("{rate: 4, duration: 500ms, warm_up: 0s, hold: {mean: 1s}}")
    run = run_step(site, step, drain_s=0.1)
    assert run.unfinished == 2
    assert not site.call_outcomes
    site.turn_for(1.5)
    assert len(site.call_outcomes) == 2
    assert not site.phones.in_call


def first_refreshes(spread: str) -> dict[int, float]:
    """For each phone, when its first refresh came due, seconds after its registration."""
    site = Site(PHONES, expires_s=2, spread=spread)
    for phone in site.phones.all:
        site.phones.register(phone, clock())
    site.turn_for(1.3)
    registered = {one.phone: one.ended_at for one in site.of("registration")}
    due: dict[int, float] = {}
    for one in site.of("reregistration"):
        due.setdefault(one.phone, one.due_at - registered[one.phone])
        assert one.succeeded
    site.close()
    return due


def test_refreshes_come_in_the_wave_of_the_fill_or_spread_evenly() -> None:
    natural = first_refreshes("")
    assert list(natural.values()) == pytest.approx([1.0] * PHONES)
    spread = first_refreshes("1/refreshes")
    assert set(spread) == set(range(PHONES))
    assert max(spread.values()) < 1.0
    assert max(spread.values()) - min(spread.values()) > 0.5
    again = first_refreshes("1/refreshes")
    assert again == pytest.approx(spread)
    assert first_refreshes("2/refreshes") != pytest.approx(spread)
