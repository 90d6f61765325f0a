"""Distributions: their mean is what they say, and a seed repeats them."""

from __future__ import annotations

import random
import statistics
from typing import get_args

import pytest

from imsbench.distribution import Distribution, Kind

KINDS: tuple[Kind, ...] = get_args(Kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mean_s", [0.005, 2.0])
def test_mean_is_the_mean_whatever_the_shape(kind: Kind, mean_s: float) -> None:
    source = random.Random(7)
    distribution = Distribution(kind, mean_s, sigma=0.5)
    draws = [distribution.draw(source) for _ in range(40_000)]
    assert statistics.fmean(draws) == pytest.approx(mean_s, rel=0.02)
    assert min(draws) >= 0


@pytest.mark.parametrize("kind", KINDS)
def test_no_mean_is_no_delay(kind: Kind) -> None:
    distribution = Distribution(kind)
    assert distribution.draw(random.Random(1)) == 0.0
    assert distribution.describe() == "none"


@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_repeats_the_draws(kind: Kind) -> None:
    distribution = Distribution(kind, 0.1)
    one, other = random.Random(3), random.Random(3)
    assert [distribution.draw(one) for _ in range(9)] == [
        distribution.draw(other) for _ in range(9)
    ]


def test_shapes() -> None:
    source = random.Random(5)
    assert {Distribution("constant", 0.25).draw(source) for _ in range(9)} == {0.25}
    uniform = [Distribution("uniform", 0.25).draw(source) for _ in range(9000)]
    assert max(uniform) <= 0.5
    assert statistics.pstdev(uniform) == pytest.approx(0.5 / 12**0.5, rel=0.03)
    exponential = [Distribution("exponential", 0.25).draw(source) for _ in range(40_000)]
    assert statistics.pstdev(exponential) == pytest.approx(0.25, rel=0.03)
    lognormal = [Distribution("lognormal", 0.25, sigma=1.0).draw(source) for _ in range(20_000)]
    assert statistics.median(lognormal) == pytest.approx(0.25 * 2.718281828**-0.5, rel=0.03)


@pytest.mark.parametrize(
    ("distribution", "text"),
    [
        (Distribution("constant", 0.005), "constant 5 ms"),
        (Distribution("exponential", 0.005), "exponential, mean 5 ms"),
        (Distribution("lognormal", 1.5), "lognormal, mean 1500 ms"),
    ],
)
def test_described_in_words(distribution: Distribution, text: str) -> None:
    assert distribution.describe() == text


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("q", [0.0, 0.5, 0.99])
def test_a_quantile_is_what_that_share_of_the_draws_does_not_exceed(kind: Kind, q: float) -> None:
    source = random.Random(7)
    for distribution in (Distribution(kind, 0.1, sigma=0.5), Distribution(kind, 0.1, sigma=0.0)):
        limit_s = distribution.quantile(q)
        below = sum(distribution.draw(source) <= limit_s * 1.000001 for _ in range(20_000)) / 20_000
        assert below == pytest.approx(q, abs=0.02) or limit_s == pytest.approx(0.1)
    assert Distribution(kind).quantile(q) == 0.0
