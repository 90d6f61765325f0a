"""What a system call costs in a guest, beside one of this machine: ``python -m tests.bench.guest``.

A core in user-mode Linux does some hundred of them for a registration: they are what its CPU is.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from imsbench.lab import uml

CALLS = 20_000
_ENDS_S = 120.0
_SCRIPT = f"""
import os, time
from itertools import repeat
def cost(begin):
    for _ in repeat(None, {CALLS}):
        os.getppid()
    return (time.monotonic() - begin) / {CALLS} * 1e6
print(min(cost(time.monotonic()) for _ in range(5)))
"""
_COMMAND = [sys.executable, "-I", "-S", "-c", _SCRIPT]


def in_guest() -> tuple[float, float]:
    """Microseconds a call in a guest, and seconds that it took to boot."""
    with TemporaryDirectory() as folder:
        inside = Path(folder, "guest")
        inside.mkdir()
        guest = uml.Guest(uml.Job(_COMMAND, {"PATH": "/usr/bin:/bin"}), inside)
        said, until = b"", time.monotonic() + _ENDS_S
        try:
            while guest.is_running() and time.monotonic() < until:
                time.sleep(0.1)
                with suppress(BlockingIOError):
                    said += os.read(guest.output, 1 << 16)
            end = guest.result()
        finally:
            guest.end()
    if end is None or end.returncode:
        raise SystemExit(f"the guest did not do it: {said.decode(errors='replace')}")
    return float(said), end.boot_s


def main() -> None:
    """Both, and their ratio."""
    if lacking := uml.missing():
        raise SystemExit(f"user-mode Linux: {lacking}")
    here_us = float(subprocess.check_output(_COMMAND))
    guest_us, boot_s = in_guest()
    print(
        f"a system call, the call from Python included: {here_us:.2f} µs here, {guest_us:.1f} µs in a guest"
    )
    print(f"  {guest_us / here_us:.0f} times as much; booted in {boot_s:.1f} s")


if __name__ == "__main__":
    main()
