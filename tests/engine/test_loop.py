"""The loop: timers on time, in order, and its own lag measured."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from imsbench.engine.health import Health
from imsbench.engine.loop import Loop, clock


@pytest.fixture
def loop() -> Iterator[Loop]:
    """A loop that stops itself after five seconds."""
    loop = Loop()
    loop.call_at(clock() + 5.0, lambda _none: loop.stop(), None)
    yield loop
    loop.close()


def test_timers_run_in_order_of_time(loop: Loop) -> None:
    called: list[str] = []
    now = clock()
    loop.call_at(now + 0.02, called.append, "second")
    loop.call_at(now + 0.01, called.append, "first")
    loop.call_at(now + 0.02, called.append, "third")
    loop.call_at(now + 0.03, lambda _none: loop.stop(), None)
    loop.run()
    assert called == ["first", "second", "third"]


def test_a_cancelled_timer_does_nothing(loop: Loop) -> None:
    called: list[str] = []
    timer = loop.call_at(clock() + 0.01, called.append, "never")
    timer.cancel()
    loop.call_at(clock() + 0.02, lambda _none: loop.stop(), None)
    loop.run()
    assert not called


def test_an_earlier_timer_set_later_is_not_missed(loop: Loop) -> None:
    late: list[float] = []
    due = clock() + 0.03

    def called(_none: object) -> None:
        late.append(clock() - due)
        loop.stop()

    def set_earlier(_none: object) -> None:
        loop.call_at(due, called, None)

    loop.call_at(clock() + 0.01, set_earlier, None)
    loop.run()
    assert 0 <= late[0] < 1.0


def test_a_stall_shows_in_the_lag(loop: Loop) -> None:
    health = Health(loop)
    health.begin()
    loop.call_at(clock() + 0.05, lambda _none: time.sleep(0.3), None)
    loop.call_at(clock() + 0.5, lambda _none: loop.stop(), None)
    loop.run()
    # Every probe that a phone's timer could have been counts, not only the one that was pending.
    assert loop.lag.maximum >= 0.25
    assert loop.lag.count >= 20
    assert loop.lag.quantile(0.5) > 0.01
    measured = health.end()
    assert measured["wall_s"] >= 0.5
    assert measured["memory_rss"] > 1_000_000
