"""Faults on purpose: shares kept exactly, orders carried out, and what came of them told."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulators.faults import BLOCK, Sampler, SteadyFaults, TimedFaults, What, wanted
from tests.simulators.diameter_helpers import run

ALL: frozenset[What] = frozenset(("error", "loss", "silence", "delay"))


def steady(**values: Any) -> dict[str, Any]:
    fault = {"what": "error", "names": [], "share": 1.0, "code": 503, "delay": {}}
    return fault | values


def order(**values: Any) -> dict[str, Any]:
    message = {
        "fault": 0, "step": None, "what": "stall", "at": time.monotonic(), "duration_s": 0.0,
        "rate": None, "count": None, "share": None,
    }  # fmt: skip
    return message | values


@given(st.integers(0, 100), st.integers(1, 5), st.integers(0, 1000))
def test_of_each_hundred_exactly_the_share_is_struck(percent: int, blocks: int, seed: int) -> None:
    sampler = Sampler(percent / 100, str(seed))
    for _ in range(blocks):
        assert sum(sampler.draw() for _ in range(BLOCK)) == percent


@given(st.floats(0, 1), st.integers(1, 8))
def test_what_a_block_cannot_hold_is_carried_on(share: float, blocks: int) -> None:
    sampler = Sampler(share, "x")
    struck = sum(sampler.draw() for _ in range(blocks * BLOCK))
    assert abs(struck - share * blocks * BLOCK) <= 1


def test_the_places_come_from_the_seed() -> None:
    def places(seed: str) -> list[bool]:
        sampler = Sampler(0.3, seed)
        return [sampler.draw() for _ in range(200)]

    assert places("a") == places("a") != places("b")


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_share_is_a_share(share: float) -> None:
    with pytest.raises(ValueError, match="not between 0 and 1"):
        Sampler(share, "x")


def test_the_first_fault_that_strikes_counts_and_each_is_of_what_was_left() -> None:
    faults = SteadyFaults(
        [steady(names=["MAR"], share=0.25, code=5012), steady(what="silence", share=0.5)], "x"
    )
    struck = [faults.strike(ALL, "MAR") for _ in range(400)]
    assert struck.count(faults.all[0]) == 100
    assert struck.count(faults.all[1]) == 150
    told = faults.to_json()
    assert [(one["of"], one["struck"], one["code"]) for one in told] == [
        (400, 100, 5012), (300, 150, 503),
    ]  # fmt: skip


def test_a_fault_strikes_nothing_of_another_name_or_kind() -> None:
    faults = SteadyFaults([steady(names=["401 REGISTER"], what="loss")], "x")
    assert faults.strike(ALL, "200 REGISTER", "REGISTER") is None
    assert faults.strike(frozenset(("error",)), "401 REGISTER") is None
    assert faults.all[0].of == 0
    assert faults.strike(ALL, "401 REGISTER", "REGISTER") is faults.all[0]


def test_drawn_delays_are_told() -> None:
    faults = SteadyFaults([steady(what="delay", delay={"kind": "constant", "mean_s": 0.05})], "x")
    fault = faults.strike(ALL, "MAR")
    assert fault is not None
    assert fault.draw(random.Random(1)) == 0.05
    assert faults.to_json()[0]["delays"]["count"] == 1


@pytest.mark.parametrize(
    "wrong", [{"what": "flood"}, {"share": 2.0}, {"delay": {"kind": "odd", "x": 1}}]
)
def test_a_fault_that_is_none_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError)):
        SteadyFaults([steady(**wrong)], "x")


def test_what_lasts_is_done_at_its_instant_and_told_with_it() -> None:
    async def scenario() -> None:
        lasted: list[float] = []

        async def stall(duration_s: float) -> None:
            lasted.append(duration_s)

        faults = TimedFaults({"stall": stall})
        at = time.monotonic() + 0.02
        faults.order(order(fault=3, step=1, at=at, duration_s=2.0))
        assert faults.to_json() == []
        while not lasted:
            await asyncio.sleep(0.005)
        (told,) = faults.to_json()
        assert (told["fault"], told["step"], told["done"], lasted) == (3, 1, 1, [2.0])
        assert at <= told["at"] <= told["ended_at"]
        await faults.close()

    run(scenario())


def test_a_rate_strikes_one_at_a_time_and_counts_those_that_failed() -> None:
    async def scenario() -> None:
        asked: list[tuple[int | None, float | None]] = []

        async def strike(count: int | None, share: float | None) -> tuple[int, int]:
            asked.append((count, share))
            return (1, 0) if len(asked) % 2 else (0, 1)

        faults = TimedFaults({}, {"rtr": strike})
        faults.order(order(what="rtr", rate=200.0, duration_s=0.03))
        faults.order(order(fault=1, what="rtr", share=0.5))
        while len(asked) < 7 or faults.to_json()[0]["ended_at"] is None:
            await asyncio.sleep(0.005)
        assert sorted(asked, key=str) == [*([(1, None)] * 6), (None, 0.5)]
        told = faults.to_json()
        assert sum(one["done"] for one in told) == 4
        assert sum(one["failed"] for one in told) == 3
        await faults.close()

    run(scenario())


def test_an_end_stops_what_is_to_come() -> None:
    async def scenario() -> None:
        async def never(duration_s: float) -> None:
            raise AssertionError

        faults = TimedFaults({"stall": never})
        faults.order(order(at=time.monotonic() + 60.0))
        await asyncio.sleep(0)
        await faults.close()
        assert faults.to_json() == []

    run(scenario())


@pytest.mark.parametrize("wrong", [{"what": "flood"}, {"at": "soon"}, {"fault": None}])
def test_an_order_that_is_none_is_refused(wrong: dict[str, Any]) -> None:
    async def scenario() -> None:
        with pytest.raises((TypeError, ValueError)):
            TimedFaults({}).order(order(**wrong))

    run(scenario())


def test_a_strike_wants_a_number_or_a_share_of_what_is_there() -> None:
    assert wanted(7, None, 3) == 7
    assert wanted(None, 0.1, 95) == 10
