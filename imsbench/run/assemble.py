"""From what the coordinator wrote down to the result: verdicts, thresholds, the exit code."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from math import sqrt

import imsbench
from imsbench.distribution import Distribution
from imsbench.histogram import Histogram
from imsbench.kpi.halves import CallTimes, disagreements
from imsbench.kpi.kpis import StepKpis
from imsbench.kpi.statistics import Z_95, enough, quantile_interval
from imsbench.kpi.thresholds import overall, parse_threshold
from imsbench.kpi.verdict import (
    INCOMPLETE,
    judge_response_time,
    judge_slowest_responses,
    judge_stall,
    judge_step,
)
from imsbench.profile import Hss, Pcrf, Profile, Step, faults_of_step
from imsbench.profile.conditions import Condition
from imsbench.report.account import merged_times
from imsbench.report.health import SOCKET_DROPS, segments_resent
from imsbench.report.objections import objections
from imsbench.report.parts import (
    CommandResult,
    CoreResult,
    EndedCalls,
    Failure,
    HssResult,
    PcrfResult,
    TargetUsage,
    WorkerHealth,
    WorkerResult,
)
from imsbench.report.result import Repair, RunResult, StepResult, ThresholdResult
from imsbench.report.tables import pairs
from imsbench.run import configs, injected, topology
from imsbench.run.exits import BROKEN, KEPT, UNVOUCHED, gravest
from imsbench.run.machine import this_host
from imsbench.run.record import Json, RunRecord, StepRecord
from imsbench.run.suspect import limiter

GENERATOR_DROPS = (
    "esp tun_write_failed",
    "esp raw_send_failed",
    "esp tun_queue_dropped",
    "esp raw_queue_dropped",
    *(f"net {name}" for name in SOCKET_DROPS),
)
"""Counters of a worker that mean: the generator itself lost something."""


def assemble(
    profile: Profile, record: RunRecord, identifier: str, *, unvouched: int = UNVOUCHED
) -> RunResult:
    """The result of a run, judged.

    identifier: the name of its folder; unvouched: the exit code where the generator cannot vouch
    (a demo on a busy machine is not wrong for that).
    """
    self_test = profile.target.kind in ("embedded", "null")
    beside = profile.target.kind != "external"
    hss = record.simulators.get(topology.HSS)
    pcrf = record.simulators.get(topology.PCRF)
    core = record.simulators.get(topology.CORE)
    result = RunResult(
        id=identifier,
        version=imsbench.__version__,
        started=record.started,
        # The wall clock may have been set back meanwhile.
        ended=max(record.started, record.ended or datetime.now(UTC)),
        status=record.status,
        reason=record.reason,
        self_test=self_test,
        seed=profile.seed,
        profile=profile,
        hosts=[this_host("generator and target" if beside else "generator")],
        plan=[step.step for step in record.steps] if record.searched else [],
        steps=[step_result(profile, record, step) for step in record.steps],
        hss=HssResult.model_validate(hss) if hss else None,
        pcrf=PcrfResult.model_validate(pcrf) if pcrf else None,
        signature=record.signature,
        idle=_usage(record.idle),
        ended_calls=EndedCalls.model_validate(record.ended_calls) if record.ended_calls else None,
        core=CoreResult.model_validate(core) if core and self_test else None,
        workers=[WorkerResult.model_validate(told) for _, told in sorted(record.workers.items())],
        steady_faults=injected.steady_faults(record),
        timed_faults=injected.timed_faults(record),
        thresholds=[_judge(one, record.steps) for one in profile.thresholds],
        exit_code=KEPT,
    )
    return _judged(profile, record, result, unvouched)


def _judged(profile: Profile, record: RunRecord, result: RunResult, unvouched: int) -> RunResult:
    """The same with what speaks against it, what is suspected, and the exit code."""
    reasons, findings = list[str](), list[str]()
    # Where the target failed phones, it may well hold what they do not, and the other way round.
    (findings if _target_failed(result) else reasons).extend(_count_reasons(profile, result))
    reasons += _silent_children(profile, result)
    if record.status == "generator_failed":
        reasons.append(f"The generator failed: {record.reason}.")
    suspected = ""
    if not record.searched:
        suspected = limiter(pairs(result), profile.search.objective, result.hosts[0].cpus)
    told = {"reasons": reasons, "findings": findings, "limiter": suspected}
    result = result.model_copy(update=told)
    against = objections(result)
    result = result.model_copy(update={"publishable": not against, "unpublishable": against})
    if record.unreached:  # no measurement to vouch for, and no threshold that could be broken
        return result.model_copy(update={"exit_code": record.exit_code})
    return result.model_copy(update={"exit_code": _exit_code(result, record.exit_code, unvouched)})


def step_result(profile: Profile, run: RunRecord, record: StepRecord) -> StepResult:
    """One step, judged; the run may still be under way."""
    stalls = {
        name.upper(): run.longest_stall_s(name, record) for name in (topology.HSS, topology.PCRF)
    }
    health = [WorkerHealth.model_validate(part) for part in record.health]
    limits = profile.generator.limits
    simulated = {
        name.upper(): {
            command: CommandResult.model_validate(told) for command, told in commands.items()
        }
        for name, commands in sorted(record.simulated.items())
    }
    return StepResult(
        index=record.step.index,
        registered_before=record.registered_before,
        registered_after=record.registered_after,
        elapsed_s=record.elapsed_s,
        complete=record.complete,
        kpis=record.kpis,
        health=health,
        counters=record.counters,
        failures=[Failure.model_validate(failure) for failure in record.failures],
        simulated=simulated,
        hss_stall_s=stalls["HSS"],
        pcrf_stall_s=stalls["PCRF"],
        reasons=[
            *_step_reasons(profile, record, health),
            *_simulator_reasons(profile, simulated),
            *(
                reason
                for name, one in stalls.items()
                for reason in judge_stall(name, one, limits).reasons
            ),
        ],
        findings=_step_findings(record),
        offered=record.offered,
        recovery=record.recovery,
        unsteady=_unsteady(record),
        sut=_usage(record.sut),
        repair=_repair(record.repairs),
        second_batch=_second_batch(record.again),
    )


def _usage(told: Json | None) -> TargetUsage | None:
    return None if told is None else TargetUsage.model_validate(told)


def _step_reasons(profile: Profile, record: StepRecord, health: list[WorkerHealth]) -> list[str]:
    step = record.step
    drops = {name: record.counters.get(name, 0) for name in GENERATOR_DROPS}
    drops["arrivals that found no idle phone"] = sum(part.dropped for part in health)
    drops["calls that found no idle pair of phones"] = sum(part.without_pair for part in health)
    if record.recovery is not None:
        drops["phones that the storm did not reach"] = record.recovery.not_lost
    drops["connections closed for want of a file descriptor"] = record.counters.get(
        "accept_without_descriptor", 0
    )
    drops["attempts not over when the drain was"] = sum(part.unfinished for part in health)
    verdict = judge_step(
        record.kpis,
        limits=profile.generator.limits,
        workers=health,
        planned=step.registrations,
        planned_calls=_planned_calls(step, health),
        lost=drops,
        # A target that stood still on purpose acknowledged nothing meanwhile.
        resent=None if _stands_still(profile, step) else segments_resent(record.counters),
        complete=record.complete,
    )
    reasons = list(verdict.reasons)
    if record.registered_before > step.registered_before and record.started_at:
        reasons.append(
            f"{record.registered_before:,} phones were registered when it began; "
            f"{step.registered_before:,} are its precondition."
        )
    return reasons


def _planned_calls(step: Step, health: list[WorkerHealth]) -> int:
    """Calls that the step must have counted: by the plan, or as many as Poisson made due in it."""
    if step.evaluated_calls is not None:
        return step.evaluated_calls
    return sum(part.called for part in health)


def _step_findings(record: StepRecord) -> list[str]:
    """What the target still refused after the repairs."""
    wanted = record.step.registered_before
    if not record.started_at or record.registered_before >= wanted:
        return _storm_findings(record)
    return [
        f"precondition not met: {record.registered_before:,} of {wanted:,} registered",
        *_storm_findings(record),
    ]


def _storm_findings(record: StepRecord) -> list[str]:
    """Whether all phones came back after a storm."""
    recovery = record.recovery
    if recovery is None or recovery.all_registered_s is not None:
        return []
    back, whole = recovery.registered.count, recovery.lost + recovery.not_lost
    return [f"{back:,} of {whole:,} phones were registered again within the limit"]


def _unsteady(record: StepRecord) -> list[str]:
    """What differs between the halves of a step that is to be steady."""
    step = record.step
    if not step.uniform or not record.complete:
        return []
    halves = (record.sut or {}).get("cpu_halves")
    return list(
        disagreements(
            record.halves,
            cpu_cores=tuple(halves) if halves else None,
            calls=_random_calls(step),
        )
    )


def _stands_still(profile: Profile, step: Step) -> bool:
    """Whether the target is told to stand still in this step, or at some instant of the load."""
    faults = [one for of in (step, None) for _, one in faults_of_step(profile.faults, of)]
    return any(one.what == "core_stall" for one in faults)


def _random_calls(step: Step) -> CallTimes | None:
    """How long calls take from ringing to release, where their number is left to chance."""
    if step.calls is None:
        return None
    hold, ring = step.calls.hold, step.calls.ring
    variance = hold.variance + ring.variance
    if (step.arrivals != "poisson" and not variance) or not hold.mean + ring.mean:
        return None
    return CallTimes(hold.mean + ring.mean, variance)


def _repair(rounds: list[StepRecord]) -> Repair | None:
    if not rounds:
        return None
    kpis = StepKpis()
    for one in rounds:
        kpis.merge(one.kpis)
    return Repair(
        registered_before=rounds[0].registered_before,
        registered_after=rounds[-1].registered_after,
        elapsed_s=sum(one.elapsed_s for one in rounds),
        rounds=len(rounds),
        kpis=kpis,
    )


def _second_batch(record: StepRecord | None) -> StepKpis | None:
    """All that a second batch of calls did, the repair before it included."""
    if record is None:
        return None
    kpis = StepKpis()
    for one in (*record.repairs, record):
        kpis.merge(one.kpis)
    return kpis


def _judge(condition: Condition, records: list[StepRecord]) -> ThresholdResult:
    threshold = parse_threshold(condition.that)
    steps = [record for record in records if condition.applies(record.step)]
    states = {record.step.index: threshold.evaluate(record.kpis) for record in steps}
    values = {record.step.index: threshold.value(record.kpis) for record in steps}
    return ThresholdResult(
        text=threshold.text,
        during=condition.during,
        state=overall(list(states.values())),
        steps={index: value for index, value in values.items() if value is not None},
        broken_in=[index for index, state in states.items() if state == "broken"],
    )


def _simulator_reasons(
    profile: Profile, simulated: dict[str, dict[str, CommandResult]]
) -> Iterator[str]:
    """The simulators' achieved response times in one step against the configured ones."""
    simulators, limits = profile.simulators, profile.generator.limits
    configured = {
        "HSS": (simulators.hss or Hss()).response_time,
        "PCRF": (simulators.pcrf or Pcrf()).response_time,
    }
    for name, commands in simulated.items():
        wanted = configured[name]
        expected_s = Distribution(**configs.distribution_config(wanted)).quantile(0.99)
        mean_s = _surely_above(merged_times(commands))
        yield from judge_response_time(name, wanted.mean, mean_s, limits).reasons
        for command, done in sorted(commands.items()):
            slowest_s = _slowest(done.response_time, drawn=wanted.kind != "constant")
            yield from judge_slowest_responses(name, command, expected_s, slowest_s, limits).reasons


def _surely_above(times: Histogram) -> float | None:
    """What the mean is above with 97.5 %, seconds: the delays are drawn, and a step may have few."""
    if not times.count:
        return None
    return times.mean - Z_95 * times.deviation / sqrt(times.count)


def _slowest(times: Histogram, *, drawn: bool) -> float | None:
    """The p99, seconds; where the delay is drawn it varies, and only what is surely above counts."""
    if not enough(0.99, times.count):
        return None
    return quantile_interval(times, 0.99)[0] if drawn else times.quantile(0.99)


def _count_reasons(profile: Profile, result: RunResult) -> list[str]:
    """Whether phones, core and HSS agree on how many are registered at the end of a whole run."""
    if result.status != "complete" or _silent_children(profile, result):
        return []
    if result.core is None or result.hss is None or profile.target.kind != "embedded":
        return []
    phones = sum(worker.registered for worker in result.workers)
    if phones == result.core.registered == result.hss.registered:
        return []
    return [
        f"The counts of registered phones differ at the end: phones {phones:,}, "
        f"core {result.core.registered:,}, HSS {result.hss.registered:,}."
    ]


def _silent_children(profile: Profile, result: RunResult) -> list[str]:
    """Whether every process of a whole run against the embedded target reported at its end."""
    if result.status != "complete" or profile.target.kind != "embedded":
        return []
    told = result.core is not None and result.hss is not None
    if told and len(result.workers) == profile.generator.workers:
        return []
    return ["Not every process said at its end what it had measured."]


def _target_failed(result: RunResult) -> bool:
    """Whether any procedure failed, in a step or beside it."""
    parts = [kpis for done in result.steps for kpis in (done.kpis, *done.beside)]
    return any(kpis.totals()["failed"] for kpis in parts)


def _exit_code(result: RunResult, so_far: int, unvouched: int) -> int:
    codes = [so_far]
    # Undefined is not kept: a gate that measured nothing must not open.
    if any(threshold.state != "kept" for threshold in result.thresholds):
        codes.append(BROKEN)
    if result.findings or any(step.findings for step in result.steps):
        codes.append(BROKEN)
    if not _vouched(result):
        codes.append(unvouched)
    return gravest(codes)


def _vouched(result: RunResult) -> bool:
    """Whether the generator vouches for what was measured; a step that a threshold ended is cut short."""
    if result.status != "aborted":
        return result.valid
    return not result.reasons and all(set(step.reasons) <= {INCOMPLETE} for step in result.steps)
