"""Driving the steps of a run's load: precondition, one start for all workers, what they report.

For each step its precondition is looked at (``registered: N``) and restored by a repair fill outside
the statistics, then all workers start it at one instant of the monotonic clock.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime

from imsbench.host.control import Message
from imsbench.profile import Profile
from imsbench.run import abort, configs, sut, tell, topology
from imsbench.run.advice import advice
from imsbench.run.crew import ChildLost, Crew
from imsbench.run.events import Stage, StepEnded, StepStarted, Watcher
from imsbench.run.exits import UNVOUCHED
from imsbench.run.faults import FaultOrders
from imsbench.run.orders import Order, Source, of_profile, step_config
from imsbench.run.record import RunRecord, StepRecord
from imsbench.run.release import Release, graver
from imsbench.run.simulated import answered
from imsbench.run.tally import Tally

UNREACHED_ATTEMPTS = 20
"""So many registrations in vain, and none else, and the target is taken for not there."""

REPAIR_ROUNDS = 3
"""How often a step's precondition is tried to be restored, as long as a round gains phones."""

_START_AHEAD_S = 0.2
"""From the order to the first arrival: the order must have reached every worker."""
_STEP_SLACK_S = 30.0
"""What a step may overrun its plan, its drain and its longest attempt."""


class TargetUnreached(Exception):
    """The target was never there; the text says so."""


class Load:
    """The steps of one run, driven one after the other."""

    def __init__(
        self,
        profile: Profile,
        watch: Watcher,
        crew: Crew,
        workers: Sequence[str],
        record: RunRecord,
        target: sut.Target,
        simulators: Sequence[str] = (),
        tally: Tally | None = None,
        source: Source | None = None,
    ) -> None:
        """workers, simulators: names of those that take part; record: what is written down goes there;
        target: whose CPU and memory are read; tally: where the simulators' requests are counted by step;
        source: where the steps come from, if not from the profile.
        """
        self._profile = profile
        self._watch = watch
        self._crew = crew
        self._workers = workers
        self._record = record
        self._target = target
        self._simulators = simulators
        self._tally = tally
        self._source = of_profile(profile) if source is None else source
        self._count = len(profile.steps()) if source is None else 0
        self._release = Release()
        self._faults = FaultOrders(profile, crew, record)
        self._registered = 0

    def run(self) -> None:
        """All steps; ChildLost, Interrupted or TargetUnreached end it with what was recorded so far."""
        self._record.started = datetime.now(UTC)
        self._record.idle = sut.at_rest(self._target)
        try:
            order = next(self._source, None)
            while order is not None:
                order = self._following(self._obey(order))
        finally:
            self._source.close()

    # private

    def _following(self, record: StepRecord) -> Order | None:
        try:
            return self._source.send(record)
        except StopIteration:
            return None

    def _obey(self, order: Order) -> StepRecord:
        record = StepRecord(order.step)
        if order.counted:
            self._record.steps.append(record)
        if order.repair:
            self._repair(record)
        self._drive(record, repair=False, title=order.title)
        self._watch_release(record)
        return record

    def _repair(self, record: StepRecord) -> None:
        """Restore a step's precondition, in rounds; what the target still refuses is its finding."""
        wanted = record.step.registered_before
        for _ in range(REPAIR_ROUNDS):
            before = self._registered
            if before >= wanted:
                return
            round_ = StepRecord(record.step)
            record.repairs.append(round_)
            self._drive(round_, repair=True)
            if self._registered <= before:
                return  # not one of all those: the next round would be as vain

    def _drive(
        self, record: StepRecord, *, repair: bool, again: bool = False, title: str = ""
    ) -> None:
        """One step, to its end; again: as a second batch, in which nothing is injected or judged."""
        step = record.step
        if not title:
            title = tell.repair_title(step, self._registered) if repair else tell.title_of(step)
        missing = step.registered_before - self._registered
        expected_s = missing / configs.repair_rate(self._profile) if repair else step.duration_s
        self._watch(StepStarted(step.index, self._count, title, expected_s))
        record.registered_before = self._registered
        if not repair and (memory := self._target.memory()):
            self._release.before(step, memory.size)
        record.started_at = time.monotonic() + _START_AHEAD_S
        told = step_config(step)
        for name in self._workers:
            self._crew.send(name, "start_at", step=told, at=record.started_at, repair=repair)
        if step.storm is not None and step.storm.core == "lost" and not repair:
            self._crew.send(topology.CORE, "forget", at=record.started_at)
        judged = not repair and not again
        if judged:
            self._faults.begin(step, record.started_at)
        usage = None if repair else sut.usage_of(self._target, step, record.started_at)
        self._listen(record, title, expected_s, usage, judged=judged)
        record.elapsed_s = time.monotonic() - record.started_at
        record.simulated = answered(self._crew, self._simulators)
        record.complete = True
        if self._tally is not None:
            record.commands = self._tally.new()
        self._registered = record.registered_after
        if usage is not None:
            record.sut = usage.close()
        self._watch(StepEnded(title, tell.summary(record), record.elapsed_s))

    def _listen(
        self,
        record: StepRecord,
        title: str,
        expected_s: float,
        usage: sut.Usage | None,
        *,
        judged: bool,
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
                elif message["type"] == "step_done" and name in missing:
                    record.add(message)
                    missing.discard(name)
            self._check_target(record, [ticks[w] for w in self._workers if w in ticks])
            now = time.monotonic()
            if usage is not None:  # no repair
                usage.look(now)
            if now - told_at >= 1.0:
                told_at = now
                self._watch(tell.progress(title, now - record.started_at, expected_s, ticks))
                if judged:
                    evaluated_s = now - record.started_at - record.step.warm_up_s
                    told = [ticks.get(name, {}) for name in self._workers]
                    abort.check(self._profile, record.step, told, evaluated_s)
            if now - record.started_at > limit_s:
                reason = f"did not end the step “{title}” within {limit_s:.0f} s"
                raise ChildLost(min(missing), reason, UNVOUCHED)

    def _watch_release(self, record: StepRecord) -> None:
        """Watch the target's memory after calls, where the profile wants it; a second batch decides."""
        step = record.step
        limit_s = step.calls.watch_release if step.calls is not None else 0.0
        loaded = (record.sut or {}).get("memory_rss_bytes")
        if not limit_s or loaded is None:
            return
        self._watch(Stage(f"watching what the calls leave in memory, {limit_s:g} s at most"))
        if self._release.watch(loaded, limit_s, self._target, self._crew.receive):
            self._watch(Stage("it was not released: the same calls once more decide"))
            self._second_batch(record)
        told = self._release.told(step)
        self._record.ended_calls = graver(self._record.ended_calls, told)

    def _second_batch(self, record: StepRecord) -> None:
        """The same calls once more, in no table: do they take new memory, or what the first left?"""
        record.again = again = StepRecord(record.step)
        self._repair(again)
        self._drive(again, repair=False, again=True)
        loaded = (again.sut or {}).get("memory_rss_bytes")
        if loaded is not None:
            self._release.decide(loaded)

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
