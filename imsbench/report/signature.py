"""What the target did for one phone and one call, and whether it did the same under load.

What one procedure makes a target do does not depend on how many there are at once: under load all counts
must scale. Where they do not, something changed (a retry, another challenge), and that is a finding.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from imsbench.outcome import Procedure
from imsbench.profile import Profile
from imsbench.report.expected import everything
from imsbench.report.form import DASH, cell, table
from imsbench.report.result import RunResult
from imsbench.report.tables import Lines

_OF_CALLS_ALONE = ("INVITE", "ACK", "PRACK", "UPDATE", "CANCEL", "BYE", "LIR")
"""What no other procedure has a share in."""
_OF_CALLS = (*_OF_CALLS_ALONE, "AAR", "STR")
"""What calls have a share in."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One kind of message or request."""

    name: str
    """"<- 183 INVITE", "AAR"."""
    observed: tuple[float | None, ...]
    """Of each of PROCEDURES; None: not observed."""
    expected: float | None
    """Under load, if it scales; None: not to be said here."""
    measured: int
    """Under load."""
    why: str = ""
    """Why it is not to be said."""

    @property
    def differs(self) -> bool:
        """Whether something changed."""
        return self.expected is not None and abs(self.expected - self.measured) > 1e-6


PROCEDURES = (
    "registration",
    "re-registration",
    "subscription refresh",
    "call",
    "de-registration",
)
"""What is observed, in this order."""


def compare(result: RunResult) -> list[Comparison]:
    """All that was observed or measured; empty where nothing was observed, or a worker is missing."""
    signature = result.signature
    if signature is None or len(result.workers) != result.profile.generator.workers:
        return []
    totals = _totals(result)
    messages: Counter[str] = Counter()
    for worker in result.workers:
        messages.update(worker.messages)
    commands: Counter[str] = Counter()
    for simulator in (result.hss, result.pcrf):
        for name, command in simulator.commands.items() if simulator else ():
            commands[name] += command.count
    parts = (
        signature.registration,
        signature.reregistration,
        signature.subscription_refresh,
        signature.call,
        signature.deregistration,
    )
    of_messages = [None if part is None else part.messages for part in parts]
    of_commands = [None if part is None else part.commands for part in parts]
    return [
        *_compared(of_messages, messages, totals, result.profile),
        *_compared(of_commands, commands, totals, result.profile),
    ]


def signature(result: RunResult) -> Lines:
    """The section of a report; nothing where nothing was observed."""
    rows = [_row(one) for one in compare(result)]
    if not rows:
        return
    yield "## The target's signature"
    yield ""
    each = [f"A {procedure}" for procedure in PROCEDURES]
    headers = ("What", *each, "Expected of the load", "Measured", "Result")
    yield from table(headers, rows, "lrrrrrrrl")
    yield ""
    yield (
        "- **Observed first**: two phones registered, one called the other, both re-registered, refreshed "
        "their subscriptions, de-registered and registered again, before the load. “->” was sent by the "
        "phones and “<-” received, at both ends of a call together; UAR to STR are Diameter requests at "
        "the simulators. By the specifications "
        f"{specification(result.profile)}."
    )
    yield (
        "- **Expected of the load**: the same times all attempts, warm-ups and repairs included. What "
        "changed is a finding: a retry, another challenge, a message sent again."
    )


def specification(profile: Profile) -> str:
    """What a call costs by the specifications, in words."""
    calls = next((step.calls for step in profile.steps() if step.calls is not None), None)
    if calls is None:
        return "a registration is REGISTER, 401, REGISTER, 200 (TS 24.229 §5.1.1)"
    said = ["INVITE"]
    if calls.preconditions:
        said.append("183, PRACK and UPDATE")
    if calls.ringing:
        said.append("180 with a PRACK" if calls.reliable_ringing else "180")
    said.append("200, ACK, BYE and 200")
    return (
        "a registration is REGISTER, 401, REGISTER, 200 (TS 24.229 §5.1.1) and a call "
        f"{', '.join(said)} on each side (IR.92 §2.2.4)"
    )


def _totals(result: RunResult) -> tuple[int, ...]:
    """Attempts of the whole run, for each of PROCEDURES."""
    parts = everything(result)

    def attempted(name: Procedure) -> int:
        return sum(kpis.procedures[name].attempted for kpis in parts)

    return (
        attempted("registration"),
        attempted("reregistration"),
        attempted("subscription_refresh"),
        sum(kpis.sessions.attempted for kpis in parts),
        attempted("deregistration"),
    )


def _compared(
    observed: Sequence[dict[str, float] | None],
    measured: Mapping[str, int],
    totals: tuple[int, ...],
    profile: Profile,
) -> Iterator[Comparison]:
    for name in sorted({*measured, *(name for part in observed if part for name in part)}):
        each = tuple(None if part is None else part.get(name, 0.0) for part in observed)
        why = _why_not(name, observed, totals) or _calls_differ(profile, name)
        expected = sum((n or 0.0) * total for n, total in zip(each, totals, strict=True))
        yield Comparison(name, each, None if why else expected, measured.get(name, 0), why)


def _why_not(
    name: str, observed: Sequence[dict[str, float] | None], totals: tuple[int, ...]
) -> str:
    """Which procedures of the load were not observed and may have a share in it; "" if none."""
    if name.rpartition(" ")[2] in _OF_CALLS_ALONE:
        return ""
    missing = [
        procedure
        for procedure, part, total in zip(PROCEDURES, observed, totals, strict=True)
        if part is None and total
    ]
    return f"not compared: no {' and no '.join(missing)} was observed" if missing else ""


def _calls_differ(profile: Profile, name: str) -> str:
    """Why calls of the load are not as the one that was observed; "" if they are."""
    if name.rpartition(" ")[2] not in _OF_CALLS:
        return ""
    kinds = [step.calls for step in profile.steps() if step.calls is not None]
    for calls in kinds:
        if calls.busy + calls.rejected + calls.cancelled + calls.unregistered:
            return "not compared: some calls were to end before they are answered"
        same = ("preconditions", "ringing", "reliable_ringing", "hold_resume")
        if any(getattr(calls, one) != getattr(kinds[0], one) for one in same):
            return "not compared: the load has calls of other kinds than the one observed"
        timer_s = calls.session_expires / 2
        if timer_s and calls.hold.longest >= timer_s and name.endswith("UPDATE"):
            return "not compared: session refreshes have their share in it"
    return ""


def _row(one: Comparison) -> list[str]:
    if one.expected is None:
        said = one.why
    elif one.differs:
        said = f"changed by {one.measured - one.expected:+,g}"
    else:
        said = "scales"
    expected = DASH if one.expected is None else f"{one.expected:,g}"
    each = [f"{n:g}" if n else DASH for n in one.observed]  # 0 and not observed alike
    return [cell(one.name), *each, expected, f"{one.measured:,}", said]
