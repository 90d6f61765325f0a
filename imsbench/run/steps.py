"""Carrying out the steps of the load: fill, hold, cycle (one worker's share of each).

Open arrivals: every attempt has the instant at which it is due, fixed before the step starts, and
starts then whatever became of the others. An arrival that finds no phone to use is a counted drop.
A step is over when its plan is through and every attempt of it has ended, or when the drain is:
what is left then is counted. Refreshes that come due after the plan belong to no step.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from imsbench.arrivals import Arrivals
from imsbench.engine.loop import Loop, clock
from imsbench.outcome import Outcome
from imsbench.phone.phone import Phone
from imsbench.profile import Step
from imsbench.run.phones import Phones

_DRAIN_CHECK_S = 0.02


class StepRun:
    """One step under way on one worker."""

    def __init__(
        self,
        loop: Loop,
        phones: Phones,
        step: Step,
        *,
        seed: int,
        worker: int,
        workers: int,
        drain_s: float,
        on_done: Callable[[], None],
    ) -> None:
        self.step = step
        self.dropped = 0
        """Arrivals that found no phone."""
        self.started = 0
        """Arrivals that started an attempt."""
        self.unfinished = 0
        """Attempts of the step that had not ended when the drain was over."""
        self.first_due_at = 0.0
        """Instant of the plan's beginning, seconds."""
        self._loop = loop
        self._phones = phones
        self._share = {"share": worker, "shares": workers}
        self._seed = f"{seed}/{step.index}"
        self._drain_s = drain_s
        self._drained_by = 0.0
        self._on_done = on_done
        self._queue: deque[Phone] = deque()
        self._offsets: Iterator[float] = iter(())
        self._start: Callable[[Phone, float], None] = self._fill_one

    def begin(self, at: float, *, repair: bool = False, repair_rate: float = 0.0) -> None:
        """Plan the step from this instant, seconds; a repair registers what its precondition lacks."""
        self.first_due_at = at
        step = self.step
        if repair:
            self._plan_fill(step.registered_before, repair_rate)
        elif step.kind == "fill":
            self._plan_fill(step.registered, step.rate)
        elif step.kind == "cycle":
            self._plan_cycle(step)
        else:
            self._loop.call_at(at + step.duration_s, self._end_plan, None)
            return
        self._next()

    # private

    def _plan_fill(self, to: int, rate: float) -> None:
        """Phones below ``to`` that are not registered, in the order of their numbers."""
        missing = [p for p in self._phones.all if p.n < to and p.registration is None]
        self._queue.extend(missing)
        share, shares = self._share["share"], self._share["shares"]
        self._offsets = ((i * shares + share) / rate for i in range(len(missing)))
        self._start = self._fill_one

    def _plan_cycle(self, step: Step) -> None:
        """Every phone once a pass, in an order drawn from the seed."""
        mine = [phone for phone in self._phones.all if phone.n < step.registered]
        source = random.Random(f"{self._seed}/order")
        for _ in range(step.passes):
            source.shuffle(mine)
            self._queue.extend(mine)
        everything = Arrivals(step.rate, step.attempts, step.arrivals, self._seed)
        share, shares = self._share["share"], self._share["shares"]
        # Shared pass by pass, as the phones are: arrival i of a pass is the phone's of number i.
        self._offsets = (
            offset for i, offset in enumerate(everything) if i % step.registered % shares == share
        )
        self._start = self._cycle_one

    def _next(self) -> None:
        offset = next(self._offsets, None)
        if offset is None:
            self._end_plan(None)
        else:
            due_at = self.first_due_at + offset
            self._loop.call_at(due_at, self._arrive, due_at)

    def _arrive(self, due_at: float) -> None:
        phone = self._idle_phone()
        if phone is None:
            self.dropped += 1
        else:
            self.started += 1
            self._start(phone, due_at)
        self._next()

    def _idle_phone(self) -> Phone | None:
        """The next phone in the order that has nothing under way; a busy one is put behind."""
        for _ in range(len(self._queue)):
            phone = self._queue.popleft()
            if phone.n not in self._phones.busy:
                return phone
            self._queue.append(phone)
        return None

    def _fill_one(self, phone: Phone, due_at: float) -> None:
        if phone.registration is None:
            self._phones.register(phone, due_at)

    def _cycle_one(self, phone: Phone, due_at: float) -> None:
        if phone.registration is None:
            self._phones.register(phone, due_at)  # lost meanwhile: there is nothing to end
        else:
            self._phones.deregister(phone, due_at, self._again)

    def _again(self, phone: Phone, outcome: Outcome) -> None:
        """The registration of a cycle is due when the phone holds nothing of the last one."""
        self._phones.register(phone, clock(), outcome.step)

    def _end_plan(self, _argument: Any) -> None:
        """Nothing new belongs to the step; what it has under way may end."""
        self._phones.step = -1
        self._drained_by = clock() + self._drain_s
        self._drain(None)

    def _drain(self, _argument: Any) -> None:
        under_way = self._phones.outstanding[self.step.index]
        if under_way and clock() < self._drained_by:
            self._loop.call_at(clock() + _DRAIN_CHECK_S, self._drain, None)
            return
        self.unfinished = under_way
        self._on_done()
