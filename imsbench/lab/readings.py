"""What a guest's core and its kernel use, told once a second: ``python -m imsbench.lab.readings CGROUP``.

It runs where the core runs, on a kernel that no other process of ours can look at, and writes one JSON
object a line:

    at             this kernel's monotonic clock, seconds
    cpu_s          CPU time of the core: all processes of its control group together, seconds
    busy_s         CPU time of this kernel's machine that was not idle, seconds
    processes      of the core
    memory_bytes   of the core: what its processes have mapped, each page once (the sum of their PSS)
    kernel_bytes   memory of the kernel itself: Slab, Percpu, PageTables, KernelStack, pages of sockets

System calls are dear in user-mode Linux: to read /proc of 370 processes once a second took more of its CPU
than the core did. So there are a few files only, they stay open, and each is one call.
"""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from imsbench.host.counters import PROC, parse_cpu

PERIOD_S = 1.0
_KERNEL = ("Slab", "Percpu", "PageTables", "KernelStack")
_MAPPED = ("anon", "file_mapped")
"""Shared memory is among the second (cgroup-v2.rst, memory.stat)."""
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_MOST_BYTES = 1 << 16


class Readings:
    """The files of a control group (version 2, with its memory controller) and of its kernel."""

    def __init__(self, cgroup: Path, proc: Path = PROC) -> None:
        """OSError if one of them is not there."""
        self._cpu, self._memory, self._members, self._stat, self._meminfo, self._sockets = (
            os.open(path, os.O_RDONLY)
            for path in (
                cgroup / "cpu.stat",
                cgroup / "memory.stat",
                cgroup / "cgroup.procs",
                proc / "stat",
                proc / "meminfo",
                proc / "net/sockstat",
            )
        )

    def read(self) -> dict[str, Any]:
        """One reading."""
        memory = _numbers(_text(self._memory))
        return {
            "at": time.monotonic(),
            "cpu_s": _numbers(_text(self._cpu))["usage_usec"] / 1e6,
            "busy_s": parse_cpu(_text(self._stat)).busy_s,
            "processes": len(_text(self._members).split()),
            "memory_bytes": sum(memory[name] for name in _MAPPED),
            "kernel_bytes": kernel_bytes(_text(self._meminfo), _text(self._sockets)),
        }


def kernel_bytes(meminfo: str, sockstat: str) -> int:
    """Memory that the kernel holds for itself, bytes (proc(5): meminfo; sockets: net/sockstat)."""
    total = 0
    for line in meminfo.splitlines():
        name, _, value = line.partition(":")
        if name in _KERNEL:
            total += int(value.split()[0]) * 1024
    for line in sockstat.splitlines():
        words = line.split()
        if "mem" in words:
            total += int(words[words.index("mem") + 1]) * _PAGE_BYTES
    return total


def _text(descriptor: int) -> str:
    """A file of the kernel's from its beginning: what it says now."""
    return os.pread(descriptor, _MOST_BYTES, 0).decode()


def _numbers(text: str) -> dict[str, int]:
    """Lines of a name and a number."""
    return {name: int(number) for name, number in map(str.split, text.splitlines())}


def main() -> None:
    """Until the reader has gone."""
    readings = Readings(Path(sys.argv[1]))
    due_at = time.monotonic()
    while True:
        sys.stdout.write(json.dumps(readings.read()) + "\n")
        sys.stdout.flush()
        due_at += PERIOD_S
        time.sleep(max(0.0, due_at - time.monotonic()))


if __name__ == "__main__":
    with suppress(BrokenPipeError):
        main()
