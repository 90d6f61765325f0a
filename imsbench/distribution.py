"""Durations drawn from a distribution, with the randomness handed in."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

Kind = Literal["constant", "uniform", "exponential", "lognormal"]


@dataclass(frozen=True, slots=True)
class Distribution:
    """A non-negative duration in seconds.

    constant: always ``mean_s``. uniform: between 0 and 2 x ``mean_s``. exponential: mean ``mean_s``.
    lognormal: mean ``mean_s``, ``sigma`` of the underlying normal.
    """

    kind: Kind = "constant"
    """The shape."""
    mean_s: float = 0.0
    """Arithmetic mean in seconds, whatever the shape."""
    sigma: float = 1.0
    """Shape of the lognormal: standard deviation of the logarithm."""

    def draw(self, source: random.Random) -> float:
        """One duration in seconds."""
        match self.kind:
            case "constant":
                return self.mean_s
            case "uniform":
                return source.uniform(0.0, 2.0 * self.mean_s)
            case "exponential":
                return source.expovariate(1.0 / self.mean_s) if self.mean_s else 0.0
            case "lognormal":
                if not self.mean_s:
                    return 0.0
                return source.lognormvariate(math.log(self.mean_s) - self.sigma**2 / 2, self.sigma)

    def quantile(self, q: float) -> float:
        """The duration in seconds that a share q of the draws does not exceed, 0 <= q < 1."""
        match self.kind:
            case "constant":
                return self.mean_s
            case "uniform":
                return 2.0 * self.mean_s * q
            case "exponential":
                return -self.mean_s * math.log1p(-q)
            case "lognormal":
                if not self.mean_s or not q:
                    return 0.0
                normal = NormalDist(math.log(self.mean_s) - self.sigma**2 / 2, self.sigma or 1e-9)
                return math.exp(normal.inv_cdf(q))

    def describe(self) -> str:
        """In words: "exponential, mean 5 ms"."""
        if not self.mean_s:
            return "none"
        shape = f"{self.kind}, mean" if self.kind != "constant" else "constant"
        return f"{shape} {self.mean_s * 1e3:g} ms"
