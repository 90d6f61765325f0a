"""An answer on its way from the S-CSCF over the I-CSCF to the P-CSCF, before it is a SIP response."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from imsbench.protocol.sip import Header

REASONS = {
    100: "Trying",
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    416: "Unsupported URI Scheme",
    420: "Bad Extension",
    421: "Extension Required",
    423: "Interval Too Brief",
    480: "Temporarily Unavailable",
    481: "Call/Transaction Does Not Exist",
    482: "Loop Detected",
    483: "Too Many Hops",
    487: "Request Terminated",
    489: "Bad Event",
    494: "Security Agreement Required",
    500: "Server Internal Error",
    503: "Service Unavailable",
    504: "Server Time-out",
}
"""Reason phrases (RFC 3261 §21, RFC 3329 §2, RFC 6665 §8.3.2)."""


METHODS = frozenset(
    (
        "REGISTER", "SUBSCRIBE", "NOTIFY", "INVITE", "ACK", "BYE", "CANCEL", "PRACK", "UPDATE",
        "INFO", "OPTIONS", "MESSAGE", "REFER", "PUBLISH",
    )
)  # fmt: skip
"""Counted by name; the names of all others are the phones' to choose, and without end."""


def counted(method: str) -> str:
    """A method as counters name it."""
    return method if method in METHODS else "other"


@dataclass(slots=True)
class Challenge:
    """What a 401 carries, with the keys that are for the P-CSCF alone (TS 24.229 §5.4.1.2.1A)."""

    nonce: str
    """base64 of RAND ‖ AUTN."""
    ck: bytes
    """Cipher key; never leaves towards the phone (TS 24.229 §5.2.2)."""
    ik: bytes
    """Integrity key; never leaves towards the phone."""


@dataclass(slots=True)
class Answer:
    """Status, what is added to the copied headers, and what is to be done once it has been sent."""

    status: int
    headers: list[Header] = field(default_factory=list)
    challenge: Challenge | None = None
    """Set in a 401 with a new challenge."""
    expires_s: int = 0
    """Granted registration expiry in a 200 to REGISTER; 0: de-registered."""
    identities: Sequence[str] = ()
    """Registered public identities in a 200 to REGISTER, without parameters."""
    local_tag: str = ""
    """To tag of an answer that makes a dialog; empty: any."""
    after: list[Callable[[], None]] = field(default_factory=list)
    """Called after the answer was handed to the transport: NOTIFYs that follow it."""

    @property
    def reason(self) -> str:
        """The reason phrase."""
        return REASONS[self.status]


def refusal(status: int, why: str = "", *headers: Header) -> Answer:
    """A failure, with a Warning 399 that says why (RFC 3261 §20.43)."""
    answer = Answer(status, list(headers))
    if why:
        text = why.replace("\\", " ").replace('"', "'")
        answer.headers.append(("warning", f'399 reference-core "{text}"'))
    return answer
