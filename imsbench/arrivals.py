"""Arrivals: a rate and a count -> the instants at which attempts are due, as offsets from a step's start.

An open model: the plan never waits for an answer (RFC 7502 asks for a constant offered rate; a
closed model would hide queueing). What arrives, and the clock, are the caller's.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Arrivals:
    """One step's arrivals, or one worker's share of them.

    The shares of all workers are, together, exactly the arrivals of one worker alone: arrival i
    of the plan belongs to worker ``i % shares``, whatever the kind.
    """

    rate: float
    """Arrivals per second of the whole plan, above 0."""
    count: int
    """Arrivals of the whole plan."""
    kind: Literal["constant", "poisson"] = "constant"
    """constant: arrival i at i / rate exactly. poisson: independent exponential gaps."""
    seed: int | str = 0
    """Poisson gaps come from it; all shares must be given the same."""
    share: int = 0
    """Which worker this is, 0 … shares-1."""
    shares: int = 1
    """How many workers there are."""

    def __post_init__(self) -> None:
        if not 0 < self.rate < float("inf"):
            raise ValueError(f"rate {self.rate!r} is not a positive number")
        if self.count < 0:
            raise ValueError(f"count {self.count} is negative")
        if not 0 <= self.share < self.shares:
            raise ValueError(f"share {self.share} of {self.shares}")

    def __len__(self) -> int:
        """Arrivals of this share."""
        return len(range(self.share, self.count, self.shares))

    def __iter__(self) -> Iterator[float]:
        """Offsets of this share in seconds from the step's start, ascending."""
        if self.kind == "constant":
            # A quotient, not a running sum: the millionth arrival is as exact as the first.
            return (i / self.rate for i in range(self.share, self.count, self.shares))
        return self._poisson()

    def _poisson(self) -> Iterator[float]:
        source = random.Random(self.seed)
        at = 0.0
        for i in range(self.count):
            at += source.expovariate(self.rate)
            if i % self.shares == self.share:
                yield at

    @property
    def duration_s(self) -> float:
        """Planned length in seconds: count / rate; a Poisson plan's last arrival may lie past it."""
        return self.count / self.rate
