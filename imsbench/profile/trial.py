"""A step made for a search: one load for a given time, whatever number of phones that takes."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import floor
from typing import Literal

TrialLoad = Literal["registration", "cycle", "calls", "release"]
"""registration: phones that are not registered register; cycle: registered ones de-register and register
again; calls: registered ones call each other; release: what is beyond ``registered`` de-registers."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What a trial does, and how its attempts are looked at."""

    loads: dict[TrialLoad, float]
    """Attempts per second of each load that it has."""
    before: float = 1.0
    """Rates of the warm-up, times those after it."""
    limits: dict[Literal["registration", "deregistration", "subscription", "call"], float] = field(
        default_factory=dict
    )
    """Longest adequate time by scenario, seconds; where there are any, attempts are kept by second."""

    def attempts(self, load: TrialLoad, duration_s: float) -> int:
        """Attempts of one load in so many seconds after the warm-up."""
        return round(self.loads.get(load, 0.0) * duration_s)

    def attempts_before(self, load: TrialLoad, warm_up_s: float) -> int:
        """Attempts of one load in the warm-up: as many whole gaps as it has room for, up to its end."""
        return floor(self.loads.get(load, 0.0) * self.before * warm_up_s + 1e-9)
