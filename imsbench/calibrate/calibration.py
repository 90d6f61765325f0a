"""Runs the cases, one after the other, and keeps what came of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from imsbench.calibrate.cases import Case
from imsbench.calibrate.row import Row
from imsbench.profile import Profile
from imsbench.report.parts import Host
from imsbench.report.result import RunResult
from imsbench.run.assemble import assemble
from imsbench.run.coordinator import Coordinator
from imsbench.run.events import Watcher
from imsbench.run.exits import BROKEN, KEPT, UNVOUCHED, RunRefused, gravest

Run = Callable[[Profile, Watcher], RunResult]
"""Runs a profile; RunRefused if it cannot be started."""


@dataclass(frozen=True, slots=True)
class Done:
    """A case that was run."""

    case: Case
    """Which."""
    rows: list[Row]
    """What was injected beside what was measured."""
    reasons: list[str] = field(default_factory=list)
    """Why the generator cannot vouch for it; empty: it does."""
    hosts: list[Host] = field(default_factory=list)
    """The machine."""


def run_profile(profile: Profile, watch: Watcher) -> RunResult:
    """One run in the namespace this process has entered; RunRefused if it did not come to its end."""
    record = Coordinator(profile, watch).run()
    result = assemble(profile, record, profile.name)
    if result.status != "complete":
        raise RunRefused(f"a case did not come to its end: {result.reason}", record.exit_code)
    return result


def calibrate(cases: Sequence[Case], watch: Watcher, run: Run = run_profile) -> Iterator[Done]:
    """The cases, each as soon as it is done; RunRefused ends it."""
    for case in cases:
        result = run(case.profile, watch)
        yield Done(
            case,
            case.judge(result),
            [*result.reasons, *(reason for step in result.steps for reason in step.reasons)],
            result.hosts,
        )


def exit_code(done: Sequence[Done]) -> int:
    """1 where a row is wrong, 3 where the generator cannot vouch for a case."""
    codes = [KEPT]
    if not all(row.ok for one in done for row in one.rows):
        codes.append(BROKEN)
    if any(one.reasons for one in done):
        codes.append(UNVOUCHED)
    return gravest(codes)
