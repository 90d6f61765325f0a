"""Why it failed: groups, numbers, and what `show` says of one."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from imsbench.report.failures import group_of, kinds
from imsbench.report.parts import CommandResult, Failure, LadderEntry
from imsbench.run import why
from imsbench.run.exits import USAGE, RunRefused
from tests.report.call_results import calls_made
from tests.report.results import hand_made, histogram

Line = tuple[Literal["->", "<-"], str]


def first(*lines: Line, protected: bool = False, callee: int | None = None) -> Failure:
    ladder = [
        LadderEntry(at=i / 10, direction=direction, text=text, protected=protected)
        for i, (direction, text) in enumerate(lines)
    ]
    return Failure(
        procedure="registration",
        stage="answer",
        cause="timeout",
        phone=1,
        callee=callee,
        ladder=ladder,
    )


@pytest.mark.parametrize(
    ("procedure", "stage", "cause", "group"),
    [
        ("registration", "connect", "refused", "TCP refused"),
        ("registration", "connect", "tcp timeout", "TCP not connected"),
        ("registration", "connect", "out of open files", "this host"),
        ("registration", "challenge", "timeout", "401 late"),
        ("registration", "aka", "mac failure", "AKA"),
        ("registration", "challenge", "no Security-Server", "security agreement"),
        ("registration", "answer", "503", "5xx"),
        ("registration", "challenge", "403", "4xx"),
        ("registration", "answer", "no binding", "wrong content"),
        ("reregistration", "refresh", "timeout", "timer"),
        ("subscription", "subscription", "closed by target", "connection lost"),
        ("call", "check", "wrong call", "wrong content"),
        ("call", "invite", "Rx", "Rx"),
        ("call", "bye", "timeout", "timer"),
        ("call", "talk", "early bye", "ended otherwise"),
        ("call", "talk", "a cause of tomorrow", "other"),
    ],
)
def test_groups(procedure: str, stage: str, cause: str, group: str) -> None:
    assert group_of(procedure, stage, cause, None) == group


def test_what_the_ladder_decides() -> None:
    sent: Line = ("->", "INVITE sip:b")
    assert group_of("call", "invite", "timeout", first(sent)) == "no 100"
    assert group_of("call", "invite", "timeout", first(sent, ("<-", "100 Trying"))) == "timer"
    register: Line = ("->", "REGISTER sip:a")
    clear = group_of("registration", "answer", "timeout", first(register))
    secured = group_of("registration", "answer", "timeout", first(register, protected=True))
    assert (clear, secured) == ("timer", "SA not answered")


@pytest.mark.parametrize(
    ("procedure", "cause", "group"),
    [
        ("registration", "timeout", "Cx slow"),
        ("registration", "504", "Cx slow"),
        ("registration", "403", "4xx"),
        ("call", "504", "5xx"),
    ],
)
def test_a_slow_hss_explains_what_waited_for_it(procedure: str, cause: str, group: str) -> None:
    assert group_of(procedure, "challenge", cause, None, slow_cx=True) == group


def test_kinds_are_numbered_over_all_steps_and_know_a_slow_hss() -> None:
    result = hand_made()
    assert [(k.number, k.stage, k.cause, k.count) for k in kinds(result)] == [
        (1, "answer", "timeout", 2),
        (2, "challenge", "403", 1),
    ]
    assert kinds(result)[0].group == "SA not answered"
    slow = CommandResult(count=1, results={"2001": 1}, response_time=histogram(1.5))
    result.steps[3].simulated = {"HSS": {"MAR": slow}}
    assert kinds(result)[0].group == "Cx slow"


def test_show_lists_and_shows(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    file.write_text(hand_made().to_json(), encoding="utf-8")
    listed = why.lines(file, None)
    assert listed[2].split("|")[1].strip() == "1"
    assert "SA not answered" in listed[2]
    shown = why.lines(file, 2)
    assert shown[0] == "2. registration, challenge: 403 (phone 1,234; 200 registered, 40/s)"
    assert "the core knows no such subscriber" in "\n".join(shown)
    assert any("REGISTER sip:ims.example" in line for line in shown)
    unkept = why.lines(file, 1)
    assert "None of them is kept" in unkept[-1]
    with pytest.raises(RunRefused, match="there is no failure 3: there are 2") as refused:
        why.lines(file, 3)
    assert refused.value.exit_code == USAGE


def test_a_call_shows_both_ladders(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    result = calls_made()
    file.write_text(result.to_json(), encoding="utf-8")
    number = next(k.number for k in kinds(result) if k.first and k.first.callee is not None)
    assert any("called phone" in line for line in why.lines(file, number))


def test_a_run_without_failures(tmp_path: Path) -> None:
    result = hand_made()
    del result.steps[3]
    file = tmp_path / "result.json"
    file.write_text(result.to_json(), encoding="utf-8")
    assert why.lines(file, None) == ["No attempt failed."]
    with pytest.raises(RunRefused, match="no attempt failed"):
        why.lines(file, 1)
