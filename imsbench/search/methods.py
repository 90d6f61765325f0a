"""The three ways to go from load to load: stepped, RFC 7502, bisection.

Each is a generator: it yields the rate to try next and is sent whether the target met its objective
there. What it returns is the bracket it ended with. No method measures, waits or knows what is tried.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Literal

from imsbench.profile import Search, Span

Method = Literal["stepped", "rfc7502", "bisect"]


@dataclass(frozen=True, slots=True)
class Bracket:
    """What is known of the limit: it lies between these rates."""

    low: float | None
    """Highest rate at which the objective was met, attempts per second; None: it never was."""
    high: float | None
    """Lowest rate above it at which the objective was missed; None: none was, up to the most."""


NOTHING_KNOWN = Bracket(None, None)
"""Before the first step."""

Trials = Generator[float, bool, Bracket]

RFC_DECREASE_LEAST = 0.10
"""Least share by which RFC 7502 §4.10 lowers the rate (its d)."""
RFC_REPEATS = 10
"""Iterations without a higher rate after which RFC 7502 §4.10 ends."""
HALVINGS = 8
"""How often a bisection whose first load is too much tries half of it."""


def stepped(span: Span, most: float, _search: Search) -> Trials:
    """Up from step to step until the objective is missed: the step before has the capacity.

    TS 186 008: the design objective capacity is the load of the last step that meets the objective.
    """
    low: float | None = None
    rate, number = span.start, 0
    while (yield rate):
        low = rate
        if rate >= most:
            return Bracket(low, None)
        number += 1
        rate = min(span.start + number * span.increase, most)  # a product: no sum of rounding
    return Bracket(low, rate)


def bisect(span: Span, most: float, search: Search) -> Trials:
    """Double until the objective is missed (or halve until it is met), then halve what is between."""
    low: float | None = None
    high: float | None = None
    rate = span.start
    while high is None:
        if (yield rate):
            low = rate
            if rate >= most:
                return Bracket(low, None)
            rate = min(2 * rate, most)
        else:
            high = rate
    for _ in range(HALVINGS):
        if low is not None:
            break
        rate = high / 2
        if (yield rate):
            low = rate
        else:
            high = rate
    if low is None:
        return Bracket(None, high)
    return (yield from narrowed(low, high, search))


def narrowed(low: float, high: float, search: Search) -> Trials:
    """Halve what is between a load that met the objective and one that missed it."""
    while high - low > search.resolution * low:
        middle = (low + high) / 2
        if (yield middle):
            low = middle
        else:
            high = middle
    return Bracket(low, high)


def rfc7502(span: Span, most: float, search: Search) -> Trials:
    """The search of RFC 7502 §4.10 for the session establishment rate, in whole attempts per second.

    Where rounding down would leave the rate where it is, it goes up by one: by its letter the search
    would not end below 10 attempts per second.
    """
    rise = search.fraction
    fall = max(RFC_DECREASE_LEAST, rise / 2)
    rate, repeats = max(1, math.floor(span.start)), 0
    highest = max(rate, math.floor(min(most, 1e9)))
    best: int | None = None
    missed: set[int] = set()
    while True:
        if (yield float(rate)):
            if best is None or rate > best:
                best = rate
            else:
                repeats += 1
                if repeats >= RFC_REPEATS:
                    break
            if rate >= highest:
                return Bracket(float(rate), None)
            # Decimal places of a product of binary fractions are not to cost a whole attempt.
            risen = math.floor(rate + rise * rate + 1e-9)
            rate = min(max(risen, rate + 1), highest)
        else:
            missed.add(rate)
            if rate <= 1:
                return Bracket(None if best is None else float(best), float(rate))
            rate = max(1, math.floor(rate - fall * rate + 1e-9))
            fall = max(RFC_DECREASE_LEAST, fall / 2)
            rise = max(RFC_DECREASE_LEAST, rise / 2)
    return Bracket(float(best), min((float(r) for r in missed if r > best), default=None))


METHODS: dict[Method, Callable[[Span, float, Search], Trials]] = {
    "stepped": stepped,
    "rfc7502": rfc7502,
    "bisect": bisect,
}


def rules(method: Method, span: Span, search: Search) -> list[str]:
    """What a method does, in sentences with its numbers."""
    start, increase = f"{span.start:g}", f"{span.increase:g}"
    match method:
        case "stepped":
            return [
                f"Begin at {start} attempts/s; after each step that meets the objective add {increase}/s.",
                "End at the first step that misses it: the load of the step before is the design "
                "objective capacity (TS 186 008).",
            ]
        case "bisect":
            return [
                f"Begin at {start} attempts/s; double it until a step misses the objective (or halve it "
                f"until one meets it, {HALVINGS} times at most).",
                "Then try the middle between the highest load that met it and the lowest above that "
                f"missed it, until they are within {search.resolution:.3g} of the lower one.",
            ]
        case "rfc7502":
            return [
                f"Each iteration makes N = {search.sessions:,} attempts at a constant r per second "
                "(RFC 7502 §4.10 has N = 50,000); it is good only if not one of them is handled "
                "inadequately: the design objective does not apply.",
                f"Begin with r = {max(1, math.floor(span.start))}, w = {search.fraction:g}, "
                f"d = max({RFC_DECREASE_LEAST:g}, w / 2). Good: r becomes floor(r + w r). "
                f"Not good: r becomes floor(r - d r), then d = max({RFC_DECREASE_LEAST:g}, d / 2) and "
                f"w = max({RFC_DECREASE_LEAST:g}, w / 2).",
                f"End when {RFC_REPEATS} good iterations have not been above the highest good one, "
                "which is the result.",
                "Our addition: where floor(r + w r) is r, r becomes r + 1; by the letter it would not "
                "end below 10 attempts per second.",
            ]
