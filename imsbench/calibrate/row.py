"""One truth beside its measurement."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan
from typing import Literal

_EXACT = 1e-9


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the calibration table."""

    what: str
    """What is compared."""
    unit: Literal["count", "time"]
    """Times are seconds."""
    truth: float
    """What was injected, or follows from it."""
    measured: float
    """What the result says; NaN: nothing."""
    allowed: float = 0.0
    """Largest difference that is right, in the same unit."""
    from_send: float | None = None
    """Of a time from due: the same from the first byte sent, seconds."""

    @property
    def error(self) -> float:
        """Measured less truth."""
        return self.measured - self.truth

    @property
    def ok(self) -> bool:
        """Whether the measurement is right."""
        return not isnan(self.error) and abs(self.error) <= self.allowed + _EXACT
