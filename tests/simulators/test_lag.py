"""A simulator's loop lag: a process that stands still cannot hide it."""

from __future__ import annotations

import asyncio
import time

from simulators.lag import PROBE_S, LoopLag


def test_a_stall_is_told_with_its_instant_and_counts_the_probes_it_missed() -> None:
    async def scenario() -> None:
        lag = LoopLag()
        await asyncio.sleep(5 * PROBE_S)
        lag.take_stalls()
        before = lag.histogram.count
        assert before >= 4
        began_at = time.monotonic()
        time.sleep(0.3)
        ended_at = time.monotonic()
        await asyncio.sleep(2 * PROBE_S)
        (at, length_s), *others = lag.take_stalls()
        assert began_at <= at <= began_at + PROBE_S + 0.005
        assert ended_at - 0.005 <= at + length_s <= ended_at + 0.05
        assert all(other < 0.2 for _, other in others)
        assert lag.histogram.count - before >= 0.3 / PROBE_S
        assert lag.histogram.quantile(0.5) > PROBE_S  # most of them were missed ones
        assert lag.take_stalls() == []
        lag.close()
        count = lag.histogram.count
        await asyncio.sleep(3 * PROBE_S)
        assert lag.histogram.count == count

    asyncio.run(scenario())
