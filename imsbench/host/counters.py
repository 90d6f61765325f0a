"""What the kernel counts of this machine and of this process's network namespace, out of /proc."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_BUSY = (0, 1, 2, 5, 6, 7)
"""Columns of /proc/stat that are work: user, nice, system, irq, softirq, steal (proc(5))."""
_STEAL = 7
_ALL = range(8)  # guest and guest_nice, behind them, are part of user and nice

NETWORK: dict[str, dict[str, tuple[str, ...]]] = {
    "snmp": {"Tcp": ("OutSegs", "RetransSegs"), "Udp": ("RcvbufErrors", "SndbufErrors")},
    "netstat": {"TcpExt": ("ListenDrops", "ListenOverflows", "TCPSynRetrans")},
}
"""What is read of a namespace's tables (RFC 1213 names, and the kernel's own)."""


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """CPU time of the whole machine since boot, all processors together, seconds."""

    busy_s: float
    """Not idle: with softirq, where kernel ESP runs, and with steal."""
    steal_s: float
    """Wanted by this machine, given to others by its hypervisor."""
    all_s: float
    """Idle time included."""


def read_cpu(proc: Path = PROC) -> CpuTimes:
    """The machine's CPU times now; OSError or ValueError where the kernel does not say."""
    with (proc / "stat").open(encoding="ascii") as file:
        return parse_cpu(file.readline())


def parse_cpu(stat: str) -> CpuTimes:
    """The first line of /proc/stat; ValueError if it is not of its form."""
    columns = [int(word) for word in stat.partition("\n")[0].split()[1:]]
    if len(columns) <= _STEAL:
        raise ValueError("/proc/stat has too few columns")
    busy, every = (sum(columns[i] for i in indices) for indices in (_BUSY, _ALL))
    return CpuTimes(busy / _TICKS_PER_S, columns[_STEAL] / _TICKS_PER_S, every / _TICKS_PER_S)


def memory_share(proc: Path = PROC) -> float:
    """Share of the machine's memory that nobody could get without swapping, 0..1; OSError, ValueError."""
    sizes: dict[str, int] = {}
    for line in (proc / "meminfo").read_text(encoding="ascii").splitlines():
        name, _, value = line.partition(":")
        if name in ("MemTotal", "MemAvailable"):
            sizes[name] = int(value.split()[0])
    if not sizes.get("MemTotal") or "MemAvailable" not in sizes:
        raise ValueError("/proc/meminfo does not say how much is available")
    return 1 - sizes["MemAvailable"] / sizes["MemTotal"]


def network_counters(proc: Path = PROC) -> Counter[str]:
    """The counters of ``NETWORK`` in this process's network namespace; what it lacks is 0.

    UDP over IPv6 is counted apart by the kernel, and added here.
    """
    counted: Counter[str] = Counter()
    for file, tables in NETWORK.items():
        lines = (proc / "self/net" / file).read_text(encoding="ascii").splitlines()
        for names, values in zip(lines[::2], lines[1::2], strict=False):
            table = names.partition(":")[0]
            wanted = tables.get(table, ())
            pairs = zip(names.split()[1:], values.split()[1:], strict=False)
            counted.update({name: int(value) for name, value in pairs if name in wanted})
    try:
        lines = (proc / "self/net/snmp6").read_text(encoding="ascii").splitlines()
    except FileNotFoundError:  # a kernel without IPv6
        return counted
    for line in lines:
        name, _, value = line.partition("\t")
        if name.strip() in ("Udp6RcvbufErrors", "Udp6SndbufErrors"):
            counted[name.strip().removeprefix("Udp6")] += int(value)
    return counted
