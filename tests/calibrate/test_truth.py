"""What should have been measured."""

from __future__ import annotations

import random
from math import isnan

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
    assert truth.shifted(base, delays, 0, q) == near(0.054)


def test_where_few_are_delayed_only_the_tail_moves() -> None:
    base = histogram(*(0.004 for _ in range(400)))
    delays = histogram(*(0.5 for _ in range(20)))
    assert truth.shifted(base, delays, 380, 0.5) == near(0.004)
    assert truth.shifted(base, delays, 380, 0.95) == near(0.004)
    assert truth.shifted(base, delays, 380, 0.96) == near(0.504)
    assert truth.shifted(base, delays, 380, 0.99) == near(0.504)


def test_a_drawn_delay_has_the_quantiles_of_what_was_drawn() -> None:
    source = random.Random(1)
    drawn = [source.expovariate(1 / 0.03) for _ in range(400)]
    times = [source.uniform(0.003, 0.006) for _ in range(400)]
    measured = [time + delay for time, delay in zip(times, drawn, strict=True)]
    for q in (0.5, 0.9):
        expected = truth.shifted(histogram(*times), histogram(*drawn), 0, q)
        assert abs(expected - truth.quantile(measured, q)) < 0.001
    tail = truth.shifted(histogram(*times), histogram(*drawn), 0, 0.99)
    assert abs(tail - truth.quantile(measured, 0.99)) < 0.005


def test_nothing_has_no_quantile() -> None:
    assert isnan(truth.shifted(Histogram(), Histogram(), 0, 0.5))


def test_who_is_due_in_a_stall_waits_for_its_end() -> None:
    due = [0.0, 0.995, 1.0, 2.0, 2.999, 3.0, 4.0]
    times = truth.stalled(due, 0.010, 1.0, 3.0)
    assert times == pytest.approx([0.010, 2.010, 2.010, 1.010, 0.011, 0.010, 0.010])


def test_buckets_are_all_samples_in_order() -> None:
    made = histogram(0.5, 0.001, 0.5, 0.2)
    assert [count for _, count in made.buckets()] == [1, 1, 2]
    assert [time for time, _ in made.buckets()] == [near(0.001), near(0.2), near(0.5)]
    assert Histogram().buckets() == []
