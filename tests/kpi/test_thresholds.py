"""Thresholds: what they mean, and what is said about those that mean nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imsbench.kpi.definitions import DEFINITIONS
from imsbench.kpi.kpis import StepKpis
from imsbench.kpi.thresholds import (
    State,
    ThresholdError,
    overall,
    parse_threshold,
    parse_thresholds,
)
from imsbench.profile import load_profile, shipped_profiles
from tests.kpi.outcomes import failure, success


@pytest.fixture(scope="module")
def kpis() -> StepKpis:
    """999 successes from 1 ms to 999 ms, one failure."""
    kpis = StepKpis()
    for i in range(1, 1000):
        kpis.record(success(time_s=i / 1000))
    kpis.record(failure("503"))
    return kpis


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("registration_time.p99 < 995ms", "kept"),
        ("registration_time.p99 < 985ms", "broken"),
        ("registration_time.p50<=0.501s", "kept"),
        ("registration_time.mean > 499 ms", "kept"),
        ("registration_time.max >= 1s", "broken"),
        ("registration_time.min < 1500us", "kept"),
        ("registration_time.count >= 999", "kept"),
        ("registration_time.count > 999", "broken"),
        ("registration_time.p99.9 < 1min", "undefined"),  # 999 samples, 1,000 are needed
        ("initial_registration_success_rate >= 99.9%", "kept"),  # exactly 999 of 1,000
        ("initial_registration_success_rate > 99.9 %", "broken"),
        ("ineffective_registration_attempts <= 0.1%", "kept"),
        ("reregistration_time.p99 < 1s", "undefined"),
        ("reregistration_time.count < 1", "kept"),
        ("reregistration_success_rate >= 99%", "undefined"),
    ],
)
def test_thresholds_are_judged(text: str, state: State, kpis: StepKpis) -> None:
    assert parse_threshold(text).evaluate(kpis) == state


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "is not a threshold"),
        ("registration_time.p99 = 200ms", "one of < <= > >="),
        ("registration_time.p99 <", "is not a threshold"),
        ("registration_tim.p99 < 1s", "did you mean registration_time?"),
        ("registration_time < 1s", "a dot and one of mean, min, max, count"),
        ("registration_time.p0 < 1s", "a dot and one of"),
        ("registration_time.median < 1s", "a dot and one of"),
        ("registration_time.p99 < 200", "a duration such as"),
        ("registration_time.p99 < 99%", "a duration such as"),
        ("registration_time.count < 5ms", "a whole number"),
        ("initial_registration_success_rate >= 0.999", "a percentage"),
        ("initial_registration_success_rate >= 101%", "a percentage"),
        ("initial_registration_success_rate.p99 >= 99%", "is a rate and has no 'p99'"),
    ],
)
def test_what_is_wrong_is_said(text: str, what: str) -> None:
    with pytest.raises(ThresholdError) as caught:
        parse_threshold(text)
    assert what in str(caught.value)
    assert repr(text) in str(caught.value)


def test_all_errors_come_with_their_positions() -> None:
    thresholds, errors = parse_thresholds(["x", "registration_time.p99 < 1s", "y < 1"])
    assert [threshold.key for threshold in thresholds] == ["registration_time"]
    assert [position for position, _ in errors] == [0, 2]


def test_shipped_profiles_have_readable_thresholds() -> None:
    for name in shipped_profiles():
        assert parse_thresholds(load_profile(name).thresholds)[1] == []


def test_over_all_steps() -> None:
    assert overall(["kept", "undefined", "kept"]) == "kept"
    assert overall(["kept", "broken", "undefined"]) == "broken"
    assert overall(["undefined"]) == overall([]) == "undefined"


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        threshold = parse_threshold(text)
    except ThresholdError:
        return
    assert threshold.key in DEFINITIONS


@given(
    st.sampled_from(sorted(key for key, d in DEFINITIONS.items() if d.kind == "time")),
    st.sampled_from(["mean", "p50", "p99", "p99.9"]),
    st.sampled_from(["<", "<=", ">", ">="]),
    st.integers(1, 10**6),
)
def test_well_formed_thresholds_are_read(key: str, statistic: str, sign: str, limit: int) -> None:
    threshold = parse_threshold(f" {key}.{statistic}{sign} {limit}ms ")
    assert (threshold.key, threshold.statistic, threshold.sign) == (key, statistic, sign)
    assert threshold.limit == limit / 1000
