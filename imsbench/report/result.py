"""The result of a run as a file: everything a report, a comparison or a doubt may ask for.

A result explains itself: its schema's version, the tool's version, the profile in full, the hosts,
what was asked for and what was measured, distributions instead of percentiles. Undefined numbers
are null; NaN never enters. A file that is no result is a ResultError that says why.
"""

from __future__ import annotations

import pathlib
from typing import Annotated, Literal, Self

import pydantic_core
from pydantic import AfterValidator, AwareDatetime, Field, ValidationError, model_validator

from imsbench.kpi.definitions import DEFINITIONS
from imsbench.kpi.kpis import StepKpis
from imsbench.kpi.thresholds import State, parse_threshold
from imsbench.profile import Profile, Step
from imsbench.report.parts import (
    CommandResult,
    CoreResult,
    Counts,
    EndedCalls,
    Failure,
    Host,
    HssResult,
    KpisField,
    Part,
    PcrfResult,
    RecoveryField,
    Signature,
    SteadyFaultResult,
    TargetUsage,
    TimedFaultResult,
    WorkerHealth,
    WorkerResult,
)
from imsbench.report.searched import SearchResult
from imsbench.report.versions import READ, SCHEMA_VERSION, upgraded

Status = Literal["complete", "interrupted", "aborted", "target_died", "generator_failed"]


class ResultError(Exception):
    """A file that is not a result of this program, or not one this version can read."""


def _threshold(text: str) -> str:
    parse_threshold(text)
    return text


class Repair(Part):
    """The fill that restored a step's precondition, outside the statistics."""

    registered_before: int
    """Phones registered when it began."""
    registered_after: int
    """Phones registered when it ended."""
    elapsed_s: float
    """How long it took, seconds."""
    rounds: int = 1
    """How many rounds it took."""
    kpis: KpisField
    """What it did; not part of any table."""


class StepResult(Part):
    """One step of the load."""

    index: int
    """Position in the run, from 0; the profile's steps have the same."""
    registered_before: int
    """Phones registered when it began."""
    registered_after: int
    """Phones registered when it ended."""
    elapsed_s: float
    """From its start until its last attempt had ended, seconds."""
    complete: bool
    """Whether it ran to its end."""
    kpis: KpisField
    """All workers' KPIs, merged."""
    health: list[WorkerHealth]
    """Each worker's view of itself."""
    counters: Counts = Field(default_factory=dict)
    """Counted events of this step, all workers together."""
    failures: list[Failure] = Field(default_factory=list)
    """The first failure of each kind."""
    simulated: dict[str, dict[str, CommandResult]] = Field(default_factory=dict)
    """What the simulators answered in it, by simulator ("HSS") and command ("UAR")."""
    hss_stall_s: Annotated[float, Field(ge=0)] = 0.0
    """Longest stretch of it in which the HSS simulator stood still, seconds; 0: below 10 ms."""
    pcrf_stall_s: Annotated[float, Field(ge=0)] = 0.0
    """The same of the PCRF simulator."""
    reasons: list[str] = Field(default_factory=list)
    """Why the generator cannot vouch for it; empty: valid."""
    findings: list[str] = Field(default_factory=list)
    """What the target did that makes it another step than the profile's: not the generator's fault."""
    offered: Counts = Field(default_factory=dict)
    """Attempts that the plan of a mix started, by procedure: call, refresh, reattach, power_cycle."""
    recovery: RecoveryField | None = None
    """How the phones came back, if it is a storm."""
    unsteady: list[str] = Field(default_factory=list)
    """What differs between its two halves; empty: steady, or not judged (fills, changing rates)."""
    sut: TargetUsage | None = None
    """What the target used in it; null: not measured."""
    repair: Repair | None = None
    """The fill before it, if its precondition had to be restored."""
    second_batch: KpisField | None = None
    """What the same calls did a second time, to see whether their memory grows; in no table."""

    @property
    def beside(self) -> list[StepKpis]:
        """What was done for it and is in no table."""
        repair = [] if self.repair is None else [self.repair.kpis]
        return repair if self.second_batch is None else [*repair, self.second_batch]

    @property
    def valid(self) -> bool:
        """Whether the generator vouches for its numbers."""
        return not self.reasons


class ThresholdResult(Part):
    """One threshold of the profile, judged."""

    text: Annotated[str, AfterValidator(_threshold)]
    """As the profile has it."""
    during: str = ""
    """In which steps it must hold, as the profile has it; empty: in all."""
    state: State
    """Over all steps."""
    steps: dict[int, float]
    """What was compared, by step; only steps in which it was defined."""
    broken_in: list[int] = Field(default_factory=list)
    """Steps that broke it."""

    @property
    def of_rate(self) -> bool:
        """Whether it says how many attempts may fail."""
        return DEFINITIONS[parse_threshold(self.text).key].kind == "ratio"

    @property
    def title(self) -> str:
        """With the steps it is for."""
        return f"{self.text} in {self.during}" if self.during else self.text


class RunResult(Part):
    """One run of one profile against one target."""

    schema_version: Literal[3] = SCHEMA_VERSION
    """Form of this file."""
    id: str
    """Name of the result's folder."""
    version: str
    """Version of imsbench."""
    started: AwareDatetime
    """When the load began, UTC."""
    ended: AwareDatetime
    """When all was over, UTC."""
    status: Status
    """How it ended."""
    reason: str = ""
    """Why it is not complete, in one sentence."""
    self_test: bool
    """Whether the target was ours, on the generator's machine: never publishable as a capacity."""
    seed: int
    """What the load was drawn from."""
    profile: Profile
    """The profile in full."""
    plan: list[Step] = Field(default_factory=list)
    """The steps that were chosen while it went; empty: the profile's."""
    search: SearchResult | None = None
    """What a search for capacity found; null: it was none."""
    limiter: str = ""
    """Why a limit that is not the target's processors is suspected; empty: none is."""
    hosts: list[Host]
    """The machines."""
    steps: list[StepResult]
    """The steps that were begun, in order."""
    hss: HssResult | None = None
    """The HSS simulator, if there was one and it lived to tell."""
    pcrf: PcrfResult | None = None
    """The PCRF simulator, if there was one and it lived to tell."""
    signature: Signature | None = None
    """What the target did for one phone and one call before the load; null: not observed, or it failed."""
    idle: TargetUsage | None = None
    """What the target used before any load; null: not measured."""
    ended_calls: EndedCalls | None = None
    """What became of the memory of ended calls; null: not measured."""
    core: CoreResult | None = None
    """The embedded target, if there was one and it lived to tell."""
    workers: list[WorkerResult] = Field(default_factory=list)
    """The workers that lived to tell."""
    steady_faults: list[SteadyFaultResult] = Field(default_factory=list)
    """What was injected by share: the target's faults, the HSS's, the PCRF's, in the profile's order."""
    timed_faults: list[TimedFaultResult] = Field(default_factory=list)
    """What was injected at instants, in the order of the orders."""
    thresholds: list[ThresholdResult] = Field(default_factory=list)
    """The profile's thresholds, judged."""
    reasons: list[str] = Field(default_factory=list)
    """Why the generator cannot vouch for the run as a whole; empty: it can."""
    findings: list[str] = Field(default_factory=list)
    """What the target did wrong that no step shows."""
    publishable: bool = False
    """Whether it may be published as a capacity."""
    unpublishable: list[str] = Field(default_factory=list)
    """Why it may not, one sentence each."""
    exit_code: int
    """What the process returned."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        asked = self.asked
        planned = len(self.profile.steps())
        for step in self.steps:
            if step.index not in asked:
                raise ValueError(
                    f"step {step.index} is none of the {len(asked)} that were asked for"
                )
        if self.search is not None:
            made = [step.index for step in self.steps]
            lost = [one.step for one in self.search.trials if one.step not in made]
            broke = self.search.broke_step
            if lost or (broke is not None and broke not in [t.step for t in self.search.trials]):
                raise ValueError("its search has steps that were not made")
        for timed in self.timed_faults:
            if not 0 <= timed.fault < len(self.profile.faults):
                raise ValueError(f"fault {timed.fault} is not of the profile")
            if timed.step is not None and not 0 <= timed.step < planned:
                raise ValueError(f"a fault in step {timed.step} of {planned}")
        return self

    @property
    def asked(self) -> dict[int, Step]:
        """What was asked of each step, by its index."""
        return {step.index: step for step in self.plan or self.profile.steps()}

    @property
    def valid(self) -> bool:
        """Whether the generator vouches for every number of the run."""
        return not self.reasons and all(step.valid for step in self.steps)

    def to_json(self) -> str:
        """The file's text."""
        return self.model_dump_json(indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """The inverse of to_json; ResultError says what is wrong."""
        try:
            data = pydantic_core.from_json(text, allow_inf_nan=False)
        except ValueError as error:  # also NaN, half of a surrogate pair, what nests too deeply
            raise ResultError(f"is not JSON: {error}") from None
        if not _fits(data):
            raise ResultError("holds a number of more than 64 bits")
        version = data.get("schema_version") if isinstance(data, dict) else None
        if version is None:
            raise ResultError("is not a result of imsbench: it has no schema_version")
        if version not in READ:
            raise ResultError(
                f"has schema version {version!r}; this imsbench reads 1 to {SCHEMA_VERSION}"
            )
        try:
            result = cls.model_validate(upgraded(data, version))
        except ValidationError as error:
            raise ResultError(_spell(error)) from None
        if not _fits(result.model_dump()):  # a text of digits has become a number
            raise ResultError("holds a number of more than 64 bits")
        if problem := _contradiction(result):
            raise ResultError(f"is damaged: {problem}")
        return result


def _fits(value: object) -> bool:
    """Whether numbers have at most 64 bits, as all that are written: counts and floats come of them."""
    if isinstance(value, dict):
        return all(map(_fits, value.values()))
    if isinstance(value, list):
        return all(map(_fits, value))
    return not isinstance(value, int | float) or -(2**63) <= value < 2**63


def read_result(path: pathlib.Path) -> RunResult:
    """The result in a file, or in the result.json of a folder; ResultError names the path."""
    file = path / "result.json" if path.is_dir() else path
    try:
        return RunResult.from_json(file.read_bytes())
    except OSError as error:
        raise ResultError(f"{file}: cannot be read: {error.strerror or error}") from None
    except (ResultError, ValueError) as error:  # ValueError: a NUL in the path
        raise ResultError(f"{file}: {error}") from None


def _contradiction(result: RunResult) -> str:
    """What no run can have written, though each part may stand for itself; "" if nothing."""
    indices = [step.index for step in result.steps]
    if indices != sorted(set(indices)):
        return f"its steps are {indices}: each is there once, in order"
    if result.ended < result.started:
        return "it ended before it started"
    if not result.hosts:
        return "it has no host"
    kind = result.profile.target.kind
    if result.self_test != (kind in ("embedded", "null")):
        return f"its target is the {kind} one, but self_test is {str(result.self_test).lower()}"
    # A process that did not report at its end is a reason; so is a step cut short.
    if not result.workers and result.status == "complete" and result.valid:
        return "it is complete and valid, but has no worker"
    speechless = [step.index for step in result.steps if step.complete and not step.health]
    return f"no worker told of its health in step {speechless[0]}" if speechless else ""


def _spell(error: ValidationError) -> str:
    shown = [
        f"{'.'.join(map(str, problem['loc'])) or 'the whole'}: {problem['msg']}"
        for problem in error.errors(include_url=False, include_input=False)
    ]
    more = f"; and {len(shown) - 5} more" if len(shown) > 5 else ""
    return f"is damaged: {'; '.join(shown[:5])}{more}"
