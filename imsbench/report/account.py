"""What stands behind the numbers: the generator, the HSS simulator, and whether counts add up."""

from __future__ import annotations

from collections.abc import Iterator

from imsbench.histogram import Histogram
from imsbench.kpi.statistics import enough
from imsbench.kpi.verdict import STALL_S, STANDSTILL_S
from imsbench.report.form import (
    DASH,
    cell,
    spell_rate,
    spell_share,
    spell_time,
    strike,
    table,
)
from imsbench.report.ladder import one_phone, side_by_side
from imsbench.report.parts import Failure, SimulatorResult
from imsbench.report.result import RunResult, StepResult
from imsbench.report.tables import Lines, invalid, name_of, pairs

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


def generator(result: RunResult) -> Lines:
    """The generator's view of itself, step by step, and why it cannot vouch for one."""
    shown = pairs(result)
    yield "## Generator health"
    yield ""
    for headers, cells in ((_TIMING, _timing), (_LOAD, _load)):
        if shown:
            rows = [
                [name_of(step), *cells(done)]
                if done.valid
                else strike([name_of(step), *cells(done)])
                for step, done in shown
            ]
            yield from table(headers, rows, "l".ljust(len(headers), "r"))
            yield ""
    reasons = [*invalid(shown), *(f"* The whole run: {reason}" for reason in result.reasons)]
    if reasons:
        yield "The generator cannot vouch for:"
        yield ""
        yield from reasons
        yield ""
    yield from _repairs(result)
    yield from _HEALTH_DEFINITIONS
    yield (
        "- **Valid**: from due and from start differ by at most 1 ms or 5 % at the mean, p50, p90, p95 "
        f"and p99; lateness and loop lag at most {spell_time(STALL_S)} or 5 % of the p99 from start, at "
        f"p99; CPU below {spell_share(result.profile.generator.cpu_limit)} of a core; every arrival "
        f"made; nothing lost in the generator; no simulator ever still for more than "
        f"{spell_time(STANDSTILL_S)}."
    )


_TIMING = ("During", "Valid", "Made (/s)", "Late p50", "p99", "max", "Lag p99", "CPU")
_LOAD = (
    "During", "Dropped", "Phone time", "p99", "of calls", "p99", "ESP packets", "ESP drops", "Stall",
)  # fmt: skip
_HEALTH_DEFINITIONS = (
    "- **Made**: initial registrations started per second, from the first to the last of them; in a "
    "step with calls, calls.",
    "- **Late**: from the instant at which an attempt was due to the phone's first act for it, all "
    "procedures.",
    "- **Lag**: how late the workers' loops woke for their timers, probed every 20 ms.",
    "- **CPU**: CPU time of the busiest worker, user and system, per wall time; 100% is one core.",
    "- **Dropped**: arrivals of the plan that found no phone to use, or no pair of phones to call each "
    "other: all were busy.",
    "- **Phone time** (mean, p99): from a response read to the request it led to, AKA and security "
    "associations included, per registration: the generator's own share. Of calls: of the calling "
    "phone, all messages of a call together.",
    "- **ESP packets**: packets that the phones' end of ESP sent and received.",
    "- **ESP drops**: packets it did not carry, whoever is to blame: no or unknown SA, bad ICV, "
    "replayed, full queues, in clear to a protected port.",
    "- **Stall**: longest stretch in which the process of a simulator, HSS or PCRF, stood still; from "
    "10 ms on.",
)


def _timing(done: StepResult) -> list[str]:
    lag = Histogram()
    for worker in done.health:
        lag.merge(worker.loop_lag)
    late = done.kpis.lateness
    calls = done.kpis.sessions
    made = done.kpis.procedures["registration"].rate if not calls.attempted else calls.rate
    return [
        "yes" if done.valid else "no",
        spell_rate(made),
        spell_time(late.quantile(0.5)),
        spell_time(_p99(late)),
        spell_time(late.maximum),
        spell_time(_p99(lag)),
        spell_share(max((worker.cpu_share for worker in done.health), default=None)),
    ]


def _load(done: StepResult) -> list[str]:
    phone = done.kpis.histogram("registration_phone_time")
    counters = done.counters
    carried = counters.get("esp packets_in", 0) + counters.get("esp packets_out", 0)
    dropped = sum(count for name, count in counters.items() if _is_esp_drop(name))
    esp = any(name.startswith("esp ") for name in counters)
    stall_s = max(done.hss_stall_s, done.pcrf_stall_s)
    return [
        f"{sum(one.dropped + one.without_pair for one in done.health):,}" if done.health else DASH,
        spell_time(phone.mean),
        spell_time(done.kpis.quantile("registration_phone_time", 0.99)),
        spell_time(done.kpis.histogram("session_phone_time").mean),
        spell_time(done.kpis.quantile("session_phone_time", 0.99)),
        f"{carried:,}" if esp else DASH,
        f"{dropped:,}" if esp else DASH,
        spell_time(stall_s) if stall_s else DASH,
    ]


def _p99(histogram: Histogram) -> float | None:
    return histogram.quantile(0.99) if enough(0.99, histogram.count) else None


ESP_DROPS = (
    "no_sa_out", "unknown_spi", "wrong_address", "wrong_port", "bad_icv", "replayed", "truncated",
    "bad_padding", "sequence_exhausted", "tun_write_failed", "raw_send_failed",
    "tun_queue_dropped", "raw_queue_dropped", "clear_in",
)  # fmt: skip
"""Counters of a backend that are packets not carried, whoever is to blame."""


def _is_esp_drop(counter: str) -> bool:
    """Whether a worker's counter is one of them, or one that only the kernel has (Xfrm…)."""
    room, _, name = counter.partition(" ")
    return room == "esp" and (name in ESP_DROPS or name.startswith("Xfrm"))


def _repairs(result: RunResult) -> Lines:
    for step, done in pairs(result):
        if repair := done.repair:
            yield (
                f"- Before “{name_of(step)}” {repair.registered_before:,} phones were registered; a "
                f"repair outside the statistics made it {repair.registered_after:,} in "
                f"{spell_time(repair.elapsed_s)}"
                + (f" and {repair.rounds} rounds." if repair.rounds > 1 else ".")
            )


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
        rows.append([*row, spell_time(time.mean), spell_time(_p99(time)), spell_time(time.maximum)])
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
            f"{spell_time(_p99(lag))} at p99, by {spell_time(lag.maximum)} at most. Response "
            "times cannot show it: what stands still has not read the request."
        )


def response_times(result: SimulatorResult) -> Histogram:
    """A simulator's response time over all commands."""
    merged = Histogram()
    for command in result.commands.values():
        merged.merge(command.response_time)
    return merged
