"""Every KPI from outcomes made by hand; parts merge to the whole."""

from __future__ import annotations

import json
from math import inf, nan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from imsbench.kpi.definitions import DEFINITIONS
from imsbench.kpi.kpis import PROCEDURES, StepKpis
from imsbench.kpi.statistics import Ratio
from imsbench.outcome import Outcome
from tests.kpi.outcomes import failure, success


def kpis_of(*outcomes: Outcome) -> StepKpis:
    kpis = StepKpis()
    for outcome in outcomes:
        kpis.record(outcome)
    return kpis


def test_times_count_from_sent_from_due_and_from_start() -> None:
    kpis = kpis_of(success(time_s=0.020, late_s=0.003, handshake_s=0.001, phone_s=0.0004))
    registration = kpis.procedures["registration"]
    assert kpis.histogram("registration_time").mean == pytest.approx(0.020)
    assert kpis.histogram("registration_time_from_due").mean == pytest.approx(0.024)
    assert registration.histogram("time_from_start").mean == pytest.approx(0.021)
    assert kpis.histogram("registration_phone_time").mean == pytest.approx(0.0004)
    assert kpis.lateness.mean == pytest.approx(0.003)


def test_failures_have_their_own_times_and_causes() -> None:
    kpis = kpis_of(
        success(),
        failure("timeout", "answer", status=401, after_s=32.0),
        failure("timeout", "answer", status=401, after_s=32.0),
        failure("503", "challenge", status=503, after_s=0.5),
    )
    registration = kpis.procedures["registration"]
    assert (registration.attempted, registration.succeeded, registration.failed) == (4, 1, 3)
    assert registration.failures == {("answer", "timeout"): 2, ("challenge", "503"): 1}
    assert kpis.histogram("registration_time").count == 1
    assert registration.histogram("failed_time").maximum == pytest.approx(32.0)
    assert kpis.ratio("initial_registration_success_rate") == Ratio(1, 4)


def test_the_first_response_counts_whatever_became_of_the_attempt() -> None:
    registered = success(time_s=0.020, late_s=0.0, handshake_s=0.0, responded_at=100.005)
    forbidden = failure("403", status=403)
    forbidden.responded_at = 100.015
    kpis = kpis_of(registered, forbidden, failure("timeout", after_s=32.0))
    first = kpis.histogram("registration_first_response_time")
    assert first.count == 2
    assert first.mean == pytest.approx(0.010)


def test_a_failure_before_anything_was_sent_has_no_times_but_counts() -> None:
    outcome = failure("sa refused", "aka", sent=False)
    outcome.started_at = outcome.ended_at = nan
    kpis = kpis_of(outcome)
    assert kpis.procedures["registration"].failed == 1
    assert kpis.procedures["registration"].histograms == {}
    assert kpis.lateness.count == 0


@pytest.mark.parametrize(
    ("cause", "status", "ineffective"),
    [
        # RFC 6076 §4.2: 4xx but 401, 402, 407; 5xx; 6xx; Timer F.
        ("400", 400, True), ("403", 403, True), ("401", 401, False), ("402", 402, False),
        ("407", 407, False), ("302", 302, False), ("500", 500, True), ("503", 503, True),
        ("603", 603, True), ("timeout", 0, True), ("timeout", 401, True),
        # A transport error is a 503 to the transaction user (RFC 3261 §8.1.3.1).
        ("refused", 0, True), ("reset", 401, True),
        # The phone's own refusals, unless the network's last word was a failure of the list.
        ("mac failure", 401, False), ("mac failure", 403, True), ("sync failure", 401, False),
        ("no binding", 200, False), ("sa refused", 401, False),
    ],
)  # fmt: skip
def test_ineffective_registration_attempts(cause: str, status: int, ineffective: bool) -> None:
    kpis = kpis_of(success(), failure(cause, status=status))
    ratio = kpis.ratio("ineffective_registration_attempts")
    assert ratio == Ratio(1 if ineffective else 0, 2)


def test_challenges_and_resynchronisations() -> None:
    kpis = kpis_of(
        success(challenges=1),
        success(challenges=2, resynchronisations=1),
        success(challenges=2),
        success(challenges=3, resynchronisations=1),
    )
    registration = kpis.procedures["registration"]
    assert registration.challenges == 8
    assert registration.resynchronisations == 2
    assert registration.second_challenges == 2


def test_subscription_times() -> None:
    early = success("subscription", time_s=0.010)
    early.notify_at = early.sent_at + 0.004
    refresh = success("subscription", time_s=0.030)
    kpis = kpis_of(early, refresh, failure("no notify", "notify", "subscription", status=200))
    assert kpis.histogram("subscription_time").mean == pytest.approx(0.020)
    assert kpis.histogram("notification_time").mean == pytest.approx(0.004)
    assert kpis.histogram("notification_time").count == 1
    assert kpis.ratio("subscription_success_rate") == Ratio(2, 3)


def test_rates_without_attempts_are_undefined_not_zero() -> None:
    kpis = StepKpis()
    for definition in DEFINITIONS.values():
        if definition.kind == "ratio":
            assert kpis.ratio(definition.key).value is None
            assert kpis.ratio(definition.key).interval is None
        elif definition.kind == "level":
            assert kpis.level(definition.key).mean is None
        else:
            assert kpis.quantile(definition.key, 0.99) is None


def test_p99_needs_a_hundred_samples() -> None:
    kpis = kpis_of(*(success() for _ in range(99)))
    assert kpis.quantile("registration_time", 0.99) is None
    kpis.record(success())
    assert kpis.quantile("registration_time", 0.99) == pytest.approx(0.020, rel=1e-3)


def test_measured_rate_counts_gaps_not_posts() -> None:
    kpis = kpis_of(*(success(due_at=100 + i / 50) for i in range(101)))
    assert kpis.procedures["registration"].rate == pytest.approx(50.0)
    assert kpis_of(success()).procedures["registration"].rate is None


_OUTCOMES = st.builds(
    lambda procedure, time_s, late_s, cause: (
        failure(cause, procedure=procedure) if cause else success(procedure, time_s, late_s=late_s)
    ),
    st.sampled_from(PROCEDURES),
    st.floats(1e-5, 40.0),
    st.floats(0.0, 0.1),
    st.sampled_from(["", "", "timeout", "403", "mac failure"]),
)


@settings(deadline=None, max_examples=25)
@given(st.lists(_OUTCOMES, max_size=40), st.integers(1, 5))
def test_merged_parts_equal_the_whole(outcomes: list[Outcome], parts: int) -> None:
    whole = kpis_of(*outcomes)
    merged = StepKpis()
    for part in range(parts):
        sent = json.dumps(kpis_of(*outcomes[part::parts]).to_json(), allow_nan=False)
        merged.merge(StepKpis.from_json(json.loads(sent)))
    assert _without_sums(merged.to_json()) == _without_sums(whole.to_json())
    for procedure in PROCEDURES:
        for series, histogram in whole.procedures[procedure].histograms.items():
            other = merged.procedures[procedure].histogram(series)
            assert other.mean == pytest.approx(histogram.mean)
            assert other.quantile(0.99) == histogram.quantile(0.99)


def _without_sums(value: object) -> object:
    """The sums of floats depend on their order in the last bits; everything else is exact."""
    if isinstance(value, dict):
        return {k: _without_sums(v) for k, v in value.items() if k not in ("sum_s", "sum_squares")}
    return [_without_sums(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: data.pop("lateness"),
        lambda data: data["procedures"].pop("registration"),
        lambda data: data["procedures"].update(calls={}),
        lambda data: data["procedures"]["registration"].update(attempted="many"),
        lambda data: data["procedures"]["registration"].update(attempted=5),
        lambda data: data["procedures"]["registration"].update(attempted=inf),
        lambda data: data["procedures"]["registration"].update(
            attempted="9" * 30, succeeded="9" * 30, failures=[]
        ),
        lambda data: data["procedures"]["registration"].update(first_started_at=nan),
        lambda data: data["procedures"]["registration"].update(last_started_at=inf),
        lambda data: data["procedures"]["registration"].update(failures=[{}]),
        lambda data: data["procedures"]["registration"].update(ineffective=3),
        lambda data: data["procedures"]["registration"].update(attempted=-1, succeeded=-2),
        lambda data: data["procedures"]["registration"]["histograms"].update(time={"hdr": "x"}),
        lambda data: data["procedures"]["registration"]["histograms"].update(
            wait=data["procedures"]["registration"]["histograms"]["time"]
        ),
        lambda data: data.update(procedures=[]),
    ],
)
def test_broken_json_is_a_value_error(spoil: object) -> None:
    data = kpis_of(success(), failure("403")).to_json()
    assert callable(spoil)
    spoil(data)
    with pytest.raises(ValueError, match="not the KPIs of a step"):
        StepKpis.from_json(data)


def test_totals_of_all_procedures() -> None:
    kpis = kpis_of(success(), success("deregistration"), failure("403"), success("reregistration"))
    assert kpis.totals() == {
        "attempted": 4, "succeeded": 3, "failed": 1, "registrations": 2,
        "registrations_succeeded": 1, "refreshes": 1, "refreshes_succeeded": 1,
        "calls": 0, "calls_succeeded": 0,
    }  # fmt: skip
