"""Cx over a Diameter connection to a real HSS, or the simulated one (TS 29.228, TS 29.229)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from simulators.base import DiameterMessage
from simulators.codec import Result
from simulators.connection import AnswerTimeout, Connection, NoConnection, PeerError
from simulators.core.cxclient import AuthVector, CxFailure
from simulators.core.settings import CoreSettings
from simulators.cx import (
    AKA_SCHEME,
    CX,
    LocationInfoAnswer,
    LocationInfoRequest,
    MultimediaAuthAnswer,
    MultimediaAuthRequest,
    PushProfileRequest,
    ReasonCode,
    RegistrationTerminationRequest,
    ServerAssignmentAnswer,
    ServerAssignmentRequest,
    ServerAssignmentType,
    SipAuthDataItem,
    UserAuthorizationAnswer,
    UserAuthorizationRequest,
    UserAuthorizationType,
    UserDataAlreadyAvailable,
    succeeded,
)
from simulators.peer import Peer

CX_TIMEOUT_S = 10.0
CONNECT_TIMEOUT_S = 10.0
WAIT_TOLD_S = 5.0
"""How often a wait without limit is told, seconds."""

OnRtr = Callable[[str, Sequence[str], ReasonCode], object]
OnPpr = Callable[[str, bytes], bool]


class HssClient:
    """The I-/S-CSCF's end of Cx (see the Cx protocol); reconnects until it is closed."""

    def __init__(self, settings: CoreSettings) -> None:
        self._settings = settings
        realm = settings.hss_realm or settings.domain
        self._realm = realm.encode()
        self._visited = settings.domain.encode()
        self.on_rtr: OnRtr | None = None
        """Told (impi, impus, reason) of each registration termination."""
        self.on_ppr: OnPpr | None = None
        """Given (impi, User-Data) of each pushed profile; whether it could be used."""
        self.peer = Peer(
            origin_host=f"scscf.{settings.domain}",
            origin_realm=settings.domain,
            applications=(CX,),
            on_request=self._on_request,
        )

    async def connect(self, on_wait: Callable[[float], object] | None = None) -> None:
        """Connect to the HSS; NoConnection if it does not answer in time.

        on_wait: called after a second and then every ``WAIT_TOLD_S`` with the seconds waited so far;
        there is no limit then.
        """
        limit_s = CONNECT_TIMEOUT_S if on_wait is None else 1.0
        loop = asyncio.get_running_loop()
        began_at = loop.time()
        try:
            await self.peer.connect(*self._settings.hss, timeout_s=limit_s)
        except NoConnection:
            if on_wait is None:
                raise
            told_at = began_at - WAIT_TOLD_S
            while self.peer.connection_to() is None:  # the peer goes on trying
                if loop.time() - told_at >= WAIT_TOLD_S:
                    told_at = loop.time()
                    on_wait(told_at - began_at)
                await asyncio.sleep(0.1)

    async def close(self) -> None:
        """DPR and close."""
        await self.peer.close()

    async def user_authorization(
        self, impi: str, impu: str, authorization_type: UserAuthorizationType
    ) -> str:
        """UAR (TS 29.228 §6.1.1)."""
        answer = await self._ask(
            "UAR",
            UserAuthorizationRequest(
                user_name=impi,
                public_identity=impu,
                visited_network_identifier=self._visited,
                user_authorization_type=authorization_type,
                destination_realm=self._realm,
            ),
        )
        assert isinstance(answer, UserAuthorizationAnswer)
        return answer.server_name or ""

    async def multimedia_auth(
        self, impi: str, impu: str, server_name: str, resynchronisation: bytes = b""
    ) -> AuthVector:
        """MAR for one AKA vector (TS 29.228 §6.3.1)."""
        answer = await self._ask(
            "MAR",
            MultimediaAuthRequest(
                user_name=impi,
                public_identity=impu,
                sip_auth_data_item=SipAuthDataItem(
                    sip_authentication_scheme=AKA_SCHEME,
                    sip_authorization=resynchronisation or None,
                ),
                sip_number_auth_items=1,
                server_name=server_name,
                destination_realm=self._realm,
            ),
        )
        assert isinstance(answer, MultimediaAuthAnswer)
        items = sorted(answer.sip_auth_data_item, key=lambda item: item.sip_item_number or 0)
        vector = _vector(items[0]) if items else None
        if vector is None:
            raise CxFailure("MAR", "malformed")
        return vector

    async def server_assignment(
        self,
        impi: str,
        impus: Sequence[str],
        server_name: str,
        assignment_type: ServerAssignmentType,
    ) -> bytes:
        """SAR (TS 29.228 §6.1.2)."""
        answer = await self._ask(
            "SAR",
            ServerAssignmentRequest(
                user_name=impi,
                public_identity=list(impus),
                server_name=server_name,
                server_assignment_type=assignment_type,
                user_data_already_available=UserDataAlreadyAvailable.USER_DATA_NOT_AVAILABLE,
                destination_realm=self._realm,
            ),
        )
        assert isinstance(answer, ServerAssignmentAnswer)
        return answer.user_data or b""

    async def location_information(self, impu: str) -> str:
        """LIR (TS 29.228 §6.1.4)."""
        answer = await self._ask(
            "LIR", LocationInfoRequest(public_identity=impu, destination_realm=self._realm)
        )
        assert isinstance(answer, LocationInfoAnswer)
        return answer.server_name or ""

    async def _ask(self, command: str, request: DiameterMessage) -> DiameterMessage:
        try:
            answer = await self.peer.request(request, CX_TIMEOUT_S)
        except NoConnection as error:
            raise CxFailure(command, "not connected") from error
        except AnswerTimeout as error:
            raise CxFailure(command, "no answer") from error
        except PeerError as error:
            raise CxFailure(command, "malformed") from error
        if succeeded(answer) and isinstance(answer, request.answer_class):
            return answer
        experimental = answer.experimental_result
        code = answer.result_code
        if code is None and experimental is not None:
            code = experimental.experimental_result_code
        raise CxFailure(command, "refused", int(code or 0), experimental=answer.result_code is None)

    def _on_request(self, request: DiameterMessage, connection: Connection) -> DiameterMessage:
        """Requests of the HSS: RTR ends registrations, PPR replaces a profile."""
        if isinstance(request, RegistrationTerminationRequest):
            reason = request.deregistration_reason
            code = reason.reason_code if reason is not None else None
            if self.on_rtr is not None:
                self.on_rtr(
                    request.user_name or "",
                    request.public_identity,
                    ReasonCode.PERMANENT_TERMINATION if code is None else code,
                )
            return request.answer(result_code=Result.SUCCESS)
        if isinstance(request, PushProfileRequest):
            data = request.user_data
            if data is None:  # charging addresses or credentials: nothing of it is kept here
                return request.answer(result_code=Result.SUCCESS)
            if self.on_ppr is not None and self.on_ppr(request.user_name or "", data):
                return request.answer(result_code=Result.SUCCESS)
        return request.answer(result_code=Result.UNABLE_TO_COMPLY)


def _vector(item: SipAuthDataItem) -> AuthVector | None:
    """The vector of a MAA's item; None if a part is missing or of a wrong length (TS 29.229 §6.3)."""
    authenticate, xres = item.sip_authenticate or b"", item.sip_authorization or b""
    ck, ik = item.confidentiality_key or b"", item.integrity_key or b""
    if len(authenticate) != 32 or not 4 <= len(xres) <= 16 or len(ck) != 16 or len(ik) != 16:
        return None
    return AuthVector(authenticate[:16], authenticate[16:], xres, ck, ik)
