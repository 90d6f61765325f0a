"""A step of the load: what a phase of the profile comes to, with its rate, its length and its words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from imsbench.profile.loads import Storm
from imsbench.profile.phases import Calls
from imsbench.profile.rates import Pace, Points, attempts_in
from imsbench.profile.trial import Trial, TrialLoad

Offered = Literal["refresh", "reattach", "power_cycle"]
"""What a mix has beside its calls."""

OFFERED: dict[str, Offered] = {
    "refreshes": "refresh",
    "reattaches": "reattach",
    "power_cycles": "power_cycle",
}
"""The same by the names that profiles have for many of them."""


@dataclass(frozen=True, slots=True)
class Offer:
    """One procedure of a mix."""

    procedure: Offered
    """What is attempted."""
    pace: Pace
    """How often."""

    @property
    def registrations(self) -> int:
        """Initial registrations that it makes."""
        return 0 if self.procedure == "refresh" else self.pace.attempts


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the load; every attempt belongs to the step in which it was due."""

    index: int
    """Position in the run, from 0."""
    kind: Literal["fill", "hold", "cycle", "calls", "storm", "mix", "trial"]
    """What it does; see the phases of a profile. A reattach is a cycle, a mix has several procedures."""
    rate: float
    """Initial registrations per second, or calls; 0 in a hold, a mix, and a storm at one instant."""
    registered: int
    """Phones registered in the step: at the end of a fill, all along the others."""
    registered_before: int
    """Precondition: phones registered when it starts; less is repaired outside the statistics."""
    passes: int
    """How often each phone is cycled; 1 for the other kinds."""
    duration_s: float
    """Planned length in seconds, without the drain."""
    arrivals: Literal["constant", "poisson"]
    """How its attempts are spread over its length."""
    title: str
    """The load in words, as the first column of a table has it."""
    warm_up_s: float = 0.0
    """Part of its length whose attempts are not evaluated, seconds."""
    calls: Calls | None = None
    """The calls, where it has any."""
    refresh: Literal["registration", "subscription"] | None = None
    """What each phone refreshes once in a hold, ahead of its timer."""
    beside: Step | None = None
    """What runs beside its calls, from the end of their warm-up on: a cycle, a hold or a mix."""
    points: Points = ()
    """The rate over its length, if it changes: instants in seconds and rates per second."""
    burst: int = 0
    """How many attempts are due at once, where they come in bursts."""
    speed: str = ""
    """The rate in words, where it is not constant: "10 to 50/s"."""
    reattach: float = 0.0
    """Share of a cycle's attempts that re-attach from another address instead of de-registering."""
    storm: Storm | None = None
    """The storm, if it is one."""
    offers: tuple[Offer, ...] = ()
    """The procedures of a mix."""
    trial: Trial | None = None
    """The load of a step made for a search."""

    @property
    def uniform(self) -> bool:
        """Whether its load is the same all along, so that its two halves must agree."""
        changes = self.points or self.burst or any(offer.pace.points for offer in self.offers)
        beside = self.beside is None or self.beside.uniform
        return self.kind not in ("fill", "storm") and not changes and beside

    @property
    def registrations(self) -> int:
        """Initial registrations that the plan holds."""
        match self.kind:
            case "calls":
                return self.beside.registrations if self.beside is not None else 0
            case "mix":
                return sum(offer.registrations for offer in self.offers)
            case "trial":
                return self._evaluated("registration") + self._evaluated("cycle")
            case _:
                return self.attempts

    @property
    def evaluated_calls(self) -> int | None:
        """Call attempts due after the warm-up; None if that is left to chance (Poisson)."""
        if self.kind == "trial":
            return self._evaluated("calls")
        if self.kind != "calls":
            return 0
        if self.arrivals == "poisson" and not self.burst:
            return None
        return self.attempts - self.pace.due_before(self.warm_up_s)

    @property
    def attempts(self) -> int:
        """Initial registrations, or call attempts with those of the warm-up, that the plan holds."""
        match self.kind:
            case "fill":
                return self.registered - self.registered_before
            case "cycle":
                return self.registered * self.passes
            case "storm":
                return self.registered
            case "calls":
                return attempts_in(self.duration_s, self.rate, self.points, self.burst)
            case "trial":
                assert self.trial is not None
                return sum(
                    self._evaluated(load) + self.trial.attempts_before(load, self.warm_up_s)
                    for load in self.trial.loads
                )
            case "hold" | "mix":
                return 0

    def _evaluated(self, load: TrialLoad) -> int:
        """Attempts of one load of a trial, after its warm-up."""
        trial = self.trial
        return 0 if trial is None else trial.attempts(load, self.duration_s - self.warm_up_s)

    @property
    def moves(self) -> bool:
        """Whether phones re-attach from another address in it."""
        here = self.reattach > 0 or any(offer.procedure == "reattach" for offer in self.offers)
        return here or (self.beside is not None and self.beside.moves)

    @property
    def spelled_rate(self) -> str:
        """The rate in words: "10/s", "10 to 50/s"; empty if there is none."""
        return self.speed or (f"{self.rate:,g}/s" if self.rate else "")

    @property
    def pace(self) -> Pace:
        """When its attempts are due."""
        return Pace(self.rate, self.attempts, self.duration_s, self.points, self.burst)
