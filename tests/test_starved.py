"""A generator that is starved of CPU on purpose says so, and its result may not be published."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from imsbench.run.find import running

pytestmark = [pytest.mark.net, pytest.mark.tun, pytest.mark.slow]

ROOT = Path(__file__).resolve().parent.parent

PROFILE = """
name: starved
subscribers: {count: 40}
generator: {arrivals: constant, limits: {steal: 1.0, host_cpu: 1.0}}
phases:
  - fill: {rate: 20, to: 40}
  - cycle: {rate: 10, passes: 3}
"""


def starve(pid: int, seconds: float) -> None:
    """Let a process run for a tenth of the time only, in slices of 0.2 s."""
    until = time.monotonic() + seconds
    try:
        while time.monotonic() < until:
            os.kill(pid, signal.SIGSTOP)
            time.sleep(0.18)
            os.kill(pid, signal.SIGCONT)
            time.sleep(0.02)
    finally:
        os.kill(pid, signal.SIGCONT)


def starved_run(tmp_path: Path) -> tuple[int, str]:
    profile = tmp_path / "starved.yaml"
    profile.write_text(PROFILE)
    command = [sys.executable, "-m", "imsbench", "run", str(profile), "--out", str(tmp_path)]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                if "2/2" in line:
                    break
            (worker,) = (
                child.pid
                for child in running()
                if child.coordinator == process.pid and child.name == "worker-0"
            )
            starve(worker, 6.0)
            out, _ = process.communicate(timeout=60)
        finally:
            process.kill()
    return process.returncode, out


def test_a_starved_worker_makes_its_step_invalid_for_that_reason(tmp_path: Path) -> None:
    returncode, out = starved_run(tmp_path)
    assert returncode == 3, out
    (file,) = tmp_path.glob("*_starved_*/result.json")
    result: dict[str, Any] = json.loads(file.read_text())
    starved = result["steps"][1]
    said = " ".join(starved["reasons"])
    assert "the generator was the queue" in said
    assert "The p99 of the lateness is" in said
    assert "The p99 of the loop lag is" in said
    assert any(line.startswith("| ~~40 registered, 3 passes") for line in out.splitlines())
    assert result["publishable"] is False
    assert any("the generator was the queue" in why for why in result["unpublishable"])
    published = subprocess.run(
        [sys.executable, "-m", "imsbench", "report", "--publish", str(file.parent)],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (published.returncode, published.stdout) == (3, "")
    assert "may not be published" in published.stderr
    assert "the generator was the queue" in published.stderr
    assert "Its target is the embedded one" in published.stderr
