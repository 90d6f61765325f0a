"""The generator's verdict: each limit on its two sides."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from imsbench.histogram import Histogram
from imsbench.kpi import verdict as verdict_module
from imsbench.kpi.kpis import PROCEDURES, StepKpis
from imsbench.kpi.statistics import Ratio
from imsbench.kpi.verdict import (
    Verdict,
    judge_response_time,
    judge_slowest_responses,
    judge_step,
)
from imsbench.profile.limits import Limits
from imsbench.report import failures
from tests.kpi.outcomes import call, failure, success


def judge(
    kpis: StepKpis, planned: int = 200, cpu: float = 0.5, drops: int = 0, complete: bool = True
) -> Verdict:
    return judge_step(
        kpis, limits=Limits(), workers=[View(0.1), View(cpu)], planned=planned,
        lost={"tun queue": drops}, complete=complete,
    )  # fmt: skip


@dataclass
class View:
    """A worker that lacks nothing but what a test says."""

    cpu_share: float = 0.1
    loop_lag: Histogram = field(default_factory=Histogram)
    gc_pauses: Histogram = field(default_factory=Histogram)
    host_cpu_share: float | None = 0.5
    steal_share: float | None = 0.0
    memory_share: float | None = 0.5
    clock_jump_s: float = 0.0


def judge_views(*views: View, resent: Ratio | None = None) -> tuple[str, ...]:
    return judge_step(
        late(0.0), limits=Limits(), workers=views, planned=200, lost={}, resent=resent
    ).reasons


def pause(seconds: float) -> Histogram:
    made = Histogram()
    made.record(seconds)
    return made


@pytest.mark.parametrize(
    ("kept", "broken", "reason"),
    [
        (View(host_cpu_share=0.98), View(host_cpu_share=0.991),
         "The generator's host was busy 99.1% of its processors' time; the limit is 98%."),
        (View(steal_share=0.01), View(steal_share=0.013),
         "The hypervisor took 1.3% of its processors' time from the generator's host; the limit is 1%."),
        (View(memory_share=0.95), View(memory_share=0.96),
         "96% of the memory of the generator's host was in use; the limit is 95%."),
        (View(gc_pauses=pause(0.049)), View(gc_pauses=pause(0.12)),
         "Worker 1 stood still for 120 ms to collect garbage; the limit is 50 ms."),
        (View(clock_jump_s=0.05), View(clock_jump_s=0.06),
         "The wall clock of the generator's host jumped by 60 ms against the monotonic one; the limit is "
         "50 ms."),
    ],
)  # fmt: skip
def test_limits_of_workers_and_their_hosts(kept: View, broken: View, reason: str) -> None:
    assert judge_views(View(), kept) == ()
    assert judge_views(View(), broken) == (reason,)


def test_what_a_host_does_not_say_is_not_judged() -> None:
    assert judge_views(View(host_cpu_share=None, steal_share=None, memory_share=None)) == ()


def test_segments_sent_again_surely() -> None:
    assert judge_views(View(), resent=Ratio(1, 50)) == ()  # 2 %, but of how many
    assert judge_views(View(), resent=Ratio(90, 10_000)) == ()
    assert judge_views(View(), resent=Ratio(200, 10_000)) == (
        "200 of 10,000 TCP segments of the workers had to be sent again; the limit is 1%.",
    )


def late(late_s: float, time_s: float = 0.010, handshake_s: float = 0.0) -> StepKpis:
    kpis = StepKpis()
    for _ in range(200):
        kpis.record(success(time_s=time_s, late_s=late_s, handshake_s=handshake_s))
    return kpis


def test_a_generator_in_time_is_valid() -> None:
    assert judge(late(0.0005)) == Verdict()
    assert judge(late(0.0005)).valid


@pytest.mark.parametrize(
    ("late_s", "time_s", "valid"),
    [(0.0009, 0.010, True), (0.0012, 0.010, False),  # 1 ms counts below 20 ms
     (0.040, 1.0, True), (0.060, 1.0, False)],  # 5 % above it
)  # fmt: skip
def test_lateness_limits(late_s: float, time_s: float, valid: bool) -> None:
    verdict = judge(late(late_s, time_s))
    assert verdict.valid is valid
    assert valid or any("the generator was the queue" in reason for reason in verdict.reasons)


def test_one_late_arrival_among_few_is_no_queue() -> None:
    kpis = StepKpis()
    for n in range(60):
        kpis.record(success(time_s=0.010, late_s=0.030 if n == 7 else 0.0))
    assert judge(kpis, planned=60).valid
    for _ in range(30):
        kpis.record(success(time_s=0.010, late_s=0.030))
    (reason,) = judge(kpis, planned=90).reasons
    assert reason.startswith("The mean of registrations is")  # a p99 is not stated from 90


def test_the_handshake_is_the_targets_not_the_generators() -> None:
    assert judge(late(0.0, 0.010, handshake_s=0.5)).valid


def test_cpu_limit_names_the_worker() -> None:
    assert judge(late(0.0), cpu=0.849).valid
    verdict = judge(late(0.0), cpu=0.85)
    assert verdict.reasons == ("Worker 1 used 85% of a core; the limit is 85%.",)


def test_drops_and_missing_arrivals_and_unfinished_steps() -> None:
    assert judge(late(0.0), drops=3).reasons == ("The generator lost something (tun queue: 3).",)
    assert judge(late(0.0), planned=201).reasons == ("Only 200 of 201 planned arrivals were made.",)
    assert judge(late(0.0), planned=201, complete=False).reasons == (
        "The step did not run to its end.",
    )


def test_a_failed_deregistration_stands_for_no_registration() -> None:
    """A phone registers again whatever became of its de-registration."""
    kpis = late(0.0)
    kpis.record(failure("503", "deregistration", "deregistration", status=503))
    assert not judge(kpis, planned=201).valid


def calls(count: int, late_s: float) -> StepKpis:
    kpis = StepKpis()
    for _ in range(count):
        kpis.record_call(call(setup_s=0.010, late_s=late_s))
    return kpis


@pytest.mark.parametrize(("late_s", "valid"), [(0.0009, True), (0.0013, False)])
def test_calls_that_started_late_are_the_generators_doing(late_s: float, valid: bool) -> None:
    """Their clock starts when they start, so only a comparison with their due times shows it."""
    verdict = judge(calls(200, late_s), planned=0)
    assert verdict.valid is valid
    assert all(" of call set-ups is " in reason for reason in verdict.reasons)


def test_missing_calls() -> None:
    verdict = judge_step(
        calls(9, 0.0), limits=Limits(), workers=[View()], planned=0, planned_calls=10, lost={}
    )
    assert verdict.reasons == ("Only 9 of 10 planned calls were made.",)


def test_late_subscription_refreshes_are_named() -> None:
    kpis = StepKpis()
    for _ in range(200):
        kpis.record(success("subscription_refresh", time_s=0.010, late_s=0.050))
    assert " of subscription refreshes" in judge(kpis, planned=0).reasons[0]


def test_simulator_response_times() -> None:
    assert judge_response_time("HSS", 0.0, 0.0019, Limits()).valid
    assert judge_response_time("HSS", 0.100, 0.104, Limits()).valid
    assert judge_response_time("HSS", 0.0, None, Limits()).valid
    assert judge_response_time("HSS", 0.0017, 0.004, Limits()).reasons == (
        "The HSS simulator answered in 4 ms on average; 1.7 ms were configured.",
    )
    assert judge_slowest_responses("HSS", "MAR", 0.002, 0.007, Limits()).valid
    assert judge_slowest_responses("HSS", "MAR", 0.002, 0.0071, Limits()).reasons == (
        "The p99 of the HSS simulator's response time to MAR is 7.1 ms; 2 ms are configured, and 5 ms "
        "more are allowed.",
    )


def test_a_stall_that_inflates_both_sides_is_found() -> None:
    """Responses read late by a stalled worker make from start as bad as from due at p99."""
    kpis = StepKpis()
    for n in range(400):
        stalled = n % 20 == 0
        kpis.record(
            success(time_s=0.300 if n % 50 == 0 else 0.010, late_s=0.200 if stalled else 0.0)
        )
    reasons = judge(kpis, planned=400).reasons
    assert any("mean of registrations" in reason for reason in reasons)
    assert any("lateness" in reason for reason in reasons)


def test_loop_lag_is_judged_by_itself() -> None:
    lag = Histogram()
    for n in range(1000):
        lag.record(0.150 if n % 50 == 0 else 0.0001)
    kpis = late(0.0)
    verdict = judge_step(kpis, limits=Limits(), workers=[View(loop_lag=lag)], planned=200, lost={})
    assert verdict.reasons == ("The p99 of the loop lag is 150 ms; the limit is 10 ms.",)


def test_a_few_slow_samples_do_not_widen_the_limit() -> None:
    lag = Histogram()
    for _ in range(500):
        lag.record(0.150)
    kpis = late(0.0)
    kpis.record(success("subscription_refresh", time_s=4.0))
    verdict = judge_step(kpis, limits=Limits(), workers=[View(loop_lag=lag)], planned=200, lost={})
    assert "The p99 of the loop lag is 150 ms; the limit is 10 ms." in verdict.reasons


def test_every_procedure_has_a_name() -> None:
    assert set(verdict_module._NAMES) == set(PROCEDURES)
    assert set(failures.NAMES) >= set(PROCEDURES)
