"""Diameter requests of one step, from ticks that come once a second."""

from __future__ import annotations

import time
from typing import Any

from imsbench.run.tally import Tally

Received = list[tuple[str, dict[str, Any]]]


def tick(name: str, **counts: int) -> tuple[str, dict[str, Any]]:
    """What a simulator sends once a second."""
    return name, {"type": "tick", "counts": {**counts, "registered": 3}}


class Channel:
    """Messages at their times, seconds from the first question on."""

    def __init__(self, *script: tuple[float, Received]) -> None:
        self.script = list(script)
        self.began_at = time.monotonic()

    def receive(self, timeout_s: float) -> Received:
        time.sleep(0.01)
        if self.script and time.monotonic() - self.began_at >= self.script[0][0]:
            return self.script.pop(0)[1]
        return []


def test_only_what_was_sent_after_the_question_counts() -> None:
    channel = Channel(
        (0.0, [tick("hss", UAR=4), tick("pcrf", AAR=1)]),  # sent before, read late
        (0.15, [("worker-0", {"type": "tick", "registered": 2}), tick("hss", UAR=6, MAR=2)]),
        (0.2, [tick("hss", UAR=99), tick("pcrf", AAR=2)]),
        (0.35, [tick("pcrf", AAR=6, STR=2), tick("hss", UAR=7, MAR=2)]),
    )
    tally = Tally(channel.receive, ["hss", "pcrf"])
    assert tally.new() == {"hss": {"UAR": 6, "MAR": 2}, "pcrf": {"AAR": 2}}
    assert tally.new() == {"hss": {"UAR": 1, "MAR": 0}, "pcrf": {"AAR": 4, "STR": 2}}


def test_without_simulators_there_is_nothing_to_wait_for() -> None:
    assert Tally(Channel().receive, []).new() == {}
