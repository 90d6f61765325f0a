"""The null target's loop: epoll, connections, a few timers; no asyncio, nothing that is not needed."""

from __future__ import annotations

import heapq
import select
import socket
import time
from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING

from simulators.core.nullsip import cut

if TYPE_CHECKING:
    from simulators.core.nullphone import NullPhone, NullSas

OnEvent = Callable[[int], object]
OnMessage = Callable[["Connection", bytes, bytes], None]
"""Told the connection, the head of a message and all of it."""

OnSocket = Callable[[socket.socket, str, int], None]
"""Given an accepted socket, its peer's address and port."""

_READ = select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR
_WRITE = select.EPOLLOUT


class Loop:
    """Level-triggered epoll with timers."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._handlers: dict[int, OnEvent] = {}
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self.connections: set[Connection] = set()
        """Open connections."""
        self.stopped = False
        """Set it to end run()."""

    def add_reader(self, fd: int, callback: Callable[[], object]) -> None:
        """As asyncio's (see AddReader)."""
        self.add(fd, lambda _: callback())

    def add(self, fd: int, handler: OnEvent, *, write: bool = False) -> None:
        """Watch a descriptor for reading, and for room to write."""
        self._handlers[fd] = handler
        self._epoll.register(fd, _READ | _WRITE if write else _READ)

    def watch(self, fd: int, *, write: bool) -> None:
        """Change whether room to write is watched for."""
        self._epoll.modify(fd, _READ | _WRITE if write else _READ)

    def discard(self, fd: int) -> None:
        """Stop watching; call it before the descriptor is closed."""
        if self._handlers.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def later(self, delay_s: float, call: Callable[[], None]) -> None:
        """Call once, at the earliest after this many seconds."""
        heapq.heappush(self._timers, (time.monotonic() + delay_s, next(self._numbers), call))

    def run(self) -> None:
        """Serve until stopped."""
        handlers, poll, timers = self._handlers, self._epoll.poll, self._timers
        while not self.stopped:
            timeout_s = max(0.0, timers[0][0] - time.monotonic()) if timers else -1
            for fd, events in poll(timeout_s, 512):
                handler = handlers.get(fd)
                if handler is not None:
                    handler(events)
            while timers and timers[0][0] <= time.monotonic():
                heapq.heappop(timers)[2]()

    def close(self) -> None:
        """Close the connections that are left, and epoll."""
        for connection in list(self.connections):
            connection.close()
        self._epoll.close()


class Connection:
    """One TCP connection; what cannot be framed closes it and is counted."""

    __slots__ = (
        "_buffer", "_counters", "_loop", "_on_message", "_unsent", "connecting", "phone", "sas",
        "sock",
    )  # fmt: skip

    def __init__(
        self,
        loop: Loop,
        sock: socket.socket,
        on_message: OnMessage,
        counters: Counter[str],
        *,
        connecting: bool = False,
    ) -> None:
        self._loop = loop
        self._on_message = on_message
        self._counters = counters
        self._buffer = b""
        self._unsent = b""
        self.sock: socket.socket | None = sock
        """None once it is closed."""
        self.connecting = connecting
        self.phone: NullPhone | None = None
        """Who registered by it."""
        self.sas: NullSas | None = None
        """The SA set that carries it."""
        loop.connections.add(self)
        loop.add(sock.fileno(), self._on_event, write=connecting)

    def _on_event(self, events: int) -> None:
        if events & _WRITE and self.sock is not None:
            self.connecting = False
            self._flush()
        if events & _READ and self.sock is not None:
            self._read(self.sock)

    def _read(self, sock: socket.socket) -> None:
        try:
            data = sock.recv(65_536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            return
        data = self._buffer + data if self._buffer else data
        try:
            while data:
                if data[0] == 13:  # RFC 5626 §3.5.1
                    if not data.startswith(b"\r\n\r\n"):
                        break
                    self.send(b"\r\n")
                    data = data[4:]
                    continue
                head, size = cut(data)
                if not size:
                    break
                self._on_message(self, head, data[:size])
                data = data[size:]
        except (ValueError, KeyError, IndexError) as error:
            self._counters[f"malformed: {type(error).__name__}"] += 1
            self.close()
            return
        self._buffer = data

    def send(self, data: bytes) -> None:
        """Send, or keep what the socket does not take."""
        sock = self.sock
        if sock is None:
            self._counters["sent to closed connections"] += 1
            return
        if self._unsent or self.connecting:
            self._unsent += data
            return
        try:
            sent = sock.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self.close()
            return
        if sent < len(data):
            self._unsent = data[sent:]
            self._loop.watch(sock.fileno(), write=True)

    def _flush(self) -> None:
        data, self._unsent = self._unsent, b""
        assert self.sock is not None
        self._loop.watch(self.sock.fileno(), write=False)
        if data:
            self.send(data)

    def close(self) -> None:
        """Close it; what is unsent is lost and counted."""
        sock, self.sock = self.sock, None
        if sock is None:
            return
        if self.connecting:
            self._counters["connections to phones failed"] += 1
        self._loop.connections.discard(self)
        self._loop.discard(sock.fileno())
        sock.close()


def accept_all(loop: Loop, sock: socket.socket, on_socket: OnSocket) -> None:
    """Serve a listener: every accepted socket with its peer's address and port."""

    def accept(_: int) -> None:
        for _turn in range(64):
            try:
                accepted, peer = sock.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            on_socket(accepted, str(peer[0]), int(peer[1]))

    loop.add(sock.fileno(), accept)


def start_connect(
    address: str, port: int, peer: tuple[str, int], device: str
) -> socket.socket | None:
    """A socket on its way from address:port to a phone; None if it fails at once."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setblocking(False)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        if device:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode() + b"\0")
        sock.bind((address, port))
        sock.connect(peer)
    except BlockingIOError:
        return sock
    except OSError:
        sock.close()
        return None
    return sock
