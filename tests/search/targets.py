"""Targets that exist in arithmetic only, on a virtual clock: limiters, and cores slow to recover."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from imsbench.outcome import CallOutcome, Outcome, Procedure
from imsbench.profile import Profile, Step, parse_profile
from imsbench.run.orders import Order, Source
from imsbench.run.record import StepRecord
from imsbench.search.conductor import Conductor
from simulators.core.limiter import TokenBucket

TEXT = """
name: limited
subscribers: {{count: {count}}}
phones: {{ipsec: 'off'}}
phases:
  - fill: {{rate: 100/s, to: 60}}
  - together:
      - calls: {{rate: 1/s, duration: 70s, warm_up: 0s, hold: {{mean: 1s}}}}
      - cycle: {{rate: 3/s}}
search:
  registration: {{start: 30/s, increase: 1/s}}
  cycle: {{start: 30/s, increase: 1/s}}
  call: {{start: 8/s, increase: 0.5/s}}
  mix: {{start: 20/s, increase: 2/s}}
  stir: 2s
  transient: 2s
  duration: 20s
  sessions: 600
  {search}
generator: {{arrivals: constant}}
"""


def profile(search: str = "", count: int = 5000) -> Profile:
    """A profile for searches; ``search`` is added to its section."""
    return parse_profile(TEXT.format(search=search, count=count))


@dataclass
class FakeTarget:
    """Serves orders on a virtual clock; refuses what its token buckets have no token for."""

    registrations: float = 37.0
    """Per second."""
    calls: float = 11.0
    """Per second."""
    burst: int = 2
    """Of both buckets."""
    adequate_at: Callable[[float], float] = lambda _at: 1.0
    """Share of attempts that succeed at an instant, whatever the buckets say."""
    cores: Callable[[float], float | None] = lambda rate: 0.004 * rate
    """CPU of the target at a load."""
    now: float = 100.0
    """The virtual clock, seconds."""
    registered: int = 0
    """Phones registered."""
    orders: list[Order] = field(default_factory=list)
    """Everything that was ordered."""

    def __post_init__(self) -> None:
        self._buckets = {
            "registration": TokenBucket(self.registrations, self.burst),
            "call": TokenBucket(self.calls, self.burst),
        }
        self._taken = 0.0

    def obey(self, order: Order) -> StepRecord:
        """What the order measures."""
        self.orders.append(order)
        step = order.step
        record = StepRecord(step, complete=True)
        if order.repair and self.registered < step.registered_before:
            self.now += 1.0
            self.registered = step.registered_before
        record.registered_before = self.registered
        record.started_at = self.now
        if step.kind == "fill":
            self.now += step.duration_s + 30.0  # so that the buckets are full again
            self.registered = step.registered
        else:
            self._trial(step, record)
            self.now += step.duration_s + 0.05
        record.registered_after = self.registered
        record.elapsed_s = self.now - record.started_at
        cores = self.cores(step.rate)
        record.sut = {"cpu_cores": cores, "host_cpu_cores": cores}
        return record

    # private

    def _trial(self, step: Step, record: StepRecord) -> None:
        assert step.trial is not None
        due: list[tuple[float, str]] = []
        for load, rate in step.trial.loads.items():
            before, faster = (
                step.trial.attempts_before(load, step.warm_up_s),
                rate * step.trial.before,
            )
            due += [(step.warm_up_s - i / faster, load) for i in range(before, 0, -1)]
            count = step.trial.attempts(load, step.duration_s - step.warm_up_s)
            due += [(step.warm_up_s + i / rate, load) for i in range(count)]
        for offset_s, name in sorted(due):
            self._attempt(name, offset_s, step, record)

    def _attempt(self, load: str, offset_s: float, step: Step, record: StepRecord) -> None:
        at = record.started_at + offset_s
        evaluated = offset_s >= step.warm_up_s - 1e-9
        if load == "release":
            self.registered = max(self.registered - 1, step.registered)
            return
        self._taken += self.adequate_at(at)
        served = self._taken >= 1.0
        self._taken -= served
        if load == "calls":
            served &= self._buckets["call"].take(at)
            if evaluated:
                record.kpis.record_call(_call(step, at, served))
        else:
            served &= self._buckets["registration"].take(at)
            self.registered += served and load == "registration"
            if evaluated and load == "cycle":
                record.kpis.record(_outcome("deregistration", step, at, True))
            if evaluated:
                record.kpis.record(_outcome("registration", step, at, served))
        if evaluated and step.trial is not None and step.trial.limits:
            record.timeline.add(offset_s, served)


def _outcome(procedure: Procedure, step: Step, at: float, served: bool) -> Outcome:
    failed: dict[str, Any] = {} if served else {"cause": "503", "stage": "challenge"}
    return Outcome(
        procedure, 1, step.index, at, at, at, at + 0.01, status=200 if served else 503, **failed
    )


def _call(step: Step, at: float, served: bool) -> CallOutcome:
    call = CallOutcome(1, 2, step.index, at, started_at=at, sent_at=at)
    if not served:
        call.status, call.cause, call.stage, call.ended_at = 503, "503", "invite", at + 0.01
        return call
    call.setup_at, call.answered_at, call.status = at + 0.02, at + 0.02, 200
    call.released_at, call.ended_at, call.release_by = at + 1.0, at + 1.01, "caller"
    return call


def drive(conductor: Conductor, target: FakeTarget, *, most: int = 2000) -> None:
    """Until the search is over."""
    source: Source = conductor.source()
    order = next(source, None)
    while order is not None:
        assert len(target.orders) < most, "it does not end"
        record = target.obey(order)
        try:
            order = source.send(record)
        except StopIteration:
            return


def no_reasons(_record: StepRecord) -> list[str]:
    """A generator that vouches for everything."""
    return []
