"""Storms and mixes: how a population came back, and what each subscriber did in an hour."""

from __future__ import annotations

from collections.abc import Sequence

from imsbench.kpi.recovery import Recovery
from imsbench.profile import Step, spell_duration
from imsbench.report.form import DASH, spell_time, strike, table
from imsbench.report.result import RunResult, StepResult
from imsbench.report.tables import Lines, Pair, name_of, pairs

CURVE = (0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
"""Shares of the population whose return is told."""
_NAMES = {"refresh": "Refreshes", "reattach": "Re-attaches", "power_cycle": "Power cycles"}
_HOUR_S = 3600.0


def storms(result: RunResult) -> Lines:
    """How long it took until everybody was registered again, and how it went; nothing without a storm."""
    shown = [(step, done) for step, done in pairs(result) if done.recovery is not None]
    if not shown:
        return
    yield "## Registration storms"
    yield ""
    headers = (
        "Load", "Phones", "Registered again", "Attempts", "Tried again",
        *(f"{share:.0%}" for share in CURVE), "All",
    )  # fmt: skip
    rows = [_storm(step, done) for step, done in shown]
    marked = [
        row if done.valid else strike(row) for row, (_, done) in zip(rows, shown, strict=True)
    ]
    yield from table(headers, marked, "l" + "r" * (len(headers) - 1))
    yield ""
    yield from _struck(shown)
    yield (
        f"- **{CURVE[0]:.0%} to All**: from the instant at which the first phone could come back until "
        "that share of the phones that were gone was registered; the whole curve is in result.json."
    )
    yield from (f"- **{name_of(step)}**: {how(step)}" for step, _ in shown)


def _struck(shown: Sequence[Pair]) -> Lines:
    if any(not done.valid for _, done in shown):
        yield "Struck through: the generator cannot vouch for it; “Generator health” says why."
        yield ""


def _storm(step: Step, done: StepResult) -> list[str]:
    recovery = done.recovery
    assert recovery is not None
    whole = recovery.lost + recovery.not_lost
    return [
        name_of(step),
        f"{whole:,}",
        f"{recovery.registered.count:,}",
        f"{done.kpis.procedures['registration'].attempted:,}",
        f"{recovery.retries:,}",
        *(spell_time(_when(recovery, share)) for share in CURVE),
        spell_time(recovery.all_registered_s),
    ]


def _when(recovery: Recovery, share: float) -> float | None:
    """When this share of those that were gone was registered, seconds; None if it never was."""
    whole, back = recovery.lost + recovery.not_lost, recovery.registered.count
    if not back or share * whole > back:
        return None
    return recovery.registered.quantile(share * whole / back)


def how(step: Step) -> str:
    """A storm in words."""
    storm = step.storm
    assert storm is not None
    target = "held all it had of them" if storm.core == "kept" else "forgot them all then"
    back = f"within {spell_duration(storm.within)}" if storm.within else "at one instant"
    if storm.back_off == "rfc5626":
        waits = (
            "a phone whose attempt failed waited for a time drawn evenly between half and all of "
            f"min({spell_duration(storm.max_time)}, {spell_duration(storm.base_time)} · 2^failures) (RFC "
            "5626 §4.5 as we understand it)"
        )
    else:
        waits = f"a phone whose attempt failed waited for {spell_duration(storm.retry)} each time"
    return (
        f"all phones lost their connections and security associations without a word, and the target "
        f"{target}; {spell_duration(storm.outage)} later they came back {back}; {waits}, longer after "
        f"a Retry-After; {spell_duration(storm.limit)} at most."
    )


def mixes(result: RunResult) -> Lines:
    """What was asked of each subscriber in an hour, and what was made; nothing without a mix."""
    shown = [(step, done) for step, done in pairs(result) if _mix_of(step) is not None]
    if not shown:
        return
    yield "## Attempts per subscriber and hour"
    yield ""
    rows: list[Sequence[str]] = []
    for step, done in shown:
        made = _calls(step, done) + _offers(step, done)
        rows += [row if done.valid else strike(row) for row in made]
    headers = ("Load", "Procedure", "Asked", "Made", "Attempts")
    yield from table(headers, rows, "llrrr")
    yield ""
    yield from _struck(shown)
    yield (
        "- **Asked, Made**: attempts per subscriber and hour, of the evaluated time. The figures of a "
        "profile that gives none of its own are this project's: round numbers, measured nowhere."
    )
    yield (
        "- **Answered, busy, unanswered**: calls by their final response: 2xx, 486, 487 after the "
        "caller's CANCEL. Which call ends how is drawn, so what was made of each varies with chance."
    )
    yield "- **Refreshes by expiry**: those that came due by themselves; no profile asks for them."


def _mix_of(step: Step) -> Step | None:
    """The part of a step that has the procedures beside its calls."""
    mix = step if step.kind == "mix" else step.beside
    return mix if mix is not None and mix.kind == "mix" else None


def _row(step: Step, name: str, rate: float | None, made: int) -> list[str]:
    """``rate``: asked for, attempts per second of all subscribers; None: none was."""
    hours = (step.duration_s - step.warm_up_s) / _HOUR_S * step.registered
    asked = DASH if rate is None else f"{rate * _HOUR_S / step.registered:,.3g}"
    return [name_of(step), name, asked, f"{made / hours:,.3g}", f"{made:,}"]


def _calls(step: Step, done: StepResult) -> list[list[str]]:
    calls = step.calls
    if calls is None:
        return []
    sessions = done.kpis.sessions
    answered = 1.0 - calls.busy - calls.cancelled
    parts = (
        ("Calls, answered", answered, sessions.answered),
        ("Calls, busy", calls.busy, sessions.statuses.get(486, 0)),
        ("Calls, unanswered", calls.cancelled, sessions.statuses.get(487, 0)),
    )
    rows = [_row(step, name, step.rate * share, made) for name, share, made in parts if share]
    return [*rows, _row(step, "Calls, all", step.rate, sessions.attempted)]


def _offers(step: Step, done: StepResult) -> list[list[str]]:
    mix = _mix_of(step)
    assert mix is not None
    rows = [
        _row(step, _NAMES[offer.procedure], offer.pace.rate, done.offered.get(offer.procedure, 0))
        for offer in mix.offers
    ]
    due = done.kpis.procedures["reregistration"].attempted - done.offered.get("refresh", 0)
    return [*rows, _row(step, "Refreshes by expiry", None, due)] if due > 0 else rows
