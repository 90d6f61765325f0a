"""A result made by hand: a fill, a hold, a clean cycle and one the generator cannot vouch for."""

from __future__ import annotations

from datetime import UTC, datetime

from imsbench.histogram import Histogram
from imsbench.kpi.kpis import StepKpis
from imsbench.kpi.thresholds import overall, parse_threshold
from imsbench.kpi.verdict import judge_step
from imsbench.outcome import Outcome, Procedure
from imsbench.profile import Profile, parse_profile
from imsbench.profile.limits import Limits
from imsbench.report.parts import (
    CommandResult,
    CoreResult,
    Failure,
    Host,
    HssResult,
    LadderEntry,
    WorkerHealth,
    WorkerResult,
)
from imsbench.report.result import Repair, RunResult, StepResult, ThresholdResult
from tests.kpi.outcomes import failure, success

PROFILE = """
name: small
subscribers: {count: 200}
target: {expires: 24s, min_expires: 20s}
simulators: {hss: {response_time: {mean: 2ms}}}
phases:
  - fill: {rate: 50/s, to: 200}
  - hold: {duration: 13s}
  - cycle: {rate: [20/s, 40/s]}
thresholds:
  - initial_registration_success_rate >= 99.9%
  - registration_time.p99 < 1s
  - reregistration_time.p99 < 1ms
  - registration_time.p99.9 < 1s
generator: {arrivals: constant}
"""


def histogram(*durations_s: float) -> Histogram:
    made = Histogram()
    for duration_s in durations_s:
        made.record(duration_s)
    return made


def health(cpu_s: float, wall_s: float) -> WorkerHealth:
    return WorkerHealth(
        wall_s=wall_s, cpu_s=cpu_s, loop_lag=histogram(*(0.00005 for _ in range(200))),
        gc_pauses=histogram(0.001), memory_rss=40 << 20, started=200, dropped=0,
    )  # fmt: skip


def many(
    count: int, procedure: Procedure, rate: float, time_s: float, late_s: float = 0.0001
) -> list[Outcome]:
    """Successes whose times spread from time_s to 2 x time_s."""
    outcomes = []
    for i in range(count):
        outcome = success(
            procedure, time_s * (1 + i / count), due_at=1000 + i / rate, late_s=late_s
        )
        outcome.phone_s = 0.0004 if procedure == "registration" else 0.0
        if procedure == "subscription":
            outcome.notify_at = outcome.sent_at + time_s * 0.8
        outcomes.append(outcome)
    return outcomes


def step(
    profile: Profile, index: int, outcomes: list[Outcome], *, cpu_s: float = 1.0
) -> StepResult:
    planned = profile.steps()[index]
    kpis = StepKpis()
    for outcome in outcomes:
        kpis.record(outcome)
    worker = health(cpu_s, planned.duration_s + 0.5)
    verdict = judge_step(kpis, limits=Limits(), workers=[worker], planned=planned.attempts, lost={})
    return StepResult(
        index=index, registered_before=planned.registered_before,
        registered_after=planned.registered, elapsed_s=planned.duration_s + 0.5, complete=True,
        kpis=kpis, health=[worker], reasons=list(verdict.reasons),
        counters={
            "esp packets_in": 900,
            "esp packets_out": 1100,
            "esp unknown_spi": 2,
            "esp clear_in": 3,
            "esp XfrmInError": 1,
            "esp sas": 8,
        },
    )  # fmt: skip


def failing_cycle(profile: Profile) -> StepResult:
    """197 of 200 registered, and the generator was late."""
    outcomes = many(200, "deregistration", 40, 0.004)
    outcomes += many(197, "registration", 40, 0.010, late_s=0.030)
    failed = [failure("timeout", "answer", status=401, after_s=32.0) for _ in range(2)]
    failed += [failure("403", "challenge", status=403)]
    for outcome in failed:
        outcome.due_at, outcome.started_at = 1001.0, 1001.03
        outcome.ended_at += 901.0
    outcomes += failed
    outcomes += many(197, "subscription", 40, 0.003)
    result = step(profile, 3, outcomes)
    result.failures = [
        Failure(
            procedure="registration", stage="challenge", cause="403",
            detail="403 No | such <b>user</b>\r\n```", phone=1234,
            ladder=[
                LadderEntry(at=0.03, direction="->", text="REGISTER sip:ims.example"),
                LadderEntry(at=0.0413, direction="<-", text="403 No\n```such", protected=True),
            ],
        )
    ]  # fmt: skip
    result.repair = Repair(
        registered_before=190, registered_after=200, elapsed_s=0.61, kpis=StepKpis()
    )
    return result


def thresholds(profile: Profile, steps: list[StepResult]) -> list[ThresholdResult]:
    judged = []
    for condition in profile.thresholds:
        text = condition.that
        threshold = parse_threshold(text)
        states = [threshold.evaluate(done.kpis) for done in steps]
        values = [(done.index, threshold.value(done.kpis)) for done in steps]
        judged.append(
            ThresholdResult(
                text=text, state=overall(states),
                steps={index: value for index, value in values if value is not None},
                broken_in=[i for i, state in enumerate(states) if state == "broken"],
            )
        )  # fmt: skip
    return judged


def command(count: int, mean_s: float, result: str = "2001") -> CommandResult:
    times = histogram(*(mean_s for _ in range(count)))
    return CommandResult(count=count, results={result: count}, response_time=times)


def hand_made(profile_text: str = PROFILE) -> RunResult:
    profile = parse_profile(profile_text)
    registered = many(200, "registration", 50, 0.010) + many(200, "subscription", 50, 0.003)
    cycled = many(200, "deregistration", 20, 0.004) + many(200, "registration", 20, 0.008)
    steps = [
        step(profile, 0, registered),
        step(profile, 1, many(200, "reregistration", 15, 0.005)),
        step(profile, 2, cycled + many(200, "subscription", 20, 0.003)),
        failing_cycle(profile),
    ]
    return RunResult(
        id="2026-01-02T03-04-05Z_small_embedded", version="1.2.3",
        started=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        ended=datetime(2026, 1, 2, 3, 4, 41, tzinfo=UTC),
        status="complete", self_test=profile.target.kind == "embedded", seed=1, profile=profile,
        hosts=[
            Host(role="generator and target", system="Debian GNU/Linux 13",
                 kernel="Linux 6.18.5 x86_64", cpu="Example CPU @ 2.00GHz", cpus=2,
                 memory_bytes=24 << 30, open_files=20_000, python="CPython 3.11.7")
        ],
        steps=steps,
        hss=HssResult(
            commands={"UAR": command(1800, 0.0021, "2001"), "MAR": command(601, 0.0022),
                      "SAR": command(997, 0.0021)},
            registered=197, loop_lag=histogram(*[0.0004] * 199, 0.031),
        ),
        core=CoreResult(counters={"requests": 5000}, registered=197, backend="userspace"),
        workers=[
            WorkerResult(registered=197, backend="userspace", memory_rss=40 << 20,
                         counters={"outside_any_step": 3})
        ],
        thresholds=thresholds(profile, steps),
        exit_code=3,
    )  # fmt: skip
