"""CPU and memory of a target: real processes, and a /proc of the test's own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from imsbench.host.counters import read_cpu
from imsbench.profile import parse_profile
from imsbench.run import processes, sut
from imsbench.run.processes import Process

BUSY = "import time\nend = time.monotonic() + 60\nwhile time.monotonic() < end: pass"
PARENT = (
    "import subprocess, sys\n"
    "child = subprocess.Popen([sys.executable, '-c', sys.argv[1]])\n"
    "print(child.pid, flush=True)\n"
    "child.wait()\n"
)
BLOCK = (
    "import sys\nheld = bytearray(b'x' * (64 << 20))\nprint('held', flush=True)\nsys.stdin.read()"
)


@pytest.fixture
def busy_parent() -> Iterator[tuple[int, int]]:
    """A process that waits for a child which turns without end: (its id, its child's)."""
    command = [sys.executable, "-c", PARENT, BUSY]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        yield process.pid, child
        os.kill(child, 9)
        process.wait()


def used(target: sut.Target, seconds: float, *, with_cpu: bool = True) -> sut.Json:
    """What it uses in the next seconds."""
    now = time.monotonic()
    usage = sut.Usage(target, now, now + seconds, with_cpu=with_cpu)
    while time.monotonic() < now + seconds:
        usage.look(time.monotonic())
        time.sleep(0.1)
    usage.look(time.monotonic())
    return usage.close()


def test_the_whole_tree_of_a_process_is_counted(busy_parent: tuple[int, int]) -> None:
    parent, child = busy_parent
    target = sut.Target(lambda: [parent])
    began_s = processes.read_processes()[child].cpu_s
    told = used(target, 1.5)
    # As much as the machine gave it: the parent only waits.
    most_s = processes.read_processes()[child].cpu_s - began_s
    assert 0.01 < told["cpu_cores"] <= most_s / 1.5 + 0.05
    assert told["host_cpu_cores"] >= told["cpu_cores"] * 0.8
    assert 0.0 < told["busiest_cpu_cores"] <= told["cpu_cores"]
    assert told["processes"] == 2
    assert told["memory_kind"] == "pss"
    assert 1 << 20 < told["memory_rss_bytes"] < 200 << 20
    assert told["note"] == ""


def test_one_process_is_measured_by_its_resident_set() -> None:
    command = [sys.executable, "-c", BLOCK]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        told = used(sut.Target(lambda: [process.pid]), 0.3, with_cpu=False)
        process.stdin.close()
    assert (told["memory_kind"], told["processes"]) == ("rss", 1)
    assert 64 << 20 < told["memory_rss_bytes"] < 120 << 20
    assert told["cpu_cores"] is None
    assert told["note"] == ""


def test_a_step_that_is_too_short_says_so() -> None:
    told = used(sut.Target(lambda: [os.getpid()]), 0.2)
    assert told["cpu_cores"] is None
    assert "too short" in told["note"]
    assert told["memory_rss_bytes"] > 0


def test_a_target_that_is_not_here_has_nulls_and_the_reason() -> None:
    profile = parse_profile(
        "name: x\nsubscribers: {count: 2}\nphases: [{fill: {rate: 1, to: 2}}]\n"
        "target: {kind: external, pcscf: '192.0.2.1:5060'}\n"
    )
    target = sut.target_of(profile, lambda: [os.getpid()])
    told = used(target, 0.2)
    assert (told["cpu_cores"], told["memory_rss_bytes"]) == (None, None)
    assert "target.pid_files" in told["note"]
    assert target.memory() is None


def test_an_external_target_is_found_by_file_and_by_command(tmp_path: Path) -> None:
    pid_file = tmp_path / "core.pid"
    pid_file.write_text(f"{os.getpid()}\n")
    profile = parse_profile(
        "name: x\nsubscribers: {count: 2}\nphases: [{fill: {rate: 1, to: 2}}]\n"
        f"target: {{kind: external, pcscf: '192.0.2.1:5060', pid_files: ['{pid_file}']}}\n"
    )
    memory = sut.target_of(profile, lambda: [0]).memory()
    assert memory is not None
    mark = f"sleep-of-test-{os.getpid()}"
    code = "import sys; print('there', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code, mark], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        assert processes.named((), (mark,)) == {other.pid}
        assert processes.named((str(pid_file), "/nowhere"), ()) == {os.getpid()}
        other.communicate()


def write_process(proc: Path, pid: int, parent: int, ticks: int, name: str = "x") -> None:
    """A process in a /proc of the test's own."""
    folder = proc / str(pid)
    folder.mkdir(parents=True, exist_ok=True)
    fields = ["S", str(parent), *["0"] * 9, str(ticks), "0", "0", "0", *["0"] * 4, "77", "0"]
    (folder / "stat").write_text(f"{pid} ({name}) {' '.join(fields)}\n")
    (folder / "statm").write_text("100 10 1 1 0 1 0\n")
    (folder / "smaps_rollup").write_text("Rss:  40 kB\nPss:  30 kB\nPss_Dirty:  1 kB\n")


def write_host(proc: Path, columns: str) -> None:
    """The machine's CPU times."""
    (proc / "stat").write_text(f"cpu  {columns}\ncpu0 {columns}\n")


def test_a_name_may_hold_anything(tmp_path: Path) -> None:
    write_process(tmp_path, 7, 1, 250, name="a) S 99 (b")
    (process,) = processes.read_processes(tmp_path).values()
    hertz = os.sysconf("SC_CLK_TCK")
    assert process == Process(pid=7, parent=1, started=77, cpu_s=250 / hertz)


def test_the_host_is_busy_with_everything_but_idling(tmp_path: Path) -> None:
    #           user nice system idle iowait irq softirq steal guest guest_nice
    write_host(tmp_path, "100 10 50 9999 8888 5 20 15 40 0")
    assert read_cpu(tmp_path).busy_s * os.sysconf("SC_CLK_TCK") == pytest.approx(200)


def test_cpu_and_memory_of_a_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hertz = os.sysconf("SC_CLK_TCK")
    for pid, parent in ((10, 1), (11, 10), (12, 10), (20, 1)):
        write_process(tmp_path, pid, parent, 100)
    write_host(tmp_path, "0 0 0 0 0 0 0 0 0 0")
    now = 1000.0
    monkeypatch.setattr("imsbench.run.sut.time.monotonic", lambda: now)
    target = sut.Target(lambda: [10], proc=tmp_path)
    usage = sut.Usage(target, 1000.0, 1040.0)
    usage.look(now)
    # 12 ends, and 10 has waited for it; 11 works for 20 s; the machine works for 30 s
    for name in ("stat", "statm", "smaps_rollup"):
        (tmp_path / "12" / name).unlink()
    (tmp_path / "12").rmdir()
    write_process(tmp_path, 10, 1, 100 + 150)
    write_process(tmp_path, 11, 10, 100 + 20 * hertz)
    write_host(tmp_path, f"{30 * hertz} 0 0 99999 0 0 0 0 0 0")
    for now in (1009.0, 1010.5, 1011.0, 1012.0, 1040.0):
        usage.look(now)
    told = usage.close()
    assert told["cpu_cores"] == pytest.approx((20 + 50 / hertz) / 40)
    assert told["host_cpu_cores"] == pytest.approx(30 / 40)
    assert (told["memory_kind"], told["memory_rss_bytes"]) == ("pss", 2 * 30 * 1024)
    assert told["processes"] == 2
    assert told["note"] == ""


def test_cpu_of_the_two_halves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hertz = os.sysconf("SC_CLK_TCK")
    now = 0.0
    monkeypatch.setattr("imsbench.run.sut.time.monotonic", lambda: now)
    write_host(tmp_path, "0 0 0 0 0 0 0 0 0 0")
    usage = sut.Usage(sut.Target(lambda: [10], proc=tmp_path), 0.0, 20.0)
    for now, used_s in ((0.0, 0), (5.0, 4), (10.0, 5), (20.0, 25)):
        write_process(tmp_path, 10, 1, used_s * hertz)
        usage.look(now)
    told = usage.close()
    assert told["cpu_cores"] == pytest.approx(25 / 20)
    assert told["cpu_halves"] == pytest.approx((5 / 10, 20 / 10))


def test_what_ended_with_nobody_waiting_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("imsbench.run.sut.time.monotonic", lambda: now)
    write_host(tmp_path, "0 0 0 0 0 0 0 0 0 0")
    write_process(tmp_path, 10, 1, 0)
    write_process(tmp_path, 20, 1, 5000)
    target = sut.Target(lambda: [10, 20], proc=tmp_path)
    usage = sut.Usage(target, 0.0, 10.0)
    usage.look(now)
    (tmp_path / "20" / "stat").unlink()
    now = 10.0
    usage.look(now)
    told = usage.close()
    assert told["cpu_cores"] == 0.0
    assert "1 of its processes ended" in told["note"]
    assert (told["memory_kind"], told["processes"]) == ("rss", 1)


def test_a_target_that_is_gone_says_so(tmp_path: Path) -> None:
    write_host(tmp_path, "0 0 0 0 0 0 0 0 0 0")
    told = used(sut.Target(lambda: [10], proc=tmp_path), 1.2)
    assert (told["cpu_cores"], told["memory_rss_bytes"]) == (None, None)
    assert "none of its processes is there" in told["note"]
    assert "memory" in told["note"]


def told_at(at: float, cpu_s: float, *, kernel_bytes: int = 3 << 20) -> sut.Guest:
    """A guest with seven processes, as its lab tells."""
    values = {
        "at": at,
        "cpu_s": cpu_s,
        "busy_s": 1.5 * cpu_s,
        "processes": 7,
        "memory_bytes": 5 << 20,
        "kernel_bytes": kernel_bytes,
    }
    return sut.Guest.from_message(values)


def test_a_guest_is_added_by_its_own_clock() -> None:
    target = sut.Target(lambda: ())
    target.told(told_at(50.0, 1.0))
    usage = sut.Usage(target, 0.0, 10.0)
    usage.look(0.0)
    target.told(told_at(54.0, 3.0, kernel_bytes=4 << 20))
    usage.look(10.0)
    told = usage.close()
    assert told["cpu_cores"] == pytest.approx(0.5)
    assert told["host_cpu_cores"] == pytest.approx(0.75)
    assert (told["memory_kind"], told["memory_rss_bytes"]) == ("pss", 5 << 20)
    assert (told["processes"], told["kernel_memory_bytes"]) == (7, 4 << 20)
    assert told["note"] == ""


def test_a_guest_and_what_is_beside_it_are_one_target(busy_parent: tuple[int, int]) -> None:
    parent, _ = busy_parent
    target = sut.Target(lambda: [parent])
    target.told(told_at(50.0, 1.0))
    memory = target.memory()
    assert memory is not None
    assert memory.processes == 2 + 7
    assert memory.size > 5 << 20
    assert {one.pid for one in target.read().tree} > {parent}


def test_a_target_on_this_machines_kernel_has_no_kernel_of_its_own() -> None:
    assert (
        used(sut.Target(lambda: [os.getpid()]), 0.0, with_cpu=False)["kernel_memory_bytes"] is None
    )
