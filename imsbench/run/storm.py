"""A registration storm on one worker: its phones are lost at once, come back, and try until they are in.

A failed attempt ends as any other; the storm then waits and makes another, as a phone would. How long
depends on the phone and on how often it has failed, never on what other phones do: the same seed waits
as long in every run, however many workers share the phones.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

from imsbench import profile
from imsbench.engine.loop import Loop, clock
from imsbench.kpi.recovery import Recovery
from imsbench.outcome import Outcome
from imsbench.phone.phone import Phone
from imsbench.run.phones import Phones

_AT_ONCE = 50
"""Phones that are lost in one turn of the loop."""
_BUSY_S = 0.01
"""Until a phone that had something under way is looked at again."""


@dataclass(frozen=True, slots=True)
class BackOff:
    """How long a phone waits after a failed registration."""

    kind: str
    """rfc5626: RFC 5626 §4.5 (TS 24.229 §5.1.1.2 refers to it, as we understand it); none: the retry."""
    base_s: float
    """Doubled by each failure in a row."""
    most_s: float
    """Its longest."""
    retry_s: float
    """The wait without back-off."""

    def wait_s(self, failures: int, source: random.Random) -> float:
        """After so many failures in a row, 1 or more, seconds."""
        if self.kind == "none":
            return self.retry_s
        bound_s = min(self.most_s, self.base_s * 2.0 ** min(failures, 64))
        return source.uniform(bound_s / 2, bound_s)


class Storm:
    """The storm of one step on one worker."""

    def __init__(
        self,
        loop: Loop,
        phones: Phones,
        storm: profile.Storm,
        *,
        seed: str,
        returns_at: float,
        limit_at: float,
    ) -> None:
        """returns_at: instant at which the first phone comes back; limit_at: at which nobody tries
        again, both in seconds."""
        self.waiting = 0
        """Phones that failed and will try again."""
        self.recovery = Recovery()
        """What became of them all."""
        self._loop = loop
        self._phones = phones
        self._back_off = BackOff(storm.back_off, storm.base_time, storm.max_time, storm.retry)
        self._seed = seed
        self._returns_at = returns_at
        self._limit_at = limit_at
        self._failures: Counter[int] = Counter()

    def strike(self, lost: list[Phone]) -> None:
        """Every one of them is gone, some at a time; one that has something under way, after that."""
        if clock() >= self._returns_at:
            self.recovery.not_lost += len(lost)
            return
        now, later = lost[:_AT_ONCE], lost[_AT_ONCE:]
        for phone in now:
            if phone.n in self._phones.busy or phone.n in self._phones.in_call:
                later.append(phone)
            else:
                self._phones.lose(phone)
                self.recovery.lost += 1
        if later:
            wait_s = 0.0 if len(later) > _AT_ONCE else _BUSY_S
            self._loop.call_at(clock() + wait_s, self.strike, later)

    def come_back(self, phone: Phone, due_at: float, step: int | None = None) -> None:
        """One attempt to register, and what follows from it."""
        self._phones.register(phone, due_at, step, self._ended)

    # private

    def _ended(self, phone: Phone, outcome: Outcome) -> None:
        if outcome.succeeded:
            self.recovery.registered.record(max(0.0, outcome.ended_at - self._returns_at))
            return
        self._failures[phone.n] += 1
        failures = self._failures[phone.n]
        source = random.Random(f"{self._seed}/{phone.n}/{failures}")
        wait_s = max(self._back_off.wait_s(failures, source), outcome.retry_after_s)
        due_at = clock() + wait_s
        if due_at > self._limit_at:
            self.recovery.given_up += 1
            return
        self.waiting += 1
        self._loop.call_at(due_at, self._retry, (phone, due_at, outcome.step))

    def _retry(self, what: tuple[Phone, float, int]) -> None:
        phone, due_at, step = what
        self.waiting -= 1
        self.recovery.retries += 1
        self.come_back(phone, due_at, step)
