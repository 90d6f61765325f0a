"""Delays of the simulators: in order, each once, none after the end."""

from __future__ import annotations

import asyncio
import time

from simulators.timers import Timers
from tests.simulators.diameter_helpers import run


def test_calls_come_in_the_order_of_their_instants_and_not_before() -> None:
    async def scenario() -> None:
        timers = Timers()
        came: list[str] = []
        begin = time.monotonic()
        timers.call_later(0.03, came.append, "late")
        timers.call_later(0.01, came.append, "early")
        timers.call_later(0.01, came.append, "next")
        await timers.sleep(0.02)
        assert time.monotonic() - begin >= 0.02
        assert came == ["early", "next"]
        await timers.sleep(0.02)
        assert came == ["early", "next", "late"]
        timers.close()

    run(scenario())


def test_nothing_is_called_after_the_end() -> None:
    async def scenario() -> None:
        timers = Timers()
        came: list[int] = []
        timers.call_later(0.005, came.append, 1)
        timers.close()
        await asyncio.sleep(0.02)
        assert came == []
        timers.close()

    run(scenario())


def test_a_sleeper_that_was_cancelled_disturbs_nobody() -> None:
    async def scenario() -> None:
        timers = Timers()
        sleeper = asyncio.ensure_future(timers.sleep(0.005))
        await asyncio.sleep(0)
        sleeper.cancel()
        await timers.sleep(0.01)
        timers.close()

    run(scenario())
