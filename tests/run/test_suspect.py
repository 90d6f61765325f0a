"""A sudden plateau without CPU in an ordinary run is suspected to be a limiter."""

from __future__ import annotations

from imsbench.kpi.kpis import StepKpis
from imsbench.profile import Step, parse_profile
from imsbench.report.parts import TargetUsage
from imsbench.report.result import StepResult
from imsbench.run.suspect import limiter
from tests.kpi.outcomes import failure, success

STEPS = parse_profile(
    "name: x\nsubscribers: {count: 100}\n"
    "phases: [{fill: {rate: 10, to: 100}}, {cycle: {rate: [20/s, 50/s, 80/s]}}]\n"
).steps()[1:]


def done(step: Step, succeeded: float, cores: float, *, valid: bool = True) -> StepResult:
    """A step in which this share of a hundred registrations succeeded."""
    kpis = StepKpis()
    for i in range(100):
        kpis.record(success() if i < 100 * succeeded else failure("503", status=503))
    return StepResult(
        index=step.index, registered_before=100, registered_after=100, elapsed_s=5.0, complete=True,
        kpis=kpis, health=[], reasons=[] if valid else ["late"],
        sut=TargetUsage(cpu_cores=cores, busiest_cpu_cores=cores, host_cpu_cores=cores),
    )  # fmt: skip


def pairs(shares: tuple[float, ...], cores: float) -> list[tuple[Step, StepResult]]:
    return [(step, done(step, share, cores)) for step, share in zip(STEPS, shares, strict=True)]


def test_the_evidence_is_told() -> None:
    found = limiter(pairs((1.0, 0.74, 0.46), 0.2), 0.001, 2)
    assert found == (
        "Successes stay at 36.9/s where 50 and 80 attempts/s are offered, with 0.20 of 2 cores used by "
        "the target."
    )


def test_busy_processors_or_no_failures_are_no_limiter() -> None:
    assert not limiter(pairs((1.0, 0.74, 0.46), 0.97), 0.001, 2)
    assert not limiter(pairs((1.0, 1.0, 1.0), 0.2), 0.001, 2)


def test_steps_without_the_generators_word_are_no_evidence() -> None:
    steps = pairs((1.0, 0.74, 0.46), 0.2)
    doubtful = [(step, done(step, 0.46, 0.2, valid=False)) for step, _ in steps[1:]]
    assert not limiter([steps[0], *doubtful], 0.001, 2)
