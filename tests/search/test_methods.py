"""The loads that each method tries, and where it ends."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from imsbench.profile import Search, Span
from imsbench.search.methods import Bracket, Trials, bisect, rfc7502, rules, stepped

SPAN = Span(start=30.0, increase=1.0)


def follow(method: Trials, good: Callable[[float], bool]) -> tuple[Bracket, list[float]]:
    """The bracket, and every load that was tried."""
    tried: list[float] = []
    try:
        rate = next(method)
        while True:
            tried.append(rate)
            assert len(tried) < 3000, "it does not end"
            rate = method.send(good(rate))
    except StopIteration as end:
        bracket: Bracket = end.value
        return bracket, tried


def test_stepped_goes_up_by_its_increase() -> None:
    bracket, tried = follow(stepped(SPAN, inf, Search()), lambda rate: rate <= 33.4)
    assert tried == [30.0, 31.0, 32.0, 33.0, 34.0]
    assert bracket == Bracket(33.0, 34.0)


def test_stepped_ends_at_the_most() -> None:
    bracket, tried = follow(stepped(SPAN, 32.5, Search()), lambda _rate: True)
    assert (bracket, tried[-1]) == (Bracket(32.5, None), 32.5)


def test_the_first_step_may_be_too_much() -> None:
    assert follow(stepped(SPAN, inf, Search()), lambda _rate: False)[0] == Bracket(None, 30.0)
    bracket, tried = follow(bisect(SPAN, inf, Search()), lambda _rate: False)
    assert (bracket.low, len(tried)) == (None, 9)
    bracket, tried = follow(rfc7502(SPAN, inf, Search()), lambda _rate: False)
    assert (bracket, tried[-1]) == (Bracket(None, 1.0), 1.0)


def test_the_example_of_rfc_7502() -> None:
    """RFC 7502 §4.10: a device whose limit is 460 ends at 458, from r = 100."""
    span = Span(start=100.0, increase=1.0)
    bracket, tried = follow(rfc7502(span, inf, Search()), lambda rate: rate <= 460)
    assert bracket.low == 458.0
    assert tried[:5] == [100.0, 110.0, 121.0, 133.0, 146.0]


@given(truth=st.floats(1.0, 900.0), start=st.integers(1, 500))
@settings(max_examples=60, deadline=None)
def test_rfc_7502_ends_everywhere_and_near(truth: float, start: int) -> None:
    span = Span(start=float(start), increase=1.0)
    bracket, _ = follow(rfc7502(span, inf, Search()), lambda rate: rate <= truth)
    assert bracket.low is not None
    assert bracket.high is not None
    assert bracket.low <= truth < bracket.high
    assert bracket.low >= 0.85 * truth - 1


@given(truth=st.floats(0.2, 5000.0), start=st.floats(0.5, 1000.0))
@settings(max_examples=200, deadline=None)
def test_a_bisection_ends_with_a_narrow_bracket_around_the_truth(
    truth: float, start: float
) -> None:
    search = Search(resolution=0.02)
    span = Span(start=start, increase=1.0)
    bracket, tried = follow(bisect(span, inf, search), lambda rate: rate <= truth)
    if bracket.low is None:
        assert truth < start / 2**7
        return
    assert bracket.high is not None
    assert bracket.low <= truth < bracket.high
    assert bracket.high <= bracket.low * 1.02 + 1e-9
    assert len(tried) < 40


def test_every_method_tells_its_rules_with_its_numbers() -> None:
    search = Search(resolution=0.02, sessions=500)
    assert "Begin at 30 attempts/s; after each step that meets the objective add 1/s." in rules(
        "stepped", SPAN, search
    )
    assert "within 0.02 of the lower one" in " ".join(rules("bisect", SPAN, search))
    told = " ".join(rules("rfc7502", SPAN, search))
    assert "N = 500 attempts" in told
    assert "RFC 7502 §4.10 has N = 50,000" in told


@pytest.mark.parametrize("fraction", [0.05, 0.1, 0.5])
def test_rfc_7502_takes_its_fraction(fraction: float) -> None:
    _, tried = follow(
        rfc7502(Span(start=100.0, increase=1.0), inf, Search(fraction=fraction)),
        lambda rate: rate <= 100,
    )
    assert tried[1] == pytest.approx(100 + 100 * fraction)
