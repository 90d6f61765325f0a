"""How many calls there are at once, exactly, from the times of every call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any

Interval = tuple[float, float]
"""Beginning and end, seconds on one clock."""


class Concurrency:
    """Intervals at once: their most, and their mean over the time in which they were observed."""

    __slots__ = ("integral_s", "maximum", "observed_s")

    def __init__(self) -> None:
        self.maximum = 0
        """Most at once; of several workers the sum of theirs, which none exceeds."""
        self.integral_s = 0.0
        """How many there were, summed over time: call-seconds."""
        self.observed_s = 0.0
        """How long that was summed, seconds."""

    @property
    def mean(self) -> float | None:
        """Mean over time; None if nothing was observed."""
        return self.integral_s / self.observed_s if self.observed_s else None

    def observe(self, intervals: Iterable[Interval], begin: float, end: float) -> None:
        """Take the part of each interval between two instants; those that reach over them count with it.

        An interval with a NaN is none: that call never came so far.
        """
        self.observed_s += max(0.0, end - begin)
        changes: list[tuple[float, int]] = []
        for first, last in intervals:
            if not first <= last:  # so it is with a NaN
                continue
            start, stop = max(first, begin), min(last, end)
            if start < stop:
                self.integral_s += stop - start
                changes += [(start, 1), (stop, -1)]
        now = 0
        for _, change in sorted(changes):  # an end sorts before a beginning at the same instant
            now += change
            self.maximum = max(self.maximum, now)

    def merge(self, other: Concurrency) -> None:
        """Add another worker's part: workers run side by side, so the time does not add up."""
        self.maximum += other.maximum
        self.integral_s += other.integral_s
        self.observed_s = max(self.observed_s, other.observed_s)

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON values."""
        return {
            "maximum": self.maximum,
            "integral_s": self.integral_s,
            "observed_s": self.observed_s,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Concurrency:
        """The inverse of to_json; KeyError, TypeError or ValueError if it is not of its form."""
        made = cls()
        made.maximum = int(data["maximum"])
        made.integral_s = float(data["integral_s"])
        made.observed_s = float(data["observed_s"])
        times = (made.integral_s, made.observed_s)
        if made.maximum < 0 or not all(isfinite(time) and time >= 0 for time in times):
            raise ValueError("its counts at once are no numbers")
        return made
