"""What machine this is, for the result."""

from __future__ import annotations

import os
import platform
import resource
from pathlib import Path

from imsbench.report.parts import Host


def this_host(role: str) -> Host:
    """This machine as a result names it; ``role`` says what it did in the run."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)  # workers raise soft to hard
    return Host(
        role=role,
        system=_system(),
        kernel=f"{platform.system()} {platform.release()} {platform.machine()}",
        cpu=_cpu(),
        cpus=len(os.sched_getaffinity(0)),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        open_files=hard,
        python=f"{platform.python_implementation()} {platform.python_version()}",
    )


def _system() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    except OSError:
        return "Linux"


def _cpu() -> str:
    """Model of the first processor; empty where the kernel does not say (some machines of Arm)."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "")
