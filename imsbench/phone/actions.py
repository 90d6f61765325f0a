"""What a call flow may ask for: the only words between a phone and the engine.

A procedure that a phone leads is an ``async def`` that awaits actions. It is driven by hand: the
engine (or a test) calls ``flow.send(None)``, gets an action, carries it out, and calls
``flow.send(answer)`` or ``flow.throw(TransportError(...))``. No event loop is involved, and each
action types its own answer, so a flow reads as the message ladder and mypy checks it.

Rules:

* A flow reads no clock: the engine stamps ``at`` on what it gives back and ``sent_at`` on what it
  sent. Seconds, on the engine's monotonic clock.
* No ``await`` in ``finally`` or in ``except GeneratorExit``: a flow that is closed at the end of a
  run would raise. Clean-up belongs to the driver.
* A flow logs nothing and counts nothing: it fills its Outcome, or raises.
* An unknown action is a TypeError in the driver, so a stray ``asyncio.sleep`` fails at once.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass
from math import nan
from typing import Any

from imsbench.protocol.secagree import SaSet
from imsbench.protocol.sip import Request, Response


@dataclass(frozen=True, slots=True)
class UdpPorts:
    """A phone's UDP ports on a channel (TS 33.203 §7.1)."""

    client: int
    """Port that it sends everything from."""
    server: int = 0
    """Port that everything for it comes to (port_us); 0: the same."""
    peer: int = 0
    """Port that the P-CSCF sends from to that one (port_pc)."""


class Channel:
    """One way of a phone to its P-CSCF, open or not: the phone says where, the engine how.

    A TCP connection, and with UDP ports datagrams; then only what is too large for them goes by TCP.
    """

    __slots__ = (
        "connected_before", "connection", "local_address", "local_port", "path", "protected",
        "remote_address", "remote_port", "udp",
    )  # fmt: skip

    def __init__(
        self,
        local_address: str,
        local_port: int,
        remote_address: str,
        remote_port: int,
        *,
        protected: bool,
        udp: UdpPorts | None = None,
    ) -> None:
        self.local_address = local_address
        """The phone's IP address."""
        self.local_port = local_port
        """Local port of its TCP connection; 0: any, chosen by the kernel."""
        self.remote_address = remote_address
        """The P-CSCF's IP address."""
        self.remote_port = remote_port
        """The P-CSCF's port."""
        self.protected = protected
        """Whether it runs inside the phone's security associations."""
        self.udp = udp
        """Its UDP ports; None: it is TCP alone."""
        self.path: Any = None
        """The engine's UDP sockets while they are open; the phone leaves them alone."""
        self.connection: Any = None
        """The engine's connection while there is one; the phone leaves it alone."""
        self.connected_before = False
        """Whether it was open once: the next connect is a reconnection."""


class FlowError(Exception):
    """An action could not be carried out; thrown into the flow."""

    def __init__(self, cause: str, detail: str = "", at: float = nan) -> None:
        super().__init__(cause, detail)
        self.cause = cause
        """A few fixed words, fit for a counter: "timeout", "refused", "reset", "unreachable" …"""
        self.detail = detail
        """What exactly was seen."""
        self.at = at
        """When, seconds."""


class Timeout(FlowError):
    """No final response in time (RFC 3261 Timer F; TS 24.229 table 7.7.1)."""


class TransportError(FlowError):
    """The connection failed: to the transaction user a 503 (RFC 3261 §8.1.3.1)."""


class Action:
    """What a flow yields."""

    __slots__ = ()


class Exchange(Action):
    """Send a request on a channel, opened if need be; the answer is its final response.

    Raises Timeout or TransportError. Provisional responses restart nothing and are not given back.
    """

    __slots__ = ("channel", "request", "sent_at", "started_at", "timeout_s")

    def __init__(self, request: Request, channel: Channel, timeout_s: float) -> None:
        self.request = request
        self.channel = channel
        self.timeout_s = timeout_s
        self.started_at = nan
        """When the engine first acted: the SYN, or the send on an open connection."""
        self.sent_at = nan
        """First byte handed to the kernel."""

    def __await__(self) -> Generator[Action, Any, Response]:
        response: Response = yield self
        return response


class Protect(Action):
    """Install four SAs; the flow goes on when they are in place. Raises TransportError("sa …")."""

    __slots__ = ("sas",)

    def __init__(self, sas: SaSet) -> None:
        self.sas = sas

    def __await__(self) -> Generator[Action, Any, None]:
        yield self


class Unprotect(Action):
    """Remove an SA set: policies, then states."""

    __slots__ = ("sas",)

    def __init__(self, sas: SaSet) -> None:
        self.sas = sas

    def __await__(self) -> Generator[Action, Any, None]:
        yield self


class Close(Action):
    """Close a channel and, on demand, what the P-CSCF opened to the phone's server port.

    The far end's FINs are waited for up to ``timeout_s``, then it is a RST; with 0 it is a RST at
    once, and silently it is nothing at all. Before, what is under way on them has up to ``settle_s`` to
    end. The answer is when it was done, seconds.
    """

    __slots__ = ("accepted_for", "channel", "remote_port", "settle_s", "silently", "timeout_s")

    def __init__(
        self,
        channel: Channel | None,
        timeout_s: float,
        accepted_for: Any = None,
        remote_port: int = 0,
        *,
        settle_s: float = 0.0,
        silently: bool = False,
    ) -> None:
        self.channel = channel
        self.timeout_s = timeout_s
        self.settle_s = settle_s
        """How long transactions on them, of either side, may go on before, seconds."""
        self.silently = silently
        """Whether the far ends are not told: the phone is gone."""
        self.accepted_for = accepted_for
        """The phone whose accepted connections are closed as well; None: leave them."""
        self.remote_port = remote_port
        """Only those that the P-CSCF opened from this port; 0: all."""

    def __await__(self) -> Generator[Action, Any, float]:
        at: float = yield self
        return at


class Receive(Action):
    """Wait for the next request of a dialog this flow owns; the answer is the request's arrival time.

    The phone has answered it already (a NOTIFY is answered whether a flow waits or not).
    Raises Timeout.
    """

    __slots__ = ("call_id", "timeout_s")

    def __init__(self, call_id: str, timeout_s: float) -> None:
        self.call_id = call_id
        self.timeout_s = timeout_s

    def __await__(self) -> Generator[Action, Any, float]:
        at: float = yield self
        return at


class Incoming:
    """A request from the network, as an event of the flow that owns its dialog."""

    __slots__ = ("at", "protected", "request", "way")

    def __init__(self, request: Request, at: float, way: Any, *, protected: bool) -> None:
        self.request = request
        self.at = at
        """When its last byte was read, seconds."""
        self.way = way
        """The engine's connection, or UDP path, it came on: its responses go back there."""
        self.protected = protected
        """Whether it came inside security associations."""


class Ended:
    """A transaction of the flow's ended without a final response, or a response was never settled."""

    __slots__ = ("error", "send")

    def __init__(self, send: Send, error: FlowError) -> None:
        self.send = send
        """What was sent."""
        self.error = error
        """Timeout or TransportError."""


Event = Response | Incoming | Ended
"""What comes to a flow's mailbox."""


class Accept:
    """The answer to a request that starts a flow: it owns the dialog, the request is its first event."""

    __slots__ = ("flow", "on_done")

    def __init__(
        self,
        flow: Coroutine[Action, Any, None],
        on_done: Callable[[Any, BaseException | None], None],
    ) -> None:
        self.flow = flow
        self.on_done = on_done


class Send(Action):
    """Send a message; the flow goes on at once.

    A request opens a client transaction: all its responses come to the mailbox, and Ended if there
    is no final one in ``timeout_s`` (for an INVITE: no response at all; RFC 3261 Timers F and B).
    An ACK opens none. A response goes back on the connection its request came on; with
    ``repeat_s`` it is sent again from T1 on, doubling, until the flow sets ``settled``, and Ended
    comes after so many seconds (RFC 3261 §13.3.1.4, RFC 3262 §3: on any transport).
    """

    __slots__ = (
        "channel", "incoming", "message", "repeat_s", "sent_at", "settled", "started_at", "timeout_s",
    )  # fmt: skip

    def __init__(
        self,
        message: Request | Response,
        where: Channel | Incoming,
        *,
        timeout_s: float = 32.0,
        repeat_s: float = 0.0,
    ) -> None:
        self.message = message
        self.channel = where if isinstance(where, Channel) else None
        self.incoming = where if isinstance(where, Incoming) else None
        self.timeout_s = timeout_s
        self.repeat_s = repeat_s
        self.settled = False
        """Set by the flow when the ACK or PRACK has come: no more repetitions."""
        self.started_at = nan
        """When the engine first acted: the SYN, or the send on an open connection."""
        self.sent_at = nan
        """First byte handed to the kernel."""

    def __await__(self) -> Generator[Action, Any, None]:
        yield self


class Next(Action):
    """The next event of the flow's mailbox; None when ``timeout_s`` is up first.

    Without a timeout the flow relies on an Ended: something it sent must be under way.
    """

    __slots__ = ("timeout_s",)

    def __init__(self, timeout_s: float | None = None) -> None:
        self.timeout_s = timeout_s

    def __await__(self) -> Generator[Action, Any, Event | None]:
        event: Event | None = yield self
        return event
