"""Timed faults of the core: it stands still, it resets connections."""

from __future__ import annotations

import time

from imsbench.host.control import ControlChannel
from simulators.core.service import ReferenceCore
from simulators.faults import Done, TimedFaults

TICK_S = 1.0


def timed_faults(core: ReferenceCore, channel: ControlChannel | None) -> TimedFaults:
    """What can be ordered of this core."""

    async def stall(duration_s: float) -> None:
        stand_still(core, channel, duration_s)

    async def reset(count: int | None, share: float | None) -> Done:
        done = core.pcscf.reset_connections(count, share)
        core.counters["connections reset as injected"] += done
        return done, (count or done) - done

    return TimedFaults({"core_stall": stall}, {"tcp_reset": reset})


def tick(channel: ControlChannel, core: ReferenceCore, **more: object) -> None:
    """Tell the coordinator how things stand."""
    channel.send("tick", counts=core.counts(), cpu_s=time.process_time(), **more)


def stand_still(core: ReferenceCore, channel: ControlChannel | None, duration_s: float) -> None:
    """Do nothing at all for so many seconds, as a stopped process: nothing is read, nothing answered.

    Only the control channel hears that the process lives.
    """
    ends_at = time.monotonic() + duration_s
    while (left_s := ends_at - time.monotonic()) > 0:
        time.sleep(min(left_s, TICK_S))
        if channel is not None and left_s > TICK_S:
            tick(channel, core)
