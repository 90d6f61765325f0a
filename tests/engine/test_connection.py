"""How a connection ended, in words; and how it ends without one."""

from __future__ import annotations

import errno
import os
import resource
import select
import socket
from contextlib import suppress
from typing import Any

import pytest

from imsbench.engine import connection
from imsbench.engine.connection import Connection, accept_all, cause_of, listen
from imsbench.engine.loop import Loop


@pytest.mark.parametrize(
    ("number", "cause"),
    [
        (errno.EPERM, "blocked by policy"),  # a guard of kernel ESP: its SA is not there
        (errno.ECONNREFUSED, "refused"),
        (errno.ECONNRESET, "reset by target"),
        (errno.ENOTCONN, "enotconn"),
    ],
)
def test_causes(number: int, cause: str) -> None:
    assert cause_of(OSError(number, "")) == cause


class Refusing(socket.socket):
    """A socket of a kernel that lets nobody repair it."""

    def setsockopt(self, level: int, *rest: Any) -> None:
        if level == socket.IPPROTO_TCP:
            raise PermissionError(errno.EPERM, "not permitted")
        super().setsockopt(level, *rest)


@pytest.mark.parametrize("refused", [False, True])
def test_what_vanishes_tells_nobody(refused: bool) -> None:
    """Where the kernel refuses, it is a reset, and the caller is told."""
    causes: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        kind = Refusing if refused else socket.socket
        near = kind(socket.AF_INET, socket.SOCK_STREAM)
        near.connect(listener.getsockname())
        near.setblocking(False)
        far, _ = listener.accept()
        with far:
            far.settimeout(0.3)
            loop = Loop()
            connection = Connection(
                loop,
                near,
                "open",
                None,
                lambda _c, _d: None,
                lambda _c, cause: causes.append(cause),
            )
            assert connection.vanish() is not refused
            assert connection.vanish()  # it is gone already
            assert (connection.state, causes, near.fileno()) == ("closed", ["closed here"], -1)
            if refused:
                with pytest.raises(ConnectionResetError):
                    far.recv(1)
            else:
                assert not select.select([far], [], [], 0.2)[0]
                with pytest.raises(TimeoutError):
                    far.recv(1)
            loop.close()


def test_what_is_accepted_sends_at_once() -> None:
    """Nagle's wait for a delayed acknowledgement would be 40 ms of the target's time, and not its fault."""
    with listen(0, 4, "") as listener, socket.socket() as far:
        far.connect(("127.0.0.1", listener.getsockname()[1]))
        ((near, _),) = accept_all(listener)
        with near:
            assert near.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_without_a_descriptor_a_connection_is_closed_and_counted() -> None:
    refused: list[bool] = []
    with listen(0, 4, "") as listener, socket.socket() as far:
        far.settimeout(5.0)
        far.connect(("127.0.0.1", listener.getsockname()[1]))
        held, limits = [], resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(200, limits[1]), limits[1]))
        try:
            with suppress(OSError):
                while True:
                    held.append(os.open(os.devnull, os.O_RDONLY))
            assert accept_all(listener, on_refused=lambda: refused.append(True)) == []
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            for descriptor in held:
                os.close(descriptor)
        assert refused == [True]
        assert far.recv(1) == b""
        assert accept_all(listener) == []


def test_a_spare_descriptor_that_was_lost_is_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process may take what the kernel had left: nobody's descriptor is closed for it."""
    spare = connection._Spare()
    with listen(0, 4, "") as listener:
        listener.setblocking(False)
        with monkeypatch.context() as patch:
            patch.setattr(os, "open", lambda *_: raise_enfile())
            assert not spare.refuse(listener)
            assert not spare.refuse(listener)
        with socket.socket() as far, socket.socket() as other:
            far.connect(("127.0.0.1", listener.getsockname()[1]))
            assert select.select([listener], [], [], 5.0)[0]
            assert spare.refuse(listener)
            assert not spare.refuse(listener)
            assert other.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE) == socket.SOCK_STREAM


def raise_enfile() -> None:
    raise OSError(errno.ENFILE, "Too many open files in system")
