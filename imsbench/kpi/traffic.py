"""What must come of a traffic: calls at once by Little's law, and how near their mean must lie."""

from __future__ import annotations

import math


def mean_in_progress(rate: float, time_s: float) -> float:
    """Calls at once: arrivals per second times the seconds that each lasts (Little 1961)."""
    return rate * time_s


def standard_error(rate: float, time_s: float, observed_s: float, variance: float = 0.0) -> float:
    """Standard deviation of the mean of calls in progress over a time, for Poisson arrivals.

    rate: arrivals per second; time_s: mean seconds a call lasts; observed_s: over which the mean is
    taken; variance: of the calls' times, square seconds.

    The number in progress is that of an M/G/infinity queue, whose covariance over a lag u is rate x
    the integral of P(time > x) from u on. For constant times the variance of the mean is exact:
    rate x h^2 / T x (1 - h / 3T) for T >= h. For others it is the lesser of two bounds: rate x E[time^2]
    / T, which it reaches for long T, and the variance of an instant, rate x h.
    """
    if observed_s <= 0:
        return math.inf
    if variance:
        return math.sqrt(rate * min((variance + time_s**2) / observed_s, time_s))
    if observed_s >= time_s:
        return math.sqrt(rate * time_s**2 / observed_s * (1 - time_s / (3 * observed_s)))
    return math.sqrt(rate * (time_s - observed_s / 3))
