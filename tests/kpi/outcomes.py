"""Outcomes made by hand."""

from __future__ import annotations

from math import nan

from imsbench.outcome import Outcome, Procedure


def success(
    procedure: Procedure = "registration",
    time_s: float = 0.020,
    *,
    due_at: float = 100.0,
    late_s: float = 0.0001,
    handshake_s: float = 0.0005,
    **values: float,
) -> Outcome:
    """A success: due, started late_s later, sent handshake_s after that, ended time_s after that."""
    started_at = due_at + late_s
    sent_at = started_at + handshake_s
    outcome = Outcome(
        procedure=procedure, phone=1, step=0, due_at=due_at, started_at=started_at,
        sent_at=sent_at, ended_at=sent_at + time_s, status=200,
        challenges=1 if procedure == "registration" else 0,
    )  # fmt: skip
    for name, value in values.items():
        setattr(outcome, name, value)
    return outcome


def failure(
    cause: str,
    stage: str = "challenge",
    procedure: Procedure = "registration",
    *,
    status: int = 0,
    sent: bool = True,
    after_s: float = 1.0,
) -> Outcome:
    """A failure after_s seconds after its start."""
    return Outcome(
        procedure=procedure, phone=2, step=0, due_at=100.0, started_at=100.0,
        sent_at=100.0 if sent else nan, ended_at=100.0 + after_s, status=status, cause=cause,
        stage=stage,
    )  # fmt: skip
