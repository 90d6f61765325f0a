"""The engine's event loop: one epoll set, one timer heap, one clock.

Rules:

* Time is ``time.monotonic()``, in seconds. ``now`` is taken once a turn; whoever stamps a message
  takes the clock itself, because a turn may carry hundreds of messages.
* All waiting is here. Callbacks must not block; whatever takes long is visible in the loop lag.
* Timers are one heap, woken by a timerfd in the epoll set: epoll's own timeout rounds to 1 ms.
  A cancelled timer stays in the heap with an empty callback until its time comes; that is cheaper
  than finding it, and the heap is bounded by the longest timeout times the rate.
* In a turn, descriptors come before timers: a response that arrived before its transaction's
  timeout is read before the timeout is judged.
* A probe timer every ``PROBE_S`` records how late it is called: the loop lag. It is what a phone's
  own timer would have suffered.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from heapq import heappop, heappush
from math import inf
from typing import Any

from imsbench.histogram import Histogram
from imsbench.host.timerfd import TimerFd

PROBE_S = 0.02
_EVENTS_A_TURN = 512

clock = time.monotonic


class Timer:
    """A callback at a time; cancel() makes it do nothing."""

    __slots__ = ("argument", "callback")

    def __init__(self, callback: Callable[[Any], None] | None, argument: Any) -> None:
        self.callback = callback
        self.argument = argument

    def cancel(self) -> None:
        """Forget the callback and what it would have been called with."""
        self.callback = None
        self.argument = None


class Loop:
    """epoll and timers of one worker process."""

    def __init__(self) -> None:
        self.epoll = select.epoll()
        self.now = clock()
        """The time at which this turn began, seconds."""
        self.lag = Histogram()
        """How late the probe timer was called: the loop lag, seconds."""
        self.late_over_s = inf
        """From which loop lag on ``was_late_since`` calls it late, seconds."""
        self.busy_s = 0.0
        """Time spent in callbacks since the start, seconds."""
        self._handlers: dict[int, Callable[[int], object]] = {}
        self._heap: list[tuple[float, int, Timer]] = []
        self._sequence = 0
        self._timer_fd = TimerFd()
        self._armed_for = 0.0
        self._late_at = -inf
        self._running = False
        self.register(self._timer_fd.fd, select.EPOLLIN, self._on_timer_fd)
        self._next_probe_at = self.now + PROBE_S
        self.call_at(self._next_probe_at, self._probe, None)

    def register(self, fd: int, events: int, handler: Callable[[int], object]) -> None:
        """Call handler(event mask) whenever the descriptor is ready (level-triggered)."""
        self._handlers[fd] = handler
        self.epoll.register(fd, events)

    def modify(self, fd: int, events: int) -> None:
        """Change what a registered descriptor is watched for."""
        self.epoll.modify(fd, events)

    def unregister(self, fd: int) -> None:
        """Stop watching; to be called before the descriptor is closed."""
        if self._handlers.pop(fd, None) is not None:
            self.epoll.unregister(fd)

    def add_reader(self, fd: int, callback: Callable[[], object]) -> None:
        """As asyncio's: call back whenever the descriptor is readable."""
        self.register(fd, select.EPOLLIN, lambda _mask: callback())

    def call_at(self, when: float, callback: Callable[[Any], None], argument: Any) -> Timer:
        """Call callback(argument) at this time, seconds."""
        timer = Timer(callback, argument)
        self._sequence += 1
        heappush(self._heap, (when, self._sequence, timer))
        return timer

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        """As asyncio's: call back so many seconds from now."""
        return self.call_at(clock() + delay_s, lambda _none: callback(), None)

    def run(self) -> None:
        """Turn until stop() is called."""
        self._running = True
        while self._running:
            self.turn()

    def stop(self) -> None:
        """End run() after this turn."""
        self._running = False

    def turn(self) -> None:
        """Wait for something, then do everything that is due."""
        heap = self._heap
        if heap and heap[0][0] != self._armed_for:
            self._armed_for = heap[0][0]
            self._timer_fd.arm(self._armed_for)
        events = self.epoll.poll(-1, _EVENTS_A_TURN)
        self.now = now = clock()
        handlers = self._handlers
        for fd, mask in events:
            handler = handlers.get(fd)
            if handler is not None:  # closed by an earlier event of this turn
                handler(mask)
        self._run_timers()
        self.busy_s += clock() - now

    def close(self) -> None:
        """Close the descriptors of the loop itself."""
        self._timer_fd.close()
        self.epoll.close()

    def was_late_since(self, at: float) -> bool:
        """Whether the loop has lagged by more than ``late_over_s`` since then, or does now."""
        return self._late_at >= at or clock() - self._next_probe_at > self.late_over_s

    # private

    def _run_timers(self) -> None:
        heap = self._heap
        while heap and heap[0][0] <= self.now:
            timer = heappop(heap)[2]
            callback = timer.callback
            if callback is not None:
                argument = timer.argument
                timer.cancel()
                callback(argument)

    def _on_timer_fd(self, _mask: int) -> None:
        self._timer_fd.acknowledge()
        self._armed_for = 0.0

    def _probe(self, _argument: object) -> None:
        now = clock()
        self.lag.record(now - self._next_probe_at)
        if now - self._next_probe_at > self.late_over_s:
            self._late_at = now
        # Probes missed during a stall count as well: a timer due then would have waited for its end.
        self._next_probe_at += PROBE_S
        while self._next_probe_at < now:
            self.lag.record(now - self._next_probe_at)
            self._next_probe_at += PROBE_S
        self.call_at(self._next_probe_at, self._probe, None)
