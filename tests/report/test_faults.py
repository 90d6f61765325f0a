"""The table of injected faults."""

from __future__ import annotations

import pytest

from imsbench.profile import parse_profile
from imsbench.report.faults import injected
from imsbench.report.parts import SteadyFaultResult, TimedFaultResult
from imsbench.report.result import ResultError, RunResult
from tests.report.results import PROFILE, failing_cycle, hand_made

FAULTS = """
faults:
  - {what: core_stall, step: 2, at: 2s, duration: 2s}
  - {what: rtr, at: 5s, rate: 2/s, duration: 1s}
"""


def faulty() -> RunResult:
    result = hand_made(PROFILE + FAULTS)
    profile = parse_profile(PROFILE + FAULTS)
    return result.model_copy(
        update={
            "steps": [*result.steps[:2], failing_cycle(profile)],
            "steady_faults": [
                SteadyFaultResult(
                    where="target", what="error", names=["REGISTER"], share=0.05, code=403,
                    of=400, struck=20,
                ),
                SteadyFaultResult(where="HSS", what="silence", share=0.01, of=100, struck=1),
            ],
            "timed_faults": [
                TimedFaultResult(
                    fault=0, step=1, planned_s=6.0, at_s=6.001, lasted_s=2.0, done=1
                ),
                TimedFaultResult(fault=1, step=None, planned_s=5.0),
            ],
        }
    )  # fmt: skip


def rows(result: RunResult) -> list[list[str]]:
    lines = [line for line in injected(result) if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_a_run_without_faults_has_no_table() -> None:
    assert list(injected(hand_made())) == []


def test_what_was_injected_when_and_how_many() -> None:
    result = faulty()
    seen = sum(
        count
        for part in result.steps
        for (_, cause), count in part.kpis.procedures["registration"].failures.items()
        if cause == "403"
    )
    assert seen
    assert rows(result) == [
        ["target: error 403 (REGISTER)", "all along", "5%", "20", "400", "—", str(seen)],
        ["HSS: silence (all messages)", "all along", "1%", "1", "100", "—", "—"],
        ["target stands still", "at 6.00 s for 2.00 s (200 registered, held 13 s)", "for 2.00 s",
         "1", "—", "0", "—"],
        ["RTR", "—", "2/s for 1.00 s", "—", "—", "0", "—"],
    ]  # fmt: skip


def test_faults_survive_the_disk_and_must_be_of_the_profile() -> None:
    result = faulty()
    assert RunResult.from_json(result.to_json()).timed_faults == result.timed_faults
    stray = TimedFaultResult(fault=2, step=None, planned_s=0.0)
    with pytest.raises(ResultError, match="fault 2 is not of the profile"):
        RunResult.from_json(result.model_copy(update={"timed_faults": [stray]}).to_json())
