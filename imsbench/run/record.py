"""What the coordinator writes down while a run goes; the result is assembled from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from imsbench.kpi.halves import Halves
from imsbench.kpi.kpis import StepKpis
from imsbench.kpi.recovery import Recovery
from imsbench.kpi.timeline import Timeline
from imsbench.profile import Step
from imsbench.report.parts import Signature
from imsbench.report.result import Status

Json = dict[str, Any]


@dataclass(slots=True)
class StepRecord:
    """One step as its workers reported it, merged; or the repair fill before one."""

    step: Step
    """What was asked for."""
    kpis: StepKpis = field(default_factory=StepKpis)
    """All workers' KPIs, merged."""
    halves: Halves = field(default_factory=Halves)
    """Its two halves, merged."""
    timeline: Timeline = field(default_factory=Timeline)
    """How attempts of a search's trial were handled by second, all workers together."""
    registered_before: int = 0
    """Phones registered when it began."""
    registered_after: int = 0
    """Phones registered when it ended."""
    started_at: float = 0.0
    """Its start on the monotonic clock, seconds."""
    elapsed_s: float = 0.0
    """From its start to the last worker's word, seconds."""
    health: list[Json] = field(default_factory=list)
    """Each worker's own health in this step."""
    counters: dict[str, int] = field(default_factory=dict)
    """Counters of this step, added over the workers."""
    messages: dict[str, int] = field(default_factory=dict)
    """Messages of this step by direction, status and method, added over the workers."""
    commands: dict[str, dict[str, int]] = field(default_factory=dict)
    """Diameter requests of this step, by simulator and command; only where the run was told to look."""
    simulated: dict[str, Json] = field(default_factory=dict)
    """What each simulator answered in this step, by its name and by command."""
    failures: list[Json] = field(default_factory=list)
    """The first failure of each kind, with its ladder."""
    offered: dict[str, int] = field(default_factory=dict)
    """Attempts that the plan of a mix started, by procedure, added over the workers."""
    recovery: Recovery | None = None
    """How the phones came back, if it is a storm."""
    sut: Json | None = None
    """What the target used of its machine in this step; None: not measured."""
    complete: bool = False
    """Whether every worker ended it; False: the run ended within it."""
    repairs: list[StepRecord] = field(default_factory=list)
    """The rounds of fills that restored this step's precondition, outside the statistics."""
    again: StepRecord | None = None
    """The same calls a second time, outside the statistics: does their memory grow?"""

    @property
    def under_way(self) -> StepRecord:
        """What of this step was driven last: a repair, the step, or its second batch."""
        if self.again is not None:
            return self.again.under_way
        last = self.repairs[-1] if self.repairs else None
        return last if last is not None and not last.complete else self

    def add(self, message: Json) -> None:
        """Take one worker's ``step_done``."""
        self.kpis.merge(StepKpis.from_json(message["kpis"]))
        self.halves.merge(Halves.from_json(message["halves"]))
        if "timeline" in message:
            self.timeline.merge(Timeline.from_json(message["timeline"]))
        self.registered_after += int(message["registered"])
        self.health.append(message.get("health", {}))
        add_counts(self.counters, message.get("counters", {}))
        add_counts(self.messages, message.get("messages", {}))
        add_counts(self.offered, message.get("offered", {}))
        if message.get("recovery"):
            self.recovery = self.recovery or Recovery()
            self.recovery.merge(Recovery.from_json(message["recovery"]))
        known = {
            (failure["procedure"], failure["stage"], failure["cause"]) for failure in self.failures
        }
        for failure in message.get("failures", []):
            if (failure["procedure"], failure["stage"], failure["cause"]) not in known:
                self.failures.append(failure)


class Stall(NamedTuple):
    """A stretch in which a simulator's loop stood still."""

    name: str
    """Which simulator."""
    at: float
    """Its begin on the monotonic clock, seconds."""
    length_s: float
    """How long it lasted, seconds."""


@dataclass(slots=True)
class RunRecord:
    """A run from its start to its end."""

    started: datetime
    """When the load began, UTC."""
    ended: datetime | None = None
    """When it was over, UTC."""
    steps: list[StepRecord] = field(default_factory=list)
    """The steps that were begun, in order."""
    searched: bool = False
    """Whether they are not the profile's, but were chosen while it went."""
    workers: dict[str, Json] = field(default_factory=dict)
    """Each worker's ``result`` message."""
    simulators: dict[str, Json] = field(default_factory=dict)
    """The ``result`` messages of the HSS, the PCRF and the core."""
    idle: Json | None = None
    """What the target used of its machine before any load; None: not measured."""
    ended_calls: Json | None = None
    """What became of the memory of ended calls; None: not measured."""
    signature: Signature | None = None
    """What the target did for one phone and one call before the load."""
    stalls: list[Stall] = field(default_factory=list)
    """The simulators' stalls of the whole run."""
    load_at: float = 0.0
    """Beginning of the load on the monotonic clock, seconds, where the profile has timed faults."""
    ordered: list[tuple[int, int | None, float]] = field(default_factory=list)
    """Timed faults ordered: position in the profile, index of the step, instant on that clock."""
    timed_faults: dict[str, list[Json]] = field(default_factory=dict)
    """What the processes told last of the timed faults that have begun."""
    status: Status = "complete"
    """"complete", "interrupted", "aborted", "target_died" or "generator_failed"."""
    reason: str = ""
    """Why it is not complete, in one sentence."""
    output: str = ""
    """The end of what a lost child wrote."""
    unreached: bool = False
    """Whether it was stopped because the target was never there."""
    exit_code: int = 0
    """What the status alone asks for."""

    def note(self, name: str, message: Json) -> None:
        """Take the stalls and the timed faults that a message of a child may carry."""
        if "timed_faults" in message:  # all that have begun, each time
            self.timed_faults[name] = message["timed_faults"]
        self.stalls += [Stall(name, at, length_s) for at, length_s in message.get("stalls", ())]

    def longest_stall_s(self, name: str, step: StepRecord) -> float:
        """The longest stall of a simulator that touched a step, seconds; 0 if there was none."""
        return max(
            (
                stall.length_s
                for stall in self.stalls
                if stall.name == name
                and stall.at < step.started_at + step.elapsed_s
                and stall.at + stall.length_s > step.started_at
            ),
            default=0.0,
        )

    @property
    def captures(self) -> list[Json]:
        """What the workers tell of their captures, where they were told to capture."""
        told = [result.get("pcap") for _, result in sorted(self.workers.items())]
        return [capture for capture in told if capture]

    @property
    def left_registered(self) -> int:
        """Phones that were to de-register at the end, and did not."""
        return sum(result.get("left_registered", 0) for result in self.workers.values())

    @property
    def ladders(self) -> list[list[Json]]:
        """The ladders of all attempts, where the workers were told to keep them."""
        return [ladder for result in self.workers.values() for ladder in result.get("ladders", [])]

    @property
    def call_ladders(self) -> list[Json]:
        """Both ladders of all calls, where the workers were told to keep them: ladder, callee_ladder."""
        return [one for result in self.workers.values() for one in result.get("call_ladders", [])]


def add_counts(totals: dict[str, int], counts: Json) -> None:
    """Add counts into totals, name by name."""
    for name, count in counts.items():
        totals[name] = totals.get(name, 0) + int(count)
