"""A result with calls, made by hand: an external target whose machine was read, as when publishing."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

from imsbench.kpi.kpis import StepKpis
from imsbench.kpi.sessions import CallSpan
from imsbench.outcome import CallOutcome
from imsbench.profile import Profile, Step, parse_profile
from imsbench.report.parts import (
    CommandResult,
    EndedCalls,
    Failure,
    Host,
    HssResult,
    LadderEntry,
    PcrfResult,
    TargetUsage,
    WorkerResult,
)
from imsbench.report.result import RunResult, StepResult
from tests.kpi.outcomes import call, refused_call
from tests.report.results import command, health, histogram, many, thresholds

PROFILE = """
name: published
subscribers: {count: 1000}
phones: {refresh_phase: uniform}
target:
  kind: external
  pcscf: "192.0.2.1:5060"
  name: Example core
  version: "1.0"
  declared:
    - {table: limits, item: MCPTT users, value: "1,000"}
    - {table: host, item: Receive queues, value: One per CPU}
    - {table: setup, item: Disk, value: "30 GB: 3,000 IOPS"}
    - {table: setup, item: Network, value: "virtio_net | one queue per vCPU"}
simulators:
  hss: {listen: "192.0.2.2:3868"}
  pcrf: {listen: "192.0.2.2:3869", response_time: {mean: 1ms}}
phases:
  - fill: {rate: 100/s, to: 1000}
  - cycle: {rate: 50/s}
  - calls: {rate: [2/s, 5/s], duration: 200s, hold: {mean: 90s}}
thresholds:
  - session_establishment_success_rate >= 99.9%
  - call_drop_rate < 0.1%
  - session_setup_time.p99 < 200ms
  - calls_in_progress.mean >= 180
generator: {arrivals: constant}
"""

EMBEDDED = (
    PROFILE.split("target:")[0] + "simulators: {}\n" + "phases:" + PROFILE.split("phases:")[1]
)


def spans(step: Step, set_up_s: float) -> list[CallSpan]:
    """Every call of a step, its warm-up included, from the beginning of its load at 0 s."""
    made = []
    for i in range(step.attempts):
        at = i / step.rate
        answered = at + set_up_s
        made.append(CallSpan(at, answered, answered + 90.0, answered + 90.004))
    return made


def call_step(
    profile: Profile, index: int, outcomes: list[CallOutcome], sut: TargetUsage
) -> StepResult:
    """A step with these calls, and re-registrations beside them."""
    step = profile.steps()[index]
    kpis = StepKpis()
    for outcome in outcomes:
        kpis.record_call(outcome)
    for refresh in many(150, "reregistration", 0.5, 0.006):
        kpis.record(refresh)
    kpis.sessions.observe(spans(step, 0.015), step.warm_up_s, step.duration_s)
    return StepResult(
        index=index, registered_before=1000, registered_after=1000,
        elapsed_s=step.duration_s + 90.1, complete=True, kpis=kpis,
        health=[health(20.0, step.duration_s)], sut=sut,
    )  # fmt: skip


def calls_at(step: Step, count: int) -> list[CallOutcome]:
    """Answered calls at the step's rate, set up in 15 ms to 30 ms."""
    return [
        call(due_at=1000 + i / step.rate, setup_s=0.015 * (1 + i / count), phone_s=0.0009)
        for i in range(count)
    ]


def register_step(profile: Profile, index: int, sut: TargetUsage) -> StepResult:
    step = profile.steps()[index]
    kpis = StepKpis()
    for outcome in many(1000, "registration", step.rate, 0.010):
        kpis.record(outcome)
    if step.kind == "cycle":
        for outcome in many(1000, "deregistration", step.rate, 0.004):
            kpis.record(outcome)
    return StepResult(
        index=index, registered_before=step.registered_before, registered_after=1000,
        elapsed_s=step.duration_s, complete=True, kpis=kpis,
        health=[health(2.0, step.duration_s)], sut=sut,
    )  # fmt: skip


def failed_calls() -> list[CallOutcome]:
    """One refused at the UPDATE, one dropped by the network, one that is a wrong call."""
    refused = refused_call(500, cause="500", stage="update", progress=True, due_at=1010.0)
    dropped = call(due_at=1011.0, dropped=True, cause="early bye", stage="talk", hold_s=12.0)
    dropped.release_by = "network"
    wrong = call(due_at=1012.0, wrong="caller identity", cause="wrong call", stage="check")
    wrong.events = {"repeated_2xx": 2}
    return [refused, dropped, wrong]


def line(at: float, direction: Literal["->", "<-"], text: str) -> LadderEntry:
    return LadderEntry(at=at, direction=direction, text=text, protected=True)


LADDERS = Failure(
    procedure="call", stage="update", cause="500", detail="500 Rx | no answer", phone=17, callee=402,
    ladder=[
        line(0.0001, "->", "INVITE sip:+15550000403@ims.example;user=phone SIP/2.0"),
        line(0.0151, "<-", "SIP/2.0 183 Session Progress"),
        line(0.0301, "<-", "SIP/2.0 500 Rx\n```"),
    ],
    callee_ladder=[
        line(0.0070, "<-", "INVITE sip:402@192.0.2.40 SIP/2.0"),
        line(0.0080, "->", "SIP/2.0 183 Session Progress"),
    ],
)  # fmt: skip


def usage(cpu: float | None, memory: int, host: float | None = None) -> TargetUsage:
    return TargetUsage(cpu_cores=cpu, host_cpu_cores=host, memory_rss_bytes=memory, processes=1)


def calls_made(profile_text: str = PROFILE) -> RunResult:
    """Two clean steps of registrations, one clean step of calls, one with three failures."""
    profile = parse_profile(profile_text)
    slow, fast = profile.steps()[2:]
    clean = call_step(profile, 2, calls_at(slow, 400), usage(0.05, 211 << 20, 0.11))
    failing = call_step(
        profile, 3, [*calls_at(fast, 997), *failed_calls()], usage(0.1, 267 << 20, 0.19)
    )
    failing.failures = [LADDERS]
    steps = [
        register_step(profile, 0, usage(None, 90 << 20)),
        register_step(profile, 1, usage(0.97, 101 << 20, 1.31)),
        clean,
        failing,
    ]
    return RunResult(
        id="2026-01-02T03-04-05Z_published_external", version="1.2.3",
        started=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        ended=datetime(2026, 1, 2, 3, 22, 41, tzinfo=UTC),
        status="complete", self_test=profile.target.kind != "external", seed=1, profile=profile,
        hosts=[
            Host(role="generator", system="Debian GNU/Linux 13", kernel="Linux 6.18.5 x86_64",
                 cpu="Example CPU @ 2.00GHz", cpus=4, memory_bytes=16 << 30, open_files=20_000)
        ],
        steps=steps,
        hss=HssResult(commands={"LIR": command(2500, 0.0002)}, registered=1000),
        pcrf=PcrfResult(
            commands={
                "AAR": command(10_000, 0.0011),
                "STR": CommandResult(count=5000, results={"2001": 4999, "5002": 1},
                                     response_time=histogram(*(0.0011 for _ in range(5000)))),
            },
            sessions=1000, most_media_sessions=904, wrong={"AAR without flow": 2},
        ),
        idle=usage(None, 30 << 20),
        ended_calls=EndedCalls(released_s=118.2),
        workers=[WorkerResult(registered=1000, connections=2000, backend="kernel",
                              counters={"outside_any_step": 1526})],
        thresholds=thresholds(profile, steps),
        exit_code=1,
    )  # fmt: skip
