"""Cx as the CSCFs use it (TS 29.228 §6): the questions they ask, and what an HSS that fails means in SIP."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from simulators.core.answer import Answer, refusal
from simulators.cx import CxResult, ServerAssignmentType, UserAuthorizationType

Cause = Literal["no answer", "not connected", "refused", "malformed"]


class CxFailure(Exception):
    """A Cx procedure that did not succeed."""

    def __init__(
        self, command: str, cause: Cause, result_code: int = 0, *, experimental: bool = False
    ) -> None:
        super().__init__(command, cause, result_code)
        self.command = command
        """UAR, MAR, SAR or LIR."""
        self.cause = cause
        self.result_code = result_code
        """Result-Code or Experimental-Result-Code of the answer; 0 if there was none."""
        self.experimental = experimental
        """Whether the code is a 3GPP Experimental-Result-Code."""

    def __str__(self) -> str:
        match self.cause:
            case "no answer":
                return f"Cx {self.command}: no answer from the HSS"
            case "not connected":
                return f"Cx {self.command}: no connection to the HSS"
            case "malformed":
                return f"Cx {self.command}: the answer of the HSS lacks what it needs"
        kind = "Experimental-Result-Code" if self.experimental else "Result-Code"
        return f"Cx {self.command}: {kind} {self.result_code} from the HSS"


@dataclass(frozen=True, slots=True)
class AuthVector:
    """One authentication vector of a MAA (TS 29.228 §6.3)."""

    rand: bytes
    autn: bytes
    xres: bytes
    ck: bytes
    ik: bytes


class Cx(Protocol):
    """The HSS, as the CSCFs see it. Every method raises CxFailure."""

    async def user_authorization(
        self, impi: str, impu: str, authorization_type: UserAuthorizationType
    ) -> str:
        """UAR: the Server-Name stored, "" where none is yet."""
        ...

    async def multimedia_auth(
        self, impi: str, impu: str, server_name: str, resynchronisation: bytes = b""
    ) -> AuthVector:
        """MAR: one vector; ``resynchronisation`` is RAND ‖ AUTS, 30 bytes."""
        ...

    async def server_assignment(
        self,
        impi: str,
        impus: Sequence[str],
        server_name: str,
        assignment_type: ServerAssignmentType,
    ) -> bytes:
        """SAR: the User-Data, empty where none comes."""
        ...

    async def location_information(self, impu: str) -> str:
        """LIR: the Server-Name of the S-CSCF that serves this identity, "" where none does."""
        ...


# With these the HSS turns the subscriber down, not the procedure.
_TURNED_DOWN = frozenset(
    (
        CxResult.USER_UNKNOWN,
        CxResult.IDENTITIES_DONT_MATCH,
        CxResult.IDENTITY_NOT_REGISTERED,
        CxResult.ROAMING_NOT_ALLOWED,
    )
)
_AUTHORIZATION_REJECTED = 5003  # RFC 6733 §7.1.5


def cx_refusal(failure: CxFailure) -> Answer:
    """The SIP answer to a request whose Cx procedure failed (TS 24.229 §5.3.1.3, §5.4.1.2).

    The subscriber turned down: 403. No answer in time: 504. No HSS to ask: 480. Anything else: 500.
    """
    text = str(failure)
    match failure.cause:
        case "no answer":
            return refusal(504, text)
        case "not connected":
            return refusal(480, text)
        case "malformed":
            return refusal(500, text)
    if failure.experimental and failure.result_code in _TURNED_DOWN:
        return refusal(403, text)
    if not failure.experimental and failure.result_code == _AUTHORIZATION_REJECTED:
        return refusal(403, text)
    return refusal(500, text)
