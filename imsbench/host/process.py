"""Who owns something that outlives a process: told apart from a later process of the same number."""

from __future__ import annotations

import os
from pathlib import Path


def describe_process(pid: int) -> str:
    """A running process in one line, the same for its whole life; "" if there is none, or a zombie."""
    try:
        state, *values = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if state == "Z" else f"process {pid} started at {values[18]} in {process_namespace()}"


def is_running(description: str) -> bool:
    """Whether the process described so still runs; False also for what describes none.

    A process in another process namespace cannot be looked at from here: it counts as running.
    """
    if not description.startswith("process "):
        return False
    if not description.endswith(process_namespace()):
        return True
    return description == describe_process(process_id(description))


def process_id(description: str) -> int:
    """The process id in a description."""
    return int(description.split()[1])


def process_namespace() -> str:
    """The process namespace in which our process ids hold: "pid:[4026531836]"."""
    return os.readlink("/proc/self/ns/pid")
