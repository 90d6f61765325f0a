"""What a core's processes and their kernel use, told once a second: ``python -m imsbench.lab.readings NAME``.

It runs where the core runs, on a kernel that no other process of ours can look at (a guest, another
host), and writes one JSON object a line:

    at             this kernel's monotonic clock, seconds
    tree           [id, parent's id, start in ticks, CPU seconds] of each process of the core
    busy_s         CPU time of this kernel's machine that was not idle, seconds
    memory_bytes   resident memory of the core: proportional sets, summed
    kernel_bytes   memory of the kernel itself: Slab, Percpu, PageTables, KernelStack, pages of sockets
"""

from __future__ import annotations

import itertools
import json
import os
import re
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from imsbench.host.counters import PROC, read_cpu
from imsbench.run import processes

PERIOD_S = 1.0
MEMORY_EVERY = 10
"""Memory is looked at, and the core looked for, in every tenth reading: the pages of 250 processes and
their command lines are work, which the core's kernel has to do."""
_KERNEL = ("Slab", "Percpu", "PageTables", "KernelStack")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def find(name: str, proc: Path = PROC) -> set[int]:
    """The processes whose command line begins with this program."""
    return processes.named((), (rf"^(\S*/)?{re.escape(name)} ",), proc)


def read(roots: set[int], proc: Path = PROC) -> dict[str, Any]:
    """One reading of these processes and those below them, without memory."""
    tree = processes.tree(processes.read_processes(proc), roots)
    return {
        "at": time.monotonic(),
        "tree": [[one.pid, one.parent, one.started, one.cpu_s] for one in tree],
        "busy_s": read_cpu(proc).busy_s,
    }


def memory_of(tree: list[list[Any]], proc: Path = PROC) -> dict[str, int]:
    """Memory of the processes of a reading, and of the kernel, bytes."""
    total = 0
    for pid, *_ in tree:
        with suppress(OSError):  # it has ended meanwhile
            total += processes.proportional_bytes(pid, proc)
    return {"memory_bytes": total, "kernel_bytes": kernel_bytes(proc)}


def kernel_bytes(proc: Path = PROC) -> int:
    """Memory that the kernel holds for itself, bytes (proc(5): meminfo; sockets: net/sockstat)."""
    total = 0
    for line in (proc / "meminfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name in _KERNEL:
            total += int(value.split()[0]) * 1024
    for line in (proc / "net/sockstat").read_text().splitlines():
        words = line.split()
        if "mem" in words:
            total += int(words[words.index("mem") + 1]) * _PAGE_BYTES
    return total


def main() -> None:
    """Until the reader has gone."""
    (name,) = sys.argv[1:]
    os.nice(5)  # the core comes first
    roots, known, memory = set[int](), -1, dict[str, int]()
    due_at = time.monotonic()
    for count in itertools.count():
        rarely = count % MEMORY_EVERY == 0
        if rarely or not roots:
            roots = find(name)
        reading = read(roots)
        if rarely or len(reading["tree"]) != known:  # it is still starting processes
            known = len(reading["tree"])
            memory = memory_of(reading["tree"])
        sys.stdout.write(json.dumps(reading | memory) + "\n")
        sys.stdout.flush()
        due_at += PERIOD_S
        time.sleep(max(0.0, due_at - time.monotonic()))


if __name__ == "__main__":
    with suppress(BrokenPipeError):
        main()
