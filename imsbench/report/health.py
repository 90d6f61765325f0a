"""The generator's view of itself, step by step, and why it cannot vouch for one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from imsbench.histogram import Histogram
from imsbench.kpi.statistics import Ratio, enough
from imsbench.profile.limits import Limits
from imsbench.report.form import (
    DASH,
    spell_rate,
    spell_share,
    spell_time,
    strike,
    table,
)
from imsbench.report.parts import WorkerHealth
from imsbench.report.result import RunResult, StepResult
from imsbench.report.tables import Lines, Pair, invalid, name_of, pairs

ESP_DROPS = (
    "no_sa_out", "unknown_spi", "wrong_address", "wrong_port", "bad_icv", "replayed", "truncated",
    "bad_padding", "sequence_exhausted", "tun_write_failed", "raw_send_failed",
    "tun_queue_dropped", "raw_queue_dropped", "clear_in",
)  # fmt: skip
"""Counters of a backend that are packets not carried, whoever is to blame."""

SOCKET_DROPS = ("ListenDrops", "RcvbufErrors", "SndbufErrors")
"""The kernel's counts of what sockets of the workers lost; ListenOverflows are among ListenDrops."""


def generator(result: RunResult) -> Lines:
    """The section."""
    shown = pairs(result)
    yield "## Generator health"
    yield ""
    if shown:
        for headers, cells in ((_TIMING, _timing), (_LOAD, _load), (_HOST, _host)):
            yield from _table(shown, headers, cells)
    reasons = [*invalid(shown), *(f"* The whole run: {reason}" for reason in result.reasons)]
    if reasons:
        yield "The generator cannot vouch for:"
        yield ""
        yield from reasons
        yield ""
    yield from _repairs(shown)
    yield from _DEFINITIONS
    yield f"- **Valid**: {spell_limits(result.profile.generator.limits)}."
    yield (
        "- **Not steady**: a step whose two halves differ by more than 10 %, and by more than chance, in a "
        "mean time, the target's CPU or the calls in progress; fills and changing rates are not judged."
    )
    if wider := result.profile.generator.limits.wider:
        yield f"- The profile's limits are wider than the usual ones: {', '.join(wider)}."


def segments_resent(counters: Mapping[str, int]) -> Ratio:
    """TCP segments that workers sent again, of all they sent; connection requests are not among them."""
    resent = counters.get("net RetransSegs", 0) - counters.get("net TCPSynRetrans", 0)
    sent = max(0, counters.get("net OutSegs", 0))
    return Ratio(min(max(resent, 0), sent), sent)


def spell_limits(limits: Limits) -> str:
    """The rules of a valid step, in words."""
    return (
        f"from due and from start differ by at most {spell_time(limits.due)} or 5 % at the mean and p99; "
        f"lateness and loop lag at most {spell_time(limits.lateness)} or 5 % of the p99 from start, at "
        f"p99; CPU below {spell_share(limits.worker_cpu)} of a core; of the host at most "
        f"{spell_share(limits.host_cpu)} of its processors busy, {spell_share(limits.steal)} stolen, "
        f"{spell_share(limits.memory)} of its memory in use, its clock jumping by "
        f"{spell_time(limits.clock_jump)}; no garbage collection above {spell_time(limits.gc_pause)}; "
        f"every arrival made; nothing lost in the generator, at most {spell_share(limits.resent)} of TCP "
        "segments sent again; simulators slower than configured by at most "
        f"{spell_time(limits.simulator_mean)} or 5 % at the mean and {spell_time(limits.simulator_p99)} at "
        f"a command's p99, and never still for more than {spell_time(limits.simulator_stall)}"
    )


_TIMING = ("During", "Valid", "Made (/s)", "Late p50", "p99", "max", "Lag p99", "Lag max", "CPU")
_LOAD = (
    "During", "Dropped", "Phone time", "p99", "of calls", "p99", "ESP packets", "ESP drops", "Stall",
)  # fmt: skip
_HOST = (
    "During", "Host CPU", "Steal", "Memory", "GC max", "Clock jump", "Sent again", "Socket drops",
)  # fmt: skip
_DEFINITIONS = (
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
    "- **Host CPU, Steal, Memory**: of the generator's host: its processors' time that was not idle, what "
    "the hypervisor took of it, and the memory in use at the step's end.",
    "- **GC max**: longest garbage collection of a worker. **Clock jump**: largest change of the wall "
    "clock against the monotonic one from one second to the next.",
    "- **Sent again**: the workers' TCP segments that were sent more than once, connection requests "
    "aside. **Socket drops**: connections and datagrams that the workers' sockets had no room for "
    "(ListenDrops, RcvbufErrors, SndbufErrors of their network namespaces).",
)


def _table(
    shown: Sequence[Pair], headers: Sequence[str], cells: Callable[[StepResult], list[str]]
) -> Iterator[str]:
    rows = [[name_of(step), *cells(done)] for step, done in shown]
    marked = [
        row if done.valid else strike(row) for row, (_, done) in zip(rows, shown, strict=True)
    ]
    yield from table(headers, marked, "l".ljust(len(headers), "r"))
    yield ""


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
        spell_time(p99(late)),
        spell_time(late.maximum),
        spell_time(p99(lag)),
        spell_time(lag.maximum),
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


def _host(done: StepResult) -> list[str]:
    """The worst of what the workers saw of their hosts; what is not read is a dash."""
    pauses = [worker.gc_pauses.maximum for worker in done.health if worker.gc_pauses.count]
    drops = [
        done.counters[key] for key in map("net {}".format, SOCKET_DROPS) if key in done.counters
    ]
    counted = "net OutSegs" in done.counters
    return [
        spell_share(_worst(done, lambda worker: worker.host_cpu_share)),
        spell_share(_worst(done, lambda worker: worker.steal_share)),
        spell_share(_worst(done, lambda worker: worker.memory_share)),
        spell_time(max(pauses, default=None)),
        spell_time(_worst(done, lambda worker: worker.clock_jump_s)),
        spell_share(segments_resent(done.counters).value) if counted else DASH,
        f"{sum(drops):,}" if counted else DASH,
    ]


def _worst(done: StepResult, of: Callable[[WorkerHealth], float | None]) -> float | None:
    told = [value for value in map(of, done.health) if value is not None]
    return max(told, default=None)


def p99(histogram: Histogram) -> float | None:
    """The p99 in seconds; None from too few samples."""
    return histogram.quantile(0.99) if enough(0.99, histogram.count) else None


def _is_esp_drop(counter: str) -> bool:
    """Whether a worker's counter is one of them, or one that only the kernel has (Xfrm…)."""
    room, _, name = counter.partition(" ")
    return room == "esp" and (name in ESP_DROPS or name.startswith("Xfrm"))


def _repairs(shown: Sequence[Pair]) -> Lines:
    for step, done in shown:
        if repair := done.repair:
            yield (
                f"- Before “{name_of(step)}” {repair.registered_before:,} phones were registered; a "
                f"repair outside the statistics made it {repair.registered_after:,} in "
                f"{spell_time(repair.elapsed_s)}"
                + (f" and {repair.rounds} rounds." if repair.rounds > 1 else ".")
            )
