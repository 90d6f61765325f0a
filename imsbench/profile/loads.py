"""Loads of many procedures, and what calls are like: storm, busy_hour and load.

The figures of a busy hour are this project's own: round numbers to begin with, no measurement of any
network. Whoever knows a network's own puts those in their place.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from imsbench.profile.fields import (
    Boolean,
    Distribution,
    Duration,
    Integer,
    PositiveDuration,
    Settings,
    Share,
)
from imsbench.profile.rates import Points, area
from imsbench.profile.units import parse_rate

Spread = Literal["constant", "poisson"] | None
"""How arrivals are spread; null: as generator.arrivals."""

PerHour = Annotated[float, Field(strict=True, ge=0, le=1000)]
"""Attempts per subscriber and hour."""


class CallForm(Settings):
    """What calls are like, however many there are."""

    hold: Distribution = Distribution.model_validate({"mean": "90s"})
    """From the ACK to the BYE."""
    ring: Distribution = Distribution()
    """From the 180 to the 2xx; none: answered at once."""
    preconditions: Boolean = True
    """Whether both phones reserve resources before the called one rings (IR.92 §2.4.1)."""
    ringing: Boolean = True
    """Whether there is a 180; false: answered without."""
    reliable_ringing: Boolean = False
    """Whether the 180 is sent reliably (RFC 3262)."""
    request_uri: Literal["sip", "tel"] = "sip"
    """How the called phone is addressed: sip:+MSISDN@domain;user=phone, or tel:+MSISDN."""
    bye_by_callee: Share = 0.0
    """Share of answered calls that the called phone ends."""
    cancel_after: PositiveDuration = 5.0
    """Seconds of ringing of calls that nobody answers."""
    hold_resume: Boolean = False
    """Whether the caller holds and resumes each call once, by re-INVITE."""
    session_expires: Annotated[Integer, Field(ge=0)] = 0
    """Session-Expires asked for, seconds, refreshed by UPDATE at half of it (RFC 4028); 0: none."""
    no_answer: PositiveDuration = 180.0
    """Seconds from the first response until the caller gives up."""
    pairs: Literal["random", "fixed"] = "random"
    """random: both phones drawn among the idle ones; fixed: each worker's phones call their neighbour,
    the first the second, the third the fourth."""
    calls_per_phone: Annotated[Integer, Field(ge=1, le=8)] = 1
    """Calls a phone may have at once."""


class Storm(Settings):
    """Every phone loses its connections and its security associations at one instant, without a word, and
    after an outage they all register again."""

    registered: Annotated[Integer, Field(ge=1)] | None = None
    """Precondition; null: as many as the phases before leave."""
    core: Literal["kept", "lost"] = "kept"
    """kept: the target still holds bindings, SAs and connections; lost: it has forgotten them all, as
    after a restart (embedded targets only)."""
    outage: PositiveDuration = 5.0
    """Seconds from the loss until the first phone comes back."""
    within: Duration = 0.0
    """Seconds over which they come back; 0: all at one instant."""
    arrivals: Spread = None
    """How they are spread over it; null: as generator.arrivals."""
    back_off: Literal["rfc5626", "none"] = "rfc5626"
    """How long a phone waits after a failed attempt. rfc5626: between half and all of base_time doubled
    by each failure, max_time at most (RFC 5626 §4.5); none: always retry."""
    base_time: PositiveDuration = 30.0
    """Seconds; the base of the back-off."""
    max_time: PositiveDuration = 1800.0
    """Seconds; its longest."""
    retry: PositiveDuration = 1.0
    """Seconds that a phone without back-off waits; a Retry-After makes either wait longer."""
    limit: PositiveDuration = 600.0
    """Longest wait after the last phone has come back until all are registered; then the step ends."""


class BusyHour(Settings):
    """What subscribers do in their busiest hour; counts are per subscriber and hour."""

    duration: PositiveDuration
    """Seconds that are evaluated, after the warm-up."""
    scale: Annotated[float, Field(strict=True, gt=0, le=10_000)] = 1.0
    """What every count is multiplied by."""
    registered: Annotated[Integer, Field(ge=2)] | None = None
    """Precondition; null: as many as the phases before leave."""
    answered: PerHour = 1.0
    """Calls that are answered."""
    busy: PerHour = 0.1
    """Calls that are answered 486."""
    unanswered: PerHour = 0.3
    """Calls that nobody answers: cancelled by the caller after calls.cancel_after."""
    refreshes: PerHour = 1.0
    """Re-registrations, besides those that come due by their expiry."""
    reattaches: PerHour = 0.5
    """Registrations from another address while the old binding lives."""
    power_cycles: PerHour = 0.1
    """De-registrations, each followed by a registration."""
    calls: CallForm = CallForm()
    """What the calls are like."""
    warm_up: Duration | None = None
    """Seconds of calls before, not evaluated; null: hold + 128 s, so that the load stands."""
    arrivals: Spread = None
    """How they are spread; null: as generator.arrivals."""

    @model_validator(mode="after")
    def _check(self) -> BusyHour:
        names = ("answered", "busy", "unanswered", "refreshes", "reattaches", "power_cycles")
        if not any(getattr(self, name) for name in names):
            raise ValueError("nothing happens in it: every count is 0")
        return self


def _rate_or_none(value: object) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value == 0:
        return 0.0
    return parse_rate(value)


def _curve(points: Points) -> Points:
    times = [at for at, _rate in points]
    if len(times) < 2 or times[0] or times != sorted(times) or not times[-1]:
        raise ValueError("must be two points or more, the first at 0s, in order of time")
    if not area(points):
        raise ValueError("is 0 all the time: leave it out")
    return points


Curve = Annotated[
    tuple[tuple[Duration, Annotated[float, BeforeValidator(_rate_or_none)]], ...],
    AfterValidator(_curve),
]
"""Points of time and rate, joined by straight lines: [[0s, 1/s], [60s, 5/s]]."""


class Curves(Settings):
    """Rates over time, of the procedures that there are."""

    calls: Curve | None = None
    """Call attempts."""
    refreshes: Curve | None = None
    """Re-registrations, besides those that come due by their expiry."""
    reattaches: Curve | None = None
    """Registrations from another address while the old binding lives."""
    power_cycles: Curve | None = None
    """De-registrations, each followed by a registration."""

    @property
    def given(self) -> dict[str, Points]:
        """Those that there are, by name."""
        return {name: curve for name, curve in self if curve is not None}

    @model_validator(mode="after")
    def _check(self) -> Curves:
        ends = {curve[-1][0] for curve in self.given.values()}
        if len(ends) != 1:
            raise ValueError("must be curves that end at one time" if ends else "has no curve")
        return self


class Load(Settings):
    """Procedures at rates that change over time."""

    csv: str = ""
    """File with the rates, beside the profile: a column ``seconds`` and one of rates per second for each
    procedure, named as in rates; read with the profile, unless that has rates."""
    rates: Curves
    """The rates over time; those of the file, once it has been read."""
    scale: Annotated[float, Field(strict=True, gt=0, le=10_000)] = 1.0
    """What every rate is multiplied by."""
    registered: Annotated[Integer, Field(ge=2)] | None = None
    """Precondition; null: as many as the phases before leave."""
    calls: CallForm = CallForm()
    """What the calls are like."""
    busy: Share = 0.0
    """Share of calls answered 486."""
    unanswered: Share = 0.0
    """Share of calls that nobody answers: cancelled by the caller."""
    warm_up: Duration = 0.0
    """Seconds of calls at the rate of the begin before it, not evaluated."""
    arrivals: Spread = None
    """How they are spread; null: as generator.arrivals."""

    @model_validator(mode="after")
    def _check(self) -> Load:
        if self.busy + self.unanswered > 1:
            raise ValueError("busy + unanswered exceed 1")
        return self
