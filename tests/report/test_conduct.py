"""What a target did, told by the names it is counted under."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

import imsbench
import simulators
from imsbench.report import render
from imsbench.report.conduct import AT_HSS, AT_PCRF, AT_PHONES, observations
from imsbench.report.parts import PcrfResult
from tests.report.results import hand_made

HEADING = "## What the target did"


def test_counts_of_all_workers_and_both_simulators() -> None:
    workers = [
        {"repeated_challenges": 2, "notify": 400, "network_deregistration_rejected": 1},
        {"repeated_challenges": 3, "network_deregistration_deactivated": 4},
    ]
    seen = observations(workers, {"schemes_refused": 7, "requests_received": 9}, {"rar_failed": 0})
    assert [(one.at, one.name, one.count) for one in seen] == [
        ("phones", "repeated_challenges", 5),
        ("phones", "network_deregistration_deactivated", 4),
        ("phones", "network_deregistration_rejected", 1),
        ("HSS", "schemes_refused", 7),
    ]
    assert seen[0].describe().startswith("repeated_challenges at the phones: 5 401 to a REGISTER")


def test_a_report_has_them_as_a_table() -> None:
    result = hand_made()
    assert HEADING not in render(result)  # nothing to tell
    result.workers[0].counters["deregistrations_unanswered"] = 1_234
    result.workers[0].counters["malformed: | bad"] = 1
    result.pcrf = PcrfResult(commands={}, sessions=0, counters={"rar_failed": 5})
    text = render(result)
    section = text[text.index(HEADING) : text.index("## Thresholds")]
    assert "| deregistrations_unanswered | phones | 1,234 |" in section
    assert "| rar_failed                 | PCRF   |     5 |" in section
    assert "malformed: \\| bad" in section


@pytest.mark.parametrize("name", [*AT_PHONES, *AT_HSS, *AT_PCRF])
def test_every_name_is_one_that_is_counted(name: str) -> None:
    """A counter that is renamed must be renamed here."""
    wanted = name.removeprefix("esp ")
    if wanted in ("rar_failed", "asr_failed", "rtr_failed", "ppr_failed"):
        wanted = "_failed"  # by the message's name
    assert any(wanted in text for text in _texts())


@cache
def _texts() -> set[str]:
    """Every text constant of the programs but the tables themselves."""
    found: set[str] = set()
    for package in (imsbench, simulators):
        for path in Path(str(package.__file__)).parent.rglob("*.py"):
            if path.name != "conduct.py":
                nodes = ast.walk(ast.parse(path.read_text()))
                found |= {
                    node.value
                    for node in nodes
                    if isinstance(node, ast.Constant) and isinstance(node.value, str)
                }
    return found
