"""Faults of a profile in a real run: each is done, told, and seen by the phones as it must be."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.net, pytest.mark.tun, pytest.mark.slow]

ROOT = Path(__file__).resolve().parent.parent

PROFILE = """
name: faulty
subscribers: {count: 100}
generator: {arrivals: constant, drain: 15s}
target:
  faults:
    - {what: error, on: [REGISTER], share: 0.1, status: 403}
    - {what: delay, on: ["180 INVITE"], share: 0.5, delay: {mean: 20ms}}
simulators:
  hss: {faults: [{what: error, commands: [LIR], share: 0.2, result: 5012}]}
phases:
  - fill: {rate: 25/s, to: 100}
  - calls: {rate: 5/s, duration: 4s, warm_up: 0s, hold: {mean: 2s}, ring: {mean: 100ms}}
  - hold: {duration: 5s}
faults:
  - {what: core_stall, step: fill, at: 1s, duration: 300ms}
  - {what: tcp_reset, step: hold, at: 1s, share: 0.1}
  - {what: rar, step: calls, at: 1s, duration: 2s, rate: 1/s}
  - {what: asr, step: calls, at: 3s, count: 1}
  - {what: pcrf_restart, step: hold, duration: 200ms}
  - {what: hss_restart, step: hold, duration: 200ms}
  - {what: rtr, step: hold, at: 2s, count: 3}
  - {what: ppr, step: hold, at: 2500ms, count: 3}
"""


def run(tmp_path: Path) -> dict[str, Any]:
    profile = tmp_path / "faulty.yaml"
    profile.write_text(PROFILE)
    finished = subprocess.run(
        [sys.executable, "-m", "imsbench", "run", str(profile), "--out", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=150,
    )  # fmt: skip
    assert finished.returncode in (0, 1, 3), finished.stderr  # 3: too busy to be believed
    assert "## Injected faults" in finished.stdout
    (path,) = tmp_path.glob("*_faulty_embedded/result.json")
    result: dict[str, Any] = json.loads(path.read_text())
    return result


def failures(part: dict[str, Any], cause: str) -> int:
    return sum(one["count"] for one in part["failures"] if one["cause"] == cause)


def test_every_fault_is_done_told_and_seen(tmp_path: Path) -> None:
    result = run(tmp_path)
    fill, calls, hold = result["steps"]
    refused, delayed, unlocated = result["steady_faults"]
    repair = calls["repair"]["kpis"]
    registrations = (
        fill["kpis"]["procedures"]["registration"],
        repair["procedures"]["registration"],
    )
    assert sum(failures(one, "403") for one in registrations) == refused["struck"] >= 10
    assert failures(fill["kpis"]["procedures"]["registration"], "403") == 10
    assert delayed["struck"] == delayed["delays"]["count"] > 0
    # An HSS that cannot tell where the called phone is: the call is refused.
    assert unlocated["of"] == 20
    assert failures(calls["kpis"]["sessions"], "500") >= unlocated["struck"] > 0
    timed = result["timed_faults"]
    assert sorted(one["fault"] for one in timed) == list(range(8))
    assert all(one["at_s"] >= one["planned_s"] for one in timed)
    done = {one["fault"]: one["done"] for one in timed}
    assert (done[0], done[4], done[5], done[6], done[7]) == (1, 1, 1, 3, 3)
    assert done[1] >= 9  # of a hundred phones, some of which may be without a connection
    assert next(one["lasted_s"] for one in timed if one["fault"] == 0) >= 0.3
    assert hold["registered_after"] == hold["registered_before"] - 3
    # Bearers that were lost, and sessions that were aborted, end calls, before or after the answer
    # (a 500 too, or a call that is dropped); nothing else does.
    sessions = calls["kpis"]["sessions"]
    broken = sum(one["count"] for one in sessions["failures"])
    assert broken == unlocated["struck"] + done[2] + done[3]
    assert result["unpublishable"]
