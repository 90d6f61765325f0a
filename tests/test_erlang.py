"""Whether phones suffice for calls: Erlang's tables, and what a profile is told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imsbench.profile import ProfileError, load_profile, parse_profile
from imsbench.profile.erlang import MOST_LOST, erlang_b, lacking_phones

PROFILE = """
name: small
subscribers: {count: %d}
phases:
  - fill: {rate: 50/s, to: %d}
  - calls: {rate: %s, duration: 60s, hold: {mean: 90s}%s}
generator: {arrivals: %s, workers: %d}
"""


@pytest.mark.parametrize(
    ("offered", "lines", "lost"),
    [
        # Offered load at 1 % and at 0.1 % loss, of the published tables.
        (0.0101, 1, 0.01), (4.461, 10, 0.01), (12.03, 20, 0.01), (84.06, 100, 0.01),
        (3.092, 10, 0.001), (75.24, 100, 0.001),
        (1.0, 1, 0.5), (2.0, 2, 0.4),
    ],
)  # fmt: skip
def test_erlang_b_against_its_tables(offered: float, lines: int, lost: float) -> None:
    assert erlang_b(offered, lines) == pytest.approx(lost, rel=2e-3)


def test_erlang_b_at_its_limits() -> None:
    assert erlang_b(0.0, 5) == 0.0
    assert erlang_b(7.0, 0) == 1.0
    assert erlang_b(10.0, 1_000_000) == 0.0
    assert erlang_b(1e6, 1) == pytest.approx(1.0, abs=2e-6)


@given(st.floats(0.01, 500.0), st.integers(1, 400))
def test_more_lines_lose_less(offered: float, lines: int) -> None:
    assert 0 <= erlang_b(offered, lines) <= erlang_b(offered, lines - 1) <= 1


def problems(
    count: int, rate: str, *, poisson: bool = True, workers: int = 1, more: str = ""
) -> list[str]:
    kind = "poisson" if poisson else "constant"
    try:
        parse_profile(PROFILE % (count, count, rate, more, kind, workers))
    except ProfileError as error:
        return [f"{problem.path}: {problem.text}" for problem in error.problems]
    return []


def test_poisson_calls_that_lose_too_many_arrivals_are_refused_with_the_arithmetic() -> None:
    assert problems(1000, "5/s") == [
        "phases[1].calls.rate: 5/s x 1 min 30 s = 450 calls at once, and 1,000 phones make 500 pairs: "
        "by Erlang B 0.0012 of Poisson arrivals find none (at most 0.0001); more phones, fewer calls, "
        "calls_per_phone or constant arrivals"
    ]


@pytest.mark.parametrize(
    "values",
    [
        {"rate": "2/s"},
        {"rate": "5/s", "poisson": False},
        {"rate": "5/s", "more": ", calls_per_phone: 2"},
        {"rate": "5/s", "workers": 1, "more": ", ring: {mean: 0s}, calls_per_phone: 3"},
    ],
)
def test_calls_that_find_phones(values: dict[str, object]) -> None:
    assert problems(1000, **values) == []  # type: ignore[arg-type]


def test_every_rate_is_looked_at_and_ringing_counts() -> None:
    assert len(problems(1000, "[2/s, 5/s, 5.1/s]")) == 2
    assert (
        "5/s x 1 min 50 s = 550 calls at once"
        in problems(1000, "5/s", more=", ring: {mean: 20s}")[0]
    )


def test_more_calls_than_pairs_are_refused_whatever_the_arrivals() -> None:
    for poisson in (False, True):
        (problem,) = problems(1000, "6/s", poisson=poisson)
        assert (
            "6/s x 1 min 30 s = 540 calls at once, and 1,000 phones make 500 pairs: too few"
            in problem
        )


def test_each_worker_has_its_share_of_phones() -> None:
    """A quarter of the calls among a quarter of the phones loses more than all among all."""
    step = parse_profile(PROFILE % (1000, 1000, "4.2/s", "", "poisson", 1)).steps()[1]
    assert lacking_phones(step, 1) == ""
    text = lacking_phones(step, 4)
    assert "/ 4 workers = 94.5 calls at once, and 1,000 phones / 4 workers make 125 pairs" in text


def test_the_limit_is_one_in_ten_thousand() -> None:
    assert erlang_b(4.2 * 90, 500) < MOST_LOST < erlang_b(4.2 * 90 / 4, 125)


def test_calls_beside_a_cycle_are_looked_at_too() -> None:
    text = PROFILE % (1000, 1000, "5/s", "", "poisson", 1)
    text = text.replace(
        "  - calls: {rate: 5/s, duration: 60s, hold: {mean: 90s}}",
        "  - together: [{calls: {rate: 5/s, duration: 60s}}, {hold: {duration: 10s}}]",
    )
    with pytest.raises(ProfileError, match=r"phases\[1\].together: 5/s x 1 min 30 s = 450"):
        parse_profile(text)


def test_the_published_points_need_two_calls_a_phone_for_poisson_only() -> None:
    for name, most in (("ella-1000", 1), ("ella-1000-poisson", 2), ("ella-50000-poisson", 1)):
        made = load_profile(name).phases[2].calls
        assert made is not None
        assert made.calls_per_phone == most


@pytest.mark.parametrize(("count", "workers"), [(1, 1), (3, 2), (4, 2)])
def test_calls_of_workers_without_a_pair_are_refused(count: int, workers: int) -> None:
    (problem,) = problems(count, "100/s", poisson=False, workers=workers)
    assert problem.endswith("pairs: too few")


def test_a_single_phone_may_call_whom_nobody_has_registered() -> None:
    assert problems(1, "1/s", poisson=False, more=", unregistered: 1.0") == [
        "phases[1].calls.unregistered: all 1 subscribers are registered by then"
    ]


def test_a_phone_with_two_calls_is_no_pair_by_itself_and_rates_are_told_once() -> None:
    (problem,) = problems(2, "[1/s, 2/s]", poisson=False, workers=2, more=", calls_per_phone: 2")
    assert "make 0 pairs: too few" in problem
