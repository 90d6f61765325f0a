"""What was injected on purpose, out of what the processes of a run told."""

from __future__ import annotations

from typing import Literal

from imsbench.report.parts import SteadyFaultResult, TimedFaultResult
from imsbench.run import topology
from imsbench.run.record import RunRecord

_WHERE: tuple[tuple[str, Literal["target", "HSS", "PCRF"]], ...] = (
    (topology.CORE, "target"),
    (topology.HSS, "HSS"),
    (topology.PCRF, "PCRF"),
)


def steady_faults(record: RunRecord) -> list[SteadyFaultResult]:
    """The steady faults of every process that lived to tell."""
    return [
        SteadyFaultResult.model_validate({"where": where} | told)
        for name, where in _WHERE
        for told in record.simulators.get(name, {}).get("steady_faults", ())
    ]


def timed_faults(record: RunRecord) -> list[TimedFaultResult]:
    """The timed faults that were ordered, with what their processes told of them."""
    begun = {
        (told["fault"], told["step"]): told for one in record.timed_faults.values() for told in one
    }
    results = []
    for number, step, at in record.ordered:
        told = begun.get((number, step), {})
        at_s = told["at"] - record.load_at if told else None
        ended_at = told.get("ended_at")
        results.append(
            TimedFaultResult(
                fault=number,
                step=step,
                planned_s=at - record.load_at,
                at_s=at_s,
                lasted_s=None if ended_at is None else ended_at - told["at"],
                done=told.get("done", 0),
                failed=told.get("failed", 0),
            )
        )
    return results
