"""What the driver keeps of a flow in progress, and of the transactions it has under way."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from imsbench.engine.connection import Connection
from imsbench.engine.connections import Endpoint
from imsbench.engine.datagrams import DatagramPath
from imsbench.engine.loop import Timer
from imsbench.phone.actions import Accept, Action, Event, Exchange, Incoming, Send
from imsbench.protocol.sip import Request, Response

if TYPE_CHECKING:
    from imsbench.engine.unreliable import Again

CANCEL_MARK = " CANCEL"
"""Behind the branch, in the key of a CANCEL's own transaction (RFC 3261 §9.1)."""

METHODS = frozenset(
    ("INVITE", "ACK", "BYE", "CANCEL", "PRACK", "UPDATE", "NOTIFY", "OPTIONS", "MESSAGE", "INFO")
)
"""Requests counted by name; the names of all others are the network's to choose, and without end."""

Flow = Coroutine[Action, Any, None]
Answer = Callable[[Any, Incoming], Response | Accept]
"""(phone, request): the response, or the flow that gives it; never raises for what was sent."""
OnDone = Callable[[Any, BaseException | None], None]
"""(the phone, what ended the flow: None, or the exception it let through)."""


class Task:
    """A flow in progress."""

    __slots__ = ("call_id", "endpoint", "flow", "mailbox", "on_done", "sent", "timer", "waits")

    def __init__(self, flow: Flow, endpoint: Endpoint, on_done: OnDone, call_id: str) -> None:
        self.flow = flow
        self.endpoint = endpoint
        self.on_done = on_done
        self.call_id = call_id
        """The dialog it owns; empty: none."""
        self.waits: object = None
        """What it waits for, to tell a late wake-up from a due one."""
        self.mailbox: deque[Event] = deque()
        """Events it has not asked for yet."""
        self.sent: list[Pending] = []
        """Transactions whose responses come to the mailbox."""
        self.timer: Timer | None = None
        """Of its Next."""


class Pending:
    """One client transaction: responses on a branch belong to a task."""

    __slots__ = (
        "accepted", "action", "again", "branch", "connection", "deadline", "request", "task",
    )  # fmt: skip

    def __init__(self, task: Task, action: Exchange | Send, request: Request, now: float) -> None:
        self.task = task
        self.action = action
        self.request = request
        self.branch = request.branch + (CANCEL_MARK if request.method == "CANCEL" else "")
        """Key of the transaction."""
        self.connection: Connection | DatagramPath | None = None
        """Where it was sent, and its responses are due."""
        self.again: Again | None = None
        """Sends it again, where that is needed."""
        self.deadline = now + action.timeout_s
        """When it ends without a response, seconds."""
        self.accepted = False
        """Whether an INVITE has its 2xx, and stays only for those that may come after it (RFC 6026)."""


class Closing:
    """A Close in progress: the connections whose far end has not closed yet."""

    __slots__ = ("left", "task", "timer")

    def __init__(self, task: Task, left: set[Connection]) -> None:
        self.task = task
        self.left = left
        self.timer: Timer | None = None
