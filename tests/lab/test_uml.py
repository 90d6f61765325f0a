"""The runner itself: what a command gives, how long it may take, and what stays behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from imsbench.lab import uml as guests
from tests.lab import uml

pytestmark = pytest.mark.slow


def found(directory: Path) -> list[str]:
    """Files of the runner's in this directory, and processes that were told of it."""
    things = [str(path) for path in directory.iterdir()]
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:  # it ended
                continue
            if f"JOB={directory}/".encode() in line:
                things.append(entry.name)
    return things


def left_over(directory: Path) -> list[str]:
    """What is still found when killed processes have had time to go."""
    deadline = time.monotonic() + 5
    while found(directory) and time.monotonic() < deadline:
        time.sleep(0.02)
    return found(directory)


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a runner of this machine keeps its files; a test that wants it wants a guest."""
    if lacking := guests.missing():
        pytest.skip(f"no user-mode Linux: {lacking}")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def test_a_command_gives_its_output_and_its_exit_status(directory: Path) -> None:
    seen: list[bytes] = []
    ended = uml.run(
        ["sh", "-c", "echo $KEY; echo err >&2; exit 3"],
        environment={"KEY": "value"},
        echo=seen.append,
    )
    assert (ended.returncode, ended.output) == (3, "value\nerr\n")
    assert b"".join(seen) == b"value\nerr\n"
    assert 0 < ended.boot_s < ended.wall_s
    assert left_over(directory) == []


def test_a_guest_stays_on_one_processor(directory: Path) -> None:
    """A system call of it would else wake another one, and cost a third more."""
    inside = directory / "guest"
    inside.mkdir()
    guest = guests.Guest(guests.Job(["sleep", "30"], {"PATH": "/usr/bin:/bin"}), inside)
    try:
        processes = [int(name) for name in found(directory) if name.isdigit()]
        assert processes
        assert {len(os.sched_getaffinity(pid)) for pid in processes} == {1}
    finally:
        guest.end()
    assert left_over(directory) == []


def test_the_kernel_has_esp_and_no_file_here_can_be_written(directory: Path) -> None:
    state = "src 192.0.2.1 dst 192.0.2.2 proto esp spi 256 mode transport"
    keys = f"auth-trunc 'hmac(sha1)' 0x{bytes(20).hex()} 96 enc 'cbc(aes)' 0x{bytes(16).hex()}"
    mark = uml.ROOT / "written-by-a-guest"
    command = f"ip xfrm state add {state} {keys} && ! touch {mark} && touch /run/tmp/here"
    ended = uml.run(["sh", "-c", command])
    assert ended.returncode == 0, ended.output
    assert not mark.exists()


def test_a_guest_that_takes_too_long_is_killed(directory: Path) -> None:
    started = time.monotonic()
    with pytest.raises(guests.UmlError, match=r"killed after 5 s; it had written:\nbegun"):
        uml.run(["sh", "-c", "echo begun; sleep 60"], timeout_s=5)
    assert time.monotonic() - started < 15
    assert left_over(directory) == []


def test_a_command_that_is_not_there_is_no_success(directory: Path) -> None:
    ended = uml.run(["no-such-command"])
    assert ended.returncode == 125
    assert "no-such-command" in ended.output


def test_a_killed_runner_leaves_nothing(directory: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.lab.uml", "--", "sh", "-c", "echo begun; sleep 60"],
        cwd=uml.ROOT,
        env=os.environ | {"TMPDIR": str(directory)},
        stdout=subprocess.PIPE,
    ) as runner:
        assert runner.stdout is not None
        assert runner.stdout.readline() == b"begun\n"
        assert found(directory)
        runner.send_signal(signal.SIGKILL)
    assert left_over(directory) == []


def test_what_is_missing_is_named_with_the_line_that_brings_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(guests, "_PROGRAMS", {"no-such-program": "user-mode-linux"})
    assert guests.missing() == "needs user-mode-linux: sudo apt-get install -y user-mode-linux"
    with pytest.raises(guests.UmlError, match="needs user-mode-linux: sudo apt-get install"):
        uml.run(["true"])
