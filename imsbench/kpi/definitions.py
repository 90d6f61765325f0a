"""What each KPI is, as data: a report prints these words under its numbers.

A clause stands as a fact only where the project has read it; "as cited by the published page" and
"in the sense of" mark the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from imsbench.outcome import Procedure

Kind = Literal["time", "ratio"]
Series = Literal[
    "time", "time_from_due", "time_from_start", "phone_time", "failed_time", "notify_time",
    "success", "ineffective",
]  # fmt: skip


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
    kind: Kind
    """time: a distribution of seconds. ratio: a share of attempts."""
    procedure: Procedure
    """Whose outcomes it is made of."""
    series: Series
    """Which of the procedure's numbers it reads."""


def _time(
    procedure: Procedure, series: Series, key: str, title: str, words: str, clause: str
) -> Definition:
    return Definition(key, title, words, clause, "time", procedure, series)


def _ratio(
    procedure: Procedure, series: Series, key: str, title: str, words: str, clause: str
) -> Definition:
    return Definition(key, title, words, clause, "ratio", procedure, series)


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

_ALL = (
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

DEFINITIONS: dict[str, Definition] = {definition.key: definition for definition in _ALL}
"""Every KPI by its key, in the order of a report."""
