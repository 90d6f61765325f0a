"""The coordinator: starts every process of a run, drives the steps of its load, ends everything.

One run:

1. The coordinator enters a network namespace of its own where the target is embedded, so that
   nothing of the run is visible on the host; for an external target it stays on the host.
2. Each child is started with a control channel on descriptor 3 and enters its own namespace; the
   veth pairs are made here and their ends moved to the children, who configure them.
3. The simulators come first (HSS, PCRF), then the core, then the workers; each says "ready".
4. For each step its precondition is looked at (``registered: N``) and restored by a repair fill
   outside the statistics, then all workers start it at one instant of the monotonic clock.
5. In the end the workers stop first, then the core, then HSS and PCRF; each says what it measured.

However a run ends (complete, interrupted, a child lost), step 5 is done with what is left, and
``Crew.end`` leaves no process behind; the namespaces go with the processes that hold them.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from types import FrameType

from imsbench.host.control import Message
from imsbench.profile import Profile, Step
from imsbench.protocol.address import host_port
from imsbench.report.result import Status
from imsbench.run import configs, network, sut, tell, topology
from imsbench.run.advice import advice
from imsbench.run.capture import CaptureOrder
from imsbench.run.crew import START_S, ChildLost, Crew, Interrupted
from imsbench.run.events import Stage, StepEnded, StepStarted, Watcher
from imsbench.run.exits import BROKEN, INTERRUPTED, TARGET_DIED, UNVOUCHED, RunRefused
from imsbench.run.record import RunRecord, StepRecord
from imsbench.run.release import Release
from imsbench.run.tally import Tally


class TargetUnreached(Exception):
    """The target was never there; the text says so."""


@dataclass(frozen=True, slots=True)
class Modules:
    """What each child runs (``python -m``)."""

    worker: str = "imsbench.run.worker"
    """Plays the phones."""
    hss: str = "simulators.hss"
    """The HSS simulator."""
    pcrf: str = "simulators.pcrf"
    """The PCRF simulator."""
    core: str = "simulators.core"
    """The reference core, or the null target."""


DEFAULT_MODULES = Modules()

CORE_S = 60.0
"""How long an external core may take to connect to our HSS."""
UNREACHED_ATTEMPTS = 20
"""So many registrations in vain, and none else, and the target is taken for not there."""

REPAIR_ROUNDS = 3
"""How often a step's precondition is tried to be restored, as long as a round gains phones."""

_START_AHEAD_S = 0.2
"""From the order to the first arrival: the order must have reached every worker."""
_STEP_SLACK_S = 30.0
"""What a step may overrun its plan, its drain and its longest attempt."""
_STOP_S = 10.0


class Coordinator:
    """One run of one profile. Needs the main thread: children die with the thread that made them."""

    def __init__(
        self,
        profile: Profile,
        watch: Watcher,
        *,
        keep_ladders: bool = False,
        observe: bool = False,
        deregister: bool = False,
        pcap: CaptureOrder | None = None,
        modules: Modules = DEFAULT_MODULES,
    ) -> None:
        """watch: told what happens, from this thread; keep_ladders: workers keep every ladder;
        deregister: phones de-register at the end; observe: the simulators' requests are counted step
        by step, which costs a second for each; pcap: what is captured; modules: what the children run.
        """
        self._profile = profile
        self._watch = watch
        self._keep_ladders = keep_ladders
        self._deregister = deregister
        self._pcap = pcap
        self._modules = modules
        self._interrupted = False
        self._crew = Crew(self._check)
        self._topology = network.plan(profile)
        self._workers = [topology.worker_name(k) for k in range(profile.generator.workers)]
        self._simulators = configs.simulators_of(profile)
        self._tally = Tally(self._crew.receive, self._simulators) if observe else None
        self._target = sut.target_of(profile, lambda: self._crew.pid(topology.CORE))
        self._release = Release()
        self._registered = 0
        self._record = RunRecord(started=datetime.now(UTC))

    def run(self) -> RunRecord:
        """Do it all. RunRefused if no load could be started; else what was measured, however it ended.

        The caller has entered the network namespace of the run (``network.enter``).
        """
        with self._signals():
            try:
                self._start()
                self._load()
                self._finish()
            finally:
                self._crew.end()
                network.clear(self._topology)
        self._record.ended = datetime.now(UTC)
        return self._record

    # -- start ---------------------------------------------------------------------------------

    def _start(self) -> None:
        try:
            self._start_children()
        except ChildLost as lost:
            text = str(lost) + (f"\n{lost.output}" if lost.output else "")
            raise RunRefused(text, lost.exit_code) from lost
        except Interrupted as error:
            raise RunRefused("interrupted before any load", INTERRUPTED) from error

    def _start_children(self) -> None:
        profile = self._profile
        has_core = profile.target.kind != "external"
        self._watch(Stage(f"starting {self._describe_children()}"))
        own: list[str] = []
        modules = {topology.HSS: self._modules.hss, topology.PCRF: self._modules.pcrf}
        for name in self._simulators:
            self._crew.start(name, modules[name], own_namespace=has_core)
            own += [name] if has_core else []
        if has_core:
            self._crew.start(topology.CORE, self._modules.core)
            own.append(topology.CORE)
        for name in self._workers:
            self._crew.start(name, self._modules.worker)
        self._crew.wait([*own, *self._workers], "namespace", START_S)
        pids = {name: self._crew.pid(name) for name in [*own, *self._workers]}
        network.lay(self._topology, pids)
        self._configure()

    def _configure(self) -> None:
        profile, nodes = self._profile, self._topology.nodes
        config_of = {topology.HSS: configs.hss_config, topology.PCRF: configs.pcrf_config}
        for name in self._simulators:
            node = nodes.get(name, topology.Node())
            self._crew.send(name, "config", **config_of[name](profile, node))
        self._crew.wait(self._simulators, "ready", START_S)
        if topology.CORE in nodes:
            config = configs.core_config(profile, nodes[topology.CORE])
            self._crew.send(topology.CORE, "config", **config)
            self._crew.wait([topology.CORE], "ready", START_S)
        for number, name in enumerate(self._workers):
            config = configs.worker_config(
                profile,
                self._topology,
                number,
                keep_ladders=self._keep_ladders,
                deregister=self._deregister,
                pcap=self._pcap.config(profile, number) if self._pcap is not None else None,
            )
            self._crew.send(name, "config", **config)
        self._crew.wait(self._workers, "ready", START_S)
        for name in configs.played_for_core(profile):
            self._await_core(name, config_of[name](profile, topology.Node())["listen"])

    def _await_core(self, simulator: str, listen: tuple[str, int]) -> None:
        """Wait until the core has connected to a simulator of ours; RunRefused if it does not.

        A core tries again every few seconds only, and without its HSS it refuses every phone.
        """
        address, title = host_port(*listen), simulator.upper()
        began_at = time.monotonic()
        tell_at = 1.0
        while True:
            for name, message in self._crew.receive(0.5):
                if name == simulator and message.get("counts", {}).get("connections"):
                    return
            waited_s = time.monotonic() - began_at
            if waited_s > CORE_S:
                raise RunRefused(
                    f"the core did not connect to the {title} at {address} within {CORE_S:.0f} s: is "
                    f"that the {title} it is told to use, and may it connect to there (Diameter over "
                    f"TCP)? Leave simulators.{simulator} out if it has one of its own",
                    BROKEN,
                )
            if waited_s >= tell_at:
                tell_at += 5.0
                told = f"{waited_s:.0f} of {CORE_S:.0f} s"
                self._watch(Stage(f"waiting for the core to connect to {address} ({told})"))

    def _describe_children(self) -> str:
        count = len(self._workers)
        names = [name.upper() for name in self._simulators]
        names.append(f"{count} worker" + ("s" if count != 1 else ""))
        if self._profile.target.kind != "external":
            names.insert(-1, self._profile.target.title)
        return ", ".join(names[:-1]) + (" and " if names[:-1] else "") + names[-1]

    # -- load ----------------------------------------------------------------------------------

    def _load(self) -> None:
        try:
            self._steps()
        except Interrupted:
            self._mark("interrupted", "interrupted by a signal", INTERRUPTED)
        except ChildLost as lost:
            self._lost(lost)
        except TargetUnreached as error:
            self._mark("interrupted", str(error), BROKEN)
            self._record.unreached = True

    def _steps(self) -> None:
        steps = self._profile.steps()
        self._record.started = datetime.now(UTC)
        self._record.idle = sut.at_rest(self._target)
        for step in steps:
            record = StepRecord(step)
            self._record.steps.append(record)
            self._repair(record, count=len(steps))
            self._drive(record, repair=False, count=len(steps))
            self._watch_release(step)

    def _repair(self, record: StepRecord, *, count: int) -> None:
        """Restore a step's precondition, in rounds; what the target still refuses is its finding."""
        wanted = record.step.registered_before
        for _ in range(REPAIR_ROUNDS):
            before = self._registered
            if before >= wanted:
                return
            round_ = StepRecord(record.step)
            record.repairs.append(round_)
            self._drive(round_, repair=True, count=count)
            if self._registered <= before:
                return  # not one of all those: the next round would be as vain

    def _drive(self, record: StepRecord, *, repair: bool, count: int) -> None:
        step = record.step
        title = tell.repair_title(step, self._registered) if repair else tell.title_of(step)
        missing = step.registered_before - self._registered
        expected_s = missing / configs.repair_rate(self._profile) if repair else step.duration_s
        self._watch(StepStarted(step.index, count, title, expected_s))
        record.registered_before = self._registered
        if (memory := self._target.memory()) and not repair:
            self._release.before(step, memory.size)
        record.started_at = time.monotonic() + _START_AHEAD_S
        for name in self._workers:
            self._crew.send(name, "start_at", step=step.index, at=record.started_at, repair=repair)
        usage = None if repair else sut.usage_of(self._target, step, record.started_at)
        self._listen(record, title, expected_s, usage)
        record.elapsed_s = time.monotonic() - record.started_at
        record.complete = True
        if self._tally is not None:
            record.commands = self._tally.new()
        self._registered = record.registered_after
        if usage is not None:
            record.sut = usage.close()
        self._watch(StepEnded(title, tell.summary(record), record.elapsed_s))

    def _listen(
        self, record: StepRecord, title: str, expected_s: float, usage: sut.Usage | None
    ) -> None:
        """Until every worker has said "step_done"; progress once a second meanwhile."""
        missing = set(self._workers)
        ticks: dict[str, Message] = {}
        phones = self._profile.phones
        limit_s = (
            expected_s
            + configs.drain_s(self._profile, record.step)
            + phones.registration_timeout
            + phones.transaction_timeout
            + _STEP_SLACK_S
        )
        told_at = record.started_at
        while missing:
            for name, message in self._crew.receive(0.5):
                if message["type"] == "tick":
                    ticks[name] = message
                    self._record.note_stalls(name, message)
                elif message["type"] == "step_done" and name in missing:
                    record.add(message)
                    missing.discard(name)
            self._check_target(record, list(ticks.values()))
            now = time.monotonic()
            if usage is not None:
                usage.look(now)
            if now - told_at >= 1.0:
                told_at = now
                self._watch(tell.progress(title, now - record.started_at, expected_s, ticks))
            if now - record.started_at > limit_s:
                reason = f"did not end the step “{title}” within {limit_s:.0f} s"
                raise ChildLost(min(missing), reason, UNVOUCHED)

    def _watch_release(self, step: Step) -> None:
        """Watch the target's memory after calls, where the profile wants it."""
        limit_s = step.calls.watch_release if step.calls is not None else 0.0
        loaded = (self._record.steps[-1].sut or {}).get("memory_rss_bytes")
        if not limit_s or loaded is None:
            return
        self._watch(Stage(f"watching what the calls leave in memory, {limit_s:g} s at most"))
        self._release.watch(step, loaded, limit_s, self._target, self._crew.receive)
        self._record.ended_calls = {
            "released_s": self._release.released_s,
            "again": self._release.again,
        }

    def _check_target(self, record: StepRecord, ticks: list[Message]) -> None:
        """TargetUnreached where the run's first registrations all failed to connect."""
        if len(ticks) < len(self._workers) or len(self._record.steps) > 1:
            return
        attempted = sum(int(tick.get("attempted", 0)) for tick in ticks)
        if attempted < UNREACHED_ATTEMPTS:
            return
        unreached = sum(int(tick.get("unreached", 0)) for tick in ticks)
        if record.step.kind == "fill" and unreached == attempted:
            causes = {str(tick["cause"]): None for tick in ticks if tick.get("cause")}
            raise TargetUnreached(
                f"the target was never there: the first {attempted:,} registrations all failed at "
                f"stage “connect” ({', '.join(causes)}): "
                + advice(self._profile, "connect", next(iter(causes), ""))
            )

    # -- end -----------------------------------------------------------------------------------

    def _finish(self) -> None:
        """Stop workers, core and simulators in this order, and keep what they say."""
        for names in (self._workers, [topology.CORE], self._simulators):
            for name, message in self._crew.stop(names, _STOP_S):
                self._record.note_stalls(name, message)
                if message["type"] == "result":
                    self._keep_result(name, message)
                elif message["type"] == "step_done":  # it was on its way when the run ended
                    self._keep_partial(message)

    def _keep_result(self, name: str, message: Message) -> None:
        if name in self._workers:
            self._record.workers[name] = message
        else:
            self._record.simulators[name] = message

    def _keep_partial(self, message: Message) -> None:
        """A step that the end of the run cut short: counted up to there, and marked incomplete."""
        if not self._record.steps:
            return
        record = self._record.steps[-1]
        if record.repairs and not record.repairs[-1].complete:
            record = record.repairs[-1]
        if not record.complete and message["step"] == record.step.index:
            record.add(message)
            record.elapsed_s = time.monotonic() - record.started_at

    def _lost(self, lost: ChildLost) -> None:
        self._crew.drop(lost.name)
        if lost.name == topology.CORE:
            self._mark("target_died", f"the target died: {lost}", TARGET_DIED)
        else:
            self._mark("generator_failed", str(lost), lost.exit_code)
        self._record.output = lost.output

    def _mark(self, status: Status, reason: str, exit_code: int) -> None:
        self._record.status = status
        self._record.reason = reason
        self._record.exit_code = exit_code

    # -- signals -------------------------------------------------------------------------------

    def _check(self) -> None:
        if self._interrupted:
            raise Interrupted

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """SIGINT and SIGTERM end the run in order; a second one ends the children at once."""

        def on_signal(_number: int, _frame: FrameType | None) -> None:
            if self._interrupted:
                self._crew.kill()
            self._interrupted = True

        previous = {
            number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)
