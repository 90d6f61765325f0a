"""Which resource was at its limit: the processors, or something that does not show in them.

Where successes stay at one rate however much more is offered, and the target's processors are not busy,
something else limits it: a licence, a static rate limit, a pool. That is suspected, with the evidence;
it is not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Literal

BUSY_SHARE = 0.90
"""Of a processor, or of all of a machine: from here on it is at its limit."""
LOW_SHARE = 0.80
"""Below this, processors are taken for not the limit."""
OTHERS_SHARE = 0.10
"""A target that has less than this of what its machine is busy with is not what makes it busy."""
FLAT = 0.10
"""By this much, as a share, the rates of success of a plateau may differ."""
BEYOND = 1.05
"""What is offered must exceed the plateau by this factor."""

Resource = Literal["processors", "one process", "limiter suspected", "not found", "not measured"]


@dataclass(frozen=True, slots=True)
class LoadPoint:
    """One step of a load that rises."""

    offered: float
    """Attempts per second."""
    succeeded: float
    """Successful attempts per second."""
    inadequate: float
    """Share of attempts that were handled inadequately, 0..1."""
    cpu_cores: float | None = None
    """Of the target's process tree; None: not measured."""
    busiest_cores: float | None = None
    """Of its busiest process; None: not measured."""
    host_cpu_cores: float | None = None
    """Of its whole machine; None: not measured."""


@dataclass(frozen=True, slots=True)
class Limit:
    """What limited the target, as far as it can be told."""

    resource: Resource
    """Which resource."""
    evidence: str
    """In one sentence."""


def limit_of(points: Sequence[LoadPoint], objective: float, host_cpus: int) -> Limit:
    """What was at its limit at the loads that missed the objective (0..1).

    host_cpus: processors of the target's machine.
    """
    over = [p for p in points if p.inadequate > objective]
    if not over:
        return Limit("not found", "No load missed the objective.")
    # Of steps at the same load the one at the idlest machine: what was missed there, it was not for want
    # of processors, whatever else kept them busy during another.
    first = min(over, key=lambda p: (p.offered, _busy(p)))
    if first.cpu_cores is None or first.host_cpu_cores is None:
        return Limit("not measured", "The target's processors were not measured.")
    used = f"{first.cpu_cores:.2f} of {host_cpus} cores used by the target"
    at = f"At {first.offered:.3g} attempts/s"
    if first.host_cpu_cores >= BUSY_SHARE * host_cpus:
        busy = f"{first.host_cpu_cores:.2f} of {host_cpus} cores of its machine were busy"
        if first.cpu_cores < OTHERS_SHARE * first.host_cpu_cores:
            seen = f" {flat}." if (flat := plateau(points, objective)) else ""
            text = f"{at} {busy}, but only {used}: something else kept the machine busy."
            return Limit("not found", text + seen)
        return Limit("processors", f"{at} {busy}, {used}.")
    busiest = first.cpu_cores if first.busiest_cores is None else first.busiest_cores
    if busiest >= BUSY_SHARE:
        text = f"its busiest process used {busiest:.2f} of one core"
        return Limit("one process", f"{at} {text}, {used}.")
    told = plateau(points, objective)
    machine = first.host_cpu_cores / host_cpus
    if told and max(busiest, machine) < LOW_SHARE:
        return Limit("limiter suspected", f"{told}, with {used}.")
    seen = told or "No plateau of successes"
    return Limit(
        "not found",
        f"{seen}. {at} {used}, its busiest process {busiest:.2f}, and its machine was {machine:.0%} busy: a "
        f"limiter is suspected of a plateau where both are below {LOW_SHARE:.0%}.",
    )


def _busy(point: LoadPoint) -> float:
    """Cores of the target's machine that were busy; infinite where it was not measured."""
    unknown = point.host_cpu_cores is None or point.cpu_cores is None
    return inf if unknown else point.host_cpu_cores or 0.0


def plateau(points: Sequence[LoadPoint], objective: float) -> str:
    """The plateau of successes beyond the loads that met the objective, in words; "" if there is none."""
    good = [p for p in points if p.inadequate <= objective]
    over = sorted((p for p in points if p.inadequate > objective), key=lambda p: p.offered)
    if not good or not over:
        return ""
    level = sum(p.succeeded for p in over) / len(over)
    if level <= 0 or over[-1].offered < BEYOND * level:
        return ""
    if any(abs(p.succeeded - level) > FLAT * level for p in over):
        return ""
    # Not a collapse: what succeeds is no less than at the highest load that was good.
    if level < (1 - FLAT) * max(p.succeeded for p in good):
        return ""
    offered = " and ".join(f"{p.offered:.3g}" for p in (over[0], over[-1])[: len(over)])
    return f"Successes stay at {level:.3g}/s where {offered} attempts/s are offered"


def sudden(points: Sequence[LoadPoint], objective: float, host_cpus: int) -> str:
    """What a run with rising steps says of a limit that is not its processors; "" if nothing."""
    found = limit_of(points, objective, host_cpus)
    return found.evidence if found.resource == "limiter suspected" else ""
