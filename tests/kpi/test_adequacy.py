"""Which attempts count as inadequately handled, and which objective that breaks."""

from __future__ import annotations

from math import nan

import pytest

from imsbench.kpi.adequacy import Handled, Limits, all_meet, handled, is_adequate, worst
from imsbench.kpi.kpis import StepKpis
from imsbench.outcome import CallOutcome, Outcome
from tests.kpi.outcomes import call, failure, success

LIMITS: Limits = {"registration": 0.5, "call": 1.0}


def kpis() -> StepKpis:
    """Ten registrations, one failed and one late; five calls, one failed, one late, one planned 486."""
    step = StepKpis()
    for time_s in (*[0.1] * 8, 0.6):
        step.record(success(time_s=time_s))
    step.record(failure("503"))
    for outcome in (call(), call(), call(setup_s=1.5)):
        step.record_call(outcome)
    step.record_call(call(stage="invite", cause="503", answered_at=nan, setup_at=nan, status=503))
    step.record_call(call(expected="busy", answered_at=nan, setup_at=nan, status=486))
    return step


def test_failed_or_late_is_inadequate_and_each_scenario_stands_apart() -> None:
    registration, calls = handled(kpis(), LIMITS)
    assert (registration.attempted, registration.failed, registration.late) == (10, 1, 1)
    assert registration.inadequate.value == 0.2
    assert (calls.attempted, calls.failed, calls.late) == (5, 1, 1)
    assert [part.meets(0.2) for part in (registration, calls)] == [True, False]


def test_where_nothing_was_attempted_no_objective_is_met() -> None:
    assert not all_meet(handled(StepKpis(), LIMITS), 1.0)
    step = StepKpis()
    step.record(success(time_s=0.1))
    assert all_meet(handled(step, LIMITS), 0.0)  # without a call the registrations count
    step.record(failure("503"))
    assert not all_meet(handled(step, LIMITS), 0.1)


def test_a_call_that_is_set_up_late_and_then_fails_counts_once() -> None:
    step = StepKpis()
    for outcome in (call(), call(setup_s=1.5, stage="bye", cause="timeout")):
        step.record_call(outcome)
    (part,) = handled(step, {"call": 1.0})
    assert (part.failed, part.late) == (1, 0)


def test_the_worst_is_the_one_that_misses_by_most() -> None:
    parts = handled(kpis(), LIMITS)
    found = worst(parts, 0.05)
    assert found is not None
    assert (found.scenario, found.worst_kpi) == ("call", "calls_as_planned")
    assert worst(parts, 0.5) is None


def test_lateness_names_the_time() -> None:
    step = StepKpis()
    for time_s in (0.1, 0.6, 0.7):
        step.record(success(time_s=time_s))
    (part,) = handled(step, {"registration": 0.5})
    assert (part.late, part.worst_kpi) == (2, "registration_time")


def test_no_attempt_misses_no_objective() -> None:
    (part,) = handled(StepKpis(), {"call": 1.0})
    assert part.meets(0.0)


def test_single_attempts_are_judged_alike() -> None:
    outcomes: list[Outcome | CallOutcome] = [
        success(time_s=0.1),
        success(time_s=0.6),
        failure("503"),
        call(),
        call(setup_s=2.0),
    ]
    assert [is_adequate(one, LIMITS) for one in outcomes] == [True, False, False, True, False]
    assert is_adequate(success("deregistration"), LIMITS) is None
    busy = call(expected="busy", answered_at=nan, setup_at=nan, status=486)
    assert is_adequate(busy, LIMITS) is True


@pytest.mark.parametrize(("objective", "failed"), [(0.0003, 3), (0.0012, 12), (0.0029, 29)])
def test_a_share_that_is_the_objective_meets_it(objective: float, failed: int) -> None:
    assert Handled("registration", 10_000, failed, 0, 1.0).meets(objective)
    assert not Handled("registration", 10_000, failed, 1, 1.0).meets(objective)
    assert Handled("registration", 0, 0, 0, 1.0).meets(0.0)
