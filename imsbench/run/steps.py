"""Carrying out the steps of the load: fill, hold, cycle (one worker's share of each).

Open arrivals: every attempt has the instant at which it is due, fixed before the step starts, and
starts then whatever became of the others. An arrival that finds no phone to use is a counted drop.
A step is over when its plan is through and every attempt of it has ended.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from imsbench.arrivals import Arrivals
from imsbench.distribution import Distribution
from imsbench.engine.loop import Loop, clock
from imsbench.outcome import Outcome
from imsbench.phone.leg import CallSettings
from imsbench.phone.phone import Phone
from imsbench.profile import Step
from imsbench.run.calls import CallMix, Calls
from imsbench.run.phones import Phones

_DRAIN_CHECK_S = 0.02


class StepRun:
    """One step under way on one worker."""

    def __init__(
        self,
        loop: Loop,
        phones: Phones,
        calls: Calls,
        step: Step,
        *,
        seed: int,
        worker: int,
        workers: int,
        on_done: Callable[[], None],
        on_evaluated: Callable[[], None] = lambda: None,
    ) -> None:
        """on_done: called when the step is over; on_evaluated: when its warm-up is."""
        self.step = step
        self.on_evaluated = on_evaluated
        self.dropped = 0
        """Arrivals that found no phone."""
        self.started = 0
        """Arrivals that started an attempt."""
        self.first_due_at = 0.0
        """Instant of the plan's beginning, seconds."""
        self._loop = loop
        self._phones = phones
        self._calls = calls
        self._mix = call_mix(step) if step.calls is not None else None
        self._share = {"share": worker, "shares": workers}
        self._seed = f"{seed}/{step.index}"
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
        elif step.kind == "calls":
            self._plan_calls(step)
        else:
            self._loop.call_at(at + step.duration_s, self._drain, None)
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
        self._offsets = iter(
            Arrivals(step.rate, step.attempts, step.arrivals, self._seed, **self._share)
        )
        self._start = self._cycle_one

    def _plan_calls(self, step: Step) -> None:
        """Attempts at the step's rate; those of the warm-up belong to no step."""
        self._phones.step = -1 if step.warm_up_s else step.index
        self._offsets = iter(
            Arrivals(step.rate, step.attempts, step.arrivals, self._seed, **self._share)
        )
        if step.warm_up_s:
            evaluated_at = self.first_due_at + step.warm_up_s
            self._loop.call_at(evaluated_at, self._evaluate, None)

    def _evaluate(self, _argument: Any) -> None:
        """The warm-up is over: from now on what is due belongs to the step."""
        self._phones.step = self.step.index
        self.on_evaluated()

    def _next(self) -> None:
        offset = next(self._offsets, None)
        if offset is None:
            self._drain(None)
        else:
            due_at = self.first_due_at + offset
            self._loop.call_at(due_at, self._arrive, due_at)

    def _arrive(self, due_at: float) -> None:
        if self._mix is not None:
            self._call(self._mix, due_at)
            self._next()
            return
        phone = self._idle_phone()
        if phone is None:
            self.dropped += 1
        else:
            self.started += 1
            self._start(phone, due_at)
        self._next()

    def _call(self, mix: CallMix, due_at: float) -> None:
        evaluated = due_at >= self.first_due_at + self.step.warm_up_s
        started = self._calls.start(mix, due_at)
        if evaluated:
            self.started += started
            self.dropped += not started

    def _idle_phone(self) -> Phone | None:
        """The next phone in the order that has nothing under way; a busy one is put behind."""
        for _ in range(len(self._queue)):
            phone = self._queue.popleft()
            if phone.n not in self._phones.busy and phone.n not in self._phones.in_call:
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

    def _again(self, phone: Phone, _outcome: Outcome) -> None:
        """The registration of a cycle is due when the phone holds nothing of the last one."""
        self._phones.register(phone, clock())

    def _drain(self, _argument: Any) -> None:
        if self._phones.outstanding or self._calls.outstanding:
            self._loop.call_at(clock() + _DRAIN_CHECK_S, self._drain, None)
        else:
            self._on_done()


def call_mix(step: Step) -> CallMix:
    """The calls of a step, as the phones take them."""
    calls = step.calls
    assert calls is not None
    settings = CallSettings(
        preconditions=calls.preconditions,
        reliable_ringing=calls.reliable_ringing,
        ringing=calls.ringing,
        request_uri=calls.request_uri,
        session_expires_s=calls.session_expires,
        hold_resume=calls.hold_resume,
        no_answer_s=calls.no_answer,
        hold=Distribution(calls.hold.kind, calls.hold.mean, calls.hold.sigma),
        ring=Distribution(calls.ring.kind, calls.ring.mean, calls.ring.sigma),
    )
    return CallMix(
        settings,
        shares=(
            ("busy", calls.busy),
            ("rejected", calls.rejected),
            ("cancelled", calls.cancelled),
            ("unregistered", calls.unregistered),
        ),
        bye_by_callee=calls.bye_by_callee,
        cancel_after_s=calls.cancel_after,
        fixed_pairs=calls.pairs == "fixed",
        calls_per_phone=calls.calls_per_phone,
    )
