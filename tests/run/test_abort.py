"""Thresholds that end a run: when they are looked at, and over what."""

from __future__ import annotations

from typing import Any

import pytest

from imsbench.kpi.kpis import StepKpis
from imsbench.profile import parse_profile
from imsbench.run import abort
from tests.kpi.outcomes import failure, success

PROFILE = parse_profile(
    """
name: aborting
subscribers: {count: 100}
phases:
  - fill: {rate: 100, to: 100}
  - cycle: {rate: [10, 20]}
thresholds:
  - initial_registration_success_rate >= 99%
  - {that: initial_registration_success_rate >= 90%, during: cycle at 20/s, abort: true, after: 5s}
"""
)
FILL, SLOW, FAST = PROFILE.steps()


def tick(failed: int, step: int = 2, succeeded: int = 8) -> dict[str, Any]:
    kpis = StepKpis()
    for _ in range(succeeded):
        kpis.record(success())
    for _ in range(failed):
        kpis.record(failure("403"))
    return {"kpis": kpis.to_json(), "kpis_of": step}


def test_only_thresholds_that_abort_in_this_step_are_watched() -> None:
    assert [len(abort.watched(PROFILE, step)) for step in (FILL, SLOW, FAST)] == [0, 0, 1]


def test_a_broken_one_ends_the_run_by_name() -> None:
    with pytest.raises(abort.Aborted) as ended:
        abort.check(PROFILE, FAST, [tick(0), tick(2)], 5.0)
    assert str(ended.value) == (
        "the threshold “initial_registration_success_rate >= 90% in cycle at 20/s” was broken after 5 s "
        "of step 3"
    )


@pytest.mark.parametrize(
    ("ticks", "evaluated_s"),
    [
        ([tick(9)], 4.9),  # too early
        ([tick(9)], -3.0),  # the warm-up
        ([tick(0), tick(1)], 60.0),  # 16 of 17, both workers together
        ([tick(9, step=1)], 60.0),  # still the step before
        ([tick(9), {}], 60.0),  # one worker is done
        ([tick(0, succeeded=0)], 60.0),  # nothing measured yet
        ([], 60.0),
    ],
)
def test_what_does_not_end_a_run(ticks: list[dict[str, Any]], evaluated_s: float) -> None:
    abort.check(PROFILE, FAST, ticks, evaluated_s)
