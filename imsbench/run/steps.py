"""Carrying out the steps of the load: fill, hold, cycle, calls (one worker's share of each).

Open arrivals: every attempt has the instant at which it is due, fixed before the step starts, and
starts then whatever became of the others. An arrival that finds no phone to use is a counted drop.
A step is over when its plan is through and every attempt of it has ended, or when the drain is:
what is left then is counted. Refreshes that come due after the plan belong to no step. Calls may have
a cycle or a hold beside them: two plans on one clock, and one step.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from imsbench import profile
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


@dataclass(frozen=True, slots=True)
class Plan:
    """Attempts and when they are due."""

    at: float
    """Instant of its beginning, seconds."""
    offsets: Iterator[float]
    """Seconds from there, in order; this worker's share."""
    start: Callable[[float], None]
    """Makes one attempt, due at an instant."""


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
        drain_s: float,
        t1_s: float = 0.5,
        transaction_timeout_s: float = 32.0,
        on_done: Callable[[], None],
        on_evaluated: Callable[[], None] = lambda: None,
        on_drain: Callable[[], None] = lambda: None,
    ) -> None:
        """on_done: called when the step is over; on_evaluated: when its warm-up is; on_drain: when its
        plan is, and what it has under way may end.
        """
        self.step = step
        self.on_evaluated = on_evaluated
        self.on_drain = on_drain
        self.dropped = 0
        """Arrivals that found no idle phone."""
        self.without_pair = 0
        """Calls that found no idle pair of phones."""
        self.started = 0
        """Arrivals that started a registration or de-registration."""
        self.called = 0
        """Arrivals after the warm-up that started a call."""
        self.unfinished = 0
        """Attempts of the step that had not ended when the drain was over."""
        self.first_due_at = 0.0
        """Instant of the plan's beginning, seconds."""
        self._loop = loop
        self._phones = phones
        self._calls = calls
        self._share = {"share": worker, "shares": workers}
        self._seed = f"{seed}/{step.index}"
        self._drain_s = drain_s
        self._timers = {"t1_s": t1_s, "transaction_timeout_s": transaction_timeout_s}
        self._drained_by = 0.0
        self._on_done = on_done
        self._queue: deque[Phone] = deque()
        self._plans = 0
        """Plans that are not through."""

    def begin(self, at: float, *, repair: bool = False, repair_rate: float = 0.0) -> None:
        """Plan the step from this instant, seconds; a repair registers what its precondition lacks."""
        self.first_due_at = at
        step = self.step
        self._plans += 1  # until all plans are made, so that an empty one does not end the step
        if repair:
            self._plan_fill(step.registered_before, repair_rate)
        elif step.kind == "fill":
            self._plan_fill(step.registered, step.rate)
        elif step.kind == "cycle":
            self._plan_cycle(step)
        elif step.kind == "calls":
            self._plan_calls(step)
            if step.beside is not None:
                self._plan_beside(step.beside, at + step.warm_up_s)
        else:
            self._plan_hold(at + step.duration_s)
        self._plan_ended(None)

    # private

    def _plan_fill(self, to: int, rate: float) -> None:
        """Phones below ``to`` that are not registered, in the order of their numbers."""
        missing = [p for p in self._phones.all if p.n < to and p.registration is None]
        self._queue.extend(missing)
        share, shares = self._share["share"], self._share["shares"]
        offsets = ((i * shares + share) / rate for i in range(len(missing)))
        self._follow(Plan(self.first_due_at, offsets, self._fill_next))

    def _plan_hold(self, until: float) -> None:
        self._plans += 1
        self._loop.call_at(until, self._plan_ended, None)

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
        offsets = (
            offset for i, offset in enumerate(everything) if i % step.registered % shares == share
        )
        self._follow(Plan(self.first_due_at, offsets, self._cycle_next))

    def _plan_calls(self, step: Step) -> None:
        """Attempts at the step's rate; those of the warm-up belong to no step."""
        assert step.calls is not None
        mix = call_mix(step.calls, **self._timers)
        self._phones.step = -1 if step.warm_up_s else step.index
        if step.warm_up_s:
            evaluated_at = self.first_due_at + step.warm_up_s
            self._loop.call_at(evaluated_at, self._evaluate, None)
        offsets = self._arrivals(step, self._seed)
        self._follow(Plan(self.first_due_at, offsets, lambda due_at: self._call(mix, due_at)))
        # Refreshes that come due behind the last arrival are of this step too.
        self._plan_hold(self.first_due_at + step.duration_s)

    def _plan_beside(self, step: Step, at: float) -> None:
        """What runs beside calls. Phones in a call are passed over by its cycle, and come later."""
        if step.kind == "hold":
            self._plan_hold(at + step.duration_s)
            return
        mine = [phone for phone in self._phones.all if phone.n < step.registered]
        random.Random(f"{self._seed}/order").shuffle(mine)
        self._queue.extend(mine)
        offsets = self._arrivals(step, f"{self._seed}/beside")
        self._follow(Plan(at, offsets, self._cycle_any))

    def _arrivals(self, step: Step, seed: str) -> Iterator[float]:
        return iter(Arrivals(step.rate, step.attempts, step.arrivals, seed, **self._share))

    def _evaluate(self, _argument: Any) -> None:
        """The warm-up is over: from now on what is due belongs to the step."""
        self._phones.step = self.step.index
        self.on_evaluated()

    def _follow(self, plan: Plan) -> None:
        self._plans += 1
        self._next(plan)

    def _next(self, plan: Plan) -> None:
        offset = next(plan.offsets, None)
        if offset is None:
            self._plan_ended(None)
        else:
            due_at = plan.at + offset
            self._loop.call_at(due_at, self._arrive, (plan, due_at))

    def _arrive(self, what: tuple[Plan, float]) -> None:
        plan, due_at = what
        plan.start(due_at)
        self._next(plan)

    def _plan_ended(self, _argument: Any) -> None:
        self._plans -= 1
        if not self._plans:
            self._end_plan()

    def _call(self, mix: CallMix, due_at: float) -> None:
        evaluated = due_at >= self.first_due_at + self.step.warm_up_s
        started = self._calls.start(mix, due_at)
        if evaluated:
            self.called += started
            self.without_pair += not started

    def _idle_phone(self) -> Phone | None:
        """The next phone in the order that has nothing under way; a busy one is put behind."""
        for _ in range(len(self._queue)):
            phone = self._queue.popleft()
            if phone.n not in self._phones.busy and phone.n not in self._phones.in_call:
                return phone
            self._queue.append(phone)
        return None

    def _take(self) -> Phone | None:
        """The next idle phone, counted; None, counted too, if there is none."""
        phone = self._idle_phone()
        self.started += phone is not None
        self.dropped += phone is None
        return phone

    def _fill_next(self, due_at: float) -> None:
        phone = self._take()
        if phone is not None and phone.registration is None:
            self._phones.register(phone, due_at)

    def _cycle_next(self, due_at: float) -> None:
        phone = self._take()
        if phone is not None:
            self._cycle_one(phone, due_at)

    def _cycle_any(self, due_at: float) -> None:
        """One of a cycle beside calls: the order begins anew as often as it must."""
        phone = self._take()
        if phone is not None:
            self._queue.append(phone)
            self._cycle_one(phone, due_at)

    def _cycle_one(self, phone: Phone, due_at: float) -> None:
        if phone.registration is None:
            self._phones.register(phone, due_at)  # lost meanwhile: there is nothing to end
        else:
            self._phones.deregister(phone, due_at, self._again)

    def _again(self, phone: Phone, outcome: Outcome) -> None:
        """The registration of a cycle is due when the phone holds nothing of the last one."""
        self._phones.register(phone, clock(), outcome.step)

    def _end_plan(self) -> None:
        """Nothing new belongs to the step; what it has under way may end."""
        self._phones.step = -1
        self.on_drain()
        self._drained_by = clock() + self._drain_s
        self._drain(None)

    def _drain(self, _argument: Any) -> None:
        under_way = self._phones.outstanding[self.step.index] + self._calls.outstanding
        if under_way and clock() < self._drained_by:
            self._loop.call_at(clock() + _DRAIN_CHECK_S, self._drain, None)
            return
        self.unfinished = under_way
        self._on_done()


def call_mix(
    calls: profile.Calls, *, t1_s: float = 0.5, transaction_timeout_s: float = 32.0
) -> CallMix:
    """The calls of a profile, as the phones take them."""
    settings = CallSettings(
        t1_s=t1_s,
        transaction_timeout_s=transaction_timeout_s,
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
