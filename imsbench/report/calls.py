"""The tables of calls: the published one, and the other metrics, each with its definitions under it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from imsbench.kpi.kpis import StepKpis
from imsbench.profile import Calls, Distribution, Profile, Step, spell_duration
from imsbench.report import usage
from imsbench.report.form import (
    DASH,
    cell,
    spell_level,
    spell_quantile,
    spell_rate,
    spell_ratio,
    spell_time,
    strike,
    table,
)
from imsbench.report.result import RunResult, StepResult
from imsbench.report.tables import (
    INTERVALS,
    STRUCK,
    Lines,
    Pair,
    define,
    marked,
    name_of,
    pairs,
)

WARM_UP_BEYOND_HOLD_S = 128.0
"""What a warm-up lasts beyond the longest hold, to publish: no transaction of before is left."""


def with_calls(result: RunResult) -> list[Pair]:
    """The steps that have calls."""
    return [pair for pair in pairs(result) if pair[0].calls is not None]


def calls(result: RunResult) -> Lines:
    """The published table: one for each population, a row for each rate."""
    shown = with_calls(result)
    yield "## Calls"
    yield ""
    if not shown:
        yield "No calls in any step."
        return
    for _, members in groupby(shown, key=_population):
        yield from _population_table(result, list(members))
    if any(not done.valid for _, done in shown):
        yield STRUCK
        yield ""
    yield from define(
        "session_setup_time", "session_setup_time_from_due", "session_establishment_success_rate",
        "session_answer_rate", "call_drop_rate", "calls_in_progress",
    )  # fmt: skip
    yield "- **Count**: call attempts evaluated; set-up times are of the established ones."
    yield f"- **CPU (cores)**: {usage.CPU} {usage.why_missing(result)}".rstrip()
    yield f"- **Resident memory**: {usage.MEMORY}"
    yield f"- {INTERVALS}"


def others(result: RunResult) -> Lines:
    """RFC 6076's metrics, and what else both ends of a call show."""
    shown = with_calls(result)
    if not shown:
        return
    yield "## Calls, RFC 6076"
    yield ""
    headers = (
        "Load", "SRD, mean", "SRD, p99", "SRD failed, mean", "SDD, mean", "SDD, p99", "SDT, mean",
        "SER", "SEER", "ISA", "SCR",
    )  # fmt: skip
    yield from _struck(headers, [_rfc6076(*pair) for pair in shown], shown, "lrrrrrrllll")
    yield from define(
        "session_request_delay", "failed_session_request_delay", "session_disconnect_delay",
        "session_duration_time", "session_establishment_ratio",
        "session_establishment_effectiveness_ratio", "ineffective_session_attempts",
        "session_completion_ratio",
    )  # fmt: skip
    yield ""
    yield "## Calls, both ends"
    yield ""
    more = (
        "Load", "Network success rate (SENSR)", "Calls as planned", "First response, mean",
        "First response, p99", "Routing time, mean", "Routing time, p99", "Answer time, mean",
        "Answered at once, mean", "Answered at once, max",
    )  # fmt: skip
    yield from _struck(more, [_both_ends(*pair) for pair in shown], shown, "lllrrrrrrr")
    yield from define(
        "session_establishment_network_success_rate", "calls_as_planned",
        "session_first_response_time", "session_routing_time", "session_answer_time",
        "simultaneous_sessions",
    )  # fmt: skip
    yield from _counts(shown)


def scenario(made: Calls, profile: Profile) -> str:
    """What a call of this step is, in a sentence."""
    said = "Voice calls with preconditions (IR.92 §2.4.1)"
    if not made.preconditions:
        said = "Voice calls without preconditions"
    parts = [said, _ringing(made), f"held {_spell(made.hold)}"]
    if made.hold_resume:
        parts.append("each put on hold and resumed once")
    if made.session_expires:
        parts.append(f"refreshed every {made.session_expires / 2:g} s (RFC 4028)")
    shares = (
        (made.bye_by_callee, "of the answered ended by the called phone"),
        (made.busy, "busy (486)"),
        (made.rejected, "rejected (603)"),
        (made.cancelled, f"cancelled after {spell_duration(made.cancel_after)} of ringing"),
        (made.unregistered, "to phones that are not registered"),
    )
    parts += [f"{share * 100:g}% {what}" for share, what in shares if share]
    return f"{', '.join(parts)}; {_bearer(profile)}."


def _ringing(made: Calls) -> str:
    if not made.ringing:
        return "answered without a 180"
    sent = " (sent reliably)" if made.reliable_ringing else ""
    if not made.ring.mean:
        return f"answered at once{' after a 180' + sent if sent else ''}"
    return f"answered after ringing{sent} {_spell(made.ring)}"


def _bearer(profile: Profile) -> str:
    pcrf = profile.simulators.pcrf
    if profile.target.kind == "null" or (pcrf is not None and not pcrf.enabled):
        return "no PCRF is asked"
    if pcrf is not None and pcrf.bearer_setup.mean:
        return f"bearer set-up {_spell(pcrf.bearer_setup)}"
    return "without bearer set-up"


def _spell(duration: Distribution) -> str:
    mean = duration.mean
    said = f"{mean:g} s" if 1 <= mean < 600 else spell_duration(mean)  # "90 s", as published
    return said if duration.kind == "constant" else f"{said} on average ({duration.kind})"


def _population(pair: Pair) -> tuple[int, Calls, str]:
    step = pair[0]
    assert step.calls is not None
    return step.registered, step.calls, _beside(step)


def _beside(step: Step) -> str:
    """What runs beside the calls, for their heading."""
    if step.beside is None or step.beside.kind == "hold":
        return ""
    if step.beside.kind == "mix":
        return ", other procedures beside them"
    if step.beside.reattach == 1:
        return f", re-attaching from another address at {spell_rate(step.beside.rate)}/s meanwhile"
    return f", de-registering and registering again at {spell_rate(step.beside.rate)}/s meanwhile"


def _population_table(result: RunResult, members: list[Pair]) -> Lines:
    step = members[0][0]
    assert step.calls is not None
    yield f"### {step.registered:,} subscribers{_beside(step)}"
    yield ""
    evaluated = spell_duration(step.calls.duration)
    yield (
        f"{scenario(step.calls, result.profile)} Evaluated for {evaluated} a row, after "
        f"{spell_duration(step.warm_up_s)} of the same load{_too_short(step)}."
    )
    yield ""
    headers = (
        "Rate (/s)", "Calls per hour", "Session establishment success rate", "Answer rate",
        "Call drop rate", "Session setup time, mean", "p99", "p99 from due", "Calls in progress",
        "Count", "CPU (cores)", "Resident memory",
    )  # fmt: skip
    rows = [_published(result, *pair) for pair in members]
    yield from _struck(headers, rows, members, "rrlllrrrrrrr")


def publishable_warm_up_s(made: Calls) -> float:
    """How long a warm-up must be so that its step may be published, seconds."""
    return made.hold.longest + WARM_UP_BEYOND_HOLD_S


def _too_short(step: Step) -> str:
    assert step.calls is not None
    wanted_s = publishable_warm_up_s(step.calls)
    return "" if step.warm_up_s >= wanted_s else f" (to publish: {spell_duration(wanted_s)})"


def _published(result: RunResult, step: Step, done: StepResult) -> list[str]:
    kpis = done.kpis
    return [
        marked(spell_rate(step.rate), done),
        f"{step.rate * 3600:,.0f}",
        spell_ratio(kpis.ratio("session_establishment_success_rate")),
        spell_ratio(kpis.ratio("session_answer_rate")),
        spell_ratio(kpis.ratio("call_drop_rate")),
        *_mean_and_p99(kpis, "session_setup_time"),
        spell_time(kpis.quantile("session_setup_time_from_due", 0.99)),
        spell_level(kpis.level("calls_in_progress").mean),
        f"{kpis.sessions.attempted:,}",
        usage.cpu(result, done),
        usage.memory(result, done),
    ]


def _rfc6076(step: Step, done: StepResult) -> list[str]:
    kpis = done.kpis
    return [
        name_of(step),
        *_mean_and_p99(kpis, "session_request_delay"),
        spell_time(kpis.histogram("failed_session_request_delay").mean),
        *_mean_and_p99(kpis, "session_disconnect_delay"),
        spell_time(kpis.histogram("session_duration_time").mean),
        spell_ratio(kpis.ratio("session_establishment_ratio")),
        spell_ratio(kpis.ratio("session_establishment_effectiveness_ratio")),
        spell_ratio(kpis.ratio("ineffective_session_attempts")),
        spell_ratio(kpis.ratio("session_completion_ratio")),
    ]


def _both_ends(step: Step, done: StepResult) -> list[str]:
    kpis = done.kpis
    answered = kpis.level("simultaneous_sessions")
    return [
        name_of(step),
        spell_ratio(kpis.ratio("session_establishment_network_success_rate")),
        spell_ratio(kpis.ratio("calls_as_planned")),
        *_mean_and_p99(kpis, "session_first_response_time"),
        *_mean_and_p99(kpis, "session_routing_time"),
        spell_time(kpis.histogram("session_answer_time").mean),
        spell_level(answered.mean),
        f"{answered.maximum:,}" if answered.observed_s else DASH,
    ]


def _mean_and_p99(kpis: StepKpis, key: str) -> list[str]:
    return [spell_time(kpis.histogram(key).mean), spell_quantile(kpis, key, 0.99)]


def _struck(
    headers: Sequence[str], rows: Sequence[Sequence[str]], shown: Sequence[Pair], right: str
) -> Lines:
    rows = [row if done.valid else strike(row) for row, (_, done) in zip(rows, shown, strict=True)]
    yield from table(headers, rows, right)
    yield ""


def _counts(shown: Sequence[Pair]) -> Lines:
    """Final responses, and what the specifications let happen in a call: repetitions, crossings, forks."""
    for step, done in shown:
        sessions = done.kpis.sessions
        responses = "; ".join(
            f"{status or 'none'}: {count:,}" for status, count in sorted(sessions.statuses.items())
        )
        events = "; ".join(
            f"{cell(name.replace('_', ' '))}: {count:,}"
            for name, count in sorted(sessions.events.items())
        )
        also = f" Counted in them: {events}." if events else ""
        yield f"- Final responses to the INVITEs of “{name_of(step)}”: {responses or DASH}.{also}"
