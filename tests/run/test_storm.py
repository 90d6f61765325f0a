"""Storms: everybody gone, everybody back, and how long those wait who fail."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imsbench.run.storm import BackOff
from tests.run.registrar import Site
from tests.run.test_steps import run_step, steps

RFC5626 = BackOff("rfc5626", 30.0, 1800.0, 1.0)


@pytest.fixture
def site() -> Iterator[Site]:
    """Ten phones and their registrar."""
    site = Site(10)
    yield site
    site.close()


@given(st.integers(1, 200), st.integers())
def test_a_phone_backs_off_between_half_and_all_of_the_bound(failures: int, seed: int) -> None:
    bound_s = min(1800.0, 30.0 * 2**failures)
    assert bound_s / 2 <= RFC5626.wait_s(failures, random.Random(seed)) <= bound_s


def test_without_back_off_the_wait_is_always_the_same() -> None:
    assert BackOff("none", 30.0, 1800.0, 1.5).wait_s(7, random.Random(1)) == 1.5


def storm(more: str = "") -> str:
    return f"[{{fill: {{rate: 100, to: 10}}}}, {{storm: {{outage: 200ms{more}}}}}]"


def test_all_come_back_at_once_after_the_outage(site: Site) -> None:
    fill, one = steps(storm())
    run_step(site, fill)
    site.turn_for(0.1)  # the last answers are acknowledged: what is sent to nobody would be reset
    held = set(site.far.sockets)
    site.outcomes.clear()
    run = run_step(site, one)
    assert held <= set(site.far.sockets)  # nobody told the far end
    assert site.phones.registered == 10
    assert {o.procedure for o in site.outcomes} == {"registration"}
    assert [o.due_at - run.first_due_at for o in site.outcomes] == pytest.approx([0.2] * 10)
    assert run.storm is not None
    assert (
        run.storm.recovery.registered.count,
        run.storm.recovery.retries,
        run.storm.recovery.not_lost,
    ) == (10, 0, 0)
    last = max(o.ended_at for o in site.outcomes) - run.first_due_at - 0.2
    assert run.storm.recovery.all_registered_s == pytest.approx(last, rel=1e-3, abs=1e-4)
    assert run.dropped == 0


def test_they_come_back_one_after_the_other_where_they_have_time(site: Site) -> None:
    fill, one = steps(storm(", within: 500ms"))
    run_step(site, fill)
    site.outcomes.clear()
    run = run_step(site, one)
    offsets = sorted(o.due_at - run.first_due_at for o in site.outcomes)
    assert offsets == pytest.approx([0.2 + i * 0.05 for i in range(10)])


def test_a_phone_that_fails_tries_again_until_it_is_in(site: Site) -> None:
    fill, one = steps(storm(", back_off: none, retry: 100ms"))
    run_step(site, fill)
    impi = site.population.subscriber(3).impi
    site.refuse = {impi}
    site.loop.call_at(site.loop.now + 0.55, lambda _none: site.refuse.clear(), None)
    site.outcomes.clear()
    run = run_step(site, one)
    assert run.storm is not None
    tries = [o for o in site.outcomes if o.phone == 3]
    assert [o.cause for o in tries[:-1]] == ["403"] * (len(tries) - 1)
    assert tries[-1].succeeded
    assert len(tries) > 1
    assert run.storm.recovery.retries == len(tries) - 1
    assert all(o.step == 1 for o in tries)  # also those after the plan
    for earlier, later in itertools.pairwise(tries):
        assert later.due_at - earlier.ended_at == pytest.approx(0.1, abs=0.05)
    assert (run.storm.recovery.registered.count, run.storm.waiting, run.unfinished) == (10, 0, 0)


def test_a_storm_has_a_limit_and_those_that_are_out_are_counted(site: Site) -> None:
    fill, one = steps(storm(", back_off: none, retry: 100ms, limit: 350ms"))
    run_step(site, fill)
    site.refuse = {site.population.subscriber(n).impi for n in (2, 5)}
    run = run_step(site, one)
    assert run.storm is not None
    assert (run.storm.recovery.registered.count, run.storm.recovery.given_up) == (8, 2)
    assert site.phones.registered == 8
    assert run.unfinished == 0


def test_a_retry_after_is_waited_for(site: Site) -> None:
    """A phone without back-off would be back at once."""
    fill, one = steps(storm(", back_off: none, retry: 10ms, limit: 500ms"))
    run_step(site, fill)
    site.refuse = {site.population.subscriber(0).impi}
    site.retry_after = "30"
    run = run_step(site, one)
    assert run.storm is not None
    assert (run.storm.recovery.retries, run.storm.recovery.given_up) == (0, 1)


def test_phones_that_have_something_under_way_are_lost_after_it(site: Site) -> None:
    fill, one = steps(storm())
    run_step(site, fill)
    site.delay_s = 0.1
    busy = site.phones.all[4]
    assert site.phones.refresh(busy, site.loop.now)
    run = run_step(site, one, drain_s=9.0)
    assert run.storm is not None
    assert (run.storm.recovery.not_lost, run.storm.recovery.registered.count) == (0, 10)
    assert site.phones.registered == 10
