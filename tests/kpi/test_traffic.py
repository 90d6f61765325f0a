"""What must come of a traffic: against simulated traffic, and at its limits."""

from __future__ import annotations

import math
import random
import statistics

import pytest

from imsbench import profile
from imsbench.distribution import Distribution, Kind
from imsbench.kpi.concurrency import Concurrency
from imsbench.kpi.traffic import mean_in_progress, standard_error


def test_little() -> None:
    assert mean_in_progress(2.0, 90.5) == 181.0


def test_the_formula_of_constant_times() -> None:
    # 5/s, 90 s, over 500 s: sqrt(5 * 8100 / 500 * (1 - 90 / 1500)) = sqrt(81 * 0.94).
    assert standard_error(5.0, 90.0, 500.0) == pytest.approx(math.sqrt(81 * 0.94))


def test_both_halves_of_the_formula_meet() -> None:
    assert standard_error(5.0, 90.0, 90.0) == pytest.approx(standard_error(5.0, 90.0, 89.999999))
    # In an instant it is the deviation of a Poisson number.
    assert standard_error(5.0, 90.0, 1e-9) == pytest.approx(math.sqrt(450.0))
    assert standard_error(5.0, 90.0, 0.0) == math.inf


@pytest.mark.parametrize("observed_s", [2.0, 20.0])
def test_constant_times_against_simulated_traffic(observed_s: float) -> None:
    means = simulated("constant", observed_s)
    assert statistics.mean(means) == pytest.approx(mean_in_progress(4.0, 3.0), rel=0.02)
    expected = standard_error(4.0, 3.0, observed_s)
    assert statistics.stdev(means) == pytest.approx(expected, rel=0.06)


@pytest.mark.parametrize("shape", ["uniform", "exponential", "lognormal"])
def test_other_times_keep_to_their_bound(shape: Kind) -> None:
    measured = statistics.stdev(simulated(shape, 60.0))
    bound = standard_error(4.0, 3.0, 60.0, variance(shape))
    assert bound * 0.8 < measured < bound * 1.06


def test_no_mean_varies_more_than_an_instant() -> None:
    assert standard_error(5.0, 90.0, 1.0, 8100.0) == pytest.approx(math.sqrt(450.0))


@pytest.mark.parametrize("shape", ["constant", "uniform", "exponential", "lognormal"])
def test_the_variance_of_each_shape(shape: Kind) -> None:
    source = random.Random(shape)
    drawn = [Distribution(shape, 3.0, 0.8).draw(source) for _ in range(200_000)]
    assert statistics.pvariance(drawn) == pytest.approx(variance(shape), rel=0.05)


def variance(shape: Kind) -> float:
    """Of times of 3 s on average, as a profile has them."""
    given = {"kind": shape, "mean": "3s", "sigma": 0.8}
    return profile.Distribution.model_validate(given).variance


def simulated(shape: Kind, observed_s: float) -> list[float]:
    """Means of 1,500 windows: Poisson arrivals at 4/s, 3 s each on average."""
    source = random.Random(f"traffic {shape}")
    times = Distribution(shape, 3.0, 0.8)
    begin = 3.0 if shape == "constant" else 30.0
    means = []
    for _ in range(1500):
        at, intervals = 0.0, []
        while at < begin + observed_s:
            intervals.append((at, at + times.draw(source)))
            at += source.expovariate(4.0)
        calls = Concurrency()
        calls.observe(intervals, begin, begin + observed_s)
        assert calls.mean is not None
        means.append(calls.mean)
    return means
