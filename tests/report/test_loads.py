"""What a report says of storms and of mixes."""

from __future__ import annotations

import itertools

import pytest

from imsbench.kpi.recovery import Recovery
from imsbench.profile import parse_profile
from imsbench.report import expected, loads
from imsbench.report.markdown import render
from imsbench.report.result import RunResult, StepResult
from tests.kpi.outcomes import call
from tests.report.results import hand_made, histogram, many, step

STORM = """
name: small
subscribers: {count: 200}
phases:
  - fill: {rate: 50/s, to: 200}
  - storm: {within: 2s, core: lost, base_time: 10s, max_time: 5min}
"""
HOUR = """
name: small
subscribers: {count: 200}
generator: {arrivals: constant}
phases:
  - fill: {rate: 50/s, to: 200}
  - busy_hour: {duration: 36s, warm_up: 4s, scale: 10, refreshes: 2, reattaches: 0.5,
      power_cycles: 0.5, answered: 0.75, busy: 0.25, unanswered: 0, calls: {hold: {mean: 1s}}}
"""


def result_of(text: str, second: StepResult) -> RunResult:
    profile = parse_profile(text)
    filled = step(profile, 0, many(200, "registration", 50, 0.010))
    changed = {"profile": profile, "steps": [filled, second], "thresholds": []}
    return hand_made().model_copy(update=changed)


def stormy(back: int, retries: int = 0) -> RunResult:
    """``back`` of 200 phones came back, one each 10 ms."""
    profile = parse_profile(STORM)
    done = step(profile, 1, many(200 + retries, "registration", 100, 0.010))
    done.recovery = Recovery()
    done.recovery.lost, done.recovery.retries = 200, retries
    done.recovery.registered.merge(histogram(*((i + 1) / 100 for i in range(back))))
    return result_of(STORM, done)


def busy() -> RunResult:
    profile = parse_profile(HOUR)
    done = step(
        profile, 1, many(45, "reregistration", 1, 0.005) + many(20, "registration", 1, 0.01)
    )
    for _ in range(15):
        done.kpis.record_call(call(hold_s=1.0))
    for _ in range(5):
        done.kpis.record_call(call(status=486, expected="busy", answered_at=float("nan")))
    done.reasons = []
    done.offered = {"refresh": 40, "reattach": 10, "power_cycle": 10, "call": 20}
    return result_of(HOUR, done)


def cells(lines: list[str], start: str) -> list[str]:
    (line,) = (line for line in lines if line.startswith(f"| {start}"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_storm_tells_when_which_share_was_back() -> None:
    lines = list(loads.storms(stormy(200, retries=7)))
    row = cells(lines, "Storm: 200 come back within 2 s, back-off; the core lost its state")
    assert row[1:5] == ["200", "200", "207", "7"]
    assert row[5:] == ["200 ms", "500 ms", "1.00 s", "1.50 s", "1.80 s", "1.98 s", "2.00 s"]
    text = "\n".join(lines)
    assert "and the target forgot them all then; 5 s later they came back within 2 s" in text
    assert "half and all of min(5 min, 10 s · 2^failures) (RFC 5626 §4.5" in text


def test_what_never_came_back_is_a_dash() -> None:
    row = cells(list(loads.storms(stormy(150))), "Storm")
    assert row[5:] == ["200 ms", "500 ms", "1.00 s", "1.50 s", "—", "—", "—"]


def test_retries_are_expected_and_rx_is_not_compared() -> None:
    result = stormy(200, retries=7)
    text = "\n".join(expected.expectations(result))
    assert "| 207 |" in " ".join(text.split())
    assert "differs by +7" not in text
    assert "while the core held a session of theirs" in str(expected.expected_rx(result))


def test_a_mix_tells_attempts_per_subscriber_and_hour() -> None:
    lines = list(loads.mixes(busy()))
    # 200 subscribers in 36 s are two subscriber-hours.
    wanted = {
        "Calls, answered": ["7.5", "7.5", "15"],
        "Calls, busy": ["2.5", "2.5", "5"],
        "Calls, all": ["10", "10", "20"],
        "Refreshes |": ["20", "20", "40"],
        "Re-attaches": ["5", "5", "10"],
        "Power cycles": ["5", "5", "10"],
        "Refreshes by expiry": ["—", "2.5", "5"],
    }
    for name, figures in wanted.items():
        (line,) = (line for line in lines if f"| {name}" in " ".join(line.split()))
        assert [cell.strip() for cell in line.strip("|").split("|")][2:] == figures, name


@pytest.mark.parametrize("result", [stormy(150, 3), busy()], ids=["storm", "busy hour"])
def test_the_whole_report_is_of_the_result_alone(result: RunResult) -> None:
    again = RunResult.from_json(result.to_json())
    assert render(again) == render(result)
    assert ("two IPv4 addresses per phone" in render(result)) == (result.steps[1].offered != {})


def test_the_test_setup_says_what_they_are_made_of() -> None:
    assert "| Storm " in render(stormy(200))
    text = render(busy())
    assert "0.75 answered, 0.25 busy, 0 unanswered, 2 refreshes, 0.5 reattaches" in text
    assert "0.5 power cycles, all times 10" in text


def test_reports_without_either_say_nothing_of_them() -> None:
    assert not list(loads.storms(hand_made()))
    assert not list(loads.mixes(hand_made()))


def test_parts_of_a_recovery_merge_into_the_whole() -> None:
    parts = [Recovery() for _ in range(3)]
    whole = Recovery()
    for n, part in zip(range(90), itertools.cycle(parts), strict=False):
        for one in (part, whole):
            one.lost += 1
            one.retries += n % 2
            one.registered.record(n / 2)
    merged = Recovery()
    for part in parts:
        merged.merge(Recovery.from_json(part.to_json()))
    assert merged.to_json() == whole.to_json()
    assert merged.all_registered_s == pytest.approx(44.5)
    merged.lost += 1
    assert merged.all_registered_s is None


@pytest.mark.parametrize(
    "damage", [{"lost": -1}, {"lost": 3}, {"retries": "x"}, {"registered": 3}, {"given_up": 2**63}]
)
def test_a_damaged_recovery_is_refused(damage: dict[str, object]) -> None:
    made = Recovery()
    made.lost = 4
    for n in range(4):
        made.registered.record(n + 1.0)
    with pytest.raises(ValueError, match="not a recovery"):
        Recovery.from_json(made.to_json() | damage)
