"""Faults that a process does on purpose: steady ones by share, timed ones by order.

A steady fault names messages and strikes a share of them. Which ones is drawn from the seed, in
blocks of a hundred: of each block it strikes exactly its share (where that is no whole number, the
rest is carried on), so that a test knows beforehand how many of its messages fail.

A timed fault is ordered with its instant on the monotonic clock, carried out then, and told with
what came of it.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from imsbench.distribution import Distribution
from imsbench.histogram import Histogram

BLOCK = 100
"""Messages in which a share is kept exactly."""

log = logging.getLogger(__name__)


class Sampler:
    """Draws a share of what passes: of each ``BLOCK`` exactly so many, at seeded places."""

    def __init__(self, share: float, seed: str) -> None:
        """share: 0..1, ValueError if not; seed: whatever tells this drawing from others."""
        if not 0.0 <= share <= 1.0:
            raise ValueError(f"a share of {share} is not between 0 and 1")
        self.share = share
        """Of the messages, 0..1."""
        self._random = random.Random(seed)
        self._places: frozenset[int] = frozenset()
        self._block = -1
        self._next = BLOCK

    def draw(self) -> bool:
        """Whether the next one is struck."""
        if not self.share:
            return False
        if self._next == BLOCK:
            self._block += 1
            self._next = 0
            per_block = self.share * BLOCK
            # As much as is due by the end of this block, less what the blocks before had.
            due = int((self._block + 1) * per_block + 1e-6) - int(self._block * per_block + 1e-6)
            self._places = frozenset(self._random.sample(range(BLOCK), due))
        struck = self._next in self._places
        self._next += 1
        return struck


What = Literal["error", "loss", "silence", "delay"]


@dataclass(slots=True)
class SteadyFault:
    """One steady fault and what it has done."""

    what: What
    """What befalls the messages it strikes."""
    names: frozenset[str]
    """Messages it may strike, in words of whoever has it; empty: all."""
    sampler: Sampler
    """Draws its share."""
    code: int = 0
    """Of an error: the status or the result code."""
    delay: Distribution = field(default_factory=Distribution)
    """Of a delay."""
    of: int = 0
    """Messages that it might have struck."""
    struck: int = 0
    """Those that it did."""
    delays: Histogram | None = None
    """Delays drawn; None without any."""

    def draw(self, source: random.Random) -> float:
        """The delay of one message, seconds, noted."""
        delay_s = self.delay.draw(source)
        if self.delays is None:
            self.delays = Histogram()
        self.delays.record(delay_s)
        return delay_s

    def to_json(self) -> dict[str, Any]:
        """For the control channel."""
        return {
            "what": self.what,
            "names": sorted(self.names),
            "share": self.sampler.share,
            "code": self.code or None,
            "of": self.of,
            "struck": self.struck,
            "delays": self.delays.to_json() if self.delays is not None else None,
        }


class SteadyFaults:
    """The steady faults of one process, in order: the first that strikes a message counts."""

    def __init__(self, faults: Sequence[Mapping[str, Any]], seed: str) -> None:
        """faults: of a ``config`` message; KeyError, TypeError or ValueError if not of its form."""
        self.all = [_steady(one, f"{seed} fault {n}") for n, one in enumerate(faults)]

    def strike(self, whats: frozenset[What], *names: str) -> SteadyFault | None:
        """The fault of one of these kinds that befalls a message of any of these names, if one does."""
        for fault in self.all:
            if fault.what not in whats or (fault.names and fault.names.isdisjoint(names)):
                continue
            fault.of += 1
            if fault.sampler.draw():
                fault.struck += 1
                return fault
        return None

    def to_json(self) -> list[dict[str, Any]]:
        """What each has done, in order."""
        return [one.to_json() for one in self.all]


def _steady(config: Mapping[str, Any], seed: str) -> SteadyFault:
    what = config["what"]
    if what not in ("error", "loss", "silence", "delay"):
        raise ValueError(f"unknown fault {what!r}")
    return SteadyFault(
        what,
        frozenset(map(str, config["names"])),
        Sampler(float(config["share"]), seed),
        int(config.get("code") or 0),
        Distribution(**config["delay"]),
    )


Done = tuple[int, int]
"""How many a fault struck, and how many it wanted to and could not."""
Lasting = Callable[[float], Awaitable[object]]
"""Does what lasts, for so many seconds."""
Striking = Callable[[int | None, float | None], Awaitable[Done]]
"""Strikes so many, or this share of all there are, at once."""


@dataclass(slots=True)
class _Order:
    """A timed fault as it was ordered, and what came of it."""

    number: int
    step: int | None
    what: str
    at: float
    duration_s: float
    rate: float | None
    count: int | None
    share: float | None
    ended_at: float | None = None
    done: int = 0
    failed: int = 0

    def to_json(self) -> dict[str, Any]:
        return {
            "fault": self.number,
            "step": self.step,
            "at": self.at,
            "ended_at": self.ended_at,
            "done": self.done,
            "failed": self.failed,
        }


class TimedFaults:
    """Carries out what is ordered, in the running loop."""

    def __init__(
        self, lasting: Mapping[str, Lasting], striking: Mapping[str, Striking] | None = None
    ) -> None:
        """lasting, striking: what this process can do, by name."""
        self._lasting = lasting
        self._striking = striking or {}
        self._begun: list[_Order] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def order(self, message: Mapping[str, Any]) -> None:
        """Take a ``fault`` message; LookupError, TypeError or ValueError if it is not of its form."""
        one = _Order(
            number=int(message["fault"]),
            step=None if message["step"] is None else int(message["step"]),
            what=str(message["what"]),
            at=float(message["at"]),
            duration_s=float(message["duration_s"]),
            rate=None if message["rate"] is None else float(message["rate"]),
            count=None if message["count"] is None else int(message["count"]),
            share=None if message["share"] is None else float(message["share"]),
        )
        if one.what in self._lasting:
            work = self._last(one, self._lasting[one.what])
        elif one.what in self._striking:
            work = self._strike(one, self._striking[one.what])
        else:
            raise ValueError(f"unknown fault {one.what!r}")
        self._run(work)

    def to_json(self) -> list[dict[str, Any]]:
        """What has begun so far, in order, and what came of it."""
        return [one.to_json() for one in self._begun]

    async def close(self) -> None:
        """Stop what is under way, and what is still to come."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # private

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("injected fault", exc_info=task.exception())

    async def _begin(self, one: _Order) -> None:
        await asyncio.sleep(max(0.0, one.at - time.monotonic()))
        one.at = time.monotonic()
        self._begun.append(one)

    async def _last(self, one: _Order, act: Lasting) -> None:
        await self._begin(one)
        try:
            await act(one.duration_s)
        except Exception:
            one.failed = 1
            raise
        one.done, one.ended_at = 1, time.monotonic()

    async def _strike(self, one: _Order, act: Striking) -> None:
        await self._begin(one)
        if one.rate is None:
            one.done, one.failed = await act(one.count, one.share)
        else:
            await self._strike_at_rate(one, act, one.rate)
        one.ended_at = time.monotonic()

    async def _strike_at_rate(self, one: _Order, act: Striking, rate: float) -> None:
        """One at a time, at begin + i / rate; none waits for what became of the one before."""
        strikes: list[asyncio.Task[Done]] = []
        for number in range(round(rate * one.duration_s)):
            await asyncio.sleep(max(0.0, one.at + number / rate - time.monotonic()))
            strikes.append(asyncio.ensure_future(act(1, None)))
            strikes[-1].add_done_callback(lambda done: _count(one, done))
        await asyncio.gather(*strikes, return_exceptions=True)


def _count(one: _Order, strike: asyncio.Future[Done]) -> None:
    if strike.cancelled():
        return
    if error := strike.exception():
        log.error("injected fault", exc_info=error)
        one.failed += 1
        return
    done, failed = strike.result()
    one.done += done
    one.failed += failed


def wanted(count: int | None, share: float | None, there: int) -> int:
    """How many of those that are there a strike wants."""
    return count if count is not None else round((share or 0.0) * there)
