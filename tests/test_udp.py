"""Phones that use UDP, end to end: whole runs against the embedded core, as a user starts them."""

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
name: udp
subscribers: {{count: 12}}
phones: {{transport: udp, ipsec: "{ipsec}", ip_version: {ip_version}}}
target: {{loss_share: {loss_share}}}
generator: {{arrivals: constant}}
phases:
  - fill: {{rate: 12, to: 12}}
"""
CALLS = """
  - cycle: {rate: 12}
  - calls: {rate: 4, duration: 2s, warm_up: 0s, hold: {mean: 200ms}}
"""


def result_of(tmp_path: Path, text: str) -> Any:
    """Run a profile; what its result says."""
    profile = tmp_path / "udp.yaml"
    profile.write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "imsbench", "run", str(profile), "--out", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 3), done.stdout + done.stderr  # 3: a busy machine
    (path,) = tmp_path.glob("*/result.json")
    return json.loads(path.read_text())


def counters_of(result: Any) -> dict[str, int]:
    (worker,) = result["workers"]
    counters: dict[str, int] = worker["counters"]
    return counters


def test_lost_answers_are_asked_for_again_and_every_phone_registers(tmp_path: Path) -> None:
    text = PROFILE.format(ipsec="auto", ip_version=4, loss_share=0.2)
    result = result_of(tmp_path, text)
    counters = counters_of(result)
    assert result["steps"][0]["failures"] == []
    assert counters["retransmission sent: REGISTER"] > 0
    lost = result["core"]["counters"]["answers lost as injected"]
    resent = sum(n for name, n in counters.items() if name.startswith("retransmission sent: "))
    assert resent == pytest.approx(lost, abs=3)
    (report,) = tmp_path.glob("*/report.md")
    section = report.read_text().split("\n## UDP\n")[1].split("\n## ")[0]
    assert f"told to lose 20% of its answers, and lost {lost:,}" in section
    (row,) = [line for line in section.splitlines() if line.startswith("| REGISTER ")]
    assert f"| {counters['retransmission sent: REGISTER']:,} |" in " ".join(row.split())


@pytest.mark.parametrize("ip_version", [4, 6])
@pytest.mark.parametrize("ipsec", ["off", "auto"])
def test_registrations_and_calls(tmp_path: Path, ipsec: str, ip_version: int) -> None:
    text = PROFILE.format(ipsec=ipsec, ip_version=ip_version, loss_share=0) + CALLS
    result = result_of(tmp_path, text)
    assert [step["failures"] for step in result["steps"]] == [[], [], []]
    counters = counters_of(result)
    names = ("stray", "response_on", "malformed", "clear_", "datagram")
    assert not [name for name in counters if name.startswith(names)]
    # INVITEs are over 1,300 bytes: they alone made connections.
    core = result["core"]["counters"]
    assert 0 < core["connections to phones opened"] <= 8
    assert core["received REGISTER"] == 12 * 5
