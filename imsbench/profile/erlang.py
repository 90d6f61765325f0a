"""Whether phones suffice for calls: Erlang's loss formula, where a pair of idle phones is a line."""

from __future__ import annotations

from imsbench.profile.phases import Calls
from imsbench.profile.units import spell_duration

MOST_LOST = 1e-4
"""Share of Poisson arrivals that may find no idle pair of phones."""


def erlang_b(offered: float, lines: int) -> float:
    """Share of Poisson arrivals that find every line taken (Erlang 1917), 0..1.

    offered: calls at once if none were lost; lines: how many there can be.
    """
    if offered <= 0:
        return 0.0
    # 1/B(n) = 1 + n / offered / B(n-1): it only grows, and beyond 1e300 the share is nought.
    inverse = 1.0
    for line in range(1, lines + 1):
        inverse = 1.0 + line / offered * inverse
        if inverse > 1e300:
            return 0.0
    return 1.0 / inverse


def lacking_phones(
    calls: Calls, rate: float, registered: int, workers: int, *, poisson: bool
) -> str:
    """Why so many calls find too few phones, with the arithmetic; empty if they do not.

    Each worker calls among its own phones, so a share of the calls has a share of the phones.
    """
    time_s = calls.hold.mean + calls.ring.mean
    offered = rate * time_s / workers
    pairs = registered // workers * calls.calls_per_phone // 2
    share = "" if workers == 1 else f" / {workers} workers"
    each = "" if calls.calls_per_phone == 1 else f" with {calls.calls_per_phone} calls each"
    arithmetic = (
        f"{rate:,g}/s x {spell_duration(time_s)}{share} = {offered:,.4g} calls at once, and "
        f"{registered:,} phones{each}{share} make {pairs:,} pairs"
    )
    if offered > pairs:
        return f"{arithmetic}: too few"
    lost = erlang_b(offered, pairs) if poisson else 0.0
    if lost <= MOST_LOST:
        return ""
    return (
        f"{arithmetic}: by Erlang B {lost:.2g} of Poisson arrivals find none (at most "
        f"{MOST_LOST:g}); more phones, fewer calls, calls_per_phone or constant arrivals"
    )
