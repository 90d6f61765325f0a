"""Whether phones suffice for calls: Erlang's loss formula, where a pair of idle phones is a line."""

from __future__ import annotations

from math import ceil

from imsbench.profile.steps import Step
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


def lacking_phones(step: Step, workers: int) -> str:
    """Why so many calls of a step find too few phones, with the arithmetic; empty if they do not.

    Each worker calls among its own phones, so a share of the calls has a share of the phones. Where
    the rate changes, it is looked at where it is highest; what rises and falls faster than calls end
    needs fewer.
    """
    calls = step.calls
    assert calls is not None
    time_s = calls.hold.mean + calls.ring.mean
    phones = step.registered // workers
    pairs = phones * calls.calls_per_phone // 2 if phones > 1 else 0  # none calls itself
    share = "" if workers == 1 else f" / {workers} workers"
    each = "" if calls.calls_per_phone == 1 else f" with {calls.calls_per_phone} calls each"
    lines = f"{step.registered:,} phones{each}{share} make {pairs:,} pairs"
    if not pairs:
        # Whom nobody has registered may be called by a single phone.
        return f"{lines}: too few" if calls.unregistered < 1 else ""
    if step.burst:
        every_s = step.burst / step.rate
        bursts = max(1, ceil(time_s / every_s - 1e-9))
        offered = bursts * ceil(step.burst / workers)
        arithmetic = (
            f"{bursts:,} bursts of {step.burst:,}{share} within {spell_duration(time_s)} = "
            f"{offered:,} calls at once, and {lines}"
        )
        return f"{arithmetic}: too few" if offered > pairs else ""
    rate = max((rate for _at, rate in step.points), default=step.rate)
    offered_by_rate = rate * time_s / workers
    arithmetic = (
        f"{rate:,.6g}/s x {spell_duration(time_s)}{share} = {offered_by_rate:,.4g} calls at once, and "
        f"{lines}"
    )
    if offered_by_rate > pairs:
        return f"{arithmetic}: too few"
    lost = erlang_b(offered_by_rate, pairs) if step.arrivals == "poisson" else 0.0
    if lost <= MOST_LOST:
        return ""
    return (
        f"{arithmetic}: by Erlang B {lost:.2g} of Poisson arrivals find none (at most "
        f"{MOST_LOST:g}); more phones, fewer calls, calls_per_phone or constant arrivals"
    )
