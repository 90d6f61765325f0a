"""Closes in progress: whoever closes waits for the far ends, up to a time (``actions.Close``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from imsbench.engine.connection import Connection
from imsbench.engine.loop import Loop, clock
from imsbench.engine.tasks import Closing, Task
from imsbench.phone.actions import FlowError

Resume = Callable[[Task, Any, FlowError | None], None]


class Closings:
    """The connections of one worker whose end a flow waits for."""

    def __init__(self, loop: Loop, events: Counter[str], resume: Resume) -> None:
        self._loop = loop
        self._events = events
        self._resume = resume
        self._closings: dict[Connection, Closing] = {}

    def begin(self, task: Task, connections: Sequence[Connection], timeout_s: float) -> bool:
        """Half-close them, or at once without a timeout; False if there is nothing to wait for."""
        if timeout_s <= 0:
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
        closing.timer = self._loop.call_at(clock() + timeout_s, self._on_timeout, closing)
        return True

    def vanish(self, connections: Sequence[Connection]) -> None:
        """Close them without a word to the far ends."""
        for connection in connections:
            if not connection.vanish():
                self._events["connection reset that should have vanished"] += 1

    def on_closed(self, connection: Connection) -> None:
        """A connection ended: a flow that waited for the last of its goes on."""
        closing = self._closings.pop(connection, None)
        if closing is None:
            return
        closing.left.discard(connection)
        if closing.left or closing.task.waits is not closing:
            return
        if closing.timer is not None:
            closing.timer.cancel()
        self._resume(closing.task, clock(), None)

    def take_all(self) -> Iterator[Task]:
        """The tasks that wait, which are left to the caller."""
        closings, self._closings = self._closings, {}
        for closing in closings.values():
            yield closing.task

    def _on_timeout(self, closing: Closing) -> None:
        self._events["close_timeout"] += len(closing.left)
        for connection in list(closing.left):
            connection.reset("close timeout")
