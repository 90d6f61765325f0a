"""From a search to its answer, its file and its report."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from imsbench.profile import SearchProcedure
from imsbench.report import markdown
from imsbench.report.result import ResultError, RunResult
from imsbench.run.assemble import assemble
from imsbench.run.record import RunRecord, StepRecord
from imsbench.search.answer import EXIT_CODES, answer
from imsbench.search.conductor import Conductor
from imsbench.search.execute import announce
from imsbench.search.methods import Method
from imsbench.search.plan import make_plan
from tests.search.targets import FakeTarget, drive, no_reasons, profile


def searched(
    procedure: SearchProcedure = "cycle",
    method: Method = "stepped",
    target: FakeTarget | None = None,
) -> Conductor:
    """A search that is over."""
    conductor = Conductor(make_plan(profile(), procedure, method), no_reasons)
    drive(conductor, target or FakeTarget())
    return conductor


def test_the_answer_names_load_interval_what_broke_and_the_limiter() -> None:
    found = answer(searched(), 2)
    assert (found.outcome, found.low, found.high) == ("found", 37.0, 38.0)
    assert found.broke == "initial_registration_success_rate"
    assert [(c.procedure, c.stage, c.cause) for c in found.causes] == [
        ("registration", "challenge", "503")
    ]
    assert found.resource == "limiter suspected"
    assert found.evidence.startswith(
        "Successes stay at 37/s where 38 and 55.5 attempts/s are offered"
    )
    overload = next(one for one in found.trials if one.role == "overload")
    assert overload.offered == 55.5
    assert overload.succeeded == pytest.approx(37.0, abs=0.2)
    assert sum(cause.count for cause in found.overload_causes) == pytest.approx(370, abs=5)
    assert found.relief_s == 0
    assert EXIT_CODES[found.outcome] == 0


def test_the_answer_names_the_processors_where_they_are_busy() -> None:
    target = FakeTarget(cores=lambda rate: rate / 20)  # 37/s: 1.85 of two cores
    found = answer(searched(target=target), 2)
    assert found.resource == "processors"


def test_a_step_without_the_generators_word_is_no_evidence() -> None:
    def judge(record: StepRecord) -> list[str]:
        return ["late"] if record.step.rate > 37.5 else []

    conductor = Conductor(make_plan(profile(), "cycle", "stepped"), judge)
    drive(conductor, FakeTarget())
    found = answer(conductor, 2)
    assert (found.outcome, EXIT_CODES[found.outcome]) == ("generator", 3)
    assert (found.low, found.high, found.broke_step) == (None, None, None)
    assert found.evidence == "No load missed the objective."


def result_of(conductor: Conductor) -> RunResult:
    """The result of a run that was this search."""
    now = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    record = RunRecord(started=now, ended=now, searched=True)
    record.steps = [one.record for one in conductor.trials]
    for step in record.steps:
        step.health = []
        step.complete = False  # nobody told of its health
    result = assemble(conductor.plan.profile, record, "id")
    return result.model_copy(update={"search": answer(conductor, 2), "exit_code": 0})


@pytest.mark.parametrize(
    ("procedure", "method"),
    [("cycle", "stepped"), ("registration", "bisect"), ("call", "rfc7502"), ("mix", "bisect")],
)
def test_the_file_is_read_as_it_was_written_and_reported(
    procedure: SearchProcedure, method: Method
) -> None:
    written = result_of(searched(procedure, method))
    read = RunResult.from_json(written.to_json())
    assert read.search == written.search
    assert [step.index for step in read.plan] == [step.index for step in read.steps]
    report = markdown.render(read)
    assert report == markdown.render(written)
    assert "## Capacity" in report
    assert f"Method: {method}" in report
    assert report.count("| confirms, below") == report.count("| confirms, above") == 1
    assert "- Overload at " in report
    assert "Of successful attempts (" in report


def test_the_report_tells_the_answer_in_one_sentence() -> None:
    report = markdown.render(result_of(searched()))
    assert (
        "- **Capacity: 37/s (the limit lies in 37 to 38; confirmed), de-registrations with a "
        "registration behind each per second**"
    ) in report
    assert "- First broken, at 38/s: **Initial registration success rate**" in report
    assert "- Causes there: registration, challenge: 503 (" in report
    assert "Straight after an overload, at 29.6/s, the objective held again after 0 s." in report


def test_a_file_whose_search_has_steps_that_were_not_made_is_damaged() -> None:
    written = result_of(searched())
    broken = written.model_copy(update={"steps": written.steps[1:]})
    with pytest.raises(ResultError, match="steps that were not made"):
        RunResult.from_json(broken.to_json())


def test_objective_confidence_and_rules_are_told_before_anything_starts() -> None:
    lines = announce(make_plan(profile(), "call", "rfc7502"))
    text = "\n".join(lines)
    assert "Searching call by rfc7502, with 60 registered; 30/s at most." in text
    assert (
        "Objective: at most 0% of each scenario's attempts fail or take longer than its limit (call 2.00 s)."
        in text
    )
    assert "N = 600 attempts" in text
    assert "Confidence: 95%" in text
