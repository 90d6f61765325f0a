"""A run's end at the command: what is printed and returned when the disk, or a pipe, takes no more."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from imsbench import cli
from imsbench.host.limits import Finding
from imsbench.run import execute, network, preflight
from imsbench.run.store import Stored, store
from tests.report.results import hand_made

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def _no_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "become_capable", lambda _profile: None)
    monkeypatch.setattr(preflight, "refuse_if_lacking", lambda _profile: None)


def finish_with(monkeypatch: pytest.MonkeyPatch, stored: Stored) -> None:
    finished = execute.Finished(hand_made(), stored, ["The verdict."], [])
    monkeypatch.setattr(execute, "execute", lambda *_arguments, **_options: finished)


@pytest.mark.usefixtures("_no_host")
def test_a_result_that_cannot_be_written_is_printed_and_exit_5(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    finish_with(monkeypatch, store(hand_made(), tmp_path / "file" / "run"))
    assert cli.main(["run", "quickstart"]) == 5
    out, err = capsys.readouterr()
    assert out.startswith("# Self-test")
    assert "The verdict." in out
    assert "Result:" not in out
    assert "run/result.json could not be written: Not a directory" in err
    assert "Traceback" not in err
    assert "defect" not in err


@pytest.mark.usefixtures("_no_host")
def test_what_was_written_is_named_and_keeps_the_runs_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    finish_with(monkeypatch, store(hand_made(), tmp_path))
    assert cli.main(["run", "quickstart"]) == 3
    assert f"Result: {tmp_path}/result.json, {tmp_path}/report.md" in capsys.readouterr().out


def test_output_into_a_full_disk_is_exit_5_without_a_traceback(tmp_path: Path) -> None:
    store(hand_made(), tmp_path)
    with Path(os.devnull).with_name("full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "imsbench", "report", str(tmp_path)],
            stdout=full, stderr=subprocess.PIPE, text=True, cwd=ROOT, timeout=60, check=False,
        )  # fmt: skip
    assert done.returncode == 5
    assert done.stderr == (
        "imsbench: standard output could not be written: No space left on device\n"
    )


@pytest.mark.usefixtures("_no_host")
def test_check_says_first_which_way_back_an_external_core_needs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lacking = Finding("patience", 2, 1, "one each", "wait")
    monkeypatch.setattr(preflight, "findings", lambda _profile: [lacking])
    assert cli.main(["check", "quickstart", "--target", "127.0.0.1:5060"]) == 5
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == (
        "route    the core must have a way back to the phones, such as: "
        "ip route add 198.18.0.0/16 via 127.0.0.1"
    )
