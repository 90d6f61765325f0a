"""Why a result may not be published as a capacity."""

from __future__ import annotations

from collections.abc import Iterator

from imsbench.profile import Step, spell_duration
from imsbench.report.calls import publishable_warm_up_s
from imsbench.report.result import RunResult, StepResult
from imsbench.report.tables import name_of, pairs

ENOUGH = 1000
"""Attempts that a published row needs, and samples that a published p99 needs."""


def objections(result: RunResult) -> list[str]:
    """Everything that speaks against it, one sentence each; empty: it may be published."""
    return [*_of_the_run(result), *(why for pair in pairs(result) for why in _of_a_step(*pair))]


def _of_the_run(result: RunResult) -> Iterator[str]:
    if result.self_test:
        kind = result.profile.target.kind
        yield f"Its target is the {kind} one: no product, and on the generator's machine."
    if result.status != "complete":
        yield f"The run is not complete ({result.status}): {result.reason.rstrip('.')}."
    else:
        made = {done.index for done in result.steps if done.complete}
        for step in result.asked.values():
            if step.index not in made:
                yield f"{name_of(step)}: it is not there to its end, though the run is said to be complete."
    if not any(done.kpis.totals()["attempted"] for done in result.steps):
        yield "Nothing was measured in it."
    if result.plan:
        yield "It is a search for capacity: its steps are no table of a publication."
    yield from (*result.reasons, *result.findings)
    if wider := result.profile.generator.limits.wider:
        yield f"The generator was judged by wider limits than the usual ones: {', '.join(wider)}."
    if result.steady_faults or result.timed_faults:
        yield "Faults were injected on purpose."


def _of_a_step(step: Step, done: StepResult) -> Iterator[str]:
    name = name_of(step)
    for reason in (*done.reasons, *done.findings):
        yield f"{name}: {reason.rstrip('.')}."
    registrations = done.kpis.procedures["registration"].attempted
    if step.kind in ("fill", "cycle", "storm") and registrations < ENOUGH:
        yield f"{name}: {registrations:,} registrations are too few; a row needs {ENOUGH:,}."
    if step.calls is None:
        return
    if done.kpis.sessions.attempted < ENOUGH:
        yield f"{name}: {done.kpis.sessions.attempted:,} calls are too few; a row needs {ENOUGH:,}."
    wanted_s = publishable_warm_up_s(step.calls)
    if step.warm_up_s < wanted_s:
        yield (
            f"{name}: its warm-up of {spell_duration(step.warm_up_s)} is shortened; to publish it is "
            f"{spell_duration(wanted_s)}."
        )
