"""What the target did for one phone and one call, and whether it did the same under load.

What one procedure makes a target do does not depend on how many there are at once: under load all counts
must scale. Where they do not, something changed (a retry, another challenge), and that is a finding.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from imsbench.outcome import Procedure
from imsbench.profile import Profile
from imsbench.report.expected import everything
from imsbench.report.form import DASH, cell, table
from imsbench.report.result import RunResult
from imsbench.report.tables import Lines

_REFRESHED = ("REGISTER", "SUBSCRIBE", "NOTIFY", "UAR", "MAR", "SAR")
"""What refreshes make a target do too; they are not observed before the load."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One kind of message or request."""

    name: str
    """"<- 183 INVITE", "AAR"."""
    observed: tuple[float, float, float]
    """Of a registration, of a call, of a de-registration."""
    expected: float | None
    """Under load, if it scales; None: not to be said here."""
    measured: int
    """Under load."""

    @property
    def differs(self) -> bool:
        """Whether something changed."""
        return self.expected is not None and abs(self.expected - self.measured) > 1e-6


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
    parts = (signature.registration, signature.call, signature.deregistration)
    return [
        *_compared([part.messages for part in parts], messages, totals, result.profile),
        *_compared([part.commands for part in parts], commands, totals, result.profile),
    ]


def signature(result: RunResult) -> Lines:
    """The section of a report; nothing where nothing was observed."""
    rows = [_row(one) for one in compare(result)]
    if not rows:
        return
    yield "## The target's signature"
    yield ""
    headers = (
        "What", "A registration", "A call", "A de-registration", "Expected of the load", "Measured",
        "Result",
    )  # fmt: skip
    yield from table(headers, rows, "lrrrrrl")
    yield ""
    yield (
        "- **Observed first**: two phones registered, one called the other, both de-registered and "
        "registered again, before the load. “->” was sent by the phones and “<-” received, at both ends "
        "of a call together; UAR to STR are Diameter requests at the simulators. By the specifications "
        f"{specification(result.profile)}."
    )
    yield (
        "- **Expected of the load**: the same times all attempts, warm-ups and repairs included. What "
        "changed is a finding: a retry, another challenge, a message sent again. A dash: refreshes, or "
        "calls that were to end in another way, have their share in it, and were not observed."
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


@dataclass(frozen=True, slots=True)
class _Totals:
    registrations: int
    calls: int
    deregistrations: int
    refreshes: int


def _totals(result: RunResult) -> _Totals:
    parts = everything(result)

    def attempted(name: Procedure) -> int:
        return sum(kpis.procedures[name].attempted for kpis in parts)

    return _Totals(
        attempted("registration"),
        sum(kpis.sessions.attempted for kpis in parts),
        attempted("deregistration"),
        attempted("reregistration") + attempted("subscription_refresh"),
    )


def _compared(
    observed: list[dict[str, float]], measured: Mapping[str, int], totals: _Totals, profile: Profile
) -> Iterator[Comparison]:
    counts = (totals.registrations, totals.calls, totals.deregistrations)
    for name in sorted({*measured, *(name for part in observed for name in part)}):
        each = observed[0].get(name, 0.0), observed[1].get(name, 0.0), observed[2].get(name, 0.0)
        known = not (totals.refreshes and name.rpartition(" ")[2] in _REFRESHED)
        known = known and (_calls_alike(profile, name) or not _of_calls(name))
        expected = sum(n * count for n, count in zip(each, counts, strict=True)) if known else None
        yield Comparison(name, each, expected, measured.get(name, 0))


def _of_calls(name: str) -> bool:
    return name.rpartition(" ")[2] not in _REFRESHED


def _calls_alike(profile: Profile, name: str) -> bool:
    """Whether all calls of the load are to go as the one that was observed."""
    kinds = [step.calls for step in profile.steps() if step.calls is not None]
    first = kinds[0] if kinds else None
    for calls in kinds:
        assert first is not None
        others = calls.busy + calls.rejected + calls.cancelled + calls.unregistered
        same = ("preconditions", "ringing", "reliable_ringing", "hold_resume")
        if others or any(getattr(calls, one) != getattr(first, one) for one in same):
            return False
        timer_s = calls.session_expires / 2
        if timer_s and calls.hold.longest >= timer_s and name.endswith("UPDATE"):
            return False
    return True


def _row(one: Comparison) -> list[str]:
    if one.expected is None:
        said = DASH
    elif one.differs:
        said = f"changed by {one.measured - one.expected:+,g}"
    else:
        said = "scales"
    expected = DASH if one.expected is None else f"{one.expected:,g}"
    each = [f"{n:g}" if n else DASH for n in one.observed]
    return [cell(one.name), *each, expected, f"{one.measured:,}", said]
