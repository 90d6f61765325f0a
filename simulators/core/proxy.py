"""A stateful proxy between phones: each transaction's two ends, joined (RFC 3261 §16, §17; RFC 6026).

A request comes in, is answered or forwarded to one phone; responses go back by the Vias it brought.

waiting       INVITE forwarded: Timer B, 32 s                    other: Timer F, 32 s
provisional   1xx passed: Timer C from the last one; a CANCEL may follow
final         INVITE: 2xx repeated until the ACK pass on (RFC 6026 §7.1), other finals wait for the ACK
              (Timer H); gone after 32 s                         other: gone at once, as on any reliable
              transport (Timer J is 0)

Nothing is retransmitted here: UDP is made reliable below (``unreliable``).
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from imsbench.protocol.sip import (
    Header,
    Request,
    Response,
    ack_for_failure,
    response_to,
    serialize_message,
)
from simulators.core.answer import Answer
from simulators.core.calls import Call
from simulators.core.impairment import Impairment
from simulators.core.phones import Phone
from simulators.core.relay import mark_source, outgoing, returning
from simulators.core.settings import CoreSettings
from simulators.core.ways import Way

TRANSACTION_S = 32.0
"""64·T1: Timers B, F, H, L and M (RFC 3261 §17, RFC 6026 §8)."""

Progress = Literal["waiting", "provisional", "final"]


class Ways(Protocol):
    """How bytes reach a phone."""

    def deliver(self, phone: Phone, data: bytes, on_failed: Callable[[], None]) -> None:
        """Send to a phone by the P-CSCF's own connection, with ipsec off by the phone's."""
        ...

    def via(self, branch: str) -> str:
        """A Via value of this P-CSCF."""
        ...


class Transaction:
    """A request of one phone, and what became of it."""

    __slots__ = (
        "acknowledged", "branch", "call", "cancelled", "connection", "forwarded", "last", "offer",
        "on_final", "on_response", "phone", "progress", "request", "status", "target", "timer",
        "timer_c", "to_tag", "vias",
    )  # fmt: skip

    def __init__(self, connection: Way, phone: Phone, request: Request, branch: str):
        self.request = request
        self.connection = connection
        """Where it came from; its responses go there."""
        self.phone = phone
        """Who sent it."""
        mark_source(request, connection.peer_address, connection.peer_port)
        self.vias: list[Header] = [header for header in request.headers if header[0] == "via"]
        """Vias of its responses."""
        self.acknowledged = False
        """Whether the ACK to a final status of 300 or more came."""
        self.offer = b""
        """The SDP offer of the request, until it is answered."""
        self.to_tag = ""
        """To tag of our own responses."""
        self.call: Call | None = None
        self.branch = branch
        """Of the forwarded request."""
        self.target: Phone | None = None
        """Who it was forwarded to."""
        self.forwarded: Request | None = None
        """The INVITE as forwarded, for its CANCEL and ACK."""
        self.progress: Progress = "waiting"
        """What the target has answered."""
        self.status = 0
        """The final status sent to the phone; 0: none yet."""
        self.last = b""
        """The last response sent to the phone."""
        self.cancelled = False
        """Whether it shall end: by the phone's CANCEL, by Timer C, by a release."""
        self.timer: asyncio.TimerHandle | None = None
        self.timer_c: float = 0.0
        """When Timer C fires, on the loop's clock; moved by each provisional response."""
        self.on_response: Callable[[Transaction, Response], None] | None = None
        """Given each response but 100; it relays them or not. None: all are relayed."""
        self.on_final: Callable[[Transaction, int], None] | None = None
        """Told the first final status that was sent to the phone."""

    @property
    def is_invite(self) -> bool:
        """Whether it is an INVITE transaction."""
        return self.request.method == "INVITE"


class Proxy:
    """All transactions between phones."""

    def __init__(
        self, settings: CoreSettings, ways: Ways, impairment: Impairment, counters: Counter[str]
    ) -> None:
        self._ways = ways
        self._impairment = impairment
        self._counters = counters
        self._timer_c_s = settings.timer_c_s
        self._random = random.Random(f"proxy|{settings.seed}")
        self._prefix = f"z9hG4bKp{self._random.getrandbits(40):010x}"
        self._number = 0
        self._servers: dict[tuple[str, str, str], Transaction] = {}
        self._clients: dict[str, Transaction] = {}

    # -- requests of phones

    def find(self, phone: Phone, branch: str, method: str) -> Transaction | None:
        """The transaction of a phone's request with this branch (RFC 3261 §17.2.3)."""
        return self._servers.get((phone.impi, branch, method))

    def open(self, connection: Way, phone: Phone, request: Request) -> Transaction:
        """A new transaction; it must be answered or forwarded."""
        transaction = Transaction(connection, phone, request, self.new_branch())
        self._servers[phone.impi, request.branch, request.method] = transaction
        return transaction

    def repeat(self, transaction: Transaction) -> None:
        """The phone sent its request again: so is the last response (RFC 3261 §17.2.1)."""
        self._counters["retransmitted requests"] += 1
        if transaction.last:
            self._write(transaction, transaction.last)

    def acknowledged(self, transaction: Transaction) -> None:
        """The ACK to a final response of 300 or more came."""
        transaction.acknowledged = True
        if transaction.target is None or transaction.progress == "final":
            self.forget(transaction)

    def new_branch(self) -> str:
        """A branch that no other request has."""
        self._number += 1
        return f"{self._prefix}{self._number:x}"

    # -- forwarding

    def forward(
        self,
        transaction: Transaction,
        target: Phone,
        uri: str,
        hops: int,
        added: Sequence[Header] = (),
    ) -> None:
        """Send the request to a phone and wait for its responses."""
        branch = transaction.branch
        request = outgoing(transaction.request, uri, self._ways.via(branch), branch, hops, added)
        transaction.target = target
        self._clients[branch] = transaction
        if transaction.is_invite:
            transaction.forwarded = request
        self._wait(transaction, TRANSACTION_S)
        self._deliver(target, request, lambda: self._unreachable(transaction))

    def pass_on(self, request: Request, target: Phone, uri: str, hops: int) -> None:
        """Forward an ACK: nothing comes back (RFC 3261 §16.11)."""
        branch = self.new_branch()
        passed = outgoing(request, uri, self._ways.via(branch), branch, hops)
        self._deliver(target, passed, lambda: None)

    def send(self, request: Request, target: Phone) -> None:
        """An ACK of our own: nothing comes back."""
        branch = self.new_branch()
        request.headers.insert(0, ("via", self._ways.via(branch)))
        self._deliver(target, request, lambda: None)

    def cancel(self, transaction: Transaction) -> None:
        """End a forwarded INVITE; not before its first provisional response (RFC 3261 §9.1)."""
        if transaction.cancelled or transaction.progress == "final":
            return
        transaction.cancelled = True
        if transaction.progress == "provisional":
            self._send_cancel(transaction)

    def _send_cancel(self, transaction: Transaction) -> None:
        invite, target = transaction.forwarded, transaction.target
        assert invite is not None
        assert target is not None
        kept = [invite.headers[0]]
        kept += [h for h in invite.headers if h[0] in ("max-forwards", "from", "to", "call-id")]
        kept.append(("cseq", f"{invite.cseq} CANCEL"))
        cancel = Request(
            "CANCEL", invite.uri, kept,
            branch=invite.branch, call_id=invite.call_id, cseq=invite.cseq,
        )  # fmt: skip
        self._wait(transaction, TRANSACTION_S)
        self._deliver(target, cancel, lambda: None)

    def _deliver(self, target: Phone, request: Request, on_failed: Callable[[], None]) -> None:
        self._counters[f"sent {request.method}"] += 1
        self._ways.deliver(target, serialize_message(request), on_failed)

    def _unreachable(self, transaction: Transaction) -> None:
        """RFC 3261 §16.9: as a 503 of the next hop, which is a 500 here (§16.7 step 6)."""
        self._counters["phones unreachable"] += 1
        transaction.progress = "final"
        self.refuse(transaction, Answer(500, [_warning("no connection to the called phone")]))

    # -- responses of phones

    def on_response(self, response: Response) -> bool:
        """Serve a response to a forwarded request; False if it belongs to none."""
        transaction = self._clients.get(response.branch)
        if transaction is None:
            return False
        if response.method != transaction.request.method:  # that of a CANCEL
            return response.method == "CANCEL"
        if response.status < 200:
            self._on_provisional(transaction, response)
        else:
            self._on_final(transaction, response)
        return True

    def _on_provisional(self, transaction: Transaction, response: Response) -> None:
        if transaction.progress == "final":
            self._counters["provisional responses after the final one"] += 1
            return
        first = transaction.progress == "waiting"
        transaction.progress = "provisional"
        if transaction.is_invite:
            loop = asyncio.get_running_loop()
            transaction.timer_c = loop.time() + self._timer_c_s
            if first and transaction.cancelled:
                self._send_cancel(transaction)
            elif first:
                self._wait(transaction, self._timer_c_s)
        if response.status > 100:
            self._hand_over(transaction, response)

    def _on_final(self, transaction: Transaction, response: Response) -> None:
        failed = transaction.is_invite and response.status >= 300
        if failed and transaction.forwarded is not None and transaction.target is not None:
            ack = ack_for_failure(transaction.forwarded, response)
            self._deliver(transaction.target, ack, lambda: None)
        if transaction.progress == "final" and (failed or not transaction.is_invite):
            self._counters["retransmitted final responses"] += 1
            return
        transaction.progress = "final"
        self._hand_over(transaction, response)
        if transaction.acknowledged:
            self.forget(transaction)

    def _hand_over(self, transaction: Transaction, response: Response) -> None:
        if transaction.on_response is not None:
            transaction.on_response(transaction, response)
        else:
            self.relay(transaction, response)

    # -- responses to phones

    def relay(
        self,
        transaction: Transaction,
        response: Response,
        routes: Sequence[Header] = (),
        asserted: Sequence[Header] = (),
    ) -> None:
        """Send a response of the target to the phone, unless a final one went already."""
        if transaction.status and not (
            transaction.is_invite
            and 200 <= transaction.status < 300
            and 200 <= response.status < 300
        ):
            return
        self._respond(transaction, returning(response, transaction.vias, routes, asserted))

    def refuse(self, transaction: Transaction, answer: Answer) -> None:
        """Answer the request ourselves, unless it has its final response."""
        if transaction.status:
            return
        if answer.status > 100 and not transaction.to_tag:
            transaction.to_tag = f"{self._random.getrandbits(48):012x}"
        response = response_to(
            transaction.request, answer.status, answer.reason,
            to_tag=transaction.to_tag, headers=answer.headers,
        )  # fmt: skip
        others = [header for header in response.headers if header[0] != "via"]
        response.headers = [*transaction.vias, *others]
        self._respond(transaction, response)

    def _respond(self, transaction: Transaction, response: Response) -> None:
        status = response.status
        self._counters[f"sent {status} {response.method}"] += 1
        data = transaction.last = serialize_message(response)
        if not self._impairment.send(response.method, status, self._write, transaction, data):
            transaction.connection.lose(data)
        if status >= 200 and not transaction.status:
            transaction.status = status
            self._finished(transaction, status)

    def _write(self, transaction: Transaction, data: bytes) -> None:
        """Back on the connection of the request, else by one to the phone (RFC 3261 §18.2.2)."""
        if not transaction.connection.write(data):
            self._ways.deliver(transaction.phone, data, lambda: None)

    def _finished(self, transaction: Transaction, status: int) -> None:
        if transaction.is_invite:
            self._wait(transaction, TRANSACTION_S)
        else:
            self.forget(transaction)
        if transaction.on_final is not None:
            transaction.on_final(transaction, status)

    # -- time

    def _wait(self, transaction: Transaction, seconds: float) -> None:
        if transaction.timer is not None:
            transaction.timer.cancel()
        loop = asyncio.get_running_loop()
        transaction.timer = loop.call_later(seconds, self._on_timer, transaction)

    def _on_timer(self, transaction: Transaction) -> None:
        transaction.timer = None
        if transaction.status:
            if transaction.status >= 300 and not transaction.acknowledged:
                self._counters["ACKs missing"] += 1
            self.forget(transaction)
            return
        if transaction.progress == "provisional" and transaction.is_invite:
            left_s = transaction.timer_c - asyncio.get_running_loop().time()
            if not transaction.cancelled:
                if left_s > 0:  # a later 1xx has moved it
                    self._wait(transaction, left_s)
                    return
                self._counters["Timer C"] += 1
                self.cancel(transaction)
                return
        self._counters[f"requests not answered by phones: {transaction.request.method}"] += 1
        transaction.progress = "final"
        self.refuse(transaction, Answer(408))

    def forget(self, transaction: Transaction) -> None:
        """It is over, or shall get no answer."""
        if transaction.timer is not None:
            transaction.timer.cancel()
            transaction.timer = None
        request = transaction.request
        transaction.forwarded, transaction.last = None, b""  # its call may last long
        self._servers.pop((transaction.phone.impi, request.branch, request.method), None)
        if transaction.target is not None:
            self._clients.pop(transaction.branch, None)

    def close(self) -> None:
        """Stop all timers."""
        for transaction in list(self._servers.values()):
            self.forget(transaction)


def _warning(text: str) -> Header:
    return ("warning", f'399 reference-core "{text}"')
