"""A core that is not ours to start: reached through the host's own network, with the HSS on the host."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.net, pytest.mark.tun, pytest.mark.slow]

ROOT = Path(__file__).resolve().parent.parent

PROFILE = """
name: outside
subscribers: {count: 10}
generator: {arrivals: constant, workers: 2}
target: {kind: external, name: some core, pcscf: "192.0.2.10:5060"}
simulators: {hss: {listen: "192.0.2.20:3868"}}
phases:
  - fill: {rate: 20, to: 10}
  - cycle: {rate: 10}
"""


def beside_a_core(profile: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "imsbench", *arguments]
    return subprocess.run(
        [sys.executable, "-m", "tests.other_host", str(profile), *command],
        cwd=ROOT, capture_output=True, text=True, timeout=90, check=False,
    )  # fmt: skip


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    path = tmp_path / "outside.yaml"
    path.write_text(PROFILE)
    return path


def test_an_external_core_is_measured_through_the_host(tmp_path: Path, profile: Path) -> None:
    links = sorted(os.listdir("/sys/class/net"))
    done = beside_a_core(profile, "run", str(profile), "--out", str(tmp_path))
    assert done.returncode in (0, 3), done.stdout + done.stderr
    (path,) = tmp_path.glob("*_outside_external/result.json")
    result = json.loads(path.read_text())
    assert (result["status"], result["self_test"], result["core"]) == ("complete", False, None)
    for step in result["steps"]:
        registrations = step["kpis"]["procedures"]["registration"]
        assert (registrations["attempted"], registrations["succeeded"]) == (10, 10)
    assert result["hss"]["registered"] == 10
    assert sorted(os.listdir("/sys/class/net")) == links


def test_a_refused_connection_says_where_nothing_listens(tmp_path: Path, profile: Path) -> None:
    closed = tmp_path / "closed.yaml"
    closed.write_text(PROFILE.replace("192.0.2.10:5060", "192.0.2.10:5099"))
    done = beside_a_core(profile, "check", str(closed))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "registration failed at stage “connect”: refused" in done.stdout
    assert "nothing listens for SIP over TCP at 192.0.2.10:5099" in done.stdout


def test_a_host_that_does_not_forward_is_told_what_to_set(tmp_path: Path, profile: Path) -> None:
    beyond = tmp_path / "beyond.yaml"
    beyond.write_text(PROFILE.replace("192.0.2.10:5060", "203.0.113.10:5060"))
    done = beside_a_core(profile, "check", str(beyond))
    assert done.returncode == 5, done.stdout + done.stderr
    assert "sysctl -w net.ipv4.ip_forward=1" in done.stdout
