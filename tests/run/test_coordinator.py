"""The coordinator with stand-ins for its children: real processes and namespaces, no SIP."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from imsbench.run.find import running

pytestmark = pytest.mark.net

PROFILE = """
name: test
subscribers: {count: 20}
generator: {workers: 2, arrivals: constant}
phases:
  - fill: {rate: 100, to: 20}
  - cycle: {rate: [50, 100]}
"""


ABORTING = (
    PROFILE
    + """thresholds:
  - {that: initial_registration_success_rate >= 90%, abort: true}
"""
)


@contextmanager
def coordinator(profile: str = PROFILE, **behaviours: str) -> Iterator[subprocess.Popen[str]]:
    environment = os.environ | {f"FAKE_{name.upper()}": text for name, text in behaviours.items()}
    with subprocess.Popen(
        [sys.executable, "-m", "tests.run.drive", profile],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=Path(__file__).parents[2],
    ) as process:
        yield process


def drive(profile: str = PROFILE, **behaviours: str) -> dict[str, Any]:
    with coordinator(profile, **behaviours) as process:
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert children_of(process.pid) == []
    result: dict[str, Any] = json.loads(out)
    return result


def children_of(pid: int) -> list[str]:
    """Names of fakes whose coordinator is, or was, this process."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            arguments = (entry / "cmdline").read_bytes().split(b"\0")
            parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
        except OSError:
            continue
        if b"tests.run.fakes" in arguments and int(parent) in (pid, 1):
            found.append(entry.name)
    return found


def test_a_run_goes_through_all_its_steps_and_merges_its_workers() -> None:
    told = drive()
    assert (told["status"], told["exit_code"]) == ("complete", 0)
    assert [step["attempted"] for step in told["steps"]] == [20, 20, 20]
    assert [step["before"] for step in told["steps"]] == [0, 20, 20]
    assert all(step["after"] == 20 and step["complete"] for step in told["steps"])
    assert all(step["counters"] == {"connections": 4} for step in told["steps"])
    assert all(step["repairs"] == [] for step in told["steps"])
    answered = {"UAR": {"count": 3}}
    assert all(step["simulated"] == {"hss": answered, "pcrf": answered} for step in told["steps"])
    assert told["workers"] == ["worker-0", "worker-1"]
    assert told["simulators"] == ["core", "hss", "pcrf"]
    assert told["events"].count("StepStarted") == told["events"].count("StepEnded") == 3


def test_lost_phones_are_repaired_outside_the_statistics() -> None:
    told = drive(worker_1="lossy")
    first, second, third = told["steps"]
    assert (first["after"], first["failures"]) == (15, 1)
    assert second["repairs"] == [[15, 20]]
    assert (second["before"], second["attempted"]) == (20, 20)
    assert third["repairs"] == []


@pytest.mark.parametrize(
    ("behaviour", "rounds"),
    [
        ("losing 8", [[12, 14], [14, 16], [16, 18]]),
        ("losing 3", [[17, 19], [19, 20]]),
    ],
)
def test_a_repair_is_tried_again_as_long_as_it_gains(behaviour: str, rounds: list[Any]) -> None:
    told = drive(worker_1=behaviour)
    second, third = told["steps"][1:]
    assert second["repairs"] == rounds
    assert second["before"] == rounds[-1][1]
    assert (told["status"], third["before"]) == ("complete", 20)


def test_a_repair_that_gains_nobody_is_the_last() -> None:
    told = drive(worker_1="gone")
    assert [step["repairs"] for step in told["steps"]] == [[], [[10, 10]], [[10, 10]]]
    assert [step["before"] for step in told["steps"]] == [0, 10, 10]


def test_stalls_of_a_simulator_are_kept_with_the_steps_they_touched() -> None:
    told = drive(hss="stalling")
    assert told["stalls"] == [[0.25, 0.25, 0.25], [0.0, 0.0, 0.0]]
    assert told["longest_stall"] == 0.5  # out of its last word, and of no step


def test_a_child_that_the_host_refuses_ends_the_run_before_it_starts() -> None:
    told = drive(worker_0="refuse")
    assert told == {"refused": "worker-0 gave up: there is no /dev/net/tun", "exit_code": 5}


def test_a_dead_core_ends_the_run_with_what_it_has() -> None:
    told = drive(core="die", worker_0="slow", worker_1="slow")
    assert (told["status"], told["exit_code"]) == ("target_died", 4)
    assert told["reason"] == "the target died: core was ended by SIGKILL"
    assert [step["complete"] for step in told["steps"]] == [False]
    assert told["steps"][0]["attempted"] == 20
    assert told["workers"] == ["worker-0", "worker-1"]
    assert told["simulators"] == ["hss", "pcrf"]


def test_a_dead_worker_ends_the_run_by_name() -> None:
    told = drive(worker_1="die", worker_0="slow")
    assert (told["status"], told["exit_code"]) == ("generator_failed", 3)
    assert told["reason"] == "worker-1 was ended by SIGKILL"
    assert told["steps"][0]["attempted"] == 10  # the other one's


def test_a_target_that_was_never_there_ends_the_run() -> None:
    told = drive(worker_0="absent", worker_1="absent")
    assert (told["status"], told["exit_code"]) == ("interrupted", 1)
    assert told["reason"].startswith(
        "the target was never there: the first 40 registrations all failed at stage “connect” "
        "(refused): nothing listens for SIP over TCP at 198.19.0.10:5060"
    )
    assert [step["complete"] for step in told["steps"]] == [False]
    assert told["steps"][0]["attempted"] == 20


def test_a_broken_threshold_with_abort_ends_the_run_in_order() -> None:
    told = drive(ABORTING, worker_0="breaking", worker_1="breaking")
    assert (told["status"], told["exit_code"]) == ("aborted", 1)
    assert told["reason"].startswith(
        "the threshold “initial_registration_success_rate >= 90%” was broken after "
    )
    assert [step["complete"] for step in told["steps"]] == [False]
    assert told["workers"] == ["worker-0", "worker-1"]
    assert told["simulators"] == ["core", "hss", "pcrf"]


def test_one_registration_and_the_target_is_there() -> None:
    assert drive(worker_0="absent")["status"] == "complete"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run_with_what_it_has(number: signal.Signals) -> None:
    with coordinator(worker_0="slow", worker_1="slow") as process:
        assert process.stderr is not None
        process.stderr.readline()  # the first step has started
        process.send_signal(number)
        out, _ = process.communicate(timeout=30)
    told = json.loads(out)
    assert (told["status"], told["exit_code"]) == ("interrupted", 130)
    assert told["steps"][0]["attempted"] == 20
    assert not told["steps"][0]["complete"]
    assert children_of(process.pid) == []


def test_nothing_of_a_run_is_visible_on_the_host() -> None:
    before = sorted(os.listdir("/sys/class/net"))
    with coordinator(worker_0="slow", worker_1="slow") as process:
        assert process.stderr is not None
        process.stderr.readline()
        assert sorted(os.listdir("/sys/class/net")) == before
        process.kill()
    deadline = time.monotonic() + 5.0
    while children_of(process.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert children_of(process.pid) == []
    assert sorted(os.listdir("/sys/class/net")) == before
    assert isinstance(running(), list)
