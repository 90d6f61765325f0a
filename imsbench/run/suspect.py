"""Whether a run's rising steps look as if something limited the target that is not its processors."""

from __future__ import annotations

from collections.abc import Sequence

from imsbench.kpi.plateau import LoadPoint, sudden
from imsbench.kpi.statistics import Ratio
from imsbench.profile import Step
from imsbench.report.result import StepResult


def limiter(steps: Sequence[tuple[Step, StepResult]], objective: float, host_cpus: int) -> str:
    """The evidence, in a sentence for each kind of load; "" if nothing is suspected.

    objective: share of attempts (0..1) that may fail; host_cpus: processors of the target's machine.
    """
    found = []
    for kind, ratio in (
        ("cycle", "initial_registration_success_rate"),
        ("calls", "calls_as_planned"),
    ):
        points = [
            _point(step, done, done.kpis.ratio(ratio))
            for step, done in steps
            if step.kind == kind and done.complete and done.valid and done.kpis.ratio(ratio).whole
        ]
        found.append(sudden(points, objective, host_cpus))
    return " ".join(filter(None, found))


def _point(step: Step, done: StepResult, succeeded: Ratio) -> LoadPoint:
    share = succeeded.value or 0.0
    used = done.sut
    return LoadPoint(
        offered=step.rate,
        succeeded=step.rate * share,
        inadequate=1.0 - share,
        cpu_cores=used.cpu_cores if used else None,
        busiest_cores=used.busiest_cpu_cores if used else None,
        host_cpu_cores=used.host_cpu_cores if used else None,
    )
