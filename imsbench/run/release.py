"""What becomes of the target's memory when calls have ended.

It counts as released when only 5 % are left of what the calls had added to what the registered phones
took before. Where that never comes, a second batch of the same calls decides: memory that the target
keeps but uses again does not grow ("reused"); else it "grows".
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from imsbench.profile import Step
from imsbench.run.sut import RELEASED_SHARE, Target

_Batch = tuple[float, int, str]
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
    again: Literal["", "reused", "grows"] = ""
    """Where it was not: what a second batch did."""
    _calls_between: int = 0
    _kept: dict[_Batch, tuple[int, int]] = field(default_factory=dict)

    @property
    def limit(self) -> float:
        """Memory at or below this counts as released, bytes."""
        growth = self.loaded - self.baseline
        if growth < _MEANINGFUL_BYTES:
            return float(self.loaded)
        return self.baseline + RELEASED_SHARE * growth

    def before(self, step: Step, size: int) -> None:
        """A step is about to begin; ``size`` is the memory now, bytes.

        Calls after calls between the same phones are measured against the time before the first.
        """
        calls_between = step.registered if step.kind == "calls" else 0
        if not calls_between or calls_between != self._calls_between:
            self.baseline = size
        self._calls_between = calls_between

    def began(self, step: Step, loaded: int) -> None:
        """The calls of a step have ended; ``loaded`` is the memory at their height, bytes."""
        self.loaded = loaded
        self.released_s = None
        before = self._kept.pop(_batch(step), None)
        if before is not None:
            first_loaded, first_growth = before
            added = loaded - first_loaded
            self.again = "reused" if added < RELEASED_SHARE * first_growth else "grows"

    def look(self, elapsed_s: float, size: int) -> bool:
        """Whether it is released now, so long after the last call."""
        if size <= self.limit:
            self.released_s = elapsed_s
        return self.released_s is not None

    def watch(
        self,
        step: Step,
        loaded: int,
        limit_s: float,
        target: Target,
        wait: Callable[[float], object],
    ) -> None:
        """Look at the target every second until it is released, gone, or watched long enough.

        wait: passes so many seconds, and raises what ends the run.
        """
        self.began(step, loaded)
        ended_at = time.monotonic()
        while (elapsed_s := time.monotonic() - ended_at) <= limit_s:
            memory = target.memory()
            if memory is None or self.look(elapsed_s, memory.size):
                return
            wait(1.0)
        self.gave_up(step)

    def gave_up(self, step: Step) -> None:
        """It was watched long enough; a second batch may follow."""
        self._kept[_batch(step)] = self.loaded, self.loaded - self.baseline


def _batch(step: Step) -> _Batch:
    """What makes two batches of calls the same."""
    assert step.calls is not None
    return step.rate, step.registered, step.calls.model_dump_json()
