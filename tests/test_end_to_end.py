"""The whole product on a small scale: `imsbench` against its embedded core, as a user starts it."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from imsbench.run.find import Running, running

pytestmark = [pytest.mark.net, pytest.mark.tun, pytest.mark.slow]

ROOT = Path(__file__).resolve().parent.parent

PROFILE = """
name: small
subscribers: {count: 20}
phones: {ip_version: %d}
generator: {arrivals: constant}
phases:
  - fill: {rate: 20, to: 20}
  - cycle: {rate: 10}
thresholds:
  - initial_registration_success_rate >= 100%%
"""
LONG = PROFILE.replace("cycle: {rate: 10}", "hold: {duration: 60s}")


@contextmanager
def imsbench(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-m", "imsbench", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def children_of(pid: int) -> dict[str, Running]:
    return {child.name: child for child in running() if child.coordinator == pid}


def assert_nothing_left(pids: list[int], links: list[str]) -> None:
    deadline = time.monotonic() + 5.0
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    assert sorted(os.listdir("/sys/class/net")) == links


def result_in(folder: Path) -> dict[str, Any]:
    (path,) = folder.glob("*_small_embedded/result.json")
    assert (path.parent / "report.md").read_text()
    result: dict[str, Any] = json.loads(path.read_text())
    assert result["id"] == path.parent.name
    return result


@pytest.mark.parametrize("ip_version", [4, 6])
def test_every_phone_registers_and_the_result_tells_it(tmp_path: Path, ip_version: int) -> None:
    profile = tmp_path / "small.yaml"
    profile.write_text(PROFILE % ip_version)
    with imsbench("run", str(profile), "--out", str(tmp_path)) as process:
        out, err = process.communicate(timeout=90)
    assert process.returncode in (0, 3), err  # 3: this machine was too busy to be believed
    assert "Self-test" in out
    result = result_in(tmp_path)
    assert result["status"] == "complete"
    for step in result["steps"]:
        registrations = step["kpis"]["procedures"]["registration"]
        assert (registrations["attempted"], registrations["succeeded"]) == (20, 20)
    again = subprocess.run(
        [sys.executable, "-m", "imsbench", "report", str(next(tmp_path.glob("*_small_*")))],
        cwd=ROOT, capture_output=True, text=True, check=True, timeout=30,
    )  # fmt: skip
    assert again.stdout == next(tmp_path.glob("*_small_*/report.md")).read_text()


def test_one_phone_shows_its_ladder() -> None:
    with imsbench("register") as process:
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    ladder = re.findall(r"ms \| (->|<-) ([* ]) (\w+)", out)
    assert [(direction, text) for direction, _, text in ladder[:4]] == [
        ("->", "REGISTER"), ("<-", "401"), ("->", "REGISTER"), ("<-", "200"),
    ]  # fmt: skip
    assert [protection for _, protection, _ in ladder[:4]] == [" ", " ", "*", "*"]
    assert ladder[-2:] == [("->", "*", "REGISTER"), ("<-", "*", "200")]  # an orderly end
    assert "The phone registered. It has de-registered again." in out


def test_a_terminal_gets_a_live_bar() -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "imsbench", "register"]
    with subprocess.Popen(command, cwd=ROOT, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        with suppress(OSError):  # EIO: the other end is closed
            while data := os.read(ours, 4096):
                shown += data
    os.close(ours)
    assert process.returncode == 0, shown
    assert b"starting HSS, PCRF, reference core and 1 worker" in shown
    assert b"1 of 1 registrations succeeded" in shown
    assert b"The phone registered." in shown


def test_check_looks_at_profile_host_and_target() -> None:
    with imsbench("check", "quickstart") as process:
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, out + err
    assert [line.split()[0] for line in out.splitlines()][:2] == ["profile", "host"]
    assert "two phones registered, and one called the other. They have de-registered again." in out
    assert "registration, Diameter: AAR: 1, MAR: 1, SAR: 1, UAR: 2" in out
    assert "call, Diameter: AAR: 4, LIR: 1, STR: 2" in out
    assert "deregistration, Diameter: SAR: 1, STR: 1, UAR: 1" in out
    assert "<- 183 INVITE: 1, <- 200 BYE: 1" in out


def test_check_registers_one_phone_where_there_are_no_calls(tmp_path: Path) -> None:
    profile = tmp_path / "small.yaml"
    profile.write_text(PROFILE % 4)
    with imsbench("check", str(profile)) as process:
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, out + err
    assert "one phone registered" in out


def test_check_names_the_stage_at_which_the_phone_failed(tmp_path: Path) -> None:
    profile = tmp_path / "small.yaml"
    text = PROFILE % 4
    profile.write_text(text + "simulators: {hss: {error_share: 1.0}}\n")
    with imsbench("check", str(profile)) as process:
        out, err = process.communicate(timeout=60)
    assert process.returncode == 1, out + err
    assert "registration failed at stage “challenge”" in out
    assert "HSS" in out


@contextmanager
def run_under_way(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], dict[str, Running]]]:
    profile = tmp_path / "small.yaml"
    profile.write_text(LONG % 4)
    links = sorted(os.listdir("/sys/class/net"))
    with imsbench("run", str(profile), "--out", str(tmp_path)) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "held 1 min" in line:
                break
        children = children_of(process.pid)
        assert set(children) == {"core", "hss", "pcrf", "worker-0"}
        yield process, children
        assert_nothing_left([child.pid for child in children.values()], links)


def test_a_killed_core_is_exit_4_with_the_result_so_far(tmp_path: Path) -> None:
    with run_under_way(tmp_path) as (process, children):
        os.kill(children["core"].pid, signal.SIGKILL)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 4, err
    assert result_in(tmp_path)["status"] == "target_died"
    assert "core was ended by SIGKILL" in out


def test_ctrl_c_is_exit_130_with_the_result_so_far(tmp_path: Path) -> None:
    with run_under_way(tmp_path) as (process, _children):
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    result = result_in(tmp_path)
    assert result["status"] == "interrupted"
    assert result["steps"][0]["kpis"]["procedures"]["registration"]["succeeded"] == 20


def test_a_killed_coordinator_leaves_nothing(tmp_path: Path) -> None:
    with run_under_way(tmp_path) as (process, _children):
        process.kill()


def test_a_running_worker_can_be_entered(tmp_path: Path) -> None:
    with run_under_way(tmp_path) as (process, children):
        command = ["enter", str(children["worker-0"].pid), "cat", "/proc/net/dev"]
        with imsbench(*command) as inside:
            out, err = inside.communicate(timeout=30)
        assert inside.returncode == 0, err
        assert "ims0:" in out
        process.kill()
