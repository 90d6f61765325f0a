"""The KPI tables of the published form, each with its definitions under it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from imsbench.kpi.definitions import DEFINITIONS
from imsbench.outcome import Procedure
from imsbench.profile import Step
from imsbench.report.form import (
    DASH,
    spell_quantile,
    spell_rate,
    spell_ratio,
    spell_time,
    strike,
    table,
)
from imsbench.report.result import RunResult, StepResult

Lines = Iterator[str]
Pair = tuple[Step, StepResult]

INTERVALS = (
    "In parentheses: 95 % intervals, Wilson's for rates, by order statistics for p99; “…” where too "
    "few samples bound it. A p99 stands from 100 samples on. A dash is undefined, not zero."
)


def pairs(result: RunResult) -> list[Pair]:
    """Each step that was begun, with what was asked of it."""
    steps = result.profile.steps()
    return [(steps[done.index], done) for done in result.steps]


def name_of(step: Step) -> str:
    """A step in words, unlike every other of its run."""
    return f"{step.title}, {spell_rate(step.rate)}/s" if step.kind == "cycle" else step.title


def registrations(result: RunResult) -> Lines:
    """Initial registrations: a row for each fill and each cycle."""
    shown = [
        (step, done)
        for step, done in pairs(result)
        if step.kind != "hold" or done.kpis.procedures["registration"].attempted
    ]
    headers = (
        "Load", "Rate (/s)", "Initial registration success rate", "Mean", "p99", "p99 from due",
        "Count", "CPU (cores)",
    )  # fmt: skip
    rows = [
        [_marked(step.title, done), _asked(step),
         *_common(done, "initial_registration_success_rate", "registration_time"), DASH]
        for step, done in shown
    ]  # fmt: skip
    yield from _section("Registrations", headers, rows, shown, "lrlrrrrr")
    yield from _define(
        "registration_time", "registration_time_from_due", "initial_registration_success_rate"
    )
    yield "- **Count**: initial registrations attempted; mean and p99 are of the successful ones."
    yield "- **CPU**: of the core under test; not measured in this run."
    yield f"- {INTERVALS}"
    ineffective = [
        f"{name_of(step)}: {spell_ratio(done.kpis.ratio('ineffective_registration_attempts'))}"
        for step, done in shown
        if done.kpis.ratio("ineffective_registration_attempts").part
    ]
    if ineffective:
        definition = DEFINITIONS["ineffective_registration_attempts"]
        yield (
            f"- **{definition.title}** ({definition.words}; {definition.clause}): "
            f"{'; '.join(ineffective)}."
        )
    resynchronised = sum(
        done.kpis.procedures["registration"].resynchronisations for _, done in shown
    )
    if resynchronised:
        yield f"- Resynchronisations (AUTS, TS 33.102 §6.3.5) within attempts: {resynchronised:,}."


def reregistrations(result: RunResult) -> Lines:
    """Refreshes: a row for each step in which some were due."""
    shown = _with(result, "reregistration")
    headers = (
        "Subscribers", "During", "Rate (/s)", "Re-registration success rate", "Mean", "p99",
        "p99 from due", "Count",
    )  # fmt: skip
    rows = [
        [f"{step.registered:,}", _marked(name_of(step), done), _per_second(done, "reregistration"),
         *_common(done, "reregistration_success_rate", "reregistration_time")]
        for step, done in shown
    ]  # fmt: skip
    yield from _section("Re-registrations", headers, rows, shown, "rlrlrrrr")
    if not rows:
        yield "No registration came up for a refresh in any step."
        return
    yield (
        "Each phone refreshes 600 s before its registration expires, or at half of an expiry of up "
        "to 1,200 s (TS 24.229 §5.1.1.4.1 as cited by the published page)."
    )
    yield ""
    yield from _define("reregistration_time", "reregistration_success_rate")
    yield "- **Rate**: refreshes per second of the step, drain included."


def deregistrations(result: RunResult) -> Lines:
    """De-registrations by the phones: a row for each step that had some."""
    shown = _with(result, "deregistration")
    headers = (
        "Load", "Rate (/s)", "De-registration success rate", "Mean", "p99", "p99 from due", "Count",
    )  # fmt: skip
    rows = [
        [_marked(step.title, done), _asked(step),
         *_common(done, "deregistration_success_rate", "deregistration_time")]
        for step, done in shown
    ]  # fmt: skip
    yield from _section("De-registrations", headers, rows, shown, "lrlrrrr")
    if not rows:
        yield "No phone de-registered in any step."
        return
    yield from _define("deregistration_time", "deregistration_success_rate")


def subscriptions(result: RunResult) -> Lines:
    """Registration event subscriptions: the 200 and the first NOTIFY."""
    shown = _with(result, "subscription")
    headers = (
        "Load", "Rate (/s)", "Subscription success rate", "SUBSCRIBE → 200: mean", "p99",
        "SUBSCRIBE → NOTIFY: mean", "p99", "Count",
    )  # fmt: skip
    rows = [
        [
            _marked(step.title, done), _asked(step),
            spell_ratio(done.kpis.ratio("subscription_success_rate")),
            spell_time(done.kpis.histogram("subscription_time").mean),
            spell_quantile(done.kpis, "subscription_time", 0.99),
            spell_time(done.kpis.histogram("notification_time").mean),
            spell_quantile(done.kpis, "notification_time", 0.99),
            f"{done.kpis.procedures['subscription'].attempted:,}",
        ]
        for step, done in shown
    ]  # fmt: skip
    yield from _section("Subscriptions", headers, rows, shown, "lrlrrrrr")
    if not rows:
        yield "No phone subscribed to its registration event package in any step."
        return
    yield from _define("subscription_time", "notification_time", "subscription_success_rate")


def invalid(shown: Iterable[Pair]) -> Lines:
    """Why rows are struck through, one line each; a list of its own, hence its own bullet."""
    for step, done in shown:
        for reason in done.reasons:
            yield f"* ~~{name_of(step)}~~: {reason}"


def _with(result: RunResult, procedure: Procedure) -> list[Pair]:
    return [pair for pair in pairs(result) if pair[1].kpis.procedures[procedure].attempted]


def _common(done: StepResult, ratio: str, time: str) -> list[str]:
    """Success rate, mean, p99, p99 from due, count."""
    kpis = done.kpis
    return [
        spell_ratio(kpis.ratio(ratio)),
        spell_time(kpis.histogram(time).mean),
        spell_quantile(kpis, time, 0.99),
        spell_time(kpis.quantile(f"{time}_from_due", 0.99)),
        f"{kpis.ratio(ratio).whole:,}",
    ]


def _marked(title: str, done: StepResult) -> str:
    """The load of a row, and what the target made of it."""
    return f"{title} ({'; '.join(done.findings)})" if done.findings else title


def _asked(step: Step) -> str:
    return spell_rate(step.rate) if step.rate else DASH


def _per_second(done: StepResult, procedure: Procedure) -> str:
    attempted = done.kpis.procedures[procedure].attempted
    return spell_rate(attempted / done.elapsed_s) if done.elapsed_s > 0 else DASH


def _section(
    title: str,
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    shown: Sequence[Pair],
    right: str,
) -> Lines:
    yield f"## {title}"
    yield ""
    if not rows:
        return
    marked = [
        row if done.valid else strike(row) for row, (_, done) in zip(rows, shown, strict=True)
    ]
    yield from table(headers, marked, right)
    yield ""
    if any(not done.valid for _, done in shown):
        yield "Struck through: the generator cannot vouch for it; “Generator health” says why."
        yield ""


def _define(*keys: str) -> Lines:
    for key in keys:
        definition = DEFINITIONS[key]
        clause = "" if definition.clause == "project definition" else f" ({definition.clause})"
        yield f"- **{definition.title}**: {definition.words}{clause}."
