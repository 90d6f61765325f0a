"""Child processes: started with one end of a control channel on descriptor 3.

``os.posix_spawn`` is used and not ``subprocess``: it can place the channel on descriptor 3 without
running Python code between fork and exec. A child gets a session of its own, so that a Ctrl-C in
the terminal reaches the coordinator alone, which then ends the children in order.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import IO

import imsbench
from imsbench.host.control import CONTROL_FD, ControlChannel

_TAIL_BYTES = 4000


class Child:
    """One running child process and the coordinator's end of its channel."""

    def __init__(self, name: str, module: str, *, own_namespace: bool) -> None:
        """Start ``python -m module``; the child finds its channel on descriptor 3.

        own_namespace: the child enters a network namespace of its own before anything else.
        OSError if it cannot be started.
        """
        self.name = name
        """As the run names it: "core", "hss", "worker-0"."""
        self.module = module
        """The module it runs."""
        ours, theirs = socket.socketpair()
        self._output: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        try:
            self.pid = _spawn(name, module, theirs.fileno(), self._output.fileno(), own_namespace)
        except OSError:
            ours.close()
            self._output.close()
            raise
        finally:
            theirs.close()
        self.channel = ControlChannel(ours)
        self.channel.setblocking(False)
        self.heard_at = time.monotonic()
        """When it last said anything, monotonic seconds."""
        self.returncode: int | None = None
        """Exit status once it ended; negative: minus the signal that ended it."""

    def poll(self) -> int | None:
        """The exit status if it has ended, None while it runs."""
        return self._reap(os.WNOHANG)

    def wait(self, timeout_s: float) -> int | None:
        """Wait for its end; None if it still runs after ``timeout_s`` seconds."""
        deadline = time.monotonic() + timeout_s
        while self.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        return self.returncode

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, if it has not been reaped."""
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once and reap it; it has no children of its own."""
        self.signal(signal.SIGKILL)
        self._reap(0)

    def output(self) -> str:
        """The end of what it wrote to its standard output and error."""
        size = self._output.seek(0, os.SEEK_END)
        self._output.seek(max(0, size - _TAIL_BYTES))
        return self._output.read().decode(errors="replace").strip()

    def close(self) -> None:
        """Close this end of the channel (which ends the child, if nothing else did)."""
        self.channel.close()
        self._output.close()

    def _reap(self, flags: int) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, flags)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


def _spawn(name: str, module: str, channel: int, output: int, own_namespace: bool) -> int:
    return os.posix_spawn(
        sys.executable,
        [sys.executable, "-P", "-m", module],
        child_environment(name, own_namespace=own_namespace),
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, output, 1),
            (os.POSIX_SPAWN_DUP2, output, 2),
            # last: it may overwrite nothing that is still needed, as all others are close-on-exec
            (os.POSIX_SPAWN_DUP2, channel, CONTROL_FD),
        ],
        setsid=True,
        setsigmask=[],
        setsigdef=[signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE],
    )


def own_environment() -> dict[str, str]:
    """The environment for another Python process of ours: as our own, and it finds our packages."""
    environment = dict(os.environ)
    for stale in ("IMSBENCH_NAMESPACE", "IMSBENCH_CONTROL", "IMSBENCH_NAME"):
        environment.pop(stale, None)
    root = Path(imsbench.__file__).resolve().parent.parent
    if root.name not in ("site-packages", "dist-packages"):  # run from a checkout
        paths = [str(root), environment.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    return environment


def child_environment(name: str, *, own_namespace: bool) -> dict[str, str]:
    """The environment of a child: our own, its name, its channel, and whether it moves out."""
    environment = own_environment() | {
        "IMSBENCH_CONTROL": str(CONTROL_FD),
        "IMSBENCH_NAME": name,
    }
    if own_namespace:
        environment["IMSBENCH_NAMESPACE"] = "new"
    return environment


def describe_end(returncode: int | None) -> str:
    """An exit status in words."""
    if returncode is None:
        return "closed its control channel"
    if returncode < 0:
        return f"was ended by {signal.Signals(-returncode).name}"
    return f"ended with exit status {returncode}"
