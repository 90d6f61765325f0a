"""Publication: the form of a published table, and everything that may not be published."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from imsbench.kpi.kpis import StepKpis
from imsbench.profile.limits import Limits
from imsbench.report.objections import objections
from imsbench.report.parts import SteadyFaultResult
from imsbench.report.publish import publish
from imsbench.report.result import RunResult
from imsbench.run.execute import published
from imsbench.run.exits import UNVOUCHED, RunRefused
from tests.report.call_results import calls_made
from tests.report.results import hand_made

GOLDEN = Path(__file__).parent / "golden_published.md"


def enough() -> RunResult:
    """The external target's result, with each step's attempts four times and long warm-ups."""
    result = calls_made()
    for done in result.steps:
        once = StepKpis.from_json(done.kpis.to_json())
        for _ in range(3):
            done.kpis.merge(once)
        done.reasons = []
    return result


def test_the_published_form() -> None:
    result = enough()
    assert objections(result) == []
    assert publish(result) == GOLDEN.read_text(encoding="utf-8")


def test_a_p99_from_few_samples_is_a_dash() -> None:
    lines = publish(enough()).splitlines()
    start = lines.index("## Re-registrations")
    row = next(line for line in lines[start:] if line.startswith("|       1,000"))
    assert row.split("|")[-2].strip() != "—"
    result = enough()
    for done in result.steps:
        done.kpis.procedures["reregistration"].histograms["time"] = type(done.kpis.lateness)()
    lines = publish(result).splitlines()
    row = next(line for line in lines[start:] if line.startswith("|       1,000"))
    assert row.split("|")[-2].strip() == "—"


def interrupted(result: RunResult) -> RunResult:
    return result.model_copy(update={"status": "interrupted", "reason": "interrupted by a signal"})


def invalid(result: RunResult) -> RunResult:
    result.steps[1].reasons = ["Worker 0 used 99% of a core; the limit is 85%."]
    return result


def not_as_planned(result: RunResult) -> RunResult:
    result.steps[1].findings = ["precondition not met: 990 of 1,000 registered"]
    return result


def few(result: RunResult) -> RunResult:
    result.steps[2].kpis.sessions = type(result.steps[2].kpis.sessions)()
    return result


def of_the_whole(result: RunResult) -> RunResult:
    return result.model_copy(update={"reasons": ["Not every process said at its end."]})


def wide(result: RunResult) -> RunResult:
    generator = result.profile.generator.model_copy(update={"limits": Limits(steal=0.5)})
    profile = result.profile.model_copy(update={"generator": generator})
    return result.model_copy(update={"profile": profile})


def faulty(result: RunResult) -> RunResult:
    fault = SteadyFaultResult.model_construct()
    return result.model_copy(update={"steady_faults": [fault]})


def without_the_last(result: RunResult) -> RunResult:
    return result.model_copy(update={"steps": result.steps[:-1]})


def cut_short(result: RunResult) -> RunResult:
    result.steps[-1].complete = False
    return result


@pytest.mark.parametrize("spoil", [without_the_last, cut_short])
def test_a_complete_run_with_less_than_its_profile_asks_is_not_published(spoil: Any) -> None:
    (why,) = objections(spoil(enough()))
    assert why.endswith("it is not there to its end, though the run is said to be complete.")


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (interrupted, "The run is not complete (interrupted): interrupted by a signal."),
        (invalid, "1,000 registered, 50/s: Worker 0 used 99% of a core; the limit is 85%."),
        (not_as_planned, "1,000 registered, 50/s: precondition not met: 990 of 1,000 registered."),
        (few, "1,000 registered, calls, 2/s: 0 calls are too few; a row needs 1,000."),
        (of_the_whole, "Not every process said at its end."),
        (wide, "The generator was judged by wider limits than the usual ones: steal."),
        (faulty, "Faults were injected on purpose."),
    ],
)
def test_what_may_not_be_published(spoil: Any, why: str) -> None:
    assert objections(spoil(enough())) == [why]


def test_all_objections_at_once(tmp_path: Path) -> None:
    result = hand_made()
    said = "\n".join(objections(result))
    assert "Its target is the embedded one" in said
    assert "200 registrations are too few" in said
    assert "the generator was the queue" in said
    file = tmp_path / "result.json"
    result = result.model_copy(update={"publishable": True})  # somebody wrote so into the file
    file.write_text(result.to_json(), encoding="utf-8")
    with pytest.raises(RunRefused) as refused:
        published(file)
    assert refused.value.exit_code == UNVOUCHED
    assert str(refused.value).splitlines()[1:] == [f"  - {why}" for why in objections(result)]


def test_a_shortened_warm_up_is_not_published() -> None:
    result = enough()
    data = result.profile.model_dump(mode="json")
    data["phases"][2]["calls"]["warm_up"] = "10s"
    profile = type(result.profile).model_validate(data)
    said = objections(result.model_copy(update={"profile": profile}))
    assert said[0].startswith("1,000 registered, calls, 2/s: its warm-up of 10 s is shortened")
