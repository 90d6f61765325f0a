"""Session KPIs of one step: the SC family of TS 32.409 as the calling phone sees it, RFC 6076.

A set-up ends at the first 180 or 2xx (TS 32.409 §4.1.2.6 as cited by the published page), RFC 6076's
SRD at the first non-100 provisional: with preconditions the 183. The two are never mixed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf, isfinite, isnan, nan
from typing import Any, Literal, NamedTuple, get_args

from imsbench.histogram import Histogram
from imsbench.kpi.concurrency import Concurrency
from imsbench.kpi.statistics import Ratio
from imsbench.outcome import CallOutcome

SessionSeries = Literal[
    "setup_time", "setup_from_due", "setup_from_start", "first_response", "srd", "failed_srd",
    "answer_time", "sdd", "sdt", "routing_time", "phone_time", "unanswered_time", "planned_setup_time",
]  # fmt: skip
"""INVITE -> first 180 or 2xx, from the first byte sent, from due, from the phone's first act; -> 100
or whatever came first; -> first non-100 provisional, of answered and of refused calls (RFC 6076
§4.3.1, §4.3.2); -> 2xx; BYE -> 2xx (§4.4); 2xx -> BYE (§4.5); INVITE sent -> read by the called phone;
our own share; INVITE -> end of a call that was not answered; the set-up time of calls that ended as
planned, alone."""

SessionShare = Literal[
    "established", "network", "answered", "dropped", "ser", "seer", "ineffective", "completed",
    "planned",
]  # fmt: skip
"""Shares of attempts; the definitions say which, and of what."""

USER_OUTCOMES = frozenset((404, 480, 484, 486, 487, 600, 603))
"""Final responses caused by users: left out of the network success rate (SENSR)."""
EFFECTIVE = frozenset((480, 486, 600, 603))
"""Final responses that SEER counts beside 200 (RFC 6076 §4.7)."""
INEFFECTIVE = frozenset((408, 500, 503, 504))
"""Final responses of ineffective session attempts (RFC 6076 §4.8)."""

_COUNTS = (
    "attempted", "established", "answered", "completed", "dropped", "planned", "wrong",
    "user_outcomes", "redirected", "effective", "ineffective", "sdp_answers", "negotiated",
)  # fmt: skip
_LATER = ("sdp_answers", "negotiated")
"""Those that the first results of this form do not have."""


class CallSpan(NamedTuple):
    """When one call was there, seconds; NaN where it never came so far."""

    sent_at: float
    """INVITE sent."""
    answered_at: float
    """2xx read."""
    released_at: float
    """BYE sent or read, or the moment of the drop."""
    ended_at: float
    """The BYE's final response, or the failure."""


class SessionKpis:
    """Counts and distributions of call attempts."""

    __slots__ = (
        *_COUNTS, "events", "failures", "first_started_at", "histograms", "in_progress",
        "last_started_at", "simultaneous", "statuses",
    )  # fmt: skip

    def __init__(self) -> None:
        self.attempted = 0
        """INVITEs sent (SC.AttSession)."""
        self.established = 0
        """Got a 180 or a 2xx (SC.SuccSession)."""
        self.answered = 0
        """Got a 2xx (SC.AnsSession)."""
        self.completed = 0
        """Did not fail because a response was missing: SCR of RFC 6076 §4.9."""
        self.dropped = 0
        """Answered, then ended by anything but the scenario's BYE and its 2xx (SC.DroppedSession)."""
        self.planned = 0
        """Ended as the scenario wanted."""
        self.wrong = 0
        """Answered, but a wrong call: caller identity or SDP."""
        self.user_outcomes = 0
        """Not established, and ended by a final response of USER_OUTCOMES."""
        self.redirected = 0
        """Ended by a 3xx."""
        self.effective = 0
        """Answered, or ended by a final response of EFFECTIVE."""
        self.ineffective = 0
        """Ended by one of INEFFECTIVE, or without any final response: Timer B is a 408, a lost
        connection a 503 (RFC 3261 §8.1.3.1)."""
        self.sdp_answers = 0
        """SDP answers that the calling phones read; 0 beside answered calls: not counted then."""
        self.negotiated = 0
        """Calls with one at least."""
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
        self.simultaneous = Concurrency()
        """Answered calls at once (SC.NbrSimulAnsSessionMax and …Mean): from the 2xx to the BYE."""
        self.in_progress = Concurrency()
        """Calls at once, from the INVITE to the response to the BYE, or to the failure."""
        self.histograms: dict[SessionSeries, Histogram] = {}
        """The distributions that have samples."""

    @property
    def rate(self) -> float | None:
        """Attempts started per second, first to last; None with fewer than two."""
        span_s = self.last_started_at - self.first_started_at
        return (self.attempted - 1) / span_s if self.attempted > 1 and span_s > 0 else None

    def histogram(self, series: SessionSeries) -> Histogram:
        """One distribution; empty if nothing was recorded."""
        return self.histograms.get(series) or Histogram()

    def ratio(self, share: SessionShare) -> Ratio:
        """One share of attempts, with what it is made of."""
        match share:
            case "established":
                return Ratio(self.established, self.attempted)
            case "network":
                return Ratio(self.established, self.attempted - self.user_outcomes)
            case "answered":
                return Ratio(self.answered, self.attempted)
            case "dropped":
                return Ratio(self.dropped, self.answered)
            case "ser":
                return Ratio(self.answered, self.attempted - self.redirected)
            case "seer":
                return Ratio(self.effective, self.attempted - self.redirected)
            case "ineffective":
                return Ratio(self.ineffective, self.attempted)
            case "completed":
                return Ratio(self.completed, self.attempted)
            case "planned":
                return Ratio(self.planned, self.attempted)

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
        self.sdp_answers += outcome.answers
        self.negotiated += bool(outcome.answers)
        self._count_status(outcome)
        if outcome.cause:
            kind = outcome.stage, outcome.cause
            self.failures[kind] = self.failures.get(kind, 0) + 1
        else:
            self.planned += 1
        self._record_times(outcome)

    def observe(self, spans: Iterable[CallSpan], begin: float, end: float) -> None:
        """Calls at once between two instants.

        Exact if every call of the time is given, those too that began before it or last beyond it.
        """
        known = list(spans)
        self.in_progress.observe(((s.sent_at, s.ended_at) for s in known), begin, end)
        self.simultaneous.observe(((s.answered_at, s.released_at) for s in known), begin, end)

    def merge(self, other: SessionKpis) -> None:
        """Add another worker's part."""
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.first_started_at = min(self.first_started_at, other.first_started_at)
        self.last_started_at = max(self.last_started_at, other.last_started_at)
        self.simultaneous.merge(other.simultaneous)
        self.in_progress.merge(other.in_progress)
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
            "simultaneous": self.simultaneous.to_json(),
            "in_progress": self.in_progress.to_json(),
            "histograms": {name: h.to_json() for name, h in sorted(self.histograms.items())},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SessionKpis:
        """The inverse of to_json; KeyError, TypeError or ValueError if it is not of its form."""
        kpis = cls()
        for name in _COUNTS:
            setattr(kpis, name, int(data[name] if name not in _LATER else data.get(name, 0)))
        kpis.statuses = {int(status): int(n) for status, n in data["statuses"].items()}
        kpis.events = {str(name): int(n) for name, n in data["events"].items()}
        for failure in data["failures"]:
            kind = str(failure["stage"]), str(failure["cause"])
            kpis.failures[kind] = int(failure["count"])
        if data["first_started_at"] is not None:
            kpis.first_started_at = float(data["first_started_at"])
            kpis.last_started_at = float(data["last_started_at"])
            if not (isfinite(kpis.first_started_at) and isfinite(kpis.last_started_at)):
                raise ValueError("its times are no numbers")
        kpis.simultaneous = Concurrency.from_json(data["simultaneous"])
        kpis.in_progress = Concurrency.from_json(data["in_progress"])
        kpis._check()
        known = get_args(SessionSeries)
        for name, histogram in data["histograms"].items():
            if name not in known:
                raise ValueError(f"unknown distribution {name!r}")
            kpis.histograms[name] = Histogram.from_json(histogram)
        return kpis

    # private

    def _check(self) -> None:
        """ValueError if its counts contradict each other."""
        if sum(self.statuses.values()) != self.attempted:
            raise ValueError("its final responses do not add up to its attempts")
        if sum(self.failures.values()) + self.planned != self.attempted:
            raise ValueError("its failures do not add up to the attempts that failed")
        counted = [*self.statuses.values(), *self.failures.values(), *self.events.values()]
        if min(counted, default=1) < 1:
            raise ValueError("it counts what did not happen")
        if not 0 <= self.dropped <= self.answered <= self.established <= self.attempted:
            raise ValueError("its counts contradict each other")
        refused = self.attempted - self.established
        if not 0 <= self.user_outcomes <= refused or not 0 <= self.redirected <= self.attempted:
            raise ValueError("its counts contradict each other")
        others = (self.completed, self.planned, self.wrong, self.effective, self.ineffective)
        if not 0 <= self.negotiated <= min(self.attempted, self.sdp_answers):
            raise ValueError("its counts contradict each other")
        if not all(0 <= count <= self.attempted for count in others):
            raise ValueError("its counts contradict each other")

    def _count_status(self, outcome: CallOutcome) -> None:
        status = outcome.status
        self.completed += not _misses_response(outcome)
        if outcome.answered:
            self.effective += 1
            return
        self.redirected += 300 <= status < 400
        self.user_outcomes += status in USER_OUTCOMES and not outcome.established
        self.effective += status in EFFECTIVE
        # A refused PRACK or UPDATE ends the attempt as if the INVITE had been answered so.
        final = status or outcome.refusal
        self.ineffective += final in INEFFECTIVE or not final

    def _record_times(self, outcome: CallOutcome) -> None:
        sent_at = outcome.sent_at
        if outcome.established:
            self._add("setup_time", outcome.setup_at - sent_at)
            self._add("setup_from_due", outcome.setup_at - outcome.due_at)
            self._add("setup_from_start", outcome.setup_at - outcome.started_at)
            if not outcome.cause:
                self._add("planned_setup_time", outcome.setup_at - sent_at)
        provisional = [t for t in (outcome.trying_at, outcome.progress_at) if not isnan(t)]
        final_at = outcome.ended_at if outcome.status else nan
        final_at = outcome.answered_at if outcome.answered else final_at
        self._add("first_response", min(provisional, default=final_at) - sent_at)
        # RFC 6076 §4.3: the final response where no provisional one came.
        progress_at = final_at if isnan(outcome.progress_at) else outcome.progress_at
        self._add("routing_time", outcome.reached_at - sent_at)
        if outcome.phone_s:
            self._add("phone_time", outcome.phone_s)
        if not outcome.answered:
            self._add("unanswered_time", outcome.ended_at - sent_at)
            if outcome.status >= 400:
                self._add("failed_srd", progress_at - sent_at)
            return
        self._add("srd", progress_at - sent_at)
        self._add("answer_time", outcome.answered_at - sent_at)
        self._add("sdt", outcome.released_at - outcome.answered_at)
        if outcome.release_by == "caller" and not outcome.dropped:
            self._add("sdd", outcome.ended_at - outcome.released_at)

    def _add(self, series: SessionSeries, duration_s: float) -> None:
        if isnan(duration_s):
            return  # that moment was not reached
        histogram = self.histograms.get(series)
        if histogram is None:
            histogram = self.histograms[series] = Histogram()
        histogram.record(duration_s)


def _misses_response(outcome: CallOutcome) -> bool:
    """Whether a call failed because a response did not come (RFC 6076 §4.9)."""
    if outcome.refusal:
        return False
    if not outcome.answered:
        return not outcome.status
    return outcome.dropped and outcome.release_by not in ("callee", "network")
