"""The tables in the form of a publication: what was measured, rounded, without the generator's own view.

One page for one result, and only for one that may be published (``objections``). A p99 from fewer than
``ENOUGH`` samples is a dash.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from imsbench.kpi.kpis import ProcedureKpis, StepKpis
from imsbench.kpi.sessions import SessionKpis
from imsbench.report import calls, setup, system, usage
from imsbench.report.form import (
    DASH,
    cell,
    spell_cores,
    spell_level,
    spell_rate,
    spell_share,
    spell_time,
    table,
)
from imsbench.report.objections import ENOUGH
from imsbench.report.result import RunResult, StepResult
from imsbench.report.tables import Lines, asked, define, marked, pairs, refresh_rows, same_machine


def publish(result: RunResult) -> str:
    """The page, in Markdown; the caller has asked for objections."""
    sections = (
        _head, _registrations, _reregistrations, _calls, system.memory, system.limits, system.host,
        setup.setup,
    )  # fmt: skip
    blocks = ("\n".join(section(result)).rstrip() for section in sections)
    return "\n\n".join(block for block in blocks if block) + "\n"


def _head(result: RunResult) -> Lines:
    yield f"# Measured capacity of {cell(result.profile.target.title)}"
    yield ""
    yield (
        f"Run `{result.id}` of imsbench {result.version}. A p99 is shown from {ENOUGH:,} samples on; a dash "
        "is undefined, not measured, or from too few samples."
    )
    if told := same_machine(result):
        yield ""
        yield told


def _registrations(result: RunResult) -> Lines:
    shown = [
        (step, done)
        for step, done in pairs(result)
        if step.registrations or done.kpis.procedures["registration"].attempted
    ]
    if not shown:
        return
    yield "## Registrations"
    yield ""
    yield from define("registration_time", "initial_registration_success_rate")
    yield ""
    yield f"### {result.profile.subscribers.count:,} Subscribers"
    yield ""
    headers = (
        "Load", "Rate (/s)", "Initial registration success rate", "Mean", "p99", "CPU (cores)",
    )  # fmt: skip
    rows = [
        [
            marked(step.title, done), asked(step),
            *_rated(done.kpis, "initial_registration_success_rate", "registration_time"),
            DASH if step.kind == "fill" else _cpu(result, done),
        ]
        for step, done in shown
    ]  # fmt: skip
    yield from table(headers, rows, "lrlrrr")
    yield ""
    yield _counts("Registrations", (done.kpis.procedures["registration"] for _, done in shown))


def _reregistrations(result: RunResult) -> Lines:
    made = refresh_rows(result)
    if not made:
        return
    yield "## Re-registrations"
    yield ""
    yield from define("reregistration_time", "reregistration_success_rate")
    yield ""
    rows, parts = [], []
    for row in made:
        kpis, span_s = row.merged()
        part = kpis.procedures["reregistration"]
        parts.append(part)
        rate = spell_rate(part.attempted / span_s) if span_s > 0 else DASH
        rated = _rated(kpis, "reregistration_success_rate", "reregistration_time")
        rows.append([f"{row.pairs[0][0].registered:,}", row.during, rate, *rated])
    headers = ("Subscribers", "During", "Rate (/s)", "Re-registration success rate", "Mean", "p99")
    yield from table(headers, rows, "rlrlrr")
    yield ""
    yield _counts("Re-registrations", parts)


def _calls(result: RunResult) -> Lines:
    shown = calls.with_calls(result)
    if not shown:
        return
    yield "## Calls"
    yield ""
    yield from define(
        "session_setup_time", "session_establishment_success_rate", "call_drop_rate",
        "calls_in_progress",
    )  # fmt: skip
    headers = (
        "Rate (/s)", "Calls per hour", "Session establishment success rate", "Call drop rate",
        "Session setup time, mean", "p99", "Calls in progress", "CPU (cores)", "Resident memory",
    )  # fmt: skip
    for (registered, made), members in groupby(shown, key=lambda p: (p[0].registered, p[0].calls)):
        assert made is not None
        rows = [
            [
                marked(spell_rate(step.rate), done), f"{step.rate * 3600:,.0f}",
                spell_share(done.kpis.ratio("session_establishment_success_rate").value),
                spell_share(done.kpis.ratio("call_drop_rate").value),
                *_times(done.kpis, "session_setup_time"),
                spell_level(done.kpis.level("calls_in_progress").mean),
                _cpu(result, done), usage.memory(result, done),
            ]
            for step, done in members
        ]  # fmt: skip
        yield ""
        yield f"### {registered:,} Subscribers"
        yield ""
        yield calls.scenario(made, result.profile)
        yield ""
        yield from table(headers, rows, "rrllrrrrr")
    yield ""
    yield _counts("Calls", (done.kpis.sessions for _, done in shown))


def _rated(kpis: StepKpis, ratio: str, time: str) -> list[str]:
    """Success rate, mean, p99."""
    return [spell_share(kpis.ratio(ratio).value), *_times(kpis, time)]


def _times(kpis: StepKpis, key: str) -> list[str]:
    """Mean and p99, the latter from enough samples only."""
    histogram = kpis.histogram(key)
    p99_s = histogram.quantile(0.99) if histogram.count >= ENOUGH else None
    return [spell_time(histogram.mean), spell_time(p99_s)]


def _cpu(result: RunResult, done: StepResult) -> str:
    used = usage.usage_of(result, done)
    return DASH if used is None or used.cpu_cores is None else spell_cores(used.cpu_cores)


def _counts(what: str, parts: Iterable[ProcedureKpis | SessionKpis]) -> str:
    listed = ", ".join(f"{part.attempted:,}" for part in parts)
    return f"- {what} attempted, row by row: {listed}."
