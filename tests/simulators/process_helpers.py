"""A simulator as a coordinator's child: started on one end of a control channel."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from imsbench.host.control import ControlChannel, Message

ROOT = Path(__file__).parents[2]

_BECOME = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.execv(sys.executable, [sys.executable, "-m", sys.argv[2]])
"""


def free_port() -> int:
    """A TCP port that nobody has."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def started(
    module: str, namespace: str = ""
) -> Iterator[tuple[subprocess.Popen[bytes], ControlChannel]]:
    """The child, in our network namespace or in a "new" one."""
    ours, theirs = socket.socketpair()
    environment = os.environ | {"IMSBENCH_CONTROL": "3", "IMSBENCH_NAMESPACE": namespace}
    command = [sys.executable, "-c", _BECOME, str(theirs.fileno()), module]
    process = subprocess.Popen(command, cwd=ROOT, env=environment, pass_fds=(theirs.fileno(),))
    theirs.close()
    ours.settimeout(10)
    channel = ControlChannel(ours)
    try:
        yield process, channel
    finally:
        channel.close()
        process.kill()
        process.wait()


def wait_for(channel: ControlChannel, kind: str, condition: Callable[[Message], object]) -> Message:
    """The first message of a type that meets a condition."""
    while True:
        message = channel.wait(kind)
        if condition(message):
            return message
