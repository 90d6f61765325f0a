"""A calibration as a whole: cases in order, the table, exit codes; and the short form for real."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from imsbench.calibrate import cases, table
from imsbench.calibrate.calibration import calibrate, exit_code
from imsbench.calibrate.cases import SHORT
from imsbench.profile import Profile
from imsbench.report.parts import SteadyFaultResult
from imsbench.report.result import RunResult
from imsbench.run.events import Watcher
from tests.calibrate.results import HOST, histogram, registrations, result_of

CHOSEN = cases.cases(SHORT)[:2]
_BY_TIME = ("Attempts delayed, by what they took", "The others")
ROOT = Path(__file__).resolve().parents[2]


def run_with(measured_s: float, reasons: list[str]) -> list[RunResult]:
    delays = histogram(*(0.12 for _ in range(50)))
    delay = SteadyFaultResult(
        where="target", what="delay", share=0.5, of=100, struck=50, delays=delays
    )
    times = registrations([0.024, measured_s] * 50)
    return [
        result_of(CHOSEN[0], registrations([0.004] * 100)),
        result_of(CHOSEN[1], times, steady=[delay], reasons=reasons),
    ]


@pytest.mark.parametrize(
    ("measured_s", "reasons", "code"),
    [(0.124, [], 0), (0.160, [], 1), (0.124, ["It was late."], 3), (0.160, ["It was late."], 3)],
)
def test_cases_give_rows_a_table_and_an_exit_code(
    measured_s: float, reasons: list[str], code: int
) -> None:
    results = run_with(measured_s, reasons)
    asked: list[Profile] = []

    def run(profile: Profile, _watch: Watcher) -> RunResult:
        asked.append(profile)
        return results[len(asked) - 1]

    done = list(calibrate(CHOSEN, lambda _event: None, run))
    assert asked == [case.profile for case in CHOSEN]
    assert exit_code(done) == code
    text = table.render(done, [HOST])
    assert "| p50 from due, of those delayed" in text
    assert ("| +36.0" in text) is (measured_s == 0.160)
    assert ("**no**" in text) is (measured_s == 0.160)
    assert (f"Not vouched for, “{CHOSEN[1].title}”: It was late." in text) is bool(reasons)
    assert "a processor" in text


@pytest.mark.net
@pytest.mark.tun
@pytest.mark.slow
def test_the_short_form_counts_to_the_one_and_sees_the_stall(tmp_path: Path) -> None:
    """No time is judged here but from below: a busy machine is slow, and never too fast."""
    file = tmp_path / "calibration.md"
    finished = subprocess.run(
        [sys.executable, "-m", "imsbench", "calibrate", "--short", "--out", str(file)],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip
    assert finished.returncode in (0, 1, 3), finished.stderr
    assert file.read_text() == finished.stdout.rstrip("\n") + "\n"
    lines = [line for line in file.read_text().splitlines() if line.startswith("| ")][2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    counts = [row for row in rows if row[5] == "exact" and row[1] not in _BY_TIME]
    assert len(counts) == 8
    assert all(row[7] == "yes" for row in counts), counts
    measured = {row[1]: float(row[3].split()[0].replace(",", "")) for row in rows[-3:-1]}
    assert (
        measured["max from due"] >= 1900.0
    )  # the first one due in the stall, a tenth of a second in
    assert measured["p99 from due"] >= 1700.0
