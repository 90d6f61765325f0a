"""I-CSCF: asks the HSS who may register, and where (TS 24.229 §5.3.1), and who is where (§5.3.2)."""

from __future__ import annotations

from collections import Counter

from simulators.core.answer import Answer, refusal
from simulators.core.cxclient import Cx, CxFailure, cx_refusal
from simulators.core.register import Register
from simulators.core.registrar import PhoneRoute
from simulators.core.scscf import Scscf
from simulators.cx import CxResult, UserAuthorizationType


class Icscf:
    """The entry of the home network; there is one S-CSCF to choose from, behind a function call."""

    def __init__(self, cx: Cx, scscf: Scscf, counters: Counter[str]) -> None:
        self._cx = cx
        self._scscf = scscf
        self._counters = counters

    async def register(self, register: Register, protected: bool, route: PhoneRoute) -> Answer:
        """Authorize a REGISTER at the HSS and hand it to the S-CSCF (TS 24.229 §5.3.1.2, §5.3.1.3).

        ``protected`` is integrity-protected="yes" of TS 24.229 §5.2.2: it came in by an established SA.
        """
        wanted = (
            UserAuthorizationType.REGISTRATION
            if register.expires_s
            else UserAuthorizationType.DE_REGISTRATION
        )
        try:
            server_name = await self._cx.user_authorization(register.impi, register.impu, wanted)
            if server_name and server_name != self._scscf.name:
                # Another S-CSCF's user: with one S-CSCF it is chosen anew (TS 24.229 §5.3.1.2).
                self._counters["users assigned to another S-CSCF"] += 1
            return await self._scscf.register(register, protected, route)
        except CxFailure as failure:
            self._counters[str(failure)] += 1
            return cx_refusal(failure)

    async def locate(self, impu: str) -> str:
        """Name of the S-CSCF of a called identity, "" where there is none (TS 24.229 §5.3.2.1).

        CxFailure; location_refusal is its SIP answer.
        """
        return await self._cx.location_information(impu)


def location_refusal(failure: CxFailure) -> Answer:
    """The answer to a request whose called user the HSS does not locate (TS 24.229 §5.3.2.1)."""
    if failure.experimental and failure.result_code == CxResult.USER_UNKNOWN:
        return refusal(404, str(failure))
    if failure.experimental and failure.result_code == CxResult.IDENTITY_NOT_REGISTERED:
        return refusal(480, str(failure))
    return cx_refusal(failure)
