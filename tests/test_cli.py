"""The command as its users start it: a process, its exit code, what it says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from imsbench import cli
from imsbench.cli import output
from imsbench.run import find, single

ROOT = Path(__file__).resolve().parent.parent


def imsbench(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "imsbench", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_help_names_every_command_and_exit_code() -> None:
    done = imsbench("--help")
    assert done.returncode == 0
    for command in ("demo", "run", "check", "register", "report", "show", "enter", "hss", "core"):
        assert f"\n    {command} " in done.stdout
    assert "5 the host lacks something" in " ".join(done.stdout.split())


@pytest.mark.parametrize("command", ["demo", "run", "check", "register", "report", "show", "enter"])
def test_every_command_has_its_help(command: str) -> None:
    done = imsbench(command, "--help")
    assert done.returncode == 0
    assert f"usage: imsbench {command}" in done.stdout


@pytest.mark.parametrize("command", ["hss", "core"])
def test_simulators_tell_their_own_options(command: str) -> None:
    done = imsbench(command, "--help")
    assert done.returncode == 0, done.stderr
    assert "--listen" in done.stdout


def test_a_number_of_captured_phones_without_a_capture_is_exit_2() -> None:
    done = imsbench("run", "quickstart", "--pcap-phones", "5")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "imsbench: --pcap-phones goes with --pcap FILE\n"


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["flood"],
        ["run"],
        ["run", "quickstart", "--rate", "5"],
        ["run", "quickstart", "--pcap", "x", "--pcap-phones", "0"],
    ],
)
def test_a_usage_error_is_exit_2(arguments: list[str]) -> None:
    done = imsbench(*arguments)
    assert done.returncode == 2
    assert "usage: imsbench" in done.stderr


def test_a_broken_profile_is_told_all_at_once_with_lines(tmp_path: Path) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text(
        "name: broken\nsubscribers: {count: 0}\nphases:\n  - fill: {rate: fast, to: 5}\n"
    )
    done = imsbench("run", str(path))
    assert done.returncode == 2
    assert "line 2: subscribers.count" in done.stderr
    assert "line 4: phases[0].fill.rate" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_broken_thresholds_are_told_all_at_once(tmp_path: Path) -> None:
    path = tmp_path / "thresholds.yaml"
    path.write_text(
        "name: thresholds\nsubscribers: {count: 5}\nphases:\n  - fill: {rate: 5, to: 5}\n"
        "thresholds:\n  - registration_tim.p99 < 1s\n  - registration_time.p99 < 5\n"
    )
    for command in ("run", "check"):
        done = imsbench(command, str(path))
        assert done.returncode == 2
        assert "did you mean registration_time" in done.stderr
        assert "thresholds[1]" in done.stderr


def test_an_unknown_profile_names_those_there_are() -> None:
    done = imsbench("run", "quickstrat")
    assert done.returncode == 2
    assert "quickstart" in done.stderr


def test_a_target_that_is_none_is_a_usage_error() -> None:
    done = imsbench("run", "quickstart", "--target", "core.example.com")
    assert done.returncode == 2
    assert "--target core.example.com" in done.stderr
    assert "address:port" in done.stderr


def entered(children: list[find.Running], name: str, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(find, "running", lambda: children)
    return cli.main(["enter", name])


def test_entering_nothing_says_what_there_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    child = find.Running("worker-0", 11, 10, False)
    assert entered([child], "worker-99", monkeypatch) == 2
    told = capsys.readouterr().err
    assert "no run in progress has a child 'worker-99'" in told
    assert told.endswith("  worker-0     pid 11, of the run with pid 10\n")


def test_entering_without_a_run_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert entered([], "worker-0", monkeypatch) == 2
    told = "imsbench: no run is in progress (or none that this user may look at)\n"
    assert capsys.readouterr().err == told


@pytest.mark.net
@pytest.mark.tun
def test_results_that_cannot_be_written_are_told_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = imsbench("run", "quickstart", "--out", str(tmp_path / "file"))
    assert done.returncode == 5
    assert f"does not let results be written to {tmp_path}/file: it is no directory" in done.stderr
    done = imsbench("run", "quickstart", "--out", "/proc/results")
    assert done.returncode == 5
    assert "written to /proc/results: No such file or directory (/proc/results)" in done.stderr


@pytest.mark.parametrize(
    ("deregistered", "text"),
    [(True, "It has de-registered again."), (False, "Its de-registration did not succeed")],
)
def test_the_end_of_the_one_phone_is_told(deregistered: bool, text: str) -> None:
    assert single.Single([], [], deregistered, [], []).farewell().startswith(text)


def test_a_result_that_is_none_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text('{"schema_version": 1}')
    for path in (tmp_path, tmp_path / "nothing.json"):
        done = imsbench("report", str(path))
        assert done.returncode == 2
        assert str(path) in done.stderr
        assert "Traceback" not in done.stderr


def test_a_run_goes_on_when_nobody_reads_its_progress(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log reader that dies is no reason to end a run, and none to call it kept."""
    read, written = os.pipe()
    os.close(read)
    with os.fdopen(written, "w") as broken:
        monkeypatch.setattr(sys, "stderr", broken)
        output.say("to nobody")
        output.complain("to nobody either")
    assert capfd.readouterr() == ("", "")
