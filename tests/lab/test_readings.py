"""What the reader inside a guest tells: of a /proc of the test's own, and of this machine's."""

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
def proc(tmp_path: Path) -> Path:
    (tmp_path / "net").mkdir()
    (tmp_path / "meminfo").write_text(MEMINFO)
    (tmp_path / "net/sockstat").write_text(SOCKSTAT)
    return tmp_path


def test_a_kernels_memory_is_what_it_holds_for_itself_and_its_sockets(proc: Path) -> None:
    pages = 5 * os.sysconf("SC_PAGE_SIZE")
    assert readings.kernel_bytes(proc) == 1234 * 1024 + pages


def test_a_reading_is_one_line_that_a_run_understands() -> None:
    name = "read-by-this-test"
    with (
        subprocess.Popen([name, "60"], executable="/bin/sleep") as core,
        subprocess.Popen(
            [sys.executable, "-m", "imsbench.lab.readings", name], stdout=subprocess.PIPE
        ) as reader,
    ):
        assert reader.stdout is not None
        line = reader.stdout.readline()
        reader.kill()
        core.kill()
    guest = sut.Guest.from_message(json.loads(line))
    assert len(guest.tree) == 1
    assert guest.tree[0].pid > 1 << 32
    assert guest.memory_bytes > 0
    assert guest.kernel_bytes > 1 << 20
    assert guest.busy_s > 0
