"""The processes of a core's servers: started so that they end with us, watched, stopped.

A server is a tree of processes that does not end with its first one. So it is the first process of a
PID namespace (pid_namespaces(7)), which the kernel empties when that process ends; that one ends with
unshare(1), and unshare(1) with us. It has a /tmp of its own, as its Diameter stack leaves pipes there.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from imsbench.host.control import die_with_parent
from imsbench.lab import configs, packages
from imsbench.lab.logs import LogFile
from imsbench.lab.settings import LabSettings
from imsbench.run.process import describe_end
from imsbench.run.processes import read_processes

_STOP_S = 5.0
_LAST_WORDS = ("EMERG", "ALERT", "BUG", "CRITICAL")
"""What Kamailio calls the lines that it ends for, the surest first: it is critical of a busy hour too."""

_CONFINED = (
    "unshare", "--mount", "--pid", "--fork", "--kill-child", "--",
    "/bin/sh", "-c", 'mount -t tmpfs tmpfs /tmp && exec "$@"', "sh",
)  # fmt: skip


class Server:
    """One running server of a core."""

    def __init__(self, name: str, lab: LabSettings, folder: Path) -> None:
        """Start it, with its files from ``folder``; OSError if it cannot be started."""
        self.name = name
        """"pcscf", "icscf", "scscf"."""
        self.log = LogFile(folder, name)
        """What it writes."""
        runtime = folder / f"{name}.run"
        runtime.mkdir()
        command = [*_CONFINED, *command_line(name, lab, folder, runtime)]
        with self.log.path.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                preexec_fn=die_with_parent,
            )

    @property
    def title(self) -> str:
        """As people call it: "P-CSCF"."""
        return configs.TITLES[self.name]

    def pid(self) -> int | None:
        """Its first process as this machine numbers it; None before it is there, and when it ended."""
        parent = self._process.pid
        found = [one.pid for one in read_processes().values() if one.parent == parent]
        return min(found, default=None)

    def problem(self) -> str:
        """How it ended, with its log's own words; "" while it runs."""
        status = self._process.poll()
        if status is None:
            return ""
        words = last_words(self.log.tail())
        return f"the {self.title} {describe_end(status)}" + (f": {words}" if words else "")

    def ask_to_end(self) -> None:
        """Have it end in order."""
        pid = self.pid()
        if pid is not None and self._process.poll() is None:
            self._signal(pid, signal.SIGTERM)

    def end(self, timeout_s: float) -> None:
        """Wait for its end, and enforce it after so many seconds."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)
            return
        self._signal(self.pid() or self._process.pid, signal.SIGKILL)
        # It is over when the kernel has emptied the namespace.
        self._process.wait()

    @staticmethod
    def _signal(pid: int, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):  # it has just ended
            os.kill(pid, number)


def stop(servers: Sequence[Server]) -> None:
    """End servers, those first that ask the others."""
    for server in reversed(servers):
        server.ask_to_end()
    deadline = time.monotonic() + _STOP_S
    for server in servers:
        server.end(max(0.0, deadline - time.monotonic()))


def last_words(log: str) -> str:
    """The lines of a log that say what its server ended for, else its last line."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    for word in _LAST_WORDS:
        # Whoever is left complains of the broken pipes to those that died: the first is the cause.
        if found := [line for line in lines if f"{word}:" in line]:
            return found[0]
    return lines[-1] if lines else ""


def command_line(name: str, lab: LabSettings, folder: Path | str, runtime: Path | str) -> list[str]:
    """Kamailio as the server of that name: its configuration's folder, and where its own files go."""
    return [
        # sudo and cron leave the administrator's programs out of PATH, as users' shells do
        packages.program("kamailio"),
        "-DD", "-E",  # in the foreground, log to standard error
        "-f", f"{folder}/{name}.cfg",
        "-Y", str(runtime),
        "-m", str(lab.shared_memory_mb),
        "-M", str(lab.private_memory_mb),
    ]  # fmt: skip
