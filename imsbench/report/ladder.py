"""Message ladders as text: of one phone, or of both phones of a call side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from imsbench.report.form import plain
from imsbench.report.parts import LadderEntry

COLUMN = 44
"""Characters of one phone's column where two stand side by side."""


def one_phone(ladder: Sequence[LadderEntry]) -> Iterator[str]:
    """One line a message: seconds, direction, "*" if it travelled protected, its first line."""
    for line in ladder:
        yield f"{line.at:10.4f} {_arrow(line)} {plain(line.text)}"


def side_by_side(caller: Sequence[LadderEntry], callee: Sequence[LadderEntry]) -> Iterator[str]:
    """Both phones of a call, in the order of one clock: the calling one left, the called one right."""
    yield f"{'':10} {'calling phone':{COLUMN}}  called phone"
    lines = [(line.at, 0, line) for line in caller] + [(line.at, 1, line) for line in callee]
    for at, side, line in sorted(lines, key=lambda one: one[:2]):
        text = _fit(f"{_arrow(line)} {plain(line.text)}")
        yield f"{at:10.4f} {text}" if not side else f"{at:10.4f} {'':{COLUMN}}  {text}"


def _arrow(line: LadderEntry) -> str:
    return f"{line.direction}{'*' if line.protected else ' '}"


def _fit(text: str) -> str:
    return text if len(text) <= COLUMN else text[: COLUMN - 1] + "…"
