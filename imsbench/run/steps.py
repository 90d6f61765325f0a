"""Carrying out the steps of the load: fill, hold, cycle, calls, storm, mix (one worker's share of each).

Open arrivals: every attempt has the instant at which it is due, fixed before the step starts, and
starts then whatever became of the others. An arrival that finds no phone to use is a counted drop.
A step is over when its plan is through and every attempt of it has ended, or when the drain is:
what is left then is counted. Refreshes that come due after the plan belong to no step. Calls may have
a cycle, a hold or a mix beside them: several plans on one clock, and one step.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, count, islice
from typing import Any, Literal

from imsbench.arrivals import Arrivals
from imsbench.engine.loop import Loop, clock
from imsbench.outcome import Outcome
from imsbench.phone.phone import Phone
from imsbench.profile import Offer, Pace, Step, TrialLoad
from imsbench.run.calls import CallMix, Calls
from imsbench.run.phones import Phones
from imsbench.run.settings import call_mix
from imsbench.run.storm import Storm
from imsbench.run.trials import parts_of, phones_of

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

    dropped = 0
    """Arrivals that found no idle phone."""
    without_pair = 0
    """Calls that found no idle pair of phones."""
    started = 0
    """Arrivals that started a registration or de-registration."""
    called = 0
    """Arrivals after the warm-up that started a call."""
    unfinished = 0
    """Attempts of the step that had not ended when the drain was over."""
    first_due_at = 0.0
    """Instant of the plan's beginning, seconds."""

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
        self.offered: Counter[str] = Counter()
        """Arrivals of a mix that started something, by procedure; its calls after the warm-up."""
        self.storm: Storm | None = None
        """The storm, if the step is one."""
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
        self._turns: Counter[int] = Counter()
        self._plans = 0
        """Plans that are not through."""

    def begin(self, at: float, *, repair: bool = False, repair_rate: float = 0.0) -> None:
        """Plan the step from this instant, seconds; a repair registers what its precondition lacks."""
        self.first_due_at = at
        step = self.step
        self._plans += 1  # until all plans are made, so that an empty one does not end the step
        if repair:
            self._plan_fill(step.registered_before, repair_rate)
        else:
            self._plan(step, at)
        self._plan_ended(None)

    # private

    def _plan(self, step: Step, at: float) -> None:
        match step.kind:
            case "fill":
                self._plan_fill(
                    step.registered,
                    step.rate,
                    arrivals_of(step.pace, step.arrivals, self._seed, **self._share),
                )
            case "cycle":
                self._plan_cycle(step)
            case "calls":
                self._plan_calls(step)
                if step.beside is not None:
                    self._plan_beside(step.beside, at + step.warm_up_s)
            case "storm":
                self._plan_storm(step, at)
            case "mix":
                self._plan_mix(step, at)
            case "trial":
                self._plan_trial(step, at)
            case "hold":
                self._plan_hold(at + step.duration_s)
                if step.refresh is not None:
                    self._plan_refresh(step)

    def _plan_fill(self, to: int, rate: float, planned: Arrivals | None = None) -> None:
        """Phones below ``to`` that are not registered, in the order of their numbers.

        planned: this worker's share of the plan; more phones, lost ones, follow it at its rate.
        """
        missing = [p for p in self._phones.all if p.n < to and p.registration is None]
        self._queue.extend(missing)
        share, shares = self._share["share"], self._share["shares"]
        end_s = planned.duration_s if planned is not None else 0.0
        more = (end_s + (i * shares + share) / rate for i in count())
        offsets = islice(chain(planned or (), more), len(missing))
        self._follow(Plan(self.first_due_at, offsets, self._fill_next))

    def _plan_hold(self, until: float) -> None:
        self._plans += 1
        self._loop.call_at(until, self._plan_ended, None)

    def _plan_refresh(self, step: Step) -> None:
        """Every phone once, in the order of their numbers, evenly spaced."""
        mine = [phone for phone in self._phones.all if phone.n < step.registered]
        self._queue.extend(mine)
        offsets = (phone.n * step.duration_s / step.registered for phone in mine)
        self._follow(Plan(self.first_due_at, offsets, self._refresh_next))

    def _plan_cycle(self, step: Step) -> None:
        """Every phone once a pass, in an order drawn from the seed."""
        mine = [phone for phone in self._phones.all if phone.n < step.registered]
        source = random.Random(f"{self._seed}/order")
        for _ in range(step.passes):
            source.shuffle(mine)
            self._queue.extend(mine)
        everything = arrivals_of(step.pace, step.arrivals, self._seed)
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
        elif step.kind == "mix":
            self._plan_mix(step, at)
        else:
            self._queue_all(step)
            offsets = self._arrivals(step, f"{self._seed}/beside")
            self._follow(Plan(at, offsets, self._cycle_any))

    def _plan_mix(self, step: Step, at: float) -> None:
        """Each procedure by a plan of its own; the phones take turns for all of them."""
        self._queue_all(step)
        for offer in step.offers:
            self._follow(Plan(at, self._offsets_of(step, offer), self._start_of(offer)))
        self._plan_hold(at + step.duration_s)

    def _offsets_of(self, step: Step, offer: Offer) -> Iterator[float]:
        seed = f"{self._seed}/{offer.procedure}"
        return iter(arrivals_of(offer.pace, step.arrivals, seed, **self._share))

    def _start_of(self, offer: Offer) -> Callable[[float], None]:
        start = {
            "refresh": self._refresh_one,
            "reattach": self._phones.reattach,
            "power_cycle": self._cycle_one,
        }[offer.procedure]

        def start_one(due_at: float) -> None:
            self.offered[offer.procedure] += self._rotate(due_at, start)

        return start_one

    def _plan_trial(self, step: Step, at: float) -> None:
        """Each of its loads for the whole time; what is due in the warm-up belongs to no step."""
        if step.warm_up_s:
            self._phones.step = -1
            self._loop.call_at(at + step.warm_up_s, self._evaluate, None)
        self._queue.extend(phones_of(step, self._phones.all, f"{self._seed}/order"))
        for part in parts_of(step, at):
            seed = f"{self._seed}/{part.name}"
            pace = Pace(part.rate, part.count, part.count / part.rate)
            offsets = iter(arrivals_of(pace, step.arrivals, seed, **self._share))
            self._follow(Plan(part.at, offsets, self._start_of_trial(part.load, step)))
        self._plan_hold(at + step.duration_s)

    def _start_of_trial(self, load: TrialLoad, step: Step) -> Callable[[float], None]:
        match load:
            case "registration":
                return self._fill_next
            case "cycle":
                return self._cycle_any
            case "release":
                return self._release_next
            case "calls":
                assert step.calls is not None
                mix = call_mix(step.calls, **self._timers)
                return lambda due_at: self._call(mix, due_at)

    def _release_next(self, due_at: float) -> None:
        """De-register one phone, if any is left: a release has an arrival for each that there may be."""
        phone = self._idle_phone()
        if phone is not None and phone.registration is not None:
            self._phones.deregister(phone, due_at, lambda *_: None)

    def _plan_storm(self, step: Step, at: float) -> None:
        """All phones are gone by ``at``; after the outage each has its instant to come back."""
        assert step.storm is not None
        returns_at = at + step.storm.outage
        self.storm = Storm(
            self._loop,
            self._phones,
            step.storm,
            seed=f"{self._seed}/back-off",
            returns_at=returns_at,
            limit_at=returns_at + step.storm.within + step.storm.limit,
        )
        mine = self._queue_all(step)
        self.storm.strike(mine)
        pace = Pace(
            step.rate, step.registered, step.storm.within, burst=0 if step.rate else step.registered
        )
        offsets = iter(arrivals_of(pace, step.arrivals, self._seed, **self._share))
        self._follow(Plan(returns_at, offsets, self._come_back))

    def _queue_all(self, step: Step) -> list[Phone]:
        """The step's phones, in an order drawn from the seed."""
        mine = [phone for phone in self._phones.all if phone.n < step.registered]
        random.Random(f"{self._seed}/order").shuffle(mine)
        self._queue.extend(mine)
        return mine

    def _arrivals(self, step: Step, seed: str) -> Iterator[float]:
        return iter(arrivals_of(step.pace, step.arrivals, seed, **self._share))

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
            self.offered["call"] += started

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

    def _refresh_next(self, due_at: float) -> None:
        phone, what = self._idle_phone(), self.step.refresh
        assert what is not None
        if phone is not None and self._phones.refresh(phone, due_at, what):
            self.started += 1
        else:
            self.dropped += 1

    def _cycle_next(self, due_at: float) -> None:
        phone = self._take()
        if phone is not None:
            self._cycle_one(phone, due_at)

    def _rotate(self, due_at: float, start: Callable[[Phone, float], None]) -> bool:
        """One of what phones take turns in: the order begins anew as often as it must."""
        phone = self._take()
        if phone is None:
            return False
        self._queue.append(phone)
        start(phone, due_at)
        return True

    def _cycle_any(self, due_at: float) -> None:
        self._rotate(due_at, self._cycle_one)

    def _cycle_one(self, phone: Phone, due_at: float) -> None:
        if self._reattaches(phone):
            self._phones.reattach(phone, due_at)
        elif phone.registration is None:
            self._phones.register(phone, due_at)  # lost meanwhile: there is nothing to end
        else:
            self._phones.deregister(phone, due_at, self._again)

    def _reattaches(self, phone: Phone) -> bool:
        """Whether this time it is gone without a word; by its number and its turn, whatever the worker."""
        step = self.step.beside or self.step
        if not 0 < step.reattach < 1:
            return step.reattach == 1
        self._turns[phone.n] += 1
        source = random.Random(f"{self._seed}/reattach/{phone.n}/{self._turns[phone.n]}")
        return source.random() < step.reattach

    def _refresh_one(self, phone: Phone, due_at: float) -> None:
        if not self._phones.refresh(phone, due_at):
            self._phones.register(phone, due_at)  # lost meanwhile: there is nothing to refresh

    def _come_back(self, due_at: float) -> None:
        assert self.storm is not None
        phone = self._take()
        if phone is not None:
            self.storm.come_back(phone, due_at)

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
        under_way += self.storm.waiting if self.storm is not None else 0
        if under_way and clock() < self._drained_by:
            self._loop.call_at(clock() + _DRAIN_CHECK_S, self._drain, None)
            return
        self.unfinished = under_way
        self._on_done()


def arrivals_of(
    pace: Pace, kind: Literal["constant", "poisson"], seed: str, share: int = 0, shares: int = 1
) -> Arrivals:
    """The instants of a pace: the whole plan's, or one worker's share of them."""
    rate = pace.rate or 1.0  # a pace without a rate has all its attempts at one instant
    return Arrivals(
        rate, pace.attempts, kind, seed, share, shares, points=pace.points, burst=pace.burst
    )
