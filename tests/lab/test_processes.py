"""The last words of a server, and its log kept short."""

from __future__ import annotations

from pathlib import Path

import pytest

from imsbench.lab import packages
from imsbench.lab.processes import Server, last_words
from tests.lab.test_configs import LAB

CRASHED = """\
 8(20) CRITICAL: <core> [core/tcp_main.c:4246]: send2child(): tcp child 1: queue full
 7(19) ERROR: tm [t_lookup.c:1]: t_check_msg(): something
 0(1) ALERT: <core> [main.c:776]: handle_sigs(): child process 12 exited by a signal 11
 0(1) ALERT: <core> [main.c:779]: handle_sigs(): core was not generated
 9(21) CRITICAL: <core> [core/pass_fd.c:277]: receive_fd(): EOF on 14
"""


def test_the_cause_is_the_first_grave_line_not_the_echo_of_the_others() -> None:
    assert last_words(CRASHED) == (
        "0(1) ALERT: <core> [main.c:776]: handle_sigs(): child process 12 exited by a signal 11"
    )


def test_without_a_grave_line_it_is_the_last() -> None:
    assert last_words("one\n\n 0(1) ERROR: bind: Address already in use\n\n") == (
        "0(1) ERROR: bind: Address already in use"
    )
    assert last_words("") == ""


def test_kamailio_is_started_from_where_it_was_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder, name, text in (("bin", "unshare", 'echo "$@"'), ("sbin", "kamailio", "")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(packages, "_SBIN", str(tmp_path / "sbin"))
    server = Server("scscf", LAB, tmp_path)
    server.end(5.0)
    assert f" {tmp_path}/sbin/kamailio -DD " in server.log.tail()
