"""How a call ends otherwise than by its own plan: failures, releases, and what was said of them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from imsbench.protocol.address import parse_parameters
from imsbench.protocol.sip import Header, Response

_RX = re.compile(r'"Rx\b')
"""The beginning of a Warning's text (RFC 3261 §20.43)."""

_NORMAL_CAUSES = frozenset({("q.850", "16"), ("sip", "200"), ("release_cause", "1")})
"""Normal call clearing of Q.850, a SIP success (RFC 3326 §2), "User ends call" (TS 24.229 §7.2A.18)."""


class Failed(Exception):
    """The call is over without success."""

    def __init__(self, stage: str, cause: str, detail: str, at: float, refusal: int = 0) -> None:
        super().__init__(stage, cause, detail)
        self.stage = stage
        self.cause = cause
        """A few fixed words, or a status; empty: it ended as its plan wants."""
        self.detail = detail
        self.at = at
        self.refusal = refusal
        """Status of the response that it is, whichever request that answers; 0: it is none."""


class CancelCrossed(Failed):
    """Answered while it was being cancelled, then ended by ACK and BYE (RFC 3261 §9.1): no drop."""


class Released(Exception):
    """The far side, or the network, ended the call."""

    def __init__(self, at: float, reasons: Sequence[str]) -> None:
        super().__init__(*reasons)
        self.at = at
        self.reason = ", ".join(reasons)
        """Reason of the BYE (RFC 3326); empty: it gave none."""
        self.by_network = not all(map(_is_normal, reasons))
        """Whether it gives another reason than that a user hung up."""


def _is_normal(reason: str) -> bool:
    """Whether a Reason value says that a user ended the call; one without a known cause does not."""
    protocol, _, parameters = reason.partition(";")
    cause = parse_parameters(parameters).get("cause", "")
    return (protocol.strip().lower(), cause) in _NORMAL_CAUSES


def warning(text: str) -> Header:
    """A Warning of this phone (RFC 3261 §20.43): 399, miscellaneous."""
    quoted = text.replace("\\", "/").replace('"', "'")
    return "warning", f'399 imsbench "{quoted}"'


def refused(stage: str, response: Response) -> Failed:
    """The failure that a final response is, with what it says of itself (RFC 3326).

    A 5xx whose Warning speaks of Rx says that no resources were authorised: that is the cause then.
    """
    said = [f"{response.status} {response.reason}"]
    said += [
        f"{name}: {value}" for name, value in response.headers if name in ("reason", "warning")
    ]
    cause = str(response.status)
    if 500 <= response.status < 600 and _RX.search(response.get("warning") or ""):
        cause = "Rx"
    return Failed(stage, cause, "; ".join(said), response.at, response.status)
