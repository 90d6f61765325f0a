"""User-mode Linux for tests that need a kernel with ESP: ``python -m tests.lab.uml -- COMMAND …``.

The guest runs one command in this very checkout, with its virtual environment; ``imsbench.lab.uml``
has the guest itself.
"""

from __future__ import annotations

import argparse
import compileall
import os
import select
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from imsbench.lab.uml import Guest, Job, UmlError, missing

ROOT = Path(__file__).resolve().parent.parent.parent
"""The checkout."""
INSIDE = "IMSBENCH_KERNEL_ESP"
"""Environment variable that a command in the guest finds set to "1"."""
TIMEOUT_S = 600.0


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
    job = Job(command, _environment() | dict(environment or {}), str(ROOT))
    with tempfile.TemporaryDirectory(prefix="imsbench-uml-", ignore_cleanup_errors=True) as folder:
        started = time.monotonic()
        guest = Guest(job, Path(folder))
        try:
            output, in_time = _read(guest.output, started + timeout_s, echo)
            wall_s = time.monotonic() - started
            text = output.decode(errors="replace")
            if not in_time:
                raise UmlError(
                    f"the guest was killed after {timeout_s:g} s; it had written:\n{text}"
                )
            end = guest.result()
            if end is None:
                raise UmlError(f"the guest died:\n{guest.console()}\n{text}")
        finally:
            guest.end()
    return Ended(end.returncode, text, end.boot_s, wall_s)


def _environment() -> dict[str, str]:
    programs = Path(sys.executable).parent
    return {
        "PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin",
        "HOME": "/run/home",
        "TMPDIR": "/run/tmp",
        "LANG": "C.UTF-8",
        "NO_COLOR": "1",  # the output is a terminal to the command
        "PYTHONDONTWRITEBYTECODE": "1",
        INSIDE: "1",
    }


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
