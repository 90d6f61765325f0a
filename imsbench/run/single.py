"""One phone, one registration: what came of it, with every message."""

from __future__ import annotations

from dataclasses import dataclass

from imsbench.profile import Profile
from imsbench.report.conduct import observations
from imsbench.run import capture, network, topology
from imsbench.run.advice import advice
from imsbench.run.capture import CaptureOrder
from imsbench.run.coordinator import Coordinator
from imsbench.run.derive import one_phone
from imsbench.run.events import Watcher
from imsbench.run.exits import RunRefused
from imsbench.run.record import Json, RunRecord


@dataclass(frozen=True, slots=True)
class Failure:
    """A procedure of the one phone that failed."""

    procedure: str
    """"registration" or "subscription"."""
    stage: str
    """Where it failed."""
    cause: str
    """Why, in a few fixed words."""
    detail: str
    """What the far end said of it."""
    advice: str
    """What to look at."""

    def describe(self) -> str:
        """The failure in one line."""
        detail = f" ({self.detail})" if self.detail and self.detail != self.cause else ""
        return f"{self.procedure} failed at stage “{self.stage}”: {self.cause}{detail}"


@dataclass(frozen=True, slots=True)
class Single:
    """What one phone met."""

    ladders: list[list[Json]]
    """Each attempt's messages: {at, direction, text, protected}; seconds from the attempt's start."""
    failures: list[Failure]
    """What failed; empty: it registered, and subscribed if the profile wants it."""
    deregistered: bool
    """Whether it de-registered at the end; also where it never was registered."""
    captures: list[str]
    """The capture in words, if one was wanted."""
    conduct: list[str]
    """What the core did that the phone, the HSS or the PCRF lived with or refused."""

    def farewell(self) -> str:
        """How a phone that registered left the core, in one sentence."""
        return farewell("It has", "Its", "it", deregistered=self.deregistered)


def try_one_phone(profile: Profile, watch: Watcher, pcap: CaptureOrder | None = None) -> Single:
    """Register one phone of the profile against its target, and de-register it.

    RunRefused if that cannot be tried.
    """
    single = one_phone(profile)
    if pcap is not None:
        pcap.check(single)
    network.enter(single)
    record = Coordinator(single, watch, keep_ladders=True, deregister=True, pcap=pcap).run()
    if record.status != "complete":
        text = record.reason + (f"\n{record.output}" if record.output else "")
        raise RunRefused(text, record.exit_code)
    captures = [line for told in record.captures for line in capture.describe(told)]
    failures = failures_of(single, record)
    deregistered = not record.left_registered
    return Single(record.ladders, failures, deregistered, captures, conduct_of(record))


def conduct_of(record: RunRecord) -> list[str]:
    """What the target did, a line for each kind of it."""
    hss, pcrf = (record.simulators.get(name, {}) for name in (topology.HSS, topology.PCRF))
    workers = (worker.get("counters", {}) for worker in record.workers.values())
    seen = observations(workers, hss.get("counters", {}), pcrf.get("counters", {}))
    return [one.describe() for one in seen]


def farewell(who_has: str, whose: str, whom: str, *, deregistered: bool) -> str:
    """How phones that registered left the core, in one sentence."""
    if deregistered:
        return f"{who_has} de-registered again."
    return (
        f"{whose} de-registration did not succeed: the core may keep {whom} registered, with security "
        "associations, until they expire."
    )


def failures_of(profile: Profile, record: RunRecord) -> list[Failure]:
    """Every kind of failure of a run, with what to look at."""
    return [
        Failure(
            procedure=failure["procedure"],
            stage=failure["stage"],
            cause=failure["cause"],
            detail=failure.get("detail", ""),
            advice=advice(profile, failure["stage"], failure["cause"], failure.get("detail", "")),
        )
        for step in record.steps
        for failure in step.failures
    ]
