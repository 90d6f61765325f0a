"""Which bearers a P-CSCF still waits for, as the PCRF reports them medium by medium."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from simulators.core.bearers import Bearers
from simulators.rx import FlowStatus, MediaComponentDescription


def media(*numbers: int, status: FlowStatus | None = None) -> list[MediaComponentDescription]:
    """What an AAR describes."""
    return [MediaComponentDescription(number, flow_status=status) for number in numbers]


Verdict = Callable[[Bearers], bool | None]


@pytest.fixture
def verdict() -> Iterator[Verdict]:
    """What wait() gives at once; None: it waits."""

    async def look(bearers: Bearers) -> bool | None:
        task = asyncio.ensure_future(bearers.wait())
        await asyncio.sleep(0)
        if task.done():
            return task.result()
        task.cancel()
        return None

    loop = asyncio.new_event_loop()
    yield lambda bearers: loop.run_until_complete(look(bearers))
    loop.close()


def test_each_medium_is_waited_for(verdict: Verdict) -> None:
    bearers = Bearers()
    bearers.expect(media(1, 2))
    assert verdict(bearers) is None
    bearers.report([1], there=True)
    assert verdict(bearers) is None
    bearers.report([2], there=True)
    assert verdict(bearers) is True


def test_a_report_that_names_no_medium_is_of_all(verdict: Verdict) -> None:
    bearers = Bearers()
    bearers.expect(media(1, 2))
    bearers.report([], there=True)
    assert verdict(bearers) is True


@pytest.mark.parametrize("named", [[2], []])
def test_one_that_fails_fails_all(named: list[int], verdict: Verdict) -> None:
    bearers = Bearers()
    bearers.expect(media(1, 2))
    bearers.report([1], there=True)
    bearers.report(named, there=False)
    assert verdict(bearers) is False


def test_what_stands_already_is_not_waited_for_again_but_what_is_new_is(verdict: Verdict) -> None:
    bearers = Bearers()
    bearers.expect(media(1))
    bearers.report([1], there=True)
    bearers.expect(media(1))
    assert verdict(bearers) is True
    bearers.expect(media(1, 2))
    assert verdict(bearers) is None


def test_a_medium_that_is_removed_is_not_waited_for_and_comes_back_anew(verdict: Verdict) -> None:
    bearers = Bearers()
    bearers.expect(media(1))
    bearers.expect(media(1, status=FlowStatus.REMOVED))
    assert verdict(bearers) is True
    bearers.expect(media(1))
    assert verdict(bearers) is None


def test_whoever_waits_is_woken_by_the_report_and_cancelled_by_the_end() -> None:
    async def scenario() -> None:
        bearers = Bearers()
        bearers.expect(media(1))
        waiting = asyncio.ensure_future(bearers.wait())
        await asyncio.sleep(0)
        bearers.report([1], there=True)
        assert await waiting
        bearers.expect(media(2))
        waiting = asyncio.ensure_future(bearers.wait())
        await asyncio.sleep(0)
        bearers.close()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(scenario())
