"""Storms, re-attaches and busy hours on a small scale: `imsbench run` against the embedded core."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from imsbench.report.result import RunResult, read_result

pytestmark = [pytest.mark.net, pytest.mark.tun, pytest.mark.slow]

ROOT = Path(__file__).resolve().parent.parent
SMALL = """
name: small
subscribers: {count: 24}
generator: {arrivals: constant%s}
target: {kind: embedded, expires: 3600s%s}
phases:
  - fill: {rate: {from: 10/s, to: 40/s}, to: 24}
"""


def run(tmp_path: Path, phases: str, *, generator: str = "", target: str = "") -> RunResult:
    profile = tmp_path / "small.yaml"
    profile.write_text(SMALL % (generator, target) + phases)
    done = subprocess.run(
        [sys.executable, "-m", "imsbench", "run", str(profile), "--out", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode in (0, 3), done.stderr  # 3: this machine was too busy to be believed
    result = read_result(next(tmp_path.glob("*_small_embedded")))
    assert result.status == "complete"
    return result


def differing(report: Path) -> list[str]:
    """What did not add up, of the report's own comparisons."""
    return re.findall(r"^\| (.+?) +\|.*differs by", report.read_text(), re.MULTILINE)


def test_a_storm_ends_with_everybody_registered_on_every_side(tmp_path: Path) -> None:
    phases = (
        "  - storm: {outage: 1s, within: 500ms}\n"
        "  - storm: {outage: 1s, core: lost}\n"
        "  - cycle: {rate: 20}\n"  # everybody can be reached, and has one registration
    )
    result = run(tmp_path, phases, generator=", workers: 2")
    for done in result.steps[1:3]:
        recovery = done.recovery
        assert recovery is not None
        assert (recovery.lost, recovery.not_lost, recovery.retries) == (24, 0, 0)
        assert recovery.all_registered_s is not None
        assert done.kpis.procedures["registration"].succeeded == 24
        assert done.kpis.procedures["deregistration"].attempted == 0
        assert not done.findings
    assert result.core is not None
    assert result.core.counters["states lost"] == 1
    assert result.hss is not None
    assert (result.core.registered, result.hss.registered) == (24, 24)
    assert result.steps[3].kpis.procedures["deregistration"].succeeded == 24
    assert not any("vanished" in name for done in result.steps for name in done.counters)
    report = next(tmp_path.glob("*_small_*/report.md"))
    assert "## Registration storms" in report.read_text()
    assert not differing(report)


def test_a_storm_on_a_core_that_refuses_ends_by_trying_again(tmp_path: Path) -> None:
    """The core takes 8 registrations a second: 24 at one instant need more than one attempt."""
    limiter = ", limiter: {registrations: 8, burst: 8}"
    phases = "  - storm: {outage: 1s, back_off: none, retry: 500ms, limit: 30s}\n"
    result = run(tmp_path, phases, target=limiter)
    recovery = result.steps[1].recovery
    assert recovery is not None
    assert recovery.registered.count == 24
    assert recovery.retries > 0
    registrations = result.steps[1].kpis.procedures["registration"]
    assert registrations.attempted == 24 + recovery.retries
    assert registrations.failures == {("challenge", "503"): recovery.retries}


@pytest.mark.parametrize("ip_version", [4, 6])
def test_phones_re_attach_while_the_core_holds_their_old_binding(
    tmp_path: Path, ip_version: int
) -> None:
    phases = (
        "  - reattach: {rate: 20, passes: 2}\n"
        "  - cycle: {rate: 20, reattach: 0.5}\n"
        f"phones: {{ip_version: {ip_version}}}\n"
    )
    result = run(tmp_path, phases)
    moved = result.steps[1].kpis.procedures
    assert (moved["registration"].attempted, moved["registration"].succeeded) == (48, 48)
    assert moved["deregistration"].attempted == 0
    cycled = result.steps[2].kpis.procedures
    assert cycled["registration"].succeeded == 24
    assert 0 < cycled["deregistration"].succeeded < 24
    assert result.core is not None
    assert result.core.registered == 24  # one binding for each, the last one
    assert not differing(next(tmp_path.glob("*_small_*/report.md")))


def test_a_busy_hour_and_a_load_of_a_file_make_what_they_ask_for(tmp_path: Path) -> None:
    (tmp_path / "day.csv").write_text("seconds,calls,reattaches\n0,0,2\n2,4,2\n4,1,0\n")
    phases = (
        "  - busy_hour: {duration: 4s, warm_up: 1s, scale: 60, answered: 2, busy: 0, unanswered: 1,\n"
        "      refreshes: 3, reattaches: 3, power_cycles: 3, calls: {hold: {mean: 500ms},\n"
        "      cancel_after: 200ms}}\n"
        "  - load: {csv: day.csv, calls: {hold: {mean: 500ms}}}\n"
    )
    result = run(tmp_path, phases)
    hour, day = result.steps[1:]
    # 24 subscribers, 60 times 3 an hour, for 4 s: 4.8; calls with those of the warm-up 6, 4.8 without.
    assert hour.offered == {"call": 4, "refresh": 5, "reattach": 5, "power_cycle": 5}
    assert hour.kpis.sessions.planned == 4
    assert hour.kpis.procedures["deregistration"].succeeded == 5
    assert hour.kpis.procedures["registration"].succeeded == 10
    assert hour.kpis.procedures["reregistration"].succeeded == 5
    assert day.offered == {"call": 9, "reattach": 6}
    assert day.kpis.sessions.planned == 9
    assert day.kpis.procedures["registration"].succeeded == 6
    text = next(tmp_path.glob("*_small_*/report.md")).read_text()
    assert "## Attempts per subscriber and hour" in text
    assert "load of day.csv" in text
    assert not differing(next(tmp_path.glob("*_small_*/report.md")))
