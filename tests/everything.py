"""All tests, in three parts side by side (``python -m tests.everything``): they wait most of the time.

The first part writes as it goes; each other one what it wrote, when it has ended. Many tests watch real
sockets and clocks, and a part takes the processor from the others: what failed beside them is run again
alone, and counts as it ends there. The exit code is the gravest of pytest's.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parent.parent
LABS = ["tests/lab"]
RUNS = sorted(
    {"tests/calibrate", "tests/search", *(f"tests/{p.name}" for p in ROOT.glob("tests/test_*.py"))}
    - {"tests/test_architecture.py"}
)
"""Whole runs of the load: processes and namespaces of their own."""
PARTS = {
    "the rooms": ["tests", *(f"--ignore={one}" for one in (*LABS, *RUNS))],
    "whole runs": RUNS,
    "labs": LABS,
}
FAILED = 1
"""pytest's exit code where tests failed, and nothing worse."""


def start(
    arguments: list[str], cache: Path, output: IO[bytes] | None = None
) -> subprocess.Popen[bytes]:
    """One part, which remembers its failures in a folder of its own."""
    command = [sys.executable, "-m", "pytest", "-o", f"cache_dir={cache}", *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)


def tell(text: str) -> None:
    """A line between the parts."""
    sys.stdout.write(f"\n== {text}\n")
    sys.stdout.flush()


def side_by_side(folder: Path) -> dict[str, int]:
    """Run all parts at once; their exit codes."""
    first, *others = PARTS
    tell(f"{first}; beside them {' and '.join(others)}, told when they have ended")
    files = {name: (folder / f"{name}.log").open("wb") for name in others}
    parts = {
        name: start(arguments, folder / name, files.get(name)) for name, arguments in PARTS.items()
    }
    codes = {}
    try:
        for name, part in parts.items():
            codes[name] = part.wait()
            if name in files:
                tell(name)
                sys.stdout.write((folder / f"{name}.log").read_text(errors="replace"))
                sys.stdout.flush()
    finally:
        for part in parts.values():
            if part.poll() is None:
                part.send_signal(signal.SIGINT)
                part.wait()
        for file in files.values():
            file.close()
    return codes


def main() -> int:
    """Run all parts, and alone what failed beside the others; the exit code."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        codes = side_by_side(folder)
        for part, code in codes.items():
            if code == FAILED:
                tell(f"{part}: what failed beside the others, once more and alone")
                again = ["--last-failed", "--last-failed-no-failures", "none", *PARTS[part]]
                codes[part] = start(again, folder / part).wait()
    tell(", ".join(f"{part}: {'passed' if not code else 'failed'}" for part, code in codes.items()))
    return max(codes.values(), key=abs)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
