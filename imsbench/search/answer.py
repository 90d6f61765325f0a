"""From the steps of a search to its answer: the load, what broke there, what was at its limit."""

from __future__ import annotations

from imsbench.kpi.adequacy import Handled, worst
from imsbench.kpi.kpis import StepKpis
from imsbench.kpi.plateau import LoadPoint, limit_of
from imsbench.kpi.statistics import enough
from imsbench.report.searched import (
    CauseCount,
    HandledAttempts,
    SearchOutcome,
    SearchResult,
    TrialResult,
)
from imsbench.run.exits import BROKEN, KEPT, UNVOUCHED
from imsbench.search.conductor import Conductor, Measured
from imsbench.search.methods import rules

EXIT_CODES: dict[SearchOutcome, int] = {
    "found": KEPT,
    "unconfirmed": BROKEN,
    "none": BROKEN,
    "no recovery": BROKEN,
    "too many steps": BROKEN,
    # What was tried is not the target's limit: nobody may take it for one.
    "ceiling": UNVOUCHED,
    "generator": UNVOUCHED,
    "interrupted": KEPT,  # the run's own code says more
}
"""The exit code of each outcome."""


def answer(conductor: Conductor, host_cpus: int) -> SearchResult:
    """What a search found; host_cpus: processors of the machine on which the target was looked at."""
    plan, bracket = conductor.plan, conductor.bracket
    valid = [one for one in conductor.trials if not one.reasons and one.role != "relief"]
    broken = _broken(valid, bracket.low)
    found = worst(broken.parts, plan.objective) if broken is not None else None
    limit = limit_of([_point(one, conductor) for one in valid], plan.objective, host_cpus)
    overload = next((one for one in valid if one.role == "overload"), None)
    return SearchResult(
        procedure=plan.procedure,
        method=plan.method,
        rules=rules(plan.method, plan.span, plan.search),
        leading=list(plan.leading),
        objective=plan.objective,
        confidence=plan.search.confidence,
        registered=plan.registered,
        transient_s=plan.transient_s,
        outcome=conductor.outcome,
        reason=conductor.reason,
        low=bracket.low,
        high=bracket.high,
        broke=found.worst_kpi if found is not None else "",
        broke_step=broken.record.step.index if broken is not None else None,
        causes=_causes(broken.record.kpis, broken.parts) if broken is not None else [],
        resource=limit.resource,
        evidence=limit.evidence,
        overload_causes=_causes(overload.record.kpis, overload.parts) if overload else [],
        relief_s=conductor.relief_s,
        remarks=conductor.remarks,
        trials=[_trial(one, conductor) for one in conductor.trials],
    )


def _broken(valid: list[Measured], low: float | None) -> Measured | None:
    """The lowest load above the capacity that missed the objective, as it was measured last."""
    missed = [
        one
        for one in valid
        if any(part.attempted for part in one.parts)
        and not one.met
        and (low is None or one.rate > low)
    ]
    return min(missed, key=lambda one: (one.rate, -one.record.step.index), default=None)


def _leading(one: Measured, conductor: Conductor) -> list[Handled]:
    return [part for part in one.parts if part.scenario in conductor.plan.leading]


def _goodput(one: Measured, conductor: Conductor) -> float:
    parts = _leading(one, conductor)
    attempted = sum(part.attempted for part in parts)
    inadequate = sum(part.failed + part.late for part in parts)
    return one.rate * (attempted - inadequate) / attempted if attempted else 0.0


def _point(one: Measured, conductor: Conductor) -> LoadPoint:
    used = one.record.sut or {}
    return LoadPoint(
        offered=one.rate,
        succeeded=_goodput(one, conductor),
        inadequate=max((part.inadequate.value or 0.0 for part in one.parts), default=0.0),
        cpu_cores=used.get("cpu_cores"),
        busiest_cores=used.get("busiest_cpu_cores"),
        host_cpu_cores=used.get("host_cpu_cores"),
    )


def _trial(one: Measured, conductor: Conductor) -> TrialResult:
    parts = _leading(one, conductor)
    attempted = sum(part.attempted for part in parts)
    failed = sum(part.failed for part in parts)
    return TrialResult(
        step=one.record.step.index,
        role=one.role,
        offered=one.rate,
        succeeded=_goodput(one, conductor),
        success=(attempted - failed) / attempted if attempted else None,
        handled=[_handled(part, one.record.kpis) for part in one.parts],
        met=one.met,
        vouched=not one.reasons,
        cpu_cores=(one.record.sut or {}).get("cpu_cores"),
        recovered_s=one.recovered_s,
    )


def _handled(part: Handled, kpis: StepKpis) -> HandledAttempts:
    if part.scenario == "call":
        times = kpis.sessions.histogram("setup_time")
    else:
        times = kpis.procedures[part.scenario].histogram("time")
    return HandledAttempts(
        scenario=part.scenario,
        attempted=part.attempted,
        failed=part.failed,
        late=part.late,
        limit_s=part.limit_s,
        mean_s=times.mean if times.count else None,
        p99_s=times.quantile(0.99) if enough(0.99, times.count) else None,
    )


def _causes(kpis: StepKpis, parts: list[Handled]) -> list[CauseCount]:
    """Failures of the judged scenarios, the most frequent first."""
    found: list[CauseCount] = []
    for part in parts:
        failures = (
            kpis.sessions.failures
            if part.scenario == "call"
            else kpis.procedures[part.scenario].failures
        )
        found += [
            CauseCount(procedure=part.scenario, stage=stage, cause=cause, count=count)
            for (stage, cause), count in failures.items()
        ]
    return sorted(found, key=lambda one: (-one.count, one.procedure, one.stage, one.cause))
