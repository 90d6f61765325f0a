"""The file that nobody waits for: its order, its bounds, its disk that refuses."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from imsbench.host import filewriter
from imsbench.host.filewriter import FileWriter


def test_all_is_written_in_order(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    writer = FileWriter(path, queue_bytes=1000, file_bytes=1000)
    for number in range(10):
        assert writer.put(b"%d," % number)
    writer.close()
    assert path.read_bytes() == b"0,1,2,3,4,5,6,7,8,9,"
    assert not writer.problem


def test_a_full_file_takes_no_more(tmp_path: Path) -> None:
    path = tmp_path / "file"
    writer = FileWriter(path, queue_bytes=1000, file_bytes=8)
    assert [writer.put(b"12345"), writer.put(b"67890"), writer.put(b"678")] == [True, False, True]
    writer.close()
    assert path.read_bytes() == b"12345678"


def test_a_slow_disk_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()

    def slow(descriptor: int, data: memoryview) -> int:
        gate.wait(10)
        return os.write(descriptor, data)

    monkeypatch.setattr(filewriter, "os", _Os(slow))
    writer = FileWriter(tmp_path / "file", queue_bytes=10, file_bytes=1000)
    start = time.monotonic()
    assert [writer.put(b"12345") for _ in range(4)] == [True, True, False, False]
    assert time.monotonic() - start < 5
    gate.set()
    writer.close()
    assert (tmp_path / "file").read_bytes() == b"1234512345"


class _Os:
    """The module os, with another write."""

    O_WRONLY, O_CREAT, O_TRUNC = os.O_WRONLY, os.O_CREAT, os.O_TRUNC

    def __init__(self, write: object) -> None:
        self.write = write
        self.open = os.open
        self.close = os.close


def test_a_disk_that_refuses_is_told_of_once_and_asked_no_more() -> None:
    writer = FileWriter(Path("/dev/full"), queue_bytes=1000, file_bytes=1000)
    writer.put(b"data")
    deadline = time.monotonic() + 5
    while not writer.problem and time.monotonic() < deadline:
        time.sleep(0.01)
    assert writer.problem == "No space left on device"
    assert not writer.put(b"more")
    writer.close()


def test_no_file_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        FileWriter(tmp_path / "missing" / "file", queue_bytes=1, file_bytes=1)
