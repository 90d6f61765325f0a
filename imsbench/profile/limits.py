"""What the generator may suffer and still vouch for a step; beyond any of these the step is invalid."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from imsbench.profile.fields import Duration, Settings, Share

CpuShare = Annotated[float, Field(strict=True, gt=0, le=1)]


class Limits(Settings):
    """The generator's limits; a result judged by wider ones than these is not publishable."""

    due: Duration = 0.001
    """By how much the mean and the p99 from due may exceed those from the start; 5 % if that is more."""
    lateness: Duration = 0.010
    """Due to first act, and loop lag, at p99; 5 % of the slowest p99 from the start if that is more."""
    worker_cpu: CpuShare = 0.85
    """Share of a core that a worker may use."""
    host_cpu: CpuShare = 0.98
    """Share of all its processors that the generator's host may be busy, steal included."""
    steal: Share = 0.01
    """Share of its processors' time that the hypervisor may take from the generator's host."""
    memory: CpuShare = 0.95
    """Share of the host's memory that may be in use."""
    gc_pause: Duration = 0.050
    """Longest garbage collection of a worker."""
    clock_jump: Duration = 0.050
    """Largest jump of the wall clock against the monotonic one: a clock that was set, a machine halted."""
    resent: Share = 0.01
    """Share of TCP segments that workers may send again; connection requests are not counted: they are
    repeated where the target does not take them."""
    simulator_mean: Duration = 0.002
    """What a simulator's mean response time may exceed the configured one by; 5 % if that is more."""
    simulator_p99: Duration = 0.005
    """What the p99 of each Diameter command may exceed the configured one by."""
    simulator_stall: Duration = 0.100
    """Longest stretch in which a simulator's process may stand still."""

    @property
    def wider(self) -> tuple[str, ...]:
        """Names of those that allow more than the defaults."""
        usual = type(self)()
        return tuple(n for n in type(self).model_fields if getattr(self, n) > getattr(usual, n))
