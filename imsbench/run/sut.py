"""What the target uses of its machine: CPU over a step's evaluated time, memory at its end.

CPU (cores) is the user and system time of the target's process tree per wall time; the machine's own
busy time stands beside it, as kernel ESP runs in softirq and is nobody's. A part of the target on a
kernel of its own (a lab's guest) is told of once a second (``Target.told``), and added to what is here;
its kernel's memory is known then too. Memory is the resident set
of its one process, or the sum of the proportional sets of several, as the mean of the step's last
30 s. What cannot be read is null, and the note says why.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from imsbench.host.counters import PROC, read_cpu
from imsbench.profile import Profile, Step
from imsbench.run import processes
from imsbench.run.processes import Process

Json = dict[str, Any]

MEMORY_WINDOW_S = 30.0
"""Last part of a step over which memory is averaged."""
SHORTEST_S = 1.0
"""A stretch below this says nothing about CPU: the kernel counts it in ticks of 10 ms."""
RELEASED_SHARE = 0.05
"""Of what calls had added to the memory, this may be left when it counts as released."""
_SAMPLE_EVERY_S = 1.0
_OTHER_KERNEL = 1 << 32
"""Process id of what runs on another kernel: no process here has it."""


@dataclass(frozen=True, slots=True)
class Memory:
    """The target's memory at one moment."""

    size: int
    """Bytes."""
    kind: Literal["rss", "pss"]
    """rss: of its one process; pss: summed over its processes, shared pages divided."""
    processes: int
    """How many there were."""


@dataclass(frozen=True, slots=True)
class _Reading:
    at: float
    tree: list[Process]
    host_busy_s: float


@dataclass(frozen=True, slots=True)
class Guest:
    """What was told of the target's part on a kernel of its own (``imsbench.lab.readings``)."""

    at: float
    """That kernel's clock, seconds."""
    cpu_s: float
    """CPU time of its processes, seconds."""
    busy_s: float
    """CPU time of its kernel's machine that was not idle, seconds."""
    processes: int
    """How many there are."""
    memory_bytes: int
    """Memory of its processes: what they have mapped, each page once."""
    kernel_bytes: int
    """Memory that its kernel holds for itself."""

    @classmethod
    def from_message(cls, values: Json) -> Guest:
        """From a child's tick."""
        return cls(**values)

    def as_process(self) -> Process:
        """All its processes as one: they share its one CPU, so together they are what can be full."""
        return Process(_OTHER_KERNEL, 0, 0, self.cpu_s)


class Target:
    """The target's processes on this machine, or the reason why there are none to look at."""

    def __init__(
        self, roots: Callable[[], Iterable[int]], *, absent: str = "", proc: Path = PROC
    ) -> None:
        """roots: ids of the processes at the top of its tree, asked each time anew; absent: why it
        cannot be looked at at all.
        """
        self.absent = absent
        """Why nothing is read; empty: it is."""
        self._roots = roots
        self._proc = proc
        self._guest: Guest | None = None
        self._told: _Reading | None = None

    def told(self, guest: Guest) -> None:
        """A part of the target on another kernel, as it is now; what is here is read with it."""
        self._guest = guest
        here = self._members()
        # The busy time is that kernel's, where the ESP is, and what the rest of the target uses here.
        busy_s = guest.busy_s + sum(one.cpu_s for one in here)
        self._told = _Reading(guest.at, [*here, guest.as_process()], busy_s)

    def read(self) -> _Reading:
        """CPU times now; of a target with a guest, when it was last told of."""
        if self._told is not None:
            return self._told
        return _Reading(time.monotonic(), self._members(), read_cpu(self._proc).busy_s)

    def kernel_bytes(self) -> int | None:
        """Memory of the target's own kernel; None if it has none that can be read."""
        return None if self._guest is None else self._guest.kernel_bytes

    def memory(self) -> Memory | None:
        """Its memory now; None if it is gone, or its pages may not be looked at."""
        members, guest = self._members(), self._guest
        try:
            if len(members) == 1 and guest is None:
                return Memory(processes.resident_bytes(members[0].pid, self._proc), "rss", 1)
            size = sum(processes.proportional_bytes(one.pid, self._proc) for one in members)
        except OSError:
            return None
        if guest is not None:
            return Memory(size + guest.memory_bytes, "pss", len(members) + guest.processes)
        return Memory(size, "pss", len(members)) if members else None

    def _members(self) -> list[Process]:
        """Its processes on this machine."""
        return processes.tree(processes.read_processes(self._proc), self._roots())


def target_of(profile: Profile, core_pids: Callable[[], Iterable[int]]) -> Target:
    """What to look at for a profile; ``core_pids`` gives the processes of a target that we started."""
    target = profile.target
    if target.kind != "external":
        return Target(core_pids)
    if not target.pid_files and not target.commands:
        why = "its processes are not on this machine, or not named (target.pid_files, .commands)"
        return Target(lambda: (), absent=why)
    return Target(lambda: processes.named(target.pid_files, target.commands))


@dataclass(slots=True)
class Usage:
    """What the target used in one step; ``look`` is called often while it runs."""

    target: Target
    """Whose."""
    begin: float
    """Beginning of the evaluated time, monotonic seconds."""
    end: float
    """Its end."""
    with_cpu: bool = True
    """False in fills: the published form has a dash there."""
    _first: _Reading | None = None
    _middle: _Reading | None = None
    _last: _Reading | None = None
    _samples: list[Memory] = field(default_factory=list)
    _sampled_at: float = 0.0

    def look(self, now: float) -> None:
        """Read what is to be read at this moment."""
        if self.target.absent:
            return
        if self.with_cpu and self._first is None and now >= self.begin:
            self._first = self.target.read()
        if self.with_cpu and self._middle is None and now >= (self.begin + self.end) / 2:
            self._middle = self.target.read()
        if self.with_cpu and self._last is None and now >= self.end:
            self._last = self.target.read()
        in_window = max(self.begin, self.end - MEMORY_WINDOW_S) <= now <= self.end
        if in_window and now - self._sampled_at >= _SAMPLE_EVERY_S:
            self._sample(now)

    def close(self) -> Json:
        """The step is over: everything, as the result has it."""
        notes = [self.target.absent] if self.target.absent else []
        if not self.target.absent and not self._samples:
            self._sample(time.monotonic())  # the step was over before its last 30 s began
        told: Json = {"cpu_cores": None, "host_cpu_cores": None, "processes": 0}
        if self.with_cpu and not self.target.absent:
            told |= self._cpu(notes)
        told |= self._memory(notes)
        told["kernel_memory_bytes"] = self.target.kernel_bytes()
        return told | {"note": "; ".join(notes)}

    def _sample(self, now: float) -> None:
        self._sampled_at = now
        memory = self.target.memory()
        if memory is not None:
            self._samples.append(memory)

    def _cpu(self, notes: list[str]) -> Json:
        first, last = self._first, self._last or self.target.read()
        wall_s = last.at - first.at if first is not None else 0.0
        if first is None or wall_s < SHORTEST_S:
            notes.append(f"CPU: {wall_s:.2g} s are too short to measure it")
            return {}
        if not first.tree:
            notes.append("CPU: none of its processes is there")
            return {}
        counted = _counted(first, last)
        if len(counted) < len(first.tree):
            lost = len(first.tree) - len(counted)
            notes.append(f"CPU: {lost} of its processes ended, and took what they had used along")
        cpu_s = _used_s(counted, last)
        before = {(one.pid, one.started): one.cpu_s for one in first.tree}
        busiest_s = max(
            (one.cpu_s - before.get((one.pid, one.started), 0.0) for one in last.tree), default=0.0
        )
        return {
            "cpu_cores": max(0.0, cpu_s / wall_s),
            "busiest_cpu_cores": max(0.0, busiest_s / wall_s),
            "host_cpu_cores": max(0.0, (last.host_busy_s - first.host_busy_s) / wall_s),
            "cpu_halves": _cores_of_halves(first, self._middle, last),
        }

    def _memory(self, notes: list[str]) -> Json:
        if not self._samples:
            if not self.target.absent:
                notes.append("memory: it is gone, or this user may not look at its pages")
            return {"memory_rss_bytes": None, "memory_kind": "rss"}
        last = self._samples[-1]
        alike = [one.size for one in self._samples if one.kind == last.kind]
        return {
            "memory_rss_bytes": round(sum(alike) / len(alike)),
            "memory_kind": last.kind,
            "processes": last.processes,
        }


def _counted(first: _Reading, last: _Reading) -> list[Process]:
    """Processes of the first reading whose time is in the last one too.

    A process that ended has left its time with the parent that waited for it, if that is there.
    """
    there = {(one.pid, one.started) for one in last.tree}
    here = {one.pid for one in first.tree if (one.pid, one.started) in there}
    return [one for one in first.tree if one.pid in here or one.parent in here]


def _used_s(counted: list[Process], last: _Reading) -> float:
    return sum(one.cpu_s for one in last.tree) - sum(one.cpu_s for one in counted)


def _cores_of_halves(
    first: _Reading, middle: _Reading | None, last: _Reading
) -> tuple[float, float] | None:
    """Cores used in each half; None where a half is too short to say, or processes came or went."""
    if middle is None or min(middle.at - first.at, last.at - middle.at) < SHORTEST_S:
        return None
    if (
        not {one.pid for one in first.tree}
        == {one.pid for one in middle.tree}
        == {one.pid for one in last.tree}
    ):
        return None
    before_s, after_s = _used_s(first.tree, middle), _used_s(middle.tree, last)
    return before_s / (middle.at - first.at), after_s / (last.at - middle.at)


def usage_of(target: Target, step: Step, started_at: float) -> Usage:
    """For a step that starts at this instant, monotonic seconds."""
    return Usage(
        target,
        begin=started_at + step.warm_up_s,
        end=started_at + step.duration_s,
        with_cpu=step.kind != "fill",
    )


def at_rest(target: Target) -> Json:
    """What the target holds without any load: memory only."""
    now = time.monotonic()
    return Usage(target, now, now, with_cpu=False).close()
