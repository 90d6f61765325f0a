"""The command lab, and how a lab that stands is found, without any core."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from imsbench import cli
from imsbench.lab import keeper, packages

PROTECTED = """
name: protected
subscribers: {count: 2}
phases: [{fill: {rate: 1, to: 2}}]
"""


def process(proc: Path, pid: int, *words: str) -> None:
    folder = proc / str(pid)
    folder.mkdir(parents=True)
    (folder / "cmdline").write_bytes(b"\0".join(word.encode() for word in words) + b"\0")


def test_a_machine_without_kamailio_is_told_the_one_line_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(packages, "missing", lambda: ["kamailio", "kamailio-ims-modules"])
    for action in ("run", "up"):
        assert cli.main(["lab", action, "kamailio", "kamailio-host-short"]) == 5
        line = "sudo apt-get install --no-install-recommends kamailio kamailio-ims-modules"
        assert line in capsys.readouterr().err


def test_a_profile_with_ipsec_is_not_run_without(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "protected.yaml"
    path.write_text(PROTECTED)
    assert cli.main(["lab", "run", "kamailio", str(path)]) == 2
    assert "phones.ipsec" in capsys.readouterr().err


def test_where_no_lab_is_up_status_and_down_say_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(keeper, "find", list)
    assert cli.main(["lab", "status", "kamailio"]) == 1
    assert cli.main(["lab", "down", "kamailio"]) == 0
    assert capsys.readouterr().out == "No lab is up.\nNo lab is up.\n"


def test_labs_are_found_by_their_command_line_the_oldest_first(tmp_path: Path) -> None:
    process(tmp_path, 30, "python", "-P", "-m", keeper.MODULE, "kamailio-host")
    process(tmp_path, 20, "python", "-P", "-m", keeper.MODULE, "real")
    process(tmp_path, 10, "vi", keeper.MODULE)
    process(tmp_path, 11, "python", "-m")
    process(tmp_path, 12, "")
    (tmp_path / "meminfo").touch()
    assert keeper.find(tmp_path) == [20, 30]


def test_a_lab_of_another_user_stays_up_and_the_reason_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(_pid: int, _number: int) -> None:
        raise PermissionError

    monkeypatch.setattr(keeper, "find", lambda: [4711])
    monkeypatch.setattr(os, "kill", refuse)
    assert cli.main(["lab", "down", "kamailio"]) == 5
    assert "the lab (process 4711) is another user's" in capsys.readouterr().err
