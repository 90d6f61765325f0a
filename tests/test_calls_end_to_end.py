"""Calls through the whole product on a small scale: IPsec, HSS, PCRF, the signature, both ladders."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.net, pytest.mark.tun, pytest.mark.slow]

ROOT = Path(__file__).resolve().parent.parent

PROFILE = """
name: calls
subscribers: {count: 24}
phones:
  ip_version: %d
  ipsec: userspace
  refresh_phase: uniform
  expires: 60s
  subscription_expires: 60s
target: {expires: 60s}
simulators: {pcrf: {%s}}
generator: {arrivals: constant, workers: 2}
phases:
  - fill: {rate: 20, to: 24}
  - together:
      - calls: {rate: 2, duration: 6s, warm_up: 2s, hold: {mean: 1s}, %s}
      - cycle: {rate: 6}
"""


def imsbench(*arguments: str, timeout_s: float = 120.0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "imsbench", *arguments]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=timeout_s, check=False
    )


def run(tmp_path: Path, ip_version: int = 4, pcrf: str = "", calls: str = "") -> dict[str, Any]:
    """The result of one run."""
    profile = tmp_path / "calls.yaml"
    profile.write_text(PROFILE % (ip_version, pcrf, calls or "ring: {mean: 100ms}"))
    done = imsbench("run", str(profile), "--out", str(tmp_path))
    assert done.returncode in (0, 1, 3), done.stderr  # 3: this machine was too busy to be believed
    (path,) = tmp_path.glob("*_calls_embedded/result.json")
    result: dict[str, Any] = json.loads(path.read_text())
    assert result["status"] == "complete", done.stdout
    return result


@pytest.mark.parametrize("ip_version", [4, 6])
def test_calls_beside_a_cycle_and_refreshes(tmp_path: Path, ip_version: int) -> None:
    result = run(tmp_path, ip_version)
    fill, step = result["steps"]
    sessions = step["kpis"]["sessions"]
    assert (sessions["attempted"], sessions["planned"], sessions["dropped"]) == (12, 12, 0)
    assert sessions["wrong"] == 0
    procedures = step["kpis"]["procedures"]
    for procedure in ("deregistration", "registration"):
        assert (procedures[procedure]["attempted"], procedures[procedure]["succeeded"]) == (24, 24)
    assert not step["failures"]
    assert [one["without_pair"] for one in step["health"]] == [0, 0]
    assert sum(one["called"] for one in step["health"]) == 12
    # CPU and memory of the embedded core are measured, though a self-test publishes neither.
    assert fill["sut"]["cpu_cores"] is None
    assert 0 < step["sut"]["cpu_cores"] < 2
    assert step["sut"]["memory_rss_bytes"] > 10 << 20
    assert (step["sut"]["memory_kind"], step["sut"]["processes"]) == ("rss", 1)
    assert_signature_scales(result)


def assert_signature_scales(result: dict[str, Any]) -> None:
    """What one call made the target do, all calls made it do as often."""
    signature = result["signature"]
    outside = [worker["outside"]["sessions"]["attempted"] for worker in result["workers"]]
    calls = 12 + sum(outside)
    assert sum(outside) == 4  # the warm-up's
    assert signature["call"]["commands"] == {"AAR": 4, "LIR": 1, "STR": 2}
    for message, count in signature["call"]["messages"].items():
        assert count == 1, message
        assert sum(one["messages"].get(message, 0) for one in result["workers"]) == calls, message
    aar = result["pcrf"]["commands"]["AAR"]["count"]
    registrations = 24 + 24
    assert aar == registrations + 4 * calls
    assert result["pcrf"]["commands"]["AAR"]["results"] == {"2001": aar}
    assert result["hss"]["commands"]["LIR"]["count"] == calls
    assert result["pcrf"]["sessions"] == 24
    assert result["pcrf"]["media_sessions"] == 0
    assert result["pcrf"]["wrong"] == {}


def test_a_call_that_the_pcrf_refuses_fails_by_that_name(tmp_path: Path) -> None:
    result = run(tmp_path, pcrf="error_share: 0.3")
    failures = result["steps"][1]["kpis"]["sessions"]["failures"]
    assert failures
    assert {one["cause"] for one in failures} == {"Rx"}
    kinds = [one for one in result["steps"][1]["failures"] if one["procedure"] == "call"]
    assert "Rx AAR" in kinds[0]["detail"]
    assert kinds[0]["ladder"]


def test_a_bearer_that_takes_time_delays_every_call(tmp_path: Path) -> None:
    result = run(tmp_path, pcrf="bearer_setup: {mean: 300ms}", calls="bye_by_callee: 0.5")
    sessions = result["steps"][1]["kpis"]["sessions"]
    assert sessions["planned"] == sessions["attempted"] == 12
    assert sessions["histograms"]["setup_time"]["count"] == 12
    assert result["pcrf"]["counters"]["rar_answered_2001"] > 0


def test_one_call_shows_both_ladders_on_one_clock() -> None:
    done = imsbench("call")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.split("|") for line in done.stdout.splitlines() if line.count("|") == 2][1:]
    times = [float(row[0].split()[0]) for row in rows]
    assert times == sorted(times)
    caller = [" ".join(row[1].split()[:3]) for row in rows if row[1].strip()]
    callee = [" ".join(row[2].split()[:3]) for row in rows if row[2].strip()]
    assert caller[0] == "-> * INVITE"
    assert callee[0] == "<- * INVITE"
    assert [line for line in caller if re.search("183|PRACK|UPDATE|180|ACK|BYE", line)] == [
        "<- * 183", "-> * PRACK", "-> * UPDATE", "<- * 180", "-> * ACK", "-> * BYE",
    ]  # fmt: skip
    assert callee[-2:] == ["<- * BYE", "-> * 200"]
    assert "The phones called each other. They have de-registered again." in done.stdout


def test_one_call_against_the_null_target() -> None:
    done = imsbench("call", "--target", "null")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "INVITE" in done.stdout


def test_a_call_that_fails_is_exit_1_with_the_ladder_and_advice(tmp_path: Path) -> None:
    profile = tmp_path / "calls.yaml"
    # Signalling sessions are authorised, or not: registrations do not depend on it, calls do.
    profile.write_text(PROFILE % (4, "error_share: 1.0", "ring: {mean: 100ms}"))
    done = imsbench("call", str(profile))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "500" in done.stdout
    assert "call failed at stage “invite”: Rx" in done.stdout
    assert "PCRF" in done.stdout
