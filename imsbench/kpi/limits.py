"""What a verdict is made of, as plain numbers: the limits, and one worker's view of itself."""

from __future__ import annotations

from typing import Protocol

from imsbench.histogram import Histogram


class Limits(Protocol):
    """What the generator may suffer; durations in seconds. The profile says what each is."""

    @property
    def due(self) -> float:
        """By how much times from due may exceed those from the start."""

    @property
    def lateness(self) -> float:
        """Lateness and loop lag at p99."""

    @property
    def worker_cpu(self) -> float:
        """Share of a core a worker may use."""

    @property
    def host_cpu(self) -> float:
        """Share of its processors a host may be busy."""

    @property
    def steal(self) -> float:
        """Share of its processors' time that may be stolen from a host."""

    @property
    def memory(self) -> float:
        """Share of a host's memory that may be in use."""

    @property
    def gc_pause(self) -> float:
        """Longest garbage collection."""

    @property
    def clock_jump(self) -> float:
        """Largest jump of the wall clock."""

    @property
    def resent(self) -> float:
        """Share of TCP segments that may be sent again."""

    @property
    def simulator_mean(self) -> float:
        """What a simulator's mean response time may exceed the configured one by."""

    @property
    def simulator_p99(self) -> float:
        """The same of the p99 of a command."""

    @property
    def simulator_stall(self) -> float:
        """Longest stall of a simulator."""


class WorkerView(Protocol):
    """One worker's view of itself and of its host in one step; None where its host does not say."""

    @property
    def cpu_share(self) -> float:
        """CPU time per wall time."""

    @property
    def loop_lag(self) -> Histogram:
        """How late its loop woke."""

    @property
    def gc_pauses(self) -> Histogram:
        """Its garbage collections."""

    @property
    def host_cpu_share(self) -> float | None:
        """Share of its host's processors that was busy."""

    @property
    def steal_share(self) -> float | None:
        """Share of their time that was stolen."""

    @property
    def memory_share(self) -> float | None:
        """Share of its host's memory in use."""

    @property
    def clock_jump_s(self) -> float:
        """Largest jump of the wall clock."""
