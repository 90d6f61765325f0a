"""Whether a step was steady: its two halves, and whether they agree within 10 %.

What differs by no more than chance would make it differ is no disagreement: two standard errors for
means of times and, where calls come or end at random, for calls in progress; two clock ticks for CPU.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import hypot, isfinite, isnan, nan, sqrt
from typing import Any

from imsbench.kpi.concurrency import Concurrency
from imsbench.kpi.sessions import CallSpan
from imsbench.kpi.statistics import Z_95
from imsbench.kpi.traffic import standard_error

AGREE = 0.10
"""By how much the halves may differ, as a share of their mean."""
CPU_CORES = 0.02
"""Difference of CPU that is always allowed: the kernel counts it in ticks."""
_FEWEST = 10
"""Samples that each half must have for its mean to be compared."""


class Mean:
    """Count, sum and sum of squares of durations: what a mean and its error need."""

    __slots__ = ("count", "squares", "sum_s")

    def __init__(self, count: int = 0, sum_s: float = 0.0, squares: float = 0.0) -> None:
        self.count = count
        """How many."""
        self.sum_s = sum_s
        """Their sum, seconds."""
        self.squares = squares
        """The sum of their squares."""

    @property
    def value(self) -> float:
        """The mean, seconds."""
        return self.sum_s / self.count

    @property
    def variance_of_mean(self) -> float:
        """Square of its standard error."""
        return max(0.0, self.squares / self.count - self.value**2) / self.count

    def add(self, duration_s: float) -> None:
        """One more."""
        self.count += 1
        self.sum_s += duration_s
        self.squares += duration_s * duration_s

    def merge(self, other: Mean) -> None:
        """Add another worker's part."""
        self.count += other.count
        self.sum_s += other.sum_s
        self.squares += other.squares


class Halves:
    """Times of successful attempts, and set-ups of calls, by the half in which they were due; and the
    calls in progress in each.
    """

    __slots__ = ("in_progress", "middle", "times")

    def __init__(self, middle: float = nan) -> None:
        self.middle = middle
        """Instant between the halves, seconds; NaN: the step is not judged, and nothing is kept."""
        self.times: dict[str, tuple[Mean, Mean]] = {}
        """By procedure; "call" is the set-up of calls."""
        self.in_progress = Concurrency(), Concurrency()
        """Calls at once in each half."""

    def add(self, name: str, due_at: float, duration_s: float) -> None:
        """Take one attempt; a NaN is none."""
        if isnan(self.middle) or isnan(duration_s):
            return
        halves = self.times.get(name)
        if halves is None:
            halves = self.times[name] = Mean(), Mean()
        halves[due_at >= self.middle].add(duration_s)

    def observe(self, spans: Iterable[CallSpan], begin: float, end: float) -> None:
        """Take the calls of the evaluated time."""
        if not begin < self.middle < end:
            return
        intervals = [(span.sent_at, span.ended_at) for span in spans]
        self.in_progress[0].observe(intervals, begin, self.middle)
        self.in_progress[1].observe(intervals, self.middle, end)

    def merge(self, other: Halves) -> None:
        """Add another worker's part."""
        for name, parts in other.times.items():
            mine = self.times.setdefault(name, (Mean(), Mean()))
            for half, part in zip(mine, parts, strict=True):
                half.merge(part)
        for level, part_ in zip(self.in_progress, other.in_progress, strict=True):
            level.merge(part_)

    def to_json(self) -> dict[str, Any]:
        """Everything but the instant, as JSON values."""
        return {
            "times": {
                name: [[half.count, half.sum_s, half.squares] for half in halves]
                for name, halves in sorted(self.times.items())
            },
            "in_progress": [level.to_json() for level in self.in_progress],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Halves:
        """The inverse of to_json; KeyError, TypeError or ValueError if it is not of its form."""
        made = cls()
        for name, (first, second) in data["times"].items():
            made.times[str(name)] = _mean(first), _mean(second)
        first, second = data["in_progress"]
        made.in_progress = Concurrency.from_json(first), Concurrency.from_json(second)
        return made


def _mean(data: Any) -> Mean:
    made = Mean(int(data[0]), float(data[1]), float(data[2]))
    if made.count < 0 or not isfinite(made.sum_s) or not isfinite(made.squares):
        raise ValueError("a half's times are no numbers")
    return made


@dataclass(frozen=True, slots=True)
class CallTimes:
    """How long calls are in progress."""

    mean_s: float
    """On average, seconds, above 0."""
    variance: float = 0.0
    """Square seconds."""


def disagreements(
    halves: Halves,
    *,
    cpu_cores: tuple[float, float] | None = None,
    calls: CallTimes | None = None,
) -> Iterator[str]:
    """What differs between the two halves of a step, one sentence each; nothing: it was steady.

    cpu_cores: the target's in each half, None if it was not read; calls: how long they take, where
    they come or end at random, so that their number wanders by itself.
    """
    for name, (first, second) in sorted(halves.times.items()):
        if min(first.count, second.count) < _FEWEST:
            continue
        noise_s = Z_95 * sqrt(first.variance_of_mean + second.variance_of_mean)
        if _differ(first.value, second.value, noise_s):
            shown = f"{first.value * 1e3:.3g} ms in the first half, {second.value * 1e3:.3g} ms"
            yield f"the mean {_TIMES[name]} is {shown} in the second"
    if cpu_cores is not None and _differ(*cpu_cores, CPU_CORES):
        first_cpu, second_cpu = cpu_cores
        yield (
            f"the target used {first_cpu:.2f} cores in the first half, {second_cpu:.2f} in the second"
        )
    before, after = (level.mean for level in halves.in_progress)
    if before is None or after is None:
        return
    noise = _wandering(halves.in_progress, calls) if calls else 1.0  # one call more or less
    if _differ(before, after, noise):
        yield f"{before:.3g} calls were in progress in the first half, {after:.3g} in the second"


_TIMES = {
    "registration": "registration time",
    "reregistration": "re-registration time",
    "deregistration": "de-registration time",
    "subscription": "subscription time",
    "subscription_refresh": "subscription refresh time",
    "call": "session setup time",
}


def _differ(first: float, second: float, noise: float) -> bool:
    apart = abs(first - second)
    return apart > AGREE * (first + second) / 2 and apart > noise


def _wandering(levels: tuple[Concurrency, Concurrency], calls: CallTimes) -> float:
    """Two standard errors of the difference of two time means of calls that come or end at random."""
    errors = [
        standard_error(
            (level.mean or 0.0) / calls.mean_s, calls.mean_s, level.observed_s, calls.variance
        )
        for level in levels
    ]
    return Z_95 * hypot(*errors)
