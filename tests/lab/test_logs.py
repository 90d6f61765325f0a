"""Logs of servers: their end is told, and they do not grow without end."""

from __future__ import annotations

from pathlib import Path

from imsbench.lab.logs import LogFile


def test_a_log_is_there_from_the_beginning(tmp_path: Path) -> None:
    log = LogFile(tmp_path, "pcscf")
    assert log.path.name == "pcscf.log"
    assert log.tail() == ""
    log.trim()
    log.append(b"one\ntwo\n")
    log.append(b"three\xff\n")
    assert log.tail() == "one\ntwo\nthree\ufffd\n"
    assert log.tail(5) == "ree\ufffd\n"


def test_a_long_log_is_cut_to_its_end(tmp_path: Path) -> None:
    log = LogFile(tmp_path, "pcscf")
    log.append(b"x" * (8 << 20))
    log.trim()
    assert log.path.stat().st_size == 8 << 20
    log.append(b"the end\n")
    log.trim()
    assert log.path.stat().st_size == 1 << 20
    assert log.tail(9) == "xthe end\n"
