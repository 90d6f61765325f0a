"""Control channel between a coordinator and its child processes: newline JSON over file descriptor 3.

Message types, each one JSON object with a "type":

    child  -> coordinator   namespace {pid}     the child is in its own network namespace
    coord. -> child         config {…}          addresses, settings, its share
    child  -> coordinator   ready {…}           it serves, or its phones are built
    coord. -> child         start_at {…}        a step of the load (workers)
    child  -> coordinator   tick {…}            once a second, its counts so far
    coord. -> child         stop {}             end in order
    child  -> coordinator   result {…}          what it measured
    child  -> coordinator   error {text, exit}  why it cannot go on

EOF on the descriptor ends the child; so does the death of its parent (PR_SET_PDEATHSIG).
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
from typing import Any

CONTROL_FD = 3
Message = dict[str, Any]

_PR_SET_PDEATHSIG = 1


class ControlChannel:
    """One end of the channel. Reads never block once the descriptor is non-blocking."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._buffer = b""
        self._unsent = b""
        self.closed = False
        """Whether the other end is gone."""

    def fileno(self) -> int:
        """The descriptor, for a poll."""
        return self._socket.fileno()

    def setblocking(self, flag: bool) -> None:
        """As socket.setblocking."""
        self._socket.setblocking(flag)

    def send(self, kind: str, **values: Any) -> None:
        """Send one message whole, waiting for room; a dead peer is noticed by ``closed``."""
        data = json.dumps({"type": kind, **values}, allow_nan=False).encode() + b"\n"
        blocking = self._socket.getblocking()
        self._socket.setblocking(True)
        try:
            self._socket.sendall(data)
        except OSError:
            self.closed = True
        finally:
            self._socket.setblocking(blocking)

    def receive(self) -> list[Message]:
        """The messages there are; blocks for the first bytes if the descriptor does. EOF sets closed."""
        try:
            data = self._socket.recv(1 << 20)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        if not data:
            self.closed = True
            return []
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def wait(self, kind: str) -> Message:
        """Block until a message of this type has come; EOFError if the other end goes first."""
        self._socket.setblocking(True)
        while not self.closed:
            for message in self.receive():
                if message["type"] == kind:
                    return message
        raise EOFError(f"control channel closed while waiting for {kind!r}")

    def close(self) -> None:
        """Close this end."""
        self._socket.close()


def child_channel() -> ControlChannel | None:
    """The channel of a process that a coordinator started; None for one started by hand."""
    if os.environ.get("IMSBENCH_CONTROL") != str(CONTROL_FD):
        return None
    return ControlChannel(socket.socket(fileno=CONTROL_FD))


def die_with_parent() -> None:
    """Be killed when the parent dies, also by SIGKILL (prctl PR_SET_PDEATHSIG)."""
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died in between
        os._exit(1)
