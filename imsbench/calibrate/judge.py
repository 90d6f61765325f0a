"""Which rows the result of a case gives: the truths of its faults, and what was measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import nan

from imsbench.calibrate import truth
from imsbench.calibrate.row import Row
from imsbench.histogram import Histogram
from imsbench.report.result import RunResult, StepResult

MEDIAN_S = 0.001
"""What a median may be wrong by, seconds."""
TAIL_S = 0.005
"""What a p99 may be wrong by, seconds."""
_EVEN = 100
"""Messages in which the share of a fault is kept exactly."""
STALL_SHARE = 0.05
"""What the times of a stall may be wrong by, as a share of its length."""


Judge = Callable[[RunResult], list[Row]]
"""The rows of a result."""

REGISTRATIONS = "registration_time"
CALLS = "session_setup_time"


def time_of(result: RunResult, key: str) -> tuple[Histogram, Histogram]:
    """A time of a case, from due and from the first byte sent, all its steps together."""
    merged = Histogram(), Histogram()
    for step in result.steps:
        for whole, suffix in zip(merged, ("_from_due", ""), strict=True):
            whole.merge(step.kpis.histogram(key + suffix))
    return merged


def all_succeed(result: RunResult) -> list[Row]:
    """Without faults nothing fails, and every arrival is made."""
    steps = result.profile.steps()
    rows = []
    for what, planned, measured in (
        ("Initial registrations that succeed", sum(step.registrations for step in steps),
         sum(_registered(done) for done in result.steps)),
        ("Calls that end as planned", sum(step.evaluated_calls or 0 for step in steps),
         sum(done.kpis.sessions.planned for done in result.steps)),
    ):  # fmt: skip
        if planned:
            rows.append(Row(what, "count", planned, measured))
    return rows


@dataclass(frozen=True, slots=True)
class Apart:
    """How those that a run's first fault struck, and the others, are told apart: by what they took."""

    delayed_s: tuple[float, float]
    """From which time to below which one the attempts lie that were struck once, seconds from due."""
    control_s: tuple[float, float]
    """The same of those that were not struck."""
    held_s: float = 0.0
    """How long those that were not struck were held at the same place instead, seconds."""
    counted: bool = True
    """Whether each attempt has one message that may be struck, so that the struck can be counted."""


def delayed(key: str, apart: Apart) -> Judge:
    """A delay of some attempts: each quantile of theirs is that of the others, and what was drawn more."""

    def judge(result: RunResult) -> list[Row]:
        fault = result.steady_faults[0]
        drawn = fault.delays or Histogram()
        from_due, from_send = time_of(result, key)
        struck = truth.part(from_due, apart.delayed_s)
        control = truth.part(from_due, apart.control_s)
        rows = []
        if apart.counted:
            rows = [
                Row("Attempts delayed, by what they took", "count", fault.struck, struck.count),
                Row("The others", "count", fault.of - fault.struck, control.count),
            ]
        sent = truth.part(from_send, apart.delayed_s)
        for q in (0.5, 0.99):
            expected_s = truth.shifted(control, drawn, struck.count, q) - apart.held_s
            rows.append(_time_row(q, struck, sent, expected_s))
        return rows

    return judge


def _time_row(q: float, from_due: Histogram, from_send: Histogram, expected_s: float) -> Row:
    name, allowed_s = ("p50", MEDIAN_S) if q == 0.5 else (f"p{q * 100:g}", TAIL_S)
    return Row(
        f"{name} from due, of those delayed", "time", expected_s, from_due.quantile(q), allowed_s,
        from_send.quantile(q),
    )  # fmt: skip


def stalled(result: RunResult) -> list[Row]:
    """A target that stands still in the middle of a fill: the times from due, by its known instants.

    What an attempt takes else is the median of the same run: most of them are not touched.
    """
    (fault,) = result.timed_faults
    step, done = result.profile.steps()[0], result.steps[0]
    from_due, from_send = time_of(result, REGISTRATIONS)
    if fault.at_s is None or fault.lasted_s is None:
        return [Row("max from due", "time", nan, nan)]
    due_s = [number / step.rate for number in range(step.attempts)]
    end_s = fault.at_s + fault.lasted_s
    times = truth.stalled(due_s, from_due.quantile(0.5), fault.at_s, end_s)
    allowed_s = STALL_SHARE * fault.lasted_s
    return [
        Row("p99 from due", "time", truth.quantile(times, 0.99), from_due.quantile(0.99), allowed_s,
            from_send.quantile(0.99)),
        Row("max from due", "time", max(times), from_due.maximum, allowed_s, from_send.maximum),
        Row("Initial registrations that succeed", "count", step.registrations, _registered(done)),
    ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Failing:
    """Attempts that one fault must make fail, and nothing else may."""

    fault: int
    """Its position among the result's steady faults."""
    causes: tuple[str, ...]
    """By which causes they fail at the phones."""
    calls: bool = False
    """Whether calls fail; else initial registrations."""
    spent_on: str = ""
    """Counter of the target: faults that struck what is no attempt (registrations' signalling)."""


def failing(*expected: Failing) -> Judge:
    """Count for count: what was struck fails, by the cause that follows, and all else succeeds."""

    def judge(result: RunResult) -> list[Row]:
        rows, failed = [], {True: 0, False: 0}
        for one in expected:
            fault = result.steady_faults[one.fault]
            spent = result.core.counters.get(one.spent_on, 0) if result.core is not None else 0
            measured = sum(_failures(result.steps, one.causes, calls=one.calls))
            kind = "calls" if one.calls else "registrations"
            said = f"{fault.code}" if fault.code is not None else fault.what
            what = f"{fault.where}, {said}: {kind} that fail by it ({', '.join(one.causes)})"
            # A fault that struck nothing is no truth.
            rows.append(Row(what, "count", fault.struck - spent if fault.struck else nan, measured))
            if not fault.of % _EVEN:
                asked = f"{fault.where}, {said}: {fault.share:.0%} of {fault.of:,} messages"
                rows.append(Row(asked, "count", round(fault.share * fault.of), fault.struck))
            failed[one.calls] += fault.struck - spent
        return [*rows, *_others_succeed(result, failed)]

    return judge


def _others_succeed(result: RunResult, failed: dict[bool, int]) -> list[Row]:
    planned = sum(step.registrations for step in result.profile.steps())
    succeeded = sum(_registered(done) for done in result.steps)
    rows = [Row("Initial registrations that succeed", "count", planned - failed[False], succeeded)]
    calls = sum(step.evaluated_calls or 0 for step in result.profile.steps())
    if calls:
        ended = sum(done.kpis.sessions.planned for done in result.steps)
        rows.append(Row("Calls that end as planned", "count", calls - failed[True], ended))
    return rows


def _failures(
    steps: Sequence[StepResult], causes: tuple[str, ...], *, calls: bool
) -> Sequence[int]:
    parts = (
        [done.kpis.sessions.failures for done in steps]
        if calls
        else [done.kpis.procedures["registration"].failures for done in steps]
    )
    return [count for part in parts for (_, cause), count in part.items() if cause in causes]


def _registered(done: StepResult) -> int:
    return done.kpis.procedures["registration"].succeeded
