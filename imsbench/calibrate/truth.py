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


def part(histogram: Histogram, between_s: tuple[float, float]) -> Histogram:
    """The samples from the one time to below the other, seconds, to the digits that are kept of each."""
    begin_s, end_s = between_s
    found = Histogram()
    for time_s, count in histogram.buckets():
        if begin_s <= time_s < end_s:
            for _ in range(count):
                found.record(time_s)
    return found


def shifted(control: Histogram, delays: Histogram, count: int, q: float) -> float:
    """Quantile of a time to which independent delays were added, seconds.

    control: the time without them; delays: those that were drawn; count: samples that are measured.
    The measured quantile is one of so many samples: it stands for the middle of its share of the
    distribution, not for its upper end. NaN of nothing.
    """
    if not control.count or not delays.count or not count:
        return math.nan
    added = delays.buckets()
    weighed = sorted(
        (time_s + delay_s, many * often)
        for time_s, many in control.buckets()
        for delay_s, often in added
    )
    wanted = (rank_of(q, count) - 0.5) / count * control.count * delays.count
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
