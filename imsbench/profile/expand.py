"""From the phases of a profile to the steps of its load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from imsbench.profile.loads import BusyHour, CallForm, Load, Storm
from imsbench.profile.phases import Calls, Cycle, Fill, Hold, Phase, Reattach
from imsbench.profile.rates import (
    Pace,
    Speed,
    pace_along,
    pace_of,
    pace_over,
    scaled,
    spell_speed,
)
from imsbench.profile.steps import OFFERED, Offer, Step
from imsbench.profile.units import spell_duration

Arrivals = Literal["constant", "poisson"]

_HOUR_S = 3600.0


def expand(phases: Sequence[Phase], arrivals: Arrivals) -> tuple[Step, ...]:
    """The steps of these phases, in order; a cycle with several rates is several steps."""
    steps: list[Step] = []
    standing = 0
    for phase in phases:
        for step in steps_of(phase, len(steps), standing, arrivals):
            steps.append(step)
            standing = step.registered
    return tuple(steps)


def steps_of(phase: Phase, index: int, standing: int, arrivals: Arrivals) -> list[Step]:
    """The steps of one phase, the first with this index, after phases that leave ``standing`` phones
    registered; ``arrivals``: of what says nothing itself."""
    if phase.fill:
        return [_fill(phase.fill, index, standing)]
    if phase.together:
        return [_together(phase, index, standing, arrivals)]
    registered = phase.registered or standing
    match getattr(phase, phase.name):
        case Hold() as hold:
            return [_hold(hold, index, registered)]
        case Reattach() as one:
            return [
                _cycle(one, speed, index + offset, registered, arrivals)
                for offset, speed in enumerate(one.rate)
            ]
        case Calls() as one:
            return [
                _calls(one, speed, index + offset, registered, arrivals)
                for offset, speed in enumerate(one.rate)
            ]
        case Storm() as one:
            return [_storm(one, index, registered, arrivals)]
        case BusyHour() as one:
            return [_busy_hour(one, index, registered, arrivals)]
        case Load() as one:
            return [_load(one, index, registered, arrivals)]
    raise AssertionError(f"no steps of {phase.name}")


def _step(
    kind: Literal["hold", "cycle", "calls", "storm", "mix"],
    pace: Pace,
    index: int,
    registered: int,
    arrivals: Arrivals,
    title: str,
) -> Step:
    return Step(
        index=index,
        kind=kind,
        rate=pace.rate,
        registered=registered,
        registered_before=registered,
        passes=1,
        duration_s=pace.duration_s,
        arrivals=arrivals,
        title=title,
        points=pace.points,
        burst=pace.burst,
    )


def _words(speed: Speed) -> str:
    return "" if isinstance(speed, float) else spell_speed(speed)


def _fill(fill: Fill, index: int, standing: int) -> Step:
    pace = pace_of(fill.rate, fill.to - standing)
    return Step(
        index=index,
        kind="fill",
        rate=pace.rate,
        registered=fill.to,
        registered_before=standing,
        passes=1,
        duration_s=pace.duration_s,
        arrivals=fill.arrivals,
        title=f"From {standing:,} to {fill.to:,} registered, in {spell_duration(pace.duration_s)}",
        points=pace.points,
        burst=pace.burst,
        speed=_words(fill.rate),
    )


def _hold(hold: Hold, index: int, registered: int) -> Step:
    title = f"{registered:,} registered, held {spell_duration(hold.duration)}"
    title += f", each {hold.refresh} refreshed once" if hold.refresh else ""
    step = _step("hold", Pace(0.0, 0, hold.duration), index, registered, "constant", title)
    return replace(step, refresh=hold.refresh)


def _cycle(cycle: Reattach, speed: Speed, index: int, registered: int, arrivals: Arrivals) -> Step:
    share = cycle.reattach if isinstance(cycle, Cycle) else 1.0
    title = f"{registered:,} registered"
    if share:
        part = "each" if share == 1 else f"{share:.4g} of them"
        title += f", {part} re-attached from another address"
    if cycle.passes > 1:
        title += f", {cycle.passes} passes"
    pace = pace_of(speed, registered * cycle.passes)
    step = _step("cycle", pace, index, registered, cycle.arrivals or arrivals, title)
    return replace(step, passes=cycle.passes, reattach=share, speed=_words(speed))


def _calls(calls: Calls, speed: Speed, index: int, registered: int, arrivals: Arrivals) -> Step:
    # At the end of the warm-up as many calls end as begin, or nearly so.
    warm_up_s = calls.hold.longest + 128.0 if calls.warm_up is None else calls.warm_up
    pace = pace_over(speed, calls.duration, warm_up_s)
    title = f"{registered:,} registered, calls"
    step = _step("calls", pace, index, registered, calls.arrivals or arrivals, title)
    return replace(step, warm_up_s=warm_up_s, calls=calls, speed=_words(speed))


def _together(phase: Phase, index: int, standing: int, arrivals: Arrivals) -> Step:
    calls, beside = phase.side_by_side
    registered = calls.registered or beside.registered or standing
    step = _calls(calls, calls.rate[0], index, registered, arrivals)
    if isinstance(beside, Hold):
        other, what = _hold(beside, index, registered), "held"
    else:
        other = _cycle(beside, beside.rate[0], index, registered, arrivals)
        verb = "re-attached" if other.reattach == 1 else "cycled"
        what = f"{verb} at {other.rate:,g}/s"
    return replace(step, title=f"{registered:,} registered and {what}, calls", beside=other)


def _storm(storm: Storm, index: int, registered: int, arrivals: Arrivals) -> Step:
    back = f"within {spell_duration(storm.within)}" if storm.within else "at once"
    core = "kept its state" if storm.core == "kept" else "lost its state"
    waits = "back-off" if storm.back_off == "rfc5626" else "no back-off"
    title = f"Storm: {registered:,} come back {back}, {waits}; the core {core}"
    rate = registered / storm.within if storm.within else 0.0
    pace = Pace(rate, registered, storm.outage + storm.within)
    step = _step("storm", pace, index, registered, storm.arrivals or arrivals, title)
    return replace(step, storm=storm)


def _busy_hour(hour: BusyHour, index: int, registered: int, arrivals: Arrivals) -> Step:
    def rate(per_hour: float) -> float:
        return per_hour * hour.scale * registered / _HOUR_S

    offers = {
        name: pace_over(rate(getattr(hour, name)), hour.duration)
        for name in OFFERED
        if getattr(hour, name)
    }
    called = hour.answered + hour.busy + hour.unanswered
    warm_up_s = hour.calls.hold.longest + 128.0 if hour.warm_up is None else hour.warm_up
    calls = None
    if called:
        pace = pace_over(rate(called), hour.duration, warm_up_s)
        made = _made(hour.calls, rate(called), hour.duration, warm_up_s)
        shares = {"busy": hour.busy / called, "cancelled": hour.unanswered / called}
        calls = made.model_copy(update=shares), pace, warm_up_s
    title = f"{registered:,} registered, busy hour"
    title += f" x {hour.scale:,g}" if hour.scale != 1 else ""
    return _mix(title, offers, calls, index, registered, hour.arrivals or arrivals)


def _load(load: Load, index: int, registered: int, arrivals: Arrivals) -> Step:
    curves = {name: scaled(curve, load.scale) for name, curve in load.rates.given.items()}
    calls = None
    curve = curves.pop("calls", None)
    if curve is not None:
        pace = pace_along(curve, load.warm_up)
        made = _made(load.calls, pace.rate, curve[-1][0], load.warm_up)
        shares = {"busy": load.busy, "cancelled": load.unanswered}
        calls = made.model_copy(update=shares), pace, load.warm_up
    offers = {name: pace_along(curve) for name, curve in curves.items()}
    title = f"{registered:,} registered, load of {load.csv or 'the profile'}"
    title += f" x {load.scale:,g}" if load.scale != 1 else ""
    return _mix(title, offers, calls, index, registered, load.arrivals or arrivals)


def _made(form: CallForm, rate: float, duration_s: float, warm_up_s: float) -> Calls:
    """Calls of a form, as a phase of their own would have them."""
    return Calls.model_construct(**dict(form), rate=(rate,), duration=duration_s, warm_up=warm_up_s)


def _mix(
    title: str,
    offers: dict[str, Pace],
    calls: tuple[Calls, Pace, float] | None,
    index: int,
    registered: int,
    arrivals: Arrivals,
) -> Step:
    """Calls with the other procedures beside them; without calls, those alone."""
    length_s = max((pace.duration_s for pace in offers.values()), default=0.0)
    mix = _step("mix", Pace(0.0, 0, length_s), index, registered, arrivals, title)
    mix = replace(mix, offers=tuple(Offer(OFFERED[name], pace) for name, pace in offers.items()))
    if calls is None:
        return mix
    made, pace, warm_up_s = calls
    step = _step("calls", pace, index, registered, arrivals, title)
    return replace(step, warm_up_s=warm_up_s, calls=made, beside=mix if offers else None)
