"""Results of calibration cases, made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from imsbench.calibrate.cases import Case
from imsbench.histogram import Histogram
from imsbench.kpi.kpis import StepKpis
from imsbench.outcome import Outcome
from imsbench.report.parts import CoreResult, Host, SteadyFaultResult, TimedFaultResult
from imsbench.report.result import RunResult, StepResult

HOST = Host(
    role="generator", system="Linux", kernel="6", cpus=2, memory_bytes=1 << 30, open_files=1024,
    cpu="a processor",
)  # fmt: skip


def histogram(*values: float) -> Histogram:
    made = Histogram()
    for value in values:
        made.record(value)
    return made


def registrations(times_s: Sequence[float], failed: Sequence[str] = ()) -> StepKpis:
    """Registrations that took so long, and others that failed by these causes."""
    kpis = StepKpis()
    for time_s in times_s:
        kpis.record(Outcome("registration", 0, 0, 0.0, 0.0, 0.001, time_s, status=200))
    for cause in failed:
        kpis.record(
            Outcome("registration", 0, 0, 0.0, 0.0, 0.001, 0.002, cause=cause, stage="challenge")
        )
    return kpis


def result_of(
    case: Case,
    kpis: StepKpis,
    *,
    steady: Sequence[SteadyFaultResult] = (),
    timed: Sequence[TimedFaultResult] = (),
    counters: dict[str, int] | None = None,
    reasons: Sequence[str] = (),
) -> RunResult:
    """The result of a case with this in its first step."""
    now = datetime(2030, 1, 1, tzinfo=UTC)
    step = StepResult(
        index=0, registered_before=0, registered_after=0, elapsed_s=1.0, complete=True, kpis=kpis,
        health=[], reasons=list(reasons),
    )  # fmt: skip
    return RunResult(
        id="x", version="0", started=now, ended=now, status="complete", self_test=True, seed=1,
        profile=case.profile, hosts=[HOST], steps=[step], exit_code=0,
        steady_faults=list(steady), timed_faults=list(timed),
        core=CoreResult(counters=counters or {}),
    )  # fmt: skip


def case_of(cases: Sequence[Case], words: str) -> Case:
    """The case whose title has these words."""
    (found,) = [case for case in cases if words in case.title]
    return found
