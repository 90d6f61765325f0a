"""Arrivals: a rate and a count -> the instants at which attempts are due, as offsets from a step's start.

An open model: the plan never waits for an answer (RFC 7502 asks for a constant offered rate; a
closed model would hide queueing). What arrives, and the clock, are the caller's.

Four shapes: a constant rate; a course (a rate that changes over time in straight lines); bursts; and
for the first two Poisson's chance. A course places arrival i where the area under its rate is i, so
that up to any instant as many are due as the rate adds up to. By chance it is a Poisson process of
that rate, given its count: independent instants, each as likely as the rate is high then.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

Points = tuple[tuple[float, float], ...]
"""A course: instants in seconds, ascending from 0, and the rate per second there."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """One step's arrivals, or one worker's share of them.

    The shares of all workers are, together, exactly the arrivals of one worker alone: arrival i
    of the plan belongs to worker ``i % shares``, whatever the shape.
    """

    rate: float
    """Arrivals per second of the whole plan, above 0; of a course or bursts: on average."""
    count: int
    """Arrivals of the whole plan."""
    kind: Literal["constant", "poisson"] = "constant"
    """constant: arrival i at i / rate exactly. poisson: independent exponential gaps."""
    seed: int | str = 0
    """What chance draws from; all shares must be given the same."""
    share: int = 0
    """Which worker this is, 0 … shares-1."""
    shares: int = 1
    """How many workers there are."""
    points: Points = ()
    """The course, if the rate changes; its area is the count, to the next whole number."""
    burst: int = 0
    """Arrivals at one instant, where they come in bursts: one burst every burst / rate seconds."""

    def __post_init__(self) -> None:
        if not 0 < self.rate < math.inf:
            raise ValueError(f"rate {self.rate!r} is not a positive number")
        if self.count < 0:
            raise ValueError(f"count {self.count} is negative")
        if not 0 <= self.share < self.shares:
            raise ValueError(f"share {self.share} of {self.shares}")
        if self.burst < 0 or (self.burst and self.points):
            raise ValueError(f"burst {self.burst} of a course" if self.points else "negative burst")
        if self.points:
            _check(self.points, self.count)

    def __len__(self) -> int:
        """Arrivals of this share."""
        return len(range(self.share, self.count, self.shares))

    def __iter__(self) -> Iterator[float]:
        """Offsets of this share in seconds from the step's start, ascending."""
        mine = range(self.share, self.count, self.shares)
        if self.burst:
            return (i // self.burst * self.burst / self.rate for i in mine)
        if self.points:
            areas = self._drawn_areas() if self.kind == "poisson" else mine
            return instants(self.points, areas)
        if self.kind == "constant":
            # A quotient, not a running sum: the millionth arrival is as exact as the first.
            return (i / self.rate for i in mine)
        return self._poisson()

    def _poisson(self) -> Iterator[float]:
        source = random.Random(self.seed)
        at = 0.0
        for i in range(self.count):
            at += source.expovariate(self.rate)
            if i % self.shares == self.share:
                yield at

    def _drawn_areas(self) -> Iterator[float]:
        """As many even draws from the whole area, in order, without holding them all.

        The least of n even draws from what is left leaves a share of it that is an even draw to the
        power of 1/n.
        """
        source = random.Random(self.seed)
        whole, left = area(self.points), 1.0
        for i in range(self.count):
            left *= source.random() ** (1 / (self.count - i))
            if i % self.shares == self.share:
                yield (1.0 - left) * whole

    @property
    def duration_s(self) -> float:
        """Planned length in seconds; without a course a Poisson plan's last arrival may lie past it."""
        if self.points:
            return self.points[-1][0]
        if self.burst:
            return math.ceil(self.count / self.burst) * self.burst / self.rate
        return self.count / self.rate


def area(points: Points) -> float:
    """Arrivals that a course adds up to."""
    return sum((t2 - t1) * (r1 + r2) / 2 for (t1, r1), (t2, r2) in pairwise(points))


def instants(points: Points, areas: Iterable[float]) -> Iterator[float]:
    """Where the area under a course reaches each of these, which ascend; seconds from its start.

    What lies beyond the whole area, by rounding, is at its end.
    """
    pieces = iter([piece for piece in pairwise(points) if piece[1][0] > piece[0][0]])
    (t1, r1), (t2, r2) = next(pieces)
    before, within = 0.0, (t2 - t1) * (r1 + r2) / 2
    for wanted in areas:
        while wanted - before >= within:
            following = next(pieces, None)
            if following is None:
                break
            before += within
            (t1, r1), (t2, r2) = following
            within = (t2 - t1) * (r1 + r2) / 2
        rest = wanted - before
        # The root of rest = r1 t + (r2 - r1) t² / 2d, in the form that also holds for r1 = r2.
        root = math.sqrt(max(0.0, r1 * r1 + 2 * rest * (r2 - r1) / (t2 - t1)))
        yield min(t1 + 2 * rest / (r1 + root), t2) if r1 + root else t1


def _check(points: Points, count: int) -> None:
    times = [at for at, _rate in points]
    if times[0] != 0 or times != sorted(times) or not 0 < times[-1] < math.inf:
        raise ValueError(f"a course must ascend from 0: {times}")
    if not all(0 <= rate < math.inf for _at, rate in points):
        raise ValueError("the rates of a course must be numbers, 0 or more")
    if abs(area(points) - count) > 1:
        raise ValueError(f"count {count} of a course that adds up to {area(points)}")
