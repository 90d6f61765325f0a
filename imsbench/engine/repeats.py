"""Responses that are sent again until they are acknowledged, on any transport.

A 2xx to an INVITE until its ACK, doubling from T1 up to T2 (RFC 3261 §13.3.1.4); a reliable provisional
response until its PRACK, doubling without bound (RFC 3262 §3). Whoever owns the action settles it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from imsbench.engine.loop import Loop, clock
from imsbench.engine.tasks import Task
from imsbench.phone.actions import Ended, Event, Send, Timeout
from imsbench.protocol.sip import Response, serialize_message


class Repeats:
    """All responses that wait for their acknowledgement."""

    def __init__(
        self,
        loop: Loop,
        t1_s: float,
        t2_s: float,
        events: Counter[str],
        deliver: Callable[[Task, Event], None],
    ) -> None:
        """events: repetitions are counted here; deliver: told when nobody acknowledged in time."""
        self._loop = loop
        self._t1_s = t1_s
        self._t2_s = t2_s
        self._events = events
        self._deliver = deliver

    def start(self, task: Task, action: Send) -> None:
        """The response has been sent for the first time."""
        again = (task, action, self._t1_s, action.started_at + action.repeat_s)
        self._loop.call_at(action.started_at + self._t1_s, self._repeat, again)

    def _repeat(self, what: tuple[Task, Send, float, float]) -> None:
        task, action, interval_s, deadline = what
        if action.settled or action.incoming is None:
            return
        now = clock()
        if now >= deadline:
            self._deliver(task, Ended(action, Timeout("timeout", "never acknowledged", now)))
            return
        message = action.message
        assert isinstance(message, Response)
        self._events[f"repeated_{'2xx' if message.status >= 200 else '1xx'}"] += 1
        if action.incoming.way.state == "open":
            action.incoming.way.send(serialize_message(message))
        interval_s *= 2
        if message.status >= 200:
            interval_s = min(interval_s, self._t2_s)
        again = (task, action, interval_s, deadline)
        self._loop.call_at(min(now + interval_s, deadline), self._repeat, again)
