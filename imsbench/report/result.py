"""The result of a run as a file: everything a report, a comparison or a doubt may ask for.

A result explains itself: its schema's version, the tool's version, the profile in full, the hosts,
what was asked for and what was measured, distributions instead of percentiles. Undefined numbers
are null; NaN never enters. A file that is no result is a ResultError that says why.
"""

from __future__ import annotations

import pathlib
from typing import Annotated, Any, Literal, Self

import pydantic_core
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    ValidationError,
    model_validator,
)

from imsbench.histogram import Histogram
from imsbench.kpi.kpis import StepKpis
from imsbench.kpi.thresholds import State, parse_threshold
from imsbench.profile import Profile

SCHEMA_VERSION: Literal[1] = 1
"""Raised when a file of the version before can no longer be read."""

Status = Literal["complete", "interrupted", "target_died", "generator_failed"]


class ResultError(Exception):
    """A file that is not a result of this program, or not one this version can read."""


def _histogram(value: object) -> Histogram:
    if isinstance(value, Histogram):
        return value
    if not isinstance(value, dict):
        raise ValueError("must be a histogram")
    return Histogram.from_json(value)


def _kpis(value: object) -> StepKpis:
    if isinstance(value, StepKpis):
        return value
    if not isinstance(value, dict):
        raise ValueError("must be the KPIs of a step")
    return StepKpis.from_json(value)


def _threshold(text: str) -> str:
    parse_threshold(text)
    return text


HistogramField = Annotated[
    Histogram,
    PlainValidator(_histogram),
    PlainSerializer(lambda histogram: histogram.to_json(), return_type=dict[str, Any]),
]
KpisField = Annotated[
    StepKpis,
    PlainValidator(_kpis),
    PlainSerializer(lambda kpis: kpis.to_json(), return_type=dict[str, Any]),
]
Counts = dict[str, int]


class Part(BaseModel):
    """Base of all parts of a result: nothing unknown, no NaN."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, arbitrary_types_allowed=True)


class Told(Part):
    """Base of the parts that a child process tells; its message may say more than is kept."""

    model_config = ConfigDict(extra="ignore")


class Host(Part):
    """A machine that took part."""

    role: str
    """What it did: "generator and target"."""
    system: str
    """Operating system as its os-release names it."""
    kernel: str
    """Kernel name, release and machine (uname)."""
    cpu: str = ""
    """Processor model."""
    cpus: int
    """Processors this run could use."""
    memory_bytes: int
    """Main memory."""
    open_files: int
    """Open-file limit of a process of the run (RLIMIT_NOFILE, soft after raising)."""
    python: str = ""
    """Python implementation and version."""


class LadderEntry(Told):
    """One message, or one event, of a failed attempt."""

    at: float
    """Seconds from the instant at which the attempt was due."""
    direction: Literal["->", "<-", "--"]
    """From the phone, to the phone, or an event at the phone."""
    text: str
    """The message's first line, or the event in words."""
    protected: bool = False
    """Whether it travelled inside a security association."""


class Failure(Told):
    """The first failure of its kind in a step; the KPIs have the count."""

    procedure: str
    """What was attempted."""
    stage: str
    """Where it failed."""
    cause: str
    """Why, in fixed words."""
    detail: str = ""
    """What the far end said of it."""
    phone: int
    """Number of the subscriber."""
    ladder: list[LadderEntry] = []
    """Its messages, in time order."""


class WorkerHealth(Told):
    """One worker's view of itself in one step."""

    wall_s: Annotated[float, Field(gt=0)]
    """Length of the stretch that was measured, seconds."""
    cpu_s: Annotated[float, Field(ge=0)]
    """CPU time of the process in it, user and system, seconds."""
    loop_lag: HistogramField
    """How late the loop woke for its timers."""
    gc_pauses: HistogramField
    """Garbage collections."""
    memory_rss: int
    """Resident memory at its end, bytes."""
    started: int
    """Arrivals of the plan that started an attempt."""
    dropped: int
    """Arrivals of the plan that found no phone to use."""
    unfinished: int = 0
    """Attempts of the step that had not ended when the drain was over."""
    first_due_at: float = 0.0
    """Beginning of the plan on the monotonic clock, seconds."""

    @property
    def cpu_share(self) -> float:
        """CPU time per wall time: 1 is a whole core."""
        return self.cpu_s / self.wall_s


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
    counters: Counts = {}
    """Counted events of this step, all workers together."""
    failures: list[Failure] = []
    """The first failure of each kind."""
    hss_stall_s: Annotated[float, Field(ge=0)] = 0.0
    """Longest stretch of it in which the HSS simulator stood still, seconds; 0: below 10 ms."""
    reasons: list[str] = []
    """Why the generator cannot vouch for it; empty: valid."""
    findings: list[str] = []
    """What the target did that makes it another step than the profile's: not the generator's fault."""
    repair: Repair | None = None
    """The fill before it, if its precondition had to be restored."""

    @property
    def valid(self) -> bool:
        """Whether the generator vouches for its numbers."""
        return not self.reasons


class CommandResult(Told):
    """What became of one Diameter command at a simulator."""

    count: int
    """Requests answered."""
    results: Counts
    """Answers by result: "2001", "exp. 2002"."""
    response_time: HistogramField
    """Request read to answer written."""


class HssResult(Told):
    """What the HSS simulator measured."""

    commands: dict[str, CommandResult]
    """By command: "UAR", "MAR", "SAR", "LIR"."""
    registered: int
    """Subscribers registered at its end."""
    loop_lag: HistogramField = Field(default_factory=Histogram)
    """How late its loop called its probes, every 20 ms."""
    counters: Counts = {}
    """Counted events."""


class CoreResult(Told):
    """What an embedded target said of itself."""

    counters: Counts
    """Counted events."""
    registered: int = 0
    """Bindings at its end."""
    sas: int = 0
    """Security associations at its end."""
    connections: int = 0
    """TCP connections at its end."""
    backend: str = ""
    """Who did ESP."""
    backend_counters: Counts = {}
    """Packets and drops of ESP."""
    loop_lag: HistogramField = Field(default_factory=Histogram)
    """How late its loop called its probes; the null target has none."""


class WorkerResult(Told):
    """One worker at the end of the run."""

    registered: int
    """Phones registered."""
    connections: int = 0
    """TCP connections held."""
    counters: Counts = {}
    """Counted events of the whole run."""
    backend: str = "off"
    """Who did ESP."""
    backend_counters: Counts = {}
    """Packets and drops of ESP."""
    memory_rss: int = 0
    """Resident memory, bytes."""


class ThresholdResult(Part):
    """One threshold of the profile, judged."""

    text: Annotated[str, AfterValidator(_threshold)]
    """As the profile has it."""
    state: State
    """Over all steps."""
    steps: dict[int, float]
    """What was compared, by step; only steps in which it was defined."""
    broken_in: list[int] = []
    """Steps that broke it."""


class RunResult(Part):
    """One run of one profile against one target."""

    schema_version: Literal[1] = SCHEMA_VERSION
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
    hosts: list[Host]
    """The machines."""
    steps: list[StepResult]
    """The steps that were begun, in order."""
    hss: HssResult | None = None
    """The HSS simulator, if there was one and it lived to tell."""
    core: CoreResult | None = None
    """The embedded target, if there was one and it lived to tell."""
    workers: list[WorkerResult] = []
    """The workers that lived to tell."""
    thresholds: list[ThresholdResult] = []
    """The profile's thresholds, judged."""
    reasons: list[str] = []
    """Why the generator cannot vouch for the run as a whole; empty: it can."""
    findings: list[str] = []
    """What the target did wrong that no step shows."""
    exit_code: int
    """What the process returned."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        planned = len(self.profile.steps())
        for step in self.steps:
            if not 0 <= step.index < planned:
                raise ValueError(f"step {step.index} of a profile with {planned} steps")
        return self

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
        if version != SCHEMA_VERSION:
            raise ResultError(
                f"has schema version {version!r}; this imsbench reads {SCHEMA_VERSION}"
            )
        try:
            result = cls.model_validate(data)
        except ValidationError as error:
            raise ResultError(_spell(error)) from None
        if problem := _contradiction(result):
            raise ResultError(f"is damaged: {problem}")
        return result


def _fits(value: object) -> bool:
    """Whether whole numbers have at most 64 bits, as all that are written: floats come of them."""
    if isinstance(value, dict):
        return all(map(_fits, value.values()))
    if isinstance(value, list):
        return all(map(_fits, value))
    return not isinstance(value, int) or -(2**63) <= value < 2**63


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
