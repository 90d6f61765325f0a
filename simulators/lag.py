"""The loop lag of a simulator's process: what its response times cannot show.

A response time begins when a request is read, and a process that stands still reads nothing. So a
timer of the loop every ``PROBE_S`` records how late it is called; probes missed meanwhile count too.
"""

from __future__ import annotations

import asyncio
from collections import deque

from imsbench.histogram import Histogram

PROBE_S = 0.02
NOTED_S = 0.01
"""Lag from which on a stall is told with its instant: at most one for each probe."""
KEPT = 1000
"""Stalls kept until they are taken, the newest ones."""


class LoopLag:
    """Probes the running asyncio loop from its making on."""

    def __init__(self) -> None:
        self.histogram = Histogram()
        """How late the probes were, seconds."""
        self._stalls: deque[tuple[float, float]] = deque(maxlen=KEPT)
        self._loop = asyncio.get_running_loop()
        self._due_at = self._loop.time() + PROBE_S
        self._timer = self._loop.call_at(self._due_at, self._probe)

    def take_stalls(self) -> list[tuple[float, float]]:
        """The stalls since the last call: (instant on the monotonic clock, length), seconds."""
        stalls = list(self._stalls)
        self._stalls.clear()
        return stalls

    def close(self) -> None:
        """Probe no more."""
        self._timer.cancel()

    def _probe(self) -> None:
        now = self._loop.time()
        lag_s = now - self._due_at
        if lag_s > NOTED_S:
            self._stalls.append((self._due_at, lag_s))
        # Whoever had to wait at a missed probe waited from there on.
        while self._due_at <= now:
            self.histogram.record(now - self._due_at)
            self._due_at += PROBE_S
        self._timer = self._loop.call_at(self._due_at, self._probe)
