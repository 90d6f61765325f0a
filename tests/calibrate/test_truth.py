"""What should have been measured."""

from __future__ import annotations

import random
from math import inf, isnan

import pytest

from imsbench.calibrate import truth
from imsbench.histogram import Histogram


def histogram(*values: float) -> Histogram:
    made = Histogram()
    for value in values:
        made.record(value)
    return made


def near(value: float) -> object:
    return pytest.approx(value, rel=2e-3)  # three digits


@pytest.mark.parametrize("count", [1, 2, 99, 400])
@pytest.mark.parametrize("q", [0.5, 0.9, 0.99, 1.0])
def test_a_constant_delay_moves_every_quantile_by_itself(count: int, q: float) -> None:
    base = histogram(*(0.004 for _ in range(count)))
    delays = histogram(*(0.050 for _ in range(count)))
    assert truth.shifted(base, delays, count, q) == near(0.054)


def test_few_that_are_delayed_stand_for_the_middles_of_their_shares() -> None:
    control = histogram(*(number / 1e3 for number in range(1, 101)))  # 1 to 100 ms
    delays = histogram(0.5, 0.5)
    assert truth.shifted(control, delays, 1, 0.5) == near(0.550)
    assert truth.shifted(control, delays, 2, 0.5) == near(0.525)
    assert truth.shifted(control, delays, 2, 1.0) == near(0.575)


def test_a_part_has_what_lies_between_two_times() -> None:
    whole = histogram(0.004, 0.004, 0.050, 0.100, 0.200)
    assert [count for _, count in truth.part(whole, (0, 0.05)).buckets()] == [2]
    assert truth.part(whole, (0.049, 0.150)).count == 2
    assert truth.part(whole, (0.150, inf)).quantile(1.0) == near(0.200)
    assert not truth.part(whole, (1.0, inf)).count


def test_a_drawn_delay_has_the_quantiles_of_what_was_drawn() -> None:
    source = random.Random(1)
    drawn = [source.expovariate(1 / 0.03) for _ in range(400)]
    times = [source.uniform(0.003, 0.006) for _ in range(400)]
    measured = [time + delay for time, delay in zip(times, drawn, strict=True)]
    for q in (0.5, 0.9):
        expected = truth.shifted(histogram(*times), histogram(*drawn), 400, q)
        assert abs(expected - truth.quantile(measured, q)) < 0.001
    tail = truth.shifted(histogram(*times), histogram(*drawn), 400, 0.99)
    assert abs(tail - truth.quantile(measured, 0.99)) < 0.005


def test_nothing_has_no_quantile() -> None:
    some = histogram(0.004)
    assert isnan(truth.shifted(Histogram(), some, 1, 0.5))
    assert isnan(truth.shifted(some, Histogram(), 1, 0.5))
    assert isnan(truth.shifted(some, some, 0, 0.5))


def test_who_is_due_in_a_stall_waits_for_its_end() -> None:
    due = [0.0, 0.995, 1.0, 2.0, 2.999, 3.0, 4.0]
    times = truth.stalled(due, 0.010, 1.0, 3.0)
    assert times == pytest.approx([0.010, 2.010, 2.010, 1.010, 0.011, 0.010, 0.010])


def test_buckets_are_all_samples_in_order() -> None:
    made = histogram(0.5, 0.001, 0.5, 0.2)
    assert [count for _, count in made.buckets()] == [1, 1, 2]
    assert [time for time, _ in made.buckets()] == [near(0.001), near(0.2), near(0.5)]
    assert Histogram().buckets() == []
