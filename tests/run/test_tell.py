"""What a run tells while it goes."""

from __future__ import annotations

from typing import Any

from imsbench.profile import parse_profile
from imsbench.run import tell
from imsbench.run.record import StepRecord
from tests.kpi.outcomes import call, failure, success

PROFILE = parse_profile(
    "name: x\nsubscribers: {count: 100}\nphases:\n  - fill: {rate: 100, to: 100}\n"
    "  - cycle: {rate: 5}\n  - calls: {rate: 2, duration: 10s, hold: {mean: 2s}}\n"
)


def test_a_step_is_titled_with_its_rate() -> None:
    assert [tell.title_of(step) for step in PROFILE.steps()] == [
        "From 0 to 100 registered, in 1 s",
        "100 registered, cycled at 5/s",
        "100 registered, calls at 2/s",
    ]


def test_progress_adds_the_workers_and_says_how_many_calls_there_are() -> None:
    ticks: dict[str, dict[str, Any]] = {
        "worker-0": {"registered": 50, "in_progress": 3, "calls": 10, "calls_succeeded": 9, "failed": 1},
        "worker-1": {"registered": 49, "in_progress": 4, "calls": 11, "calls_succeeded": 11},
        "hss": {"counts": {"registered": 99}},
    }  # fmt: skip
    progress = tell.progress("calls", 3.0, 10.0, ticks)
    assert progress.describe() == (
        "99 registered; 7 calls in progress; calls 20 of 21; 1 failed, all procedures"
    )


def test_the_summary_of_a_step_has_its_calls() -> None:
    record = StepRecord(PROFILE.steps()[2], registered_after=100)
    for outcome in (success("reregistration"), failure("403", "refresh", "reregistration")):
        record.kpis.record(outcome)
    record.kpis.record_call(call(setup_s=0.25))
    text = tell.summary(record)
    assert text.startswith("100 registered; 1 of 2 refreshes succeeded")
    assert text.endswith("1 of 1 calls ended as planned, set up in 250 ms on average")
