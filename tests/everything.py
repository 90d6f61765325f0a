"""All tests, in three parts side by side (``python -m tests.everything``): they wait most of the time.

The first part writes as it goes; each other one what it wrote, when it has ended. The exit code is the
gravest of pytest's.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests"
LABS = ["tests/lab"]
RUNS = [
    "tests/calibrate",
    "tests/search",
    *(f"tests/{path.name}" for path in TESTS.glob("test_*.py")),
]
RUNS = sorted(one for one in RUNS if one != "tests/test_architecture.py")
"""Whole runs of the load: processes and namespaces of their own."""
PARTS = {
    "the rooms": ["tests", *(f"--ignore={one}" for one in (*LABS, *RUNS))],
    "whole runs": RUNS,
    "labs": LABS,
}


def start(arguments: list[str], output: IO[bytes] | None) -> subprocess.Popen[bytes]:
    """One part; without a cache, as there is one for all."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)


def main() -> int:
    """Run all parts; the exit code."""
    codes = []
    with tempfile.TemporaryDirectory() as folder:
        logs = {name: Path(folder, name) for name in list(PARTS)[1:]}
        files = {name: log.open("wb") for name, log in logs.items()}
        sys.stdout.write(f"beside these, told in the end: {', '.join(logs)}\n")
        sys.stdout.flush()
        parts = {name: start(arguments, files.get(name)) for name, arguments in PARTS.items()}
        try:
            for name, part in parts.items():
                codes.append(part.wait())
                if name in logs:
                    sys.stdout.write(f"\n== {name}\n")
                    sys.stdout.write(logs[name].read_text(errors="replace"))
                    sys.stdout.flush()
        finally:
            for part in parts.values():
                if part.poll() is None:
                    part.send_signal(signal.SIGINT)
            for file in files.values():
                file.close()
    return max(codes, key=abs)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
