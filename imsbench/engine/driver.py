"""The driver: carries out the actions that call flows ask for, and resumes the flows.

Theory of operation:

* A flow in progress is a ``_Task``: the coroutine, the phone it belongs to and what to call when it
  has ended. An idle phone has none.
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
from collections.abc import Callable, Coroutine
from typing import Any

from imsbench.engine.connection import Connection, cause_of
from imsbench.engine.connections import Connections, Endpoint, EngineSettings
from imsbench.engine.loop import Loop, Timer, clock
from imsbench.host.backend import BackendError, SaBackend
from imsbench.phone.actions import (
    Action,
    Close,
    Exchange,
    FlowError,
    Protect,
    Receive,
    Timeout,
    TransportError,
    Unprotect,
)
from imsbench.protocol.sip import Malformed, Request, Response, serialize_message

SWEEP_S = 0.05
"""How often the deadlines of transactions are looked at, seconds."""

Flow = Coroutine[Action, Any, None]
Answer = Callable[..., Response]
"""(phone, request, arrival time, protected=bool): the response; never raises for what was sent."""
OnDone = Callable[[Any, BaseException | None], None]
"""(the phone, what ended the flow: None, or the exception it let through)."""


class Pending:
    """One client transaction: a task waits for the response on a branch."""

    __slots__ = ("branch", "connection", "deadline", "exchange", "task")

    def __init__(self, branch: str, task: _Task, exchange: Exchange) -> None:
        self.branch = branch
        self.task = task
        self.exchange = exchange
        self.connection: Connection | None = None
        self.deadline = 0.0


class _Task:
    """A flow in progress."""

    __slots__ = ("endpoint", "flow", "on_done", "waits")

    def __init__(self, flow: Flow, endpoint: Endpoint, on_done: OnDone) -> None:
        self.flow = flow
        self.endpoint = endpoint
        self.on_done = on_done
        self.waits: object = None
        """What it waits for, to tell a late wake-up from a due one."""


class _Closing:
    """A Close in progress: the connections whose far end has not closed yet."""

    __slots__ = ("left", "task", "timer")

    def __init__(self, task: _Task, left: set[Connection]) -> None:
        self.task = task
        self.left = left
        self.timer: Timer | None = None


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
        self.connections = Connections(
            loop, settings, backend, find_endpoint, self._on_readable, self._on_closed, self.events
        )
        self._backend = backend
        self._answer = answer
        self._pending: dict[str, Pending] = {}
        self._receiving: dict[str, tuple[_Task, float]] = {}
        self._closings: dict[Connection, _Closing] = {}
        loop.call_at(clock() + SWEEP_S, self._sweep, None)

    def open(self) -> None:
        """Attach the backend and listen on the protected server port; OSError if it is taken."""
        if self._backend is not None:
            self._backend.attach(self.loop.add_reader)
            self.connections.listen()

    def start(self, flow: Flow, endpoint: Endpoint, on_done: OnDone) -> None:
        """Run a flow; ``on_done`` is called once, when it has ended."""
        self._resume(_Task(flow, endpoint, on_done), None, None)

    def close(self) -> None:
        """End everything at once: flows in progress unfinished, connections by a RST."""
        for pending in self._pending.values():
            pending.task.flow.close()
        for task, _deadline in self._receiving.values():
            task.flow.close()
        for closing in self._closings.values():
            closing.task.flow.close()
        self._pending.clear()
        self._receiving.clear()
        self._closings.clear()
        self.connections.close()

    @property
    def transactions(self) -> int:
        """Requests that wait for their response now."""
        return len(self._pending)

    # flows

    def _resume(self, task: _Task, answer: Any, error: FlowError | None) -> None:
        """Give the flow its answer and carry out what it asks for, until it has to wait."""
        task.waits = None
        while True:
            try:
                action = task.flow.send(answer) if error is None else task.flow.throw(error)
            except StopIteration:
                task.on_done(task.endpoint, None)
                return
            except Exception as problem:  # the flow's own verdict, or a defect of ours
                task.on_done(task.endpoint, problem)
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
                case _:
                    error = None
                    task.flow.close()
                    task.on_done(task.endpoint, TypeError(f"not an action: {action!r}"))
                    return

    def _begin_exchange(self, task: _Task, action: Exchange) -> None:
        request = action.request
        pending = Pending(request.branch, task, action)
        task.waits = pending
        self._pending[pending.branch] = pending
        action.started_at = now = clock()
        pending.deadline = now + action.timeout_s
        channel = action.channel
        connection = channel.connection
        if connection is None or connection.state in ("closing", "closed"):
            try:
                connection = self.connections.connect(channel, task.endpoint)
            except OSError as error:
                # From the loop, not from here: a flow is never resumed while it is being started.
                cause = cause_of(error)
                self.loop.call_at(now, self._fail, (pending, TransportError(cause, str(error))))
                return
        pending.connection = connection
        connection.pending.append(pending)
        connection.send(serialize_message(request), action)

    def _protect(self, action: Protect) -> FlowError | None:
        if self._backend is None:
            return TransportError("sa refused", "no IPsec backend in this run", clock())
        try:
            self._backend.install(action.sas)
        except BackendError as error:
            self.events["sa_install_failed"] += 1
            return TransportError("sa refused", str(error), clock())
        return None

    def _begin_receive(self, task: _Task, action: Receive) -> None:
        task.waits = action
        self._receiving[action.call_id] = (task, clock() + action.timeout_s)

    def _begin_close(self, task: _Task, action: Close) -> bool:
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
        closing = _Closing(task, set(connections))
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
            exchange = pending.exchange
            never_left = exchange.sent_at != exchange.sent_at  # NaN
            what = "the connection was not established" if never_left else "no final response"
            self._fail((pending, Timeout("timeout", f"{what} in {exchange.timeout_s:g} s")))
        for call_id in [c for c, (_, deadline) in self._receiving.items() if deadline <= now]:
            task, _deadline = self._receiving.pop(call_id)
            self._resume(task, None, Timeout("timeout", "no request in the dialog", now))
        self.loop.call_at(now + SWEEP_S, self._sweep, None)

    def _on_close_timeout(self, closing: _Closing) -> None:
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
        pending = self._pending.get(response.branch)
        if pending is None or pending.exchange.request.method != response.method:
            self.events["stray_responses"] += 1
            return
        if pending.connection is not connection:
            # A response comes back on the connection of its request (RFC 3261 §18.2.2); inside
            # SAs any other way is out of the agreement (TS 33.203 §7.1).
            self.events["response_on_another_connection"] += 1
            return
        if response.status < 200:
            self.events["provisional_responses"] += 1
            return
        self._forget(pending)
        self._resume(pending.task, response, None)

    def _on_request(self, request: Request, connection: Connection, at: float) -> None:
        channel = connection.channel
        protected = channel.protected if channel is not None else True
        response = self._answer(connection.owner, request, at, protected=protected)
        if request.method != "ACK":  # RFC 3261 §17: nothing answers an ACK
            connection.send(serialize_message(response))
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
        self._resume(pending.task, None, error)

    def _forget(self, pending: Pending) -> None:
        del self._pending[pending.branch]
        if pending.connection is not None and pending in pending.connection.pending:
            pending.connection.pending.remove(pending)
