"""Outcomes: which time is whose."""

from __future__ import annotations

from math import isnan, nan

import pytest

from imsbench.outcome import LadderLine, Outcome


def test_a_new_outcome_has_reached_nothing() -> None:
    outcome = Outcome("registration", phone=3, step=1, due_at=10.0)
    for value in (
        outcome.started_at, outcome.sent_at, outcome.ended_at, outcome.notify_at,
        outcome.time_s, outcome.time_from_due_s, outcome.lateness_s,
    ):  # fmt: skip
        assert isnan(value)
    assert (outcome.status, outcome.challenges, outcome.resynchronisations) == (0, 0, 0)
    assert outcome.ladder == []


def test_success_is_the_absence_of_a_cause() -> None:
    assert Outcome("subscription", 0, 0, 0.0).succeeded
    assert not Outcome("subscription", 0, 0, 0.0, status=403, cause="403").succeeded


def test_times_count_from_their_own_starts() -> None:
    outcome = Outcome(
        "registration", 0, 0, due_at=10.0, started_at=10.25, sent_at=10.5, ended_at=12.0
    )
    assert outcome.time_s == pytest.approx(1.5)
    assert outcome.time_from_due_s == pytest.approx(2.0)
    assert outcome.lateness_s == pytest.approx(0.25)


def test_an_unsent_attempt_has_no_time_but_one_from_due() -> None:
    outcome = Outcome("registration", 0, 0, 10.0, started_at=10.0, ended_at=42.0, cause="timeout")
    assert isnan(outcome.time_s)
    assert outcome.time_from_due_s == pytest.approx(32.0)
    outcome.started_at = nan
    assert isnan(outcome.lateness_s)


def test_ladders_are_not_shared() -> None:
    one, other = Outcome("deregistration", 0, 0, 0.0), Outcome("deregistration", 1, 0, 0.0)
    one.ladder.append(LadderLine(0.5, "->", "REGISTER sip:ims.example SIP/2.0", protected=True))
    assert other.ladder == []
