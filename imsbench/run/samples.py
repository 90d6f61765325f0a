"""What a worker keeps of single attempts: ladders, and the first failure of each kind."""

from __future__ import annotations

from imsbench.host.control import Message
from imsbench.outcome import CallOutcome, LadderLine, Outcome

_MAX_FAILURES = 50


class Samples:
    """Ladders of one worker; all of them where they are asked for, else those of first failures."""

    def __init__(self, keep_ladders: bool) -> None:
        self.ladders: list[list[Message]] = []
        """Of every attempt, in the order of their ends, where they are kept."""
        self.call_ladders: list[Message] = []
        """Both phones' of every call, where they are kept."""
        self._keep_ladders = keep_ladders
        self._failures: dict[tuple[str, str, str], Message] = {}

    @property
    def failures(self) -> list[Message]:
        """The first failure of each procedure, stage and cause since the step began."""
        return list(self._failures.values())

    def begin(self) -> None:
        """A step begins."""
        self._failures.clear()

    def keep(self, outcome: Outcome) -> None:
        """The ladder of an attempt, where all are kept."""
        if self._keep_ladders:
            self.ladders.append(_ladder(outcome))

    def keep_call(self, outcome: CallOutcome) -> None:
        """Both ladders of a call, where all are kept."""
        if self._keep_ladders:
            self.call_ladders.append(_both_ladders(outcome))

    def failure(self, outcome: Outcome) -> None:
        """An attempt of the step has ended; it is kept if it is the first failure of its kind."""
        key = (outcome.procedure, outcome.stage, outcome.cause)
        if self._is_new(key):
            self._failures[key] = {
                "procedure": outcome.procedure,
                "stage": outcome.stage,
                "cause": outcome.cause,
                "detail": outcome.detail,
                "phone": outcome.phone,
                "ladder": _ladder(outcome),
            }

    def call_failure(self, outcome: CallOutcome) -> None:
        """A call of the step has ended; it is kept if it is the first failure of its kind."""
        key = ("call", outcome.stage, outcome.cause)
        if self._is_new(key):
            self._failures[key] = {
                "procedure": "call",
                "stage": outcome.stage,
                "cause": outcome.cause,
                "detail": outcome.detail,
                "phone": outcome.caller,
                "callee": outcome.callee,
            } | _both_ladders(outcome)

    def _is_new(self, key: tuple[str, str, str]) -> bool:
        return bool(key[2]) and key not in self._failures and len(self._failures) < _MAX_FAILURES


def _ladder(outcome: Outcome) -> list[Message]:
    """The ladder with times in seconds from the instant the attempt was due."""
    return _lines(outcome.ladder, outcome.due_at)


def _both_ladders(outcome: CallOutcome) -> Message:
    """Both phones' ladders of a call, on one clock."""
    return {
        "ladder": _lines(outcome.ladder, outcome.due_at),
        "callee_ladder": _lines(outcome.callee_ladder, outcome.due_at),
    }


def _lines(ladder: list[LadderLine], due_at: float) -> list[Message]:
    return [
        {
            "at": line.at - due_at,
            "direction": line.direction,
            "text": line.text,
            "protected": line.protected,
        }
        for line in sorted(ladder, key=lambda line: line.at)
        if line.at == line.at
    ]
