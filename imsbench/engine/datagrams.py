"""UDP of phones: the sockets of each phone, connected to the P-CSCF's ports (TS 33.203 §7.1).

In clear a phone has one socket, on its clear port. Inside SAs it has two a set: everything it sends,
requests and responses, leaves from port_uc to port_ps, and everything for it comes from port_pc to
port_us. All are connected, so that the kernel drops what others send, keeps the sets of one phone
apart where they share port_us, and tells of an ICMP error.
"""

from __future__ import annotations

import select
import socket
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from imsbench.engine.connection import bindable_socket, cause_of
from imsbench.engine.loop import Loop, clock
from imsbench.host.backend import SaBackend
from imsbench.phone.actions import Channel, Exchange, Send
from imsbench.protocol.sip import Request, serialize_message

if TYPE_CHECKING:
    from imsbench.engine.tasks import Pending

MOST_BYTES = 1300
"""Longest request by UDP where the path's MTU is not known (RFC 3261 §18.1.1)."""
_BATCH = 16
_DATAGRAM_BYTES = 65_535
_UDP, _TCP = "SIP/2.0/UDP", "SIP/2.0/TCP"

OnDatagram = Callable[["DatagramPath", bytes], None]
OnFailed = Callable[["DatagramPath", str], None]


class DatagramPath:
    """The UDP sockets of one channel of a phone; to a flow the same as a connection."""

    __slots__ = (
        "_events", "_on_closed", "_on_datagram", "_on_failed", "_sockets", "channel", "loop",
        "owed", "owner", "pending", "state",
    )  # fmt: skip
    reliable = False

    def __init__(
        self,
        loop: Loop,
        channel: Channel,
        owner: Any,
        sockets: list[socket.socket],
        on_datagram: OnDatagram,
        on_failed: OnFailed,
        on_closed: OnFailed,
        events: Counter[str],
    ) -> None:
        self.loop = loop
        self.channel = channel
        """What the phone knows it by."""
        self.owner = owner
        """The phone it belongs to."""
        self.pending: list[Pending] = []
        """Transactions whose response is due on it."""
        self.owed = 0
        """Requests that came on it and have no final response yet."""
        self.state: Literal["open", "closed"] = "open"
        self._sockets = sockets
        self._on_datagram = on_datagram
        self._on_failed = on_failed
        self._on_closed = on_closed
        self._events = events
        for sock in sockets:
            loop.register(sock.fileno(), select.EPOLLIN, self._reader_of(sock))

    def send(self, data: bytes, exchange: Exchange | Send | None = None) -> None:
        """Send one datagram; stamps the exchange's first. What finds no room is lost, and counted."""
        if self.state == "closed":
            return
        if exchange is not None and exchange.sent_at != exchange.sent_at:  # NaN: not stamped
            exchange.sent_at = clock()
        try:
            self._sockets[0].send(data)
        except BlockingIOError:
            self._events["datagram not sent: no room"] += 1
        except OSError as error:
            self._on_failed(self, cause_of(error))

    def close(self) -> None:
        """Close the sockets and tell the engine."""
        if self.state == "closed":
            return
        self.state = "closed"
        for sock in self._sockets:
            self.loop.unregister(sock.fileno())
            sock.close()
        self.channel.path = None
        self._on_closed(self, "closed here")

    # private

    def _reader_of(self, sock: socket.socket) -> Callable[[int], None]:
        # On port_uc nothing is due: responses belong to port_us (TS 33.203 §7.1).
        astray = len(self._sockets) > 1 and sock is self._sockets[0]
        return lambda _mask: self._read(sock, astray)

    def _read(self, sock: socket.socket, astray: bool) -> None:
        for _ in range(_BATCH):
            try:
                data = sock.recv(_DATAGRAM_BYTES)
            except BlockingIOError:
                return
            except OSError as error:  # ICMP told that an earlier one did not arrive
                self._on_failed(self, cause_of(error))
                return
            if astray:
                self._events["datagram_to_port_uc_by_target"] += 1
            self._on_datagram(self, data)
            if self.state == "closed":
                return


class Datagrams:
    """All UDP sockets of one worker."""

    def __init__(
        self,
        loop: Loop,
        backend: SaBackend | None,
        on_datagram: OnDatagram,
        on_failed: OnFailed,
        on_closed: OnFailed,
        events: Counter[str],
    ) -> None:
        self._loop = loop
        self._device = backend.device if backend is not None else ""
        self._on_datagram = on_datagram
        self._on_failed = on_failed
        self._tell_closed = on_closed
        self._events = events
        self._paths: set[DatagramPath] = set()
        self._refuser: socket.socket | None = None

    def __len__(self) -> int:
        return len(self._paths)

    def refuse_clear(self, port_us: int, ip_version: int, device: str) -> None:
        """Count what comes to port_us outside the SAs, on this device; OSError if it is taken."""
        sock = bindable_socket("::" if ip_version == 6 else "0.0.0.0", socket.SOCK_DGRAM, device)
        self._refuser = _bound(sock, ("::" if ip_version == 6 else "0.0.0.0", port_us), share=True)
        self._loop.add_reader(sock.fileno(), lambda: self._refuse(sock))

    def path(self, channel: Channel, endpoint: Any) -> DatagramPath:
        """The open path of a channel, opened if need be; OSError if it cannot be."""
        path: DatagramPath | None = channel.path
        if path is None:
            path = DatagramPath(
                self._loop,
                channel,
                endpoint,
                open_sockets(channel, self._device if channel.protected else ""),
                self._on_datagram,
                self._on_failed,
                self._on_closed,
                self._events,
            )
            channel.path = path
            self._paths.add(path)
        return path

    def close(self) -> None:
        """Close all of them."""
        for path in list(self._paths):
            path.close()
        if self._refuser is not None:
            self._loop.unregister(self._refuser.fileno())
            self._refuser.close()

    # private

    def _on_closed(self, path: DatagramPath, cause: str) -> None:
        self._paths.discard(path)
        self._tell_closed(path, cause)

    def _refuse(self, sock: socket.socket) -> None:
        for _ in range(_BATCH):
            try:
                sock.recv(1)
            except OSError:  # BlockingIOError: that was all
                return
            self._events["clear_datagram_to_port_us_by_target"] += 1


def open_sockets(channel: Channel, device: str) -> list[socket.socket]:
    """The sending socket of a channel and, where another port receives, that; OSError."""
    ports = channel.udp
    assert ports is not None
    ends = [(ports.client, channel.remote_port)]
    if ports.server:
        ends.append((ports.server, ports.peer))
    sockets: list[socket.socket] = []
    try:
        for local, remote in ends:
            sock = bindable_socket(channel.local_address, socket.SOCK_DGRAM, device)
            sockets.append(sock)
            # Two SA sets of a phone share port_us; the port they come from tells them apart.
            _bound(sock, (channel.local_address, local), share=local == ports.server)
            sock.connect((channel.remote_address, remote))
    except OSError:
        for sock in sockets:
            sock.close()
        raise
    return sockets


def by_udp(request: Request) -> tuple[bytes, bool]:
    """The bytes of a request of a phone that uses UDP, and whether they go so: not if they are too many.

    What its Via says decides for good, as a CANCEL and an ACK go the way of their INVITE (RFC 3261
    §9.1, §17.1.1.3); a request too large for UDP has it changed (§18.1.1).
    """
    data = serialize_message(request)
    name, via = request.headers[0]
    if via.startswith(_UDP) and len(data) > MOST_BYTES:
        request.headers[0] = (name, via.replace(_UDP, _TCP, 1))
        return serialize_message(request), False
    return data, via.startswith(_UDP)


def by_udp_nevertheless(request: Request) -> bytes:
    """The bytes of a request that is too large for UDP, for it all the same (RFC 3261 §18.1.1)."""
    name, via = request.headers[0]
    request.headers[0] = (name, via.replace(_TCP, _UDP, 1))
    return serialize_message(request)


def _bound(sock: socket.socket, address: tuple[str, int], *, share: bool) -> socket.socket:
    if share:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind(address)
    except OSError:
        sock.close()
        raise
    return sock
