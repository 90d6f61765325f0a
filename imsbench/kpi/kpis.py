"""The KPIs of one step: what is counted per procedure, and how parts merge into the whole.

Workers record and send parts, the coordinator merges them; counts and histograms add up, so the
merge of k parts is exactly the whole. Histograms are made when their first sample comes: one takes
about 0.2 MB, and most steps exercise a few procedures only.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, isfinite, isnan
from typing import Any, get_args

from imsbench.histogram import Histogram
from imsbench.kpi.concurrency import Concurrency
from imsbench.kpi.definitions import (
    DEFINITIONS,
    ProcedureRatio,
    ProcedureTime,
    Series,
    SessionLevel,
    SessionRatio,
    SessionTime,
)
from imsbench.kpi.sessions import SessionKpis
from imsbench.kpi.statistics import Ratio, enough
from imsbench.outcome import CallOutcome, Outcome, Procedure

PROCEDURES: tuple[Procedure, ...] = get_args(Procedure)

OWN_CAUSES = frozenset(
    {
        "mac failure", "sync failure", "bad challenge", "too many challenges",
        "no Security-Server", "bad Security-Server", "no binding", "sa refused", "not registered",
        "not protected",
    }
)  # fmt: skip
"""Causes by which the phone itself gave up; RFC 6076 §4.2 has no class for them."""

_NOT_INEFFECTIVE = (401, 402, 407)


class ProcedureKpis:
    """Counts and distributions of one procedure's outcomes."""

    __slots__ = (
        "attempted", "challenges", "failures", "first_started_at", "histograms", "ineffective",
        "last_started_at", "resynchronisations", "second_challenges", "succeeded",
    )  # fmt: skip

    def __init__(self) -> None:
        self.attempted = 0
        """Attempts that ended, well or badly."""
        self.succeeded = 0
        """Attempts that ended as the specification's success."""
        self.failures: dict[tuple[str, str], int] = {}
        """Failed attempts by (stage, cause); they add up to attempted - succeeded."""
        self.ineffective = 0
        """Failed attempts that RFC 6076 §4.2 counts."""
        self.challenges = 0
        """401 responses answered, all attempts together."""
        self.second_challenges = 0
        """Attempts challenged once more than AKA and its resynchronisations need."""
        self.resynchronisations = 0
        """AUTS sent (TS 33.102 §6.3.5)."""
        self.first_started_at = inf
        """When the first attempt started, seconds on the engine's clock; inf without any."""
        self.last_started_at = -inf
        """When the last attempt started; -inf without any."""
        self.histograms: dict[Series, Histogram] = {}
        """The distributions that have samples."""

    @property
    def failed(self) -> int:
        """Attempts that ended badly."""
        return self.attempted - self.succeeded

    @property
    def rate(self) -> float | None:
        """Attempts started per second, first to last; None with fewer than two."""
        span_s = self.last_started_at - self.first_started_at
        return (self.attempted - 1) / span_s if self.attempted > 1 and span_s > 0 else None

    def histogram(self, series: Series) -> Histogram:
        """One distribution; empty if nothing was recorded."""
        return self.histograms.get(series) or Histogram()

    def record(self, outcome: Outcome) -> None:
        """Count one attempt that ended."""
        self.attempted += 1
        self.challenges += outcome.challenges
        self.resynchronisations += outcome.resynchronisations
        if outcome.challenges > 1 + outcome.resynchronisations:
            self.second_challenges += 1
        if not isnan(outcome.started_at):
            self.first_started_at = min(self.first_started_at, outcome.started_at)
            self.last_started_at = max(self.last_started_at, outcome.started_at)
        if not isnan(outcome.responded_at):
            self._add("first_response", outcome.responded_at - outcome.sent_at)
        if outcome.cause:
            self._record_failure(outcome)
            return
        self.succeeded += 1
        self._add("time", outcome.ended_at - outcome.sent_at)
        self._add("time_from_due", outcome.ended_at - outcome.due_at)
        self._add("time_from_start", outcome.ended_at - outcome.started_at)
        if outcome.phone_s:
            self._add("phone_time", outcome.phone_s)
        if not isnan(outcome.notify_at):
            self._add("notify_time", outcome.notify_at - outcome.sent_at)

    def merge(self, other: ProcedureKpis) -> None:
        """Add another part of the same procedure."""
        self.attempted += other.attempted
        self.succeeded += other.succeeded
        self.ineffective += other.ineffective
        self.challenges += other.challenges
        self.second_challenges += other.second_challenges
        self.resynchronisations += other.resynchronisations
        self.first_started_at = min(self.first_started_at, other.first_started_at)
        self.last_started_at = max(self.last_started_at, other.last_started_at)
        for kind, count in other.failures.items():
            self.failures[kind] = self.failures.get(kind, 0) + count
        for series, histogram in other.histograms.items():
            self.histograms.setdefault(series, Histogram()).merge(histogram)

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON values; no NaN and no infinity among them."""
        return {
            "attempted": self.attempted,
            "succeeded": self.succeeded,
            "failures": [
                {"stage": stage, "cause": cause, "count": count}
                for (stage, cause), count in sorted(self.failures.items())
            ],
            "ineffective": self.ineffective,
            "challenges": self.challenges,
            "second_challenges": self.second_challenges,
            "resynchronisations": self.resynchronisations,
            "first_started_at": None if self.first_started_at == inf else self.first_started_at,
            "last_started_at": None if self.last_started_at == -inf else self.last_started_at,
            "histograms": {name: h.to_json() for name, h in sorted(self.histograms.items())},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ProcedureKpis:
        """The inverse of to_json; KeyError, TypeError or ValueError if it is not of its form."""
        kpis = cls()
        kpis.attempted = int(data["attempted"])
        kpis.succeeded = int(data["succeeded"])
        kpis.ineffective = int(data["ineffective"])
        kpis.challenges = int(data["challenges"])
        kpis.second_challenges = int(data["second_challenges"])
        kpis.resynchronisations = int(data["resynchronisations"])
        if data["first_started_at"] is not None:
            kpis.first_started_at = float(data["first_started_at"])
            kpis.last_started_at = float(data["last_started_at"])
            if not (isfinite(kpis.first_started_at) and isfinite(kpis.last_started_at)):
                raise ValueError("its times are no numbers")
        for failure in data["failures"]:
            kind = str(failure["stage"]), str(failure["cause"])
            kpis.failures[kind] = int(failure["count"])
        if sum(kpis.failures.values()) != kpis.failed or min(kpis.failures.values(), default=1) < 1:
            raise ValueError("its failures do not add up to the attempts that failed")
        if (
            not 0 <= kpis.succeeded <= kpis.attempted < 2**63
            or not 0 <= kpis.ineffective <= kpis.failed
        ):
            raise ValueError("its counts contradict each other")
        known = get_args(Series)
        for name, histogram in data["histograms"].items():
            if name not in known:
                raise ValueError(f"unknown distribution {name!r}")
            kpis.histograms[name] = Histogram.from_json(histogram)
        return kpis

    def _record_failure(self, outcome: Outcome) -> None:
        kind = outcome.stage, outcome.cause
        self.failures[kind] = self.failures.get(kind, 0) + 1
        if is_ineffective(outcome):
            self.ineffective += 1
        begun = outcome.due_at if isnan(outcome.started_at) else outcome.started_at
        if not isnan(outcome.ended_at):
            self._add("failed_time", outcome.ended_at - begun)

    def _add(self, series: Series, duration_s: float) -> None:
        histogram = self.histograms.get(series)
        if histogram is None:
            histogram = self.histograms[series] = Histogram()
        histogram.record(duration_s)


def is_ineffective(outcome: Outcome) -> bool:
    """Whether RFC 6076 §4.2 counts this failed attempt as ineffective.

    A final response decides by its code. Without one it is Timer F, or a transport error, which
    the transaction user takes for a 503 (RFC 3261 §8.1.3.1); what the phone itself refused is not.
    """
    status = int(outcome.cause) if outcome.cause.isdigit() else outcome.status
    if status >= 400 and status not in _NOT_INEFFECTIVE:
        return True
    return not outcome.cause.isdigit() and outcome.cause not in OWN_CAUSES


class StepKpis:
    """The KPIs of one step, or of one worker's part of it."""

    __slots__ = ("lateness", "procedures", "sessions")

    def __init__(self) -> None:
        self.procedures: dict[Procedure, ProcedureKpis] = {
            procedure: ProcedureKpis() for procedure in PROCEDURES
        }
        """One for each procedure, in a fixed order."""
        self.sessions = SessionKpis()
        """Call attempts."""
        self.lateness: Histogram = Histogram()
        """Due to first act, all procedures: the generator's own delay."""

    def record(self, outcome: Outcome) -> None:
        """Count one attempt that ended; its step is the caller's business."""
        self.procedures[outcome.procedure].record(outcome)
        lateness_s = outcome.started_at - outcome.due_at
        if not isnan(lateness_s):
            self.lateness.record(lateness_s)

    def record_call(self, outcome: CallOutcome) -> None:
        """Count one call attempt that is over; its step is the caller's business."""
        self.sessions.record(outcome)
        lateness_s = outcome.started_at - outcome.due_at
        if not isnan(lateness_s):
            self.lateness.record(lateness_s)

    def merge(self, other: StepKpis) -> None:
        """Add another part."""
        self.sessions.merge(other.sessions)
        for procedure, part in other.procedures.items():
            self.procedures[procedure].merge(part)
        self.lateness.merge(other.lateness)

    def totals(self) -> dict[str, int]:
        """Attempts that ended: all together, and registrations, refreshes and calls apart."""
        parts = self.procedures.values()
        attempted = sum(part.attempted for part in parts) + self.sessions.attempted
        succeeded = sum(part.succeeded for part in parts) + self.sessions.planned
        return {
            "attempted": attempted,
            "succeeded": succeeded,
            "failed": attempted - succeeded,
            "registrations": self.procedures["registration"].attempted,
            "registrations_succeeded": self.procedures["registration"].succeeded,
            "refreshes": self.procedures["reregistration"].attempted,
            "refreshes_succeeded": self.procedures["reregistration"].succeeded,
            "calls": self.sessions.attempted,
            "calls_succeeded": self.sessions.planned,
        }

    def histogram(self, key: str) -> Histogram:
        """The distribution of a time KPI; KeyError if there is no such KPI."""
        match DEFINITIONS[key]:
            case ProcedureTime(procedure=procedure, series=series):
                return self.procedures[procedure].histogram(series)
            case SessionTime(series=session_series):
                return self.sessions.histogram(session_series)
        raise KeyError(f"{key} is no time")

    def ratio(self, key: str) -> Ratio:
        """A ratio KPI; KeyError if there is no such KPI."""
        match DEFINITIONS[key]:
            case ProcedureRatio(procedure=name, part=part):
                procedure = self.procedures[name]
                counted = procedure.succeeded if part == "success" else procedure.ineffective
                return Ratio(counted, procedure.attempted)
            case SessionRatio(share=share):
                return self.sessions.ratio(share)
        raise KeyError(f"{key} is no ratio")

    def level(self, key: str) -> Concurrency:
        """A KPI of how many there are at once; KeyError if there is no such KPI."""
        match DEFINITIONS[key]:
            case SessionLevel(calls="answered"):
                return self.sessions.simultaneous
            case SessionLevel(calls="in progress"):
                return self.sessions.in_progress
        raise KeyError(f"{key} is no level")

    def quantile(self, key: str, q: float) -> float | None:
        """A time KPI's quantile in seconds; None from too few samples (p99: fewer than 100)."""
        histogram = self.histogram(key)
        return histogram.quantile(q) if enough(q, histogram.count) else None

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON values."""
        return {
            "procedures": {name: part.to_json() for name, part in self.procedures.items()},
            "sessions": self.sessions.to_json(),
            "lateness": self.lateness.to_json(),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> StepKpis:
        """The inverse of to_json; ValueError if the data is not of its form."""
        kpis = cls()
        try:
            if set(data["procedures"]) != set(PROCEDURES):
                raise ValueError(f"its procedures are {sorted(data['procedures'])}")
            for procedure in PROCEDURES:
                part = ProcedureKpis.from_json(data["procedures"][procedure])
                kpis.procedures[procedure] = part
            kpis.sessions = SessionKpis.from_json(data["sessions"])
            kpis.lateness = Histogram.from_json(data["lateness"])
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
            raise ValueError(f"not the KPIs of a step: {type(error).__name__}: {error}") from error
        return kpis
