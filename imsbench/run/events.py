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
    """How many steps the run has; 0: nobody knows yet."""
    title: str
    """The step in words; a repair says so."""
    expected_s: float
    """How long it is planned to last, seconds."""

    @property
    def heading(self) -> str:
        """The step in words, with its number where that says something."""
        return f"{self.index + 1}/{self.count}  {self.title}" if self.count else self.title


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
    registrations: int
    """Initial registrations of this step that have ended."""
    registrations_succeeded: int
    """Those of them that ended well."""
    refreshes: int
    """Re-registrations of this step that have ended."""
    refreshes_succeeded: int
    """Those of them that ended well."""
    failed: int
    """Attempts of all procedures that ended badly."""
    calls: int = 0
    """Calls of this step that have ended."""
    calls_succeeded: int = 0
    """Those of them that ended as planned."""
    in_progress: int = 0
    """Calls in progress now."""

    def describe(self) -> str:
        """The counts in one line."""
        parts = [f"{self.registered:,} registered"]
        if self.in_progress:
            parts.append(f"{self.in_progress:,} calls in progress")
        for name, ended, succeeded in (
            ("registrations", self.registrations, self.registrations_succeeded),
            ("refreshes", self.refreshes, self.refreshes_succeeded),
            ("calls", self.calls, self.calls_succeeded),
        ):
            if ended:
                parts.append(f"{name} {succeeded:,} of {ended:,}")
        if self.failed:
            parts.append(f"{self.failed:,} failed, all procedures")
        return "; ".join(parts)


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
