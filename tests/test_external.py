"""A core that is not ours to start: reached through the host's own network, with the HSS on the host."""

from __future__ import annotations

import json
import os
import re
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
    return do_beside_a_core(profile, sys.executable, "-m", "imsbench", *arguments)


def do_beside_a_core(profile: Path, *command: str) -> subprocess.CompletedProcess[str]:
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


def test_commands_follow_each_other_and_leave_the_core_as_they_found_it(profile: Path) -> None:
    one = f"{sys.executable} -m imsbench register {profile} && ip -brief link && ip route"
    done = do_beside_a_core(profile, "sh", "-ec", f"{one}; {one}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("The phone registered. It has de-registered again.") == 2
    assert "imsb0" not in done.stdout
    assert "core: at the end: 0 registered" in done.stderr
    ports = re.findall(r"port_uc (\d+)", done.stdout)
    assert len(ports) == 2


def test_a_killed_run_is_no_obstacle_to_the_next(tmp_path: Path, profile: Path) -> None:
    held = tmp_path / "held.yaml"
    held.write_text(PROFILE.replace("cycle: {rate: 10}", "hold: {duration: 60s}"))
    imsbench = f"{sys.executable} -m imsbench"
    script = (
        f"{imsbench} run {held} --out {tmp_path} 2>{tmp_path}/err & "
        f"for i in $(seq 200); do grep -q 'held 1 min' {tmp_path}/err && break; sleep 0.1; done; "
        f"kill -KILL $!; ip -brief link; {imsbench} register {profile}; ip -brief link"
    )
    done = do_beside_a_core(profile, "sh", "-c", script)
    before, ladder, after = done.stdout.partition("The phone registered.")
    assert ladder, done.stdout + done.stderr
    assert "imsb0" in before
    assert "imsb0" not in after


def test_a_core_that_does_not_connect_to_our_hss_is_waited_for_then_named(
    tmp_path: Path, profile: Path
) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(PROFILE.replace("192.0.2.20:3868", "192.0.2.20:3869"))
    impatient = (
        "import sys\nfrom imsbench import cli\nfrom imsbench.run import launch\n"
        "launch.CORE_S = 3.0\nsys.exit(cli.main())"
    )
    done = do_beside_a_core(profile, sys.executable, "-c", impatient, "register", str(other))
    assert done.returncode == 1, done.stdout + done.stderr
    waiting = r"waiting for the core to connect to 192\.0\.2\.20:3869 \(\d of 3 s\)"
    assert re.search(waiting, done.stderr), done.stderr
    gave_up = "the core did not connect to the HSS at 192.0.2.20:3869 within 3 s: is that the HSS"
    assert gave_up in done.stderr
    assert "core: waiting for the HSS at 192.0.2.20:3868 for" in done.stderr


def test_a_target_that_was_never_there_ends_the_run_early(tmp_path: Path, profile: Path) -> None:
    absent = tmp_path / "absent.yaml"
    absent.write_text(
        "name: absent\nsubscribers: {count: 2000}\n"
        'target: {kind: external, pcscf: "192.0.2.10:5099"}\n'
        "phases: [{fill: {rate: 50, to: 2000}}]\n"
    )
    done = beside_a_core(profile, "run", str(absent), "--out", str(tmp_path))
    assert done.returncode == 1, done.stdout + done.stderr
    text = "the target was never there: the first "
    assert text in done.stdout
    assert "nothing listens for SIP over TCP at 192.0.2.10:5099" in done.stdout
    (path,) = tmp_path.glob("*_absent_external/result.json")
    result = json.loads(path.read_text())
    assert (result["status"], result["exit_code"]) == ("interrupted", 1)
    assert result["reason"].startswith(text)
    registrations = result["steps"][0]["kpis"]["procedures"]["registration"]
    assert 20 <= registrations["attempted"] < 1000
