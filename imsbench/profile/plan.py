"""The profile as a whole, and the sentence that tells it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from imsbench.profile.agreement import disagreements
from imsbench.profile.conditions import ConditionField
from imsbench.profile.expand import expand
from imsbench.profile.faults import TimedFault
from imsbench.profile.fields import Settings, Some
from imsbench.profile.mechanisms import spell_mechanisms
from imsbench.profile.model import Generator, Phones, Simulators, Subscribers, Target
from imsbench.profile.phases import Phase
from imsbench.profile.search import Search
from imsbench.profile.spell import spell_load
from imsbench.profile.steps import Step
from imsbench.profile.units import spell_duration


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
    thresholds: tuple[ConditionField, ...] = ()
    """What must hold in every step, or during some, such as "registration_time.p99 < 200ms"."""
    generator: Generator = Generator()
    """The load generator itself."""
    search: Search = Search()
    """How capacity is searched (``imsbench search``); a run does not look at it."""

    @model_validator(mode="after")
    def _check(self) -> Profile:
        if found := disagreements(dict(self)):
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
        workers = self.generator.workers
        return (
            f"{self.describe_parties()}: {spell_load(self.steps())} "
            f"({self._arrivals()}seed {self.seed}, "
            f"{_count(workers, 'worker')}, at least {spell_duration(self.duration_s)}){self._faults()}."
        )

    def describe_parties(self) -> str:
        """Who, how and against what, as the beginning of a sentence."""
        protection = "in clear"
        if self.phones.ipsec != "off":
            protection = f"IPsec ({self.phones.ipsec}), {spell_protection(self.phones)}"
        article = "" if self.target.name else "the "
        return (
            f"{_count(self.subscribers.count, 'phone')} over IPv{self.phones.ip_version} and "
            f"{self.phones.transport.upper()}, {protection}, against {article}{self.target.title}"
        )

    def _arrivals(self) -> str:
        """How the attempts of its steps are spread, in words; fills, constant unless told otherwise,
        are left out where there is more.
        """
        steps = [step for step in self.steps() if step.attempts or step.offers]
        others = [step for step in steps if step.kind != "fill"]
        kinds = dict.fromkeys(step.arrivals for step in others or steps)
        told = " and ".join(_ARRIVALS[kind] for kind in kinds)
        return f"{told} arrivals, " if told else ""

    def _faults(self) -> str:
        """How many faults are injected, in words; nothing if none."""
        steady = [part.faults for part in (self.simulators.hss, self.simulators.pcrf) if part]
        count = len(self.faults) + len(self.target.faults) + sum(map(len, steady))
        return f", with {_count(count, 'fault')} injected" if count else ""


_ARRIVALS = {"constant": "constant", "poisson": "Poisson"}


def spell_protection(phones: Phones) -> str:
    """The algorithms offered, in words: "hmac-sha-1-96, no encryption"."""
    return spell_mechanisms(phones.mechanisms)


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}" + ("" if number == 1 else "s")
