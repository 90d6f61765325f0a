"""The first failure of each kind, with its ladder: why a load failed, not only that it did."""

from __future__ import annotations

from math import isnan
from typing import Any

from imsbench.outcome import Outcome


class FirstFailures:
    """Keeps the first failed Outcome of each (procedure, stage, cause); the KPIs have the counts."""

    __slots__ = ("_first",)

    def __init__(self) -> None:
        self._first: dict[tuple[str, str, str], Outcome] = {}

    def record(self, outcome: Outcome) -> None:
        """Keep a failed outcome if it is the first of its kind; a success is ignored."""
        if outcome.cause:
            self._first.setdefault((outcome.procedure, outcome.stage, outcome.cause), outcome)

    def to_json(self) -> list[dict[str, Any]]:
        """As JSON values; the ladder's times are seconds from the attempt's due time."""
        return [_failure(outcome) for _, outcome in sorted(self._first.items())]


def _failure(outcome: Outcome) -> dict[str, Any]:
    return {
        "procedure": outcome.procedure,
        "stage": outcome.stage,
        "cause": outcome.cause,
        "detail": outcome.detail,
        "status": outcome.status,
        "phone": outcome.phone,
        "ladder": [
            {
                "at_s": None if isnan(line.at) else round(line.at - outcome.due_at, 6),
                "direction": line.direction,
                "text": line.text,
                "protected": line.protected,
            }
            for line in outcome.ladder
        ],
    }
