"""Expected against measured: what must follow from other numbers, next to what was counted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isnan

from imsbench.kpi.kpis import ProcedureKpis, StepKpis
from imsbench.kpi.traffic import mean_in_progress, standard_error
from imsbench.profile import Step
from imsbench.report.form import DASH, spell_level, table
from imsbench.report.parts import SimulatorResult
from imsbench.report.result import RunResult, StepResult
from imsbench.report.tables import Lines, name_of, pairs

CONSTANT_TOLERANCE = 0.01
"""How far calls in progress may lie off for constant arrivals and times, as a share."""
STANDARD_ERRORS = 3.0
"""The same for random ones."""


def expectations(result: RunResult) -> Lines:
    """Every comparison, one row each."""
    rows: list[Sequence[str]] = []
    for step, done in pairs(result):
        rows += _arrivals(step, done)
    for step, done in pairs(result):
        if step.calls is not None:
            rows.append(_in_progress(step, done))
    if result.profile.target.kind == "embedded":
        rows += _diameter(result)
    rows += _registered(result)
    yield "## Expected against measured"
    yield ""
    yield from table(("What", "Expected", "Measured", "Result"), rows, "lrrl")
    yield ""
    yield from _rules(result)


def _arrivals(step: Step, done: StepResult) -> Iterator[list[str]]:
    if step.registrations:
        made = done.kpis.procedures["registration"].attempted
        # A fill also registers whom the target lost before.
        lost = step.registered_before - done.registered_before if step.kind == "fill" else 0
        what = "Registrations" if step.calls is not None else "Arrivals"
        again = done.recovery.retries if done.recovery is not None else 0
        planned = step.registrations + max(0, lost) + again
        yield _compare(f"{what} of “{name_of(step)}”", planned, made)
    if step.calls is not None:
        calls = step.evaluated_calls
        if calls is None:  # Poisson: as many as became due in the evaluated time
            calls = sum(worker.called + worker.without_pair for worker in done.health)
        yield _compare(f"Calls of “{name_of(step)}”", calls, done.kpis.sessions.attempted)


@dataclass(frozen=True, slots=True)
class InProgress:
    """Calls in progress that Little's law expects of a step."""

    mean: float
    """How many."""
    tolerance: float
    """How far the measured mean may lie off."""
    why: str
    """Where the tolerance comes from."""


def expected_in_progress(step: Step, done: StepResult) -> InProgress | None:
    """Rate x (set-up + hold + release) of the answered, and the time of the others.

    None where the load did not stand when its evaluation began, or no call ended.
    """
    made = step.calls
    sessions = done.kpis.sessions
    if made is None or not sessions.attempted or not sessions.in_progress.observed_s:
        return None
    if step.points or step.burst or step.warm_up_s < made.hold.longest + made.ring.longest:
        return None
    time_s = 0.0
    answered = sessions.answered / sessions.attempted
    if answered:
        release_s = sessions.histogram("sdd").mean
        set_up_s = sessions.histogram("answer_time").mean
        time_s += answered * (set_up_s + made.hold.mean + (0.0 if isnan(release_s) else release_s))
    if answered < 1:
        time_s += (1 - answered) * sessions.histogram("unanswered_time").mean
    mean = mean_in_progress(step.rate, time_s)
    random = step.arrivals == "poisson" or made.hold.kind != "constant" or made.ring.mean > 0
    if not random and answered == 1:
        return InProgress(mean, CONSTANT_TOLERANCE * mean, "1 %")
    variance = made.hold.variance + made.ring.variance
    error = standard_error(step.rate, time_s, sessions.in_progress.observed_s, variance)
    return InProgress(mean, STANDARD_ERRORS * error, "3 standard errors")


def _in_progress(step: Step, done: StepResult) -> list[str]:
    what = f"Calls in progress of “{name_of(step)}”"
    measured = done.kpis.sessions.in_progress.mean
    expected = expected_in_progress(step, done)
    if expected is None or measured is None:
        why = "not compared: the load did not stand when its evaluation began"
        return [what, DASH, spell_level(measured), why]
    off = measured - expected.mean
    allowed = f"{spell_level(expected.tolerance)} allowed: {expected.why}"
    verdict = "agrees" if abs(off) <= expected.tolerance else "differs"
    value = f"{verdict}: {off:+,.2g} ({allowed})"
    return [what, f"{expected.mean:,.1f}", f"{measured:,.1f}", value]


def _diameter(result: RunResult) -> Iterator[list[str]]:
    """The reference core's transactions at the simulators."""
    if result.hss is not None:
        for command, expected in expected_cx(result).items():
            yield _compare(f"Cx {command}", expected, _count(result.hss, command))
    if result.pcrf is None:
        return
    at_least_one = any(kpis.sessions.attempted for kpis in everything(result))
    expected_of = expected_rx(result)
    for command in ("AAR", "STR"):
        measured = _count(result.pcrf, command)
        if isinstance(expected_of, str):
            yield [f"Rx {command}", DASH, f"{measured:,}", expected_of]
        elif expected_of[command] or measured or at_least_one:
            yield _compare(f"Rx {command}", expected_of[command], measured)


def _registered(result: RunResult) -> Iterator[list[str]]:
    """Registered phones in the end, on every side that counts them."""
    phones = sum(worker.registered for worker in result.workers)
    embedded = result.profile.target.kind == "embedded"
    if result.core is not None and result.workers and embedded:
        yield _compare("Registered in the end, at the core", phones, result.core.registered)
    if result.hss is not None and result.workers:
        yield _compare("Registered in the end, at the HSS", phones, result.hss.registered)
    if result.pcrf is not None and result.workers and embedded:
        what = "AF sessions in the end, at the PCRF"
        if any(step.storm is not None and step.storm.core == "lost" for step, _ in pairs(result)):
            why = "not compared: the core lost its state, and ended no session for that"
            yield [what, DASH, f"{result.pcrf.sessions:,}", why]
        else:
            yield _compare(what, phones, result.pcrf.sessions)


def _rules(result: RunResult) -> Lines:
    if result.steady_faults or result.timed_faults:
        yield "- **Faults were injected**: what they struck is missing here, or came again."
    if any(step.calls is not None for step, _ in pairs(result)):
        yield (
            "- **Calls in progress**: by Little's law the rate times (mean set-up + hold + mean "
            "release), and the mean time of calls that were not answered. Allowed: 1 % where arrivals "
            "and hold are constant, else 3 standard errors of a mean over the evaluated time T "
            "(constant times h at Poisson rate λ: variance λh²/T · (1 - h/3T))."
        )
    if result.profile.target.kind == "embedded" and result.hss is not None:
        yield (
            "- **Cx of the reference core**: a UAR for each REGISTER, a MAR for each challenge, a SAR "
            "for each registration and each de-registration that succeeded: 2 UAR, 1 MAR and 1 SAR for "
            "a registration with IMS-AKA, 1 UAR for a refresh, 1 UAR and 1 SAR for a de-registration; a "
            "LIR for each call."
        )
    if result.profile.target.kind == "embedded" and result.pcrf is not None:
        yield (
            "- **Rx of the reference core**: an AF session for each registration's signalling (1 AAR; 1 "
            "STR when it ends) and for each leg of a call: an AAR for each SDP answer and a STR, so 4 "
            "AAR and 2 STR for a call with preconditions, and none for one that is refused before. SDP "
            "answers are counted as the calling phones read them."
        )
    yield "- **Registered in the end**: expected is what the phones hold."
    outside = sum(worker.counters.get("outside_any_step", 0) for worker in result.workers)
    if outside:
        told = any(worker.outside is not None for worker in result.workers)
        yield (
            f"- {outside:,} attempts fell outside every step (warm-ups, and what was due between two "
            f"steps) and are in no table{'; the transactions above include them' if told else ''}."
        )


def _compare(what: str, expected: int, measured: int) -> list[str]:
    verdict = "adds up" if expected == measured else f"differs by {measured - expected:+,}"
    return [what, f"{expected:,}", f"{measured:,}", verdict]


def _count(simulator: SimulatorResult, command: str) -> int:
    answered = simulator.commands.get(command)
    return answered.count if answered else 0


def everything(result: RunResult) -> list[StepKpis]:
    """All that the phones did: in steps, beside them, and outside."""
    parts = [kpis for done in result.steps for kpis in (done.kpis, *done.beside)]
    return parts + [worker.outside for worker in result.workers if worker.outside is not None]


def expected_cx(result: RunResult) -> dict[str, int]:
    """Cx transactions of the reference core that follow from the phones' counts."""
    expected = {"UAR": 0, "MAR": 0, "SAR": 0, "LIR": 0}
    for kpis in everything(result):
        registering: list[ProcedureKpis] = [
            part for name, part in kpis.procedures.items() if not name.startswith("subscription")
        ]
        challenges = sum(part.challenges for part in registering)
        expected["UAR"] += challenges + sum(part.attempted for part in registering)
        expected["MAR"] += challenges
        expected["SAR"] += kpis.procedures["registration"].succeeded
        expected["SAR"] += kpis.procedures["deregistration"].succeeded
        expected["LIR"] += kpis.sessions.attempted
    if not expected["LIR"]:
        del expected["LIR"]
    return expected


def expected_rx(result: RunResult) -> dict[str, int] | str:
    """Rx transactions of the reference core that follow from what the phones met; or why they do not.

    A call asks about each SDP answer that reached its caller, on both legs; one that ended as planned
    before any answer asks nothing.
    """
    if any(step.storm is not None or step.moves for step, _ in pairs(result)):
        return "not compared: phones registered anew while the core held a session of theirs"
    expected = {"AAR": 0, "STR": 0}
    failed = uncounted = 0
    for kpis in everything(result):
        sessions = kpis.sessions
        expected["AAR"] += kpis.procedures["registration"].succeeded + 2 * sessions.sdp_answers
        expected["STR"] += kpis.procedures["deregistration"].succeeded + 2 * sessions.negotiated
        failed += sessions.attempted - sessions.planned
        uncounted += sessions.answered if not sessions.sdp_answers else 0
    if failed:
        return (
            f"not compared: calls failed ({failed:,}), and phones do not see how far the core had come "
            "with them"
        )
    return "not compared: this run did not count SDP answers" if uncounted else expected
