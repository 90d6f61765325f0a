"""Why it failed: every kind of failure of a run, numbered and grouped, with the first one's ladder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isnan

from imsbench.profile import Step
from imsbench.report.form import DASH, cell, plain, table
from imsbench.report.ladder import one_phone, side_by_side
from imsbench.report.parts import Failure
from imsbench.report.result import RunResult, StepResult
from imsbench.report.tables import Lines, name_of, pairs

NAMES = {
    "registration": "registration",
    "reregistration": "re-registration",
    "deregistration": "de-registration",
    "subscription": "subscription",
    "subscription_refresh": "subscription refresh",
    "call": "call",
}
"""Procedures as a report names them."""

SLOW_CX_S = 1.0
"""Longest answer of our HSS from which on timeouts and 5xx of registrations are put down to Cx."""

_AKA = frozenset({"mac failure", "sync failure", "bad challenge", "too many challenges"})
_SECURITY = frozenset(
    {"no Security-Server", "bad Security-Server", "sa refused", "not protected", "421", "494"}
)
_CONTENT = frozenset(
    {
        "no binding", "bad P-Associated-URI", "no Expires", "Expires 0", "no To tag", "wrong call",
    }
)  # fmt: skip
_OWN = frozenset(
    {"local address not available", "local port in use", "out of open files", "out of buffers"}
)
_LOST = frozenset(
    {
        "reset by target", "closed by target", "closed here", "refused", "tcp timeout", "unreachable",
        "blocked by policy", "transport error",
    }
)  # fmt: skip
_LEAVING = frozenset({"no bye", "early bye", "released by the network", "answered"})
_CX = frozenset({"registration", "reregistration", "deregistration"})


@dataclass(frozen=True, slots=True)
class Kind:
    """All failures of one procedure in one step at one stage with one cause."""

    number: int
    """From 1 on, over the whole run."""
    step: Step
    """During which."""
    procedure: str
    """What was attempted."""
    stage: str
    """Where it failed."""
    cause: str
    """Why."""
    count: int
    """How often."""
    first: Failure | None
    """The first of them, with its ladder; None: too many kinds to keep one of each."""
    group: str
    """The kind of reason, in a few fixed words."""

    def describe(self) -> str:
        """In one line."""
        phones = ""
        if self.first is not None:
            phones = f"phone {self.first.phone:,}; "
            if self.first.callee is not None:
                phones = f"phone {self.first.phone:,} calls phone {self.first.callee:,}; "
        what = NAMES.get(self.procedure, plain(self.procedure))
        where = f"{plain(self.stage)}: {plain(self.cause)}"
        return f"{what}, {where} ({phones}{name_of(self.step)})"

    def ladder(self) -> Iterator[str]:
        """The first one's messages, both phones' side by side if it is a call; nothing if none is kept."""
        if self.first is None:
            return
        if self.first.callee is None:
            yield from one_phone(self.first.ladder)
        else:
            yield from side_by_side(self.first.ladder, self.first.callee_ladder)


def kinds(result: RunResult) -> list[Kind]:
    """Every kind of failure, in the order of the steps."""
    found: list[Kind] = []
    for step, done in pairs(result):
        known = {(f.procedure, f.stage, f.cause): f for f in done.failures}
        slow = _slowest_cx_s(done) >= SLOW_CX_S
        for procedure, (stage, cause), count in _counted(done):
            first = known.get((procedure, stage, cause))
            group = group_of(procedure, stage, cause, first, slow_cx=slow)
            number = len(found) + 1
            found.append(Kind(number, step, procedure, stage, cause, count, first, group))
    return found


def group_of(
    procedure: str, stage: str, cause: str, first: Failure | None, *, slow_cx: bool = False
) -> str:
    """The kind of reason behind a stage and a cause; slow_cx: our HSS answered slowly in that step."""
    server_error = cause.isdigit() and 500 <= int(cause) < 600
    if slow_cx and procedure in _CX and (server_error or cause == "timeout"):
        return "Cx slow"
    if cause in _OWN:
        return "this host"
    if stage == "connect":
        return "TCP refused" if cause == "refused" else "TCP not connected"
    for group, causes in (
        ("AKA", _AKA), ("security agreement", _SECURITY), ("wrong content", _CONTENT),
        ("ended otherwise", _LEAVING), ("Rx", ("Rx",)), ("connection lost", _LOST),
    ):  # fmt: skip
        if cause in causes:
            return group
    if cause.isdigit():
        return f"{cause[0]}xx"
    if cause in ("timeout", "no notify"):
        return _too_late(procedure, stage, first)
    return "other"


def _too_late(procedure: str, stage: str, first: Failure | None) -> str:
    """What a timer that ran out waited for."""
    if procedure == "registration" and stage in ("challenge", "resynchronisation"):
        return "401 late"
    if procedure == "registration" and stage == "answer":
        protected = first is None or any(line.protected for line in first.ladder)
        return "SA not answered" if protected else "timer"
    if procedure == "call" and stage == "invite" and first is not None:
        answered = any(line.direction == "<-" for line in first.ladder)
        return "timer" if answered else "no 100"
    return "timer"


def failures(result: RunResult) -> Lines:
    """The section of a report: the list, then the first ladder of each kind."""
    found = kinds(result)
    yield "## Failures"
    yield ""
    if not found:
        yield "None."
        return
    yield from listed(found)
    shown = [
        kind for kind in found if kind.first and (kind.first.ladder or kind.first.callee_ladder)
    ]
    if not shown:
        return
    yield ""
    yield "The first of each kind; times count from the instant at which it was due,"
    yield "“*” marks what travelled inside a security association."
    for kind in shown:
        yield ""
        yield f"{kind.number}. {cell(kind.describe())}"
        yield ""
        yield "```text"
        yield from kind.ladder()
        yield "```"


def listed(found: list[Kind]) -> Lines:
    """Every kind in a table."""
    headers = (
        "No.", "During", "Group", "Procedure", "Stage", "Cause", "Count",
        "First: what the far end said",
    )  # fmt: skip
    rows = [
        [
            f"{kind.number}", name_of(kind.step), kind.group, NAMES.get(kind.procedure, DASH),
            cell(kind.stage), cell(kind.cause), f"{kind.count:,}",
            cell(kind.first.detail) if kind.first and kind.first.detail else DASH,
        ]
        for kind in found
    ]  # fmt: skip
    yield from table(headers, rows, "rlllllr")


def _counted(done: StepResult) -> Iterator[tuple[str, tuple[str, str], int]]:
    """Procedure, (stage, cause) and count of every kind of failure in a step."""
    for procedure, part in done.kpis.procedures.items():
        for kind, count in sorted(part.failures.items()):
            yield procedure, kind, count
    for kind, count in sorted(done.kpis.sessions.failures.items()):
        yield "call", kind, count


def _slowest_cx_s(done: StepResult) -> float:
    """The slowest answer of our HSS in a step, or the longest it stood still, seconds."""
    times = [one.response_time.maximum for one in done.simulated.get("HSS", {}).values()]
    return max([done.hss_stall_s, *(time for time in times if not isnan(time))])
