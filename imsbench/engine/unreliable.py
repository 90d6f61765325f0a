"""Transactions over UDP: what is sent again, and what comes again (RFC 3261 §17, RFC 6026).

Client side
    INVITE        Timer A: T1, doubling, until the first response
    others        Timer E: T1, doubling up to T2, every T2 after a provisional response
    ended         a final response that comes again is absorbed: for an INVITE it is acknowledged anew,
                  for 64·T1 (Timer D), else for T4 (Timer K)
Server side
    a request that comes again gets the last response again, or waits with the first for one; kept for
    64·T1 (Timers J, L; longer than Timer I, which does no harm)
    INVITE with a status of 300 or more: sent again by Timer G (T1, doubling up to T2) until its ACK,
    64·T1 at most (Timer H)

Timers B and F are the deadlines of transactions, with the driver, as on every transport. A 2xx to an
INVITE and a reliable 1xx are the flow's (``Send.repeat_s``).

Everything that was sent or came again is counted by its kind, the method or the status with it, and
again as ``late`` where this process was slow meanwhile (its loop lagged by more than T1/10, or the
timer was that late): such a retransmission says nothing of the network.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import Generic, NamedTuple, TypeVar

from imsbench.engine.connection import Connection
from imsbench.engine.connections import EngineSettings
from imsbench.engine.datagrams import DatagramPath
from imsbench.engine.loop import Loop, Timer, clock
from imsbench.engine.tasks import METHODS, Pending
from imsbench.protocol.sip import Request, Response

_LATE = 0.1
"""Share of T1 by which this process may be late before its retransmissions are its own."""

Way = Connection | DatagramPath
_Key = tuple[str, str, str, int, str]
"""Address of the phone, branch, Call-ID, CSeq, method: more than RFC 3261 §17.2.3 asks for."""
_K = TypeVar("_K")
_V = TypeVar("_V")


class Kept(Generic[_K, _V]):
    """A dictionary whose entries go a fixed time after they were put in."""

    def __init__(self, lifetime_s: float) -> None:
        self._lifetime_s = lifetime_s
        self._values: dict[_K, tuple[float, _V]] = {}
        self._order: deque[tuple[float, _K]] = deque()

    def __len__(self) -> int:
        return len(self._values)

    def put(self, key: _K, value: _V, now: float) -> None:
        """Put in, or put in again: it goes a lifetime from now."""
        until = now + self._lifetime_s
        self._values[key] = (until, value)
        self._order.append((until, key))

    def get(self, key: _K) -> _V | None:
        """What is there under this key."""
        found = self._values.get(key)
        return None if found is None else found[1]

    def sweep(self, now: float) -> None:
        """Let go of what is over."""
        order, values = self._order, self._values
        while order and order[0][0] <= now:
            key = order.popleft()[1]
            found = values.get(key)
            if found is not None and found[0] <= now:  # else it was put in again
                del values[key]


class Again:
    """A message that is sent again and again."""

    __slots__ = ("data", "due_at", "interval_s", "kind", "longest_s", "sent_at", "timer", "way")

    def __init__(self, kind: str, way: Way, data: bytes, interval_s: float, longest_s: float):
        self.kind = kind
        self.way = way
        self.data = data
        self.interval_s = interval_s
        """Until the next one, seconds."""
        self.longest_s = longest_s
        """What the interval grows to."""
        self.sent_at = clock()
        self.due_at = self.sent_at + interval_s
        self.timer: Timer | None = None

    def stop(self) -> None:
        """Never again."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class _Ended(NamedTuple):
    """A request of ours that has its final response."""

    way: Way
    method: str
    ack: bytes
    """What the response is acknowledged with; empty: it needs none."""
    at: float
    """When it ended, seconds."""


class _Server:
    """A request from the network, as the transaction it began."""

    __slots__ = ("acknowledged", "again", "at", "data", "status")

    def __init__(self, at: float) -> None:
        self.at = at
        """When it came first, seconds."""
        self.status = 0
        """Of the last response; 0: none yet."""
        self.data = b""
        """The last response."""
        self.acknowledged = False
        self.again: Again | None = None
        """Timer G."""


class Unreliable:
    """The transactions of one worker's phones that go by UDP."""

    def __init__(self, loop: Loop, settings: EngineSettings, events: Counter[str]) -> None:
        self._loop = loop
        self._t1_s, self._t2_s = settings.t1_s, settings.t2_s
        self._events = events
        self._late_s = _LATE * settings.t1_s
        self._servers: Kept[_Key, _Server] = Kept(64 * settings.t1_s)
        self._invites: Kept[str, _Ended] = Kept(64 * settings.t1_s)
        self._others: Kept[str, _Ended] = Kept(settings.t4_s)
        loop.late_over_s = self._late_s

    def sweep(self, now: float) -> None:
        """Let go of transactions that are over."""
        self._servers.sweep(now)
        self._invites.sweep(now)
        self._others.sweep(now)

    # client transactions

    def begin(self, pending: Pending, data: bytes) -> None:
        """A request was sent: Timer A or E runs."""
        assert pending.connection is not None
        method = pending.request.method
        longest_s = 64 * self._t1_s if method == "INVITE" else self._t2_s
        pending.again = Again(method, pending.connection, data, self._t1_s, longest_s)
        self._start(pending.again)

    def progressed(self, pending: Pending) -> None:
        """A response came that does not end the transaction."""
        again = pending.again
        if again is None:
            return
        if pending.request.method == "INVITE":
            again.stop()  # RFC 3261 §17.1.1.2
        else:
            again.interval_s = self._t2_s  # RFC 3261 §17.1.2.2

    def ended(self, pending: Pending, ack: bytes) -> None:
        """A final response ended it; ``ack`` is what an INVITE's was answered with."""
        assert pending.connection is not None
        kept = self._invites if pending.request.method == "INVITE" else self._others
        now = clock()
        what = _Ended(pending.connection, pending.request.method, ack, now)
        kept.put(pending.branch, what, now)

    def absorbs_response(self, response: Response, branch: str, way: Way) -> bool:
        """Whether it came before, for a transaction that is over; counted then."""
        kept = self._invites if response.method == "INVITE" else self._others
        found = kept.get(branch)
        if found is None or found.way is not way or found.method != response.method:
            return False
        self._count_received(_kind(response), found.at)
        if found.ack:
            way.send(found.ack)
        return True

    # server transactions

    def absorbs_request(self, request: Request, path: DatagramPath, at: float) -> bool:
        """Whether it came before: counted, and answered as the first time, if that one was."""
        method = "INVITE" if request.method == "ACK" else request.method
        key = (path.owner.address, request.branch, request.call_id, request.cseq, method)
        known = self._servers.get(key)
        if request.method == "ACK":
            return known is not None and known.status >= 300 and self._acknowledge(known, at)
        if known is None:
            self._servers.put(key, _Server(at), at)
            return False
        self._count_received(_method(method), known.at)
        answered = method == "INVITE" and 200 <= known.status < 300  # RFC 6026 §7.1: the flow's
        if known.data and not known.acknowledged and not answered:
            self._count_sent(f"{known.status} {_method(method)}", at, known.at)
            path.send(known.data)
        return True

    def answered(self, path: DatagramPath, response: Response, data: bytes) -> None:
        """A response was sent: it is what a repeated request gets, and Timer G may run."""
        address = path.owner.address
        key = (address, response.branch, response.call_id, response.cseq, response.method)
        now = clock()
        server = self._servers.get(key) or _Server(now)
        server.status, server.data = response.status, data
        self._servers.put(key, server, now)
        if response.method == "INVITE" and response.status >= 300 and server.again is None:
            server.again = Again(_kind(response), path, data, self._t1_s, self._t2_s)
            self._start(server.again)
            self._loop.call_at(now + 64 * self._t1_s, self._on_timer_h, server)

    def _acknowledge(self, server: _Server, at: float) -> bool:
        if server.acknowledged:
            self._count_received("ACK", at)
            return True
        server.acknowledged = True
        if server.again is not None:
            server.again.stop()
        return False

    def _on_timer_h(self, server: _Server) -> None:
        if not server.acknowledged:
            assert server.again is not None
            server.again.stop()
            self._events[f"ack_missing: {server.status}"] += 1

    # sending again

    def _start(self, again: Again) -> None:
        again.timer = self._loop.call_at(again.due_at, self._send_again, again)

    def _send_again(self, again: Again) -> None:
        if again.way.state != "open":
            again.stop()
            return
        self._count_sent(again.kind, again.due_at, again.sent_at)
        again.sent_at = now = clock()
        again.interval_s = min(2 * again.interval_s, again.longest_s)
        again.due_at = now + again.interval_s
        self._start(again)  # first: what cannot be sent may end it
        again.way.send(again.data)

    def _count_sent(self, kind: str, due_at: float, since: float) -> None:
        self._events[f"retransmission sent: {kind}"] += 1
        if clock() - due_at > self._late_s or self._loop.was_late_since(since):
            self._events[f"retransmission sent late: {kind}"] += 1

    def _count_received(self, kind: str, since: float) -> None:
        self._events[f"retransmission received: {kind}"] += 1
        if self._loop.was_late_since(since):
            self._events[f"retransmission received late: {kind}"] += 1


def _method(method: str) -> str:
    return method if method in METHODS else "other request"


def _kind(response: Response) -> str:
    return f"{response.status} {response.method}"
