"""How numbers and tables look: the rounding of a publication, and a dash for what is undefined."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from math import isnan

from imsbench.kpi.kpis import StepKpis
from imsbench.kpi.statistics import Ratio, quantile_interval

DASH = "—"
"""Undefined, or too few samples to say."""

_MARKUP = re.compile(r"([|<*~`\\])")


def spell_time(seconds: float | None) -> str:
    """Three significant digits from 1 s, whole milliseconds from 10 ms: "1.04 s", "29 ms", "8.7 ms"."""
    if seconds is None or isnan(seconds):
        return DASH
    milliseconds = seconds * 1e3
    if milliseconds >= 999.5:
        digits = 2 if seconds < 9.995 else 1 if seconds < 99.95 else 0
        return f"{seconds:,.{digits}f} s"
    digits = 0 if milliseconds >= 9.95 else 1 if milliseconds >= 0.995 else 2
    return f"{milliseconds:.{digits}f} ms"


def spell_share(share: float | None) -> str:
    """A percentage; it reads 100% or 0% only if it is exactly that."""
    if share is None:
        return DASH
    percent = share * 100
    if 0 < share < 1:
        percent = min(max(percent, 0.01), 99.99)
    text = f"{percent:.2f}" if percent > 99 or percent < 1 else f"{percent:.1f}"
    return f"{text.rstrip('0').rstrip('.')}%" if "." in text else f"{text}%"


def spell_ratio(ratio: Ratio) -> str:
    """A rate with its Wilson 95 % interval: "100% (99.6 to 100%)"."""
    interval = ratio.interval
    if interval is None:
        return DASH
    low, high = map(spell_share, interval)
    return f"{spell_share(ratio.value)} ({low.removesuffix('%')} to {high})"


def spell_quantile(kpis: StepKpis, key: str, q: float) -> str:
    """A quantile with its 95 % interval: "41 ms (38 to 47 ms)"; "…" on a side that nothing bounds."""
    value = kpis.quantile(key, q)
    if value is None:
        return DASH
    low_s, high_s = quantile_interval(kpis.histogram(key), q)
    low = "…" if low_s is None else spell_time(low_s)
    high = "…" if high_s is None else spell_time(high_s)
    if low.split(" ")[1:] == high.split(" ")[1:]:
        low = low.split(" ")[0]
    return f"{spell_time(value)} ({low} to {high})"


def spell_rate(rate: float | None) -> str:
    """Events per second, three significant digits."""
    if rate is None:
        return DASH
    return f"{rate:,.0f}" if rate >= 999.5 else f"{rate:.3g}"


def spell_level(count: float | None) -> str:
    """Calls at once: whole from 100 on, else three significant digits."""
    if count is None:
        return DASH
    return f"{count:,.0f}" if count >= 99.95 else f"{count:.3g}"


def spell_cores(cores: float) -> str:
    """Processors busy, two digits after the point as published."""
    return f"{cores:.2f}"


def spell_bytes(count: int) -> str:
    """Binary units: "23.5 GiB"."""
    size = float(count)
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.3g} {unit}" if unit != "bytes" else f"{count:,} bytes"
        size /= 1024
    return f"{size:.1f} GiB"


def plain(text: str) -> str:
    """Foreign text on one line, without control characters: what a target says is not trusted."""
    return "".join(c if c.isprintable() else " " for c in text)


def cell(text: str) -> str:
    """Foreign text fit for a table: plain, and none of it read as Markdown."""
    return _MARKUP.sub(r"\\\1", plain(text))


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], right: str = "") -> list[str]:
    """A Markdown table whose columns also line up in a terminal.

    right: one letter per column, "r" to align it right, anything else left; short: left.
    """
    aligned = [letter == "r" for letter in right.ljust(len(headers), "l")]
    widths = [
        max(3, *(_width(row[column]) for row in (headers, *rows))) for column in range(len(headers))
    ]
    rule = ["-" * (w - 1) + ":" if r else "-" * w for w, r in zip(widths, aligned, strict=True)]
    return [_line(row, widths, aligned) for row in (headers, rule, *rows)]


def strike(row: Sequence[str]) -> list[str]:
    """A row that may not be used, struck through."""
    return [f"~~{text}~~" if text else text for text in row]


def _line(row: Sequence[str], widths: Sequence[int], aligned: Sequence[bool]) -> str:
    cells = []
    for text, width, right in zip(row, widths, aligned, strict=True):
        space = " " * (width - _width(text))
        cells.append(space + text if right else text + space)
    return f"| {' | '.join(cells)} |"


def _width(text: str) -> int:
    """Columns in a terminal: wide East Asian characters take two."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
