"""Durations and rates as people write them, and back: "200ms", "8m20s", "100/s"."""

from __future__ import annotations

import re
from decimal import Decimal

DURATION_FORM = 'a duration with its unit, such as "200ms", "12s", "8m20s" or "1h"'
RATE_FORM = 'a rate above 0: a number per second, or a text such as "100/s", "6/min" or "3600/h"'

_SECONDS = {
    "us": Decimal("1e-6"),
    "ms": Decimal("1e-3"),
    "s": Decimal(1),
    "m": Decimal(60),
    "min": Decimal(60),
    "h": Decimal(3600),
    "d": Decimal(86400),
}
_PART = re.compile(r"\s*([0-9]{1,12}(?:\.[0-9]{1,30})?)\s*(us|ms|min|s|m|h|d)\s*")
_RATE = re.compile(r"\s*([0-9]{1,12}(?:\.[0-9]{1,12})?)\s*/\s*(s|min|m|h|d)\s*")
_HIGHEST_RATE = 1e6
_LOWEST_RATE = 1e-8
"""One in three years, as long as a duration may be: a slower rate gives steps without an end."""


def parse_duration(value: object) -> float:
    """Seconds from a text with units; parts add up ("8m20s" is 500). ValueError for anything else.

    A bare number is refused: whether 200 means seconds or milliseconds is a guess.
    """
    if not isinstance(value, str):
        raise ValueError(f"must be {DURATION_FORM}")
    total = Decimal(0)
    position = 0
    while position < len(value):
        part = _PART.match(value, position)
        if part is None:
            raise ValueError(f"must be {DURATION_FORM}")
        total += Decimal(part[1]) * _SECONDS[part[2]]
        position = part.end()
    if not position:
        raise ValueError(f"must be {DURATION_FORM}")
    return float(total)


def serialize_duration(duration_s: float) -> str:
    """The exact text of a duration in seconds: parse_duration gives the same float back."""
    return f"{Decimal(repr(duration_s)).normalize():f}s"


def parse_rate(value: object) -> float:
    """Events per second from a number or a text such as "6/min". ValueError for anything else."""
    if isinstance(value, str):
        text = _RATE.fullmatch(value)
        if text is None:
            raise ValueError(f"must be {RATE_FORM}")
        rate = float(Decimal(text[1]) / _SECONDS[text[2]])
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        rate = float(value) if abs(value) <= _HIGHEST_RATE else _HIGHEST_RATE * 2
    else:
        raise ValueError(f"must be {RATE_FORM}")
    if not 0 < rate <= _HIGHEST_RATE:  # NaN fails here too
        raise ValueError(f"must be {RATE_FORM}, at most {_HIGHEST_RATE:,.0f}/s")
    if rate < _LOWEST_RATE:
        raise ValueError(f"must be {RATE_FORM}, at least {_LOWEST_RATE:g}/s")
    return rate


def spell_duration(duration_s: float) -> str:
    """A duration as prose has it: "200 ms", "13 s", "8 min 20 s", "1 h"."""
    if not duration_s:
        return "0 s"
    if duration_s < 1:
        return f"{duration_s * 1e3:.4g} ms"
    if duration_s < 60:
        return f"{duration_s:.4g} s"
    seconds = round(duration_s)
    days, seconds = divmod(seconds, 86400)
    hours, seconds = divmod(seconds, 3600)
    minutes, seconds = divmod(seconds, 60)
    parts = ((days, "d"), (hours, "h"), (minutes, "min"), (seconds, "s"))
    return " ".join(f"{number} {unit}" for number, unit in parts if number)
