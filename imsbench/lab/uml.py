"""User-mode Linux: a kernel that has ESP, as an ordinary process of a machine whose own kernel has none.

Debian's ``user-mode-linux`` is a whole Linux kernel as an ordinary process; its ``esp4``, ``esp6`` and
``xfrm_user`` work whatever the kernel of this machine lacks. The guest takes this machine's files as
its root (hostfs, read-only), so that whatever is installed here runs in it.

* No privilege is needed: the guest's root is nobody here. Nor is anything to be set up: the guest
  finds its modules where the package has them.
* Nothing stays behind: one directory, removed; the guest's memory is an unlinked file; the guest's
  processes are one process group, killed by its number at the end. Should this process be killed, a
  guard that waits for the end of a pipe does both.
* One virtual CPU. Starting a process costs some tens of milliseconds in the guest.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from imsbench.lab import packages

FIRST_PROCESS = Path(__file__).with_name("guest.py")
MODULES = (
    "xfrm_user", "esp4", "esp6", "authenc", "hmac", "sha1_generic", "md5", "cbc", "aes_generic",
    "des_generic", "gcm", "ghash-generic", "ctr", "crypto_null", "echainiv", "seqiv", "veth", "tun",
)  # fmt: skip
"""Modules loaded before the command starts."""
MEMORY_MB = 1536
"""Memory of a guest; what it does not touch costs nothing."""
JOB = "/run/job"
"""Where a guest sees its job's folder, the one place of this machine that it can write to."""

_PROGRAMS = {"linux.uml": "user-mode-linux", "modprobe": "kmod", "ip": "iproute2"}
"""What must be installed, and the packages that have it."""
_SHIM = Path(__file__).with_name("xstate.c")
_SHIMMED = "amx_tile"
"""The processor's flag that makes the shim necessary: its first lines say why."""
_PIPE_BYTES = 1 << 20
"""Room for what a guest writes while nobody reads."""
_KILL_WAIT_S = 5.0
_GUARD = 'read -r _; kill -9 "-$1"; rm -rf -- "$2"'
"""Shell script with the guest's process group and its directory: acts when its input ends."""


class UmlError(Exception):
    """A guest that did not do what it was started for; the text says why."""


@dataclass(frozen=True, slots=True)
class Job:
    """What a guest is started for."""

    command: Sequence[str]
    """Its one command: the guest ends when that has ended."""
    environment: Mapping[str, str]
    """The command's environment, whole."""
    directory: str = "/"
    """Where it starts."""
    prepare: Sequence[Sequence[str]] = ()
    """Commands that run before it, one after the other; each must succeed."""
    readings: Sequence[str] = ()
    """A command that runs beside it, whose output is ``Guest.readings``; none if empty."""


@dataclass(frozen=True, slots=True)
class End:
    """The end of a guest's command."""

    returncode: int
    """Its exit status; 128 + n where signal n ended it."""
    boot_s: float
    """From the start of the kernel to the start of the command, seconds."""


def missing_packages() -> list[str]:
    """The Debian packages that a guest needs and this machine lacks."""
    lacking = [package for name, package in _PROGRAMS.items() if not packages.program(name)]
    return lacking + ([] if not _needs_shim() or packages.program("cc") else ["gcc"])


def missing() -> str:
    """What this machine lacks to run a guest, and the line that brings it; empty: nothing."""
    if sys.platform != "linux" or os.uname().machine != "x86_64":
        return f"user-mode Linux does not run on {sys.platform} {os.uname().machine}"
    lacking = missing_packages()
    if not lacking:
        return ""
    return f"needs {', '.join(lacking)}: sudo apt-get install -y {' '.join(lacking)}"


class Guest:
    """A guest under way."""

    def __init__(
        self, job: Job, folder: Path, *, memory_mb: int = MEMORY_MB, tap: str = ""
    ) -> None:
        """Start it. ``folder`` is its job's, and removed at its end; ``tap``: a device of this network
        namespace that is the other end of the guest's ``vec0``.

        UmlError if this machine lacks something.
        """
        if lacking := missing():
            raise UmlError(lacking)
        self._folder = folder
        (folder / "job.json").write_text(_spell(job))
        environment = dict(os.environ)
        if _needs_shim():
            environment["LD_PRELOAD"] = _build_shim(folder)
        self.output, output = _pipe()
        """Descriptor of what the command writes; at its end, the guest's. Reads never block."""
        self.readings, readings = _pipe()
        """The same of what ``Job.readings`` writes."""
        try:
            with (folder / "console").open("wb") as console:
                self._process = subprocess.Popen(
                    _command_line(folder, memory_mb, tap, output, readings),
                    stdin=subprocess.DEVNULL,
                    stdout=console,
                    stderr=console,
                    pass_fds=[output, readings],
                    env=environment,
                    start_new_session=True,
                    preexec_fn=_keep_on_one_cpu,
                )
        finally:
            os.close(output)
            os.close(readings)
        self._guard = subprocess.Popen(
            ["sh", "-c", _GUARD, "sh", str(self._process.pid), str(folder)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    def is_running(self) -> bool:
        """Whether its kernel has not ended."""
        return self._process.poll() is None

    def result(self) -> End | None:
        """How its command ended; None if it has not, or if the guest died before."""
        try:
            values = json.loads((self._folder / "end.json").read_text())
        except (OSError, ValueError):
            return None
        return End(values["returncode"], values["boot_s"])

    def console(self) -> str:
        """What its kernel wrote."""
        return (self._folder / "console").read_text(errors="replace")

    def end(self) -> None:
        """End what is left of it, its folder too. May be called again."""
        if self._guard.returncode is None:  # first: the group's number is free afterwards
            self._guard.kill()
            self._guard.communicate()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            os.close(self.output)
            os.close(self.readings)
        self._process.wait(_KILL_WAIT_S)
        shutil.rmtree(self._folder, ignore_errors=True)


def _keep_on_one_cpu() -> None:
    """A guest is a kernel and its processes in turn: a system call is a third cheaper where none of
    them wakes another processor.
    """
    cpus = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cpus[os.getpid() % len(cpus)]})


def _needs_shim() -> bool:
    return f" {_SHIMMED} " in Path("/proc/cpuinfo").read_text().replace("\n", " ")


def _build_shim(folder: Path) -> str:
    built = folder / "xstate.so"
    command = ["cc", "-O2", "-shared", "-fPIC", "-nostdlib", "-o", str(built), str(_SHIM)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UmlError(f"{_SHIM.name}, which this processor needs, is not built: {done.stderr}")
    return str(built)


def _spell(job: Job) -> str:
    return json.dumps(
        {
            "command": list(job.command),
            "environment": dict(job.environment),
            "directory": job.directory,
            "prepare": [list(command) for command in job.prepare],
            "readings": list(job.readings),
            "modules": MODULES,
        }
    )


def _pipe() -> tuple[int, int]:
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    with contextlib.suppress(OSError):  # beyond what this user may have: the usual 64 kB then
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    return reader, writer


def _command_line(
    folder: Path, memory_mb: int, tap: str, output: int, readings: int
) -> Sequence[str]:
    """``linux.uml`` and its parameters; what follows ``--`` goes to the first process."""
    return [
        "linux.uml",
        f"mem={memory_mb}M", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro",
        f"uml_dir={folder}/", "umid=guest",  # else it leaves a folder in the home directory
        "con=null", "con0=null,fd:1",
        "ssl=null", f"ssl0=null,fd:{output}", f"ssl1=null,fd:{readings}",
        *([f"vec0:transport=tap,ifname={tap},depth=64,gro=0"] if tap else []),
        f"JOB={folder}", f"init={sys.executable}",
        "--", "-I", "-S", str(FIRST_PROCESS),
    ]  # fmt: skip
