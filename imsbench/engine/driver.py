"""The driver: carries out the actions that call flows ask for, and resumes the flows.

Theory of operation:

* A flow in progress is a ``Task``: the coroutine, the phone it belongs to and what to call when it
  has ended. An idle phone has none. A call's flow owns its dialog and has a mailbox: responses to
  what it sent, requests of the dialog, and ends of transactions wait there until it asks.
* ``start`` runs the flow to its first action. Every action either ends at once (its answer goes
  straight back into the flow, in a loop, not by recursion) or leaves the task waiting for exactly
  one thing: a response, a dialog's request, or connections to close.
* A response goes to the task that waits on its branch (RFC 3261 §17.1.3). A request goes to the
  phone's own ``on_request``, which answers it; a flow that waits for a request of that dialog is
  then resumed, and if it is not waiting yet the arrival is kept for it.
* Every wait has a deadline. Transactions by the hundred that never time out should not cost a timer
  each, so those deadlines are swept every ``SWEEP_S``; a timeout is late by that much at most, which
  is little beside its 32 s. A connection that ends fails the transactions on it at once
  (RFC 3261 §8.1.3.1), so that a flow never waits for a response that cannot come.
* The driver counts what happens on connections in ``events``; nothing here knows a profile, a KPI,
  or which flow it runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from math import inf
from typing import Any

from imsbench.engine.connection import Connection, cause_of
from imsbench.engine.connections import Connections, Endpoint, EngineSettings
from imsbench.engine.loop import Loop, clock
from imsbench.engine.tasks import CANCEL_MARK, METHODS, Answer, Closing, Flow, OnDone, Pending, Task
from imsbench.host.backend import BackendError, SaBackend
from imsbench.phone.actions import (
    Accept,
    Channel,
    Close,
    Ended,
    Event,
    Exchange,
    FlowError,
    Incoming,
    Next,
    Protect,
    Receive,
    Send,
    Timeout,
    TransportError,
    Unprotect,
)
from imsbench.protocol.sip import (
    Malformed,
    Request,
    Response,
    ack_for_failure,
    serialize_message,
)

SWEEP_S = 0.05
"""How often the deadlines of transactions are looked at, seconds."""


class Driver:
    """Runs the flows of one worker's phones on one loop."""

    def __init__(
        self,
        loop: Loop,
        settings: EngineSettings,
        backend: SaBackend | None,
        find_endpoint: Callable[[str], Endpoint | None],
        answer: Answer,
    ) -> None:
        self.loop = loop
        self.events: Counter[str] = Counter()
        """What happened on connections and with messages, by name."""
        self.messages: Counter[str] = Counter()
        """Messages by direction, status and method: "-> INVITE", "<- 183 INVITE"; without what is sent
        again for want of an acknowledgement.
        """
        self.connections = Connections(
            loop, settings, backend, find_endpoint, self._on_readable, self._on_closed, self.events
        )
        self._settings = settings
        self._backend = backend
        self._answer = answer
        self._pending: dict[str, Pending] = {}
        self._owners: dict[tuple[str, str], Task] = {}
        self._receiving: dict[str, tuple[Task, float]] = {}
        self._closings: dict[Connection, Closing] = {}
        loop.call_at(clock() + SWEEP_S, self._sweep, None)

    def open(self) -> None:
        """Attach the backend and listen on the protected server port; OSError if it is taken."""
        if self._backend is not None:
            self._backend.attach(self.loop.add_reader)
            self.connections.listen()

    def start(self, flow: Flow, endpoint: Endpoint, on_done: OnDone, call_id: str = "") -> None:
        """Run a flow; ``on_done`` is called once, when it has ended.

        With a Call-ID it owns that dialog of this phone: its requests come to the flow's mailbox.
        """
        self._resume(self._own(Task(flow, endpoint, on_done, call_id)), None, None)

    def close(self) -> None:
        """End everything at once: flows in progress unfinished, connections by a RST."""
        for task in {pending.task for pending in self._pending.values()} | set(
            self._owners.values()
        ):
            task.flow.close()
        for task, _deadline in self._receiving.values():
            task.flow.close()
        for closing in self._closings.values():
            closing.task.flow.close()
        self._pending.clear()
        self._owners.clear()
        self._receiving.clear()
        self._closings.clear()
        self.connections.close()

    @property
    def transactions(self) -> int:
        """Requests that wait for their response now."""
        return len(self._pending)

    # flows

    def _resume(self, task: Task, answer: Any, error: FlowError | None) -> None:
        """Give the flow its answer and carry out what it asks for, until it has to wait."""
        task.waits = None
        while True:
            try:
                action = task.flow.send(answer) if error is None else task.flow.throw(error)
            except StopIteration:
                self._end(task, None)
                return
            except Exception as problem:  # the flow's own verdict, or a defect of ours
                self._end(task, problem)
                return
            answer, error = None, None
            match action:
                case Exchange():
                    self._begin_exchange(task, action)
                    return
                case Protect():
                    error = self._protect(action)
                case Unprotect():
                    if self._backend is not None:
                        self._backend.remove(action.sas)
                case Receive():
                    self._begin_receive(task, action)
                    return
                case Close():
                    if self._begin_close(task, action):
                        return
                    answer = clock()
                case Send():
                    self._send(task, action)
                case Next():
                    if not task.mailbox:
                        self._wait_next(task, action)
                        return
                    answer = task.mailbox.popleft()
                case _:
                    task.flow.close()
                    self._end(task, TypeError(f"not an action: {action!r}"))
                    return

    def _own(self, task: Task) -> Task:
        if task.call_id:
            self._owners[task.endpoint.address, task.call_id] = task
        return task

    def _end(self, task: Task, problem: BaseException | None) -> None:
        """The flow is over: its dialog and its transactions are nobody's from now on."""
        if task.call_id:
            key = (task.endpoint.address, task.call_id)
            if self._owners.get(key) is task:
                del self._owners[key]
        for pending in list(task.sent):
            self._forget(pending)
        task.on_done(task.endpoint, problem)

    def _deliver(self, task: Task, event: Event) -> None:
        """An event for the mailbox; a flow that waits for one is resumed."""
        if type(task.waits) is not Next:
            task.mailbox.append(event)
            return
        if task.timer is not None:
            task.timer.cancel()
            task.timer = None
        self._resume(task, event, None)

    def _wait_next(self, task: Task, action: Next) -> None:
        task.waits = action
        if action.timeout_s is not None:
            when = clock() + action.timeout_s
            task.timer = self.loop.call_at(when, self._on_next_timeout, task)

    def _on_next_timeout(self, task: Task) -> None:
        task.timer = None
        self._resume(task, None, None)

    def _send(self, task: Task, action: Send) -> None:
        message = action.message
        action.started_at = now = clock()
        if isinstance(message, Response):
            self._send_response(task, action, message)
        elif message.method == "ACK":
            self._send_ack(task, action, message)
        else:
            pending = Pending(task, action, message, now)
            task.sent.append(pending)
            self._transmit(pending, action.channel)

    def _send_response(self, task: Task, action: Send, message: Response) -> None:
        assert action.incoming is not None
        way: Connection = action.incoming.way
        if way.state in ("open", "connecting"):
            self.messages[f"-> {message.status} {message.method}"] += 1
            way.send(serialize_message(message), action)
        else:
            self.events["response_without_connection"] += 1
        if action.repeat_s:
            t1 = self._settings.t1_s
            again = (task, action, t1, action.started_at + action.repeat_s)
            self.loop.call_at(action.started_at + t1, self._repeat, again)

    def _repeat(self, what: tuple[Task, Send, float, float]) -> None:
        """RFC 3261 §13.3.1.4 (2xx: doubling up to T2), RFC 3262 §3 (reliable 1xx: doubling)."""
        task, action, interval_s, deadline = what
        if action.settled or action.incoming is None:
            return
        now = clock()
        if now >= deadline:
            self._deliver(task, Ended(action, Timeout("timeout", "never acknowledged", now)))
            return
        message = action.message
        assert isinstance(message, Response)
        self.events[f"repeated_{'2xx' if message.status >= 200 else '1xx'}"] += 1
        if action.incoming.way.state == "open":
            action.incoming.way.send(serialize_message(message))
        interval_s *= 2
        if message.status >= 200:
            interval_s = min(interval_s, self._settings.t2_s)
        again = (task, action, interval_s, deadline)
        self.loop.call_at(min(now + interval_s, deadline), self._repeat, again)

    def _send_ack(self, task: Task, action: Send, message: Request) -> None:
        assert action.channel is not None
        try:
            self._connection_of(action.channel, task.endpoint).send(
                serialize_message(message), action
            )
            self.messages["-> ACK"] += 1
        except OSError as error:
            self.events[f"ack not sent: {cause_of(error)}"] += 1

    def _begin_exchange(self, task: Task, action: Exchange) -> None:
        action.started_at = now = clock()
        pending = Pending(task, action, action.request, now)
        task.waits = pending
        self._transmit(pending, action.channel)

    def _transmit(self, pending: Pending, channel: Channel | None) -> None:
        """Send the request of a client transaction, on its channel's connection."""
        assert channel is not None
        self._pending[pending.branch] = pending
        try:
            connection = self._connection_of(channel, pending.task.endpoint)
        except OSError as error:
            # From the loop, not from here: a flow is never resumed while it is being started.
            failure = TransportError(cause_of(error), str(error))
            self.loop.call_at(clock(), self._fail, (pending, failure))
            return
        pending.connection = connection
        connection.pending.append(pending)
        self.messages[f"-> {pending.request.method}"] += 1
        connection.send(serialize_message(pending.request), pending.action)

    def _connection_of(self, channel: Channel, endpoint: Endpoint) -> Connection:
        connection: Connection | None = channel.connection
        if connection is None or connection.state in ("closing", "closed"):
            return self.connections.connect(channel, endpoint)
        return connection

    def _protect(self, action: Protect) -> FlowError | None:
        if self._backend is None:
            return TransportError("sa refused", "no IPsec backend in this run", clock())
        try:
            self._backend.install(action.sas)
        except BackendError as error:
            self.events["sa_install_failed"] += 1
            return TransportError("sa refused", str(error), clock())
        return None

    def _begin_receive(self, task: Task, action: Receive) -> None:
        task.waits = action
        self._receiving[action.call_id] = (task, clock() + action.timeout_s)

    def _begin_close(self, task: Task, action: Close) -> bool:
        """Half-close what is open; False if there is nothing to wait for."""
        connections: list[Connection] = []
        if action.channel is not None and action.channel.connection is not None:
            connections.append(action.channel.connection)
        if action.accepted_for is not None:
            connections += self.connections.accepted_by(action.accepted_for, action.remote_port)
        if action.timeout_s <= 0:
            for connection in connections:
                connection.abort()
            return False
        closing = Closing(task, set(connections))
        for connection in connections:
            self._closings[connection] = closing
            connection.half_close()
        if not closing.left:
            return False
        task.waits = closing
        closing.timer = self.loop.call_at(
            clock() + action.timeout_s, self._on_close_timeout, closing
        )
        return True

    # timers

    def _sweep(self, _argument: object) -> None:
        """End the waits whose deadline has passed."""
        now = clock()
        for pending in [p for p in self._pending.values() if p.deadline <= now]:
            action = pending.action
            never_left = action.sent_at != action.sent_at  # NaN
            what = "the connection was not established" if never_left else "no final response"
            self._fail((pending, Timeout("timeout", f"{what} in {action.timeout_s:g} s")))
        for call_id in [c for c, (_, deadline) in self._receiving.items() if deadline <= now]:
            task, _deadline = self._receiving.pop(call_id)
            self._resume(task, None, Timeout("timeout", "no request in the dialog", now))
        self.loop.call_at(now + SWEEP_S, self._sweep, None)

    def _on_close_timeout(self, closing: Closing) -> None:
        self.events["close_timeout"] += len(closing.left)
        for connection in list(closing.left):
            connection.reset("close timeout")

    def _on_closed(self, connection: Connection, cause: str) -> None:
        """Fail what waits on the connection, and tell a Close that waits for it."""
        pending, connection.pending = connection.pending, []
        for transaction in pending:
            self._fail((transaction, TransportError(cause, "the connection ended")))
        closing = self._closings.pop(connection, None)
        if closing is None:
            return
        closing.left.discard(connection)
        if closing.left or closing.task.waits is not closing:
            return
        if closing.timer is not None:
            closing.timer.cancel()
        self._resume(closing.task, clock(), None)

    # messages

    def _on_readable(self, connection: Connection, data: bytes) -> None:
        at = clock()
        connection.last_used_at = at
        reader = connection.reader
        pings, pongs = reader.pings, reader.pongs
        for message in reader.feed(data):
            if type(message) is Response:
                message.at = at
                self._on_response(message, connection)
            elif type(message) is Request:
                method = message.method if message.method in METHODS else "other request"
                self.messages[f"<- {method}"] += 1
                self._on_request(message, connection, at)
            elif type(message) is Malformed:
                self._on_malformed(message, connection)
        if connection.state in ("open", "closing"):
            if reader.broken:
                connection.reset("malformed stream")
            elif reader.pings != pings:  # RFC 5626 §4.4.1: a ping is answered by a pong
                self.events["pings_answered"] += reader.pings - pings
                connection.send(b"\r\n" * (reader.pings - pings))
        if reader.pongs != pongs:
            self.events["pongs"] += reader.pongs - pongs

    def _on_response(self, response: Response, connection: Connection) -> None:
        branch = response.branch
        if response.method == "CANCEL":  # RFC 3261 §9.1: a CANCEL has the branch of its INVITE
            branch += CANCEL_MARK
        pending = self._pending.get(branch)
        if pending is None or pending.request.method != response.method:
            self.events["stray_responses"] += 1
            return
        self.messages[f"<- {response.status} {response.method}"] += 1
        if pending.connection is not connection:
            # A response comes back on the connection of its request (RFC 3261 §18.2.2); inside
            # SAs any other way is out of the agreement (TS 33.203 §7.1).
            self.events["response_on_another_connection"] += 1
            return
        if type(pending.action) is Send:
            self._on_response_to_send(pending, response)
        elif response.status < 200:
            self.events["provisional_responses"] += 1
        else:
            self._forget(pending)
            self._resume(pending.task, response, None)

    def _on_response_to_send(self, pending: Pending, response: Response) -> None:
        invite = pending.request.method == "INVITE"
        if response.status < 200:
            if invite:
                pending.deadline = inf  # RFC 3261 §17.1.1.2: Timer B ends with the first response
        elif invite and response.status < 300:
            pending.deadline = inf  # RFC 6026: repeated and forked 2xx are the flow's to answer
        else:
            if invite:
                ack = ack_for_failure(pending.request, response)
                assert pending.connection is not None
                self.messages["-> ACK"] += 1
                pending.connection.send(serialize_message(ack))
            self._forget(pending)
        self._deliver(pending.task, response)

    def _on_request(self, request: Request, connection: Connection, at: float) -> None:
        channel = connection.channel
        protected = channel.protected if channel is not None else True
        incoming = Incoming(request, at, connection, protected=protected)
        owner = self._owners.get((connection.owner.address, request.call_id))
        if owner is not None:
            self._deliver(owner, incoming)
            return
        answer = self._answer(connection.owner, incoming)
        if isinstance(answer, Accept):
            task = Task(answer.flow, connection.owner, answer.on_done, request.call_id)
            task.mailbox.append(incoming)
            self._resume(self._own(task), None, None)
            return
        if request.method != "ACK":  # RFC 3261 §17: nothing answers an ACK
            method = request.method if request.method in METHODS else "other request"
            self.messages[f"-> {answer.status} {method}"] += 1
            connection.send(serialize_message(answer))
        waiting = self._receiving.pop(request.call_id, None)
        if waiting is not None:
            self._resume(waiting[0], at, None)

    def _on_malformed(self, message: Malformed, connection: Connection) -> None:
        """Costs the attempt that waits on this connection, and nothing else."""
        self.events[f"malformed: {message.reason}"] += 1
        for pending in list(connection.pending):
            self._fail((pending, TransportError("malformed", message.reason)))

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
        self._pending.pop(pending.branch, None)
        if pending.connection is not None and pending in pending.connection.pending:
            pending.connection.pending.remove(pending)
        if pending in pending.task.sent:
            pending.task.sent.remove(pending)
