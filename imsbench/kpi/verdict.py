"""Whether the generator can vouch for a step: judged from plain numbers, each reason one sentence.

The distributions from due and from the start must agree at the mean and at p99 (else the generator
was the queue); lateness and loop lag are limited by themselves, because a stalled worker also reads
its responses late, which no difference shows; workers and their hosts must have CPU and memory
left, and clocks that do not jump; nothing may be lost, and few TCP segments sent again; every planned arrival
must be made; the simulators must answer as fast as they were told to and never stand still. The
limits are the profile's (``generator.limits``). A quantile is judged only where the samples are
enough to state it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from imsbench.histogram import Histogram
from imsbench.kpi.kpis import StepKpis
from imsbench.kpi.limits import Limits, WorkerView
from imsbench.kpi.statistics import Ratio, enough

MARGIN_SHARE = 0.05
"""Difference that is always allowed, as a share of the smaller time."""
INCOMPLETE = "The step did not run to its end."
"""The reason against a step that was cut short."""

_NAMES = {
    "registration": "registrations",
    "reregistration": "re-registrations",
    "deregistration": "de-registrations",
    "subscription": "subscriptions",
    "subscription_refresh": "subscription refreshes",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """valid unless there is a reason against."""

    reasons: tuple[str, ...] = ()
    """Why the numbers may not be published, one sentence each."""

    @property
    def valid(self) -> bool:
        """Whether the generator vouches for the numbers."""
        return not self.reasons


def judge_step(
    kpis: StepKpis,
    *,
    limits: Limits,
    workers: Sequence[WorkerView],
    planned: int,
    planned_calls: int = 0,
    lost: Mapping[str, int],
    resent: Ratio | None = None,
    complete: bool = True,
) -> Verdict:
    """The verdict on one step.

    planned: initial registrations of the plan; planned_calls: its call attempts that are evaluated,
    so those due after its warm-up; lost: what was lost inside the generator, by name; resent: TCP
    segments that the workers sent again, of all they sent; complete: whether the step ran to its end.
    """
    reasons: list[str] = []
    if not complete:
        reasons.append(INCOMPLETE)
    made = kpis.procedures["registration"].attempted
    if complete and made < planned:
        reasons.append(f"Only {made:,} of {planned:,} planned arrivals were made.")
    called = kpis.sessions.attempted
    if complete and called < planned_calls:
        reasons.append(f"Only {called:,} of {planned_calls:,} planned calls were made.")
    reasons += _late(kpis, limits)
    reasons += _stalled(kpis, workers, limits)
    for number, worker in enumerate(workers):
        reasons += _worker(number, worker, limits)
    reasons += _hosts(workers, limits)
    names = ", ".join(f"{name}: {count:,}" for name, count in sorted(lost.items()) if count)
    if names:
        reasons.append(f"The generator lost something ({names}).")
    if resent is not None:
        reasons += _resent(resent, limits)
    return Verdict(tuple(reasons))


def judge_response_time(
    name: str, configured_s: float, achieved_s: float | None, limits: Limits
) -> Verdict:
    """The verdict on a simulator: its mean response time against the configured mean, seconds."""
    allowed_s = max(limits.simulator_mean, MARGIN_SHARE * configured_s)
    if achieved_s is None or achieved_s - configured_s <= allowed_s:
        return Verdict()
    return Verdict(
        (
            f"The {name} simulator answered in {achieved_s * 1e3:.3g} ms on average; "
            f"{configured_s * 1e3:.3g} ms were configured.",
        )
    )


def judge_slowest_responses(
    name: str, command: str, configured_s: float, achieved_s: float | None, limits: Limits
) -> Verdict:
    """The verdict on one command of a simulator: its p99 response time against the configured one's."""
    allowed_s = limits.simulator_p99
    if achieved_s is None or achieved_s - configured_s <= allowed_s:
        return Verdict()
    return Verdict(
        (
            f"The p99 of the {name} simulator's response time to {command} is {achieved_s * 1e3:.3g} ms; "
            f"{configured_s * 1e3:.3g} ms are configured, and {allowed_s * 1e3:.3g} ms more are allowed.",
        )
    )


def judge_stall(name: str, longest_s: float, limits: Limits) -> Verdict:
    """The verdict on a step in which a simulator's loop stood still for this long at most, seconds.

    Its response times do not tell: a process that stands still has not read the request either.
    """
    if longest_s <= limits.simulator_stall:
        return Verdict()
    return Verdict(
        (
            f"The {name} simulator stood still for {longest_s * 1e3:,.0f} ms; the limit is "
            f"{limits.simulator_stall * 1e3:,.0f} ms.",
        )
    )


def _worker(number: int, worker: WorkerView, limits: Limits) -> Iterator[str]:
    """What one worker's process lacked."""
    if worker.cpu_share >= limits.worker_cpu:
        yield (
            f"Worker {number} used {worker.cpu_share:.0%} of a core; the limit is {limits.worker_cpu:.0%}."
        )
    longest_s = worker.gc_pauses.maximum
    if longest_s > limits.gc_pause:  # NaN without any
        yield (
            f"Worker {number} stood still for {longest_s * 1e3:,.0f} ms to collect garbage; the limit is "
            f"{limits.gc_pause * 1e3:,.0f} ms."
        )


def _hosts(workers: Sequence[WorkerView], limits: Limits) -> Iterator[str]:
    """What the workers' hosts lacked: the worst of what each worker saw."""
    said = (
        ([w.host_cpu_share for w in workers], limits.host_cpu,
         "The generator's host was busy {} of its processors' time; the limit is {}."),
        ([w.steal_share for w in workers], limits.steal,
         "The hypervisor took {} of its processors' time from the generator's host; the limit is {}."),
        ([w.memory_share for w in workers], limits.memory,
         "{} of the memory of the generator's host was in use; the limit is {}."),
    )  # fmt: skip
    for shares, limit, sentence in said:
        worst = max((share for share in shares if share is not None), default=0.0)
        if worst > limit:
            yield sentence.format(_percent(worst), _percent(limit))
    jump_s = max((worker.clock_jump_s for worker in workers), default=0.0)
    if jump_s > limits.clock_jump:
        yield (
            f"The wall clock of the generator's host jumped by {jump_s * 1e3:,.0f} ms against the "
            f"monotonic one; the limit is {limits.clock_jump * 1e3:,.0f} ms."
        )


def _resent(segments: Ratio, limits: Limits) -> Iterator[str]:
    """TCP segments sent again, if surely too many: one of a few is no share."""
    interval = segments.interval
    if interval is not None and interval[0] > limits.resent:
        yield (
            f"{segments.part:,} of {segments.whole:,} TCP segments of the workers had to be sent again; "
            f"the limit is {_percent(limits.resent)}."
        )


def _late(kpis: StepKpis, limits: Limits) -> list[str]:
    compared = [
        (_NAMES[name], part.histogram("time_from_due"), part.histogram("time_from_start"))
        for name, part in kpis.procedures.items()
    ]
    calls = kpis.sessions
    from_due, from_start = calls.histogram("setup_from_due"), calls.histogram("setup_from_start")
    compared.append(("call set-ups", from_due, from_start))
    reasons = []
    for name, from_due, from_start in compared:
        if not from_due.count:
            continue
        pairs = [("mean", from_due.mean, from_start.mean)]
        if enough(0.99, from_due.count):
            pairs.append(("p99", from_due.quantile(0.99), from_start.quantile(0.99)))
        what, due_s, start_s = max(
            pairs, key=lambda pair: pair[1] - pair[2] - _margin(pair[2], limits)
        )
        if due_s - start_s > _margin(start_s, limits):
            reasons.append(
                f"The {what} of {name} is {due_s * 1e3:.3g} ms from due and "
                f"{start_s * 1e3:.3g} ms from their start: the generator was the queue."
            )
    return reasons


def _stalled(kpis: StepKpis, workers: Sequence[WorkerView], limits: Limits) -> list[str]:
    """Lateness and loop lag by themselves: late arrivals and late reads alike."""
    reasons = []
    lag = Histogram()
    for worker in workers:
        lag.merge(worker.loop_lag)
    times = [part.histogram("time_from_start") for part in kpis.procedures.values()]
    times.append(kpis.sessions.histogram("setup_from_start"))
    slowest_s = max((one.quantile(0.99) for one in times if enough(0.99, one.count)), default=0.0)
    limit_s = max(limits.lateness, MARGIN_SHARE * slowest_s)
    for name, histogram in (("lateness", kpis.lateness), ("loop lag", lag)):
        if not enough(0.99, histogram.count):
            continue
        p99_s = histogram.quantile(0.99)
        if p99_s > limit_s:
            reasons.append(
                f"The p99 of the {name} is {p99_s * 1e3:.3g} ms; the limit is {limit_s * 1e3:.3g} ms."
            )
    return reasons


def _margin(duration_s: float, limits: Limits) -> float:
    return max(limits.due, MARGIN_SHARE * duration_s)


def _percent(share: float) -> str:
    return f"{share * 100:.3g}%"
