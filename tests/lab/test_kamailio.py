"""Kamailio from this machine's packages as the target of whole runs, in namespaces, without IPsec."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from imsbench.lab import packages

ROOT = Path(__file__).resolve().parent.parent.parent
LACKING = packages.advice(packages.missing())
pytestmark = [
    pytest.mark.net,
    pytest.mark.slow,
    pytest.mark.skipif(LACKING != "", reason=LACKING),
]

PROFILE = """
name: real
subscribers: {count: 20}
phones: {ipsec: "off", transport: TRANSPORT}
target: {kind: lab, expires: 40s, min_expires: 30s}
phases:
  - fill: {rate: 20, to: 20}
  - cycle: {rate: 10}
  - calls: {rate: 2, duration: 20s, warm_up: 1s, hold: {mean: 2s}}
generator: {arrivals: constant}
"""
IN_A_NAMESPACE = (
    "import subprocess, sys\n"
    "from imsbench.host.namespace import enter_new_network_namespace\n"
    "enter_new_network_namespace()\n"
    "sys.exit(subprocess.run(sys.argv[1:], check=False).returncode)\n"
)


def imsbench(*arguments: str, timeout_s: float = 150.0) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "imsbench", *arguments],
        cwd=ROOT, capture_output=True, text=True, timeout=timeout_s, check=False,
    )  # fmt: skip


def profile_in(folder: Path, text: str = PROFILE, transport: str = "tcp") -> Path:
    path = folder / "real.yaml"
    path.write_text(text.replace("TRANSPORT", transport))
    return path


def result_in(folder: Path) -> dict[str, Any]:
    (path,) = folder.glob("*_real_lab/result.json")
    result: dict[str, Any] = json.loads(path.read_text())
    return result


def servers_below(pid: int) -> list[int]:
    """Process ids of the Kamailio processes among a process's descendants."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents.setdefault(int(fields[1]), []).append(int(entry.name))
    left, found = [pid], []
    while left:
        below = parents.get(left.pop(), [])
        left += below
        found += below
    return [one for one in found if is_kamailio(one)]


def is_kamailio(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == "kamailio"
    except OSError:
        return False


def wait_until(wanted: Callable[[], bool], timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not wanted():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.1)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A run that has reached the calls of its load."""
    text = PROFILE.replace("duration: 20s", "duration: 120s")
    command = [sys.executable, "-m", "imsbench", "run", str(profile_in(tmp_path, text))]
    with (
        (tmp_path / "err").open("w") as err,
        subprocess.Popen(
            [*command, "--out", str(tmp_path)],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=err, text=True,
        ) as process,
    ):  # fmt: skip
        try:
            wait_until(lambda: "calls in progress" in (tmp_path / "err").read_text(), 120.0)
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("transport", ["tcp", "udp"])
def test_every_procedure_succeeds_every_time(tmp_path: Path, transport: str) -> None:
    links_before = sorted(os.listdir("/sys/class/net"))
    path = profile_in(tmp_path, transport=transport)
    done = imsbench("lab", "run", "kamailio", str(path), "--out", str(tmp_path))
    assert done.returncode in (0, 3), done.stdout + done.stderr
    result = result_in(tmp_path)
    assert (result["status"], result["self_test"], result["core"]) == ("complete", False, None)
    for step in result["steps"]:
        for name, procedure in step["kpis"]["procedures"].items():
            assert procedure["succeeded"] == procedure["attempted"], (name, step["failures"])
        assert step["repair"] is None
        assert step["registered_after"] == 20
    refreshes = result["steps"][2]["kpis"]["procedures"]["reregistration"]
    assert refreshes["succeeded"] >= 10
    calls = result["steps"][2]["kpis"]["sessions"]
    assert calls["attempted"] == calls["completed"] == calls["planned"] == 40
    assert (calls["dropped"], calls["wrong"]) == (0, 0)
    usage = result["steps"][2]["sut"]
    assert usage["cpu_cores"] > 0
    assert usage["memory_rss_bytes"] > 10 << 20
    assert usage["processes"] > 20
    assert result["hss"]["registered"] == 20
    title = rf"Kamailio lab \(host\) {re.escape(packages.version())}; shares this machine"
    assert re.search(title, done.stdout)
    assert sorted(os.listdir("/sys/class/net")) == links_before


def test_a_server_that_dies_ends_the_run_in_its_own_words(
    tmp_path: Path, running: subprocess.Popen[str]
) -> None:
    servers = servers_below(running.pid)
    assert len(servers) > 20
    os.kill(servers[-1], signal.SIGSEGV)  # one of many: the first of its server ends the others
    out, _ = running.communicate(timeout=60)
    assert running.returncode == 4, out
    assert "the target died: core gave up: the " in out
    assert "-CSCF ended with exit status" in out or "-CSCF was ended by" in out
    assert "exited by a signal 11" in out
    assert result_in(tmp_path)["status"] == "target_died"
    wait_until(lambda: not any(is_kamailio(pid) for pid in servers), 20.0)


def test_nothing_is_left_of_a_run_that_is_killed(running: subprocess.Popen[str]) -> None:
    servers = servers_below(running.pid)
    assert len(servers) > 20
    running.send_signal(signal.SIGKILL)
    running.wait(10)
    wait_until(lambda: not any(is_kamailio(pid) for pid in servers), 20.0)


def test_logs_of_a_run_in_progress_are_told(running: subprocess.Popen[str]) -> None:
    assert running.poll() is None
    done = imsbench("lab", "logs", "kamailio")
    assert done.returncode == 0, done.stderr
    for server in ("pcscf", "icscf", "scscf"):
        assert f"{server}: " in done.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="a lab that stands is joined with the host: root")
def test_a_lab_stands_until_it_is_taken_down(tmp_path: Path) -> None:
    path, lab = profile_in(tmp_path), f"{sys.executable} -m imsbench lab"
    steps = (
        f"{lab} up kamailio {path} && {lab} status && ip route && ls -A /proc/sys/net/ipv4/conf; "
        f"{lab} up kamailio {path}; echo second $?; {lab} down; {lab} status; echo after $?; "
        "ip -brief link; ip route"
    )
    done = subprocess.run(
        [sys.executable, "-c", IN_A_NAMESPACE, "sh", "-c", steps],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    before, _, after = done.stdout.partition("second")
    assert "its P-CSCF serves phones at 198.19.0.10:5060" in before, done.stdout + done.stderr
    assert "P-CSCF answers OPTIONS at 198.19.0.10:5060" in before
    assert "imslab0" in before
    assert "a lab is up (process" in done.stderr
    assert after.startswith(" 2\n")
    assert "The lab is down." in after
    assert "after 1" in after
    assert "imslab0" not in after


def test_ipsec_is_not_switched_off_silently(tmp_path: Path) -> None:
    path = profile_in(tmp_path, PROFILE.replace('ipsec: "off", ', ""))
    done = imsbench("lab", "run", "kamailio", str(path))
    assert done.returncode == 2, done.stdout + done.stderr
    assert "phones.ipsec: must be off: this lab has no IPsec" in done.stderr
