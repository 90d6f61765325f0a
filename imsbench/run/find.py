"""Find the children of runs in progress, and open a shell in the namespace of one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MODULES = (
    "imsbench.run.worker",
    "imsbench.lab.core",
    "simulators.hss",
    "simulators.pcrf",
    "simulators.core",
)


@dataclass(frozen=True, slots=True)
class Running:
    """A child of a run in progress."""

    name: str
    """"worker-0", "core", "hss", "pcrf"."""
    pid: int
    """Its process id."""
    coordinator: int
    """The process id of the run it belongs to."""
    own_user_namespace: bool
    """Whether it lives in another user namespace than we do: a run without root."""


def running(proc: Path = Path("/proc")) -> list[Running]:
    """All children of runs in progress that this user may look at, by name, the oldest run first."""
    found = [child for entry in proc.iterdir() if entry.name.isdigit() for child in _child(entry)]
    return sorted(found, key=lambda child: (child.name, child.coordinator))


def matching(children: list[Running], name: str) -> list[Running]:
    """Those that a name means: "core", "worker-1", "1" (worker 1), a process id, or that of a run.

    The process id of a run means its first worker.
    """
    exact = [child for child in children if name in (child.name, f"{child.pid}")]
    if exact or not name.isdigit():
        return exact
    numbered = [child for child in children if child.name == f"worker-{name}"]
    of_run = [c for c in children if f"{c.coordinator}" == name and c.name == "worker-0"]
    return numbered or of_run


def enter_command(child: Running, command: list[str]) -> list[str]:
    """The nsenter(1) command line that runs a command in the network namespace of a child."""
    user = ["--user", "--preserve-credentials"] if child.own_user_namespace else []
    return ["nsenter", f"--target={child.pid}", *user, "--net", "--", *command]


def _child(entry: Path) -> Iterator[Running]:
    try:
        arguments = (entry / "cmdline").read_bytes().split(b"\0")
        if b"-m" not in arguments or not any(m.encode() in arguments for m in MODULES):
            return
        environment = dict(
            line.split(b"=", 1)
            for line in (entry / "environ").read_bytes().split(b"\0")
            if b"=" in line
        )
        name = environment.get(b"IMSBENCH_NAME", b"").decode()
        status = (entry / "status").read_text()
        user = os.readlink(entry / "ns/user")
    except (OSError, UnicodeDecodeError):  # it ended, or is another user's
        return
    if name:
        parent = int(status.partition("PPid:")[2].split()[0])
        yield Running(name, int(entry.name), parent, user != os.readlink("/proc/self/ns/user"))
