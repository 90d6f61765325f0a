"""Python's garbage collection, kept out of what is measured.

Nearly everything here ends by its last reference; collections look for cycles, and walk what they look
at while the process stands still. Two things made such a pause long: a full one, which walks every
object there is (449 ms of a worker with 5,000 phones and 2,250 calls, measured), and a young one in a
steady state. Python starts that when 700 more objects have been made than freed, and where as many calls
end as begin that may take minutes, in which everything made meanwhile counts as young (216 ms).
"""

from __future__ import annotations

import gc
from collections.abc import Callable

_YOUNG, _MIDDLE = 700, 10
_FULL = 100_000
"""Middle collections to a full one: with five a second, hours. What runs for days by itself has one then."""
TIDY_S = 0.2
"""How often what is young is collected, seconds, at least."""

CallLater = Callable[[float, Callable[[], None]], object]
"""Calls a function once, so many seconds from now: an event loop's."""


def settle() -> None:
    """Collect now, and never walk again what is left; full collections are hours apart then.

    For the moments at which nothing is measured: when a process is ready, and between steps.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, _MIDDLE, _FULL)


def keep_young(call_later: CallLater) -> None:
    """From now on, collect what is young often enough that there is never much of it."""

    def tidy() -> None:
        gc.collect(1)
        call_later(TIDY_S, tidy)

    call_later(TIDY_S, tidy)
