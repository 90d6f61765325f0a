"""Whether the generator can vouch for a step: judged from plain numbers, each reason one sentence.

First limits: the distributions from due and from the start differ by at most max(1 ms, 5 %) at the
mean and at p99 (else the generator was the queue); lateness and loop lag at p99 stay
below max(10 ms, 5 % of the p99 from the start), because a stalled worker also reads its responses
late, which no difference shows; every worker stays below its share of a core; nothing was dropped;
every planned arrival was made; the simulators answered as fast as they were told to and never stood
still. A quantile is judged only where the samples are enough to state it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from imsbench.histogram import Histogram
from imsbench.kpi.kpis import StepKpis
from imsbench.kpi.statistics import enough

MARGIN_S = 0.001
"""Difference that is always allowed, seconds."""
MARGIN_SHARE = 0.05
"""Difference that is allowed as a share of the smaller time."""
STALL_S = 0.010
"""Lateness and loop lag that are always allowed at p99, seconds."""
SLOW_S = 0.005
"""What a simulator's p99 response time may exceed the configured one by, seconds."""
STANDSTILL_S = 0.100
"""Longest stall of a simulator that is allowed, seconds: what one step of 10 s hides behind its p99."""

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
    planned: int,
    planned_calls: int = 0,
    cpu_shares: Sequence[float],
    cpu_limit: float,
    drops: Mapping[str, int],
    loop_lag: Histogram | None = None,
    complete: bool = True,
) -> Verdict:
    """The verdict on one step.

    planned: initial registrations of the plan; planned_calls: its call attempts that are evaluated,
    so those due after its warm-up; cpu_shares: each worker's CPU time per wall time;
    cpu_limit: share of a core a worker may use; drops: what was lost inside the generator, by
    name; loop_lag: of all workers, merged; complete: whether the step ran to its end.
    """
    reasons: list[str] = []
    if not complete:
        reasons.append("The step did not run to its end.")
    made = kpis.procedures["registration"].attempted
    if complete and made < planned:
        reasons.append(f"Only {made:,} of {planned:,} planned arrivals were made.")
    called = kpis.sessions.attempted
    if complete and called < planned_calls:
        reasons.append(f"Only {called:,} of {planned_calls:,} planned calls were made.")
    reasons += _late(kpis)
    reasons += _stalled(kpis, loop_lag)
    reasons += [
        f"Worker {worker} used {share:.0%} of a core; the limit is {cpu_limit:.0%}."
        for worker, share in enumerate(cpu_shares)
        if share >= cpu_limit
    ]
    lost = ", ".join(f"{name}: {count:,}" for name, count in sorted(drops.items()) if count)
    if lost:
        reasons.append(f"The generator lost something ({lost}).")
    return Verdict(tuple(reasons))


def judge_response_time(name: str, configured_s: float, achieved_s: float | None) -> Verdict:
    """The verdict on a simulator: its mean response time against the configured mean, seconds."""
    if achieved_s is None or achieved_s - configured_s <= _margin(configured_s):
        return Verdict()
    return Verdict(
        (
            f"The {name} simulator answered in {achieved_s * 1e3:.3g} ms on average; "
            f"{configured_s * 1e3:.3g} ms were configured.",
        )
    )


def judge_slowest_responses(name: str, configured_s: float, achieved_s: float | None) -> Verdict:
    """The verdict on a simulator's p99 response time against that of what was configured, seconds."""
    if achieved_s is None or achieved_s - configured_s <= SLOW_S:
        return Verdict()
    return Verdict(
        (
            f"The p99 of the {name} simulator's response time is {achieved_s * 1e3:.3g} ms; "
            f"{configured_s * 1e3:.3g} ms are configured, and {SLOW_S * 1e3:.3g} ms more are allowed.",
        )
    )


def judge_stall(name: str, longest_s: float) -> Verdict:
    """The verdict on a step in which a simulator's loop stood still for this long at most, seconds.

    Its response times do not tell: a process that stands still has not read the request either.
    """
    if longest_s <= STANDSTILL_S:
        return Verdict()
    return Verdict(
        (
            f"The {name} simulator stood still for {longest_s * 1e3:,.0f} ms; the limit is "
            f"{STANDSTILL_S * 1e3:.0f} ms.",
        )
    )


def _late(kpis: StepKpis) -> list[str]:
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
        worst = max(pairs, key=lambda pair: (pair[1] - pair[2]) / _margin(pair[2]))
        what, due_s, start_s = worst
        if due_s - start_s > _margin(start_s):
            reasons.append(
                f"The {what} of {name} is {due_s * 1e3:.3g} ms from due and "
                f"{start_s * 1e3:.3g} ms from their start: the generator was the queue."
            )
    return reasons


def _stalled(kpis: StepKpis, loop_lag: Histogram | None) -> list[str]:
    """Lateness and loop lag by themselves: late arrivals and late reads alike."""
    reasons = []
    times = [part.histogram("time_from_start") for part in kpis.procedures.values()]
    times.append(kpis.sessions.histogram("setup_from_start"))
    slowest_s = max((one.quantile(0.99) for one in times if one.count), default=0.0)
    limit_s = max(STALL_S, MARGIN_SHARE * slowest_s)
    for name, histogram in (("lateness", kpis.lateness), ("loop lag", loop_lag)):
        if histogram is None or not enough(0.99, histogram.count):
            continue
        p99_s = histogram.quantile(0.99)
        if p99_s > limit_s:
            reasons.append(
                f"The p99 of the {name} is {p99_s * 1e3:.3g} ms; the limit is {limit_s * 1e3:.3g} ms."
            )
    return reasons


def _margin(duration_s: float) -> float:
    return max(MARGIN_S, MARGIN_SHARE * duration_s)
