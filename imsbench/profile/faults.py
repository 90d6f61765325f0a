"""Faults by profile: what the target and the simulators do wrong on purpose.

Steady faults hold all along and strike a share of the messages they name (``target.faults``,
``simulators.hss.faults``, ``simulators.pcrf.faults``). Timed ones (``faults``) happen at an instant
of the load or of a step. Which messages are struck is drawn from the seed; of each hundred that a
fault names it strikes exactly its share, so that what was injected is known count for count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, Protocol

from pydantic import BeforeValidator, Field, model_validator

from imsbench.profile.fields import (
    Distribution,
    Duration,
    Integer,
    Rate,
    Settings,
    Some,
)

PositiveShare = Annotated[float, Field(strict=True, gt=0, le=1)]
AnswerName = Annotated[
    str, Field(pattern=r"^([1-6][0-9]{2} )?(REGISTER|SUBSCRIBE|INVITE|PRACK|UPDATE|BYE|CANCEL)$")
]
"""An answer of the target as tables name it, "401 REGISTER"; without a status, all final ones."""


class _Steady(Settings):
    """What steady faults share."""

    what: str
    """What befalls the messages it strikes."""
    share: PositiveShare = 1.0
    """Share of the messages named that it strikes: of each hundred exactly so many, above 0."""
    delay: Distribution = Distribution()
    """Of a delay: how much longer the answer takes."""

    @property
    def code(self) -> int | None:
        """The code of an error, where one is given."""
        return None

    @property
    def names(self) -> tuple[str, ...]:
        """The messages it may strike; none: all."""
        return ()

    def as_config(self) -> dict[str, Any]:
        """As the process that does it is told."""
        return {
            "what": self.what,
            "names": list(self.names),
            "share": self.share,
            "code": self.code,
            "delay": {
                "kind": self.delay.kind,
                "mean_s": self.delay.mean,
                "sigma": self.delay.sigma,
            },
        }


class TargetFault(_Steady):
    """What an embedded target does wrong all along with requests of phones, or with their answers."""

    what: Literal["error", "loss", "delay"]
    """error: the request is refused, nothing else is done; loss: the answer is never sent; delay: later,
    while the answers behind it are not held."""
    on: Annotated[tuple[AnswerName, ...], Some]
    """Of loss and delay the answers, as "401 REGISTER", "180 INVITE" or "REGISTER" (all final ones); of
    error the requests: "REGISTER" (those that begin an attempt), "INVITE" (those of new calls) …"""
    status: Annotated[Integer, Field(ge=300, le=699)] | None = None
    """Of an error: the status instead."""

    @property
    def code(self) -> int | None:
        """The code of an error, where one is given."""
        return self.status

    @property
    def names(self) -> tuple[str, ...]:
        """The messages it may strike."""
        return self.on

    @model_validator(mode="after")
    def _check(self) -> TargetFault:
        _check_steady(self, "status")
        if self.what == "error" and any(name[0].isdigit() for name in self.on):
            raise ValueError('"on" of an error names requests: "INVITE", not "200 INVITE"')
        if self.what == "error" and "CANCEL" in self.on:
            raise ValueError("a CANCEL is not refused: it is answered hop by hop")
        return self


class _DiameterFault(_Steady):
    """What faults of the HSS and of the PCRF share."""

    what: Literal["error", "silence", "delay"]
    """error: refused, nothing is changed; silence: never answered, nothing is changed; delay: later."""
    result: Annotated[Integer, Field(ge=3001, le=5999)] | None = None
    """Of an error: its Result-Code, or an Experimental-Result-Code if it is one of the application's."""

    @property
    def code(self) -> int | None:
        """The code of an error, where one is given."""
        return self.result

    @model_validator(mode="after")
    def _check(self) -> _DiameterFault:
        _check_steady(self, "result")
        return self


class HssFault(_DiameterFault):
    """What the HSS simulator does wrong all along."""

    commands: tuple[Literal["UAR", "MAR", "SAR", "LIR"], ...] = ()
    """Commands it strikes; none: all."""

    @property
    def names(self) -> tuple[str, ...]:
        """The commands it may strike; none: all."""
        return self.commands


class PcrfFault(_DiameterFault):
    """What the PCRF simulator does wrong all along."""

    commands: tuple[Literal["AAR", "STR"], ...] = ()
    """Commands it strikes; none: all."""

    @property
    def names(self) -> tuple[str, ...]:
        """The commands it may strike; none: all."""
        return self.commands


def _check_steady(fault: _Steady, code: str) -> None:
    if (fault.what == "error") != (fault.code is not None):
        raise ValueError(f"an error, and nothing else, has a {code}")
    if (fault.what == "delay") != (fault.delay.mean > 0):
        raise ValueError("a delay, and nothing else, has a delay above 0")


Kind = Literal["hss_restart", "pcrf_restart", "core_stall", "tcp_reset", "rtr", "ppr", "rar", "asr"]

_LASTING = ("hss_restart", "pcrf_restart", "core_stall")
_LONGEST_S = 600.0
PLAYED_BY: dict[Kind, Literal["hss", "pcrf", "core"]] = {
    "hss_restart": "hss",
    "rtr": "hss",
    "ppr": "hss",
    "pcrf_restart": "pcrf",
    "rar": "pcrf",
    "asr": "pcrf",
    "core_stall": "core",
    "tcp_reset": "core",
}
"""Which process of a run does each kind."""


def _step(value: object) -> object:
    number = isinstance(value, int) and not isinstance(value, bool) and value >= 1
    if value is not None and not number and not (isinstance(value, str) and value):
        raise ValueError('must be the position of a step, from 1, or a kind of step: "cycle"')
    return value


class TimedFault(Settings):
    """What happens at an instant, once or at a rate for a while."""

    what: Kind
    """hss_restart, pcrf_restart: it closes its connections and is down; core_stall: an embedded target
    stands still and reads later; tcp_reset: an embedded target resets connections of phones; rtr, ppr:
    the HSS ends registrations, or pushes profiles; rar, asr: the PCRF reports lost bearers, or aborts."""
    at: Duration = 0.0
    """Seconds from the beginning of its step; without one, of the load."""
    step: Annotated[int | str | None, BeforeValidator(_step)] = None
    """Position of the step in the run, from 1; or a kind of step, "cycle": in each of them; null: the
    load as a whole."""
    duration: Annotated[Duration, Field(le=_LONGEST_S)] = 0.0
    """How long a peer is down, a target stands still, or a rate lasts."""
    rate: Rate | None = None
    """So many per second for its duration, evenly spaced …"""
    count: Annotated[Integer, Field(ge=1)] | None = None
    """… or so many at once …"""
    share: PositiveShare | None = None
    """… or this share at once: of the subscribers registered, the sessions of calls, the connections."""

    @property
    def played_by(self) -> Literal["hss", "pcrf", "core"]:
        """The process that does it."""
        return PLAYED_BY[self.what]

    @model_validator(mode="after")
    def _check(self) -> TimedFault:
        given = [n for n in ("rate", "count", "share") if getattr(self, n) is not None]
        if self.what in _LASTING:
            if given or not self.duration:
                raise ValueError(f"{self.what} has a duration, and no rate, count or share")
            return self
        if len(given) != 1:
            raise ValueError(f"{self.what} has exactly one of rate, count and share")
        if (self.rate is not None) != (self.duration > 0):
            raise ValueError("a rate, and nothing else, has a duration here")
        return self


class PlannedStep(Protocol):
    """What is asked of a step here."""

    @property
    def index(self) -> int:
        """Position in the run, from 0."""
        ...

    @property
    def kind(self) -> str:
        """What it does."""
        ...

    @property
    def duration_s(self) -> float:
        """Planned length, seconds."""
        ...


def faults_of_step(
    faults: Sequence[TimedFault], step: PlannedStep | None
) -> list[tuple[int, TimedFault]]:
    """The faults of a step, with their positions in the profile; of None: those of the load."""
    if step is None:
        return [(n, fault) for n, fault in enumerate(faults) if fault.step is None]
    wanted = (step.index + 1, step.kind)
    return [(n, fault) for n, fault in enumerate(faults) if fault.step in wanted]


def misplaced(
    faults: Sequence[TimedFault | None], steps: Sequence[PlannedStep]
) -> Iterator[tuple[str, str]]:
    """Path and text of each timed fault whose instant is in no step of the load; None: no fault."""
    for number, fault in enumerate(faults):
        path = f"faults[{number}]"
        if fault is None:
            continue
        if isinstance(fault.step, int) and fault.step > len(steps):
            yield f"{path}.step", f"is {fault.step}, but the load has {len(steps)} steps"
            continue
        own = [step for step in steps if fault.step in (step.index + 1, step.kind)]
        if fault.step is None:
            length_s, where = sum(step.duration_s for step in steps), "the load takes"
        elif not own:
            kinds = ", ".join(dict.fromkeys(step.kind for step in steps))
            text = f"is {fault.step}, but the load has no such step: {len(steps)} of {kinds}"
            yield f"{path}.step", text
            continue
        else:
            length_s = min(step.duration_s for step in own)
            where = f"step {own[0].index + 1} takes" if len(own) == 1 else "one of the steps takes"
        if fault.at >= length_s:
            yield f"{path}.at", f"is {fault.at:g} s, but {where} {length_s:,.6g} s only"


def unplayed(
    faults: Sequence[TimedFault | None], target: str, played: Mapping[str, bool]
) -> Iterator[tuple[str, str]]:
    """Path and text of each timed fault of a process that the run has not; None: no fault.

    target: its kind; played: whether the run has the simulator of each name.
    """
    for number, fault in enumerate(faults):
        if fault is None:
            continue
        path, by = f"faults[{number}].what", fault.played_by
        if by == "core":
            if target != "embedded":
                yield path, f"is {fault.what}: for embedded targets only, this one is {target}"
        elif not played[by]:
            yield path, f"is {fault.what}, but this run has no {by.upper()} of its own"
