"""What the sections of a profile must agree on; each rule runs on the sections that are sound."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from pydantic import BaseModel

from imsbench.profile.conditions import unmatched
from imsbench.profile.erlang import lacking_phones
from imsbench.profile.expand import expand, steps_of
from imsbench.profile.faults import TimedFault, misplaced, unplayed
from imsbench.profile.mechanisms import lonely
from imsbench.profile.model import (
    Generator,
    Hss,
    Pcrf,
    Phones,
    Simulators,
    Subscribers,
    Target,
)
from imsbench.profile.phases import Calls, Hold, Phase
from imsbench.profile.rates import mean_of
from imsbench.profile.steps import Step

Disagreement = tuple[str, str]
"""Path in the profile, and what is wrong there."""

_Section = TypeVar("_Section", bound=BaseModel)


def disagreements(sections: Mapping[str, object]) -> list[Disagreement]:
    """All broken rules among the sections given by name; a missing section breaks no rule."""
    found: list[Disagreement] = []
    subscribers = _section(sections, "subscribers", Subscribers)
    phones = _section(sections, "phones", Phones)
    target = _section(sections, "target", Target)
    simulators = _section(sections, "simulators", Simulators)
    generator = _section(sections, "generator", Generator)
    phases = sections.get("phases")
    if subscribers and isinstance(phases, (list, tuple)):
        found += _phases(subscribers.count, phases)
        if generator:
            found += _too_few_phones(phases, generator)
        if target:
            found += _storms(phases, target)
    if subscribers and generator and generator.workers > subscribers.count:
        text = f"{generator.workers} workers for {subscribers.count:,} subscribers"
        found.append(("generator.workers", text))
    if target and phones and target.pcscf and _version(target.pcscf) != phones.ip_version:
        found.append(
            ("target.pcscf", f"is not an IPv{phones.ip_version} address (phones.ip_version)")
        )
    if phones:
        found += ((f"phones.{name}", text) for name, text in lonely(phones.algs, phones.ealgs))
    if target and phones and target.kind == "null" and phones.transport == "udp":
        text = (
            "is udp, but a null target speaks TCP only: it keeps no transactions, and a request over "
            "1,300 bytes would come by another way than the answers to it must go"
        )
        found.append(("phones.transport", text))
    if target and phones and target.ipsec and phones.ipsec == "off":
        found.append(("target.ipsec", f"is {target.ipsec}, but phones.ipsec is off"))
    if target and phones and target.kind == "lab":
        found += _lab(target, phones)
    found += _misplaced(sections, planned_steps(sections))
    if target and simulators:
        found += _simulator("hss", "HSS", target, simulators.hss)
        found += _simulator("pcrf", "PCRF", target, simulators.pcrf)
        found += _faults(sections.get("faults"), target, simulators)
    return found


def planned_steps(sections: Mapping[str, object]) -> tuple[Step, ...]:
    """The steps of the load, as far as it can be told; none where the phases are not sound."""
    phases, generator = sections.get("phases"), _section(sections, "generator", Generator)
    if not isinstance(phases, tuple):
        return ()
    return expand(phases, (generator or Generator()).arrivals)


def _misplaced(sections: Mapping[str, object], steps: Sequence[Step]) -> Iterator[Disagreement]:
    """Timed faults and thresholds outside the load."""
    if not steps:
        return
    if isinstance(faults := sections.get("faults"), tuple):
        yield from misplaced(faults, steps)
    if isinstance(thresholds := sections.get("thresholds"), tuple):
        yield from unmatched(thresholds, steps)


def _section(sections: Mapping[str, object], name: str, kind: type[_Section]) -> _Section | None:
    section = sections.get(name)
    return section if isinstance(section, kind) else None


def _version(endpoint: str) -> int:
    return ipaddress.ip_address(endpoint.rpartition(":")[0].strip("[]")).version


def _lab(target: Target, phones: Phones) -> Iterator[Disagreement]:
    protected = phones.ipsec != "off"
    if phones.ip_version != 4:
        yield "phones.ip_version", "is 6, but a lab speaks IPv4 only"
    if target.lab.variant == "host" and protected:
        yield (
            "phones.ipsec",
            "must be off: this lab has no IPsec (target.lab.variant is host; uml and hosts have it)",
        )
    elif target.lab.variant != "host" and not protected:
        yield (
            "phones.ipsec",
            f"is off, but a lab of variant {target.lab.variant} is there for IPsec",
        )
    in_clear = [name for name in target.lab.provoke if name != "second_challenge"]
    if in_clear and not protected:
        yield "target.lab.provoke", f"{', '.join(in_clear)}: there is no IPsec to do it wrong with"


def _simulator(
    name: str, title: str, target: Target, settings: Hss | Pcrf | None
) -> Iterator[Disagreement]:
    path = f"simulators.{name}"
    if settings is None or (isinstance(settings, Pcrf) and not settings.enabled):
        return
    if target.kind == "null":
        yield path, f"a null target asks no {title}"
    elif target.kind != "external" and settings.listen is not None:
        yield f"{path}.listen", f"is for external targets; this one finds its {title}"
    elif target.kind == "external" and settings.listen is None:
        yield f"{path}.listen", f"is needed: where the external target finds the {title}"


def _faults(faults: object, target: Target, simulators: Simulators) -> Iterator[Disagreement]:
    """Timed faults of what the run has not; steady ones stand where the simulator does."""
    ours = target.kind in ("embedded", "lab")
    played = {
        "hss": ours or simulators.hss is not None,
        "pcrf": simulators.pcrf.enabled if simulators.pcrf is not None else ours,
    }
    timed = faults if isinstance(faults, tuple) else ()
    known = [one if isinstance(one, TimedFault) else None for one in timed]
    yield from unplayed(known, target.kind, played)
    if target.kind == "null" and target.faults:
        yield "target.faults", "are for embedded targets: a null target answers at once"


def _phases(count: int, phases: Sequence[object]) -> Iterator[Disagreement]:
    standing = 0
    for index, phase in enumerate(phases):
        if not isinstance(phase, Phase):
            return
        path, wanted = _registered(index, phase)
        yield from _side_by_side(index, phase, wanted or standing)
        calls = phase.side_by_side[0] if phase.together else phase.calls
        if calls:
            yield from _calls(f"phases[{index}]", calls, count, max(wanted or 0, standing))
        if wanted is None:
            if not standing:
                yield path, "nobody is registered by then: a fill must come first"
            continue
        if wanted > count:
            yield path, f"is {wanted:,}, but there are {count:,} subscribers"
        if phase.fill and wanted <= standing:
            yield path, f"is {wanted:,}, but {standing:,} are registered by then"
        elif wanted < standing:
            yield path, f"is {wanted:,}, but {standing:,} are registered by then and stay so"
        standing = max(standing, wanted)


def _registered(index: int, phase: Phase) -> tuple[str, int | None]:
    path = f"phases[{index}].{phase.name}"
    if phase.fill:
        return f"{path}.to", phase.fill.to
    if phase.together:
        calls, beside = phase.side_by_side
        return path, calls.registered or beside.registered
    return f"{path}.registered", phase.registered


def _side_by_side(index: int, phase: Phase, registered: int) -> Iterator[Disagreement]:
    if not phase.together:
        return
    path = f"phases[{index}].together"
    calls, beside = phase.side_by_side
    wanted = {part.registered for part in (calls, beside)} - {None}
    if len(wanted) > 1:
        yield path, f"its parts want {calls.registered:,} and {beside.registered:,} registered"
    if isinstance(beside, Hold):
        name, length_s = "hold", beside.duration
    else:
        name = type(beside).__name__.lower()
        length_s = registered * beside.passes / mean_of(beside.rate[0])
    if length_s > calls.duration:
        yield path, f"its {name} takes {length_s:,.6g} s, its calls only {calls.duration:,.6g} s"


def _calls(path: str, calls: Calls, count: int, registered: int) -> Iterator[Disagreement]:
    if calls.unregistered and registered >= count:
        yield f"{path}.calls.unregistered", f"all {count:,} subscribers are registered by then"


def _too_few_phones(phases: Sequence[object], generator: Generator) -> Iterator[Disagreement]:
    """Calls that would find no idle pair of phones, where the rest of the phases is sound."""
    standing = 0
    for index, phase in enumerate(phases):
        if not isinstance(phase, Phase):
            return
        standing = max(standing, _registered(index, phase)[1] or 0)
        if phase.fill or not standing:
            continue
        path = f"phases[{index}].{phase.name}" + (".rate" if phase.calls else "")
        steps = steps_of(phase, 0, standing, generator.arrivals)
        reasons = [lacking_phones(s, generator.workers) for s in steps if s.calls is not None]
        yield from ((path, why) for why in dict.fromkeys(reasons) if why)


def _storms(phases: Sequence[object], target: Target) -> Iterator[Disagreement]:
    for index, phase in enumerate(phases):
        storm = phase.storm if isinstance(phase, Phase) else None
        if storm is not None and storm.core == "lost" and target.kind != "embedded":
            yield (
                f"phases[{index}].storm.core",
                f"is lost, but only an embedded target can be told to forget; this one is {target.kind}",
            )
