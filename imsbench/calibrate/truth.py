"""What should have been measured: pure arithmetic on what was injected and what stands without it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

from imsbench.histogram import Histogram


def rank_of(q: float, count: int) -> int:
    """Which of so many samples in rising order is their quantile q, from 1 (as Histogram.quantile)."""
    return max(1, math.ceil(q * count - 1e-9))


def quantile(values: Sequence[float], q: float) -> float:
    """The quantile of single values."""
    return sorted(values)[rank_of(q, len(values)) - 1]


def shifted(base: Histogram, delays: Histogram, undelayed: int, q: float) -> float:
    """Quantile of a time after independent delays were added to it, seconds.

    base: the time without delays; delays: those that were added, to as many samples as it has;
    undelayed: samples that got none. The measured quantile is one of so many samples: it stands
    for the middle of its share of the distribution, not for its upper end. NaN of nothing.
    """
    count = delays.count + undelayed
    if not count or not base.count:
        return math.nan
    added = [*delays.buckets(), *([(0.0, undelayed)] if undelayed else [])]
    weighed = sorted(
        (time_s + delay_s, many * often)
        for time_s, many in base.buckets()
        for delay_s, often in added
    )
    wanted = (rank_of(q, count) - 0.5) / count * base.count * count
    passed = accumulate(weight for _, weight in weighed)
    both = zip(weighed, passed, strict=True)
    return next(time_s for (time_s, _), so_far in both if so_far >= wanted)


def stalled(due_s: Sequence[float], base_s: float, begin_s: float, end_s: float) -> list[float]:
    """Times from due of attempts at a target that answers nothing between two instants, seconds.

    due_s: when each is due; base_s: what each takes else. Who is due meanwhile waits for the end, who
    is under way then waits as long as it lasts. That they wait for one another afterwards is left out.
    """
    times = []
    for due in due_s:
        wait_s = 0.0
        if begin_s <= due < end_s:
            wait_s = end_s - due
        elif due < begin_s < due + base_s:
            wait_s = end_s - begin_s
        times.append(base_s + wait_s)
    return times
