"""Ladders as commands and reports print them."""

from __future__ import annotations

from imsbench.report.ladder import legend, one_phone, side_by_side, since_first


def line(at: float, direction: str, text: str, *, protected: bool = True) -> dict[str, object]:
    """One message of a ladder, as a worker tells it."""
    return {"at": at, "direction": direction, "text": text, "protected": protected}


CALLER = [
    line(1.0, "->", "INVITE sip:b SIP/2.0"),
    line(1.0105, "<-", "180 Ringing", protected=False),
]
CALLEE = [line(1.002, "<-", "INVITE sip:b"), line(1.003, "->", "SIP/2.0 180 Ringing")]


def test_both_sides_stand_in_time_order_on_one_clock() -> None:
    caller, callee = since_first(CALLER, CALLEE)
    header, rule, *rows = side_by_side(caller, callee, 81)
    assert header.split("|")[1:] == [" calling phone".ljust(33), " called phone"]
    assert set(rule) == {"-"}
    assert [row.split("|")[0].strip() for row in rows] == ["0.0 ms", "2.0 ms", "3.0 ms", "10.5 ms"]
    cells = [[cell.strip() for cell in row.split("|")[1:]] for row in rows]
    assert cells == [
        ["-> * INVITE sip:b", ""],
        ["", "<- * INVITE sip:b"],
        ["", "-> * 180 Ringing"],
        ["<-   180 Ringing", ""],
    ]


def test_no_line_is_wider_than_it_may_be() -> None:
    (long,) = since_first([line(0.0, "->", "INVITE sip:" + "x" * 300 + " SIP/2.0")])
    for width in (60, 80, 140):
        assert all(len(text) <= width for text in side_by_side(long, long, width))
    assert "…" in list(side_by_side(long, [], 80))[2]


def test_one_phone_alone_is_whole_and_a_foreign_line_break_is_none() -> None:
    (ladder,) = since_first([line(5.0, "->", "REGISTER sip:x"), line(5.5, "<-", "401\nNo")])
    assert list(one_phone(ladder)) == [
        "      0.0 ms | -> * REGISTER sip:x",
        "    500.0 ms | <- * 401 No",
    ]


def test_no_messages_are_no_lines() -> None:
    assert list(side_by_side([], [])) == []
    assert since_first([], []) == [[], []]


def test_the_asterisk_is_explained_where_there_is_one() -> None:
    caller, clear = since_first(CALLER, [line(0.0, "->", "REGISTER sip:x", protected=False)])
    assert "security association" in legend(clear, caller)
    assert legend(clear) == legend() == ""
