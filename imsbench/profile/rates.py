"""How often something is attempted: a constant rate, a ramp, bursts, or a curve over time.

A plan takes them all as a pace: a mean rate, and where it is not constant a course (points of time
and rate, joined by straight lines) or the size of its bursts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationError, model_serializer

from imsbench.profile.fields import Integer, PositiveDuration, Rate, Settings
from imsbench.profile.units import parse_rate, spell_duration

Points = tuple[tuple[float, float], ...]
"""A course: instants in seconds, ascending from 0, and the rate per second there."""

_EXACT = 1e-9
"""Arrivals; what rounding may add to an area."""


class Ramp(Settings):
    """A rate that rises or falls evenly from the begin of a step to its end."""

    from_: Rate = Field(alias="from")
    """Per second at the begin."""
    to: Rate
    """Per second at the end."""

    @model_serializer
    def _serialize(self) -> dict[str, float]:
        return {"from": self.from_, "to": self.to}

    @property
    def mean(self) -> float:
        """Per second, over its whole length."""
        return (self.from_ + self.to) / 2


class Bursts(Settings):
    """So many at one instant, again and again."""

    burst: Annotated[Integer, Field(ge=1, le=1_000_000)]
    """How many at once."""
    every: PositiveDuration
    """Seconds from one burst to the next."""

    @property
    def mean(self) -> float:
        """Per second."""
        return self.burst / self.every


Speed = float | Ramp | Bursts
"""What a profile may have where it says a rate."""


@dataclass(frozen=True, slots=True)
class Pace:
    """When the attempts of a plan are due."""

    rate: float
    """Per second, on average of what is evaluated."""
    attempts: int
    """How many there are."""
    duration_s: float
    """From the first to the end of the plan, seconds."""
    points: Points = ()
    """The course, if the rate changes."""
    burst: int = 0
    """How many are due at once; 0: no bursts."""

    def due_before(self, at_s: float) -> int:
        """How many are due earlier than so many seconds from the begin, where chance has no part."""
        if self.burst:
            due = self.burst * ceil(at_s * self.rate / self.burst - _EXACT)
        elif self.points:
            due = ceil(area(until(self.points, at_s)) - _EXACT)
        else:
            due = ceil(at_s * self.rate - _EXACT)
        return min(due, self.attempts)


def pace_of(speed: Speed, attempts: int) -> Pace:
    """So many attempts at a speed; a ramp takes as long as its mean rate needs for them."""
    rate = mean_of(speed)
    duration_s = attempts / rate
    if isinstance(speed, Ramp):
        points = ((0.0, speed.from_), (duration_s, speed.to))
        return Pace(rate, attempts, duration_s, points)
    if isinstance(speed, Bursts):
        duration_s = ceil(attempts / speed.burst) * speed.every
        return Pace(rate, attempts, duration_s, burst=speed.burst)
    return Pace(rate, attempts, duration_s)


def pace_over(speed: Speed, duration_s: float, lead_s: float = 0.0) -> Pace:
    """What a speed adds up to in a time; before it, so many seconds at the rate of its begin."""
    if isinstance(speed, Ramp):
        return pace_along(((0.0, speed.from_), (duration_s, speed.to)), lead_s)
    rate, whole_s = mean_of(speed), lead_s + duration_s
    burst = speed.burst if isinstance(speed, Bursts) else 0
    return Pace(rate, attempts_in(whole_s, rate, (), burst), whole_s, burst=burst)


def pace_along(points: Points, lead_s: float = 0.0) -> Pace:
    """What a course adds up to; before it, so many seconds at the rate of its begin."""
    duration_s = points[-1][0]
    mean = area(points) / duration_s
    if lead_s:
        points = ((0.0, points[0][1]), *((lead_s + at, rate) for at, rate in points))
    return Pace(mean, attempts_in(lead_s + duration_s, mean, points), lead_s + duration_s, points)


def attempts_in(duration_s: float, rate: float, points: Points = (), burst: int = 0) -> int:
    """How many attempts a course, bursts or a constant rate come to in a time."""
    if points:
        return round(area(points))
    if burst:
        return burst * ceil(duration_s * rate / burst - _EXACT)
    return round(rate * duration_s)


def mean_of(speed: Speed) -> float:
    """Attempts per second, on average."""
    return speed if isinstance(speed, float) else speed.mean


def spell_speed(speed: Speed) -> str:
    """In words: "10/s", "10 to 50/s", "100 at once every 10 s"."""
    if isinstance(speed, Ramp):
        return f"{speed.from_:,g} to {speed.to:,g}/s"
    if isinstance(speed, Bursts):
        return f"{speed.burst:,} at once every {spell_duration(speed.every)}"
    return f"{speed:,g}/s"


def area(points: Points) -> float:
    """Attempts that a course adds up to."""
    return sum((t2 - t1) * (r1 + r2) / 2 for (t1, r1), (t2, r2) in pairwise(points))


def scaled(points: Points, factor: float) -> Points:
    """A course with every rate multiplied."""
    return tuple((at, rate * factor) for at, rate in points)


def until(points: Points, at_s: float) -> Points:
    """A course up to an instant, seconds; nothing is left of one that begins then."""
    kept = [points[0]]
    for (t1, r1), (t2, r2) in pairwise(points):
        if t2 > at_s:
            if t1 < at_s:
                kept.append((at_s, r1 + (r2 - r1) * (at_s - t1) / (t2 - t1)))
            break
        kept.append((t2, r2))
    return tuple(kept)


def _speed(value: object) -> Speed:
    if isinstance(value, (Ramp, Bursts)):
        return value
    if not isinstance(value, Mapping):
        return parse_rate(value)
    model = Bursts if "burst" in value else Ramp
    try:
        return model.model_validate(value)
    except ValidationError as error:
        said = "; ".join(map(_words, error.errors(include_url=False)))
        raise ValueError(
            f"must be a rate, a ramp {{from: 10/s, to: 50/s}} or bursts {{burst: 100, every: 10s}}: {said}"
        ) from None


def _words(details: Any) -> str:
    path = ".".join(map(str, details["loc"]))
    if details["type"] == "extra_forbidden":
        return f"{path} is unknown"
    if details["type"] == "missing":
        return f"{path} is missing"
    return f"{path} {details['msg'].removeprefix('Value error, ').replace('Input should', 'must')}"


def _speeds(value: object) -> tuple[Speed, ...]:
    if not isinstance(value, (list, tuple)):
        return (_speed(value),)
    if not value:
        raise ValueError("must be a rate or a list of at least one")
    speeds = []
    for item in value:
        try:
            speeds.append(_speed(item))
        except ValueError as error:
            raise ValueError(f"{error}, got {item!r}") from None
    return tuple(speeds)


AnySpeed = Annotated[Speed, BeforeValidator(_speed)]
"""One rate, ramp or series of bursts."""
Speeds = Annotated[tuple[Speed, ...], BeforeValidator(_speeds)]
"""One or a list of them."""
