"""SIP over TCP on asyncio: connections, listeners, and what is bound to the protected device."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections import Counter
from typing import TYPE_CHECKING, Literal, Protocol

from imsbench.protocol.salvage import bad_request
from imsbench.protocol.sip import Malformed, Request, Response, serialize_message
from imsbench.protocol.stream import SipReader

if TYPE_CHECKING:
    from simulators.core.security import PhoneSas

Kind = Literal["clear", "protected", "own"]
"""clear: on the unprotected port; protected: accepted on port_ps; own: opened by the P-CSCF."""

BACKLOG = 4096
MAX_UNSENT_BYTES = 1 << 20
_AT_ONCE = struct.pack("ii", 1, 0)
"""SO_LINGER on, for no time: what close does then is a reset (RFC 9293 §3.10.5)."""


class ConnectionOwner(Protocol):
    """Who is told about the connections of a P-CSCF."""

    counters: Counter[str]

    def on_open(self, connection: SipConnection) -> None:
        """It is open; its addresses are known."""
        ...

    def on_message(self, connection: SipConnection, message: Request | Response) -> None:
        """A whole message was read."""
        ...

    def on_closed(self, connection: SipConnection) -> None:
        """It is gone; nothing more can be sent."""
        ...


class SipConnection(asyncio.Protocol):
    """One TCP connection. Bytes that are no SIP are counted and close it; they never raise."""

    __slots__ = (
        "_owner", "_pings", "_reader", "_transport", "impi", "kind", "local_port", "peer_address",
        "peer_port", "sas",
    )  # fmt: skip

    def __init__(self, owner: ConnectionOwner, kind: Kind) -> None:
        self._owner = owner
        self._reader = SipReader()
        self._pings = 0
        self._transport: asyncio.Transport | None = None
        self.kind = kind
        self.peer_address = ""
        """IP address of the phone, text form."""
        self.peer_port = 0
        """Port of the phone."""
        self.local_port = 0
        """Our port."""
        self.sas: PhoneSas | None = None
        """The SA set that carries it; None on the unprotected port."""
        self.impi = ""
        """ipsec off: whose registration was authenticated on this connection."""

    @property
    def is_open(self) -> bool:
        """Whether something can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio: the connection stands."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        peer = transport.get_extra_info("peername")
        if peer is None:  # reset between accept and here
            transport.abort()
            return
        # A scope ("%esp0") belongs to a link-local address only; phones have none.
        self.peer_address, self.peer_port = str(peer[0]), int(peer[1])
        self.local_port = int(transport.get_extra_info("sockname")[1])
        self._owner.on_open(self)

    def data_received(self, data: bytes) -> None:
        """asyncio: bytes of the stream."""
        reader = self._reader
        for message in reader.feed(data):
            if isinstance(message, Malformed):
                self._on_malformed(message)
            else:
                self._owner.on_message(self, message)
        if reader.pings > self._pings:  # RFC 5626 §3.5.1: each ping wants a pong
            self._owner.counters["keep-alive pings"] += reader.pings - self._pings
            self.write(b"\r\n" * (reader.pings - self._pings))
            self._pings = reader.pings
        if reader.broken:
            self.close()

    def _on_malformed(self, message: Malformed) -> None:
        """Count it; 400 where its sender can be told (RFC 3261 §21.4.1)."""
        self._owner.counters[f"malformed: {message.reason}"] += 1
        refusal = bad_request(message.head, message.reason, to_tag="malformed")
        if refusal is not None and self.write(serialize_message(refusal)):
            self._owner.counters["malformed requests answered 400"] += 1

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio: the connection is gone, in order or by a reset."""
        if isinstance(exc, ConnectionResetError):
            self._owner.counters["connections reset by phones"] += 1
        if self._reader.pending:
            self._owner.counters["connections closed within a message"] += 1
        self._transport = None
        self._owner.on_closed(self)

    def write(self, data: bytes) -> bool:
        """Send, or False: the connection is closed, or its phone stopped reading long ago."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return False
        if transport.get_write_buffer_size() > MAX_UNSENT_BYTES:
            self._owner.counters["connections dropped: phone does not read"] += 1
            transport.abort()
            return False
        transport.write(data)
        return True

    def lose(self, data: bytes) -> None:
        """A response that is lost as injected: nobody asks for it again on a connection."""

    def close(self) -> None:
        """Close after what is unsent (FIN)."""
        if self._transport is not None:
            self._transport.close()

    def reset(self) -> None:
        """Close at once, by a TCP reset."""
        if self._transport is not None:
            sock = self._transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
            self._transport.abort()

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()


def listening_socket(address: str, port: int, *, device: str = "") -> socket.socket:
    """A listening TCP socket; OSError names what the host refuses.

    Listeners bound to different devices may share a port; one that is bound to none may not.
    """
    sock = _socket(address, device)
    try:
        sock.bind((address, port))
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        raise OSError(error.errno, f"listen on {address} port {port}: {error.strerror}") from error
    return sock


def outer_devices(device: str) -> list[str]:
    """All links of this network namespace but the device of protected sockets."""
    return [name for _, name in socket.if_nameindex() if name != device]


async def connect(
    address: str, port: int, peer: tuple[str, int], *, device: str, timeout_s: float
) -> socket.socket:
    """A connected TCP socket from address:port; OSError or TimeoutError."""
    sock = _socket(address, device)
    try:
        sock.bind((address, port))
        async with asyncio.timeout(timeout_s):
            await asyncio.get_running_loop().sock_connect(sock, peer)
    except BaseException:
        sock.close()
        raise
    return sock


def _socket(address: str, device: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    # With its protocol named, or asyncio does not set TCP_NODELAY: a NOTIFY behind a 200 would wait
    # 40 ms for the phone's delayed acknowledgement.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.setblocking(False)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    if device:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode() + b"\0")
    return sock


class ClearRefuser:
    """Counts and closes what comes to the protected server port outside the SAs (TS 33.203 §7.1).

    One listener on each outer link: an unbound one could be found by what came out of an SA.
    """

    def __init__(self, address: str, port: int, device: str, counters: Counter[str]) -> None:
        self._counters = counters
        self._sockets = [
            listening_socket(address, port, device=outer) for outer in outer_devices(device)
        ]
        for sock in self._sockets:
            asyncio.get_running_loop().add_reader(sock.fileno(), self._refuse, sock)

    def _refuse(self, sock: socket.socket) -> None:
        with contextlib.suppress(OSError):  # BlockingIOError: all of them are accepted
            while True:
                accepted, _ = sock.accept()
                accepted.close()
                self._counters["clear connections to the protected port"] += 1

    def close(self) -> None:
        """Stop listening."""
        for sock in self._sockets:
            asyncio.get_running_loop().remove_reader(sock.fileno())
            sock.close()
