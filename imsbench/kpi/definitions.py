"""What each KPI is, as data: a report prints these words under its numbers.

A clause stands as a fact only where the project has read it; "as cited by the published page" and
"in the sense of" mark the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from imsbench.kpi.sessions import SessionSeries, SessionShare
from imsbench.outcome import Procedure

Kind = Literal["time", "ratio", "level"]
Series = Literal[
    "time",
    "time_from_due",
    "time_from_start",
    "phone_time",
    "failed_time",
    "first_response",
    "notify_time",
]


@dataclass(frozen=True, slots=True)
class Definition:
    """One KPI: what it counts, from when to when, for whom, after which clause."""

    key: str
    """Name in thresholds and in code."""
    title: str
    """Name in a table."""
    words: str
    """The definition."""
    clause: str
    """Where it comes from."""

    @property
    def kind(self) -> Kind:
        """time: a distribution of seconds. ratio: a share of attempts. level: how many at once."""
        if isinstance(self, (ProcedureTime, SessionTime)):
            return "time"
        return "level" if isinstance(self, SessionLevel) else "ratio"


@dataclass(frozen=True, slots=True)
class ProcedureTime(Definition):
    """A time of one procedure."""

    procedure: Procedure
    """Whose outcomes it is made of."""
    series: Series
    """Which of the procedure's distributions it is."""


@dataclass(frozen=True, slots=True)
class ProcedureRatio(Definition):
    """A share of one procedure's attempts."""

    procedure: Procedure
    """Whose outcomes it is made of."""
    part: Literal["success", "ineffective"]
    """Which attempts count."""


@dataclass(frozen=True, slots=True)
class SessionTime(Definition):
    """A time of calls."""

    series: SessionSeries
    """Which of their distributions it is."""


@dataclass(frozen=True, slots=True)
class SessionRatio(Definition):
    """A share of call attempts."""

    share: SessionShare
    """Which one."""


@dataclass(frozen=True, slots=True)
class SessionLevel(Definition):
    """How many calls there are at once."""

    calls: Literal["answered", "in progress"]
    """Which calls count."""


def _time(
    procedure: Procedure, series: Series, key: str, title: str, words: str, clause: str
) -> Definition:
    return ProcedureTime(key, title, words, clause, procedure, series)


def _ratio(
    procedure: Procedure,
    part: Literal["success", "ineffective"],
    key: str,
    title: str,
    words: str,
    clause: str,
) -> Definition:
    return ProcedureRatio(key, title, words, clause, procedure, part)


_FROM_DUE = (
    "the same, counted from the instant at which the attempt was due, so that a generator that "
    "starts late hides nothing; in a cycle a registration is due when the phone's de-registration "
    "is over, so a stall in between shows in the de-registrations"
)
_PHONE_TIME = (
    "the generator's own share of the time: from a response read to the request it led to, "
    "AKA and security associations included"
)
_PROJECT = "project definition"

_PROCEDURES = (
    _time(
        "registration", "time", "registration_time", "Registration time",
        "from the first byte of the initial REGISTER sent to its 200 OK received, through the "
        "IMS-AKA challenge, measured at the phone; successful attempts only",
        "RRD of RFC 6076 §4.1; TS 32.409 §4.1.1.1 as cited by the published page",
    ),
    _time("registration", "time_from_due", "registration_time_from_due",
          "Registration time from due", _FROM_DUE, _PROJECT),
    _time("registration", "phone_time", "registration_phone_time", "Phone time", _PHONE_TIME,
          _PROJECT),
    _time(
        "registration", "first_response", "registration_first_response_time", "First response",
        "from the first byte of the initial REGISTER sent to its first final response received, "
        "mostly the 401, whatever became of the attempt",
        _PROJECT,
    ),
    _ratio(
        "registration", "success", "initial_registration_success_rate",
        "Initial registration success rate",
        "initial registrations that ended with 200 OK, of all attempted; REGISTER, 401, REGISTER, "
        "200 is one attempt, and the 401 no failure",
        "in the sense of TS 32.454",
    ),
    _ratio(
        "registration", "ineffective", "ineffective_registration_attempts",
        "Ineffective registration attempts",
        "initial registrations that ended with 4xx other than 401, 402 and 407, with 5xx or 6xx, "
        "without an answer, or with a failed connection (to the phone a 503, RFC 3261 §8.1.3.1), "
        "of all attempted",
        "IRA of RFC 6076 §4.2",
    ),
    _time(
        "reregistration", "time", "reregistration_time", "Re-registration time",
        "from the first byte of the refreshing REGISTER sent to its 200 OK received, measured at "
        "the phone; successful attempts only",
        "refresh after TS 24.229 §5.1.1.4.1 as cited by the published page; RRD of RFC 6076 §4.1",
    ),
    _time("reregistration", "time_from_due", "reregistration_time_from_due",
          "Re-registration time from due", _FROM_DUE, _PROJECT),
    _ratio(
        "reregistration", "success", "reregistration_success_rate",
        "Re-registration success rate",
        "re-registrations that ended with 200 OK, of all attempted",
        "in the sense of TS 32.454",
    ),
    _time(
        "deregistration", "time", "deregistration_time", "De-registration time",
        "from the first byte of the REGISTER with expiry 0 sent to its 200 OK received, measured "
        "at the phone; successful attempts only",
        "RRD of RFC 6076 §4.1, applied to de-registrations",
    ),
    _time("deregistration", "time_from_due", "deregistration_time_from_due",
          "De-registration time from due", _FROM_DUE, _PROJECT),
    _ratio(
        "deregistration", "success", "deregistration_success_rate",
        "De-registration success rate",
        "de-registrations by the phone that ended with 200 OK, of all attempted",
        "in the sense of TS 32.454",
    ),
    _time(
        "subscription", "time", "subscription_time", "SUBSCRIBE to 200",
        "from the first byte of the SUBSCRIBE for the registration event package sent to its 2xx "
        "received, measured at the phone; successful subscriptions only",
        _PROJECT,
    ),
    _time(
        "subscription", "notify_time", "notification_time", "SUBSCRIBE to first NOTIFY",
        "from the first byte of the SUBSCRIBE sent to the first NOTIFY of its dialog received, "
        "which may come before the 2xx",
        _PROJECT,
    ),
    _ratio(
        "subscription", "success", "subscription_success_rate", "Subscription success rate",
        "subscriptions that got their 2xx and, when new, a first NOTIFY, of all attempted",
        _PROJECT,
    ),
)  # fmt: skip

_SESSIONS = (
    SessionTime(
        "session_setup_time", "Session setup time",
        "from the first byte of the INVITE sent to the first 180 or 2xx received, measured at the "
        "calling phone; established calls only. With preconditions the 183 does not end it",
        "TS 32.409 §4.1.2.6 as cited by the published page", "setup_time",
    ),
    SessionTime(
        "session_setup_time_from_due", "Session setup time from due",
        "the same, counted from the instant at which the attempt was due, so that a generator that "
        "starts late hides nothing",
        _PROJECT, "setup_from_due",
    ),
    SessionRatio(
        "session_establishment_success_rate", "Session establishment success rate",
        "call attempts that got a 180 or a 2xx, of all attempted",
        "SESR in the sense of TS 32.454", "established",
    ),
    SessionRatio(
        "session_establishment_network_success_rate",
        "Session establishment network success rate",
        "as the session establishment success rate, but attempts that users ended (404, 480, 484, "
        "486, 487, 600 or 603 without a 180 before) are left out of all attempted",
        "SENSR in the sense of TS 32.454; the list of codes is the one in use in the field",
        "network",
    ),
    SessionRatio(
        "session_answer_rate", "Answer rate", "call attempts that got a 2xx, of all attempted",
        "SC.AnsSession of SC.AttSession, TS 32.409", "answered",
    ),
    SessionRatio(
        "call_drop_rate", "Call drop rate",
        "answered calls that ended by anything but the scenario's BYE and its 2xx, of all answered",
        "in the sense of TS 32.454: SC.DroppedSession of SC.AnsSession", "dropped",
    ),
    SessionLevel(
        "simultaneous_sessions", "Answered calls at once",
        "calls between their 2xx and their BYE, exactly, from the times of every call; of several "
        "workers the most is the sum of theirs, which the most of all together does not exceed",
        "SC.NbrSimulAnsSessionMax and its mean, TS 32.409", "answered",
    ),
    SessionLevel(
        "calls_in_progress", "Calls in progress",
        "calls between the first byte of their INVITE and the response to their BYE, or their "
        "failure: mean over the evaluated time, exactly, from the times of every call",
        _PROJECT, "in progress",
    ),
    SessionTime(
        "session_answer_time", "Answer time",
        "from the first byte of the INVITE sent to its 2xx received; answered calls only",
        _PROJECT, "answer_time",
    ),
    SessionTime(
        "session_request_delay", "SRD",
        "session request delay: from the first byte of the INVITE sent to the first provisional "
        "response other than 100 received, or the 2xx where none came; answered calls only. With "
        "preconditions that is the 183",
        "RFC 6076 §4.3.1", "srd",
    ),
    SessionTime(
        "failed_session_request_delay", "SRD, failed",
        "the same of calls that ended by a response of 400 or more, or to that response where no "
        "provisional one came; never mixed with the other",
        "RFC 6076 §4.3.2", "failed_srd",
    ),
    SessionTime(
        "session_disconnect_delay", "SDD",
        "session disconnect delay: from the first byte of the BYE sent to its 2xx received; calls "
        "that the calling phone ended",
        "RFC 6076 §4.4", "sdd",
    ),
    SessionTime(
        "session_duration_time", "SDT",
        "session duration time: from the 2xx to the INVITE received to the BYE sent or received",
        "RFC 6076 §4.5", "sdt",
    ),
    SessionRatio(
        "session_establishment_ratio", "SER",
        "session establishment ratio: INVITEs answered 200, of all that were not answered 3xx",
        "RFC 6076 §4.6", "ser",
    ),
    SessionRatio(
        "session_establishment_effectiveness_ratio", "SEER",
        "session establishment effectiveness ratio: INVITEs answered 200, 480, 486, 600 or 603, of "
        "all that were not answered 3xx",
        "RFC 6076 §4.7", "seer",
    ),
    SessionRatio(
        "ineffective_session_attempts", "ISA",
        "ineffective session attempts: INVITEs answered 408, 500, 503 or 504, or by nobody, of all; "
        "no answer (Timer B) is a 408 to the phone and a lost connection a 503 (RFC 3261 §8.1.3.1)",
        "RFC 6076 §4.8", "ineffective",
    ),
    SessionRatio(
        "session_completion_ratio", "SCR",
        "session completion ratio: call attempts that did not fail because a response was missing, to "
        "the INVITE or within the call, of all",
        "RFC 6076 §4.9", "completed",
    ),
    SessionTime(
        "session_first_response_time", "First response",
        "from the first byte of the INVITE sent to the first response of any kind received, mostly "
        "the 100",
        _PROJECT, "first_response",
    ),
    SessionTime(
        "session_routing_time", "Routing time",
        "from the first byte of the INVITE sent by the calling phone to the INVITE received by the "
        "called one: both are ours and have one clock",
        _PROJECT, "routing_time",
    ),
    SessionTime(
        "session_phone_time", "Phone time of calls",
        "the calling phone's own share of a call: from each message read to the one it led to, added "
        "up",
        _PROJECT, "phone_time",
    ),
    SessionRatio(
        "calls_as_planned", "Calls as planned",
        "call attempts that ended as their scenario wants (a planned 486 is no failure, a wrong "
        "caller identity or SDP is one), of all attempted",
        _PROJECT, "planned",
    ),
)  # fmt: skip

DEFINITIONS: dict[str, Definition] = {
    definition.key: definition for definition in (*_PROCEDURES, *_SESSIONS)
}
"""Every KPI by its key, in the order of a report."""
