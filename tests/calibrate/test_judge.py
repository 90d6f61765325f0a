"""What the rows of a case are: right where the truth was measured, and else not."""

from __future__ import annotations

from math import nan

import pytest

from imsbench.calibrate import judge
from imsbench.calibrate.cases import FULL, SHORT, cases
from imsbench.calibrate.judge import Failing
from imsbench.calibrate.row import Row
from imsbench.report.parts import SteadyFaultResult, TimedFaultResult
from tests.calibrate.results import case_of, histogram, registrations, result_of

ALL = cases(FULL)


def outcome(rows: list[Row]) -> list[bool]:
    return [row.ok for row in rows]


def delay(struck: int, delay_s: float, of: int = 400) -> SteadyFaultResult:
    return SteadyFaultResult(
        where="target", what="delay", names=["401 REGISTER"], share=struck / of, of=of,
        struck=struck, delays=histogram(*(delay_s for _ in range(struck))),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("measured_s", "right"),
    [(0.124, [True, True]), (0.1265, [False, True]), (0.1305, [False, False])],
)
def test_a_delay_is_measured_within_a_millisecond_of_the_control(
    measured_s: float, right: list[bool]
) -> None:
    case = case_of(ALL, "401 delayed, constant 120 ms")
    kpis = registrations([measured_s, 0.024] * 200)
    rows = case.judge(result_of(case, kpis, steady=[delay(200, 0.120)]))
    assert outcome(rows) == [True, True, *right]
    assert rows[2].truth == pytest.approx(0.124, rel=2e-3)
    assert rows[2].from_send == pytest.approx(measured_s - 0.001, rel=2e-3)


@pytest.mark.parametrize("drift_s", [0.0, 0.010])
def test_what_befalls_both_alike_is_no_error(drift_s: float) -> None:
    case = case_of(ALL, "Slow HSS")
    kpis = registrations([0.144 + drift_s, 0.044 + drift_s] * 200)
    rows = case.judge(result_of(case, kpis, steady=[delay(200, 0.100)]))
    assert outcome(rows) == [True] * 4


@pytest.mark.parametrize("late", [19, 20, 21])
def test_delayed_attempts_are_counted_to_the_one(late: int) -> None:
    case = case_of(ALL, "500 ms to 5%")
    kpis = registrations([0.504] * late + [0.024] * (400 - late))
    rows = case.judge(result_of(case, kpis, steady=[delay(20, 0.5)]))
    assert rows[0] == Row("Attempts delayed, by what they took", "count", 20, late)
    assert outcome(rows) == [late == 20, late == 20, True, True]


def test_a_delay_that_was_not_felt_is_not_right() -> None:
    case = case_of(ALL, "401 delayed, constant 120 ms")
    rows = case.judge(result_of(case, registrations([0.024] * 400), steady=[delay(200, 0.120)]))
    assert outcome(rows) == [False] * 4


def error(struck: int, of: int = 400) -> SteadyFaultResult:
    return SteadyFaultResult(
        where="target", what="error", names=["REGISTER"], share=0.1, code=503, of=of, struck=struck
    )


@pytest.mark.parametrize(
    ("struck", "failed", "right"),
    [
        (40, ["503"] * 40, [True, True, True]),
        (40, ["503"] * 39, [False, True, False]),
        (40, ["503"] * 40 + ["timeout"], [True, True, False]),
        (39, ["503"] * 39, [True, False, True]),  # as many as struck, but not the share
    ],
)
def test_what_was_struck_fails_and_nothing_else(
    struck: int, failed: list[str], right: list[bool]
) -> None:
    case = case_of(ALL, "503 to 10% of registrations")
    kpis = registrations([0.004] * (400 - len(failed)), failed)
    assert outcome(case.judge(result_of(case, kpis, steady=[error(struck)]))) == right


def test_a_fault_that_struck_nothing_is_no_truth() -> None:
    case = case_of(ALL, "503 to 10% of registrations")
    for of in (0, 400, 440):  # whole hundreds, or not
        rows = case.judge(result_of(case, registrations([0.004] * 400), steady=[error(0, of)]))
        assert not rows[0].ok


def test_messages_that_are_no_attempt_are_taken_off() -> None:
    case = ALL[0]
    judged = judge.failing(Failing(0, ("503",), spent_on="no attempt"))
    kpis = registrations([0.004] * 363, ["503"] * 37)
    result = result_of(case, kpis, steady=[error(40, 440)], counters={"no attempt": 3})
    rows = judged(result)
    assert outcome(rows) == [True, True]  # and no share: 440 are no whole hundreds


@pytest.mark.parametrize(("slower_s", "right"), [(0.0, True), (0.099, True), (0.12, False)])
def test_a_stall_is_seen_from_due(slower_s: float, right: bool) -> None:
    case = case_of(ALL, "stands still")
    times = [0.004] * 100
    for i in range(50, 60):  # due at 10.0, 10.2 …, stalled from 10.0 to 12.0
        times[i] = 2.004 - (i - 50) * 0.2 + slower_s
    stall = TimedFaultResult(fault=0, step=0, planned_s=10.0, at_s=10.0, lasted_s=2.0, done=1)
    result = result_of(case, registrations(times), timed=[stall])
    assert outcome(case.judge(result)) == [right, right, True]


def test_a_stall_that_was_not_told_is_not_right() -> None:
    case = case_of(ALL, "stands still")
    stall = TimedFaultResult(fault=0, step=0, planned_s=10.0)
    result = result_of(case, registrations([0.004] * 100), timed=[stall])
    assert outcome(case.judge(result)) == [False]


def test_a_row_without_a_measurement_is_not_right() -> None:
    assert not Row("x", "time", 1.0, nan, 5.0).ok
    assert not Row("x", "count", 10, 11).ok


def test_the_cases_are_sound() -> None:
    for scale in (FULL, SHORT):
        titles = [case.title for case in cases(scale)]
        assert len(set(titles)) == len(titles)
        assert titles[0] == "Nothing"
    assert {len(case.profile.phases) for case in ALL} == {1, 2}  # registrations, and calls
    assert len(cases(SHORT)) < len(ALL)
