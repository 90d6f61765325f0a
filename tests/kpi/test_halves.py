"""Steady or not: two halves, 10 %, and what chance does."""

from __future__ import annotations

import json
import random
from math import nan

import pytest

from imsbench.kpi.halves import CallTimes, Halves, disagreements
from imsbench.kpi.sessions import CallSpan


def halves(first_s: float, second_s: float, count: int = 100, spread: float = 0.0) -> Halves:
    made, source = Halves(middle=10.0), random.Random(7)
    for i in range(count):
        for due_at, mean_s in ((i * 10 / count, first_s), (10 + i * 10 / count, second_s)):
            made.add("registration", due_at, mean_s * source.uniform(1 - spread, 1 + spread))
    return made


def said(made: Halves, **values: object) -> list[str]:
    return list(disagreements(made, **values))  # type: ignore[arg-type]


@pytest.mark.parametrize(("second_s", "steady"), [(0.0109, True), (0.0112, False), (0.0088, False)])
def test_means_within_ten_percent(second_s: float, steady: bool) -> None:
    assert (said(halves(0.010, second_s)) == []) is steady


def test_the_sentence_has_both_halves() -> None:
    assert said(halves(0.010, 0.015)) == [
        "the mean registration time is 10 ms in the first half, 15 ms in the second"
    ]


def test_what_chance_does_is_no_disagreement() -> None:
    """12 % apart, but spread by 100 %: of 20 each it is noise, of 2,000 it is not."""
    assert said(halves(0.010, 0.0113, count=20, spread=1.0)) == []
    assert len(said(halves(0.010, 0.0113, count=2000, spread=1.0))) == 1


def test_few_samples_are_not_compared() -> None:
    assert said(halves(0.010, 0.020, count=9)) == []
    assert len(said(halves(0.010, 0.020, count=10))) == 1


@pytest.mark.parametrize(
    ("cpu", "steady"),
    [((0.50, 0.54), True), ((0.50, 0.58), False), ((0.03, 0.045), True), (None, True)],
)
def test_cpu_of_the_target(cpu: tuple[float, float] | None, steady: bool) -> None:
    assert (said(Halves(), cpu_cores=cpu) == []) is steady


def spans(first: int, second: int) -> list[CallSpan]:
    """So many calls at once from 0 s to 100 s, and from there to 200 s."""
    before = [CallSpan(0.0, 1.0, 99.0, 100.0)] * first
    return before + [CallSpan(100.0, 101.0, 199.0, 200.0)] * second


@pytest.mark.parametrize(
    ("first", "second", "poisson", "steady"),
    [
        (100, 109, False, True),
        (100, 120, False, False),
        (100, 117, True, True),  # as many as Poisson arrivals wander in 100 s with a hold of 50 s
        (100, 160, True, False),
        (3, 4, False, True),
    ],
)
def test_calls_in_progress(first: int, second: int, poisson: bool, steady: bool) -> None:
    made = Halves(middle=100.0)
    made.observe(spans(first, second), 0.0, 200.0)
    calls = CallTimes(50.0) if poisson else None
    assert (said(made, calls=calls) == []) is steady


def test_times_that_vary_make_calls_wander_more() -> None:
    made = Halves(middle=100.0)
    made.observe(spans(100, 121), 0.0, 200.0)
    assert said(made, calls=CallTimes(50.0))
    assert not said(made, calls=CallTimes(50.0, variance=2500.0))  # exponential


def test_a_step_that_is_not_judged_keeps_nothing() -> None:
    made = Halves()
    made.add("call", 3.0, 0.1)
    made.observe(spans(1, 9), 0.0, 200.0)
    assert said(made) == []
    assert made.times == {}


def test_a_call_that_was_not_set_up_has_no_time() -> None:
    made = Halves(middle=1.0)
    made.add("call", 0.5, nan)
    assert made.times == {}


def test_parts_merge_into_the_whole() -> None:
    whole = Halves()
    for part in (halves(0.010, 0.010, count=50), halves(0.010, 0.020, count=50)):
        part.observe(spans(5, 5), 0.0, 200.0)
        whole.merge(Halves.from_json(json.loads(json.dumps(part.to_json()))))
    first, second = whole.times["registration"]
    assert (first.count, second.count) == (100, 100)
    assert second.value == pytest.approx(0.015)


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_what_is_no_number_is_refused(value: float) -> None:
    data = halves(0.010, 0.010).to_json()
    data["times"]["registration"][0][1] = value
    with pytest.raises(ValueError, match="no numbers"):
        Halves.from_json(data)
