"""The reference core's limit of new attempts: a token bucket, and what it is asked about."""

import asyncio
from collections import Counter
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imsbench.protocol.sip import Header, Request
from simulators.core.limiter import Limiter, LimiterSettings, TokenBucket
from tests.simulators.core_helpers import TestPhone, running


def taken(bucket: TokenBucket, instants: list[float]) -> int:
    return sum(bucket.take(at) for at in instants)


def test_at_its_rate_everything_is_taken_and_beyond_it_the_rate() -> None:
    at_rate = [i / 37 for i in range(37 * 60)]
    assert taken(TokenBucket(37.0, 1), at_rate) == len(at_rate)
    beyond = [i / 74 for i in range(74 * 60)]
    assert taken(TokenBucket(37.0, 1), beyond) == pytest.approx(37 * 60, abs=1)


def test_a_rest_fills_it_up_to_its_depth() -> None:
    bucket = TokenBucket(10.0, 5)
    assert taken(bucket, [0.0] * 20) == 5
    assert taken(bucket, [0.25] * 20) == 2
    assert taken(bucket, [1000.0] * 20) == 5


@given(
    rate=st.floats(0.5, 1000),
    depth=st.integers(1, 50),
    gaps=st.lists(st.floats(0, 2), max_size=200),
)
def test_never_more_than_rate_and_depth(rate: float, depth: int, gaps: list[float]) -> None:
    bucket, at, count = TokenBucket(rate, depth), 0.0, 0
    for gap in gaps:
        at += gap
        count += bucket.take(at)
        assert count <= depth + rate * at + 1e-3


def request(method: str, *headers: Header) -> Request:
    return Request(method, "sip:somebody@home.example", list(headers), branch="z9hG4bK1")


INITIAL = request("REGISTER", ("authorization", 'Digest username="a",nonce="",response=""'))
ANSWERING = request("REGISTER", ("authorization", 'Digest username="a",nonce="n",response="r"'))
INVITE = request("INVITE", ("to", "<sip:b@home.example>"))
REINVITE = request("INVITE", ("to", "<sip:b@home.example>;tag=1"))


@pytest.mark.parametrize(
    ("what", "limited"),
    [
        (INITIAL, True),
        (request("REGISTER"), True),
        (ANSWERING, False),
        (request("REGISTER", ("authorization", "Digest a b c =")), False),
        (request("SUBSCRIBE", ("to", "<sip:b@home.example>")), False),
        (INVITE, True),
        (REINVITE, False),
    ],
)
def test_only_what_begins_an_attempt_is_limited(what: Request, limited: bool) -> None:
    counters: Counter[str] = Counter()
    limiter = Limiter(LimiterSettings(1.0, 1.0, burst=1), counters)
    answers = [limiter.check(what, 5.0) for _ in range(3)]
    assert [answer is not None for answer in answers] == [False, limited, limited]
    assert sum(counters.values()) == (2 if limited else 0)


def test_each_kind_has_a_limit_of_its_own_or_none() -> None:
    counters: Counter[str] = Counter()
    limiter = Limiter(LimiterSettings(0.0, 1.0), counters)
    assert [limiter.check(INITIAL, 0.0) for _ in range(100)] == [None] * 100
    assert limiter.check(INVITE, 0.0) is None
    refused = limiter.check(INVITE, 0.0)
    assert refused is not None
    assert (refused.status, refused.reason) == (503, "Service Unavailable")
    assert counters == {"refused: limit of calls": 1}


@pytest.mark.parametrize("values", [(-1.0, 0.0, 1), (0.0, -1.0, 1), (1.0, 1.0, 0)])
def test_settings_that_are_none_are_refused(values: tuple[float, float, int]) -> None:
    with pytest.raises(ValueError, match="limiter"):
        LimiterSettings(*values)


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scenario)


def test_the_core_refuses_the_registration_that_is_one_too_many() -> None:
    async def scenario() -> None:
        async with running(limiter=LimiterSettings(registrations_per_s=0.01)) as core:
            first, second = TestPhone(core, 0), TestPhone(core, 1)
            for phone in (first, second):
                await phone.connect()
            assert (await first.register()).status == 200
            assert (await second.exchange(second.initial())).status == 503
            assert (await first.exchange(first.refresh())).status == 200
            assert core.counts()["registered"] == 1
            for phone in (first, second):
                await phone.close()

    run(scenario())
