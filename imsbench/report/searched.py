"""What a search for capacity found, as part of a result."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from imsbench.kpi.adequacy import Scenario
from imsbench.kpi.plateau import Resource
from imsbench.profile import SearchProcedure
from imsbench.report.parts import Part

TrialRole = Literal["search", "below", "above", "overload", "relief"]
"""search: as the method wants it; below and above: the fresh steps that confirm; the rest: after it."""
SearchOutcome = Literal[
    "found", "unconfirmed", "none", "ceiling", "generator", "no recovery", "too many steps",
    "interrupted",
]  # fmt: skip
"""found: and confirmed. none: no load is good. ceiling: no load that can be tried is not. generator: it is
the limit, not the target."""

Count = Annotated[int, Field(ge=0)]
PerSecond = Annotated[float, Field(ge=0)]
Seconds = Annotated[float, Field(ge=0)]


class HandledAttempts(Part):
    """How the attempts of one scenario were handled in one step."""

    scenario: Scenario
    """Which one."""
    attempted: Count
    """Attempts."""
    failed: Count
    """Those that failed; of calls, that did not end as the scenario wanted."""
    late: Count
    """Those that succeeded beyond the limit."""
    limit_s: Seconds
    """The longest adequate time, seconds."""
    mean_s: Seconds | None
    """Mean time of successful attempts, seconds."""
    p99_s: Seconds | None
    """Its p99; null below 100 samples."""


class TrialResult(Part):
    """One step of a search: a point of the curve."""

    step: Count
    """Index of the step."""
    role: TrialRole
    """Why it was made."""
    offered: PerSecond
    """Attempts per second."""
    succeeded: PerSecond
    """Attempts per second that were handled adequately: goodput."""
    success: Annotated[float, Field(ge=0, le=1)] | None
    """Share of the attempts that succeeded, in time or not."""
    handled: list[HandledAttempts]
    """By scenario."""
    met: bool
    """Whether every scenario met the objective."""
    vouched: bool
    """Whether the generator vouches for it; if not, it counts for nothing."""
    cpu_cores: PerSecond | None = None
    """The target's CPU; null: not measured."""
    recovered_s: Seconds | None = None
    """From its end until a probe found the target as before, seconds; null: not looked for."""


class CauseCount(Part):
    """Failures of one kind."""

    procedure: str
    """What was attempted."""
    stage: str
    """Where it failed."""
    cause: str
    """Why."""
    count: Count
    """How often."""


class SearchResult(Part):
    """A search and its answer."""

    procedure: SearchProcedure
    """What was searched for."""
    method: Literal["stepped", "rfc7502", "bisect"]
    """How."""
    rules: list[str]
    """The method in sentences, with its numbers."""
    leading: list[Scenario]
    """The scenarios that the offered load counts."""
    objective: Annotated[float, Field(ge=0, lt=1)]
    """Largest share of inadequately handled attempts, of each scenario apart."""
    confidence: Annotated[float, Field(gt=0, lt=1)]
    """Of the intervals of those shares."""
    registered: Count
    """Phones that stayed registered all along."""
    transient_s: Seconds
    """Beginning of each step that was not evaluated, seconds."""
    outcome: SearchOutcome
    """How it ended."""
    reason: str
    """Why, in one sentence."""
    low: PerSecond | None
    """The capacity: the highest load that met the objective; null: none did."""
    high: PerSecond | None
    """The lowest load above it that missed the objective; null: none did."""
    broke: str = ""
    """The first KPI that broke, at the lowest load above the capacity that missed the objective."""
    broke_step: int | None = None
    """That step; null: nothing broke."""
    causes: list[CauseCount] = Field(default_factory=list)
    """Failures of that step."""
    resource: Resource
    """Which resource of the target was at its limit."""
    evidence: str
    """How that is known."""
    overload_causes: list[CauseCount] = Field(default_factory=list)
    """Failures of the overload step."""
    relief_s: int | None = None
    """Seconds from the end of the overload until the objective held again; null: never, or not tried."""
    remarks: list[str] = Field(default_factory=list)
    """What was left out, and why."""
    trials: list[TrialResult]
    """Every step, in order."""
