"""The phases of a profile's load: fill, hold, cycle, reattach, calls, together; storm, busy_hour and load
are in ``loads``.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from imsbench.profile.fields import (
    Duration,
    Integer,
    PositiveDuration,
    Settings,
    Share,
)
from imsbench.profile.loads import BusyHour, CallForm, Load, Spread, Storm
from imsbench.profile.rates import AnySpeed, Bursts, Ramp, Speeds


class Fill(Settings):
    """Register phones that are not registered yet, evenly spaced unless told otherwise."""

    rate: AnySpeed
    """Initial registrations per second: a rate, a ramp or bursts."""
    to: Annotated[Integer, Field(ge=1)]
    """How many are registered in the end."""
    arrivals: Literal["constant", "poisson"] = "constant"
    """How they are spread; whatever the generator's other arrivals are, so that "0 to 1,000 in 10 s"
    is exact."""


class Hold(Settings):
    """Stay registered: phones refresh when due, nothing else happens."""

    duration: PositiveDuration
    """Seconds."""
    refresh: Literal["registration", "subscription"] | None = None
    """What each phone refreshes once, ahead of its timer, evenly spaced over the hold; null: nothing."""
    registered: Annotated[Integer, Field(ge=1)] | None = None
    """Precondition; null: as many as the phases before leave."""


class Reattach(Settings):
    """Every registered phone once, in seeded random order: it is gone without a word, and registers from
    another address while the target still holds its old binding and security associations."""

    rate: Speeds
    """Initial registrations per second: a rate, a ramp or bursts; a list makes one step of each."""
    registered: Annotated[Integer, Field(ge=1)] | None = None
    """Precondition; null: as many as the phases before leave."""
    passes: Annotated[Integer, Field(ge=1, le=1000)] = 1
    """How often every phone re-attaches in each step."""
    arrivals: Spread = None
    """How they are spread; null: as generator.arrivals."""


class Cycle(Reattach):
    """Every registered phone once, in seeded random order: de-register, then register again."""

    reattach: Share = 0.0
    """Share of them that re-attach instead: gone without a word, registering from another address."""


class Calls(CallForm):
    """Voice calls between registered phones that have none: open arrivals, both ends simulated."""

    rate: Speeds
    """Call attempts per second: a rate, a ramp or bursts; a list makes one step of each."""
    duration: PositiveDuration
    """Seconds of attempts that are evaluated, after the warm-up."""
    warm_up: Duration | None = None
    """Seconds of attempts before, not evaluated; null: hold + 128 s, so that the load stands."""
    registered: Annotated[Integer, Field(ge=2)] | None = None
    """Precondition; null: as many as the phases before leave."""
    arrivals: Spread = None
    """How they are spread; null: as generator.arrivals."""
    busy: Share = 0.0
    """Share of calls answered 486."""
    rejected: Share = 0.0
    """Share of calls answered 603."""
    cancelled: Share = 0.0
    """Share of calls that nobody answers: cancelled by the caller."""
    unregistered: Share = 0.0
    """Share of calls to phones that are not registered: 404 or 480."""
    watch_release: Duration = 0.0
    """Seconds, at most, that the target's memory is watched for after the last call, until 5 % of what
    the calls had added are left; the published form has 300 s. Where that never comes the same calls
    are made once more, in no table: new memory for them means that it grows. 0: not watched."""

    @model_validator(mode="after")
    def _check(self) -> Calls:
        if self.busy + self.rejected + self.cancelled + self.unregistered > 1:
            raise ValueError("busy + rejected + cancelled + unregistered exceed 1")
        return self


class Phase(Settings):
    """Exactly one of these."""

    fill: Fill | None = None
    """Register phones."""
    hold: Hold | None = None
    """Stay registered."""
    cycle: Cycle | None = None
    """De-register and register again."""
    reattach: Reattach | None = None
    """Register again from another address, without de-registering."""
    storm: Storm | None = None
    """All phones at once lose their connections, and come back."""
    calls: Calls | None = None
    """Phones call each other."""
    busy_hour: BusyHour | None = None
    """Calls, refreshes, re-attaches and power cycles, as many as subscribers make in an hour."""
    load: Load | None = None
    """The same procedures, at rates that change over time."""
    together: tuple[Phase, Phase] | None = None
    """Calls, and a cycle, a reattach or a hold beside them, as one step."""

    @model_validator(mode="after")
    def _check(self) -> Phase:
        names = list(type(self).model_fields)
        given = [name for name in names if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"must be exactly one of {', '.join(names)}; {len(given)} given")
        if self.together:
            _check_together(self.together)
        return self

    @property
    def name(self) -> str:
        """Which of them it is."""
        return next(name for name in type(self).model_fields if getattr(self, name) is not None)

    @property
    def registered(self) -> int | None:
        """Its precondition, where its one part has one."""
        part = getattr(self, self.name)
        return getattr(part, "registered", None)

    @property
    def side_by_side(self) -> tuple[Calls, Reattach | Hold]:
        """The two parts of ``together``: the calls, and what runs beside them."""
        assert self.together is not None
        first, second = self.together
        one, other = (first, second) if first.calls else (second, first)
        beside = other.cycle or other.reattach or other.hold
        assert one.calls is not None
        assert beside is not None
        return one.calls, beside


def _check_together(phases: tuple[Phase, Phase]) -> None:
    calls = [phase for phase in phases if phase.calls]
    others = [phase for phase in phases if phase.cycle or phase.reattach or phase.hold]
    if (len(calls), len(others)) != (1, 1):
        raise ValueError("together must be calls and one of cycle, reattach and hold")
    for part in (calls[0].calls, others[0].cycle or others[0].reattach):
        if part is not None and len(part.rate) != 1:
            raise ValueError("together takes one rate of each, not a list")
        if part is not None and isinstance(part.rate[0], Ramp | Bursts):
            raise ValueError("together takes constant rates")
