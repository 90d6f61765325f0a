"""First process of a user-mode Linux guest (see ``uml``): makes it usable, runs one command, powers off.

The kernel starts it as ``python -I -S guest.py`` with ``JOB=DIRECTORY`` in its environment. The root
is the host's own file tree, read-only; what must be written has its own tmpfs. Nothing but the
standard library is to be had here, and no file of the host is written but those of the job:

    DIR/job.json     {"command": […], "environment": {…}, "directory": "…", "modules": […],
                      "prepare": [[…], …], "readings": […]}
    DIR/end.json     {"returncode": n, "boot_s": seconds until the command began}; written last
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import termios
import time
import traceback
import tty
from pathlib import Path
from typing import Any

JOB = Path("/run/job")
"""Where the job's directory of the host is mounted, writable."""
MODULES_ROOT = Path("/run/modules")
"""What modprobe takes for a root, so that the host's /lib/modules is not needed."""
UML_MODULES = Path("/usr/lib/uml/modules")
"""Debian's modules of the guest's kernel, by version."""

_POWER_OFF = 0x4321FEDC  # linux/reboot.h
_LIBC = ctypes.CDLL(None, use_errno=True)


def mount(source: str, target: Path, kind: str, flags: int = 0, data: str = "") -> None:
    """mount(2); OSError names the target. The mount point is made where it can be."""
    target.mkdir(parents=True, exist_ok=True)
    if _LIBC.mount(source.encode(), bytes(target), kind.encode(), flags, data.encode()):
        number = ctypes.get_errno()
        raise OSError(number, f"mount {kind} on {target}: {os.strerror(number)}")


def prepare(job: str) -> None:
    """File systems: /dev is mounted by the kernel (CONFIG_DEVTMPFS_MOUNT), and has no shm."""
    mount("proc", Path("/proc"), "proc")
    mount("sys", Path("/sys"), "sysfs")
    mount("run", Path("/run"), "tmpfs")
    mount("shm", Path("/dev/shm"), "tmpfs")
    mount("pts", Path("/dev/pts"), "devpts")
    mount("none", JOB, "hostfs", data=job)
    for name in ("tmp", "home"):
        Path("/run", name).mkdir()


def load_modules(names: list[str]) -> None:
    """Load kernel modules; later requests of the kernel itself find them too."""
    library = MODULES_ROOT / "lib"
    library.mkdir(parents=True)
    (library / "modules").symlink_to(UML_MODULES)
    helper = MODULES_ROOT / "modprobe"
    helper.write_text(f'#!/bin/sh\nexec /sbin/modprobe -d {MODULES_ROOT} "$@"\n')
    helper.chmod(0o755)
    Path("/proc/sys/kernel/modprobe").write_text(str(helper))
    subprocess.run(["/sbin/modprobe", "-d", MODULES_ROOT, "-a", *names], check=True)


def open_line(number: int) -> int:
    """A serial line that the host reads, byte for byte."""
    line = os.open(f"/dev/ttyS{number}", os.O_RDWR | os.O_NOCTTY)
    tty.setraw(line, termios.TCSANOW)
    return line


def take_terminal() -> None:
    """Standard output and error to the first serial line."""
    line = open_line(0)
    for descriptor in (1, 2):
        os.dup2(line, descriptor)


def run(job: dict[str, Any]) -> int:
    """The command's exit status, as a shell gives it; this process reaps every orphan meanwhile."""
    settings: dict[str, Any] = {
        "env": job["environment"],
        "cwd": job["directory"],
        "stdin": subprocess.DEVNULL,
    }
    for command in job["prepare"]:
        subprocess.run(command, check=True, **settings)
    if job["readings"]:
        subprocess.Popen(job["readings"], stdout=open_line(1), **settings)
    child = subprocess.Popen(job["command"], **settings)
    while True:
        pid, status = os.wait()
        if pid == child.pid:
            code = os.waitstatus_to_exitcode(status)
            child.returncode = code
            return code if code >= 0 else 128 - code


def main() -> None:
    """Do it all; whatever goes wrong is written to the terminal, and the guest ends in any case."""
    returncode, boot_s = 125, 0.0
    try:
        prepare(os.environ["JOB"])
        take_terminal()
        job = json.loads((JOB / "job.json").read_text())
        load_modules(job["modules"])
        boot_s = time.clock_gettime(time.CLOCK_BOOTTIME)
        returncode = run(job)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        if os.isatty(1):
            termios.tcdrain(1)  # what is still in the line's buffer would be lost
        if JOB.is_dir():
            with (JOB / "end.json").open("w") as end:
                json.dump({"returncode": returncode, "boot_s": boot_s}, end)
                end.flush()
                os.fsync(end.fileno())
        _LIBC.reboot(_POWER_OFF)


if __name__ == "__main__":
    main()
