"""Preflight: what a load needs of this host, by arithmetic, against what the host gives.

``read_host`` looks, ``check`` reckons (it reads nothing, so that any host can be tried in a test), and
``refusal`` is one text with everything that must be raised, not the first thing only.
"""

from __future__ import annotations

import resource
from dataclasses import dataclass
from pathlib import Path

from imsbench.host import addresses, namespace

RESERVED_FILES = 64
"""Descriptors of a process that are no connections: listeners, epoll, TUN, raw sockets, libraries."""
BASE_BYTES = 150 << 20
"""Resident memory of all processes of a run before the first phone."""
PROCESS_BYTES = 60 << 20
"""Resident memory of one worker before the first phone."""
PHONE_BYTES = 4 << 10
"""A registered phone on the Python side, without connections' kernel memory."""
CORE_PHONE_BYTES = 8 << 10
"""The same subscriber in the embedded core."""
CONNECTION_BYTES = 4 << 10
"""Kernel memory of one end of an idle TCP connection (measured on Linux 6.18: 3.7 KiB of slab)."""
TIME_WAIT_S = 60
"""How long a closed connection holds its pair of ports (Linux: TCP_TIMEWAIT_LEN)."""
HIGHEST_PORT = 65535
MOST_PORTS = 4096
"""Largest ring of protected client ports that a profile may ask for."""

_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class Needs:
    """What a load asks of this host."""

    phones: int
    """Phones of all workers together."""
    workers: int
    """Worker processes."""
    ip_version: int = 4
    """4 or 6."""
    connections_per_phone: int = 2
    """TCP connections, and UDP sockets, that a phone may hold at once (TS 33.203 §7.1)."""
    addresses_per_phone: int = 1
    """IP addresses; two where it re-attaches from another one."""
    embedded: bool = True
    """Whether the target's end of each connection is on this host too, in one process."""
    tun: bool = True
    """Whether ESP is carried in user space."""
    port_uc_first: int = 20000
    """First port of each phone's ring of protected client ports."""
    port_uc_count: int = 64
    """Ports in that ring."""
    other_ports: tuple[int, ...] = ()
    """The phone's other ports (port_us, the clear port): they may not lie in the ring."""
    shortest_period_s: float = 0.0
    """Least time between two registrations of one phone; 0: it registers once."""
    renewals: int | None = None
    """How often a phone registers anew in the whole load; None: nothing bounds it."""


@dataclass(frozen=True, slots=True)
class HostState:
    """What this host gives."""

    open_files: int
    """Hard limit of open files of a process (RLIMIT_NOFILE)."""
    memory_bytes: int
    """Memory that can be had without swapping, under the host's and the control group's limits."""
    refused: tuple[str, ...] = ()
    """Privileges that are refused, each with its reason."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One need, against what there is."""

    what: str
    """What is needed, in two or three words."""
    needed: int
    """How much, in the unit of the arithmetic."""
    available: int
    """How much there is."""
    arithmetic: str
    """How the need comes about."""
    advice: str
    """What to raise or lower, and how."""
    words: tuple[str, str] | None = None
    """How it is said that there is enough, and that there is not, where nothing is counted."""

    @property
    def ok(self) -> bool:
        """Whether there is enough."""
        return self.available >= self.needed

    def __str__(self) -> str:
        """One line for a person; with the advice where there is too little."""
        if self.words is not None:
            line = f"{self.what}: {self.words[0 if self.ok else 1]} ({self.arithmetic})"
        else:
            line = (
                f"{self.what}: {self.needed:,} needed ({self.arithmetic}), {self.available:,} there"
            )
        return line if self.ok else f"{line}\n    {self.advice}"


def read_host(needs: Needs) -> HostState:
    """Look at this host; the privileges are tried in a throw-away child."""
    return HostState(
        open_files=resource.getrlimit(resource.RLIMIT_NOFILE)[1],
        memory_bytes=_memory_bytes(),
        refused=tuple(namespace.refused_privileges(with_tun=needs.tun)),
    )


def check(needs: Needs, host: HostState) -> list[Finding]:
    """Every need of the load, whether met or not."""
    share = -(-needs.phones // needs.workers)
    found = [_worker_files(needs, host, share), _addresses(needs, share)]
    if needs.embedded:
        found.append(_core_files(needs, host))
    found += _ports(needs)
    found += [_memory(needs, host), _privileges(needs, host)]
    return found


def refusal(findings: list[Finding]) -> str:
    """One text that lists all that is missing and what to do; empty where nothing is."""
    missing = [f"  {finding}" for finding in findings if not finding.ok]
    return "\n".join(["this host lacks:", *missing]) if missing else ""


def raise_open_files() -> int:
    """Raise this process's soft limit of open files to its hard one; returns it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def _worker_files(needs: Needs, host: HostState, share: int) -> Finding:
    needed = share * needs.connections_per_phone + RESERVED_FILES
    room = max(host.open_files - RESERVED_FILES, 0) // needs.connections_per_phone
    more = f", or run {-(-needs.phones // room)} workers" if room else ""
    return Finding(
        what="open files of a worker",
        needed=needed,
        available=host.open_files,
        arithmetic=f"{share:,} phones * {needs.connections_per_phone} connections"
        f" + {RESERVED_FILES}",
        advice=f"raise the hard limit (ulimit -Hn {needed}; systemd: LimitNOFILE=){more}",
    )


def _core_files(needs: Needs, host: HostState) -> Finding:
    needed = needs.phones * needs.connections_per_phone + RESERVED_FILES
    return Finding(
        what="open files of the embedded core",
        needed=needed,
        available=host.open_files,
        arithmetic=f"{needs.phones:,} phones * {needs.connections_per_phone} connections"
        f" + {RESERVED_FILES}",
        advice=f"raise the hard limit (ulimit -Hn {needed}; systemd: LimitNOFILE=), or take fewer"
        " phones: the embedded core is one process",
    )


def _addresses(needs: Needs, share: int) -> Finding:
    slice_of = addresses.phone_prefix(needs.ip_version, 0, needs.workers)
    each = "one" if needs.addresses_per_phone == 1 else "two, to re-attach,"
    return Finding(
        what="addresses of a worker's phones",
        needed=share * needs.addresses_per_phone,
        available=addresses.phone_capacity(needs.ip_version, needs.workers),
        arithmetic=f"{each} per phone, out of a slice as {slice_of}",
        advice="take fewer phones, as many workers as a power of two, or IPv6",
    )


def _ports(needs: Needs) -> list[Finding]:
    first, last = needs.port_uc_first, needs.port_uc_first + needs.port_uc_count - 1
    held, arithmetic = _held_ports(needs)
    inside = [port for port in needs.other_ports if first <= port <= last]
    return [
        Finding(
            what="protected client ports of a phone",
            needed=held,
            available=needs.port_uc_count,
            arithmetic=arithmetic,
            advice=_ring_advice(needs, held),
        ),
        Finding(
            what=f"port numbers from {first}",
            needed=needs.port_uc_count,
            available=max(HIGHEST_PORT - first + 1, 0) if not inside else 0,
            arithmetic=f"ring {first}-{last}",
            advice=(
                f"ports {inside} lie in the ring: move phones.port_uc_first or them"
                if inside
                else f"the ring must end by {HIGHEST_PORT}: lower phones.port_uc_first"
            ),
        ),
    ]


def _held_ports(needs: Needs) -> tuple[int, str]:
    """Ports that a phone holds at once at most, and how that comes about."""
    if needs.shortest_period_s <= 0:
        return 1, "one in use"
    waiting = int(TIME_WAIT_S / needs.shortest_period_s)
    if needs.renewals is not None and needs.renewals < waiting:
        return (
            2 + needs.renewals,
            f"old and new one, and one for each of {needs.renewals:,} renewals",
        )
    return 2 + waiting, (
        f"old and new one, and one each {needs.shortest_period_s:g} s for the"
        f" {TIME_WAIT_S} s that a closed one is held"
    )


def _ring_advice(needs: Needs, held: int) -> str:
    """A larger ring, as far as there are ports; else the load that the largest one bears."""
    most = min(MOST_PORTS, max(HIGHEST_PORT - needs.port_uc_first + 1, 0))
    if held <= most:
        return f"raise phones.port_uc_count to {held}"
    bearable_s = TIME_WAIT_S / max(most - 2, 1)
    return (
        f"phones.port_uc_count can be {most:,} at most, from {needs.port_uc_first}: let each phone "
        f"register anew only every {bearable_s * 1e3:.3g} ms, by more phones, a lower rate or fewer "
        "passes"
    )


def _memory(needs: Needs, host: HostState) -> Finding:
    ends = needs.connections_per_phone * (2 if needs.embedded else 1)
    phone = PHONE_BYTES + ends * CONNECTION_BYTES + (CORE_PHONE_BYTES if needs.embedded else 0)
    needed = BASE_BYTES + needs.workers * PROCESS_BYTES + needs.phones * phone
    return Finding(
        what="memory (MiB)",
        needed=-(-needed // (1 << 20)),
        available=host.memory_bytes >> 20,
        arithmetic=f"{BASE_BYTES >> 20} + {needs.workers} workers * {PROCESS_BYTES >> 20}"
        f" + {needs.phones:,} phones * {phone >> 10} KiB",
        advice="take fewer phones, or a larger host (or memory limit of the container)",
    )


def _privileges(needs: Needs, host: HostState) -> Finding:
    return Finding(
        what="privileges",
        needed=1,
        available=0 if host.refused else 1,
        arithmetic="network namespace, veth, raw socket"
        + (", and a TUN device for ESP in user space" if needs.tun else ""),
        advice="\n    ".join(("run as root, or grant:", *(text.strip() for text in host.refused))),
        words=("granted", "refused"),
    )


def _memory_bytes() -> int:
    available = 0
    for line in _MEMINFO.read_text().splitlines():
        if line.startswith("MemAvailable:"):
            available = int(line.split()[1]) << 10
    try:
        limit = (_CGROUP / "memory.max").read_text().strip()
        used = int((_CGROUP / "memory.current").read_text())
    except OSError:  # no control group of version 2, or its root
        return available
    return available if limit == "max" else min(available, max(int(limit) - used, 0))
