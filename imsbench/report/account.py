"""What stands behind the numbers: the generator, the HSS simulator, and whether counts add up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from imsbench.histogram import Histogram
from imsbench.kpi.kpis import ProcedureKpis, StepKpis
from imsbench.kpi.statistics import enough
from imsbench.kpi.verdict import STALL_S, STANDSTILL_S
from imsbench.report.form import (
    DASH,
    cell,
    plain,
    spell_rate,
    spell_share,
    spell_time,
    strike,
    table,
)
from imsbench.report.result import Failure, HssResult, RunResult, StepResult
from imsbench.report.tables import Lines, invalid, name_of, pairs

_NAMES = {
    "registration": "registration",
    "reregistration": "re-registration",
    "deregistration": "de-registration",
    "subscription": "subscription",
    "subscription_refresh": "subscription refresh",
}


def failures(result: RunResult) -> Lines:
    """Every failure by step, procedure, stage and cause, and the first ladder of each kind."""
    rows: list[list[str]] = []
    ladders: list[str] = []
    for step, done in pairs(result):
        known = {(f.procedure, f.stage, f.cause): f for f in done.failures}
        for procedure, part in done.kpis.procedures.items():
            for (stage, cause), count in sorted(part.failures.items()):
                first = known.get((procedure, stage, cause))
                detail = cell(first.detail) if first and first.detail else DASH
                row = [name_of(step), _NAMES[procedure], cell(stage), cell(cause), f"{count:,}"]
                rows.append([*row, detail])
                if first and first.ladder:
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


def _ladder(during: str, failure: Failure) -> Iterator[str]:
    yield ""
    yield (
        f"{_NAMES.get(failure.procedure, cell(failure.procedure))}, {cell(failure.stage)}: "
        f"{cell(failure.cause)} (phone {failure.phone:,}; {during})"
    )
    yield ""
    yield "```text"
    for line in failure.ladder:
        mark = "*" if line.protected else " "
        yield f"{line.at:10.4f} {line.direction}{mark} {plain(line.text)}"
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
        f"made; nothing lost in the generator; the HSS simulator never still for more than "
        f"{spell_time(STANDSTILL_S)}."
    )


_TIMING = ("During", "Valid", "Made (/s)", "Late p50", "p99", "max", "Lag p99", "CPU")
_LOAD = ("During", "Dropped", "Phone time", "p99", "ESP packets", "ESP drops", "HSS stall")
_HEALTH_DEFINITIONS = (
    "- **Made**: initial registrations started per second, from the first to the last of them.",
    "- **Late**: from the instant at which an attempt was due to the phone's first act for it, all "
    "procedures.",
    "- **Lag**: how late the workers' loops woke for their timers, probed every 20 ms.",
    "- **CPU**: CPU time of the busiest worker, user and system, per wall time; 100% is one core.",
    "- **Dropped**: arrivals of the plan that found no phone to use: all were busy.",
    "- **Phone time** (mean, p99): from a response read to the request it led to, AKA and security "
    "associations included, per registration: the generator's own share.",
    "- **ESP packets**: packets that the phones' end of ESP sent and received.",
    "- **ESP drops**: packets it did not carry, whoever is to blame: no or unknown SA, bad ICV, "
    "replayed, full queues, in clear to a protected port.",
    "- **HSS stall**: longest stretch in which the HSS simulator's process stood still; from 10 ms on.",
)


def _timing(done: StepResult) -> list[str]:
    lag = Histogram()
    for worker in done.health:
        lag.merge(worker.loop_lag)
    late = done.kpis.lateness
    return [
        "yes" if done.valid else "no",
        spell_rate(done.kpis.procedures["registration"].rate),
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
    return [
        f"{sum(worker.dropped for worker in done.health):,}" if done.health else DASH,
        spell_time(phone.mean),
        spell_time(done.kpis.quantile("registration_phone_time", 0.99)),
        f"{carried:,}" if esp else DASH,
        f"{dropped:,}" if esp else DASH,
        spell_time(done.hss_stall_s) if done.hss_stall_s else DASH,
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
    yield "## HSS simulator"
    yield ""
    if result.hss is None:
        yield "None, or it did not live to report."
        return
    configured = result.profile.simulators.hss
    mean_s = configured.response_time.mean if configured else 0.0
    headers = ("Command", "Count", "Results", "Configured mean", "Mean", "p99", "max")
    rows = []
    for name, command in sorted(result.hss.commands.items()):
        time = command.response_time
        said = ", ".join(f"{code}: {count:,}" for code, count in sorted(command.results.items()))
        row = [name, f"{command.count:,}", cell(said), spell_time(mean_s)]
        rows.append([*row, spell_time(time.mean), spell_time(_p99(time)), spell_time(time.maximum)])
    yield from table(headers, rows, "lrlrrrr")
    yield ""
    yield (
        "- **Response time**: from the last byte of the request read to the first byte of the answer "
        "written, injected delay included."
    )
    lags = {"the HSS": result.hss.loop_lag}
    if result.core is not None:
        lags["the core"] = result.core.loop_lag
    for name, lag in lags.items():
        if lag.count:
            yield (
                f"- **Loop lag of {name}**: a timer of its process every 20 ms was late by "
                f"{spell_time(_p99(lag))} at p99, by {spell_time(lag.maximum)} at most. Response "
                "times cannot show it: what stands still has not read the request."
            )


def hss_response_time(hss_result: HssResult) -> Histogram:
    """The response time over all commands."""
    merged = Histogram()
    for command in hss_result.commands.values():
        merged.merge(command.response_time)
    return merged


def expectations(result: RunResult) -> Lines:
    """Counts that must follow from others, next to what was counted."""
    rows: list[Sequence[str]] = []
    for step, done in pairs(result):
        if step.attempts:
            made = done.kpis.procedures["registration"].attempted
            # A fill also registers whom the target lost before.
            lost = step.registered_before - done.registered_before if step.kind == "fill" else 0
            expected = step.attempts + max(0, lost)
            rows.append(_compare(f"Arrivals of “{name_of(step)}”", expected, made))
    if result.hss is not None and result.profile.target.kind == "embedded":
        for command, expected in expected_cx(result).items():
            answered = result.hss.commands.get(command)
            rows.append(_compare(f"Cx {command}", expected, answered.count if answered else 0))
    phones = sum(worker.registered for worker in result.workers)
    if result.core is not None and result.workers and result.profile.target.kind == "embedded":
        rows.append(_compare("Registered in the end, at the core", phones, result.core.registered))
    if result.hss is not None and result.workers:
        rows.append(_compare("Registered in the end, at the HSS", phones, result.hss.registered))
    yield "## Expected against measured"
    yield ""
    yield from table(("What", "Expected", "Measured", "Result"), rows, "lrrl")
    yield ""
    yield (
        "- **Cx of the reference core**: a UAR for each REGISTER, a MAR for each challenge, a SAR for "
        "each registration and each de-registration that succeeded: 2 UAR, 1 MAR and 1 SAR for a "
        "registration with IMS-AKA, 1 UAR for a refresh, 1 UAR and 1 SAR for a de-registration."
    )
    yield "- **Registered in the end**: expected is what the phones hold."
    outside = sum(worker.counters.get("outside_any_step", 0) for worker in result.workers)
    if outside:
        yield f"- {outside:,} attempts fell outside every step and are in no table."


def _compare(what: str, expected: int, measured: int) -> list[str]:
    verdict = "adds up" if expected == measured else f"differs by {measured - expected:+,}"
    return [what, f"{expected:,}", f"{measured:,}", verdict]


def expected_cx(result: RunResult) -> dict[str, int]:
    """Cx transactions of the reference core that follow from the phones' counts, repairs included."""
    parts: list[StepKpis] = []
    for done in result.steps:
        parts.append(done.kpis)
        if done.repair is not None:
            parts.append(done.repair.kpis)
    expected = {"UAR": 0, "MAR": 0, "SAR": 0}
    for kpis in parts:
        registering: list[ProcedureKpis] = [
            part for name, part in kpis.procedures.items() if name != "subscription"
        ]
        challenges = sum(part.challenges for part in registering)
        expected["UAR"] += challenges + sum(part.attempted for part in registering)
        expected["MAR"] += challenges
        expected["SAR"] += kpis.procedures["registration"].succeeded
        expected["SAR"] += kpis.procedures["deregistration"].succeeded
    return expected
