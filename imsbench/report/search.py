"""The answer of a search for capacity: the load, its interval, what broke, the curve."""

from __future__ import annotations

from collections.abc import Sequence

from imsbench.kpi.definitions import DEFINITIONS
from imsbench.kpi.statistics import exact
from imsbench.profile import spell_duration
from imsbench.report.form import (
    DASH,
    cell,
    spell_cores,
    spell_rate,
    spell_share,
    spell_time,
    strike,
    table,
)
from imsbench.report.result import RunResult
from imsbench.report.searched import CauseCount, HandledAttempts, SearchResult, TrialResult
from imsbench.report.tables import EXIT, Lines, define, same_machine

_WHAT = {
    "registration": "initial registrations",
    "call": "calls",
    "cycle": "de-registrations with a registration behind each",
    "mix": "calls and such cycles together",
}
_OUTCOME = {
    "found": "confirmed",
    "unconfirmed": "not confirmed",
    "none": "no load met the objective",
    "ceiling": "no limit found",
    "generator": "the generator is the limit",
    "no recovery": "the target did not recover",
    "too many steps": "not ended",
    "interrupted": "it ended early",
}
_EXIT = EXIT | {
    0: "found and confirmed",
    1: "not found, or not confirmed",
    3: "the generator is the limit, or does not vouch for the run",
}
_ROLE = {
    "search": "search",
    "below": "confirms, below",
    "above": "confirms, above",
    "overload": "overload",
    "relief": "relief",
}


def search(result: RunResult) -> Lines:
    """The section of a search; nothing for a run."""
    found = result.search
    if found is None:
        return
    yield "## Capacity"
    yield ""
    yield f"- **{answer(found)}**"
    yield f"- {cell(found.reason)}"
    yield from _broken(result, found)
    yield f"- At its limit: {found.resource}. {found.evidence}"
    yield from _beyond(found)
    yield from (f"- {cell(remark)}" for remark in found.remarks)
    if result.reason:
        yield f"- The run is not complete: {cell(result.reason).rstrip('.')}."
    vouched = sum(trial.vouched for trial in found.trials)
    yield f"- Generator: vouches for {vouched} of {len(found.trials)} steps."
    if told := same_machine(result):
        yield f"- {told}"
    yield f"- Exit code {result.exit_code}: {_EXIT.get(result.exit_code, 'unknown')}."
    yield ""
    yield from _curve(found)
    yield ""
    yield from _terms(found)
    yield ""
    yield f"Method: {found.method}"
    yield ""
    yield from (f"- {rule}" for rule in found.rules)


def answer(found: SearchResult) -> str:
    """The load and its interval, in one sentence."""
    what, how = _WHAT[found.procedure], _OUTCOME[found.outcome]
    if found.low is None:
        return f"Capacity: none found ({how}), {what} per second"
    if found.high is None:
        return f"Capacity: at least {_rate(found.low)}/s ({how}), {what} per second"
    interval = f"{_rate(found.low)} to {_rate(found.high)}"
    return (
        f"Capacity: {_rate(found.low)}/s (the limit lies in {interval}; {how}), {what} per second"
    )


def _broken(result: RunResult, found: SearchResult) -> Lines:
    if found.broke_step is None or not found.broke:
        return
    trial = next(one for one in found.trials if one.step == found.broke_step)
    parts = [
        part
        for part in trial.handled
        if part.attempted and (part.failed + part.late) / part.attempted > found.objective
    ]
    handled = "; ".join(f"{part.scenario}: {_inadequate(part, found)}" for part in parts)
    title = DEFINITIONS[found.broke].title
    yield (
        f"- First broken, at {_rate(trial.offered)}/s: **{title}** (`{found.broke}`). Inadequately "
        f"handled: {handled}."
    )
    if found.causes:
        yield f"- Causes there: {_causes(found.causes)}."


def _beyond(found: SearchResult) -> Lines:
    """The overload, and what came after it."""
    for trial in found.trials:
        if trial.role != "overload" or not trial.vouched:
            continue
        parts = [part for part in trial.handled if part.scenario in found.leading]
        times = "; ".join(_of_successful(part) for part in parts)
        yield (
            f"- Overload at {_rate(trial.offered)}/s: goodput {spell_rate(trial.succeeded)}/s. {times}."
        )
        if found.overload_causes:
            yield f"- Causes in the overload: {_causes(found.overload_causes)}."
    for trial in found.trials:
        if trial.role != "relief" or not trial.vouched:
            continue
        when = "never within the step" if found.relief_s is None else f"after {found.relief_s} s"
        yield f"- Straight after an overload, at {_rate(trial.offered)}/s, the objective held again {when}."


def _of_successful(part: HandledAttempts) -> str:
    succeeded = part.attempted - part.failed
    return (
        f"Of successful attempts ({part.scenario}, {succeeded:,} of {part.attempted:,}): mean "
        f"{spell_time(part.mean_s)}, p99 {spell_time(part.p99_s)}"
    )


def _causes(causes: Sequence[CauseCount]) -> str:
    return "; ".join(
        f"{one.procedure}, {cell(one.stage)}: {cell(one.cause)} ({one.count:,})" for one in causes
    )


def _curve(found: SearchResult) -> Lines:
    """A row for each step, by what was offered."""
    headers = (
        "Offered (/s)", "Step", "Why", "Success", "Inadequately handled", "Goodput (/s)", "Mean", "p99",
        "CPU (cores)", "Objective",
    )  # fmt: skip
    ordered = sorted(found.trials, key=lambda one: (one.offered, one.step))
    yield from table(headers, [_row(trial, found) for trial in ordered], "rrllrrrrrl")
    if any(not trial.vouched for trial in found.trials):
        yield ""
        yield "Struck through: the generator cannot vouch for it; it counts for nothing."


def _row(trial: TrialResult, found: SearchResult) -> list[str]:
    parts = [part for part in trial.handled if part.scenario in found.leading]
    worst = max(trial.handled, key=lambda part: (part.failed + part.late) / max(part.attempted, 1))
    row = [
        _rate(trial.offered), str(trial.step), _ROLE[trial.role], spell_share(trial.success),
        _inadequate(worst, found), spell_rate(trial.succeeded),
        " / ".join(spell_time(part.mean_s) for part in parts),
        " / ".join(spell_time(part.p99_s) for part in parts),
        DASH if trial.cpu_cores is None else spell_cores(trial.cpu_cores),
        "met" if trial.met else "missed",
    ]  # fmt: skip
    return row if trial.vouched else strike(row)


def _inadequate(part: HandledAttempts, found: SearchResult) -> str:
    """A share with its interval: "2.6% (1.2 to 4.9%)"."""
    count = part.failed + part.late
    interval = exact(count, part.attempted, found.confidence)
    if interval is None:
        return DASH
    low, high = map(spell_share, interval)
    return f"{spell_share(count / part.attempted)} ({low.removesuffix('%')} to {high})"


def _terms(found: SearchResult) -> Lines:
    limits = {part.scenario: part.limit_s for trial in found.trials for part in trial.handled}
    times = ", ".join(f"{name} {spell_time(limit_s)}" for name, limit_s in limits.items())
    yield (
        f"- **Objective**: at most {100 * found.objective:g}% of the attempts of each scenario are "
        "inadequately handled (IHSA, in the terms of ETSI TS 186 008): failed, or beyond a time"
        + (f" ({times}; the project's own values)." if times else ".")
    )
    yield (
        f"- **In parentheses**: {100 * found.confidence:g}% intervals (Clopper and Pearson). Whether a step "
        "meets the objective is judged by its count, not by the interval's upper bound."
    )
    leading = {"registration": "registration_time", "call": "session_setup_time"}
    yield from define(*(leading[name] for name in found.leading if name in leading))
    yield (
        "- **Goodput**: attempts handled adequately, per second. Times are of successful attempts. A step "
        f"begins with {spell_duration(found.transient_s)} that are not evaluated; phones that "
        f"stay registered all along: {found.registered:,}."
    )


def _rate(rate: float) -> str:
    return f"{rate:,.4g}"
