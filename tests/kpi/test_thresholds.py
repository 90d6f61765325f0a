"""Thresholds: what they mean, and what is said about those that mean nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imsbench.kpi.definitions import DEFINITIONS
from imsbench.kpi.kpis import StepKpis
from imsbench.kpi.sessions import CallSpan
from imsbench.kpi.thresholds import (
    State,
    ThresholdError,
    overall,
    parse_threshold,
    parse_thresholds,
)
from imsbench.profile import load_profile, shipped_profiles
from tests.kpi.outcomes import call, failure, refused_call, success


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


@pytest.fixture(scope="module")
def call_kpis() -> StepKpis:
    """999 answered calls, set up in 1 ms to 999 ms, one of them dropped, and one refused."""
    kpis = StepKpis()
    for i in range(1, 1000):
        kpis.record_call(
            call(setup_s=i / 1000, dropped=i == 1, cause="early bye" if i == 1 else "")
        )
    kpis.record_call(refused_call(503))
    kpis.sessions.observe([CallSpan(0.0, 0.5, 9.0, 10.0)] * 7, 0.0, 20.0)
    return kpis


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("session_setup_time.p99 < 200ms", "broken"),
        ("session_setup_time.p99 < 1s", "kept"),
        ("session_establishment_success_rate >= 99.9%", "kept"),
        ("session_establishment_success_rate > 99.9%", "broken"),
        ("call_drop_rate < 0.1%", "broken"),  # 1 of 999 answered
        ("call_drop_rate < 0.2%", "kept"),
        ("session_request_delay.mean < 1s", "kept"),
        ("calls_in_progress.mean >= 3.5", "kept"),
        ("calls_in_progress.mean > 3.5", "broken"),
        ("calls_in_progress.max <= 7", "kept"),
        ("simultaneous_sessions.mean < 3", "kept"),
        ("registration_time.p99 < 1s", "undefined"),
    ],
)
def test_thresholds_of_calls_are_judged(text: str, state: State, call_kpis: StepKpis) -> None:
    assert parse_threshold(text).evaluate(call_kpis) == state


@pytest.mark.parametrize(
    "text",
    ["session_setup_time.p99 < 200ms", "call_drop_rate < 0.1%", "calls_in_progress.max < 5"],
)
def test_thresholds_of_calls_are_undefined_without_calls(text: str, kpis: StepKpis) -> None:
    assert parse_threshold(text).evaluate(kpis) == "undefined"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("calls_in_progress > 5", "a dot and one of mean, max"),
        ("calls_in_progress.p99 > 5", "a dot and one of mean, max"),
        ("calls_in_progress.mean > 5s", "the limit of calls at once is a number"),
        ("calls_in_progress.mean > 5%", "the limit of calls at once is a number"),
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
        ("call_drop_rate < 0,1%", "in digits: 99.9%"),
        ("initial_registration_success_rate > 100%", "can never hold: no rate is > 100%"),
        ("call_drop_rate < 0%", "can never hold"),
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
        assert parse_thresholds([one.that for one in load_profile(name).thresholds])[1] == []


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
