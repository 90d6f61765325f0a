"""SIP over UDP on asyncio: the one module that knows asyncio-dgram, which has no types.

asyncio-dgram gives datagram sockets as streams to await; here one task reads each and one writes what
was queued, so that the callers, which are callbacks, need not wait.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import Callable
from typing import Any

import asyncio_dgram

MOST_UNSENT = 10_000
"""Datagrams that wait to be sent from one socket; more are dropped, as a kernel would."""
_BUFFER_BYTES = 4 << 20
_LOG = logging.getLogger(__name__)

OnDatagram = Callable[[bytes, str, int], None]
"""(data, address and port it came from)"""


class Datagrams:
    """One UDP socket of the core, for many phones."""

    def __init__(
        self, sock: socket.socket, on_datagram: OnDatagram, counters: Counter[str]
    ) -> None:
        self._sock = sock
        self._on_datagram = on_datagram
        self._counters = counters
        self._queue: asyncio.Queue[tuple[bytes, tuple[str, int]]] = asyncio.Queue(MOST_UNSENT)
        self._stream: Any = None
        self._tasks = [self._start(self._serve())]

    def send(self, data: bytes, address: str, port: int) -> None:
        """Send one datagram as soon as the kernel takes it."""
        try:
            self._queue.put_nowait((data, (address, port)))
        except asyncio.QueueFull:
            self._counters["datagrams dropped: queue full"] += 1

    def close(self) -> None:
        """Stop reading and writing."""
        for task in self._tasks:
            task.cancel()
        if self._stream is None:
            self._sock.close()
        else:
            self._stream.close()

    # private

    def _start(self, coroutine: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(coroutine)
        task.add_done_callback(_tell_defect)
        return task

    async def _serve(self) -> None:
        self._stream = await asyncio_dgram.from_socket(self._sock)
        self._tasks.append(self._start(self._read()))
        while True:
            data, peer = await self._queue.get()
            while not await self._sent(data, peer):
                pass

    async def _sent(self, data: bytes, peer: tuple[str, int]) -> bool:
        """Whether it went; no: an error of an earlier one came up instead."""
        try:
            await self._stream.send(data, peer)
        except OSError as error:
            self._count(error)
            return False
        return True

    async def _read(self) -> None:
        while True:
            try:
                data, peer = await self._stream.recv()
            except asyncio_dgram.TransportClosed:
                return
            except OSError as error:
                self._count(error)
                continue
            self._on_datagram(data, str(peer[0]), int(peer[1]))

    def _count(self, error: OSError) -> None:
        self._counters[f"datagrams not sent: {(error.strerror or 'error').lower()}"] += 1


def _tell_defect(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        _LOG.error("UDP has ended", exc_info=task.exception())


def datagram_socket(address: str, port: int, *, device: str = "") -> socket.socket:
    """A UDP socket on this address and port, on this device; OSError names what the host refuses."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_DGRAM)
    try:
        sock.setblocking(False)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        if device:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode() + b"\0")
        # All phones share it, so that a burst of theirs is one of its own.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
        sock.bind((address, port))
    except OSError as error:
        sock.close()
        text = f"UDP on {address} port {port}: {error.strerror}"
        raise OSError(error.errno, text) from error
    return sock
