"""Outcome: what became of one attempt. The only word that passes from the phones to the KPIs.

Points in time are seconds on the engine's monotonic clock; NaN means "not reached".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isnan, nan
from typing import Literal

Procedure = Literal[
    "registration", "reregistration", "deregistration", "subscription", "subscription_refresh"
]
"""What was attempted: TS 24.229 §5.1.1.2, §5.1.1.4, §5.1.1.6, §5.1.1.3 (both)."""


@dataclass(slots=True)
class LadderLine:
    """One message, or one event, of an attempt."""

    at: float
    """When: sent (first byte handed to the kernel) or received (last byte read)."""
    direction: Literal["->", "<-", "--"]
    """From the phone, to the phone, or an event at the phone."""
    text: str
    """The message's first line, or the event in words."""
    protected: bool = False
    """Whether it travelled inside a security association."""


@dataclass(slots=True)
class Outcome:
    """One attempt of one procedure by one phone."""

    procedure: Procedure
    """What was attempted."""
    phone: int
    """Number n of the subscriber."""
    step: int
    """Index of the load step in which the attempt was due; its result belongs there."""
    due_at: float
    """When the plan wanted it to start."""
    started_at: float = nan
    """When the phone first acted for it: the connection's SYN, or the request if it is connected."""
    sent_at: float = nan
    """First byte of the procedure's first request handed to the kernel."""
    ended_at: float = nan
    """Last byte of the final response read, or the moment of the failure."""
    status: int = 0
    """SIP status of the final response; 0 if there was none."""
    cause: str = ""
    """Why it failed, in a few fixed words ("timeout", "403", "mac failure"); empty is success."""
    stage: str = ""
    """Where it failed ("connect", "challenge", "aka", "answer" …); empty is success."""
    detail: str = ""
    """What the far end said of it: reason phrase, Reason and Warning headers."""
    phone_s: float = 0.0
    """Phone time: seconds between a response read and the request it led to (our own share)."""
    responded_at: float = nan
    """Last byte of the first final response read: of a registration the 401, mostly."""
    notify_at: float = nan
    """Subscriptions: when the first NOTIFY of the dialog was read; may precede ended_at."""
    challenges: int = 0
    """401 responses answered; 1 is an AKA registration."""
    resynchronisations: int = 0
    """AUTS sent (TS 33.102 §6.3.5)."""
    retry_after_s: float = 0.0
    """Retry-After of the failure; the attempt itself does not retry."""
    ladder: list[LadderLine] = field(default_factory=list)
    """The messages of the attempt, in time order."""

    @property
    def succeeded(self) -> bool:
        """Whether the procedure ended as the specification's success."""
        return not self.cause

    @property
    def time_s(self) -> float:
        """From the first byte sent to the end, seconds (TS 32.409, RFC 6076 §4.1); NaN if unsent."""
        return self.ended_at - self.sent_at

    @property
    def time_from_due_s(self) -> float:
        """From the planned instant to the end, seconds: what a user would have felt."""
        return self.ended_at - self.due_at

    @property
    def lateness_s(self) -> float:
        """Planned instant to the phone's first act, seconds: the generator's own delay."""
        return nan if isnan(self.started_at) else self.started_at - self.due_at


Expected = Literal["answered", "busy", "rejected", "cancelled", "unregistered"]
"""What the scenario of a call wants: a call that ends as it should is no failure."""


@dataclass(slots=True)
class CallOutcome:
    """One call attempt, as the calling phone sees it (TS 32.409 §4.1.2, RFC 6076)."""

    caller: int
    """Number n of the calling subscriber."""
    callee: int
    """Number n of the called subscriber."""
    step: int
    """Index of the load step in which the attempt was due; its result belongs there."""
    due_at: float
    """When the plan wanted it to start."""
    expected: Expected = "answered"
    """How the scenario wants it to end."""
    started_at: float = nan
    """When the phone first acted for it."""
    sent_at: float = nan
    """First byte of the INVITE handed to the kernel."""
    trying_at: float = nan
    """100 read."""
    progress_at: float = nan
    """First non-100 provisional response read (RFC 6076 §4.3, SRD)."""
    ringing_at: float = nan
    """First 180 read."""
    setup_at: float = nan
    """First 180 or 2xx read: the session set-up time ends (TS 32.409 §4.1.2.6)."""
    answered_at: float = nan
    """2xx read."""
    released_at: float = nan
    """BYE sent, or read."""
    ended_at: float = nan
    """The BYE's final response, or the failure; NaN while it lasts."""
    release_by: Literal["", "caller", "callee", "network"] = ""
    """Who sent the BYE."""
    status: int = 0
    """Final status of the INVITE; 0 if there was none."""
    refusal: int = 0
    """Status of the response that ended it, to its INVITE or to a request within it; 0: none did."""
    cause: str = ""
    """Why it failed, in a few fixed words; empty: it ended as the scenario wants."""
    stage: str = ""
    """Where it failed ("invite", "prack", "update", "ack", "bye" …)."""
    detail: str = ""
    """What the far end said of it."""
    dropped: bool = False
    """Answered, then ended by anything but the scenario's BYE and its 2xx."""
    wrong: str = ""
    """A failed expectation: a wrong caller identity, SDP that is not what was sent."""
    answers: int = 0
    """SDP answers read: each is service information that the P-CSCFs ask the PCRF about."""
    phone_s: float = 0.0
    """Phone time: seconds between a message read and the one it led to."""
    reached_at: float = nan
    """INVITE read at the called phone."""
    events: dict[str, int] = field(default_factory=dict)
    """Crossings, retransmissions and the like, by name."""
    ladder: list[LadderLine] = field(default_factory=list)
    """The messages at the calling phone, in time order."""
    callee_ladder: list[LadderLine] = field(default_factory=list)
    """The messages at the called phone, in time order."""

    @property
    def established(self) -> bool:
        """Whether it got a 180 or a 2xx: success of TS 32.409's SC.SuccSession."""
        return not isnan(self.setup_at)

    @property
    def answered(self) -> bool:
        """Whether it got a 2xx."""
        return not isnan(self.answered_at)
