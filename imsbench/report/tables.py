"""The KPI tables of the published form, each with its definitions under it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from imsbench.kpi.definitions import DEFINITIONS
from imsbench.kpi.kpis import StepKpis
from imsbench.outcome import Procedure
from imsbench.profile import Step
from imsbench.report import usage
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

STRUCK = "Struck through: the generator cannot vouch for it; “Generator health” says why."
"""Under a table with rows that may not be used."""
INTERVALS = (
    "In parentheses: 95 % intervals, Wilson's for rates, by order statistics for p99; “…” where too "
    "few samples bound it. A p99 stands from 100 samples on. A dash is undefined, not zero."
)

EXIT = {
    0: "kept",
    1: "a threshold broken, or what the target did above",
    2: "usage or profile error",
    3: "the generator cannot vouch for the run",
    4: "the target died",
    5: "the host lacks something",
    70: "a defect of imsbench",
    130: "interrupted",
}
"""What an exit code means in a verdict."""


def pairs(result: RunResult) -> list[Pair]:
    """Each step that was begun, with what was asked of it."""
    steps = result.asked
    return [(steps[done.index], done) for done in result.steps]


def name_of(step: Step) -> str:
    """A step in words, unlike every other of its run."""
    if step.kind not in ("cycle", "calls"):
        return step.title
    return f"{step.title}, {step.speed or spell_rate(step.rate) + '/s'}"


def registrations(result: RunResult) -> Lines:
    """Initial registrations: a row for each fill and each cycle."""
    shown = [
        (step, done)
        for step, done in pairs(result)
        if step.registrations or done.kpis.procedures["registration"].attempted
    ]
    headers = (
        "Load", "Rate (/s)", "Initial registration success rate", "Mean", "p99", "p99 from due",
        "Count", "CPU (cores)",
    )  # fmt: skip
    rows = [
        [marked(step.title, done), asked(step) if step.calls is None else _beside(step),
         *_common(done.kpis, "initial_registration_success_rate", "registration_time"),
         DASH if step.kind == "fill" else usage.cpu(result, done)]
        for step, done in shown
    ]  # fmt: skip
    yield from _section("Registrations", headers, rows, shown, "lrlrrrrr")
    yield from define(
        "registration_time", "registration_time_from_due", "initial_registration_success_rate"
    )
    yield "- **Count**: initial registrations attempted; mean and p99 are of the successful ones."
    why = usage.why_missing(result)
    yield f"- **CPU (cores)**: {usage.CPU} Fills have a dash, as published. {why}".rstrip()
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
    """Refreshes: one row for a population's call steps together, one for each other step."""
    rows = refresh_rows(result)
    shown = [pair for row in rows for pair in row.pairs]
    headers = (
        "Subscribers", "During", "Rate (/s)", "Re-registration success rate", "Mean", "p99",
        "p99 from due", "Count",
    )  # fmt: skip
    yield from _section(
        "Re-registrations", headers, [row.cells() for row in rows], shown, "rlrlrrrr",
        valid=[row.valid for row in rows],
    )  # fmt: skip
    if not rows:
        yield "No registration came up for a refresh in any step."
        return
    yield _when_refreshed(result)
    yield ""
    yield from define("reregistration_time", "reregistration_success_rate")
    yield (
        "- **Rate**: refreshes per second of the steps, drains included, warm-ups not. Steps with calls "
        "are one row for each population: their distributions are merged."
    )


@dataclass(slots=True)
class RefreshRow:
    """Steps whose refreshes make one row."""

    pairs: list[Pair]

    @property
    def valid(self) -> bool:
        """Whether the generator vouches for all of them."""
        return all(done.valid for _, done in self.pairs)

    @property
    def during(self) -> str:
        """The steps in words."""
        first = self.pairs[0][0]
        if first.kind != "calls" or (first.beside is not None and first.beside.kind == "mix"):
            return name_of(first)
        return f"calls at {', '.join(spell_rate(step.rate) for step, _ in self.pairs)}/s"

    def merged(self) -> tuple[StepKpis, float]:
        """Their KPIs together, and how long they took without their warm-ups, seconds."""
        merged = StepKpis()
        span_s = 0.0
        for step, done in self.pairs:
            merged.merge(done.kpis)
            span_s += done.elapsed_s - step.warm_up_s
        return merged, span_s

    def cells(self) -> list[str]:
        """Its cells in the table."""
        merged, span_s = self.merged()
        attempted = merged.procedures["reregistration"].attempted
        rate = spell_rate(attempted / span_s) if span_s > 0 else DASH
        common = _common(merged, "reregistration_success_rate", "reregistration_time")
        return [f"{self.pairs[0][0].registered:,}", self.during, rate, *common]


def refresh_rows(result: RunResult) -> list[RefreshRow]:
    """The rows: one for a population's call steps together, one for each other step."""
    rows: list[RefreshRow] = []
    pooled: dict[int, RefreshRow] = {}
    for step, done in _with(result, "reregistration"):
        mixed = step.beside is not None and step.beside.kind == "mix"
        row = pooled.get(step.registered) if step.kind == "calls" and not mixed else None
        if row is not None:
            row.pairs.append((step, done))
            continue
        rows.append(RefreshRow([(step, done)]))
        if step.kind == "calls" and not mixed:
            pooled[step.registered] = rows[-1]
    return rows


def _when_refreshed(result: RunResult) -> str:
    """When a phone refreshes, by its specification and by the profile."""
    rule = (
        "Each phone refreshes 600 s before its registration expires, or at half of an expiry of up "
        "to 1,200 s (TS 24.229 §5.1.1.4.1 as cited by the published page)"
    )
    if result.profile.phones.refresh_phase == "uniform":
        return f"{rule}; the first time at an instant drawn evenly from that interval."
    return f"{rule}."


def deregistrations(result: RunResult) -> Lines:
    """De-registrations by the phones: a row for each step that had some."""
    shown = _with(result, "deregistration")
    headers = (
        "Load", "Rate (/s)", "De-registration success rate", "Mean", "p99", "p99 from due", "Count",
    )  # fmt: skip
    rows = [
        [marked(step.title, done), asked(step),
         *_common(done.kpis, "deregistration_success_rate", "deregistration_time")]
        for step, done in shown
    ]  # fmt: skip
    yield from _section("De-registrations", headers, rows, shown, "lrlrrrr")
    if not rows:
        yield "No phone de-registered in any step."
        return
    yield from define("deregistration_time", "deregistration_success_rate")


def subscriptions(result: RunResult) -> Lines:
    """Registration event subscriptions: the 200 and the first NOTIFY."""
    shown = _with(result, "subscription")
    headers = (
        "Load", "Rate (/s)", "Subscription success rate", "SUBSCRIBE → 200: mean", "p99",
        "SUBSCRIBE → NOTIFY: mean", "p99", "Count",
    )  # fmt: skip
    rows = [
        [
            marked(step.title, done), asked(step),
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
    yield from define("subscription_time", "notification_time", "subscription_success_rate")


def invalid(shown: Iterable[Pair]) -> Lines:
    """Why rows are struck through, one line each; a list of its own, hence its own bullet."""
    for step, done in shown:
        for reason in done.reasons:
            yield f"* ~~{name_of(step)}~~: {reason}"


def _with(result: RunResult, procedure: Procedure) -> list[Pair]:
    return [pair for pair in pairs(result) if pair[1].kpis.procedures[procedure].attempted]


def _common(kpis: StepKpis, ratio: str, time: str) -> list[str]:
    """Success rate, mean, p99, p99 from due, count."""
    return [
        spell_ratio(kpis.ratio(ratio)),
        spell_time(kpis.histogram(time).mean),
        spell_quantile(kpis, time, 0.99),
        spell_time(kpis.quantile(f"{time}_from_due", 0.99)),
        f"{kpis.ratio(ratio).whole:,}",
    ]


def marked(title: str, done: StepResult) -> str:
    """The load of a row, and what the target made of it."""
    said = [*done.findings, *(["not steady"] if done.unsteady else [])]
    return f"{title} ({'; '.join(said)})" if said else title


def asked(step: Step) -> str:
    """The rate, or its course in words."""
    if not step.rate:
        return DASH
    return step.speed.removesuffix("/s") if step.speed else spell_rate(step.rate)


def _beside(step: Step) -> str:
    """The rate of the registrations beside calls."""
    beside = step.beside
    if beside is None or beside.kind == "hold":
        return DASH
    rate = sum(offer.pace.rate for offer in beside.offers if offer.registrations)
    return spell_rate(beside.rate or rate)


def _section(
    title: str,
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    shown: Sequence[Pair],
    right: str,
    valid: Sequence[bool] | None = None,
) -> Lines:
    """A table of its own; ``valid``: of each row, where rows are not the steps that are shown."""
    yield f"## {title}"
    yield ""
    if not rows:
        return
    if valid is None:
        valid = [done.valid for _, done in shown]
    marked = [row if good else strike(row) for row, good in zip(rows, valid, strict=True)]
    yield from table(headers, marked, right)
    yield ""
    if any(not done.valid for _, done in shown):
        yield STRUCK
        yield ""


def define(*keys: str) -> Lines:
    """What each of these KPIs is, and after which clause, one line each."""
    for key in keys:
        definition = DEFINITIONS[key]
        clause = "" if definition.clause == "project definition" else f" ({definition.clause})"
        yield f"- **{definition.title}**: {definition.words}{clause}."


def same_machine(result: RunResult) -> str:
    """What a target on the generator's own machine means for its numbers; "" of any other."""
    if result.self_test:
        return "A self-test shares its machine with the target and is no capacity of anything."
    if result.profile.target.kind == "lab":
        return "The core shares its machine with the generator: on machines of its own it carries more."
    return ""
