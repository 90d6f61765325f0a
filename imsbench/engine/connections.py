"""The connections of a worker's phones: opened, accepted, kept alive, closed when idle, counted."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from imsbench.engine.connection import LINGER_RESET, Connection, State, accept_all, connect, listen
from imsbench.engine.loop import Loop, clock
from imsbench.host.backend import SaBackend
from imsbench.phone.actions import Channel

RESETS_S = 1.0
"""How long the last resets are carried through their SAs, seconds; what is left then stays unsaid."""
_RESETS_AT_ONCE = 16


class Endpoint(Protocol):
    """What a phone is to the engine."""

    address: str
    """Its IP address."""


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """How phones hold their connections."""

    ip_version: int = 4
    """4 or 6."""
    port_us: int = 0
    """Protected server port that is listened on; 0: no IPsec, no listener."""
    outer_device: str = ""
    """Device on which clear connections to port_us arrive, to be refused and counted."""
    idle_close_s: float = 0.0
    """Seconds without traffic after which a phone closes a connection; 0: never."""
    keepalive_s: float = 0.0
    """Seconds between CRLF keep-alives (RFC 5626 §3.5.1); 0: none."""
    t1_s: float = 0.5
    """T1 of RFC 3261; the UE value of TS 24.229 table 7.7.1 is 2 s."""
    t2_s: float = 4.0
    """T2 of RFC 3261; the UE value of TS 24.229 table 7.7.1 is 16 s."""
    t4_s: float = 5.0
    """T4 of RFC 3261; the UE value of TS 24.229 table 7.7.1 is 17 s."""
    udp: bool = False
    """Whether phones use UDP."""
    clear_port: int = 0
    """Port on which phones without IPsec take connections, for what is too large for UDP; 0: none."""


class Connections:
    """All connections of one worker, with what happens to them by name in ``events``."""

    def __init__(
        self,
        loop: Loop,
        settings: EngineSettings,
        backend: SaBackend | None,
        find_endpoint: Callable[[str], Endpoint | None],
        on_readable: Callable[[Connection, bytes], None],
        on_closed: Callable[[Connection, str], None],
        events: Counter[str],
    ) -> None:
        self.count = 0
        """TCP connections held now."""
        self._loop = loop
        self._settings = settings
        self._backend = backend
        self._device = backend.device if backend is not None else ""
        self._find_endpoint = find_endpoint
        self._on_readable = on_readable
        self._tell_closed = on_closed
        self._events = events
        self._all: set[Connection] = set()
        self._accepted: dict[str, list[Connection]] = {}
        self._listeners: list[socket.socket] = []

    def listen(self) -> None:
        """Listen on port_us inside the SAs, and outside to refuse; OSError if the port is taken."""
        settings = self._settings
        if settings.clear_port:
            self._listen(settings.clear_port, "", self._accept)
        if self._backend is None:
            return
        self._listen(settings.port_us, self._device, self._accept)
        if self._device:
            self._listen(settings.port_us, settings.outer_device, self._refuse_clear)

    def connect(self, channel: Channel, endpoint: Endpoint) -> Connection:
        """Open a channel's connection; OSError if it cannot even start."""
        sock = connect(channel, self._device if channel.protected else "")
        if channel.connected_before:
            self._events["reconnects"] += 1
        connection = self._adopt(sock, endpoint, "connecting")
        connection.channel = channel
        connection.remote_port = channel.remote_port
        channel.connection = connection
        return connection

    def accepted_by(self, endpoint: Endpoint, remote_port: int) -> list[Connection]:
        """What the P-CSCF opened to this phone, from one port or (0) from any."""
        return [
            connection
            for connection in self._accepted.get(endpoint.address, ())
            if remote_port in (0, connection.remote_port)
        ]

    def close(self) -> None:
        """Close the listeners, and every connection by a RST that still goes through its SAs.

        A socket left to the kernel would send its FIN again and again where no SA is any more, and
        keep its network namespace alive with it, for minutes after the process.
        """
        for listener in self._listeners:
            self._loop.unregister(listener.fileno())
            listener.close()
        carriers: list[Callable[[], object]] = []
        if self._backend is not None:
            self._backend.attach(lambda _descriptor, carry: carriers.append(carry))
        deadline = clock() + RESETS_S
        for number, connection in enumerate(list(self._all), 1):
            connection.reset("closed here")
            if number % _RESETS_AT_ONCE == 0 and clock() < deadline:
                _carry(carriers)
        _carry(carriers)

    # private

    def _listen(self, port: int, device: str, on_ready: Callable[[socket.socket], None]) -> None:
        listener = listen(port, self._settings.ip_version, device)
        self._listeners.append(listener)
        self._loop.add_reader(listener.fileno(), lambda: on_ready(listener))

    def _accept(self, listener: socket.socket) -> None:
        for sock, remote in accept_all(listener, on_refused=self._count_refused):
            # The wildcard listener serves all phones: the local address tells which.
            endpoint = self._find_endpoint(sock.getsockname()[0])
            if endpoint is None:
                self._events["accepted_for_nobody"] += 1
                sock.close()
                continue
            self._events["accepted"] += 1
            connection = self._adopt(sock, endpoint, "open")
            connection.remote_port = remote[1]
            self._accepted.setdefault(endpoint.address, []).append(connection)

    def _refuse_clear(self, listener: socket.socket) -> None:
        """A connection to port_us outside the SAs: the target's defect, never served."""
        for sock, _remote in accept_all(listener, on_refused=self._count_refused):
            self._events["clear_connection_to_port_us_by_target"] += 1
            # By RST: a FIN would leave a state whose later acknowledgements have no SA to go by.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_RESET)
            sock.close()

    def _count_refused(self) -> None:
        self._events["accept_without_descriptor"] += 1

    def _adopt(self, sock: socket.socket, endpoint: Endpoint, state: State) -> Connection:
        connection = Connection(
            self._loop, sock, state, endpoint, self._on_readable, self._on_closed
        )
        self.count += 1
        self._all.add(connection)
        delay_s = self._settings.idle_close_s or self._settings.keepalive_s
        if delay_s:
            self._set_timer(connection, clock() + delay_s)
        return connection

    def _on_closed(self, connection: Connection, cause: str) -> None:
        self.count -= 1
        self._all.discard(connection)
        channel = connection.channel
        if channel is None:
            address = connection.owner.address
            self._accepted[address].remove(connection)
            if not self._accepted[address]:
                del self._accepted[address]
        elif channel.connection is connection:
            channel.connection = None
        if cause != "closed here":
            self._events[f"connection {cause}"] += 1
        self._tell_closed(connection, cause)

    def _set_timer(self, connection: Connection, when: float) -> None:
        connection.timer = self._loop.call_at(when, self._on_timer, connection)

    def _on_timer(self, connection: Connection) -> None:
        """The idle timer or the keep-alive's; both count from the last traffic."""
        settings, now = self._settings, clock()
        connection.timer = None
        due = connection.last_used_at + (settings.idle_close_s or settings.keepalive_s)
        if connection.state != "open" or due > now:
            self._set_timer(connection, max(due, now + 0.01))
        elif settings.idle_close_s:
            if connection.pending:
                self._set_timer(connection, now + settings.idle_close_s)
            else:
                self._events["idle_closed"] += 1
                connection.half_close()
        else:
            self._events["keepalives_sent"] += 1
            connection.reader.pongs_due += 1
            connection.send(b"\r\n\r\n")
            self._set_timer(connection, now + settings.keepalive_s)


def _carry(carriers: list[Callable[[], object]]) -> None:
    """Let the backend carry what waits, as the loop would when its descriptors are readable."""
    for carry in carriers:
        carry()
