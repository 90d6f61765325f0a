"""Recovery: how a population came back after a storm, and how parts merge into the whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from imsbench.histogram import Histogram


class Recovery:
    """The phones of one storm, or one worker's part of them."""

    __slots__ = ("given_up", "lost", "not_lost", "registered", "retries")

    def __init__(self) -> None:
        self.lost = 0
        """Phones that lost everything they had."""
        self.not_lost = 0
        """Phones that the outage was too short to take: something of theirs was under way all the time."""
        self.retries = 0
        """Attempts made after a failed one."""
        self.given_up = 0
        """Phones that would not have tried again before the limit."""
        self.registered = Histogram()
        """From the instant at which the first phone could come back until each was registered."""

    @property
    def all_registered_s(self) -> float | None:
        """Seconds until the last one was registered; None if not all were."""
        whole = self.lost + self.not_lost
        return self.registered.maximum if whole and self.registered.count == whole else None

    def merge(self, other: Recovery) -> None:
        """Add another part of the same storm."""
        self.lost += other.lost
        self.not_lost += other.not_lost
        self.retries += other.retries
        self.given_up += other.given_up
        self.registered.merge(other.registered)

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON values."""
        return {
            "lost": self.lost,
            "not_lost": self.not_lost,
            "retries": self.retries,
            "given_up": self.given_up,
            "registered": self.registered.to_json(),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Recovery:
        """The inverse of to_json; ValueError if the data is not of its form."""
        recovery = cls()
        try:
            for name in ("lost", "not_lost", "retries", "given_up"):
                value = int(data[name])
                if not 0 <= value < 2**63:
                    raise ValueError(f"{name} is {value}")
                setattr(recovery, name, value)
            recovery.registered = Histogram.from_json(data["registered"])
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"not a recovery: {type(error).__name__}: {error}") from error
        if recovery.registered.count > recovery.lost + recovery.not_lost:
            raise ValueError("not a recovery: more phones came back than were gone")
        return recovery
