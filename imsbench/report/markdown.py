"""The report in Markdown, from the result alone: the same result gives the same bytes."""

from __future__ import annotations

from imsbench.kpi.definitions import DEFINITIONS
from imsbench.kpi.thresholds import Threshold, parse_threshold
from imsbench.profile import spell_duration
from imsbench.report import (
    account,
    calls,
    conduct,
    expected,
    failures,
    health,
    loads,
    search,
    setup,
    signature,
    system,
    tables,
    udp,
)
from imsbench.report.faults import injected
from imsbench.report.form import cell, plain, spell_level, spell_share, spell_time, table
from imsbench.report.result import RunResult, ThresholdResult
from imsbench.report.tables import Lines, name_of

_STATUS = {
    "complete": "The run is complete",
    "interrupted": "The run was interrupted",
    "aborted": "The run was ended by a threshold",
    "target_died": "The target died within the run",
    "generator_failed": "The generator failed within the run",
}
_STATE = {"kept": "kept", "broken": "**broken**", "undefined": "undefined"}


def render(result: RunResult) -> str:
    """The whole report."""
    sections = _SEARCH if result.search is not None else _RUN
    blocks = ("\n".join(section(result)).rstrip() for section in sections)
    return "\n\n".join(block for block in blocks if block) + "\n"


def title(result: RunResult) -> str:
    """What the numbers are of; a self-test says so."""
    match result.profile.target.kind:
        case "embedded":
            return "Self-test: reference core, not a product; shares this machine"
        case "null":
            return "Generator floor: null target, no core"
        case "lab":
            return f"Measured: {cell(result.profile.target.title)}; shares this machine"
        case "external":
            return f"Measured capacity of {cell(result.profile.target.title)}"


def _head(result: RunResult) -> Lines:
    lasted = spell_duration(round((result.ended - result.started).total_seconds()))
    yield f"# {title(result)}"
    yield ""
    if result.search is None:
        yield cell(result.profile.describe())
    else:
        yield f"A search for capacity: {cell(result.profile.describe_parties())}."
    yield ""
    yield f"Run `{result.id}`, {result.started:%Y-%m-%d %H:%M:%S} UTC, lasted {lasted}."


def _verdict(result: RunResult) -> Lines:
    yield "## Verdict"
    yield ""
    reason = f": {cell(result.reason).rstrip('.')}" if result.reason else ""
    yield f"- {_STATUS[result.status]}{reason}."
    ratios = [done.kpis.ratio("initial_registration_success_rate") for done in result.steps]
    succeeded, attempted = sum(r.part for r in ratios), sum(r.whole for r in ratios)
    yield f"- Initial registrations: {succeeded:,} of {attempted:,} succeeded."
    yield from _calls_verdict(result)
    if result.thresholds:
        kept = sum(threshold.state == "kept" for threshold in result.thresholds)
        names = [f"`{plain(t.title)}` {t.state}" for t in result.thresholds if t.state != "kept"]
        others = f": {'; '.join(names)}" if names else ""
        yield f"- Thresholds: {kept} of {len(result.thresholds)} kept{others}."
    valid = sum(step.valid for step in result.steps)
    whole = "" if not result.reasons else "; not for the run as a whole"
    why = "" if result.valid else "; see “Generator health”"
    yield f"- Generator: vouches for {valid} of {len(result.steps)} steps{whole}{why}."
    for step, done in tables.pairs(result):
        for finding in done.findings:
            yield f"- Target: “{name_of(step)}”: {finding}."
    for step, done in tables.pairs(result):
        if done.unsteady:
            yield f"- Not steady: “{name_of(step)}”: {'; '.join(done.unsteady)}."
    for finding in result.findings:
        yield f"- Target: {finding}"
    if result.limiter:
        yield f"- Limiter suspected: {result.limiter}"
    if told := tables.same_machine(result):
        yield f"- {told}"
    yield f"- Exit code {result.exit_code}: {tables.EXIT.get(result.exit_code, 'unknown')}."


def _calls_verdict(result: RunResult) -> Lines:
    parts = [done.kpis.sessions for done in result.steps]
    attempted = sum(part.attempted for part in parts)
    if attempted:
        established, dropped = (
            sum(part.established for part in parts), sum(part.dropped for part in parts),
        )  # fmt: skip
        planned = sum(part.planned for part in parts)
        yield (
            f"- Calls: {established:,} of {attempted:,} were established, {dropped:,} dropped; "
            f"{planned:,} ended as planned."
        )


def _thresholds(result: RunResult) -> Lines:
    yield "## Thresholds"
    yield ""
    if not result.thresholds:
        yield "The profile has none."
        return
    titles = {done.index: name_of(step) for step, done in tables.pairs(result)}
    rows = []
    for judged in result.thresholds:
        broken = "; ".join(titles.get(index, f"step {index}") for index in judged.broken_in)
        worst = _worst(parse_threshold(judged.text), judged)
        rows.append([f"`{plain(judged.title)}`", _STATE[judged.state], worst, broken])
    yield from table(("Threshold", "Result", "Worst step", "Broken in"), rows, "llr")
    yield ""
    yield (
        "A threshold must hold in every step that it is for and in which its number is defined; a p99 "
        "from 100 samples on."
    )


def _worst(threshold: Threshold, judged: ThresholdResult) -> str:
    """The value nearest to, or farthest beyond, the limit."""
    if not judged.steps:
        return "—"
    pick = max if threshold.sign.startswith("<") else min
    value = pick(judged.steps.values())
    if threshold.statistic == "count":
        return f"{value:,.0f}"
    match DEFINITIONS[threshold.key].kind:
        case "level":
            return spell_level(value)
        case "time":
            return spell_time(value)
        case "ratio":
            return spell_share(value)


_RUN = (
    _head, _verdict, tables.registrations, loads.storms, tables.reregistrations, calls.calls,
    calls.others, loads.mixes, udp.udp,
    system.memory, system.limits, system.host, tables.deregistrations, tables.subscriptions,
    failures.failures, injected, conduct.conduct, _thresholds, health.generator, account.hss,
    account.pcrf, expected.expectations, signature.signature, setup.setup,
)  # fmt: skip
_SEARCH = (
    _head, search.search, failures.failures, health.generator, account.hss, account.pcrf, setup.setup,
)  # fmt: skip
