"""Thresholds that end a run early: looked at once a second, over what a step has measured so far."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from imsbench.kpi.kpis import StepKpis
from imsbench.kpi.thresholds import parse_threshold
from imsbench.profile import Profile, Step
from imsbench.profile.conditions import Condition


class Aborted(Exception):
    """A threshold with ``abort`` is broken; the text names it."""


def watched(profile: Profile, step: Step) -> list[Condition]:
    """The thresholds that may end a run within this step."""
    return [one for one in profile.thresholds if one.abort and one.applies(step)]


def check(
    profile: Profile, step: Step, ticks: Iterable[dict[str, Any]], evaluated_s: float
) -> None:
    """Aborted if a threshold is broken after ``evaluated_s`` seconds of a step's evaluated time.

    ticks: each worker's last one; without the KPIs of one of them (it is done, or not yet in the step)
    nothing is judged.
    """
    conditions = [one for one in watched(profile, step) if evaluated_s >= one.after]
    told = list(ticks)
    if not conditions or not told or any(tick.get("kpis_of") != step.index for tick in told):
        return
    so_far = StepKpis()
    for tick in told:
        so_far.merge(StepKpis.from_json(tick["kpis"]))
    for condition in conditions:
        threshold = parse_threshold(condition.that)
        if threshold.evaluate(so_far) == "broken":
            raise Aborted(
                f"the threshold “{condition.title}” was broken after {evaluated_s:,.0f} s of step "
                f"{step.index + 1}"
            )
