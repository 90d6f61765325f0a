"""Session KPIs: every formula from calls made by hand; calls at once, exactly; parts merge to the whole."""

from __future__ import annotations

import json
from math import inf, nan
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from imsbench.kpi.concurrency import Concurrency, Interval
from imsbench.kpi.definitions import DEFINITIONS
from imsbench.kpi.kpis import StepKpis
from imsbench.kpi.sessions import CallSpan, SessionKpis
from imsbench.kpi.statistics import Ratio
from imsbench.outcome import CallOutcome
from tests.kpi.outcomes import call, refused_call, success


def kpis_of(*outcomes: CallOutcome) -> StepKpis:
    kpis = StepKpis()
    for outcome in outcomes:
        kpis.record_call(outcome)
    return kpis


def dropped_call(**values: Any) -> CallOutcome:
    return call(dropped=True, cause="early bye", stage="talk", release_by="network", **values)


RATIOS = [key for key, definition in DEFINITIONS.items() if definition.kind == "ratio"]


@pytest.mark.parametrize(
    ("key", "ratio"),
    [
        # 2 answered and ended as planned, 1 dropped; 1 rang and was cancelled (487); refused without
        # a 180: 486, 404, 480, 603, 500, 503, 302, 408; 1 that nobody answered: 13 attempts.
        ("session_establishment_success_rate", Ratio(4, 13)),
        # 486, 404, 480, 603 are left out; the cancelled one rang, so the network did its part.
        ("session_establishment_network_success_rate", Ratio(4, 9)),
        ("session_answer_rate", Ratio(3, 13)),
        ("call_drop_rate", Ratio(1, 3)),
        ("session_establishment_ratio", Ratio(3, 12)),  # without the 302
        ("session_establishment_effectiveness_ratio", Ratio(6, 12)),  # and 480, 486, 603
        ("ineffective_session_attempts", Ratio(4, 13)),  # 408, 500, 503, nobody
        ("session_completion_ratio", Ratio(12, 13)),  # all but the one that nobody answered
        ("calls_as_planned", Ratio(4, 13)),  # 2 answered, the cancelled one, the planned 486
    ],
)
def test_every_ratio(key: str, ratio: Ratio) -> None:
    kpis = kpis_of(
        call(), call(), dropped_call(),
        refused_call(487, rings=True, cause=""), refused_call(486, cause=""), refused_call(404),
        refused_call(480), refused_call(603), refused_call(500), refused_call(503),
        refused_call(302), refused_call(408), refused_call(0),
    )  # fmt: skip
    assert kpis.ratio(key) == ratio


@pytest.mark.parametrize(
    ("status", "user", "effective", "ineffective"),
    [
        (404, True, False, False), (480, True, True, False), (484, True, False, False),
        (486, True, True, False), (487, True, False, False), (600, True, True, False),
        (603, True, True, False), (408, False, False, True), (500, False, False, True),
        (503, False, False, True), (504, False, False, True), (403, False, False, False),
        (580, False, False, False), (0, False, False, True),
    ],
)  # fmt: skip
def test_which_responses_count_where(
    status: int, user: bool, effective: bool, ineffective: bool
) -> None:
    kpis = kpis_of(call(), refused_call(status))
    network = kpis.ratio("session_establishment_network_success_rate")
    assert network == Ratio(1, 1 if user else 2)
    seer = kpis.ratio("session_establishment_effectiveness_ratio")
    assert seer == Ratio(2 if effective else 1, 2)
    assert kpis.ratio("ineffective_session_attempts") == Ratio(1 if ineffective else 0, 2)
    assert kpis.ratio("session_completion_ratio") == Ratio(2 if status else 1, 2)


@pytest.mark.parametrize(
    ("outcome", "completed"),
    [
        (call(), True),
        (dropped_call(), True),  # the network's BYE was answered
        (call(dropped=True, cause="timeout", stage="bye"), False),  # ours was not
        (call(dropped=True, cause="481", stage="bye", refusal=481), True),
        (call(dropped=True, cause="no bye", stage="bye", release_by=""), False),
        (refused_call(0, cause="timeout", stage="prack"), False),
        (refused_call(0, cause="500", stage="update", refusal=500), True),
        (refused_call(0, cause="Rx", stage="update", refusal=503), True),
        (refused_call(486, cause=""), True),
    ],
)
def test_a_session_completes_unless_a_response_is_missing(
    outcome: CallOutcome, completed: bool
) -> None:
    assert kpis_of(outcome).ratio("session_completion_ratio") == Ratio(int(completed), 1)


def test_a_refused_update_ends_the_attempt_with_its_status() -> None:
    kpis = kpis_of(
        refused_call(0, cause="500", stage="update", refusal=500),
        refused_call(0, cause="403", stage="update", refusal=403),
        refused_call(0, cause="Rx", stage="update", refusal=503),
        refused_call(0, cause="Rx", stage="prack", refusal=580),
    )
    assert kpis.ratio("ineffective_session_attempts") == Ratio(2, 4)


def test_ratios_without_calls_are_undefined() -> None:
    for key in RATIOS:
        assert StepKpis().ratio(key).value is None
    refused = kpis_of(refused_call(486))
    assert refused.ratio("call_drop_rate").value is None
    assert refused.ratio("session_establishment_network_success_rate").value is None
    assert kpis_of(refused_call(302)).ratio("session_establishment_ratio").value is None


def test_every_time_of_an_answered_call() -> None:
    kpis = kpis_of(call(late_s=0.003, setup_s=0.020, hold_s=3.0, release_s=0.004, phone_s=0.0007))
    expected = {
        "session_setup_time": 0.020, "session_setup_time_from_due": 0.023,
        "session_answer_time": 0.020, "session_request_delay": 0.010,
        "session_disconnect_delay": 0.004, "session_duration_time": 3.0,
        "session_first_response_time": 0.002, "session_routing_time": 0.005,
        "session_phone_time": 0.0007,
    }  # fmt: skip
    for key, value in expected.items():
        assert kpis.histogram(key).mean == pytest.approx(value), key
    assert kpis.sessions.histogram("setup_from_start").mean == pytest.approx(0.020)
    assert kpis.histogram("failed_session_request_delay").count == 0
    assert kpis.sessions.histogram("unanswered_time").count == 0
    assert kpis.lateness.mean == pytest.approx(0.003)


def test_set_up_ends_at_the_180_and_answer_at_the_2xx() -> None:
    ringing = call(setup_s=0.020)
    ringing.answered_at += 5.0
    kpis = kpis_of(ringing)
    assert kpis.histogram("session_setup_time").mean == pytest.approx(0.020)
    assert kpis.histogram("session_answer_time").mean == pytest.approx(5.020)


def test_an_answer_without_provisional_responses_ends_every_delay() -> None:
    at_once = call(trying_at=nan, progress_at=nan, ringing_at=nan)
    kpis = kpis_of(at_once)
    for key in ("session_setup_time", "session_request_delay", "session_first_response_time"):
        assert kpis.histogram(key).mean == pytest.approx(0.020), key


def test_the_delays_of_answered_and_of_refused_calls_are_never_mixed() -> None:
    kpis = kpis_of(
        refused_call(486, after_s=0.040, progress=True),  # to its 183
        refused_call(500, after_s=0.060),  # no provisional one: to the 500
        refused_call(0, after_s=32.0),  # no response is no delay
        refused_call(302, after_s=0.050),
    )
    assert kpis.histogram("session_request_delay").count == 0
    failed = kpis.histogram("failed_session_request_delay")
    assert failed.count == 2
    assert failed.mean == pytest.approx(0.040)
    assert kpis.histogram("session_setup_time").count == 0
    assert kpis.sessions.histogram("unanswered_time").count == 4
    assert kpis.histogram("session_first_response_time").count == 3


def test_disconnect_delays_are_of_byes_of_ours_that_were_answered() -> None:
    lost = call(dropped=True, cause="timeout", stage="bye", release_s=32.0)
    lost.release_by = "caller"
    theirs = call(release_by="callee", release_s=0.0)
    kpis = kpis_of(lost, theirs)
    assert kpis.histogram("session_disconnect_delay").count == 0
    assert kpis.histogram("session_duration_time").count == 2


def test_a_wrong_call_is_a_failure_but_no_drop() -> None:
    kpis = kpis_of(call(wrong="caller identity", cause="wrong call", stage="check"))
    assert kpis.ratio("call_drop_rate") == Ratio(0, 1)
    assert kpis.ratio("calls_as_planned") == Ratio(0, 1)
    assert kpis.sessions.wrong == 1
    assert kpis.sessions.failures == {("check", "wrong call"): 1}
    totals = kpis.totals()
    assert (totals["attempted"], totals["succeeded"], totals["failed"]) == (1, 0, 1)
    assert (totals["calls"], totals["calls_succeeded"]) == (1, 0)


def test_statuses_and_events_are_counted() -> None:
    kpis = kpis_of(
        call(events={"repeated_2xx": 2}), call(events={"repeated_2xx": 1}), refused_call(0)
    )
    assert kpis.sessions.statuses == {200: 2, 0: 1}
    assert kpis.sessions.events == {"repeated_2xx": 3}


def test_measured_rate() -> None:
    kpis = kpis_of(*(call(due_at=100 + i / 5) for i in range(11)))
    assert kpis.sessions.rate == pytest.approx(5.0)
    assert kpis_of(call()).sessions.rate is None
    unsent = call(started_at=nan, sent_at=nan)
    assert kpis_of(unsent, unsent).sessions.rate is None


def test_calls_and_registrations_do_not_mix() -> None:
    kpis = kpis_of(call())
    kpis.record(success())
    assert kpis.ratio("initial_registration_success_rate") == Ratio(1, 1)
    assert kpis.ratio("session_establishment_success_rate") == Ratio(1, 1)
    totals = kpis.totals()
    assert (totals["attempted"], totals["succeeded"], totals["failed"]) == (2, 2, 0)
    assert (totals["calls"], totals["registrations"]) == (1, 1)


def test_a_kpi_is_asked_for_as_what_it_is() -> None:
    kpis = kpis_of(call())
    for key, definition in DEFINITIONS.items():
        for kind, ask in (("time", kpis.histogram), ("ratio", kpis.ratio), ("level", kpis.level)):
            if definition.kind == kind:
                ask(key)
            else:
                with pytest.raises(KeyError, match=f"{key} is no {kind}"):
                    ask(key)


# -- calls at once ---------------------------------------------------------------------------------


def span(sent_at: float, answered_at: float, released_at: float, ended_at: float) -> CallSpan:
    return CallSpan(sent_at, answered_at, released_at, ended_at)


def test_calls_at_once_are_exact() -> None:
    kpis = StepKpis()
    kpis.sessions.observe(
        [
            span(-5.0, -4.0, 2.0, 3.0),  # began before: counts with its rest
            span(1.0, 2.0, 8.0, 9.0),
            span(8.0, 9.5, 14.0, 15.0),  # lasts beyond
            span(4.0, nan, 5.0, 5.0),  # never answered
            span(nan, nan, 6.0, 6.0),  # never sent
            span(-9.0, -8.0, -2.0, -1.0),  # over before
        ],
        0.0,
        10.0,
    )
    progress, answered = kpis.level("calls_in_progress"), kpis.level("simultaneous_sessions")
    assert (progress.maximum, answered.maximum) == (2, 1)
    assert progress.mean == pytest.approx((3 + 8 + 2 + 1) / 10)
    assert answered.mean == pytest.approx((2 + 6 + 0.5) / 10)


def test_an_end_and_a_beginning_at_one_instant_are_not_at_once() -> None:
    calls = Concurrency()
    calls.observe([(0.0, 5.0), (5.0, 10.0)], 0.0, 10.0)
    assert (calls.maximum, calls.mean) == (1, 1.0)


def test_nothing_observed_is_undefined() -> None:
    calls = Concurrency()
    assert calls.mean is None
    calls.observe([(0.0, 1.0)], 5.0, 5.0)
    assert (calls.mean, calls.maximum) == (None, 0)
    calls.observe([], 0.0, 4.0)
    assert calls.mean == 0.0


def test_littles_law_holds_for_constant_arrivals() -> None:
    """λ = 5/s, 90 s each: 450 at any time, whatever the window."""
    calls = Concurrency()
    calls.observe([(i / 5, i / 5 + 90.0) for i in range(2000)], 100.0, 300.0)
    assert calls.mean == pytest.approx(450.0)
    assert calls.maximum == 450


_INTERVALS = st.lists(
    st.tuples(st.integers(-20, 40), st.integers(0, 30)).map(lambda t: (t[0] / 2, (t[0] + t[1]) / 2))
)


@given(_INTERVALS)
def test_calls_at_once_against_a_count_at_every_instant(intervals: list[Interval]) -> None:
    """The ends lie on halves: halfway between two of them nothing changes."""
    calls = Concurrency()
    calls.observe(intervals, 0.0, 10.0)
    counts = [sum(a < t < b for a, b in intervals) for t in (i / 2 + 0.25 for i in range(20))]
    assert calls.maximum == max(counts)
    assert calls.mean == pytest.approx(sum(counts) * 0.5 / 10.0)


@given(_INTERVALS, st.integers(1, 4))
def test_workers_add_up(intervals: list[Interval], parts: int) -> None:
    whole, merged = Concurrency(), Concurrency()
    whole.observe(intervals, 0.0, 10.0)
    for part in range(parts):
        one = Concurrency()
        one.observe(intervals[part::parts], 0.0, 10.0)
        merged.merge(Concurrency.from_json(json.loads(json.dumps(one.to_json()))))
    assert merged.observed_s == whole.observed_s
    assert merged.mean == pytest.approx(whole.mean)
    assert merged.maximum >= whole.maximum


# -- merging, JSON ---------------------------------------------------------------------------------

_OUTCOMES = st.one_of(
    st.builds(
        lambda setup_s, release: call(setup_s=setup_s, release_by=release, events={"forked": 1}),
        st.floats(0.001, 30.0),
        st.sampled_from(["caller", "callee"]),
    ),
    st.builds(lambda s: dropped_call(setup_s=s), st.floats(0.001, 30.0)),
    st.builds(
        lambda status, rings, cause: refused_call(status, rings=rings, cause=cause),
        st.sampled_from([0, 302, 404, 408, 480, 486, 487, 500, 503, 603]),
        st.booleans(),
        st.sampled_from(["", None]),
    ),
)


@settings(deadline=None, max_examples=25)
@given(st.lists(_OUTCOMES, max_size=30), st.integers(1, 4))
def test_merged_parts_equal_the_whole(outcomes: list[CallOutcome], parts: int) -> None:
    whole = kpis_of(*outcomes)
    merged = StepKpis()
    for part in range(parts):
        sent = json.dumps(kpis_of(*outcomes[part::parts]).to_json(), allow_nan=False)
        merged.merge(StepKpis.from_json(json.loads(sent)))
    for key in RATIOS:
        assert merged.ratio(key) == whole.ratio(key)
        value = whole.ratio(key).value
        assert value is None or 0 <= value <= 1
    assert merged.sessions.statuses == whole.sessions.statuses
    assert merged.sessions.failures == whole.sessions.failures
    assert merged.sessions.events == whole.sessions.events
    assert merged.sessions.first_started_at == whole.sessions.first_started_at
    assert merged.sessions.last_started_at == whole.sessions.last_started_at
    for series, histogram in whole.sessions.histograms.items():
        other = merged.sessions.histogram(series)
        assert (other.count, other.quantile(0.99)) == (histogram.count, histogram.quantile(0.99))


def test_json_comes_back_as_it_went() -> None:
    kpis = kpis_of(call(events={"forked": 1}), dropped_call(), refused_call(486), refused_call(0))
    kpis.sessions.observe([span(0.0, 1.0, 2.0, 3.0)], 0.0, 5.0)
    text = json.dumps(kpis.sessions.to_json(), allow_nan=False)
    assert json.dumps(SessionKpis.from_json(json.loads(text)).to_json()) == text
    empty = json.dumps(SessionKpis().to_json(), allow_nan=False)
    assert json.dumps(SessionKpis.from_json(json.loads(empty)).to_json()) == empty


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: data.pop("answered"),
        lambda data: data.update(attempted=9),
        lambda data: data.update(attempted="many"),
        lambda data: data.update(dropped=3),
        lambda data: data.update(established=0),
        lambda data: data.update(answered=-1),
        lambda data: data.update(user_outcomes=3),
        lambda data: data.update(redirected=-1),
        lambda data: data.update(effective=99),
        lambda data: data.update(completed=-1),
        lambda data: data.update(statuses={"200": 2}),
        lambda data: data.update(statuses=[200]),
        lambda data: data.update(statuses={"200": 5, "0": -1}),
        lambda data: data.update(failures=[]),
        lambda data: data.update(failures=[{}]),
        lambda data: data.update(events={"forked": 0}),
        lambda data: data.update(events={"forked": "x"}),
        lambda data: data.update(first_started_at=nan),
        lambda data: data.update(last_started_at=inf),
        lambda data: data.pop("in_progress"),
        lambda data: data["in_progress"].update(integral_s=nan),
        lambda data: data["in_progress"].update(observed_s=-1.0),
        lambda data: data["simultaneous"].update(maximum=-1),
        lambda data: data["histograms"].update(wait=data["histograms"]["setup_time"]),
        lambda data: data["histograms"].update(setup_time={"hdr": "x"}),
    ],
)
def test_broken_json_is_a_value_error(spoil: object) -> None:
    data = kpis_of(call(), dropped_call(), refused_call(486), refused_call(0)).to_json()
    assert callable(spoil)
    spoil(data["sessions"])
    with pytest.raises(ValueError, match="not the KPIs of a step"):
        StepKpis.from_json(data)


def test_json_without_sessions_is_refused() -> None:
    data = StepKpis().to_json()
    del data["sessions"]
    with pytest.raises(ValueError, match="not the KPIs of a step"):
        StepKpis.from_json(data)
