"""How attempts were handled second by second: when does an objective hold again?"""

from __future__ import annotations

from collections.abc import Mapping
from math import floor
from typing import Any


class Timeline:
    """Counts by the second in which an attempt was due, from a step's start."""

    __slots__ = ("attempted", "inadequate")

    def __init__(self) -> None:
        self.attempted: dict[int, int] = {}
        """Attempts by second."""
        self.inadequate: dict[int, int] = {}
        """Those that were handled inadequately."""

    def add(self, offset_s: float, adequate: bool) -> None:
        """Count one attempt, due so long after the start, seconds."""
        second = floor(offset_s)
        self.attempted[second] = self.attempted.get(second, 0) + 1
        if not adequate:
            self.inadequate[second] = self.inadequate.get(second, 0) + 1

    def merge(self, other: Timeline) -> None:
        """Add another worker's part."""
        for mine, others in (
            (self.attempted, other.attempted),
            (self.inadequate, other.inadequate),
        ):
            for second, count in others.items():
                mine[second] = mine.get(second, 0) + count

    def holds_after(self, begin: int, objective: float) -> int | None:
        """Seconds from second ``begin`` until the objective (0..1) holds, and for all that follows.

        It must hold in the second itself too: a long good time does not make up for a bad second.
        None if it never does, or nothing was due from then on.
        """
        held: int | None = None
        attempted = inadequate = 0
        for second in sorted((s for s in self.attempted if s >= begin), reverse=True):
            here, bad = self.attempted[second], self.inadequate.get(second, 0)
            attempted, inadequate = attempted + here, inadequate + bad
            if bad <= objective * here and inadequate <= objective * attempted:
                held = second - begin
        return held

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON values."""
        return {
            "attempted": {str(second): n for second, n in sorted(self.attempted.items())},
            "inadequate": {str(second): n for second, n in sorted(self.inadequate.items())},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Timeline:
        """The inverse of to_json; ValueError if it is not of its form."""
        timeline = cls()
        try:
            for name in cls.__slots__:
                counts = {int(second): int(n) for second, n in data[name].items()}
                setattr(timeline, name, counts)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"not a timeline: {type(error).__name__}: {error}") from error
        attempted = timeline.attempted
        if any(not 0 < n <= attempted.get(second, 0) for second, n in timeline.inadequate.items()):
            raise ValueError("not a timeline: more was inadequate than was attempted")
        return timeline
