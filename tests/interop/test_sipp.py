"""SIPp, which shares no code with us, at the other end of our calls: it agrees with us on each of them.

Its scenarios are strict: a message that is not the one expected, or lacks what is looked for, fails the
call. Between the two ends is the reference core, and its count must agree as well.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from math import isnan
from pathlib import Path

import pytest

from imsbench.outcome import CallOutcome, Expected
from imsbench.phone.actions import Accept, Incoming
from imsbench.phone.leg import CallPlan, CallSettings
from imsbench.phone.originating import originate_call
from imsbench.phone.phone import Phone
from imsbench.phone.terminating import CalleeOutcome, answer_call
from imsbench.run.configs import population
from tests.interop.site import SIPP, Core, PhoneSite, Sipp, core_and_hss, profile_of, raise_problem

pytestmark = [
    pytest.mark.skipif(shutil.which(SIPP) is None, reason="needs SIPp: apt-get install sip-tester"),
    pytest.mark.slow,
]

CALLS = 6
PROFILE = profile_of(2 * CALLS)
POPULATION = population(PROFILE)
"""The first half are phones of ours, the second half are SIPp's."""
PAIRS = [(CALLS + n, n) for n in range(CALLS)]
"""SIPp's phone and ours in each call."""


@pytest.fixture
def core() -> Iterator[Core]:
    with core_and_hss(PROFILE) as running:
        yield running


@pytest.fixture
def site(core: Core) -> Iterator[PhoneSite]:
    phones = PhoneSite(core.port, POPULATION, CALLS)
    yield phones
    phones.close()


# -- SIPp is called


def call_sipp(
    core: Core, site: PhoneSite, folder: Path, parts: list[str], expected: Expected = "answered"
) -> list[CallOutcome]:
    """Each phone of ours calls its counterpart; both ends' counts must agree."""
    sipp = Sipp(folder, ["register", *parts], core, POPULATION, PAIRS)
    settings = CallSettings()
    hangs_up = "hang_up" in parts
    outcomes = []
    try:
        core.wait_registered(CALLS)
        site.register()
        for theirs, ours in PAIRS:
            phone = site.phones.all[ours]
            outcome = CallOutcome(ours, theirs, 0, 0.0, expected=expected)
            plan = CallPlan(settings, hold_s=0.3, bye_by_callee=hangs_up, expected=expected)
            call_id = f"interop-{ours + 1}"
            callee = POPULATION.subscriber(theirs)
            site.start(originate_call(phone, outcome, callee, plan, call_id), phone, call_id)
            outcomes.append(outcome)
        site.turn_until(lambda: not any(isnan(outcome.ended_at) for outcome in outcomes))
        assert sipp.counts() == {"created": CALLS, "successful": CALLS, "failed": 0}
    finally:
        sipp.close()
    for outcome in outcomes:
        assert (outcome.stage, outcome.cause, outcome.wrong) == ("", "", ""), outcome
        assert outcome.events == {}
        assert not outcome.dropped
    return outcomes


@pytest.mark.parametrize(("last", "by"), [("ended", "caller"), ("hang_up", "callee")])
def test_sipp_answers(core: Core, site: PhoneSite, tmp_path: Path, last: str, by: str) -> None:
    for outcome in call_sipp(core, site, tmp_path, ["called", last]):
        assert (outcome.status, outcome.release_by) == (200, by)
        assert outcome.progress_at < outcome.ringing_at < outcome.answered_at
        assert outcome.answered_at - outcome.ringing_at > 0.15  # it rings for 0.2 s
    counted = counted_by(core)
    assert counted["calls attempted"] == counted["calls answered"] == CALLS
    assert counted[f"calls ended: BYE of the {by}"] == CALLS
    assert counted["received PRACK"] == 2 * CALLS
    assert counted["received UPDATE"] == CALLS


def test_sipp_is_busy(core: Core, site: PhoneSite, tmp_path: Path) -> None:
    for outcome in call_sipp(core, site, tmp_path, ["busy"], "busy"):
        assert outcome.status == 486
        assert not outcome.established
    assert counted_by(core)["calls ended: INVITE 486"] == CALLS


# -- SIPp calls


def sipp_calls(
    core: Core, site: PhoneSite, folder: Path, last: str, expected: Expected = "answered"
) -> list[CalleeOutcome]:
    """Each phone of SIPp's calls its counterpart; both ends' counts must agree."""
    sides: list[CalleeOutcome] = []
    settings = CallSettings(reliable_ringing=True)

    def answer(phone: Phone, _incoming: Incoming) -> Accept:
        sides.append(CalleeOutcome())
        caller = POPULATION.subscriber(CALLS + phone.n)
        plan = CallPlan(settings, 5.0, 0.1, expected=expected, caller_impu=caller.impu_sip)
        return Accept(answer_call(phone, plan, sides[-1]), raise_problem)

    site.network.on_invite = answer
    site.register()
    sipp = Sipp(folder, ["register", "calling", last], core, POPULATION, PAIRS)
    try:
        site.turn_until(lambda: sipp.over)
        assert sipp.counts() == {"created": CALLS, "successful": CALLS, "failed": 0}
        site.turn_until(lambda: not any(isnan(side.ended_at) for side in sides))
    finally:
        sipp.close()
    assert len(sides) == CALLS
    for side in sides:
        assert (side.stage, side.cause, side.wrong, side.events) == ("", "", "", {}), side.detail
    return sides


def test_sipp_calls_and_hangs_up(core: Core, site: PhoneSite, tmp_path: Path) -> None:
    sipp_calls(core, site, tmp_path, "talk")
    counted = counted_by(core)
    assert counted["calls attempted"] == counted["calls answered"] == CALLS
    assert counted["calls ended: BYE of the caller"] == CALLS


def test_sipp_cancels(core: Core, site: PhoneSite, tmp_path: Path) -> None:
    sipp_calls(core, site, tmp_path, "cancel", "cancelled")
    counted = counted_by(core)
    assert counted["INVITEs cancelled"] == counted["calls ended: INVITE 487"] == CALLS


def counted_by(core: Core) -> Counter[str]:
    """What the core in between counted: everybody registered, and nothing that it should not see."""
    counted = core.result()
    assert counted["registrations"] == 2 * CALLS
    bad = (
        "refused",
        "malformed",
        "internal",
        "wrong",
        "unreachable",
        "without",
        "changed",
        "missing",
    )
    assert [name for name in counted if any(word in name for word in bad)] == []
    return counted
