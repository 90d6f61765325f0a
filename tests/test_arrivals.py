"""Arrivals: exact, seeded, and the same whether one worker makes them or many."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imsbench.arrivals import Arrivals


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
    ],
)
def test_impossible_plans_are_refused(arguments: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"rate|count|share"):
        Arrivals(**arguments)  # type: ignore[arg-type]
