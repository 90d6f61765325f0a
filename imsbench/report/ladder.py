"""Message ladders as text: of one phone, or of both phones of a call side by side.

A line has its time in milliseconds, the direction, "*" if it travelled inside a security association,
and the message's first line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from imsbench.report.form import plain
from imsbench.report.parts import LadderEntry

WIDTH = 110
"""Columns of a pair of ladders that go to a file."""
_PROTECTED = "* travelled inside a security association"

_LEFT, _RIGHT = "calling phone", "called phone"
_NARROWEST = 20
_FRAME = 17
"""Columns for the time and the rules between."""


def since_first(*ladders: Iterable[Mapping[str, Any]]) -> list[list[LadderEntry]]:
    """Ladders as workers tell them, on one clock that begins with their first line."""
    read = [[LadderEntry.model_validate(line) for line in ladder] for ladder in ladders]
    start = min((line.at for ladder in read for line in ladder), default=0.0)
    return [[line.model_copy(update={"at": line.at - start}) for line in ladder] for ladder in read]


def legend(*ladders: Iterable[LadderEntry]) -> str:
    """What the asterisk says, for whoever prints these ladders alone; "" where there is none."""
    protected = any(line.protected for ladder in ladders for line in ladder)
    return f"{_PROTECTED}\n" if protected else ""


def one_phone(ladder: Sequence[LadderEntry]) -> Iterator[str]:
    """One line a message."""
    for line in ladder:
        yield f"{_time(line)} | {_message(line)}"


def side_by_side(
    caller: Sequence[LadderEntry], callee: Sequence[LadderEntry], width: int = WIDTH
) -> Iterator[str]:
    """Both phones of a call, the calling one left, in the order of one clock; no line is wider."""
    if not caller and not callee:
        return
    column = max(_NARROWEST, (width - _FRAME) // 2)
    yield f"{'':12} | {_LEFT:<{column}}| {_RIGHT}"
    yield "-" * min(width, 2 * column + _FRAME)
    lines = [(line.at, 0, line) for line in caller] + [(line.at, 1, line) for line in callee]
    for _, side, line in sorted(lines, key=lambda one: one[:2]):
        text = _fit(_message(line), column)
        left, right = ("", text) if side else (text, "")
        yield f"{_time(line)} | {left:<{column}}| {right}".rstrip()


def _time(line: LadderEntry) -> str:
    return f"{line.at * 1e3:9.1f} ms"


def _message(line: LadderEntry) -> str:
    text = plain(line.text).removesuffix(" SIP/2.0").removeprefix("SIP/2.0 ")
    return f"{line.direction} {'*' if line.protected else ' '} {text}"


def _fit(text: str, column: int) -> str:
    return text if len(text) < column else f"{text[: column - 2]}…"
