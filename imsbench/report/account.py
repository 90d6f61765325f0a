"""What stands behind the numbers: the generator, the HSS simulator, and whether counts add up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from imsbench.histogram import Histogram
from imsbench.report.form import (
    DASH,
    cell,
    spell_time,
    table,
)
from imsbench.report.health import p99
from imsbench.report.ladder import one_phone, side_by_side
from imsbench.report.parts import CommandResult, Failure, SimulatorResult
from imsbench.report.result import RunResult, StepResult
from imsbench.report.tables import Lines, name_of, pairs

_NAMES = {
    "registration": "registration",
    "reregistration": "re-registration",
    "deregistration": "de-registration",
    "subscription": "subscription",
    "subscription_refresh": "subscription refresh",
    "call": "call",
}


def failures(result: RunResult) -> Lines:
    """Every failure by step, procedure, stage and cause, and the first ladder of each kind."""
    rows: list[list[str]] = []
    ladders: list[str] = []
    for step, done in pairs(result):
        known = {(f.procedure, f.stage, f.cause): f for f in done.failures}
        for procedure, (stage, cause), count in _counted(done):
            first = known.get((procedure, stage, cause))
            detail = cell(first.detail) if first and first.detail else DASH
            row = [name_of(step), _NAMES[procedure], cell(stage), cell(cause), f"{count:,}"]
            rows.append([*row, detail])
            if first and (first.ladder or first.callee_ladder):
                ladders += _ladder(name_of(step), first)
    yield "## Failures"
    yield ""
    if not rows:
        yield "None."
        return
    headers = ("During", "Procedure", "Stage", "Cause", "Count", "First: what the far end said")
    yield from table(headers, rows, "llllr")
    if ladders:
        yield ""
        yield "The first of each kind; times are seconds from the instant at which it was due,"
        yield "“*” marks what travelled inside a security association."
        yield from ladders


def _counted(done: StepResult) -> Iterator[tuple[str, tuple[str, str], int]]:
    """Procedure, (stage, cause) and count of every kind of failure in a step."""
    for procedure, part in done.kpis.procedures.items():
        for kind, count in sorted(part.failures.items()):
            yield procedure, kind, count
    for kind, count in sorted(done.kpis.sessions.failures.items()):
        yield "call", kind, count


def _ladder(during: str, failure: Failure) -> Iterator[str]:
    phones = f"phone {failure.phone:,}"
    if failure.callee is not None:
        phones = f"phone {failure.phone:,} calls phone {failure.callee:,}"
    yield ""
    yield (
        f"{_NAMES.get(failure.procedure, cell(failure.procedure))}, {cell(failure.stage)}: "
        f"{cell(failure.cause)} ({phones}; {during})"
    )
    yield ""
    yield "```text"
    if failure.callee is None:
        yield from one_phone(failure.ladder)
    else:
        yield from side_by_side(failure.ladder, failure.callee_ladder)
    yield "```"


def hss(result: RunResult) -> Lines:
    """The HSS simulator's response time: what was configured and what was achieved."""
    settings = result.profile.simulators.hss
    configured_s = settings.response_time.mean if settings else 0.0
    yield from _simulator("HSS", result.hss, configured_s)
    if result.hss is not None and result.core is not None:
        yield from _lag("the core", result.core.loop_lag)


def pcrf(result: RunResult) -> Lines:
    """The PCRF simulator's response time, its sessions, and what was wrong with its requests."""
    if result.pcrf is None and not any(step.calls for step, _ in pairs(result)):
        return
    settings = result.profile.simulators.pcrf
    configured_s = settings.response_time.mean if settings else 0.0
    yield from _simulator("PCRF", result.pcrf, configured_s)
    if result.pcrf is None:
        return
    yield (
        f"- **AF sessions of calls**: {result.pcrf.most_media_sessions:,} at most at once, "
        f"{result.pcrf.media_sessions:,} left in the end."
    )
    if wrong := result.pcrf.wrong:
        said = "; ".join(f"{cell(name)}: {count:,}" for name, count in sorted(wrong.items()))
        yield f"- **Wrong in requests**: {said}."


def _simulator(name: str, measured: SimulatorResult | None, configured_s: float) -> Lines:
    yield f"## {name} simulator"
    yield ""
    if measured is None:
        yield "None, or it did not live to report."
        return
    headers = ("Command", "Count", "Results", "Configured mean", "Mean", "p99", "max")
    rows = []
    for command, done in sorted(measured.commands.items()):
        time = done.response_time
        said = ", ".join(f"{code}: {count:,}" for code, count in sorted(done.results.items()))
        row = [command, f"{done.count:,}", cell(said), spell_time(configured_s)]
        rows.append([*row, spell_time(time.mean), spell_time(p99(time)), spell_time(time.maximum)])
    yield from table(headers, rows, "lrlrrrr")
    yield ""
    yield (
        "- **Response time**: from the last byte of the request read to the first byte of the answer "
        "written, injected delay included."
    )
    yield from _lag(f"the {name}", measured.loop_lag)


def _lag(name: str, lag: Histogram) -> Iterator[str]:
    if lag.count:
        yield (
            f"- **Loop lag of {name}**: a timer of its process every 20 ms was late by "
            f"{spell_time(p99(lag))} at p99, by {spell_time(lag.maximum)} at most. Response "
            "times cannot show it: what stands still has not read the request."
        )


def merged_times(commands: Mapping[str, CommandResult]) -> Histogram:
    """A simulator's response time over all commands."""
    merged = Histogram()
    for command in commands.values():
        merged.merge(command.response_time)
    return merged
