"""A whole search: from a profile to a result on disk and an exit code."""

from __future__ import annotations

from pathlib import Path

from imsbench.kpi.statistics import exact
from imsbench.profile import Profile, SearchProcedure
from imsbench.report.form import spell_share, spell_time
from imsbench.report.search import answer as spell_answer
from imsbench.run import network
from imsbench.run.assemble import assemble, step_result
from imsbench.run.coordinator import Coordinator
from imsbench.run.events import Stage, Watcher
from imsbench.run.execute import Finished, folder_for, make_folder
from imsbench.run.exits import gravest
from imsbench.run.launch import DEFAULT_MODULES, Modules
from imsbench.run.record import StepRecord
from imsbench.run.store import store
from imsbench.search.answer import EXIT_CODES, answer
from imsbench.search.conductor import Conductor
from imsbench.search.methods import Method, rules
from imsbench.search.plan import Plan, make_plan


def prepare(profile: Profile, procedure: SearchProcedure, method: Method) -> Plan:
    """The plan of a search; ProfileError if the profile has not what it takes.

    What belongs to a run's own steps has no place in it: thresholds, and faults at instants.
    """
    return make_plan(profile.model_copy(update={"thresholds": (), "faults": ()}), procedure, method)


def announce(plan: Plan) -> list[str]:
    """Objective, confidence, stop rule and ceiling, line by line, before anything starts."""
    search = plan.search
    limits = ", ".join(f"{name} {spell_time(limit_s)}" for name, limit_s in plan.limits.items())
    attempts = round(plan.span.start * plan.duration_s(plan.span.start))
    bounds = exact(0, attempts, search.confidence)
    assert bounds is not None
    most = "whatever it takes" if plan.most > 1e6 else f"{plan.most:.4g}/s at most"
    return [
        f"Searching {plan.procedure} by {plan.method}, with {plan.registered:,} registered; {most}.",
        f"Objective: at most {100 * plan.objective:g}% of each scenario's attempts fail or take longer "
        f"than its limit ({limits}).",
        f"Confidence: {100 * search.confidence:g}%; none of the first step's {attempts:,} attempts handled "
        f"inadequately shows a share of at most {spell_share(bounds[1])}.",
        *rules(plan.method, plan.span, search),
        f"Then a fresh step at each end of the interval, an overload at {search.overload:g} times the "
        f"capacity, and {search.relief:g} times it straight after one.",
    ]


def execute(
    plan: Plan, watch: Watcher, out: Path, *, modules: Modules = DEFAULT_MODULES
) -> Finished:
    """Search and write ``out/<start>_<profile>_<target>/{result.json,report.md}``.

    RunRefused if no load could be started; what could not be written is in ``stored``.
    """
    profile = plan.profile
    make_folder(out)  # before the load, not after it
    network.enter(profile)

    def judge(record: StepRecord) -> list[str]:
        return step_result(profile, coordinator.record, record).reasons

    conductor = Conductor(plan, judge)
    coordinator = Coordinator(profile, watch, modules=modules, source=conductor.source())
    record = coordinator.run()
    watch(Stage("writing the result"))
    folder = folder_for(profile, record, out)
    result = assemble(profile, record, folder.name)
    if record.reason and conductor.outcome == "interrupted":
        conductor.reason = f"The search did not come to its end: {record.reason}."
    found = answer(conductor, result.hosts[0].cpus)
    # A step without the generator's word was made again, and counts for nothing.
    code = gravest((record.exit_code, EXIT_CODES[conductor.outcome]))
    result = result.model_copy(update={"search": found, "exit_code": code})
    stored = store(result, folder)
    lines = [
        f"{spell_answer(found)}.",
        found.reason,
        f"At its limit: {found.resource}. {found.evidence}",
    ]
    lines += [f"Not complete: {result.reason}."] if result.reason else []
    lines += [f"    {line}" for line in record.output.splitlines()]
    return Finished(result, stored, lines, [])
