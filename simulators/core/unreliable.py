"""Transactions over UDP, below everything else: what is above may take the transport for reliable.

A request that was written is sent again until it is answered (RFC 3261 §17.1, Timers A and E); a
request that comes again is answered as before (§17.2, Timers J and L); a failure response to an INVITE
is sent again until its ACK (Timer G), and one that comes again is acknowledged again (Timer D). A
response lost as injected is lost below this: what asks for it again may get it, or lose it again.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from typing import Generic, TypeVar

from imsbench.protocol.sip import Request, Response
from simulators.core.answer import counted
from simulators.core.impairment import Impairment
from simulators.core.settings import CoreSettings

LONGEST_INVITE_S = 300.0
"""More than Timer C: until then a CANCEL, or an ACK, may follow an INVITE."""
ANSWER_S = 32.0
"""Whoever sent a request gives it up after this time (Timers B and F, 64·T1 of RFC 3261)."""

Transmit = Callable[[bytes], None]
_Client = tuple[str, str]
"""Branch and method."""
_Server = tuple[str, int, str, str, int, str]
"""Address and port of the phone, branch, Call-ID, CSeq, method."""
_K = TypeVar("_K")
_V = TypeVar("_V")


class Kept(Generic[_K, _V]):
    """A dictionary whose entries go a fixed time after they were put in."""

    def __init__(self, lifetime_s: float) -> None:
        self._lifetime_s = lifetime_s
        self._values: dict[_K, tuple[float, _V]] = {}
        self._order: deque[tuple[float, _K]] = deque()

    def put(self, key: _K, value: _V) -> None:
        """Put in, or put in again: it goes a lifetime from now."""
        now = asyncio.get_running_loop().time()
        order, values = self._order, self._values
        while order and order[0][0] <= now:
            _, old = order.popleft()
            if old in values and values[old][0] <= now:
                del values[old]
        values[key] = (now + self._lifetime_s, value)
        order.append((now + self._lifetime_s, key))

    def get(self, key: _K) -> _V | None:
        """What is there under this key."""
        found = self._values.get(key)
        return None if found is None else found[1]


class Again:
    """A message that is sent again and again, for ANSWER_S at most."""

    __slots__ = ("_interval_s", "_longest_s", "_on_again", "_timer", "_until")

    def __init__(self, on_again: Callable[[], None], interval_s: float, longest_s: float) -> None:
        loop = asyncio.get_running_loop()
        self._on_again = on_again
        self._interval_s = interval_s
        self._longest_s = longest_s
        self._until = loop.time() + ANSWER_S
        self._timer: asyncio.TimerHandle | None = loop.call_later(interval_s, self._fire)

    def slow_down(self) -> None:
        """From the next one on the longest interval (RFC 3261 §17.1.2.2)."""
        self._interval_s = self._longest_s

    def stop(self) -> None:
        """Never again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fire(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        if loop.time() >= self._until:
            return
        self._interval_s = min(2 * self._interval_s, self._longest_s)
        self._timer = loop.call_later(self._interval_s, self._fire)
        self._on_again()


class _Answered:
    """A request of a phone, and what it was answered with."""

    __slots__ = ("acknowledged", "again", "data", "status")

    def __init__(self) -> None:
        self.status = 0
        self.data = b""
        self.acknowledged = False
        self.again: Again | None = None


class Unreliable:
    """All transactions of a P-CSCF with phones over UDP."""

    def __init__(
        self, settings: CoreSettings, impairment: Impairment, counters: Counter[str]
    ) -> None:
        self._t1_s, self._t2_s, t4_s = settings.timers
        self._impairment = impairment
        self._counters = counters
        self._clients: dict[_Client, Again] = {}
        self._ended: Kept[_Client, bytes] = Kept(max(ANSWER_S, t4_s))
        self._servers: Kept[_Server, _Answered] = Kept(64 * self._t1_s)

    # -- what the core sends

    def sent_request(self, request: Request, transmit: Transmit, data: bytes) -> None:
        """A request has been sent: it is sent again until ``received`` has its response."""
        key = request.branch, request.method
        if request.method == "ACK":
            if (request.branch, "INVITE") in self._clients:  # of a failure: the INVITE's branch
                self._end((request.branch, "INVITE"), data)
            return
        longest_s = ANSWER_S if request.method == "INVITE" else self._t2_s

        def again() -> None:
            self._counters[f"retransmissions sent: {request.method}"] += 1
            transmit(data)

        client = self._clients[key] = Again(again, self._t1_s, longest_s)
        after_s = LONGEST_INVITE_S if request.method == "INVITE" else ANSWER_S
        asyncio.get_running_loop().call_later(after_s, self._give_up, key, client)

    def sent_response(
        self, response: Response, peer: tuple[str, int], transmit: Transmit, data: bytes
    ) -> None:
        """A response has been sent, or was lost as injected: it is what a repeated request gets."""
        key = (*peer, response.branch, response.call_id, response.cseq, response.method)
        answered = self._servers.get(key) or _Answered()
        answered.status, answered.data = response.status, data
        self._servers.put(key, answered)
        if response.method == "INVITE" and response.status >= 300 and answered.again is None:
            answered.again = Again(
                lambda: self._repeat(answered, response.method, transmit), self._t1_s, self._t2_s
            )

    # -- what phones send

    def absorbs(
        self, message: Request | Response, peer: tuple[str, int], transmit: Transmit
    ) -> bool:
        """Whether it came before, and has been served here; else it is the core's."""
        if isinstance(message, Response):
            return self._absorbs_response(message, transmit)
        method = "INVITE" if message.method == "ACK" else message.method
        key = (*peer, message.branch, message.call_id, message.cseq, method)
        known = self._servers.get(key)
        if message.method == "ACK":
            return known is not None and known.status >= 300 and self._acknowledge(known)
        if known is None:
            self._servers.put(key, _Answered())
            return False
        self._counters[f"retransmissions received: {counted(method)}"] += 1
        accepted = method == "INVITE" and 200 <= known.status < 300  # RFC 6026 §7.1
        if known.data and not accepted and not known.acknowledged:
            self._repeat(known, method, transmit)
        return True

    def close(self) -> None:
        """Stop all timers of requests; those of responses end by themselves."""
        for again in self._clients.values():
            again.stop()
        self._clients.clear()

    # private

    def _absorbs_response(self, response: Response, transmit: Transmit) -> bool:
        key = response.branch, response.method
        again = self._clients.get(key)
        if again is None:
            ack = self._ended.get(key)
            if ack is None or (response.method == "INVITE" and response.status < 300):
                return False
            self._counters[f"retransmissions received: {response.status} {response.method}"] += 1
            if ack:
                transmit(ack)
            return True
        if response.method == "INVITE":
            again.stop()  # its ACK, if it gets one, ends the transaction
        elif response.status < 200:
            again.slow_down()
        else:
            self._end(key, b"")
        return False

    def _end(self, key: _Client, ack: bytes) -> None:
        self._clients.pop(key).stop()
        self._ended.put(key, ack)

    def _give_up(self, key: _Client, again: Again) -> None:
        if self._clients.get(key) is again:
            self._end(key, b"")

    def _acknowledge(self, answered: _Answered) -> bool:
        if answered.acknowledged:
            self._counters["retransmissions received: ACK"] += 1
            return True
        answered.acknowledged = True
        if answered.again is not None:
            answered.again.stop()
        return False

    def _repeat(self, answered: _Answered, method: str, transmit: Transmit) -> None:
        self._counters[f"retransmissions sent: {answered.status} {counted(method)}"] += 1
        self._impairment.send(method, answered.status, transmit, answered.data)
