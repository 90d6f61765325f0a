"""How many Diameter requests came to the simulators, step by step, from their ticks."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from imsbench.host.control import Message

Commands = dict[str, dict[str, int]]
"""Requests by simulator and command: {"hss": {"UAR": 2}}."""

_STALE_S = 0.1
"""A tick read later than this after it was asked for was sent after that."""


class Tally:
    """The counts of one run's simulators."""

    def __init__(
        self, receive: Callable[[float], list[tuple[str, Message]]], names: Sequence[str]
    ) -> None:
        """receive: messages of the children that come within so many seconds; names: the simulators."""
        self._receive = receive
        self._names = names
        self._before: Commands = {}

    def new(self) -> Commands:
        """What came since this was asked last; takes until each has ticked, so a second."""
        asked_at, missing = time.monotonic(), set(self._names)
        new: Commands = {}
        while missing:
            for name, message in self._receive(0.2):
                fresh = time.monotonic() - asked_at > _STALE_S
                if message["type"] == "tick" and name in missing and fresh:
                    counts = {key: n for key, n in message["counts"].items() if key.isupper()}
                    before = self._before.get(name, {})
                    new[name] = {key: n - before.get(key, 0) for key, n in counts.items()}
                    self._before[name] = counts
                    missing.discard(name)
        return new
