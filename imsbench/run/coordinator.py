"""The coordinator: starts every process of a run, drives the steps of its load, ends everything.

One run:

1. The coordinator enters a network namespace of its own where the target is embedded, so that
   nothing of the run is visible on the host; for an external target it stays on the host.
2. Each child is started with a control channel on descriptor 3 and enters its own namespace; the
   veth pairs are made here and their ends moved to the children, who configure them.
3. The children are made ready (``launch``).
4. The steps of the load are driven one after the other (``load``).
5. In the end the workers stop first, then the core, then HSS and PCRF; each says what it measured.

However a run ends (complete, interrupted, a child lost), step 5 is done with what is left, and
``Crew.end`` leaves no process behind; the namespaces go with the processes that hold them.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from types import FrameType

from imsbench.host.control import Message
from imsbench.profile import Profile
from imsbench.report.result import Status
from imsbench.run import configs, network, sut, topology
from imsbench.run.abort import Aborted
from imsbench.run.capture import CaptureOrder
from imsbench.run.crew import ChildLost, Crew, Interrupted
from imsbench.run.events import Watcher
from imsbench.run.exits import BROKEN, INTERRUPTED, TARGET_DIED, RunRefused
from imsbench.run.launch import DEFAULT_MODULES, Launch, Modules
from imsbench.run.load import Load, TargetUnreached
from imsbench.run.orders import Source
from imsbench.run.record import RunRecord
from imsbench.run.tally import Tally

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
        source: Source | None = None,
    ) -> None:
        """watch: told what happens, from this thread; keep_ladders: workers keep every ladder;
        deregister: phones de-register at the end; observe: the simulators' requests are counted step
        by step, which costs a second for each; pcap: what is captured; modules: what the children run;
        source: where the steps come from, if not from the profile.
        """
        self._interrupted = False
        self._crew = Crew(self._check, self._hear)
        self._topology = network.plan(profile)
        self._workers = [topology.worker_name(k) for k in range(profile.generator.workers)]
        self._simulators = configs.simulators_of(profile)
        self.record = RunRecord(started=datetime.now(UTC), searched=source is not None)
        """What is written down while it goes."""
        self._launch = Launch(
            profile,
            watch,
            self._crew,
            self._topology,
            simulators=self._simulators,
            workers=self._workers,
            modules=modules,
            keep_ladders=keep_ladders,
            deregister=deregister,
            pcap=pcap,
        )
        self._target = sut.target_of(profile, lambda: self._launch.core_pids)
        tally = Tally(self._crew.receive, self._simulators) if observe else None
        self._load = Load(
            profile,
            watch,
            self._crew,
            self._workers,
            self.record,
            self._target,
            self._simulators,
            tally,
            source,
        )

    def run(self) -> RunRecord:
        """Do it all. RunRefused if no load could be started; else what was measured, however it ended.

        The caller has entered the network namespace of the run (``network.enter``).
        """
        with self._signals():
            try:
                self._start()
                self._drive()
                self._finish()
            finally:
                self._crew.end()
                network.clear(self._topology)
        self.record.ended = datetime.now(UTC)
        return self.record

    # -- start ---------------------------------------------------------------------------------

    def _start(self) -> None:
        try:
            self._launch.run()
        except ChildLost as lost:
            text = str(lost) + (f"\n{lost.output}" if lost.output else "")
            raise RunRefused(text, lost.exit_code) from lost
        except Interrupted as error:
            raise RunRefused("interrupted before any load", INTERRUPTED) from error

    # -- load ----------------------------------------------------------------------------------

    def _drive(self) -> None:
        try:
            self._load.run()
        except Interrupted:
            self._mark("interrupted", "interrupted by a signal", INTERRUPTED)
        except ChildLost as lost:
            self._lost(lost)
        except Aborted as error:
            self._mark("aborted", str(error), BROKEN)
        except TargetUnreached as error:
            self._mark("interrupted", str(error), BROKEN)
            self.record.unreached = True

    # -- end -----------------------------------------------------------------------------------

    def _finish(self) -> None:
        """Stop workers, core and simulators in this order, and keep what they say."""
        for names in (self._workers, [topology.CORE], self._simulators):
            for name, message in self._crew.stop(names, _STOP_S):
                if message["type"] == "result":
                    self._keep_result(name, message)
                elif message["type"] == "step_done":  # it was on its way when the run ended
                    self._keep_partial(message)

    def _keep_result(self, name: str, message: Message) -> None:
        if name in self._workers:
            self.record.workers[name] = message
        else:
            self.record.simulators[name] = message

    def _keep_partial(self, message: Message) -> None:
        """A step that the end of the run cut short: counted up to there, and marked incomplete."""
        if not self.record.steps:
            return
        record = self.record.steps[-1].under_way
        if not record.complete and message["step"] == record.step.index:
            record.add(message)
            record.elapsed_s = time.monotonic() - record.started_at

    def _lost(self, lost: ChildLost) -> None:
        self._crew.drop(lost.name)
        if lost.name == topology.CORE:
            self._mark("target_died", f"the target died: {lost}", TARGET_DIED)
        else:
            self._mark("generator_failed", str(lost), lost.exit_code)
        self.record.output = lost.output

    def _mark(self, status: Status, reason: str, exit_code: int) -> None:
        self.record.status = status
        self.record.reason = reason
        self.record.exit_code = exit_code

    def _hear(self, name: str, message: Message) -> None:
        """What any message may carry: stalls, timed faults; a lab's core tells what a guest of it uses."""
        self.record.note(name, message)
        if name == topology.CORE and message["type"] == "tick" and "usage" in message:
            self._target.told(sut.Guest.from_message(message["usage"]))

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
