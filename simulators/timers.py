"""Delays to the microsecond: asyncio's own timers wake at whole milliseconds, up to 1 ms late."""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Callable
from typing import Any

from imsbench.host.timerfd import TimerFd


class Timers:
    """Calls at instants of the monotonic clock, in the running loop; its descriptor comes with the first."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Callable[..., object], tuple[Any, ...]]] = []
        self._number = 0
        self._timer: TimerFd | None = None

    def call_later(self, delay_s: float, call: Callable[..., object], *arguments: Any) -> None:
        """Call in so many seconds; it cannot be taken back."""
        self._number += 1  # equal instants in their order
        at = time.monotonic() + delay_s
        heapq.heappush(self._heap, (at, self._number, call, arguments))
        if self._heap[0][1] == self._number:
            self._armed().arm(at)

    async def sleep(self, delay_s: float) -> None:
        """Return in so many seconds."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.call_later(delay_s, _wake, done)
        await done

    def close(self) -> None:
        """Call nothing any more."""
        self._heap.clear()
        if self._timer is not None:
            asyncio.get_running_loop().remove_reader(self._timer.fd)
            self._timer.close()
            self._timer = None

    # private

    def _armed(self) -> TimerFd:
        if self._timer is None:
            self._timer = TimerFd()
            asyncio.get_running_loop().add_reader(self._timer.fd, self._fire)
        return self._timer

    def _fire(self) -> None:
        timer = self._armed()
        timer.acknowledge()
        while self._heap and self._heap[0][0] <= time.monotonic():
            _, _, call, arguments = heapq.heappop(self._heap)
            # As loop.call_later does: what it raises is the loop's to tell, and the next is called.
            asyncio.get_running_loop().call_soon(call, *arguments)
        if self._heap:
            timer.arm(self._heap[0][0])


def _wake(done: asyncio.Future[None]) -> None:
    if not done.done():  # cancelled meanwhile
        done.set_result(None)
