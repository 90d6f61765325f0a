"""Responses of phones: back where the request came from, and again where that is asked for."""

from __future__ import annotations

from collections import Counter

from imsbench.engine.datagrams import DatagramPath
from imsbench.engine.repeats import Repeats
from imsbench.engine.tasks import METHODS, Task
from imsbench.engine.unreliable import Unreliable, Way
from imsbench.phone.actions import Send
from imsbench.protocol.sip import Response, serialize_message


class Replies:
    """Sends the responses of one worker's phones."""

    def __init__(
        self,
        repeats: Repeats,
        unreliable: Unreliable,
        events: Counter[str],
        messages: Counter[str],
    ) -> None:
        """events, messages: counted here, as the driver does."""
        self._repeats = repeats
        self._unreliable = unreliable
        self._events = events
        self._messages = messages

    def answer(self, way: Way, response: Response, action: Send | None = None) -> None:
        """Send a response where its request came from (RFC 3261 §18.2.2; in SAs TS 33.203 §7.1)."""
        method = response.method if response.method in METHODS else "other request"
        self._messages[f"-> {response.status} {method}"] += 1
        if response.status >= 200:
            way.owed = max(0, way.owed - 1)
        data = serialize_message(response)
        way.send(data, action)
        if isinstance(way, DatagramPath):
            self._unreliable.answered(way, response, data)

    def send(self, task: Task, action: Send, response: Response) -> None:
        """Send a flow's response, and with ``repeat_s`` again until the flow settles it."""
        assert action.incoming is not None
        way: Way = action.incoming.way
        if way.state in ("open", "connecting"):
            self.answer(way, response, action)
        else:
            self._events["response_without_connection"] += 1
        if action.repeat_s:
            self._repeats.start(task, action)
