"""Intervals against published values and against the binomial distribution itself."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imsbench.histogram import Histogram
from imsbench.kpi.statistics import (
    binomial_tail,
    enough,
    exact,
    quantile_interval,
    quantile_ranks,
    wilson,
)


@pytest.mark.parametrize(
    ("successes", "total", "low", "high"),
    [
        # Newcombe 1998 (Statistics in Medicine 17), table I, method 3: score without correction.
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0000, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_against_published_values(
    successes: int, total: int, low: float, high: float
) -> None:
    interval = wilson(successes, total)
    assert interval is not None
    assert interval == pytest.approx((low, high), abs=5e-5)


def test_wilson_at_the_ends() -> None:
    assert wilson(0, 0) is None
    interval = wilson(1000, 1000)
    assert interval is not None
    # Closed form at 100 %: n / (n + z^2).
    assert interval == pytest.approx((1000 / (1000 + 1.959964**2), 1.0), abs=1e-9)


@given(st.integers(0, 2000), st.integers(1, 2000))
def test_wilson_holds_the_rate_and_stays_in_range(successes: int, total: int) -> None:
    successes = min(successes, total)
    interval = wilson(successes, total)
    assert interval is not None
    assert 0 <= interval[0] <= successes / total <= interval[1] <= 1


@pytest.mark.parametrize(
    ("q", "count", "ranks"),
    [
        (0.5, 100, (40, 61)),  # tabulated for the median of 100
        (0.5, 10, (2, 9)),  # tabulated for the median of 10
        (0.5, 5, (None, None)),  # at 95 % the median needs 6 samples
        (0.5, 6, (1, 6)),
        (0.99, 100, (97, None)),
        (0.99, 367, (359, None)),
        (0.99, 368, (360, 368)),  # 0.99^368 <= 2.5 % < 0.99^367
        (0.99, 0, (None, None)),
    ],
)
def test_ranks_of_quantile_intervals(
    q: float, count: int, ranks: tuple[int | None, int | None]
) -> None:
    assert quantile_ranks(q, count) == ranks


@given(st.sampled_from([0.5, 0.9, 0.95, 0.99]), st.integers(1, 400))
def test_ranks_cover_95_percent_and_no_narrower_ones_do(q: float, count: int) -> None:
    def below(rank: int) -> float:
        """P(fewer than rank samples lie below the quantile)."""
        return sum(math.comb(count, k) * q**k * (1 - q) ** (count - k) for k in range(rank))

    low, high = quantile_ranks(q, count)
    assert below(low or 0) <= 0.025 + 1e-9
    assert below((low or 0) + 1) > 0.025 - 1e-9
    if high is None:
        assert below(count) < 0.975 + 1e-9
    else:
        assert below(high) >= 0.975 - 1e-9
        assert below(high - 1) < 0.975 + 1e-9


def test_many_samples_use_the_normal_approximation_and_meet_the_exact_ranks() -> None:
    exact, normal = quantile_ranks(0.99, 20_000), quantile_ranks(0.99, 20_001)
    for one, other in zip(exact, normal, strict=True):
        assert one is not None
        assert other is not None
        assert abs(one - other) <= 4


def test_interval_in_seconds() -> None:
    histogram = Histogram()
    for i in range(1, 1001):
        histogram.record(i / 1000)
    low, high = quantile_interval(histogram, 0.5)
    assert low == pytest.approx(0.469, rel=2e-3)
    assert high == pytest.approx(0.532, rel=2e-3)
    assert quantile_interval(Histogram(), 0.99) == (None, None)


@pytest.mark.parametrize(
    ("q", "count", "is_enough"),
    [(0.99, 99, False), (0.99, 100, True), (0.999, 999, False), (0.999, 1000, True),
     (0.5, 1, False), (0.5, 2, True), (0.5, 0, False)],
)  # fmt: skip
def test_a_quantile_needs_a_sample_beyond_it(q: float, count: int, is_enough: bool) -> None:
    assert enough(q, count) is is_enough


@pytest.mark.parametrize(
    ("part", "whole", "low", "high"),
    [
        # Newcombe 1998, table I, method 5: Clopper and Pearson.
        (81, 263, 0.2527, 0.3676),
        (15, 148, 0.0578, 0.1617),
        (0, 20, 0.0000, 0.1684),
        (1, 29, 0.0009, 0.1776),
    ],
)
def test_exact_against_published_values(part: int, whole: int, low: float, high: float) -> None:
    assert exact(part, whole) == pytest.approx((low, high), abs=5e-5)


def test_exact_at_the_ends() -> None:
    assert exact(0, 0) is None
    # Closed form: none of n leaves (tail)^(1/n) of doubt.
    assert exact(0, 740) == pytest.approx((0.0, 1 - 0.025 ** (1 / 740)), rel=1e-9)
    assert exact(740, 740, 0.9) == pytest.approx((0.05 ** (1 / 740), 1.0), rel=1e-9)
    assert exact(0, 50_000, 0.9) == pytest.approx((0.0, 1 - 0.05 ** (1 / 50_000)), rel=1e-9)


@given(st.integers(0, 300), st.integers(1, 300), st.fractions(0, 1, max_denominator=1000))
def test_the_binomial_tail_is_the_sum_of_its_terms(part: int, whole: int, rate: Fraction) -> None:
    terms = (
        math.comb(whole, i) * rate**i * (1 - rate) ** (whole - i) for i in range(part, whole + 1)
    )
    assert binomial_tail(part, whole, float(rate)) == pytest.approx(float(sum(terms)), abs=1e-9)


@given(st.integers(0, 5000), st.integers(1, 5000), st.sampled_from([0.8, 0.9, 0.95, 0.99]))
def test_the_exact_interval_leaves_half_of_the_doubt_on_each_side(
    part: int, whole: int, confidence: float
) -> None:
    part = min(part, whole)
    interval = exact(part, whole, confidence)
    assert interval is not None
    low, high = interval
    assert 0 <= low <= part / whole <= high <= 1
    tail = (1 - confidence) / 2
    if part:
        assert binomial_tail(part, whole, low) == pytest.approx(tail, rel=1e-6)
    if part < whole:
        assert 1 - binomial_tail(part + 1, whole, high) == pytest.approx(tail, rel=1e-6)
