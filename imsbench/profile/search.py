"""What a search for capacity is told: the objective, where it begins, how far it goes, how long a step is.

The terms are those of ETSI TS 186 008; the values are this project's own.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from imsbench.profile.fields import (
    Duration,
    Integer,
    PositiveDuration,
    Rate,
    Settings,
    Share,
)

SearchProcedure = Literal["registration", "call", "cycle", "mix"]
"""What a search loads the target with."""


class TimeLimits(Settings):
    """Beyond these an attempt that succeeded counts as inadequately handled all the same."""

    registration: PositiveDuration = 1.0
    """Initial registration, from the first byte sent to the 200, seconds."""
    deregistration: PositiveDuration = 1.0
    """De-registration, from the first byte sent to the 200, seconds."""
    subscription: PositiveDuration = 1.0
    """Subscription that follows a registration, from the first byte sent to the 200, seconds."""
    call: PositiveDuration = 2.0
    """Session set-up, from the INVITE to the first 180 or 2xx, seconds."""


class Span(Settings):
    """Where a search of one procedure begins, and how it goes on."""

    start: Rate
    """Attempts per second of the first step."""
    increase: Rate
    """What a stepped search adds from step to step, attempts per second."""
    most: Rate | None = None
    """Highest load that is tried; null: what the subscribers suffice for."""

    @model_validator(mode="after")
    def _check(self) -> Span:
        if self.most is not None and self.most < self.start:
            raise ValueError("most is below start")
        return self


def _span(start: float, increase: float) -> Span:
    return Span(start=start, increase=increase)


class Search(Settings):
    """How capacity is searched."""

    objective: Annotated[Share, Field(lt=1)] = 0.001
    """Design objective: largest share of inadequately handled attempts, of each procedure apart."""
    time_limits: TimeLimits = TimeLimits()
    """What makes a successful attempt inadequately handled: the project's own values."""
    confidence: Annotated[float, Field(strict=True, ge=0.5, lt=1)] = 0.95
    """Of the intervals that stand beside shares of inadequately handled attempts."""
    registered: Annotated[Integer, Field(ge=1)] | None = None
    """Phones that stay registered all along; null: as the first fill says, and of a search for
    registrations one."""
    registration: Span = _span(20.0, 10.0)
    """Initial registrations: phones that are not registered register, and de-register between steps."""
    call: Span = _span(5.0, 5.0)
    """Calls, of the profile's first kind."""
    cycle: Span = _span(20.0, 10.0)
    """Registered phones de-register and register again."""
    mix: Span = _span(20.0, 10.0)
    """Calls and a cycle side by side, in the proportion of the profile's first ``together``; rates are of
    both together."""
    stir: Duration = 10.0
    """Load at the first rate before the first step, seconds, so that phones and timers are mixed."""
    transient: Duration = 5.0
    """Beginning of each step that is not evaluated, seconds."""
    duration: PositiveDuration = 30.0
    """Evaluated time of each step, seconds; of a search by RFC 7502, whose steps count attempts, of the
    overload and of what comes after it."""
    sessions: Annotated[Integer, Field(ge=1)] = 1_000
    """Attempts of an iteration of RFC 7502 §4.10, which wants 50,000."""
    fraction: Annotated[float, Field(strict=True, gt=0, lt=1)] = 0.10
    """By what share RFC 7502 §4.10 raises the rate at first (its w)."""
    resolution: Annotated[float, Field(strict=True, gt=0, le=0.5)] = 0.03
    """How narrow a bisection makes its bracket, as a share of the lower end."""
    steps: Annotated[Integer, Field(ge=2, le=1000)] = 100
    """Most measured steps, all together."""
    release: Rate | None = None
    """De-registrations per second between steps of a search for registrations; null: as the first fill
    registers."""
    recovery: PositiveDuration = 60.0
    """How long, at most, a target may take after a step that was too much until a probe finds it as it
    was, seconds."""
    overload: Annotated[float, Field(strict=True, gt=1, le=10)] = 1.5
    """Load of the overload step, times the found one."""
    relief: Annotated[float, Field(strict=True, gt=0, lt=1)] = 0.8
    """Load after it, times the found one, at which the objective must hold again."""

    def span(self, procedure: SearchProcedure) -> Span:
        """The loads of one procedure."""
        spans = {
            "registration": self.registration,
            "call": self.call,
            "cycle": self.cycle,
            "mix": self.mix,
        }
        return spans[procedure]
