"""User-mode Linux for tests that need a kernel with ESP: ``python -m tests.lab.uml -- COMMAND …``.

Debian's ``user-mode-linux`` is a whole Linux kernel as an ordinary process; its ``esp4``, ``esp6`` and
``xfrm_user`` work whatever the kernel of this machine lacks. The guest takes this machine's files as
its root (hostfs, read-only), so that this very checkout and its virtual environment run in it.

* No privilege is needed: the guest's root is nobody here. Nor is anything to be set up: the guest
  finds its modules where the package has them.
* Nothing stays behind: one temporary directory, removed; the guest's memory is an unlinked file; the
  guest's processes are one process group, killed by its number at the end. Should this process be
  killed, a guard that waits for the end of a pipe does both.
* One virtual CPU. Starting a process costs some tens of milliseconds in the guest.
"""

from __future__ import annotations

import argparse
import compileall
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
"""The checkout."""
GUEST = Path(__file__).with_name("guest.py")
INSIDE = "IMSBENCH_KERNEL_ESP"
"""Environment variable that a command in the guest finds set to "1"."""
MODULES = (
    "xfrm_user", "esp4", "esp6", "authenc", "hmac", "sha1_generic", "md5", "cbc", "aes_generic",
    "des_generic", "gcm", "ghash-generic", "ctr", "crypto_null", "echainiv", "seqiv", "veth", "tun",
)  # fmt: skip
"""Modules loaded before the command starts."""
PROGRAMS = {"linux.uml": "user-mode-linux", "modprobe": "kmod", "ip": "iproute2"}
"""What must be installed, and the packages that have it."""
APT_LINE = "sudo apt-get install -y user-mode-linux kmod iproute2"
TIMEOUT_S = 600.0
MEMORY_MB = 1536
_KILL_WAIT_S = 5.0
_GUARD = 'read -r _; kill -9 "-$1"; rm -rf -- "$2"'
"""Shell script with the guest's process group and its directory: acts when its input ends."""


class UmlError(Exception):
    """The guest did not run the command to its end; the text says why and shows what it printed."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A command that has ended inside a guest."""

    returncode: int
    """Its exit status; 128 + n where signal n ended it."""
    output: str
    """What it wrote, both streams."""
    boot_s: float
    """From the start of the kernel to the start of the command, seconds."""
    wall_s: float
    """From the start of the guest to its end, seconds."""


def missing() -> str:
    """What this machine lacks to run a guest, and the line that brings it; empty: nothing."""
    lacking = [package for program, package in PROGRAMS.items() if not _program(program)]
    if sys.platform != "linux" or os.uname().machine != "x86_64":
        return f"user-mode Linux does not run on {sys.platform} {os.uname().machine}"
    return f"needs {', '.join(lacking)}: {APT_LINE}" if lacking else ""


def run(
    command: Sequence[str],
    *,
    timeout_s: float = TIMEOUT_S,
    environment: Mapping[str, str] | None = None,
    echo: Callable[[bytes], object] = lambda _: None,
) -> Ended:
    """Boot, run the command in the checkout's directory, and power off.

    ``environment`` is added to a small one of its own; ``echo`` gets the output as it comes. UmlError
    after ``timeout_s`` seconds, or if the guest dies.
    """
    if lacking := missing():
        raise UmlError(lacking)
    for package in ("imsbench", "simulators", "tests"):  # the guest cannot keep what it compiles
        compileall.compile_dir(ROOT / package, quiet=2)
    with tempfile.TemporaryDirectory(prefix="imsbench-uml-") as directory:
        job = Path(directory)
        _write_job(job, command, environment or {})
        return _boot(job, timeout_s, echo)


def _program(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def _write_job(job: Path, command: Sequence[str], environment: Mapping[str, str]) -> None:
    programs = Path(sys.executable).parent
    own = {
        "PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin",
        "HOME": "/run/home",
        "TMPDIR": "/run/tmp",
        "LANG": "C.UTF-8",
        "NO_COLOR": "1",  # the output is a terminal to the command
        "PYTHONDONTWRITEBYTECODE": "1",
        INSIDE: "1",
    }
    text = json.dumps(
        {
            "command": list(command),
            "environment": own | dict(environment),
            "directory": str(ROOT),
            "modules": MODULES,
        }
    )
    (job / "job.json").write_text(text)


def _boot(job: Path, timeout_s: float, echo: Callable[[bytes], object]) -> Ended:
    started = time.monotonic()
    reader, writer = os.pipe()
    console = job / "console"
    try:
        with console.open("wb") as log:
            guest = subprocess.Popen(
                _command_line(job, writer),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[writer],
                start_new_session=True,
            )
    finally:
        os.close(writer)
    guard = subprocess.Popen(
        ["sh", "-c", _GUARD, "sh", str(guest.pid), str(job)],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        output, in_time = _read(reader, started + timeout_s, echo)
    finally:
        os.close(reader)
        _end(guest, guard)
    wall_s = time.monotonic() - started
    text = output.decode(errors="replace")
    if not in_time:
        raise UmlError(f"the guest was killed after {timeout_s:g} s; it had written:\n{text}")
    try:
        end = json.loads((job / "end.json").read_text())
    except (OSError, ValueError):
        log_text = console.read_text(errors="replace")
        raise UmlError(f"the guest died:\n{log_text}\n{text}") from None
    return Ended(end["returncode"], text, end["boot_s"], wall_s)


def _command_line(job: Path, output: int) -> list[str]:
    """``linux.uml`` and its parameters; what follows ``--`` goes to the first process."""
    return [
        "linux.uml",
        f"mem={MEMORY_MB}M", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro",
        f"uml_dir={job}/", "umid=guest",  # else it leaves a folder in the home directory
        "con=null", "con0=null,fd:1", "ssl=null", f"ssl0=null,fd:{output}",
        f"JOB={job}", f"init={sys.executable}",
        "--", "-I", "-S", str(GUEST),
    ]  # fmt: skip


def _read(reader: int, deadline: float, echo: Callable[[bytes], object]) -> tuple[bytes, bool]:
    """All that comes until the guest ends, and whether it ended in time."""
    parts: list[bytes] = []
    while True:
        ready, _, _ = select.select([reader], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return b"".join(parts), False
        data = os.read(reader, 65536)
        if not data:
            return b"".join(parts), True
        parts.append(data)
        echo(data)


def _end(guest: subprocess.Popen[bytes], guard: subprocess.Popen[bytes]) -> None:
    """End what is left of the guest; its guard first, as the group's number is free afterwards."""
    guard.kill()
    guard.communicate()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(guest.pid, signal.SIGKILL)
    guest.wait(_KILL_WAIT_S)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command in a guest; the exit status is the command's, or 125 if the guest failed."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.lab.uml", description="run a command on a kernel that has ESP"
    )
    parser.add_argument("--timeout", type=float, default=TIMEOUT_S, help="seconds, boot included")
    parser.add_argument("command", nargs="+", help="after --")
    options = parser.parse_args(arguments)

    def echo(data: bytes) -> None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    try:
        ended = run(options.command, timeout_s=options.timeout, echo=echo)
    except UmlError as error:
        sys.stderr.write(f"{error}\n")
        return 125
    sys.stderr.write(
        f"user-mode Linux: command started after {ended.boot_s:.1f} s, "
        f"{ended.wall_s:.1f} s in all, exit status {ended.returncode}\n"
    )
    return ended.returncode


if __name__ == "__main__":
    sys.exit(main())
