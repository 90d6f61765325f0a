"""What a run tells its watcher while it goes: one dataclass per kind of news."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stage:
    """The run has entered a stage that may take a while."""

    text: str
    """What is being done, in words."""


@dataclass(frozen=True, slots=True)
class StepStarted:
    """A step of the load, or the repair before it, begins."""

    index: int
    """Which step, from 0."""
    count: int
    """How many steps the run has."""
    title: str
    """The step in words; a repair says so."""
    expected_s: float
    """How long it is planned to last, seconds."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Once a second: all workers' counts of the running step."""

    title: str
    """The step in words."""
    elapsed_s: float
    """Since its start, seconds."""
    expected_s: float
    """How long it is planned to last, seconds."""
    registered: int
    """Phones registered now."""
    attempted: int
    """Attempts started in this step."""
    succeeded: int
    """Attempts that ended well."""
    failed: int
    """Attempts that ended badly."""
    calls: int = 0
    """Calls in progress."""

    def describe(self) -> str:
        """The counts in one line."""
        calls = f"{self.calls:,} calls in progress, " if self.calls else ""
        return (
            f"{self.registered:,} registered, {calls}{self.attempted:,} attempted, "
            f"{self.succeeded:,} succeeded, {self.failed:,} failed"
        )


@dataclass(frozen=True, slots=True)
class StepEnded:
    """A step is over and judged."""

    title: str
    """The step in words."""
    text: str
    """What came of it, in one line."""
    elapsed_s: float
    """How long it took, seconds."""


Event = Stage | StepStarted | Progress | StepEnded
Watcher = Callable[[Event], None]
