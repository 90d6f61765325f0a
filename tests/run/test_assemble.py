"""From records to a judged result: who invalidates what, and which exit code comes of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from imsbench.histogram import Histogram
from imsbench.kpi.halves import Halves
from imsbench.kpi.kpis import StepKpis
from imsbench.outcome import Outcome
from imsbench.profile import Profile, parse_profile
from imsbench.report.markdown import render
from imsbench.report.result import RunResult
from imsbench.run import execute
from imsbench.run.assemble import assemble
from imsbench.run.record import RunRecord, StepRecord
from tests.kpi.outcomes import call

YAML = """
name: small
subscribers: {count: 200}
phases:
  - fill: {rate: 100, to: 200}
  - cycle: {rate: 50}
thresholds:
  - initial_registration_success_rate >= 99.9%
  - registration_time.p99 < 200ms
"""
PROFILE = parse_profile(YAML)


def histogram(*values: float) -> Histogram:
    made = Histogram()
    for value in values:
        made.record(value)
    return made


def health(cpu_s: float = 1.0, dropped: int = 0) -> dict[str, Any]:
    return {
        "wall_s": 4.0, "cpu_s": cpu_s, "loop_lag": histogram().to_json(),
        "gc_pauses": histogram().to_json(), "memory_rss": 1, "started": 200, "dropped": dropped,
    }  # fmt: skip


def step_record(
    profile: Profile, index: int, *, failed: int = 0, time_s: float = 0.01
) -> StepRecord:
    step = profile.steps()[index]
    record = StepRecord(step, started_at=1.0, elapsed_s=4.0, complete=True)
    record.registered_before = step.registered_before
    for n in range(step.attempts):
        at = 1.0 + n / step.rate
        cause = "403" if n < failed else ""
        record.kpis.record(
            Outcome("registration", n, index, at, at, at, at + time_s, cause=cause, stage="answer")
        )
    record.registered_after = step.registered - failed
    record.health.append(health())
    return record


def run_record(*steps: StepRecord) -> RunRecord:
    record = RunRecord(started=datetime(2025, 1, 31, 12, tzinfo=UTC), steps=list(steps))
    record.workers["worker-0"] = {"registered": 200, "counters": {}}
    answers = {"count": 2, "results": {"2001": 2}, "response_time": histogram(0.0004).to_json()}
    record.simulators["hss"] = {"commands": {"MAR": answers}, "registered": 200, "counters": {}}
    record.simulators["core"] = {"counters": {}, "registered": 200}
    return record


def whole_run() -> RunRecord:
    return run_record(step_record(PROFILE, 0), step_record(PROFILE, 1))


def test_a_good_run_is_valid_and_exit_0() -> None:
    result = assemble(PROFILE, whole_run(), "folder")
    assert (result.valid, result.exit_code) == (True, 0)
    assert result.reasons == []
    assert [threshold.state for threshold in result.thresholds] == ["kept", "kept"]
    assert (result.id, result.self_test, result.status) == ("folder", True, "complete")
    assert result.hosts[0].cpus >= 1


def test_a_result_survives_the_disk() -> None:
    text = assemble(PROFILE, whole_run(), "folder").to_json()
    assert RunResult.from_json(text).to_json() == text


def test_a_broken_threshold_is_exit_1_and_names_its_step() -> None:
    record = run_record(step_record(PROFILE, 0), step_record(PROFILE, 1, failed=2))
    record.workers["worker-0"]["registered"] = 198
    record.simulators["hss"]["registered"] = record.simulators["core"]["registered"] = 198
    result = assemble(PROFILE, record, "folder")
    assert (result.valid, result.exit_code) == (True, 1)
    assert result.thresholds[0].broken_in == [1]
    assert result.thresholds[0].steps == {0: 1.0, 1: 0.99}


def answers(*times_s: float) -> dict[str, Any]:
    """What a simulator answered to one command in a step."""
    times = histogram(*times_s).to_json()
    return {"count": len(times_s), "results": {"2001": len(times_s)}, "response_time": times}


def resending(record: RunRecord) -> None:
    record.steps[1].counters |= {
        "net OutSegs": 10_000, "net RetransSegs": 900, "net TCPSynRetrans": 500,
    }  # fmt: skip


@pytest.mark.parametrize("where", ["step: cycle, ", ""])
def test_what_is_sent_again_for_a_target_told_to_stand_still_is_no_objection(where: str) -> None:
    text = YAML + f"faults: [{{what: core_stall, {where}duration: 2s}}]\n"
    for profile, valid in ((parse_profile(text), True), (PROFILE, False)):
        record = whole_run()
        resending(record)
        assert assemble(profile, record, "folder").valid is valid


def test_a_run_that_was_ended_early_is_told_so_and_not_the_generators_doing() -> None:
    record = whole_run()
    record.status, record.reason = "aborted", "a threshold"
    record.steps[1].complete = False
    lines = execute._verdict(assemble(PROFILE, record, "folder"), record)
    assert "Not complete: a threshold." in lines
    assert any(line.startswith("The last step is not whole, so it is struck") for line in lines)
    record.steps[0].health[0]["steal_share"] = 0.02
    lines = execute._verdict(assemble(PROFILE, record, "folder"), record)
    assert any("does not vouch for this run" in line for line in lines)


def overflowing(record: RunRecord) -> None:
    record.steps[1].counters |= {"net ListenDrops": 2, "net ListenOverflows": 2}


def stolen(record: RunRecord) -> None:
    record.steps[1].health[0]["steal_share"] = 0.02


def busy(record: RunRecord) -> None:
    record.steps[1].health[0]["cpu_s"] = 3.9


def dropping(record: RunRecord) -> None:
    record.steps[1].counters["esp tun_queue_dropped"] = 3


def starved(record: RunRecord) -> None:
    record.steps[1].health[0]["dropped"] = 7


def unprepared(record: RunRecord) -> None:
    record.steps[1].registered_before = 201


def slow_hss(record: RunRecord) -> None:
    record.steps[1].simulated = {"hss": {"MAR": answers(0.05)}}


def slow_tail_of_the_hss(record: RunRecord) -> None:
    times = [0.0004] * 190 + [0.0064] * 10  # the mean is 0.7 ms
    record.steps[1].simulated = {"hss": {"MAR": answers(*times), "UAR": answers(0.0004)}}


def frozen_hss(record: RunRecord) -> None:
    record.steps[1].started_at = 10.0
    record.note("hss", {"stalls": [[9.9, 0.11], [12.0, 1.2], [14.001, 3.0]]})


def disagreeing(record: RunRecord) -> None:
    record.simulators["core"]["registered"] = 199


def speechless(record: RunRecord) -> None:
    del record.simulators["hss"]


@pytest.mark.parametrize(
    ("spoil", "word"),
    [
        (busy, "of a core"),
        (dropping, "tun_queue_dropped"),
        (resending, "400 of 10,000 TCP segments of the workers had to be sent again"),
        (overflowing, "The generator lost something (net ListenDrops: 2)."),
        (stolen, "The hypervisor took 2% of its processors' time"),
        (starved, "found no idle phone"),
        (unprepared, "201 phones were registered when it began"),
        (slow_hss, "HSS"),
        (slow_tail_of_the_hss, "HSS simulator's response time to MAR is 6.4 ms; 0 ms are"),
        (frozen_hss, "The HSS simulator stood still for 1,200 ms; the limit is 100 ms."),
        (disagreeing, "core 199"),
        (speechless, "Not every process"),
    ],
)
def test_what_the_generator_cannot_vouch_for_is_exit_3(spoil: Any, word: str) -> None:
    record = whole_run()
    spoil(record)
    result = assemble(PROFILE, record, "folder")
    assert (result.valid, result.exit_code) == (False, 3)
    assert word in " ".join(result.reasons + result.steps[1].reasons)
    assert result.steps[0].valid


def test_a_stall_of_the_hss_is_the_steps_that_it_touched() -> None:
    record = whole_run()  # step 0 is from 1.0 to 5.0
    record.steps[1].started_at = 6.0
    record.note("hss", {"stalls": [[0.5, 0.4], [4.99, 0.02], [5.1, 0.8], [9.9, 0.05]]})
    record.note("core", {"stalls": [[2.0, 2.0]]})
    record.note("worker-0", {})
    result = assemble(PROFILE, record, "folder")
    assert [step.hss_stall_s for step in result.steps] == [0.02, 0.05]
    assert result.valid


@pytest.mark.parametrize(("count", "valid"), [(10, True), (40, False)])
def test_a_drawn_response_time_is_judged_by_what_its_p99_surely_is(count: int, valid: bool) -> None:
    """Exponential, mean 10 ms: a p99 of 46 ms is configured."""
    text = "name: drawn\nsubscribers: {count: 1}\nphases:\n  - fill: {rate: 1, to: 1}\n"
    hss = "simulators: {hss: {response_time: {kind: exponential, mean: 10ms}}}\n"
    profile = parse_profile(text + hss)
    record = run_record(step_record(profile, 0))
    for told in (record.workers["worker-0"], *record.simulators.values()):
        told["registered"] = 1
    times = [0.008] * 990 + [0.06] * count
    record.steps[0].simulated = {"hss": {"MAR": answers(*times)}}
    result = assemble(profile, record, "folder")
    assert result.valid == valid, result.reasons


def test_a_demo_is_not_wrong_on_a_busy_machine() -> None:
    record = whole_run()
    busy(record)
    result = assemble(PROFILE, record, "folder", unvouched=0)
    assert (result.valid, result.exit_code) == (False, 0)
    record.status, record.exit_code = "target_died", 4
    assert assemble(PROFILE, record, "folder", unvouched=0).exit_code == 4


@pytest.mark.parametrize(
    ("status", "code"), [("target_died", 4), ("interrupted", 130), ("generator_failed", 70)]
)
def test_a_run_that_was_cut_short_keeps_its_code_and_its_steps(status: Any, code: int) -> None:
    record = run_record(step_record(PROFILE, 0), step_record(PROFILE, 1))
    record.status, record.exit_code, record.reason = status, code, "why"
    record.steps[1].complete = False
    result = assemble(PROFILE, record, "folder")
    assert (result.status, result.exit_code, result.reason) == (status, code, "why")
    assert result.steps[0].valid
    assert not result.steps[1].valid


def test_the_repair_stands_beside_its_step() -> None:
    record = whole_run()
    step = PROFILE.steps()[1]
    record.steps[1].repairs = [
        StepRecord(step, registered_before=150, registered_after=190, elapsed_s=1.0),
        StepRecord(step, registered_before=190, registered_after=200, elapsed_s=0.5),
    ]
    for round_, count in zip(record.steps[1].repairs, (50, 10), strict=True):
        for n in range(count):
            round_.kpis.record(Outcome("registration", n, 1, 1.0, 1.0, 1.0, 1.1))
    repair = assemble(PROFILE, record, "folder").steps[1].repair
    assert repair is not None
    assert (repair.registered_before, repair.registered_after) == (150, 200)
    assert (repair.rounds, repair.elapsed_s) == (2, 1.5)
    assert repair.kpis.procedures["registration"].attempted == 60


def test_a_precondition_that_the_target_refused_is_its_finding_and_exit_1() -> None:
    record = whole_run()
    record.steps[1].registered_before = 190
    result = assemble(PROFILE, record, "folder")
    assert (result.valid, result.exit_code) == (True, 1)
    assert result.steps[1].findings == ["precondition not met: 190 of 200 registered"]
    page = render(result)
    assert "| 200 registered (precondition not met: 190 of 200 registered) " in page
    assert "- Target: “200 registered, 50/s”: precondition not met: 190 of 200 registered." in page
    assert "- Exit code 1: a threshold broken, or what the target did above." in page
    busy(record)
    assert assemble(PROFILE, record, "folder").exit_code == 3  # the graver one


def test_counts_that_differ_after_failures_are_a_finding() -> None:
    record = run_record(step_record(PROFILE, 0), step_record(PROFILE, 1))
    record.steps[1].kpis.record(
        Outcome("deregistration", 7, 1, 1.0, 1.0, 1.0, 33.0, cause="timeout", stage="answer")
    )
    disagreeing(record)
    result = assemble(PROFILE, record, "folder")
    assert (result.valid, result.exit_code) == (True, 1)
    assert "core 199" in result.findings[0]
    assert "- Target: The counts of registered phones differ at the end" in render(result)
    speechless(record)  # of that the generator's side must tell
    assert assemble(PROFILE, record, "folder").exit_code == 3


def test_a_clock_that_was_set_back_does_not_make_a_run_end_before_it_began() -> None:
    record = whole_run()
    record.ended = datetime(2025, 1, 31, 11, tzinfo=UTC)
    result = assemble(PROFILE, record, "folder")
    assert result.ended == result.started


def test_a_target_that_was_never_there_is_nothing_to_vouch_for() -> None:
    record = run_record(step_record(PROFILE, 0, failed=200))
    record.steps[0].complete = False
    record.status, record.exit_code, record.unreached = "interrupted", 1, True
    result = assemble(PROFILE, record, "id")
    assert not result.valid
    assert result.exit_code == 1


CALLS = """
name: calls
subscribers: {count: 100}
simulators: {pcrf: {response_time: {mean: 1ms}}}
phases:
  - fill: {rate: 100, to: 100}
  - calls: {rate: 5, duration: 20s, warm_up: 4s, hold: {mean: 2s}}
generator: {arrivals: %s}
"""


def calls_record(profile: Profile, made: int, started: int = 100) -> RunRecord:
    """A run whose second step has so many evaluated calls."""
    fill = step_record(profile, 0)
    fill.health[0]["started"] = 100
    step = StepRecord(profile.steps()[1], started_at=1.0, elapsed_s=26.0, complete=True)
    step.registered_before = step.registered_after = 100
    for i in range(made):
        step.kpis.record_call(call(due_at=5.0 + i / 5))
    step.health.append(health() | {"started": 0, "called": started})
    record = run_record(fill, step)
    record.workers["worker-0"]["registered"] = 100
    record.simulators["hss"]["registered"] = record.simulators["core"]["registered"] = 100
    answers = {"count": 2, "results": {"2001": 2}, "response_time": histogram(0.0011).to_json()}
    record.simulators["pcrf"] = {"commands": {"AAR": answers}, "sessions": 100, "counters": {}}
    return record


@pytest.mark.parametrize(("made", "valid"), [(100, True), (99, False)])
def test_calls_of_the_plan_must_all_be_there(made: int, valid: bool) -> None:
    """(4 s + 20 s) at 5/s, without those of the warm-up."""
    profile = parse_profile(CALLS % "constant")
    result = assemble(profile, calls_record(profile, made), "folder")
    assert result.valid is valid
    assert valid or result.steps[1].reasons == ["Only 99 of 100 planned calls were made."]


@pytest.mark.parametrize(("started", "valid"), [(97, True), (98, False)])
def test_poisson_calls_are_as_many_as_were_started(started: int, valid: bool) -> None:
    profile = parse_profile(CALLS % "poisson")
    result = assemble(profile, calls_record(profile, 97, started), "folder")
    assert result.valid is valid


def test_a_slow_pcrf_invalidates_the_run_and_a_missing_measurement_does_not() -> None:
    profile = parse_profile(CALLS % "constant")
    record = calls_record(profile, 100)
    record.steps[1].simulated = {"pcrf": {"AAR": answers(0.05)}}
    (reason,) = assemble(profile, record, "folder").steps[1].reasons
    assert reason == "The PCRF simulator answered in 50 ms on average; 1 ms were configured."
    record.steps[1].simulated = {"pcrf": {}}
    assert assemble(profile, record, "folder").valid


def test_the_mean_of_few_drawn_responses_must_surely_be_too_slow() -> None:
    record = whole_run()
    record.steps[1].simulated = {"hss": {"MAR": answers(0.0001, 0.0001, 0.0065)}}  # 2.2 ms
    assert assemble(PROFILE, record, "folder").valid
    record.steps[1].simulated = {"hss": {"MAR": answers(*[0.0001, 0.0001, 0.0065] * 100)}}
    assert not assemble(PROFILE, record, "folder").valid


def test_what_the_target_used_goes_into_the_result() -> None:
    profile = parse_profile(CALLS % "constant")
    record = calls_record(profile, 100)
    record.steps[1].sut = {
        "cpu_cores": 0.5, "host_cpu_cores": 0.75, "memory_rss_bytes": 1 << 28, "memory_kind": "pss",
        "processes": 3, "note": "",
    }  # fmt: skip
    record.idle = record.steps[1].sut | {"cpu_cores": None}
    record.ended_calls = {"released_s": None, "again": "reused"}
    outside = StepKpis()
    outside.record_call(call())
    record.workers["worker-0"]["outside"] = outside.to_json()
    result = assemble(profile, record, "folder")
    again = RunResult.from_json(result.to_json())
    assert again.to_json() == result.to_json()
    used = again.steps[1].sut
    assert used is not None
    assert (used.cpu_cores, used.memory_kind, used.processes) == (0.5, "pss", 3)
    assert again.steps[0].sut is None
    assert again.idle is not None
    assert again.idle.memory_rss_bytes == 1 << 28
    assert again.ended_calls is not None
    assert again.ended_calls.again == "reused"
    assert again.workers[0].outside is not None
    assert again.workers[0].outside.sessions.attempted == 1


def test_a_step_whose_halves_differ_is_not_steady() -> None:
    record = whole_run()
    for step in record.steps:  # the fill is not judged
        step.halves = Halves(middle=2.0)
        for due_at, time_s in ((1.0, 0.010), (3.0, 0.020)):
            for _ in range(50):
                step.halves.add("registration", due_at, time_s)
    record.steps[1].sut = {"cpu_cores": 0.6, "cpu_halves": [0.5, 0.7]}
    result = assemble(PROFILE, record, "folder")
    assert (result.valid, result.exit_code) == (True, 0)
    assert result.steps[0].unsteady == []
    assert result.steps[1].unsteady == [
        "the mean registration time is 10 ms in the first half, 20 ms in the second",
        "the target used 0.50 cores in the first half, 0.70 in the second",
    ]
    page = render(RunResult.from_json(result.to_json()))
    assert "| 200 registered (not steady) " in page
    assert "- Not steady: “200 registered, 50/s”: the mean registration time is 10 ms" in page


SCOPED = parse_profile(
    """
name: small
subscribers: {count: 200}
phases:
  - fill: {rate: 100, to: 200}
  - cycle: {rate: 50}
thresholds:
  - {that: initial_registration_success_rate >= 99.9%, during: fill}
  - {that: initial_registration_success_rate >= 50%, during: cycle, abort: true}
"""
)


def test_a_threshold_is_judged_in_its_steps_alone() -> None:
    record = run_record(step_record(SCOPED, 0), step_record(SCOPED, 1, failed=2))
    record.workers["worker-0"]["registered"] = 198
    record.simulators["hss"]["registered"] = record.simulators["core"]["registered"] = 198
    result = assemble(SCOPED, record, "folder")
    assert [(one.state, sorted(one.steps)) for one in result.thresholds] == [
        ("kept", [0]), ("kept", [1]),
    ]  # fmt: skip
    assert result.exit_code == 0
    page = render(RunResult.from_json(result.to_json()))
    assert "`initial_registration_success_rate >= 99.9% in fill`" in page


def test_a_run_that_a_threshold_ended_is_exit_1_unless_the_generator_was_at_fault() -> None:
    record = run_record(step_record(SCOPED, 0), step_record(SCOPED, 1, failed=150))
    record.status, record.exit_code, record.reason = "aborted", 1, "the threshold “…” was broken"
    record.steps[1].complete = False
    result = assemble(SCOPED, record, "folder")
    assert (result.status, result.exit_code, result.publishable) == ("aborted", 1, False)
    assert result.steps[1].reasons == ["The step did not run to its end."]
    assert "- The run was ended by a threshold: the threshold “…” was broken." in render(result)
    record.steps[1].health[0]["cpu_s"] = 3.9
    assert assemble(SCOPED, record, "folder").exit_code == 3
