"""The generator's view of itself and of its host: may its numbers be believed?

A stretch of time is measured: CPU of this process and of the host, steal, loop lag, garbage collections,
jumps of the wall clock, memory. Whether that is good enough is not decided here.
"""

from __future__ import annotations

import gc
import resource
import time
from math import inf
from typing import Any

from imsbench.engine.loop import Loop, clock
from imsbench.histogram import Histogram
from imsbench.host import counters

_PAGE_BYTES = resource.getpagesize()
_CLOCK_TRIES = 5


class Health:
    """Measures one stretch after another, from begin() to end(); look() once a second meanwhile."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._began_at = 0.0
        self._cpu_s = 0.0
        self._host: counters.CpuTimes | None = None
        self._wall_offset_s = 0.0
        self._clock_jump_s = 0.0
        self._pauses = Histogram()
        self._pause_began_at = 0.0
        gc.callbacks.append(self._on_gc)

    def begin(self) -> None:
        """Start a stretch; what was measured before is dropped."""
        self._loop.lag = Histogram()
        self._pauses = Histogram()
        self._began_at = clock()
        self._cpu_s = time.process_time()
        self._host = _host_cpu()
        self._wall_offset_s = wall_offset_s()
        self._clock_jump_s = 0.0

    def look(self) -> None:
        """Compare the wall clock with the monotonic one: a slewed clock drifts by 0.5 ms a second."""
        offset_s = wall_offset_s()
        self._clock_jump_s = max(self._clock_jump_s, abs(offset_s - self._wall_offset_s))
        self._wall_offset_s = offset_s

    def end(self) -> dict[str, Any]:
        """The stretch so far.

        wall_s, cpu_s (user + system of this process, seconds), loop_lag and gc_pauses (Histogram as
        JSON), clock_jump_s, memory_rss (bytes); of the host host_cpu_share, steal_share and
        memory_share, None where its kernel does not say.
        """
        # Taken away first: writing it down may itself collect garbage.
        pauses, self._pauses = self._pauses, Histogram()
        self.look()
        return {
            "wall_s": clock() - self._began_at,
            "cpu_s": time.process_time() - self._cpu_s,
            "loop_lag": self._loop.lag.to_json(),
            "gc_pauses": pauses.to_json(),
            "clock_jump_s": self._clock_jump_s,
            "memory_rss": resident_bytes(),
            "memory_share": _memory_share(),
        } | self._host_shares()

    def _host_shares(self) -> dict[str, float | None]:
        before, now = self._host, _host_cpu()
        if before is None or now is None or now.all_s <= before.all_s:
            return {"host_cpu_share": None, "steal_share": None}
        all_s = now.all_s - before.all_s
        # The kernel's counts of one kind may step back a little (proc(5)).
        return {
            "host_cpu_share": max(0.0, now.busy_s - before.busy_s) / all_s,
            "steal_share": max(0.0, now.steal_s - before.steal_s) / all_s,
        }

    def _on_gc(self, phase: str, _info: dict[str, int]) -> None:
        if phase == "start":
            self._pause_began_at = clock()
        else:
            self._pauses.record(clock() - self._pause_began_at)


def wall_offset_s() -> float:
    """The wall clock less the monotonic one, seconds; between the two this process may lose the CPU."""
    offset_s, tightest_s = 0.0, inf
    for _ in range(_CLOCK_TRIES):
        before = clock()
        wall = time.time()
        after = clock()
        if after - before < tightest_s:
            tightest_s = after - before
            offset_s = wall - (before + after) / 2
    return offset_s


def resident_bytes() -> int:
    """Resident memory of this process, bytes."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * _PAGE_BYTES


def _host_cpu() -> counters.CpuTimes | None:
    try:
        return counters.read_cpu()
    except (OSError, ValueError):
        return None


def _memory_share() -> float | None:
    try:
        return counters.memory_share()
    except (OSError, ValueError):
        return None
