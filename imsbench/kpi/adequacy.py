"""Attempts that were handled inadequately, in the sense of ETSI TS 186 008: failed, or beyond a time.

The design objective is a largest share of them; the design objective capacity is the highest load that
keeps within it. TS 186 008 counts by scenario, so each procedure of a load is judged apart.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, cast

from imsbench.kpi.kpis import StepKpis
from imsbench.kpi.statistics import Ratio
from imsbench.outcome import CallOutcome, Outcome

Scenario = Literal["registration", "deregistration", "subscription", "call"]
"""What is judged apart."""

Limits = Mapping[Scenario, float]
"""Longest adequate time of each scenario that is judged, seconds."""

_KPIS: dict[Scenario, tuple[str, str]] = {
    "registration": ("initial_registration_success_rate", "registration_time"),
    "deregistration": ("deregistration_success_rate", "deregistration_time"),
    "subscription": ("subscription_success_rate", "subscription_time"),
    "call": ("calls_as_planned", "session_setup_time"),
}
"""The KPI that tells of failures, and the one whose limit it is."""


@dataclass(frozen=True, slots=True)
class Handled:
    """How the attempts of one scenario were handled in one step."""

    scenario: Scenario
    """Which one."""
    attempted: int
    """Attempts."""
    failed: int
    """Those that failed; of calls, that did not end as the scenario wanted."""
    late: int
    """Those that succeeded beyond the limit."""
    limit_s: float
    """The longest adequate time, seconds."""

    @property
    def inadequate(self) -> Ratio:
        """IHSA of all attempts."""
        return Ratio(self.failed + self.late, self.attempted)

    def meets(self, objective: float) -> bool:
        """Whether the share is within the objective (0..1); a scenario without attempts is."""
        # A quotient: 3 of 10,000 are 0.0003, and 0.0003 of 10,000 are a little less than 3.
        return (self.inadequate.value or 0.0) <= objective

    @property
    def worst_kpi(self) -> str:
        """The KPI that shows most of what was inadequate: the rate, or the time."""
        rate, time = _KPIS[self.scenario]
        return rate if self.failed >= self.late else time


def handled(kpis: StepKpis, limits: Limits) -> list[Handled]:
    """Every scenario that is judged."""
    return [_handled(kpis, scenario, limit_s) for scenario, limit_s in limits.items()]


def _handled(kpis: StepKpis, scenario: Scenario, limit_s: float) -> Handled:
    if scenario == "call":
        calls = kpis.sessions
        # A call that failed after a late set-up counts once, with what is worse: as failed.
        late = calls.histogram("planned_setup_time").count_above(limit_s)
        return Handled(scenario, calls.attempted, calls.attempted - calls.planned, late, limit_s)
    part = kpis.procedures[scenario]
    late = part.histogram("time").count_above(limit_s)
    return Handled(scenario, part.attempted, part.failed, late, limit_s)


def all_meet(parts: Collection[Handled], objective: float) -> bool:
    """Whether every scenario meets the objective; where nothing at all was attempted, nothing is met."""
    return any(part.attempted for part in parts) and all(part.meets(objective) for part in parts)


def worst(parts: Iterable[Handled], objective: float) -> Handled | None:
    """Of those that miss the objective, the one with the largest share; None if all meet it."""
    missed = [part for part in parts if not part.meets(objective)]
    return max(missed, key=lambda part: part.inadequate.value or 0.0, default=None)


def is_adequate(outcome: Outcome | CallOutcome, limits: Limits) -> bool | None:
    """Whether one attempt that is over was handled adequately; None if it is not judged."""
    limit_s: float | None
    if isinstance(outcome, CallOutcome):
        limit_s = limits.get("call")
        # Not established, as a busy one: no time to judge, and NaN exceeds nothing.
        time_s = outcome.setup_at - outcome.sent_at
    else:
        limit_s = cast(Mapping[str, float], limits).get(outcome.procedure)
        time_s = outcome.time_s
    if limit_s is None:
        return None
    return not outcome.cause and not time_s > limit_s
