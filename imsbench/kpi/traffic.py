"""What must come of a traffic: calls at once by Little's law, and how near their mean must lie."""

from __future__ import annotations

import math
from typing import Literal

Shape = Literal["constant", "uniform", "exponential", "lognormal"]


def mean_in_progress(rate: float, time_s: float) -> float:
    """Calls at once: arrivals per second times the seconds that each lasts (Little 1961)."""
    return rate * time_s


def standard_error(
    rate: float, time_s: float, observed_s: float, shape: Shape = "constant", sigma: float = 1.0
) -> float:
    """Standard deviation of the mean of calls in progress over a time, for Poisson arrivals.

    rate: arrivals per second; time_s: mean seconds a call lasts; observed_s: over which the mean is
    taken; shape, sigma: of the calls' times, as ``imsbench.distribution`` has them.

    The number in progress is that of an M/G/infinity queue, whose covariance over a lag u is rate x
    the integral of P(time > x) from u on. For constant times the variance of the mean is exact:
    rate x h^2 / T x (1 - h / 3T) for T >= h. For the others it is its bound rate x E[time^2] / T,
    which it reaches for long T.
    """
    if observed_s <= 0:
        return math.inf
    if shape == "constant":
        if observed_s >= time_s:
            variance = rate * time_s**2 / observed_s * (1 - time_s / (3 * observed_s))
        else:
            variance = rate * (time_s - observed_s / 3)
        return math.sqrt(variance)
    moment = {"uniform": 4 / 3, "exponential": 2.0, "lognormal": math.exp(sigma**2)}[shape]
    return math.sqrt(rate * moment * time_s**2 / observed_s)
