"""The processes of this machine as /proc shows them: whose they are, their CPU time, their memory."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from imsbench.host.counters import PROC

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Process:
    """One process at one moment."""

    pid: int
    """Its id."""
    parent: int
    """Its parent's."""
    started: int
    """When it started, clock ticks since boot: with the id it names one process for good."""
    cpu_s: float
    """User and system time, its own and that of the children it has waited for, seconds."""


def read_processes(proc: Path = PROC) -> dict[int, Process]:
    """All processes there are, by id."""
    found: dict[int, Process] = {}
    for entry in proc.iterdir():
        if entry.name.isdigit():
            with suppress(OSError):  # it has ended meanwhile
                process = _parse_stat((entry / "stat").read_bytes())
                found[process.pid] = process
    return found


def tree(processes: Mapping[int, Process], roots: Iterable[int]) -> list[Process]:
    """The roots that are there and all their descendants, in the order of their ids."""
    children: dict[int, list[int]] = {}
    for process in processes.values():
        children.setdefault(process.parent, []).append(process.pid)
    left, members = [pid for pid in roots if pid in processes], set[int]()
    while left:
        pid = left.pop()
        if pid not in members:
            members.add(pid)
            left += children.get(pid, ())
    return [processes[pid] for pid in sorted(members)]


def named(pid_files: Sequence[str], commands: Sequence[str], proc: Path = PROC) -> set[int]:
    """Ids of the processes that these files hold, or whose command line these patterns are found in."""
    found: set[int] = set()
    for path in pid_files:
        with suppress(OSError, ValueError, IndexError):
            found.add(int(Path(path).read_text(encoding="ascii").split()[0]))
    patterns = [re.compile(pattern) for pattern in commands]
    for entry in proc.iterdir() if patterns else ():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(OSError):
                words = (entry / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
                line = b" ".join(words).decode(errors="replace")
                if line and any(pattern.search(line) for pattern in patterns):
                    found.add(int(entry.name))
    return found


def resident_bytes(pid: int, proc: Path = PROC) -> int:
    """Resident memory of one process, bytes; OSError if it has ended."""
    return int((proc / str(pid) / "statm").read_text().split()[1]) * _PAGE_BYTES


def proportional_bytes(pid: int, proc: Path = PROC) -> int:
    """The same, each page divided among the processes that share it; OSError if that is refused."""
    for line in (proc / str(pid) / "smaps_rollup").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "Pss":
            return int(value.split()[0]) * 1024
    return 0  # a kernel thread, or a process that is ending: it has no memory


def _parse_stat(text: bytes) -> Process:
    """One line of proc(5): the name in parentheses may hold anything, so it ends at the last one."""
    pid, _, rest = text.partition(b" (")
    fields = rest.rpartition(b") ")[2].split()
    # state is field 3 of proc(5); ppid 4; utime, stime, cutime, cstime 14 to 17; starttime 22
    cpu_ticks = sum(int(field) for field in fields[11:15])
    return Process(int(pid), int(fields[1]), int(fields[19]), cpu_ticks / _TICKS_PER_S)
