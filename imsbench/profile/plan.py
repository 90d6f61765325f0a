"""The profile as a whole, the steps it expands to, and the sentence that tells them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import Field, model_validator

from imsbench.profile.agreement import disagreements
from imsbench.profile.faults import TimedFault, misplaced
from imsbench.profile.fields import (
    Settings,
    Some,
)
from imsbench.profile.mechanisms import spell_mechanisms
from imsbench.profile.model import (
    Generator,
    Phones,
    Simulators,
    Subscribers,
    Target,
)
from imsbench.profile.phases import (
    Calls,
    Cycle,
    Fill,
    Hold,
    Phase,
)
from imsbench.profile.units import spell_duration


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the load; every attempt belongs to the step in which it was due."""

    index: int
    """Position in the run, from 0."""
    kind: Literal["fill", "hold", "cycle", "calls"]
    """What it does; see the phases of a profile."""
    rate: float
    """Initial registrations per second; 0 in a hold."""
    registered: int
    """Phones registered in the step: at the end of a fill, all along a hold or a cycle."""
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
    """What runs beside its calls, from the end of their warm-up on: a cycle or a hold."""

    @property
    def registrations(self) -> int:
        """Initial registrations that the plan holds."""
        if self.kind == "calls":
            return self.beside.registrations if self.beside is not None else 0
        return self.attempts

    @property
    def evaluated_calls(self) -> int | None:
        """Call attempts due after the warm-up; None if that is left to chance (Poisson)."""
        if self.kind != "calls":
            return 0
        if self.arrivals == "poisson":
            return None
        # Attempt i is due at i / rate.
        return self.attempts - math.ceil(self.warm_up_s * self.rate - 1e-9)

    @property
    def attempts(self) -> int:
        """Initial registrations, or call attempts with those of the warm-up, that the plan holds."""
        match self.kind:
            case "fill":
                return self.registered - self.registered_before
            case "cycle":
                return self.registered * self.passes
            case "calls":
                return round(self.rate * self.duration_s)
            case "hold":
                return 0


class Profile(Settings):
    """One benchmark: who, how, against what, under which load, and what must hold."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]
    """Short name, part of the result's folder: lower-case letters, digits, dot, dash, underscore."""
    description: Annotated[str, Field(max_length=1000)] = ""
    """What it is for, in a sentence or two."""
    seed: Annotated[int, Field(strict=True, ge=0, lt=2**63)] = 1
    """Whatever is random in the load and in derived keys comes from it."""
    subscribers: Subscribers
    """The home network's subscribers."""
    phones: Phones = Phones()
    """How the phones behave."""
    target: Target = Target()
    """The system under test."""
    simulators: Simulators = Simulators()
    """What plays the rest of the network."""
    phases: Annotated[tuple[Phase, ...], Some]
    """The load, in order."""
    faults: tuple[TimedFault, ...] = ()
    """What goes wrong on purpose at instants of the load, or of a step."""
    thresholds: tuple[Annotated[str, Field(min_length=1, max_length=200)], ...] = ()
    """What must hold in every step, such as "registration_time.p99 < 200ms"; read by the KPIs."""
    generator: Generator = Generator()
    """The load generator itself."""

    @model_validator(mode="after")
    def _check(self) -> Profile:
        found = disagreements(dict(self)) or list(misplaced(self.faults, self.steps()))
        if found:
            raise ValueError("; ".join(f"{path} {text}" for path, text in found))
        return self

    def steps(self) -> tuple[Step, ...]:
        """The steps of the load, in order; a cycle with several rates is several steps."""
        return expand(self.phases, self.generator.arrivals)

    @property
    def target_ipsec(self) -> str:
        """Who does an embedded or null target's end of ESP: "auto", "userspace", "kernel", "off"."""
        return self.target.ipsec or self.phones.ipsec

    @property
    def duration_s(self) -> float:
        """Planned length of all steps in seconds, without drains and repairs."""
        return sum(step.duration_s for step in self.steps())

    def describe(self) -> str:
        """The whole benchmark in one sentence."""
        protection = "in clear"
        if self.phones.ipsec != "off":
            protection = f"IPsec ({self.phones.ipsec}), {spell_protection(self.phones)}"
        load = "; ".join(_spell_phase(steps) for steps in _by_phase(self.steps()))
        workers = self.generator.workers
        article = "" if self.target.name else "the "
        return (
            f"{_count(self.subscribers.count, 'phone')} over IPv{self.phones.ip_version} and "
            f"{self.phones.transport.upper()}, {protection}, against {article}{self.target.title}: {load} "
            f"({_ARRIVALS[self.generator.arrivals]} arrivals, seed {self.seed}, "
            f"{_count(workers, 'worker')}, at least {spell_duration(self.duration_s)})."
        )


def expand(phases: Sequence[Phase], arrivals: Literal["constant", "poisson"]) -> tuple[Step, ...]:
    """The steps of these phases, in order."""
    steps: list[Step] = []
    standing = 0
    for phase in phases:
        for step in _steps_of(phase, len(steps), standing, arrivals):
            steps.append(step)
            standing = step.registered
    return tuple(steps)


_ARRIVALS = {"constant": "constant", "poisson": "Poisson"}


def spell_protection(phones: Phones) -> str:
    """The algorithms offered, in words: "hmac-sha-1-96, no encryption"."""
    return spell_mechanisms(phones.mechanisms)


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}" + ("" if number == 1 else "s")


def _steps_of(
    phase: Phase, index: int, standing: int, arrivals: Literal["constant", "poisson"]
) -> list[Step]:
    if phase.fill:
        return [_fill(phase.fill, index, standing)]
    if phase.hold:
        return [_hold(phase.hold, index, phase.hold.registered or standing)]
    if phase.together:
        return [_together(phase, index, standing, arrivals)]
    if phase.calls:
        calls = phase.calls
        registered = calls.registered or standing
        return [
            _calls(calls, rate, index + offset, registered, arrivals)
            for offset, rate in enumerate(calls.rate)
        ]
    assert phase.cycle is not None
    registered = phase.cycle.registered or standing
    return [
        _cycle(phase.cycle, rate, index + offset, registered, arrivals)
        for offset, rate in enumerate(phase.cycle.rate)
    ]


def _fill(fill: Fill, index: int, standing: int) -> Step:
    duration_s = (fill.to - standing) / fill.rate
    return Step(
        index=index,
        kind="fill",
        rate=fill.rate,
        registered=fill.to,
        registered_before=standing,
        passes=1,
        duration_s=duration_s,
        arrivals="constant",
        title=f"From {standing:,} to {fill.to:,} registered, in {spell_duration(duration_s)}",
    )


def _hold(hold: Hold, index: int, registered: int) -> Step:
    return Step(
        index=index,
        kind="hold",
        rate=0.0,
        registered=registered,
        registered_before=registered,
        passes=1,
        duration_s=hold.duration,
        arrivals="constant",
        title=f"{registered:,} registered, held {spell_duration(hold.duration)}"
        + (f", each {hold.refresh} refreshed once" if hold.refresh else ""),
        refresh=hold.refresh,
    )


def _cycle(
    cycle: Cycle, rate: float, index: int, registered: int, arrivals: Literal["constant", "poisson"]
) -> Step:
    passes = f", {cycle.passes} passes" if cycle.passes > 1 else ""
    return Step(
        index=index,
        kind="cycle",
        rate=rate,
        registered=registered,
        registered_before=registered,
        passes=cycle.passes,
        duration_s=registered * cycle.passes / rate,
        arrivals=arrivals,
        title=f"{registered:,} registered{passes}",
    )


def _calls(
    calls: Calls, rate: float, index: int, registered: int, arrivals: Literal["constant", "poisson"]
) -> Step:
    # At the end of the warm-up as many calls end as begin, or nearly so.
    warm_up_s = calls.hold.longest + 128.0 if calls.warm_up is None else calls.warm_up
    return Step(
        index=index,
        kind="calls",
        rate=rate,
        registered=registered,
        registered_before=registered,
        passes=1,
        duration_s=warm_up_s + calls.duration,
        arrivals=arrivals,
        title=f"{registered:,} registered, calls",
        warm_up_s=warm_up_s,
        calls=calls,
    )


def _together(
    phase: Phase, index: int, standing: int, arrivals: Literal["constant", "poisson"]
) -> Step:
    calls, beside = phase.side_by_side
    registered = calls.registered or beside.registered or standing
    step = _calls(calls, calls.rate[0], index, registered, arrivals)
    if isinstance(beside, Hold):
        other, what = _hold(beside, index, registered), "held"
    else:
        other = _cycle(beside, beside.rate[0], index, registered, arrivals)
        what = f"cycled at {other.rate:,g}/s"
    return replace(step, title=f"{registered:,} registered and {what}, calls", beside=other)


def _by_phase(steps: Sequence[Step]) -> list[list[Step]]:
    """Steps in a row that differ by their rate only, together."""
    groups: list[list[Step]] = []
    for step in steps:
        last = groups[-1][-1] if groups else None
        alike = last and step.kind == last.kind and step.kind in ("cycle", "calls")
        alike = alike and not step.beside and not (last and last.beside)
        if last and alike and (step.registered, step.passes) == (last.registered, last.passes):
            groups[-1].append(step)
        else:
            groups.append([step])
    return groups


def _spell_phase(steps: Sequence[Step]) -> str:
    first = steps[0]
    match first.kind:
        case "fill":
            return (
                f"from {first.registered_before:,} to {first.registered:,} registered "
                f"at {first.rate:,g}/s in {spell_duration(first.duration_s)}"
            )
        case "hold":
            refreshed = f", each {first.refresh} refreshed once" if first.refresh else ""
            return f"{first.registered:,} held registered {spell_duration(first.duration_s)}{refreshed}"
        case "calls":
            calls = first.calls
            assert calls is not None
            each = " each" if steps[1:] else ""
            lasting = f"for {spell_duration(first.duration_s)}{each}"
            held = f"held {spell_duration(calls.hold.mean)}"
            beside = f", and beside them {_spell_phase([first.beside])}" if first.beside else ""
            at = _listed([f"{step.rate:,g}/s" for step in steps])
            return (
                f"calls between {first.registered:,} registered at {at} {lasting}, {held}{beside}"
            )
        case "cycle":
            times = "" if first.passes == 1 else f" {first.passes} times"
            rates = [f"{step.rate:,g}/s in {spell_duration(step.duration_s)}" for step in steps]
            at = _listed(rates)
            return f"each of {first.registered:,} de-registered and registered again{times} at {at}"


def _listed(texts: Sequence[str]) -> str:
    return ", ".join(texts[:-1]) + " and " + texts[-1] if texts[1:] else texts[0]
