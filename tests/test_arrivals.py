"""Arrivals: exact, seeded, and the same whether one worker makes them or many."""

from __future__ import annotations

import itertools
import math
from typing import Any, Literal

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from imsbench.arrivals import Arrivals, Points, area, instants

Kind = Literal["constant", "poisson"]


def test_a_thousand_at_a_hundred_per_second_take_exactly_ten_seconds() -> None:
    plan = Arrivals(rate=100.0, count=1000)
    offsets = list(plan)
    assert len(offsets) == len(plan) == 1000
    assert (offsets[0], offsets[1], offsets[999]) == (0.0, 0.01, 9.99)
    assert plan.duration_s == 10.0


def test_constant_arrivals_do_not_drift() -> None:
    offsets = list(Arrivals(rate=3.0, count=1_000_001))
    assert offsets[1_000_000] == 1_000_000 / 3.0


@given(
    count=st.integers(0, 300),
    shares=st.integers(1, 7),
    kind=st.sampled_from(["constant", "poisson"]),
    seed=st.integers(0, 2**32),
)
def test_shares_together_are_the_whole(count: int, shares: int, kind: str, seed: int) -> None:
    def plan(share: int, of: int) -> Arrivals:
        return Arrivals(
            50.0, count, "poisson" if kind == "poisson" else "constant", seed, share, of
        )

    parts = [plan(share, shares) for share in range(shares)]
    assert sorted(at for part in parts for at in part) == list(plan(0, 1))
    assert [len(part) for part in parts] == [len(list(part)) for part in parts]
    assert all(list(part) == sorted(part) for part in parts)


def test_poisson_is_seeded() -> None:
    assert list(Arrivals(10.0, 50, "poisson", 1)) == list(Arrivals(10.0, 50, "poisson", 1))
    assert list(Arrivals(10.0, 50, "poisson", 1)) != list(Arrivals(10.0, 50, "poisson", 2))


def test_poisson_gaps_are_exponential() -> None:
    count, rate = 20_000, 40.0
    offsets = [0.0, *Arrivals(rate, count, "poisson", 7)]
    gaps = [later - earlier for earlier, later in itertools.pairwise(offsets)]
    mean = sum(gaps) / count
    deviation = math.sqrt(sum((gap - mean) ** 2 for gap in gaps) / count)
    # Mean and deviation of an exponential are both 1/rate; 5 standard errors either way.
    tolerance = 5 / rate / math.sqrt(count)
    assert abs(mean - 1 / rate) < tolerance
    assert abs(deviation - 1 / rate) < 2 * tolerance
    share_above_mean = sum(gap > 1 / rate for gap in gaps) / count
    assert abs(share_above_mean - math.exp(-1)) < 0.02


@pytest.mark.parametrize(
    "arguments",
    [
        {"rate": 0.0, "count": 1},
        {"rate": -1.0, "count": 1},
        {"rate": math.nan, "count": 1},
        {"rate": math.inf, "count": 1},
        {"rate": 1.0, "count": -1},
        {"rate": 1.0, "count": 1, "share": 1, "shares": 1},
        {"rate": 1.0, "count": 1, "share": -1, "shares": 2},
        {"rate": 1.0, "count": 1, "share": 0, "shares": 0},
        {"rate": 1.0, "count": 1, "points": ((0.0, 1.0),)},
        {"rate": 1.0, "count": 1, "points": ((1.0, 1.0), (2.0, 1.0))},
        {"rate": 1.0, "count": 1, "points": ((0.0, -1.0), (1.0, 3.0))},
        {"rate": 1.0, "count": 5, "points": ((0.0, 1.0), (1.0, 1.0))},
        {"rate": 1.0, "count": 1, "burst": -1},
        {"rate": 1.0, "count": 1, "burst": 1, "points": ((0.0, 1.0), (1.0, 1.0))},
    ],
)
def test_impossible_plans_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"rate|count|share|course|burst"):
        Arrivals(**arguments)


# courses


@st.composite
def courses(draw: st.DrawFn) -> Points:
    """Pieces of lines, jumps and idle stretches among them; some area at least."""
    steps = draw(st.lists(st.floats(0.0, 20.0), min_size=1, max_size=6))
    rates = draw(st.lists(st.floats(0.0, 30.0), min_size=len(steps) + 1, max_size=len(steps) + 1))
    times = [0.0, *itertools.accumulate(steps)]
    points = tuple(zip(times, rates, strict=True))
    assume(times[-1] > 0 and area(points) >= 1)
    return points


def area_until(points: Points, at: float) -> float:
    """Arrivals that a course adds up to by then, by plain sums of its pieces."""
    total = 0.0
    for (t1, r1), (t2, r2) in itertools.pairwise(points):
        end = min(t2, at)
        if end > t1:
            rate_then = r1 + (r2 - r1) * (end - t1) / (t2 - t1)
            total += (end - t1) * (r1 + rate_then) / 2
    return total


def whole(points: Points, kind: Kind = "constant", seed: int = 1) -> Arrivals:
    return Arrivals(1.0, round(area(points)), kind, seed, points=points)


@given(courses())
def test_by_every_instant_as_many_are_due_as_the_area_under_the_rate(points: Points) -> None:
    for i, at in enumerate(whole(points)):
        assert area_until(points, at) == pytest.approx(i, abs=1e-6 * (1 + i))


@given(courses(), st.integers(1, 5), st.sampled_from(["constant", "poisson"]), st.integers(0, 99))
def test_shares_of_a_course_together_are_the_whole(
    points: Points, shares: int, kind: Kind, seed: int
) -> None:
    count = round(area(points))
    parts = [
        list(Arrivals(1.0, count, kind, seed, share, shares, points=points))
        for share in range(shares)
    ]
    everything = list(whole(points, kind, seed))
    assert sorted(at for part in parts for at in part) == everything
    assert all(part == sorted(part) for part in parts)
    assert len(everything) == count
    assert all(0 <= at <= points[-1][0] for at in everything)
    assert list(whole(points, kind, seed)) == everything  # another run offers the same instants


@given(st.floats(0.1, 100.0), st.integers(1, 200))
def test_a_flat_course_is_the_constant_rate(rate: float, count: int) -> None:
    flat = ((0.0, rate), (count / rate, rate))
    assert list(Arrivals(rate, count, points=flat)) == pytest.approx(list(Arrivals(rate, count)))


def test_a_ramp_places_its_arrivals_by_hand() -> None:
    """From 0 to 10/s in 10 s: 5 t²/10 = i, so arrival i is due at sqrt(2 i)."""
    plan = Arrivals(5.0, 50, points=((0.0, 0.0), (10.0, 10.0)))
    assert list(plan) == pytest.approx([math.sqrt(2 * i) for i in range(50)])
    assert plan.duration_s == 10.0
    falling = Arrivals(5.0, 50, points=((0.0, 10.0), (10.0, 0.0)))
    assert list(falling) == pytest.approx([10 - math.sqrt(2 * (50 - i)) for i in range(50)])


def test_nothing_is_due_while_the_rate_is_nought() -> None:
    points = ((0.0, 2.0), (2.0, 2.0), (2.0, 0.0), (8.0, 0.0), (8.0, 1.0), (10.0, 1.0))
    assert list(Arrivals(0.6, 6, points=points)) == [0.0, 0.5, 1.0, 1.5, 8.0, 9.0]


def test_chance_follows_the_course() -> None:
    """Of a Poisson ramp from 0 a quarter comes in the first half; given the count it is binomial."""
    count = 20_000
    offsets = list(
        Arrivals(count / 10, count, "poisson", 5, points=((0.0, 0.0), (10.0, count / 5)))
    )
    early = sum(at < 5.0 for at in offsets)
    assert abs(early - count / 4) < 5 * math.sqrt(count * 0.25 * 0.75)
    assert offsets == sorted(offsets)


def test_what_rounding_puts_beyond_the_area_is_at_the_end() -> None:
    assert list(instants(((0.0, 1.0), (1.0, 1.0)), [0.5, 1.0, 1.0 + 1e-12])) == [0.5, 1.0, 1.0]


# bursts


@given(st.integers(1, 60), st.integers(0, 200), st.floats(0.1, 60.0), st.integers(1, 4))
def test_bursts_come_at_once_and_every_so_often(
    burst: int, count: int, every_s: float, shares: int
) -> None:
    parts = [
        list(Arrivals(burst / every_s, count, "constant", 0, share, shares, burst=burst))
        for share in range(shares)
    ]
    offsets = sorted(at for part in parts for at in part)
    assert offsets == pytest.approx([i // burst * every_s for i in range(count)])
