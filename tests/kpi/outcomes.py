"""Outcomes made by hand."""

from __future__ import annotations

from math import nan

from imsbench.outcome import CallOutcome, Outcome, Procedure


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


def call(
    *,
    due_at: float = 100.0,
    late_s: float = 0.0001,
    setup_s: float = 0.020,
    hold_s: float = 90.0,
    release_s: float = 0.004,
    **values: object,
) -> CallOutcome:
    """An answered call with preconditions: 100 at a tenth of its set-up, 183 at half, 180 and 200 at its end.

    The caller ends it hold_s after the 200, and has the BYE's 200 release_s after that.
    """
    sent_at = due_at + late_s
    setup_at = sent_at + setup_s
    outcome = CallOutcome(
        caller=1, callee=2, step=0, due_at=due_at, started_at=sent_at, sent_at=sent_at,
        trying_at=sent_at + setup_s / 10, progress_at=sent_at + setup_s / 2, ringing_at=setup_at,
        setup_at=setup_at, answered_at=setup_at, released_at=setup_at + hold_s,
        ended_at=setup_at + hold_s + release_s, release_by="caller", status=200,
        reached_at=sent_at + setup_s / 4, answers=2,
    )  # fmt: skip
    for name, value in values.items():
        setattr(outcome, name, value)
    return outcome


def refused_call(
    status: int,
    *,
    cause: str | None = None,
    stage: str = "invite",
    due_at: float = 100.0,
    after_s: float = 0.030,
    rings: bool = False,
    progress: bool = False,
    refusal: int | None = None,
) -> CallOutcome:
    """A call that is not answered: by this status after_s seconds after it was due; 0: by nobody.

    rings: with a 180 before; progress: with a 183 before, each at half of the time; cause: why it
    failed, "" if its scenario wants that, None for the status as its cause; refusal: status of the
    answer to a request within it, None for that of the INVITE.
    """
    half = due_at + after_s / 2
    return CallOutcome(
        caller=3, callee=4, step=0, due_at=due_at, started_at=due_at, sent_at=due_at,
        trying_at=due_at + after_s / 10 if status else nan,
        progress_at=half if rings or progress else nan, ringing_at=half if rings else nan,
        setup_at=half if rings else nan, ended_at=due_at + after_s, status=status,
        refusal=status if refusal is None else refusal,
        cause=(str(status) if status else "timeout") if cause is None else cause, stage=stage,
    )  # fmt: skip
