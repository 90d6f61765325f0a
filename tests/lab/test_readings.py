"""What the reader inside a guest tells: of a control group and a /proc of the test's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from imsbench.lab import readings
from imsbench.run import sut

MEMINFO = """MemTotal:        2000000 kB
Slab:               1000 kB
KernelStack:         200 kB
PageTables:           30 kB
Percpu:                4 kB
"""
SOCKSTAT = """sockets: used 44
TCP: inuse 9 orphan 0 tw 0 alloc 12 mem 3
UDP: inuse 2 mem 2
RAW: inuse 1
FRAG: inuse 0 memory 0
"""


@pytest.fixture
def cgroup(tmp_path: Path) -> Path:
    """A control group of three processes."""
    (tmp_path / "cpu.stat").write_text(
        "usage_usec 2500000\nuser_usec 2000000\nsystem_usec 500000\n"
    )
    (tmp_path / "memory.stat").write_text("anon 4096\nfile 9999\nshmem 8192\nfile_mapped 12288\n")
    (tmp_path / "cgroup.procs").write_text("7\n8\n12\n")
    return tmp_path


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """A kernel's own files."""
    folder = tmp_path / "proc"
    (folder / "net").mkdir(parents=True)
    (folder / "stat").write_text(
        "cpu  300 0 100 900 0 0 50 0 0 0\ncpu0 300 0 100 900 0 0 50 0 0 0\n"
    )
    (folder / "meminfo").write_text(MEMINFO)
    (folder / "net/sockstat").write_text(SOCKSTAT)
    return folder


def test_a_kernels_memory_is_what_it_holds_for_itself_and_its_sockets() -> None:
    pages = 5 * os.sysconf("SC_PAGE_SIZE")
    assert readings.kernel_bytes(MEMINFO, SOCKSTAT) == 1234 * 1024 + pages


def test_a_reading_is_of_now_and_a_run_understands_it(cgroup: Path, proc: Path) -> None:
    read = readings.Readings(cgroup, proc)
    first = sut.Guest.from_message(read.read())
    (cgroup / "cpu.stat").write_text("usage_usec 3500000\nuser_usec 2000000\n")
    second = sut.Guest.from_message(read.read())
    assert (first.cpu_s, second.cpu_s) == (2.5, 3.5)
    assert first.busy_s == pytest.approx(450 / os.sysconf("SC_CLK_TCK"))
    assert (first.processes, first.memory_bytes) == (3, 4096 + 12288)
    assert first.kernel_bytes == readings.kernel_bytes(MEMINFO, SOCKSTAT)
    assert second.at > first.at


def test_a_group_that_is_not_there_ends_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        readings.Readings(tmp_path)


def test_a_line_is_told_at_once(cgroup: Path) -> None:
    command = [sys.executable, "-m", "imsbench.lab.readings", str(cgroup)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as reader:
        assert reader.stdout is not None
        guest = sut.Guest.from_message(json.loads(reader.stdout.readline()))
        reader.kill()
    assert guest.cpu_s == 2.5
    assert guest.kernel_bytes > 1 << 20  # this machine's
