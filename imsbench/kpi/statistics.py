"""How sure a number is: intervals of rates and of quantiles, without an assumed distribution."""

from __future__ import annotations

import math
from dataclasses import dataclass

from imsbench.histogram import Histogram

Z_95 = 1.959963984540054
"""Two-sided 95 % point of the normal distribution."""

_EXACT_LIMIT = 20_000
"""Samples up to which the binomial distribution is summed; beyond it the normal one is as good."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """A share of attempts, with what it is made of."""

    part: int
    """Attempts that count."""
    whole: int
    """All attempts."""

    @property
    def value(self) -> float | None:
        """0..1; None without attempts: an idle step has no rate, not 0 %."""
        return self.part / self.whole if self.whole else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Wilson 95 % bounds, 0..1; None without attempts."""
        return wilson(self.part, self.whole)


def wilson(successes: int, total: int) -> tuple[float, float] | None:
    """95 % score interval of a rate (Wilson 1927), 0..1; None without samples.

    It keeps its width at 0 and 100 %, where the usual interval would claim certainty.
    """
    if not total:
        return None
    rate = successes / total
    square = Z_95 * Z_95 / total
    centre = (rate + square / 2) / (1 + square)
    half = Z_95 / (1 + square) * math.sqrt(rate * (1 - rate) / total + square / (4 * total))
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == total else min(1.0, centre + half)
    return low, high


def exact(part: int, whole: int, confidence: float = 0.95) -> tuple[float, float] | None:
    """Interval of a rate that holds it at least this often (Clopper and Pearson 1934), 0..1.

    For rare failures, where Wilson's bounds, right on average, promise too much. None without samples.
    """
    if not whole:
        return None
    tail = (1.0 - confidence) / 2
    low = 0.0 if part == 0 else _rate_with_tail(part, whole, tail)
    # At most k of n at rate p is as likely as at least n - k of n at rate 1 - p.
    high = 1.0 if part == whole else 1.0 - _rate_with_tail(whole - part, whole, tail)
    return low, high


def _rate_with_tail(part: int, whole: int, tail: float) -> float:
    """The rate at which ``part`` or more of ``whole`` come with this probability."""
    low, high = 0.0, part / whole  # at the observed share, half of all or more do
    for _ in range(64):
        rate = (low + high) / 2
        if binomial_tail(part, whole, rate) < tail:
            low = rate
        else:
            high = rate
    return (low + high) / 2


def binomial_tail(part: int, whole: int, rate: float) -> float:
    """The probability that ``part`` or more of ``whole`` come, each with this probability.

    It is the regularised incomplete beta function I_rate(part, whole - part + 1).
    """
    if part <= 0:
        return 1.0
    if part > whole or rate <= 0.0:
        return 0.0
    if rate >= 1.0:
        return 1.0
    a, b = float(part), float(whole - part + 1)
    if rate > (a + 1) / (a + b + 2):  # there the fraction of the mirrored function converges
        return 1.0 - _beta(b, a, 1.0 - rate)
    return _beta(a, b, rate)


def _beta(a: float, b: float, x: float) -> float:
    """I_x(a, b) by its continued fraction (Abramowitz and Stegun 26.5.8), evaluated forwards."""
    log_front = (
        math.lgamma(a + b)
        - math.lgamma(a)
        - math.lgamma(b)
        + a * math.log(x)
        + b * math.log1p(-x)
        - math.log(a)
    )
    fraction, c, d = 1.0, 1.0, 0.0
    for j in range(1, 10_000):
        m = j // 2
        if j % 2:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d = 1.0 / _not_zero(1.0 + term * d)
        c = _not_zero(1.0 + term / c)
        fraction *= c * d
        if abs(c * d - 1.0) < 1e-15:
            break
    return math.exp(log_front) / fraction


def _not_zero(value: float) -> float:
    return value if abs(value) > 1e-300 else 1e-300


def enough(q: float, count: int) -> bool:
    """Whether a quantile may be stated: at least one sample beyond it is expected (p99: 100)."""
    return count * (1 - q) >= 1 - 1e-9 and count > 0


def quantile_ranks(q: float, count: int) -> tuple[int | None, int | None]:
    """Ranks (from 1) of the two samples that hold the quantile between them with 95 %.

    The number of samples below the quantile is binomial (count, q), whatever the distribution;
    2.5 % are left out on each side. None where no sample is far enough out: with 100 samples
    nothing bounds a p99 from above.
    """
    if not count:
        return None, None
    if count <= _EXACT_LIMIT:
        low, high = _binomial_ranks(q, count)
    else:
        deviation = Z_95 * math.sqrt(count * q * (1 - q))
        low = math.floor(count * q - deviation)
        high = math.ceil(count * q + deviation) + 1
    return (low if low >= 1 else None), (high if high <= count else None)


def _binomial_ranks(q: float, count: int) -> tuple[int, int]:
    """Largest l with P(B < l) <= 2.5 %, smallest u with P(B >= u) <= 2.5 %."""
    log_q, log_p = math.log(q), math.log1p(-q)
    log_count = math.lgamma(count + 1)
    low, cumulated = 0, 0.0
    for k in range(count + 1):
        log_ways = log_count - math.lgamma(k + 1) - math.lgamma(count - k + 1)
        cumulated += math.exp(log_ways + k * log_q + (count - k) * log_p)
        if cumulated <= 0.025:
            low = k + 1
        if cumulated >= 0.975:
            return low, k + 1
    return low, count + 1


def quantile_interval(histogram: Histogram, q: float) -> tuple[float | None, float | None]:
    """95 % interval of a quantile in seconds, from order statistics; None on an unbounded side."""
    low, high = quantile_ranks(q, histogram.count)
    return (
        None if low is None else histogram.quantile(low / histogram.count),
        None if high is None else histogram.quantile(high / histogram.count),
    )
