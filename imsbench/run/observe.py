"""Two phones, one call: does it work, with every message; and what the target does for each procedure.

The same few attempts serve the command ``call``, and the preflight of a load of calls: what the target
did for one phone and one call is its signature, and under load it must scale.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from imsbench.profile import Profile
from imsbench.report.parts import ProcedureSignature, Signature
from imsbench.run import capture, network
from imsbench.run.capture import CaptureOrder
from imsbench.run.coordinator import Coordinator
from imsbench.run.derive import one_call
from imsbench.run.events import Watcher
from imsbench.run.exits import RunRefused
from imsbench.run.record import Json, RunRecord, StepRecord
from imsbench.run.single import Failure, conduct_of, failures_of, farewell

_PHONES = 2


@dataclass(frozen=True, slots=True)
class OneCall:
    """What two phones met."""

    registrations: list[list[Json]]
    """Ladders of everything but calls: {at, direction, text, protected}."""
    calls: list[Json]
    """Both ladders of each call, on one clock: ladder, callee_ladder."""
    failures: list[Failure]
    """What failed; empty: they registered and called each other."""
    signature: Signature | None
    """What the target did; None where something failed."""
    deregistered: bool
    """Whether both de-registered at the end."""
    captures: list[str]
    """The capture in words, if one was wanted."""
    conduct: list[str]
    """What the core did that phones, HSS or PCRF lived with or refused."""

    def farewell(self) -> str:
        """How the phones left the core, in one sentence."""
        return farewell("They have", "Their", "them", deregistered=self.deregistered)


def try_one_call(profile: Profile, watch: Watcher, pcap: CaptureOrder | None = None) -> OneCall:
    """Let two phones of the profile register and one call the other; RunRefused if that cannot be tried.

    The caller has entered the network namespace of the run (``network.enter``).
    """
    few = one_call(profile)
    if pcap is not None:
        pcap.check(few)
    record = Coordinator(
        few, watch, keep_ladders=True, deregister=True, observe=True, pcap=pcap
    ).run()
    if record.status != "complete":
        text = record.reason + (f"\n{record.output}" if record.output else "")
        raise RunRefused(text, record.exit_code)
    failures = failures_of(few, record)
    return OneCall(
        registrations=record.ladders,
        calls=record.call_ladders,
        failures=failures,
        signature=None if failures else signature_of(record),
        deregistered=not record.left_registered,
        captures=[line for told in record.captures for line in capture.describe(told)],
        conduct=conduct_of(record),
    )


def call(profile: Profile, watch: Watcher, pcap: CaptureOrder | None = None) -> OneCall:
    """As try_one_call, by itself: the network namespace is entered for it."""
    network.enter(one_call(profile))
    return try_one_call(profile, watch, pcap)


def signature_of(record: RunRecord) -> Signature:
    """From the steps of ``derive.one_call``: registrations, a call, refreshes, both phones once again."""
    registered, called, *holds, again = record.steps
    registration = _per(registered, _PHONES)
    refreshed = {hold.step.refresh: _per(hold, _PHONES) for hold in holds}
    return Signature(
        registration=registration,
        call=_per(called, 1),
        deregistration=_without(_per(again, _PHONES), registration),
        reregistration=refreshed.get("registration"),
        subscription_refresh=refreshed.get("subscription"),
    )


def _per(step: StepRecord, attempts: int) -> ProcedureSignature:
    commands: Counter[str] = Counter()
    for counts in step.commands.values():
        commands.update(counts)
    return ProcedureSignature(
        messages={name: n / attempts for name, n in sorted(step.messages.items())},
        commands={name: n / attempts for name, n in sorted(commands.items()) if n},
    )


def _without(whole: ProcedureSignature, part: ProcedureSignature) -> ProcedureSignature:
    return ProcedureSignature(
        messages=_minus(whole.messages, part.messages),
        commands=_minus(whole.commands, part.commands),
    )


def _minus(whole: Mapping[str, float], part: Mapping[str, float]) -> dict[str, float]:
    left = {name: n - part.get(name, 0.0) for name, n in whole.items()}
    return {name: n for name, n in left.items() if n > 0}
