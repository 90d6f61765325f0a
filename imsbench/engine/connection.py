"""TCP connections of phones: non-blocking, partial writes kept, one SIP reader each.

A phone's connection is bound to the phone's own address. Inside security associations it is bound
to the backend's device too (SO_BINDTODEVICE), so that the kernel itself refuses a clear segment
for it. How a connection ended is a word (``Cause``), the same in events, ladders and outcomes.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from imsbench.engine.loop import Loop, Timer, clock
from imsbench.phone.actions import Channel, Exchange, Send
from imsbench.protocol.stream import SipReader

if TYPE_CHECKING:
    from imsbench.engine.tasks import Pending

_IP_BIND_ADDRESS_NO_PORT = 24
_IPV6_FREEBIND = 78
_TCP_REPAIR = 19
_SO_BINDTODEVICE = socket.SO_BINDTODEVICE
LINGER_RESET = struct.pack("ii", 1, 0)
_RECEIVE_BYTES = 65_536
_READ = select.EPOLLIN | select.EPOLLRDHUP
_GONE = select.EPOLLERR | select.EPOLLHUP

State = Literal["connecting", "open", "closing", "closed"]

REFUSED = "refused"
"""Cause of a connection that was never there: nobody listens."""
_CAUSES = {
    errno.ECONNREFUSED: REFUSED,
    errno.ECONNRESET: "reset by target",
    errno.EPIPE: "reset by target",
    errno.ETIMEDOUT: "tcp timeout",
    errno.EHOSTUNREACH: "unreachable",
    errno.ENETUNREACH: "unreachable",
    errno.EPERM: "blocked by policy",
    errno.EADDRNOTAVAIL: "local address not available",
    errno.EADDRINUSE: "local port in use",
    errno.EMFILE: "out of open files",
    errno.ENFILE: "out of open files",
    errno.ENOBUFS: "out of buffers",
}


def cause_of(error: OSError) -> str:
    """A few fixed words for an operating system error."""
    number = error.errno or 0
    return _CAUSES.get(number) or errno.errorcode.get(number, "transport error").lower()


class Connection:
    """One TCP connection, opened by a phone (it has a channel) or accepted for one (it has none)."""

    __slots__ = (
        "_on_closed", "_on_readable", "_out", "_watch_out", "channel", "last_used_at", "loop",
        "owed", "owner", "pending", "reader", "remote_port", "sock", "state", "timer",
    )  # fmt: skip
    reliable = True

    def __init__(
        self,
        loop: Loop,
        sock: socket.socket,
        state: State,
        owner: Any,
        on_readable: Callable[[Connection, bytes], None],
        on_closed: Callable[[Connection, str], None],
    ) -> None:
        self.loop = loop
        self.sock = sock
        self.state: State = state
        self.owner = owner
        """The phone it belongs to."""
        self.channel: Channel | None = None
        """What the phone knows it by; None: accepted."""
        self.reader = SipReader()
        self.pending: list[Pending] = []
        """Transactions whose response is due on it."""
        self.owed = 0
        """Requests that came on it and have no final response yet."""
        self.remote_port = 0
        """Port of the P-CSCF's end."""
        self.last_used_at = loop.now
        """When anything last went over it, seconds."""
        self.timer: Timer | None = None
        """Its keep-alive or idle timer."""
        self._out: list[tuple[bytes, Exchange | Send | None]] = []
        self._watch_out = state == "connecting"
        self._on_readable = on_readable
        self._on_closed = on_closed
        events = select.EPOLLOUT if state == "connecting" else _READ
        loop.register(sock.fileno(), events, self._on_event)

    def send(self, data: bytes, exchange: Exchange | Send | None = None) -> None:
        """Send all of it now or as soon as the kernel takes it; stamps the exchange's first byte."""
        if self.state == "connecting" or self._out:
            self._out.append((data, exchange))
            return
        self._write(data, exchange)

    def half_close(self) -> None:
        """Send a FIN behind what is queued; closed when the far end's FIN has come."""
        if self.state == "connecting":
            self.close("closed here")
        elif self.state == "open":
            self.state = "closing"
            if not self._out:
                self._send_fin()

    def close(self, cause: str) -> None:
        """Close at once and tell the engine why."""
        if self.state == "closed":
            return
        self.state = "closed"
        self.loop.unregister(self.sock.fileno())
        self.sock.close()
        self._out.clear()
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        self._on_closed(self, cause)

    def abort(self) -> None:
        """Close without waiting for the far end: by RST inside SAs, which are about to go."""
        if self.channel is not None and not self.channel.protected:
            self.close("closed here")
        else:
            self.reset("closed here")

    def reset(self, cause: str) -> None:
        """Close with a RST, so that neither end keeps the connection."""
        if self.state != "closed":
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_RESET)
            self.close(cause)

    def vanish(self) -> bool:
        """Close without a word, as a phone without power does; False if the kernel refuses: by a RST.

        A socket in repair mode (tcp(7): TCP_REPAIR, needs CAP_NET_ADMIN) is closed without FIN or RST.
        """
        if self.state == "closed":
            return True
        try:
            self.sock.setsockopt(socket.IPPROTO_TCP, _TCP_REPAIR, 1)
        except OSError:
            self.reset("closed here")
            return False
        self.close("closed here")
        return True

    # private

    def _on_event(self, mask: int) -> None:
        if self.state == "connecting":
            self._finish_connect()
            return
        if mask & select.EPOLLOUT:
            self._flush()
        if mask & (_READ | _GONE) and self.state != "closed":
            self._read()

    def _finish_connect(self) -> None:
        number = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if number:
            self.close(cause_of(OSError(number, "")))
            return
        self.state = "open"
        if self.channel is not None:
            self.channel.connected_before = True
        self._flush()

    def _flush(self) -> None:
        """Write what is queued, then watch for reading, and for writing only while something is left."""
        queue, self._out = self._out, []
        for index, (data, exchange) in enumerate(queue):
            if self._out:  # the kernel took only a part of the last one
                self._out.extend(queue[index:])
                break
            self._write(data, exchange)
            if self.state == "closed":
                return
        if not self._out:
            self._watch(False)
            if self.state == "closing":
                self._send_fin()

    def _write(self, data: bytes, exchange: Exchange | Send | None) -> None:
        self.last_used_at = at = clock()
        if exchange is not None and exchange.sent_at != exchange.sent_at:  # NaN: not stamped
            exchange.sent_at = at
        try:
            sent = self.sock.send(data)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self.close(cause_of(error))
            return
        if sent < len(data):
            self._out.insert(0, (data[sent:], exchange))
            self._watch(True)

    def _watch(self, writable: bool) -> None:
        if writable != self._watch_out:
            self._watch_out = writable
            self.loop.modify(self.sock.fileno(), _READ | select.EPOLLOUT if writable else _READ)

    def _read(self) -> None:
        try:
            data = self.sock.recv(_RECEIVE_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            self.close(cause_of(error))
            return
        if not data:
            self.close("closed here" if self.state == "closing" else "closed by target")
            return
        self._on_readable(self, data)

    def _send_fin(self) -> None:
        try:
            self.sock.shutdown(socket.SHUT_WR)
        except OSError as error:
            self.close(cause_of(error))


def bindable_socket(address: str, kind: socket.SocketKind, device: str) -> socket.socket:
    """A non-blocking socket that can be bound to any address of the phones; OSError.

    ``device`` binds it to the backend's device; "" leaves that to the kernel's policies.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sock = socket.socket(family, kind | socket.SOCK_NONBLOCK)
    try:
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, _IPV6_FREEBIND, 1)
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        if device:
            sock.setsockopt(socket.SOL_SOCKET, _SO_BINDTODEVICE, device.encode())
    except OSError:
        sock.close()
        raise
    return sock


def connect(channel: Channel, device: str) -> socket.socket:
    """A socket on its way from the channel's local to its remote end; OSError if it cannot start."""
    sock = bindable_socket(channel.local_address, socket.SOCK_STREAM, device)
    try:
        if channel.local_port:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        else:
            # The port is then chosen by connect(), per destination, not per address.
            sock.setsockopt(socket.IPPROTO_IP, _IP_BIND_ADDRESS_NO_PORT, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.bind((channel.local_address, channel.local_port))
        number = sock.connect_ex((channel.remote_address, channel.remote_port))
        if number not in (0, errno.EINPROGRESS):  # in progress: the SYN is out
            raise OSError(number, os.strerror(number))
    except OSError:
        sock.close()
        raise
    return sock


def listen(port: int, ip_version: int, device: str, backlog: int = 4096) -> socket.socket:
    """A listener on every local address, on one device if one is given; OSError if the port is taken."""
    wildcard = "::" if ip_version == 6 else "0.0.0.0"
    sock = bindable_socket(wildcard, socket.SOCK_STREAM, device)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # What it accepts inherits it: a 180 behind a 200 to UPDATE would wait 40 ms for the
        # acknowledgement that the target delays, and the target would seem slow.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.bind((wildcard, port))
        sock.listen(backlog)
    except OSError:
        sock.close()
        raise
    return sock


class _Spare:
    """A descriptor kept for connections that there is none for: left waiting, they would be told for ever."""

    def __init__(self) -> None:
        self._descriptor: int | None = None
        self._keep()

    def refuse(self, listener: socket.socket) -> bool:
        """Take one connection and close it; whether there was one, and a descriptor for it."""
        if self._descriptor is None:
            self._keep()
        if self._descriptor is None:
            return False
        descriptor, self._descriptor = self._descriptor, None
        os.close(descriptor)
        try:
            listener.accept()[0].close()
        except OSError:
            return False
        else:
            return True
        finally:
            self._keep()

    def _keep(self) -> None:
        with contextlib.suppress(OSError):  # another process was faster: the next time, then
            self._descriptor = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)


_SPARE = _Spare()


def accept_all(
    listener: socket.socket, most: int = 64, on_refused: Callable[[], object] = lambda: None
) -> list[tuple[socket.socket, Any]]:
    """The connections that wait, at most so many; each with its far end's address.

    on_refused: called for each that is closed at once, as no descriptor is left for it.
    """
    accepted: list[tuple[socket.socket, Any]] = []
    for _ in range(most):
        try:
            sock, address = listener.accept()
        except BlockingIOError:
            break
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                continue  # the connection's own end, told here (accept(2))
            if not _SPARE.refuse(listener):
                break
            on_refused()
            continue
        sock.setblocking(False)
        accepted.append((sock, address))
    return accepted
