"""Rates over time out of a CSV file: a column ``seconds``, and one of rates per second for each procedure.

seconds,calls,refreshes
0,1,0.5
600,4,0.5
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from imsbench.profile.loads import Curves

_TIME = "seconds"
_MOST_ROWS = 100_000

Text = Callable[[str], str]
"""The text of a file beside the profile, by its name; ValueError says why there is none."""


def read_curves(values: Mapping[str, Any], text_of: Text) -> Iterator[tuple[str, str]]:
    """Put the rates of their files into the loads of a profile's values that name one, and have none.

    Yields what is wrong, each with its path in the profile; such a load gets a curve that stands for
    its own, so that the rest of the profile can be checked.
    """
    phases = values.get("phases")
    for index, phase in enumerate(phases if isinstance(phases, list) else ()):
        load = phase.get("load") if isinstance(phase, dict) else None
        if not isinstance(load, dict) or not isinstance(load.get("csv"), str) or not load["csv"]:
            continue
        if "rates" in load:
            continue
        try:
            load["rates"] = curves_of(text_of(load["csv"]))
        except ValueError as error:
            load["rates"] = {"refreshes": [["0s", 1], ["1s", 1]]}
            yield f"phases[{index}].load.csv", f"{load['csv']}: {error}"


def curves_of(text: str) -> dict[str, list[list[str | float]]]:
    """The ``rates`` of a load, out of the text of a file; ValueError has all that is wrong with it."""
    try:
        rows = list(csv.reader(text.splitlines()))
    except csv.Error as error:
        raise ValueError(f"is no CSV: {error}") from None
    if len(rows) > _MOST_ROWS:
        raise ValueError(f"has {len(rows):,} rows; at most {_MOST_ROWS:,}")
    header = [name.strip() for name in rows[0]] if rows else []
    problems = list(_header_problems(header))
    if problems:
        raise ValueError("; ".join(problems))
    curves: dict[str, list[list[str | float]]] = {name: [] for name in header if name != _TIME}
    last = -1.0
    for line, row in enumerate(rows[1:], 2):
        if not any(cell.strip() for cell in row):
            continue
        found = list(_row_problems(header, row, last))
        problems += (f"line {line}: {problem}" for problem in found)
        if found:
            continue
        numbers = dict(zip(header, map(float, row), strict=True))
        last = numbers.pop(_TIME)
        for name, rate in numbers.items():
            curves[name].append([f"{last:.9f}s", rate])
    if problems:
        more = f"; and {len(problems) - 10} more" if len(problems) > 10 else ""
        raise ValueError("; ".join(problems[:10]) + more)
    return {name: curve for name, curve in curves.items() if any(rate for _at, rate in curve)}


def _header_problems(header: list[str]) -> Iterator[str]:
    known = [_TIME, *Curves.model_fields]
    if _TIME not in header:
        yield f"line 1: has no column “{_TIME}”"
    for name in dict.fromkeys(header):
        if name not in known:
            yield f"line 1: unknown column “{name}”; known: {', '.join(known)}"
        if header.count(name) > 1:
            yield f"line 1: column “{name}” is there {header.count(name)} times"
    if header == [_TIME]:
        yield "line 1: has no column of rates"


def _row_problems(header: list[str], row: list[str], last: float) -> Iterator[str]:
    if len(row) != len(header):
        yield f"has {len(row)} values for {len(header)} columns"
        return
    for name, cell in zip(header, row, strict=True):
        try:
            number = float(cell)
        except ValueError:
            number = math.nan
        if not 0 <= number <= 1e6:
            yield f"{name} must be a number from 0 to 1,000,000, not “{cell.strip()[:40]}”"
        elif name == _TIME and number < last:
            yield f"{_TIME} go back from {last:g} to {number:g}"
