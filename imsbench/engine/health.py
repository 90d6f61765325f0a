"""The generator's view of itself: may its numbers be believed?

A stretch of time is measured: CPU of this process, loop lag, garbage collections. Whether that is
good enough is not decided here.
"""

from __future__ import annotations

import gc
import resource
import time
from typing import Any

from imsbench.engine.loop import Loop, clock
from imsbench.histogram import Histogram

_PAGE_BYTES = resource.getpagesize()


class Health:
    """Measures one stretch after another, from begin() to end()."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._began_at = 0.0
        self._cpu_s = 0.0
        self._pauses = Histogram()
        self._pause_began_at = 0.0
        gc.callbacks.append(self._on_gc)

    def begin(self) -> None:
        """Start a stretch; what was measured before is dropped."""
        self._loop.lag = Histogram()
        self._pauses = Histogram()
        self._began_at = clock()
        self._cpu_s = time.process_time()

    def end(self) -> dict[str, Any]:
        """The stretch so far.

        wall_s, cpu_s (user + system of this process, seconds), loop_lag and gc_pauses (Histogram as
        JSON), memory_rss (bytes).
        """
        # Taken away first: writing it down may itself collect garbage.
        pauses, self._pauses = self._pauses, Histogram()
        return {
            "wall_s": clock() - self._began_at,
            "cpu_s": time.process_time() - self._cpu_s,
            "loop_lag": self._loop.lag.to_json(),
            "gc_pauses": pauses.to_json(),
            "memory_rss": resident_bytes(),
        }

    def _on_gc(self, phase: str, _info: dict[str, int]) -> None:
        if phase == "start":
            self._pause_began_at = clock()
        else:
            self._pauses.record(clock() - self._pause_began_at)


def resident_bytes() -> int:
    """Resident memory of this process, bytes."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * _PAGE_BYTES
