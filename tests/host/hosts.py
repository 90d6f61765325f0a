"""Hosts for tests: child processes, each in a network namespace of its own, that do as they are told.

``Host.do(function, …)`` runs a function of a test module in the child's main thread; the ESP backend
of the child runs in an epoll thread beside it, so that blocking sockets may wait for it.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import select
import socket
import struct
import threading
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from imsbench.host import links, namespace
from imsbench.host.backend import SaBackend
from imsbench.host.choose import choose_backend

_CONTEXT = multiprocessing.get_context("forkserver")
# Children begin with everything imported, which takes seconds inside user-mode Linux.
_CONTEXT.set_forkserver_preload(["pytest", "tests.host.pairs"])
ETH_P_ALL = 3


@dataclass
class State:
    """What a child holds between two calls."""

    sockets: dict[str, socket.socket] = field(default_factory=dict)
    backend: SaBackend | None = None
    readers: dict[int, Callable[[], object]] = field(default_factory=dict)
    frames: list[bytes] = field(default_factory=list)

    @property
    def esp(self) -> SaBackend:
        assert self.backend is not None
        return self.backend


STATE = State()


class Host:
    """A child in its own network namespace."""

    def __init__(self) -> None:
        ours, theirs = _CONTEXT.Pipe()
        self._pipe = ours
        self._process = _CONTEXT.Process(target=_serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()
        assert self._pipe.recv() == "ready"

    @property
    def pid(self) -> int:
        pid = self._process.pid
        assert pid is not None
        return pid

    def do(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """The function's result; AssertionError with the child's traceback if it raised."""
        self._pipe.send((function, args, kwargs))
        if not self._pipe.poll(20):
            raise AssertionError(f"{function} does not return")
        good, value = self._pipe.recv()
        assert good, value
        return value

    def close(self) -> None:
        self._pipe.close()
        self._process.join(5)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._process.close()


def _serve(pipe: Connection) -> None:
    namespace.enter_new_network_namespace()
    pipe.send("ready")
    with contextlib.suppress(EOFError):
        while True:
            function, args, kwargs = pipe.recv()
            try:
                answer = True, function(*args, **kwargs)
            except BaseException:
                answer = False, traceback.format_exc()
            pipe.send(answer)


def join(near: Host, near_name: str, far: Host, far_name: str) -> None:
    """A veth link between two hosts."""
    near.do(links.create_veth, near_name, far_name)
    near.do(links.move_link, far_name, far.pid)


def start_backend(
    side: Any, ip_version: int, protected_ports: Any = (), mode: str = "userspace"
) -> str:
    """The child's ESP, carried by a thread; the device that protected sockets are bound to."""
    poll = select.epoll()
    backend = choose_backend(mode, side, ip_version, protected_ports)
    STATE.backend = backend

    def add_reader(descriptor: int, callback: Callable[[], object]) -> None:
        STATE.readers[descriptor] = callback
        poll.register(descriptor, select.EPOLLIN)

    def carry() -> None:
        while True:
            for descriptor, _ in poll.poll():
                STATE.readers[descriptor]()

    backend.attach(add_reader)
    threading.Thread(target=carry, daemon=True).start()
    return backend.device


def start_sniffer(link: str) -> None:
    """Keep every frame of a link."""
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_ALL))
    sock.bind((link, ETH_P_ALL))

    def listen() -> None:
        with contextlib.suppress(OSError):  # the link goes with its other end
            while True:
                STATE.frames.append(sock.recv(65535))

    threading.Thread(target=listen, daemon=True).start()


def take_frames() -> list[bytes]:
    """The IP packets of the link since the last call."""
    frames = STATE.frames[:]
    del STATE.frames[: len(frames)]
    return frames


def open_socket(version: int, device: str, address: str, port: int) -> socket.socket:
    """A TCP socket bound to a device, an address that AnyIP may give, and a port."""
    sock = socket.socket(socket.AF_INET6 if version == 6 else socket.AF_INET)
    sock.settimeout(3)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if device:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode())
    if version == 6:
        sock.setsockopt(socket.IPPROTO_IPV6, links.IPV6_FREEBIND, 1)
    sock.bind((address, port))
    return sock


def listen(name: str, version: int, device: str, address: str, port: int) -> None:
    sock = open_socket(version, device, address, port)
    sock.listen()
    STATE.sockets[name] = sock


def connect(
    name: str, version: int, device: str, source: tuple[str, int], to: tuple[str, int]
) -> str:
    """ "connected", or the name of the error."""
    sock = open_socket(version, device, *source)
    try:
        sock.connect(to)
    except OSError as error:
        sock.close()
        return type(error).__name__
    STATE.sockets[name] = sock
    return "connected"


def accept(listener: str, name: str, timeout_s: float = 3.0) -> Any:
    """The peer's (address, port), or None if nobody came."""
    STATE.sockets[listener].settimeout(timeout_s)
    try:
        sock, peer = STATE.sockets[listener].accept()
    except TimeoutError:
        return None
    sock.settimeout(3)
    STATE.sockets[name] = sock
    return peer[:2]


def send(name: str, data: bytes) -> None:
    threading.Thread(target=STATE.sockets[name].sendall, args=(data,), daemon=True).start()


def receive(name: str, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = STATE.sockets[name].recv(size - len(data))
        if not part:
            break
        data += part
    return data


def close(*names: str) -> None:
    """In order, with a FIN."""
    for name in names:
        STATE.sockets.pop(name).close()


def abort(*names: str) -> None:
    """With a RST; nothing is sent again afterwards."""
    for name in names:
        sock = STATE.sockets.pop(name)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.close()


def install(sas: Any) -> None:
    STATE.esp.install(sas)


def remove(sas: Any) -> None:
    STATE.esp.remove(sas)


def counters() -> dict[str, int]:
    return STATE.esp.counters()


def inject(version: int, packet: bytes, destination: str) -> None:
    """One IP packet, header and all, onto the wire."""
    with socket.socket(
        socket.AF_INET6 if version == 6 else socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW
    ) as sock:
        sock.sendto(packet, (destination, 0))


def text(address: bytes) -> str:
    return socket.inet_ntop(socket.AF_INET6 if len(address) == 16 else socket.AF_INET, address)


def packed(address: str) -> bytes:
    return socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)


def hosts(*, count: int) -> Iterator[list[Host]]:
    """That many hosts, closed at the end."""
    made: list[Host] = []
    try:
        for _ in range(count):
            made.append(Host())
        yield made
    finally:
        for host in made:
            host.close()
