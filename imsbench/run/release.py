"""What becomes of the target's memory when calls have ended.

It counts as released when only 5 % are left of what the calls had added to what the registered phones
took before. Where that does not come in time, a second batch of the same calls decides: memory that the
target keeps but uses again does not grow ("reused"); else it "grows".
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from imsbench.profile import Step
from imsbench.run.sut import RELEASED_SHARE, Target

_MEANINGFUL_BYTES = 1 << 20
"""Less growth than this is noise: nothing had been taken that could be released."""


@dataclass(slots=True)
class Release:
    """One run's knowledge about the memory of ended calls."""

    baseline: int = 0
    """Before the calls of the present step, bytes."""
    loaded: int = 0
    """At their height."""
    released_s: float | None = None
    """Seconds from the last call's end until it was released; None: not, or not yet."""
    kept: int | None = None
    """What was left of the growth when it had been watched long enough; None: not so."""
    added: int | None = None
    """What a second batch then added; None: there was none, or its memory could not be read."""
    _calls_between: int = 0

    @property
    def growth(self) -> int:
        """What the calls had added at their height, bytes."""
        return self.loaded - self.baseline

    @property
    def limit(self) -> float:
        """Memory at or below this counts as released, bytes."""
        if self.growth < _MEANINGFUL_BYTES:
            return float(max(self.loaded, self.baseline + _MEANINGFUL_BYTES))
        return self.baseline + RELEASED_SHARE * self.growth

    @property
    def again(self) -> Literal["", "reused", "grows"]:
        """What the second batch decided; empty: nothing."""
        if self.added is None:
            return ""
        return "reused" if self.added < RELEASED_SHARE * self.growth else "grows"

    def before(self, step: Step, size: int) -> None:
        """A step is about to begin; ``size`` is the memory now, bytes.

        Calls after calls between the same phones are measured against the time before the first.
        """
        calls_between = step.registered if step.kind == "calls" else 0
        if not calls_between or calls_between != self._calls_between:
            self.baseline = size
        self._calls_between = calls_between

    def began(self, loaded: int) -> None:
        """The calls of a step have ended; ``loaded`` is the memory at their height, bytes."""
        self.loaded = loaded
        self.released_s = self.kept = self.added = None

    def look(self, elapsed_s: float, size: int) -> bool:
        """Whether it is released now, so long after the last call."""
        if size <= self.limit:
            self.released_s = elapsed_s
        return self.released_s is not None

    def watch(
        self, loaded: int, limit_s: float, target: Target, wait: Callable[[float], object]
    ) -> bool:
        """Look at the target every second until it is released, gone, or watched long enough.

        True where a second batch has to decide. wait: passes so many seconds, and raises what ends the
        run.
        """
        self.began(loaded)
        ended_at = time.monotonic()
        size = loaded
        while (elapsed_s := time.monotonic() - ended_at) <= limit_s:
            memory = target.memory()
            if memory is None or self.look(elapsed_s, memory.size):
                return False
            size = memory.size
            wait(1.0)
        self.kept = size - self.baseline
        return True

    def decide(self, loaded: int) -> None:
        """The second batch has ended; ``loaded`` is the memory at its height, bytes."""
        self.added = loaded - self.loaded

    def told(self, step: Step) -> dict[str, Any]:
        """What became of the memory of a step's calls, as the result has it."""
        return {
            "step": step.index,
            "watched_s": step.calls.watch_release if step.calls is not None else 0.0,
            "released_s": self.released_s,
            "growth_bytes": self.growth,
            "kept_bytes": self.kept,
            "added_bytes": self.added,
            "again": self.again,
        }


def graver(known: dict[str, Any] | None, new: dict[str, Any]) -> dict[str, Any]:
    """The one of two that a table of one row must tell: what grows, what is kept, what took longest."""

    def gravity(told: dict[str, Any]) -> tuple[int, float]:
        if told["released_s"] is not None:
            return 0, told["released_s"]
        return {"reused": 1, "": 2, "grows": 3}[told["again"]], float(told["growth_bytes"])

    return new if known is None or gravity(new) >= gravity(known) else known
