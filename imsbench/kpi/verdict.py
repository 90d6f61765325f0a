"""Whether the generator can vouch for a step: judged from plain numbers, each reason one sentence.

First limits: the p99 from due and from the start differ by at most max(1 ms, 5 %) (else the
generator was the queue; the means, where there are too few samples for a p99); every worker stays
below its share of a core; nothing was dropped; every planned arrival was made; the simulators
answered as fast as they were told to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from imsbench.kpi.kpis import StepKpis
from imsbench.kpi.statistics import enough

MARGIN_S = 0.001
"""Difference that is always allowed, seconds."""
MARGIN_SHARE = 0.05
"""Difference that is allowed as a share of the smaller time."""

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
    complete: bool = True,
) -> Verdict:
    """The verdict on one step.

    planned: initial registrations of the plan; planned_calls: its call attempts that are evaluated,
    so those due after its warm-up; cpu_shares: each worker's CPU time per wall time;
    cpu_limit: share of a core a worker may use; drops: what was lost inside the generator, by
    name; complete: whether the step ran to its end.
    """
    reasons: list[str] = []
    if not complete:
        reasons.append("The step did not run to its end.")
    # A phone whose de-registration failed has nothing to register again: that is the target's doing.
    made = kpis.procedures["registration"].attempted + kpis.procedures["deregistration"].failed
    if complete and made < planned:
        reasons.append(f"Only {made:,} of {planned:,} planned arrivals were made.")
    called = kpis.sessions.attempted
    if complete and called < planned_calls:
        reasons.append(f"Only {called:,} of {planned_calls:,} planned calls were made.")
    reasons += _late(kpis)
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
        if enough(0.99, from_due.count):
            what, due_s, start_s = "p99", from_due.quantile(0.99), from_start.quantile(0.99)
        else:  # too few for a p99: one late arrival among ten is no queue
            what, due_s, start_s = "mean", from_due.mean, from_start.mean
        if due_s - start_s > _margin(start_s):
            reasons.append(
                f"The {what} of {name} is {due_s * 1e3:.3g} ms from due and "
                f"{start_s * 1e3:.3g} ms from their start: the generator was the queue."
            )
    return reasons


def _margin(duration_s: float) -> float:
    return max(MARGIN_S, MARGIN_SHARE * duration_s)
