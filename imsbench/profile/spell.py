"""The load in words, for the sentence that tells a whole profile."""

from __future__ import annotations

from collections.abc import Sequence

from imsbench.profile.steps import Step
from imsbench.profile.units import spell_duration

_PLURAL = {"refresh": "refreshes", "reattach": "re-attaches", "power_cycle": "power cycles"}


def spell_load(steps: Sequence[Step]) -> str:
    """All steps, phase by phase."""
    return "; ".join(_spell_phase(alike) for alike in _by_phase(steps))


def _by_phase(steps: Sequence[Step]) -> list[list[Step]]:
    """Steps in a row that differ by their rate only, together."""
    groups: list[list[Step]] = []
    for step in steps:
        last = groups[-1][-1] if groups else None
        if last is not None and _alike(last, step):
            groups[-1].append(step)
        else:
            groups.append([step])
    return groups


def _alike(one: Step, other: Step) -> bool:
    if one.kind != other.kind or one.kind not in ("cycle", "calls") or one.beside or other.beside:
        return False
    of_one, of_other = (one.registered, one.passes), (other.registered, other.passes)
    return of_one == of_other and one.title == other.title


def _spell_phase(steps: Sequence[Step]) -> str:
    first = steps[0]
    match first.kind:
        case "fill":
            return (
                f"from {first.registered_before:,} to {first.registered:,} registered "
                f"at {first.spelled_rate} in {spell_duration(first.duration_s)}"
            )
        case "hold":
            refreshed = f", each {first.refresh} refreshed once" if first.refresh else ""
            return f"{first.registered:,} held registered {spell_duration(first.duration_s)}{refreshed}"
        case "storm":
            return _spell_storm(first)
        case "trial":  # no phase makes one
            return first.title
        case "mix":
            return f"{_spell_offers(first)} {spell_duration(first.duration_s)} long"
        case "calls":
            return _spell_calls(steps)
        case "cycle":
            times = "" if first.passes == 1 else f" {first.passes} times"
            rates = [f"{step.spelled_rate} in {spell_duration(step.duration_s)}" for step in steps]
            at = listed(rates)
            if first.reattach == 1:
                return (
                    f"each of {first.registered:,} re-attached from another address{times} at {at}"
                )
            share = f", {first.reattach:.4g} of them re-attached instead," if first.reattach else ""
            return f"each of {first.registered:,} de-registered and registered again{share}{times} at {at}"


def _spell_calls(steps: Sequence[Step]) -> str:
    first = steps[0]
    calls = first.calls
    assert calls is not None
    each = " each" if steps[1:] else ""
    lasting = f"for {spell_duration(first.duration_s)}{each}"
    held = f"held {spell_duration(calls.hold.mean)}"
    beside = ""
    if first.beside is not None and first.beside.kind == "mix":
        beside = f", and beside them {_spell_offers(first.beside)}"
    elif first.beside is not None:
        beside = f", and beside them {_spell_phase([first.beside])}"
    at = listed([_spell_rate(step) for step in steps])
    return f"calls between {first.registered:,} registered at {at} {lasting}, {held}{beside}"


def _spell_rate(step: Step) -> str:
    """A rate that a profile over time has is told by its mean."""
    return f"{step.rate:,.4g}/s on average" if step.points and not step.speed else step.spelled_rate


def _spell_offers(step: Step) -> str:
    said = [
        f"{_PLURAL[offer.procedure]} at {offer.pace.rate:,.4g}/s"
        + (" on average" if offer.pace.points else "")
        for offer in step.offers
    ]
    return f"{listed(said)} of {step.registered:,} registered"


def _spell_storm(step: Step) -> str:
    storm = step.storm
    assert storm is not None
    back = f"within {spell_duration(storm.within)}" if storm.within else "at one instant"
    target = "has kept its state" if storm.core == "kept" else "has lost its state"
    if storm.back_off == "rfc5626":
        base, most = spell_duration(storm.base_time), spell_duration(storm.max_time)
        waits = f"backing off from {base} to at most {most}"
    else:
        waits = f"trying again {spell_duration(storm.retry)} after a failure"
    return (
        f"all {step.registered:,} lose their connections and come back {back} after "
        f"{spell_duration(storm.outage)}, {waits}, while the core {target}"
    )


def listed(texts: Sequence[str]) -> str:
    """Texts as a sentence lists them: "a, b and c"."""
    return ", ".join(texts[:-1]) + " and " + texts[-1] if texts[1:] else texts[0]
