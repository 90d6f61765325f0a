"""Two ladders on one clock, printed side by side."""

from __future__ import annotations

from collections.abc import Sequence

from imsbench.run.record import Json

_LEFT, _RIGHT = "calling phone", "called phone"
_FRAME = 16
"""Columns for the time and the rules between."""


def side_by_side(ladder: Sequence[Json], callee_ladder: Sequence[Json], width: int) -> list[str]:
    """The ladders of a call as text of at most ``width`` columns; times from the first line on."""
    column = max(20, (width - _FRAME) // 2)
    lines = [(float(line["at"]), 0, line) for line in ladder]
    lines += [(float(line["at"]), 1, line) for line in callee_ladder]
    lines.sort(key=lambda entry: entry[0])
    if not lines:
        return []
    start = lines[0][0]
    header = f"{'':>9}    | {_LEFT:<{column}}| {_RIGHT}"
    texts = [header.rstrip(), "-" * min(width, len(header) + column - len(_RIGHT))]
    for at, side, line in lines:
        cells = ["", ""]
        cells[side] = _cell(line, column)
        row = f"{(at - start) * 1e3:9.1f} ms | {cells[0]:<{column}}| {cells[1]}"
        texts.append(row.rstrip())
    return texts


def _cell(line: Json, column: int) -> str:
    mark = "* " if line["protected"] else "  "
    text = f"{line['direction']} {mark}{line['text']}".removesuffix(" SIP/2.0")
    text = text.replace(" SIP/2.0 ", " ")
    return text if len(text) < column else text[: column - 2] + "…"
