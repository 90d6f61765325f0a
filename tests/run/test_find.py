"""Children of runs in progress are found by their command line and their name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from imsbench.run.find import Running, enter_command, matching, running


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    def process(pid: int, cmdline: list[str], environment: dict[str, str], parent: int) -> None:
        folder = tmp_path / str(pid)
        (folder / "ns").mkdir(parents=True)
        (folder / "cmdline").write_bytes(b"".join(part.encode() + b"\0" for part in cmdline))
        pairs = [f"{key}={value}".encode() for key, value in environment.items()]
        (folder / "environ").write_bytes(b"\0".join(pairs))
        (folder / "status").write_text(f"Name:\tpython3\nPid:\t{pid}\nPPid:\t{parent}\nUid:\t0\n")
        user = os.readlink("/proc/self/ns/user") if parent != 30 else "user:[1]"
        os.symlink(user, folder / "ns/user")

    python = ["/usr/bin/python3", "-P", "-m"]
    process(11, [*python, "imsbench.run.worker"], {"IMSBENCH_NAME": "worker-0"}, 10)
    process(12, [*python, "imsbench.run.worker"], {"A": "=b", "IMSBENCH_NAME": "worker-1"}, 10)
    process(13, [*python, "simulators.core"], {"IMSBENCH_NAME": "core"}, 10)
    process(14, [*python, "simulators.hss"], {}, 10)  # started by hand
    process(15, ["vim", "imsbench.run.worker"], {"IMSBENCH_NAME": "worker-7"}, 1)
    process(31, [*python, "simulators.core"], {"IMSBENCH_NAME": "core"}, 30)
    (tmp_path / "16").mkdir()  # ended in between
    (tmp_path / "self").mkdir()
    return tmp_path


def test_children_of_all_runs_are_found(proc: Path) -> None:
    assert running(proc) == [
        Running("core", 13, 10, False),
        Running("core", 31, 30, True),
        Running("worker-0", 11, 10, False),
        Running("worker-1", 12, 10, False),
    ]


@pytest.mark.parametrize(
    ("name", "pids"),
    [
        ("worker-0", [11]),
        ("1", [12]),
        ("core", [13, 31]),
        ("31", [31]),
        ("10", [11]),
        ("worker-9", []),
        ("x", []),
    ],
)
def test_a_name_a_number_or_a_pid_is_enough(proc: Path, name: str, pids: list[int]) -> None:
    assert [child.pid for child in matching(running(proc), name)] == pids


def test_a_run_without_root_is_entered_through_its_user_namespace() -> None:
    ours, rootless = Running("core", 13, 10, False), Running("core", 31, 30, True)
    assert enter_command(ours, ["sh"]) == ["nsenter", "--target=13", "--net", "--", "sh"]
    assert "--user" in enter_command(rootless, ["sh"])


def test_this_machine_is_searched_without_complaint() -> None:
    assert isinstance(running(), list)
