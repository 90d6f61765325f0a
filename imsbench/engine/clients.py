"""Client transactions: requests of phones, from their first byte to the final response (RFC 3261 §17.1).

A response belongs to the transaction of its branch, and to the way its request went: one that comes on
another is counted and left. Deadlines (Timers B and F) are swept, not one timer each: transactions by
the hundred that never time out should not cost one. What ends a way fails the transactions on it at
once (§8.1.3.1, §18.4).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from math import inf
from typing import Any

from imsbench.engine.connection import REFUSED, Connection, cause_of
from imsbench.engine.connections import Connections, Endpoint
from imsbench.engine.datagrams import DatagramPath, Datagrams, by_udp, by_udp_nevertheless
from imsbench.engine.loop import Loop, clock
from imsbench.engine.tasks import CANCEL_MARK, Pending, Task
from imsbench.engine.unreliable import Unreliable, Way
from imsbench.phone.actions import (
    Channel,
    Ended,
    Event,
    Exchange,
    FlowError,
    Send,
    Timeout,
    TransportError,
)
from imsbench.protocol.sip import Request, Response, ack_for_failure, serialize_message


class Clients:
    """The client transactions of one worker's phones."""

    def __init__(
        self,
        loop: Loop,
        connections: Connections,
        datagrams: Datagrams,
        unreliable: Unreliable,
        resume: Callable[[Task, Any, FlowError | None], None],
        deliver: Callable[[Task, Event], None],
        events: Counter[str],
        messages: Counter[str],
    ) -> None:
        """resume: told the end of an Exchange; deliver: all that comes to a Send."""
        self._loop = loop
        self._connections = connections
        self._datagrams = datagrams
        self._unreliable = unreliable
        self._resume = resume
        self._deliver = deliver
        self._events = events
        self._messages = messages
        self._pending: dict[str, Pending] = {}

    def __len__(self) -> int:
        return len(self._pending)

    def begin(
        self, task: Task, action: Exchange | Send, request: Request, channel: Channel
    ) -> Pending:
        """Send a request on its channel, and wait for its responses."""
        pending = Pending(task, action, request, action.started_at)
        self._pending[pending.branch] = pending
        try:
            way, data = self._way_of(channel, task.endpoint, request)
        except OSError as error:
            # From the loop, not from here: a flow is never resumed while it is being started.
            failure = TransportError(cause_of(error), str(error))
            self._loop.call_at(clock(), self._fail, (pending, failure))
            return pending
        pending.connection = way
        way.pending.append(pending)
        self._messages[f"-> {request.method}"] += 1
        way.send(data, action)
        if not way.reliable:
            self._unreliable.begin(pending, data)
        return pending

    def send_ack(self, task: Task, action: Send, ack: Request) -> None:
        """Send an ACK to a 2xx, which opens no transaction (RFC 3261 §13.2.2.4)."""
        assert action.channel is not None
        try:
            way, data = self._way_of(action.channel, task.endpoint, ack)
        except OSError as error:
            self._events[f"ack not sent: {cause_of(error)}"] += 1
            return
        self._messages["-> ACK"] += 1
        way.send(data, action)

    def on_response(self, response: Response, way: Way) -> None:
        """A response was read on a connection or by UDP."""
        branch = response.branch
        if response.method == "CANCEL":  # RFC 3261 §9.1: a CANCEL has the branch of its INVITE
            branch += CANCEL_MARK
        pending = self._pending.get(branch)
        if pending is None or pending.request.method != response.method:
            if way.reliable or not self._unreliable.absorbs_response(response, branch, way):
                self._events["stray_responses"] += 1
            return
        self._messages[f"<- {response.status} {response.method}"] += 1
        if pending.connection is not way:
            # A response comes back on the connection of its request (RFC 3261 §18.2.2); inside
            # SAs any other way is out of the agreement (TS 33.203 §7.1).
            self._events["response_on_another_connection"] += 1
            return
        if type(pending.action) is Send:
            self._on_response_to_send(pending, response)
        elif response.status < 200:
            self._events["provisional_responses"] += 1
            self._unreliable.progressed(pending)
        else:
            self._finish(pending)
            self._resume(pending.task, response, None)

    def sweep(self, now: float) -> None:
        """End the transactions whose deadline has passed."""
        for pending in [p for p in self._pending.values() if p.deadline <= now]:
            action = pending.action
            never_left = action.sent_at != action.sent_at  # NaN
            what = "the connection was not established" if never_left else "no final response"
            self._fail((pending, Timeout("timeout", f"{what} in {action.timeout_s:g} s")))

    def on_closed(self, way: Way, cause: str) -> None:
        """A way has ended: what waits on it fails, or goes by UDP if only its length kept it from there."""
        if cause == REFUSED and way.channel is not None and way.channel.udp is not None:
            for pending in [one for one in way.pending if way.reliable]:
                self._retry_by_udp(pending, way.channel)
        self.fail_all(way, TransportError(cause, "the connection ended"))

    def fail_all(self, way: Way, error: FlowError) -> None:
        """Fail what waits on a way."""
        for pending in list(way.pending):
            self._fail((pending, type(error)(error.cause, error.detail)))

    def on_path_failed(self, path: DatagramPath, cause: str) -> None:
        """An ICMP error, or what could not be sent: a transport failure (RFC 3261 §18.4)."""
        self._events[f"datagram {cause}"] += 1
        for pending in path.pending:
            # From the loop, as this may be within the sending of one of them.
            failure = TransportError(cause, "an ICMP error came, or sending failed")
            self._loop.call_at(clock(), self._fail, (pending, failure))

    def forget(self, task: Task) -> None:
        """A flow has ended: what it still has under way is nobody's."""
        for pending in list(task.sent):
            self._forget(pending)

    def take_all(self) -> set[Task]:
        """The tasks that wait, which are left to the caller."""
        tasks = {pending.task for pending in self._pending.values()}
        self._pending.clear()
        return tasks

    # private

    def _way_of(self, channel: Channel, endpoint: Endpoint, request: Request) -> tuple[Way, bytes]:
        """Where a request goes now, opened if need be, and its bytes; OSError if it cannot be."""
        if channel.udp is None:
            data = serialize_message(request)
        else:
            data, datagram = by_udp(request)
            if datagram:
                return self._datagrams.path(channel, endpoint), data
        connection: Connection | None = channel.connection
        if connection is None or connection.state in ("closing", "closed"):
            connection = self._connections.connect(channel, endpoint)
        return connection, data

    def _retry_by_udp(self, pending: Pending, channel: Channel) -> None:
        """A request over 1,300 bytes whose TCP connection was refused (RFC 3261 §18.1.1: SHOULD)."""
        assert pending.connection is not None
        try:
            path = self._datagrams.path(channel, pending.task.endpoint)
        except OSError:
            return  # it fails with the connection that it was meant for
        self._events["large request by UDP: TCP was refused"] += 1
        pending.connection.pending.remove(pending)
        pending.connection = path
        path.pending.append(pending)
        data = by_udp_nevertheless(pending.request)
        path.send(data, pending.action)
        self._unreliable.begin(pending, data)

    def _on_response_to_send(self, pending: Pending, response: Response) -> None:
        invite = pending.request.method == "INVITE"
        if response.status < 200 or (invite and response.status < 300):
            self._unreliable.progressed(pending)
            if invite:
                # RFC 3261 §17.1.1.2: Timer B ends with the first response; RFC 6026: repeated and
                # forked 2xx are the flow's to answer.
                pending.deadline = inf
                pending.accepted = pending.accepted or response.status >= 200
        else:
            ack = b""
            if invite:
                ack = serialize_message(ack_for_failure(pending.request, response))
                assert pending.connection is not None
                self._messages["-> ACK"] += 1
                pending.connection.send(ack)
            self._finish(pending, ack)
        self._deliver(pending.task, response)

    def _finish(self, pending: Pending, ack: bytes = b"") -> None:
        """It has its final response."""
        if pending.again is not None:
            self._unreliable.ended(pending, ack)
        self._forget(pending)

    def _fail(self, what: tuple[Pending, FlowError]) -> None:
        pending, error = what
        if self._pending.get(pending.branch) is not pending:
            return  # answered meanwhile
        self._forget(pending)
        error.at = clock()
        if type(pending.action) is Send:
            self._deliver(pending.task, Ended(pending.action, error))
        else:
            self._resume(pending.task, None, error)

    def _forget(self, pending: Pending) -> None:
        if pending.again is not None:
            pending.again.stop()
        self._pending.pop(pending.branch, None)
        if pending.connection is not None and pending in pending.connection.pending:
            pending.connection.pending.remove(pending)
        if pending in pending.task.sent:
            pending.task.sent.remove(pending)
