"""The phases of a profile's load: fill, hold, cycle, calls, and calls together with one of them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from imsbench.profile.fields import (
    Boolean,
    Distribution,
    Duration,
    Integer,
    PositiveDuration,
    Rate,
    Rates,
    Settings,
    Share,
)


class Fill(Settings):
    """Register phones that are not registered yet, evenly spaced."""

    rate: Rate
    """Initial registrations per second."""
    to: Annotated[Integer, Field(ge=1)]
    """How many are registered in the end."""


class Hold(Settings):
    """Stay registered: phones refresh when due, nothing else happens."""

    duration: PositiveDuration
    """Seconds."""
    refresh: Literal["registration", "subscription"] | None = None
    """What each phone refreshes once, ahead of its timer, evenly spaced over the hold; null: nothing."""
    registered: Annotated[Integer, Field(ge=1)] | None = None
    """Precondition; null: as many as the phases before leave."""


class Cycle(Settings):
    """Every registered phone once, in seeded random order: de-register, then register again."""

    rate: Rates
    """Initial registrations per second; a list makes one step of each."""
    registered: Annotated[Integer, Field(ge=1)] | None = None
    """Precondition; null: as many as the phases before leave."""
    passes: Annotated[Integer, Field(ge=1, le=1000)] = 1
    """How often every phone is cycled in each step."""


class Calls(Settings):
    """Voice calls between registered phones that have none: open arrivals, both ends simulated."""

    rate: Rates
    """Call attempts per second; a list makes one step of each."""
    duration: PositiveDuration
    """Seconds of attempts that are evaluated, after the warm-up."""
    warm_up: Duration | None = None
    """Seconds of attempts before, not evaluated; null: hold + 128 s, so that the load stands."""
    registered: Annotated[Integer, Field(ge=2)] | None = None
    """Precondition; null: as many as the phases before leave."""
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
    busy: Share = 0.0
    """Share of calls answered 486."""
    rejected: Share = 0.0
    """Share of calls answered 603."""
    cancelled: Share = 0.0
    """Share of calls that nobody answers: cancelled by the caller."""
    cancel_after: PositiveDuration = 5.0
    """Seconds of ringing of those."""
    unregistered: Share = 0.0
    """Share of calls to phones that are not registered: 404 or 480."""
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
    """Exactly one of fill, hold, cycle, calls and together."""

    fill: Fill | None = None
    """Register phones."""
    hold: Hold | None = None
    """Stay registered."""
    cycle: Cycle | None = None
    """De-register and register again."""
    calls: Calls | None = None
    """Phones call each other."""
    together: tuple[Phase, Phase] | None = None
    """Calls, and a cycle or a hold beside them, as one step."""

    @model_validator(mode="after")
    def _check(self) -> Phase:
        parts = (self.fill, self.hold, self.cycle, self.calls, self.together)
        given = [part for part in parts if part is not None]
        if len(given) != 1:
            raise ValueError(
                f"must be exactly one of fill, hold, cycle, calls, together; {len(given)} given"
            )
        if self.together:
            _check_together(self.together)
        return self

    @property
    def side_by_side(self) -> tuple[Calls, Cycle | Hold]:
        """The two parts of ``together``: the calls, and what runs beside them."""
        assert self.together is not None
        first, second = self.together
        one, other = (first, second) if first.calls else (second, first)
        beside = other.cycle or other.hold
        assert one.calls is not None
        assert beside is not None
        return one.calls, beside


def _check_together(phases: tuple[Phase, Phase]) -> None:
    calls = [phase for phase in phases if phase.calls]
    others = [phase for phase in phases if phase.cycle or phase.hold]
    if (len(calls), len(others)) != (1, 1):
        raise ValueError("together must be calls and one of cycle and hold")
    for part in (calls[0].calls, others[0].cycle):
        if part is not None and len(part.rate) != 1:
            raise ValueError("together takes one rate of each, not a list")
