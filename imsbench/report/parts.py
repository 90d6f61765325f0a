"""The parts of a result: machines, failures, what each process says of itself.

What a child process tells may say more than is kept; everything else is exactly of its form.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, PlainValidator

from imsbench.histogram import Histogram
from imsbench.kpi.kpis import StepKpis
from imsbench.kpi.recovery import Recovery


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


def _recovery(value: object) -> Recovery:
    if isinstance(value, Recovery):
        return value
    if not isinstance(value, dict):
        raise ValueError("must be the recovery of a storm")
    return Recovery.from_json(value)


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
RecoveryField = Annotated[
    Recovery,
    PlainValidator(_recovery),
    PlainSerializer(lambda recovery: recovery.to_json(), return_type=dict[str, Any]),
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
    """Number of the subscriber; of a call, the calling one."""
    callee: int | None = None
    """Of a call, number of the called subscriber."""
    ladder: list[LadderEntry] = []
    """Its messages, in time order."""
    callee_ladder: list[LadderEntry] = []
    """Of a call, the messages at the called phone, on the same clock."""


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
    host_cpu_share: Annotated[float, Field(ge=0)] | None = None
    """Share of its host's processor time that was not idle, steal included; null: not read."""
    steal_share: Annotated[float, Field(ge=0)] | None = None
    """Share of it that the hypervisor took; null: not read."""
    memory_share: Annotated[float, Field(ge=0, le=1)] | None = None
    """Share of its host's memory in use at its end; null: not read."""
    clock_jump_s: Annotated[float, Field(ge=0)] = 0.0
    """Largest jump of the wall clock against the monotonic one within a second, seconds."""
    started: int
    """Arrivals of the plan that started a registration or de-registration."""
    called: int = 0
    """Arrivals after the warm-up that started a call."""
    dropped: int
    """Arrivals of the plan that found no phone to use."""
    without_pair: int = 0
    """Arrivals after the warm-up that found no idle pair of phones to call."""
    unfinished: int = 0
    """Attempts of the step that had not ended when the drain was over."""
    first_due_at: float = 0.0
    """Beginning of the plan on the monotonic clock, seconds."""

    @property
    def cpu_share(self) -> float:
        """CPU time per wall time: 1 is a whole core."""
        return self.cpu_s / self.wall_s


class TargetUsage(Told):
    """What the target used of its machine; null where that cannot be read, and the note says why."""

    cpu_cores: Annotated[float, Field(ge=0)] | None = None
    """User and system time of its process tree per wall time, over the evaluated time."""
    busiest_cpu_cores: Annotated[float, Field(ge=0)] | None = None
    """The same of that process of its tree which used most."""
    host_cpu_cores: Annotated[float, Field(ge=0)] | None = None
    """The whole host's busy time per wall time: user, system, softirq and steal (kernel ESP is there)."""
    cpu_halves: tuple[float, float] | None = None
    """cpu_cores of each half of the evaluated time; null: too short, or processes came or went."""
    memory_rss_bytes: Annotated[int, Field(ge=0)] | None = None
    """Resident memory, mean of the last 30 s."""
    memory_kind: Literal["rss", "pss"] = "rss"
    """rss: of its one process. pss: sum over its processes, shared pages divided."""
    processes: int = 0
    """Processes of its tree."""
    kernel_memory_bytes: Annotated[int, Field(ge=0)] | None = None
    """Slab, Percpu, PageTables, KernelStack and pages of sockets of the target's own kernel, at the
    step's end; null: it has none that this run can read."""
    note: str = ""
    """Why something is missing, or how it was measured."""


class EndedCalls(Told):
    """What became of the memory of calls that had ended."""

    released_s: Annotated[float, Field(ge=0)] | None = None
    """Seconds from the last BYE's 200 until only 5 % of the growth was left; null: never, in 300 s."""
    again: Literal["", "reused", "grows"] = ""
    """Where it was never released: whether a second batch of calls adds less than 5 %, or more."""
    step: int | None = None
    """The step whose calls they were: of several that were watched, the one whose calls left most."""
    watched_s: float | None = None
    """How long it was watched for at most, seconds."""
    growth_bytes: int | None = None
    """What the calls had added at their height."""
    kept_bytes: int | None = None
    """What was left of that when it had been watched long enough; null: it was released."""
    added_bytes: int | None = None
    """What the second batch then added to the height of the first; null: there was none."""


class SteadyFaultResult(Told):
    """One fault that held all along, and how often it struck."""

    where: Literal["target", "HSS", "PCRF"]
    """Who did it."""
    what: Literal["error", "loss", "silence", "delay"]
    """What befell the messages it struck."""
    names: list[str] = []
    """Messages it might strike; none: all."""
    share: float
    """Share of them that was asked for."""
    code: int | None = None
    """Of an error: the status, or the result code."""
    of: Annotated[int, Field(ge=0)]
    """Messages that it might have struck."""
    struck: Annotated[int, Field(ge=0)]
    """Those that it did."""
    delays: HistogramField | None = None
    """Of a delay: what was drawn."""


class TimedFaultResult(Part):
    """One fault at an instant, and what came of it."""

    fault: int
    """Its position among the profile's faults."""
    step: int | None
    """The step that it was timed by; null: the load."""
    planned_s: float
    """When it was due, seconds from the beginning of the load."""
    at_s: float | None = None
    """When it began; null: it did not, or its process did not live to tell."""
    lasted_s: float | None = None
    """How long it took; null: it had not ended."""
    done: Annotated[int, Field(ge=0)] = 0
    """How many it struck; 1 of what lasts."""
    failed: Annotated[int, Field(ge=0)] = 0
    """How many it wanted to strike and could not: not there, or not answered."""


class CommandResult(Told):
    """What became of one Diameter command at a simulator."""

    count: int
    """Requests answered."""
    results: Counts
    """Answers by result: "2001", "exp. 2002"."""
    response_time: HistogramField
    """Request read to answer written."""


class SimulatorResult(Told):
    """What a Diameter simulator measured."""

    commands: dict[str, CommandResult]
    """By command: "UAR", "MAR", "AAR"."""
    loop_lag: HistogramField = Field(default_factory=Histogram)
    """How late its loop called its probes, every 20 ms."""
    counters: Counts = {}
    """Counted events."""


class HssResult(SimulatorResult):
    """What the HSS simulator measured."""

    registered: int
    """Subscribers registered at its end."""


class PcrfResult(SimulatorResult):
    """What the PCRF simulator measured."""

    sessions: int
    """AF sessions open at its end."""
    media_sessions: int = 0
    """Those of calls among them."""
    most_media_sessions: int = 0
    """Most sessions of calls at once."""
    wrong: Counts = {}
    """What was wrong with requests, by name."""


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
    messages: Counts = {}
    """Messages of the whole run by direction, status and method: "-> INVITE", "<- 183 INVITE"."""
    outside: KpisField | None = None
    """Attempts that belong to no step (warm-ups, what was due between two steps); in no table."""


class ProcedureSignature(Part):
    """What one procedure makes the target do."""

    messages: dict[str, float] = {}
    """Messages at the phones by direction, status and method; of a call, at both phones together."""
    commands: dict[str, float] = {}
    """Diameter requests to the simulators by command: "UAR", "AAR"."""


class Signature(Part):
    """What the target did for one phone and one call, seen before the load."""

    registration: ProcedureSignature
    """Of an initial registration with its subscription."""
    call: ProcedureSignature
    """Of a call, made and ended by the calling phone."""
    deregistration: ProcedureSignature
    """Of a de-registration."""
    reregistration: ProcedureSignature | None = None
    """Of a re-registration; null: not observed."""
    subscription_refresh: ProcedureSignature | None = None
    """Of the refresh of a subscription; null: not observed, or phones do not subscribe."""
