"""Session KPIs of one step: the SC family of TS 32.409 as the calling phone sees it, RFC 6076.

A set-up ends at the first 180 or 2xx (TS 32.409 §4.1.2.6 as cited by the published page), RFC 6076's
SRD at the first non-100 provisional: with preconditions the 183. The two are never mixed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf, isnan
from typing import Any, Literal, get_args

from imsbench.histogram import Histogram
from imsbench.outcome import CallOutcome

SessionSeries = Literal[
    "setup_time", "setup_from_due", "setup_from_start", "first_response", "srd", "answer_time",
    "sdd", "sdt", "routing_time", "phone_time", "failed_time",
]  # fmt: skip
"""INVITE -> first 180 or 2xx, from the first byte sent, from due, from the phone's first act; -> 100
or whatever came first; -> first non-100 provisional (RFC 6076 §4.3); -> 2xx; BYE -> 2xx (§4.4); 2xx ->
BYE (§4.5); INVITE sent -> read by the called phone; our own share; INVITE -> failure."""

USER_OUTCOMES = frozenset((404, 480, 484, 486, 487, 600, 603))
"""Final responses caused by users: left out of the network success rate (SENSR)."""
EFFECTIVE = frozenset((480, 486, 600, 603))
"""Final responses that SEER counts beside 200 (RFC 6076 §4.7)."""
INEFFECTIVE = frozenset((408, 500, 503, 504))
"""Final responses of ineffective session attempts (RFC 6076 §4.8)."""

_COUNTS = (
    "attempted", "established", "answered", "completed", "dropped", "planned", "wrong",
    "user_outcomes", "redirected", "effective", "ineffective",
)  # fmt: skip


class SessionKpis:
    """Counts and distributions of call attempts."""

    __slots__ = (
        *_COUNTS, "events", "failures", "first_started_at", "histograms", "in_progress_integral_s",
        "in_progress_max", "last_started_at", "observed_s", "statuses",
    )  # fmt: skip

    def __init__(self) -> None:
        self.attempted = 0
        """INVITEs sent (SC.AttSession)."""
        self.established = 0
        """Got a 180 or a 2xx (SC.SuccSession)."""
        self.answered = 0
        """Got a 2xx (SC.AnsSession)."""
        self.completed = 0
        """Ended without a missing response: SCR of RFC 6076 §4.9."""
        self.dropped = 0
        """Answered, then ended by anything but the scenario's BYE and its 2xx (SC.DroppedSession)."""
        self.planned = 0
        """Ended as the scenario wanted."""
        self.wrong = 0
        """Answered, but a wrong call: caller identity or SDP."""
        self.user_outcomes = 0
        """Ended by a final response of USER_OUTCOMES."""
        self.redirected = 0
        """Ended by a 3xx."""
        self.effective = 0
        """Answered, or ended by a final response of EFFECTIVE."""
        self.ineffective = 0
        """Ended by one of INEFFECTIVE, by Timer B (a 408), or by a transport error (a 503)."""
        self.statuses: dict[int, int] = {}
        """Final responses to INVITEs, by status; 0: none came."""
        self.failures: dict[tuple[str, str], int] = {}
        """What did not end as the scenario wanted, by (stage, cause)."""
        self.events: dict[str, int] = {}
        """Crossings, repetitions, forks, by name."""
        self.first_started_at = inf
        """When the first attempt started, seconds; inf without any."""
        self.last_started_at = -inf
        """When the last attempt started; -inf without any."""
        self.in_progress_max = 0
        """Most answered calls at once (SC.NbrSimulAnsSessionMax)."""
        self.in_progress_integral_s = 0.0
        """Answered calls, summed over time: call-seconds."""
        self.observed_s = 0.0
        """How long that was summed, seconds."""
        self.histograms: dict[SessionSeries, Histogram] = {}
        """The distributions that have samples."""

    @property
    def rate(self) -> float | None:
        """Attempts started per second, first to last; None with fewer than two."""
        span_s = self.last_started_at - self.first_started_at
        return (self.attempted - 1) / span_s if self.attempted > 1 and span_s > 0 else None

    @property
    def in_progress_mean(self) -> float | None:
        """Answered calls at once, mean over time; None if nothing was observed."""
        return self.in_progress_integral_s / self.observed_s if self.observed_s else None

    def histogram(self, series: SessionSeries) -> Histogram:
        """One distribution; empty if nothing was recorded."""
        return self.histograms.get(series) or Histogram()

    def record(self, outcome: CallOutcome) -> None:
        """Count one call attempt that is over."""
        self.attempted += 1
        if not isnan(outcome.started_at):
            self.first_started_at = min(self.first_started_at, outcome.started_at)
            self.last_started_at = max(self.last_started_at, outcome.started_at)
        self.statuses[outcome.status] = self.statuses.get(outcome.status, 0) + 1
        for name, count in outcome.events.items():
            self.events[name] = self.events.get(name, 0) + count
        self.established += outcome.established
        self.answered += outcome.answered
        self.dropped += outcome.dropped
        self.wrong += bool(outcome.wrong)
        self._count_status(outcome)
        if outcome.cause:
            kind = outcome.stage, outcome.cause
            self.failures[kind] = self.failures.get(kind, 0) + 1
        else:
            self.planned += 1
        self._record_times(outcome)

    def observe(self, intervals: Iterable[tuple[float, float]], begin: float, end: float) -> None:
        """Calls in progress between two instants, from (answered, released) of each call.

        Exact, as every call of the time is known; those answered before count with their rest.
        """
        self.observed_s += max(0.0, end - begin)
        changes: list[tuple[float, int]] = []
        for answered_at, released_at in intervals:
            start, stop = max(answered_at, begin), min(released_at, end)
            if start < stop:
                self.in_progress_integral_s += stop - start
                changes += [(start, 1), (stop, -1)]
        now = 0
        for _, change in sorted(changes):  # an end sorts before a start at the same instant
            now += change
            self.in_progress_max = max(self.in_progress_max, now)

    def merge(self, other: SessionKpis) -> None:
        """Add another worker's part."""
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.first_started_at = min(self.first_started_at, other.first_started_at)
        self.last_started_at = max(self.last_started_at, other.last_started_at)
        # Workers run side by side: their calls add up, the time does not.
        self.in_progress_max += other.in_progress_max
        self.in_progress_integral_s += other.in_progress_integral_s
        self.observed_s = max(self.observed_s, other.observed_s)
        for status, count in other.statuses.items():
            self.statuses[status] = self.statuses.get(status, 0) + count
        for kind, count in other.failures.items():
            self.failures[kind] = self.failures.get(kind, 0) + count
        for name, count in other.events.items():
            self.events[name] = self.events.get(name, 0) + count
        for series, histogram in other.histograms.items():
            self.histograms.setdefault(series, Histogram()).merge(histogram)

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON values; no NaN and no infinity among them."""
        return {
            **{name: getattr(self, name) for name in _COUNTS},
            "statuses": {str(status): count for status, count in sorted(self.statuses.items())},
            "failures": [
                {"stage": stage, "cause": cause, "count": count}
                for (stage, cause), count in sorted(self.failures.items())
            ],
            "events": dict(sorted(self.events.items())),
            "first_started_at": None if self.first_started_at == inf else self.first_started_at,
            "last_started_at": None if self.last_started_at == -inf else self.last_started_at,
            "in_progress_max": self.in_progress_max,
            "in_progress_integral_s": self.in_progress_integral_s,
            "observed_s": self.observed_s,
            "histograms": {name: h.to_json() for name, h in sorted(self.histograms.items())},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SessionKpis:
        """The inverse of to_json; KeyError, TypeError or ValueError if it is not of its form."""
        kpis = cls()
        for name in _COUNTS:
            setattr(kpis, name, int(data[name]))
        kpis.statuses = {int(status): int(n) for status, n in data["statuses"].items()}
        kpis.events = {str(name): int(n) for name, n in data["events"].items()}
        for failure in data["failures"]:
            kind = str(failure["stage"]), str(failure["cause"])
            kpis.failures[kind] = int(failure["count"])
        if data["first_started_at"] is not None:
            kpis.first_started_at = float(data["first_started_at"])
            kpis.last_started_at = float(data["last_started_at"])
        kpis.in_progress_max = int(data["in_progress_max"])
        kpis.in_progress_integral_s = float(data["in_progress_integral_s"])
        kpis.observed_s = float(data["observed_s"])
        if sum(kpis.statuses.values()) != kpis.attempted:
            raise ValueError("its final responses do not add up to its attempts")
        if sum(kpis.failures.values()) + kpis.planned != kpis.attempted:
            raise ValueError("its failures do not add up to the attempts that failed")
        known = get_args(SessionSeries)
        for name, histogram in data["histograms"].items():
            if name not in known:
                raise ValueError(f"unknown distribution {name!r}")
            kpis.histograms[name] = Histogram.from_json(histogram)
        return kpis

    # private

    def _count_status(self, outcome: CallOutcome) -> None:
        status = outcome.status
        if outcome.answered:
            self.effective += 1
            self.completed += not outcome.dropped
            return
        self.redirected += 300 <= status < 400
        self.user_outcomes += status in USER_OUTCOMES
        self.effective += status in EFFECTIVE
        # No final response: Timer B counts as 408, a lost connection as 503 (RFC 3261 §8.1.3.1).
        self.ineffective += status in INEFFECTIVE or not status
        self.completed += bool(status)

    def _record_times(self, outcome: CallOutcome) -> None:
        sent_at = outcome.sent_at
        if outcome.established:
            self._add("setup_time", outcome.setup_at - sent_at)
            self._add("setup_from_due", outcome.setup_at - outcome.due_at)
            self._add("setup_from_start", outcome.setup_at - outcome.started_at)
        else:
            self._add("failed_time", outcome.ended_at - sent_at)
        first_at = min(
            (t for t in (outcome.trying_at, outcome.progress_at) if not isnan(t)),
            default=outcome.answered_at,
        )
        self._add("first_response", first_at - sent_at)
        progress_at = outcome.progress_at
        # RFC 6076 §4.3: the 200 where no provisional response came.
        self._add("srd", (outcome.answered_at if isnan(progress_at) else progress_at) - sent_at)
        self._add("routing_time", outcome.reached_at - sent_at)
        if outcome.phone_s:
            self._add("phone_time", outcome.phone_s)
        if outcome.answered:
            self._add("answer_time", outcome.answered_at - sent_at)
            self._add("sdt", outcome.released_at - outcome.answered_at)
            if outcome.release_by == "caller" and not outcome.cause:
                self._add("sdd", outcome.ended_at - outcome.released_at)

    def _add(self, series: SessionSeries, duration_s: float) -> None:
        if isnan(duration_s):
            return  # that moment was not reached
        histogram = self.histograms.get(series)
        if histogram is None:
            histogram = self.histograms[series] = Histogram()
        histogram.record(duration_s)
