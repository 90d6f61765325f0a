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
from typing import Any

from imsbench.engine.clients import Clients
from imsbench.engine.closings import Closings
from imsbench.engine.connection import Connection
from imsbench.engine.connections import Connections, Endpoint, EngineSettings
from imsbench.engine.datagrams import DatagramPath, Datagrams
from imsbench.engine.loop import Loop, clock
from imsbench.engine.repeats import Repeats
from imsbench.engine.replies import Replies
from imsbench.engine.tasks import METHODS, Answer, Flow, OnDone, Task
from imsbench.engine.unreliable import Unreliable, Way
from imsbench.host.backend import BackendError, SaBackend
from imsbench.phone.actions import (
    Accept,
    Close,
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
    parse_message,
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
        self.datagrams = Datagrams(
            loop,
            backend,
            self._on_datagram,
            self._on_path_failed,
            self._on_path_closed,
            self.events,
        )
        self._settings = settings
        self._backend = backend
        self._answer = answer
        self._unreliable = Unreliable(loop, settings, self.events)
        repeats = Repeats(loop, settings.t1_s, settings.t2_s, self.events, self._deliver)
        self._replies = Replies(repeats, self._unreliable, self.events, self.messages)
        self._closings = Closings(loop, self.events, self._resume)
        self._clients = Clients(
            loop, self.connections, self.datagrams, self._unreliable, self._resume, self._deliver,
            self.events, self.messages,
        )  # fmt: skip
        self._owners: dict[tuple[str, str], Task] = {}
        self._receiving: dict[str, tuple[Task, float]] = {}
        self._settling: list[tuple[Task, Close, float]] = []
        loop.call_at(clock() + SWEEP_S, self._sweep, None)

    def open(self) -> None:
        """Attach the backend and listen on the phones' server ports; OSError if one is taken."""
        settings, backend = self._settings, self._backend
        if backend is not None:
            backend.attach(self.loop.add_reader)
            if backend.device and settings.udp:
                device = settings.outer_device
                self.datagrams.refuse_clear(settings.port_us, settings.ip_version, device)
        self.connections.listen()

    def start(self, flow: Flow, endpoint: Endpoint, on_done: OnDone, call_id: str = "") -> None:
        """Run a flow; ``on_done`` is called once, when it has ended.

        With a Call-ID it owns that dialog of this phone: its requests come to the flow's mailbox.
        """
        self._resume(self._own(Task(flow, endpoint, on_done, call_id)), None, None)

    def close(self) -> None:
        """End everything at once: flows in progress unfinished, connections by a RST."""
        for task in self._clients.take_all() | set(self._owners.values()):
            task.flow.close()
        for task, _deadline in self._receiving.values():
            task.flow.close()
        for task in self._closings.take_all():
            task.flow.close()
        for task, _action, _deadline in self._settling:
            task.flow.close()
        self._settling.clear()
        self._owners.clear()
        self._receiving.clear()
        self.datagrams.close()
        self.connections.close()

    @property
    def transactions(self) -> int:
        """Requests that wait for their response now."""
        return len(self._clients)

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
                    action.started_at = clock()
                    task.waits = action
                    self._clients.begin(task, action, action.request, action.channel)
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
                    if self._settle(task, action) or self._begin_close(task, action):
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
        self._clients.forget(task)
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
        action.started_at = clock()
        if isinstance(message, Response):
            self._replies.send(task, action, message)
        elif message.method == "ACK":
            self._clients.send_ack(task, action, message)
        else:
            assert action.channel is not None
            task.sent.append(self._clients.begin(task, action, message, action.channel))

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

    def _settle(self, task: Task, action: Close) -> bool:
        """Wait for the transactions under way on what is to be closed; False if there are none."""
        if not action.settle_s or not self._under_way(action):
            return False
        task.waits = action
        self._settling.append((task, action, clock() + action.settle_s))
        return True

    def _under_way(self, action: Close) -> bool:
        path = action.channel.path if action.channel is not None else None
        ways: list[Way] = [*self._to_close(action), *([path] if path is not None else ())]
        return any(way.owed or not all(pending.accepted for pending in way.pending) for way in ways)

    def _settled(self, now: float) -> None:
        """Begin the closes whose transactions have ended, or had their time."""
        waiting, self._settling = self._settling, []
        for one in waiting:
            task, action, deadline = one
            if now < deadline and self._under_way(action):
                self._settling.append(one)
            elif not self._begin_close(task, action):
                self._resume(task, clock(), None)

    def _to_close(self, action: Close) -> list[Connection]:
        connections: list[Connection] = []
        if action.channel is not None and action.channel.connection is not None:
            connections.append(action.channel.connection)
        if action.accepted_for is not None:
            connections += self.connections.accepted_by(action.accepted_for, action.remote_port)
        return connections

    def _begin_close(self, task: Task, action: Close) -> bool:
        """Half-close what is open; False if there is nothing to wait for."""
        connections = self._to_close(action)
        if action.channel is not None and action.channel.path is not None:
            action.channel.path.close()
        if action.silently:
            self._closings.vanish(connections)
            return False
        return self._closings.begin(task, connections, action.timeout_s)

    # timers

    def _sweep(self, _argument: object) -> None:
        """End the waits whose deadline has passed."""
        now = clock()
        self._clients.sweep(now)
        for call_id in [c for c, (_, deadline) in self._receiving.items() if deadline <= now]:
            task, _deadline = self._receiving.pop(call_id)
            self._resume(task, None, Timeout("timeout", "no request in the dialog", now))
        self._unreliable.sweep(now)
        self._settled(now)
        self.loop.call_at(now + SWEEP_S, self._sweep, None)

    def _on_closed(self, connection: Connection, cause: str) -> None:
        """Fail what waits on the connection, and tell a Close that waits for it."""
        self._clients.on_closed(connection, cause)
        self._closings.on_closed(connection)

    def _on_path_failed(self, path: DatagramPath, cause: str) -> None:
        self._clients.on_path_failed(path, cause)

    def _on_path_closed(self, path: DatagramPath, cause: str) -> None:
        self._clients.on_closed(path, cause)

    # messages

    def _on_readable(self, connection: Connection, data: bytes) -> None:
        at = clock()
        connection.last_used_at = at
        reader = connection.reader
        pings, pongs = reader.pings, reader.pongs
        for message in reader.feed(data):
            if type(message) is Response:
                message.at = at
                self._clients.on_response(message, connection)
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

    def _on_datagram(self, path: DatagramPath, data: bytes) -> None:
        at = clock()
        if not data.strip(b"\r\n\0"):
            self.events["empty_datagrams"] += 1  # keep-alives of the target
            return
        message = parse_message(data)
        if type(message) is Response:
            message.at = at
            self._clients.on_response(message, path)
        elif type(message) is Malformed:
            self.events[f"malformed: {message.reason}"] += 1
        elif type(message) is Request and not self._unreliable.absorbs_request(message, path, at):
            self._on_request(message, path, at)

    def _on_request(self, request: Request, way: Way, at: float) -> None:
        method = request.method if request.method in METHODS else "other request"
        self.messages[f"<- {method}"] += 1
        if request.method != "ACK":
            way.owed += 1
        channel = way.channel
        # Only inside SAs do phones with IPsec take connections.
        protected = channel.protected if channel is not None else self._backend is not None
        incoming = Incoming(request, at, way, protected=protected)
        owner = self._owners.get((way.owner.address, request.call_id))
        if owner is not None:
            self._deliver(owner, incoming)
            return
        answer = self._answer(way.owner, incoming)
        if isinstance(answer, Accept):
            task = Task(answer.flow, way.owner, answer.on_done, request.call_id)
            task.mailbox.append(incoming)
            self._resume(self._own(task), None, None)
            return
        if request.method != "ACK":  # RFC 3261 §17: nothing answers an ACK
            self._replies.answer(way, answer)
        waiting = self._receiving.pop(request.call_id, None)
        if waiting is not None:
            self._resume(waiting[0], at, None)

    def _on_malformed(self, message: Malformed, connection: Connection) -> None:
        """Costs the attempt that waits on this connection, and nothing else."""
        self.events[f"malformed: {message.reason}"] += 1
        self._clients.fail_all(connection, TransportError("malformed", message.reason))
