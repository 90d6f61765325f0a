"""Whether a server is taken for ready: by its answer, not by its socket."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from imsbench.lab import readiness
from imsbench.lab.settings import Endpoint, LabError


@contextmanager
def server(answer: bytes) -> Iterator[tuple[Endpoint, list[bytes]]]:
    """Answers each connection's first bytes once."""
    listener = socket.create_server(("127.0.0.1", 0))
    got: list[bytes] = []

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                got.append(connection.recv(4096))
                connection.sendall(answer)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield Endpoint(*listener.getsockname()), got
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5.0)


def test_a_server_that_answers_options_is_ready() -> None:
    with server(b"SIP/2.0 200 OK\r\n\r\n") as (where, got):
        readiness.wait_for("S-CSCF", where, 5.0)
    request = got[0].decode()
    assert request.startswith(f"OPTIONS sip:127.0.0.1:{where.port} SIP/2.0\r\n")
    assert request.endswith("Content-Length: 0\r\n\r\n")


def test_another_answer_or_none_is_not_ready() -> None:
    with server(b"SIP/2.0 500 Server Error\r\n\r\n") as (where, _):
        assert not readiness.answers_options(where)
    with server(b"") as (where, _):
        assert not readiness.answers_options(where)
    assert not readiness.answers_options(where)  # nobody listens any more


def test_who_never_answers_is_named() -> None:
    with server(b"") as (where, _), pytest.raises(LabError, match=r"the P-CSCF at 127\.0\.0\.1"):
        readiness.wait_for("P-CSCF", where, 0.0)


def test_waiting_ends_when_it_is_vain() -> None:
    def check() -> None:
        raise LabError("it has ended")

    with server(b"") as (where, _), pytest.raises(LabError, match="it has ended"):
        readiness.wait_for("P-CSCF", where, 60.0, check)
