"""The P-CSCF's end of Rx (TS 29.214): one AF session per registration, and one per leg of a call.

AAR     at the first SDP answer and again at each later one; for the signalling at the registration
STR     at the end of the call, at the end of the registration
RAR     loss or release of the bearer ends the call after a grace; once the resources of every medium are
        there the answer goes on that waits for them
ASR     ends the call
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from imsbench.protocol.sdp import SdpError
from simulators.base import DiameterMessage
from simulators.codec import Result
from simulators.connection import AnswerTimeout, Connection, NoConnection, PeerError
from simulators.core.bearers import Bearers
from simulators.core.calls import Call, Leg, Negotiated
from simulators.core.media import describe, signalling
from simulators.core.phones import Phone
from simulators.core.sessions import PolicyFailure
from simulators.core.settings import CoreSettings
from simulators.peer import Peer
from simulators.rx import (
    RX,
    AaRequest,
    AbortSessionRequest,
    MediaComponentDescription,
    ReAuthRequest,
    RxRequestType,
    SessionTerminationRequest,
    SpecificAction,
    SubscriptionId,
    SubscriptionIdType,
    TerminationCause,
    framed,
    succeeded,
)

CONNECT_TIMEOUT_S = 10.0
MMTEL = b"urn:urn-7:3gpp-service.ims.icsi.mmtel"
"""AF-Application-Identifier of a voice call: its communication service (TS 24.229 §7.2A.8)."""

_LOST = frozenset(
    (
        SpecificAction.INDICATION_OF_LOSS_OF_BEARER,
        SpecificAction.INDICATION_OF_RELEASE_OF_BEARER,
    )
)
_THERE = frozenset(
    (
        SpecificAction.INDICATION_OF_SUCCESSFUL_RESOURCES_ALLOCATION,
        SpecificAction.ACCESS_NETWORK_INFO_REPORT,
    )
)
_FAILED = SpecificAction.INDICATION_OF_FAILED_RESOURCES_ALLOCATION


@dataclass(slots=True, eq=False)
class AfSession:
    """One AF session: of a leg, or of a phone's signalling."""

    id: str
    phone: Phone
    call: Call | None = None
    """None: the signalling."""
    open: bool = False
    """Whether the PCRF may hold it."""
    bearers: Bearers | None = None
    """Those that the PCRF has to report; None: not waited for."""


class RxPolicy:
    """Asks the PCRF, and obeys it (see sessions.Policy)."""

    def __init__(self, settings: CoreSettings, counters: Counter[str]) -> None:
        self._settings = settings
        self._counters = counters
        self._realm = (settings.pcrf_realm or settings.domain).encode()
        self._sessions: dict[str, AfSession] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.on_lost: Callable[[Call, str], None] | None = None
        """Told each call whose bearer is gone, and why."""
        self.peer = Peer(
            origin_host=f"pcscf.{settings.domain}",
            origin_realm=settings.domain,
            applications=(RX,),
            on_request=self._on_request,
            seed=settings.seed,
        )
        self._media_actions = _LOST
        if settings.rx_wait_for_bearer:
            self._media_actions = _LOST | _THERE | {_FAILED}

    @property
    def count(self) -> int:
        """AF sessions there are."""
        return len(self._sessions)

    async def connect(self) -> None:
        """Connect to the PCRF; NoConnection if it does not answer in time."""
        assert self._settings.pcrf is not None
        await self.peer.connect(*self._settings.pcrf, timeout_s=CONNECT_TIMEOUT_S)

    def forget_all(self) -> None:
        """Forget every session without a STR; what is being asked is not waited for."""
        for task in self._tasks:
            task.cancel()
        self._sessions.clear()

    async def close(self) -> None:
        """DPR and close."""
        for task in self._tasks:
            task.cancel()
        await self.peer.close()

    # -- calls

    async def authorize(self, call: Call, negotiated: Negotiated) -> None:
        """An AAR for each leg, the called phone's first; PolicyFailure if one is not accepted."""
        for leg in call.legs():
            if call.state == "ended":
                return
            try:
                media = describe(
                    negotiated.offer, negotiated.answer, of_offerer=leg is negotiated.offerer
                )
            except SdpError as error:
                self._counters["SDP without service information"] += 1
                raise PolicyFailure(f"Rx AAR: SDP: {error}") from error
            await self._authorize_leg(call, leg, media)

    async def _authorize_leg(
        self, call: Call, leg: Leg, media: list[MediaComponentDescription]
    ) -> None:
        session = self._sessions.get(leg.rx_session)
        first = session is None
        if session is None:
            session = self._new_session(leg.phone, call)
            leg.rx_session = session.id
            if self._settings.rx_wait_for_bearer:
                session.bearers = Bearers()
        if session.bearers is not None:
            session.bearers.expect(media)
        try:
            await self._aar(session, media, first=first)
        except PolicyFailure:
            if not session.open:
                leg.rx_session = ""
                self._sessions.pop(session.id, None)
            raise
        if session.bearers is not None:
            await self._wait_for(session.bearers)

    async def _wait_for(self, bearers: Bearers) -> None:
        try:
            async with asyncio.timeout(self._settings.rx_bearer_timeout_s):
                there = await bearers.wait()
        except TimeoutError:
            self._counters["Rx: bearers not reported in time"] += 1
            raise PolicyFailure("Rx RAR: no report of the bearer in time") from None
        if not there:
            self._counters["Rx: bearers failed"] += 1
            raise PolicyFailure("Rx RAR: no resources for the bearer")

    def leg_ended(self, leg: Leg) -> None:
        """STR of a leg, if it has a session."""
        session = self._sessions.pop(leg.rx_session, None)
        leg.rx_session = ""
        if session is not None:
            self._terminate(session)

    # -- registrations

    def registered(self, phone: Phone) -> None:
        """Open the session of a phone's signalling; a failure is a count (TS 29.214 §4.4.5)."""
        if phone.signalling:
            return
        session = self._new_session(phone, None)
        phone.signalling = session.id

        async def ask() -> None:
            try:
                await self._aar(session, [signalling()], first=True)
            except PolicyFailure:
                self._counters["Rx: signalling sessions failed"] += 1
                if not session.open and phone.signalling == session.id:
                    phone.signalling = ""
                    self._sessions.pop(session.id, None)

        self._run(ask())

    def deregistered(self, phone: Phone) -> None:
        """STR of a phone's signalling."""
        session = self._sessions.pop(phone.signalling, None)
        phone.signalling = ""
        if session is not None:
            self._terminate(session)

    # -- requests to the PCRF

    def _new_session(self, phone: Phone, call: Call | None) -> AfSession:
        session = AfSession(self.peer.new_session_id(), phone, call)
        self._sessions[session.id] = session
        return session

    async def _aar(
        self, session: AfSession, media: list[MediaComponentDescription], *, first: bool
    ) -> None:
        """Ask; PolicyFailure says in words what came of it."""
        kind = RxRequestType.INITIAL_REQUEST if first else RxRequestType.UPDATE_REQUEST
        request = AaRequest(
            session_id=session.id,
            destination_realm=self._realm,
            media_component_description=media,
            rx_request_type=kind,
        )
        if session.call is not None:
            request.af_application_identifier = MMTEL
        if first:
            wanted = _LOST if session.call is None else self._media_actions
            request.specific_action = sorted(map(int, wanted))
            request.subscription_id = [_subscription(session.phone)]
            for name, value in framed(session.phone.address).items():
                setattr(request, name, value)
        result = await self._ask("AAR", request)
        session.open = session.open or result in ("2001", "no answer")
        if result != "2001":
            raise PolicyFailure(f"Rx AAR: {result}")

    def _terminate(self, session: AfSession) -> None:
        if session.bearers is not None:
            session.bearers.close()
        request = SessionTerminationRequest(
            session_id=session.id,
            destination_realm=self._realm,
            termination_cause=TerminationCause.LOGOUT,
        )

        async def ask() -> None:
            await self._ask("STR", request)

        self._run(ask())

    async def _ask(self, command: str, request: DiameterMessage) -> str:
        """ "2001", or what else came of it; each kind is counted."""
        self._counters[f"Rx {command}"] += 1
        try:
            answer = await self.peer.request(request, self._settings.rx_timeout_s)
        except NoConnection:
            result = "no connection"
        except AnswerTimeout:
            result = "no answer"
        except PeerError:
            result = "malformed answer"
        else:
            result = "2001" if succeeded(answer) else answer.outcome
        self._counters[f"Rx {command}: {result}"] += 1
        return result

    # -- requests of the PCRF

    def _on_request(self, request: DiameterMessage, connection: Connection) -> DiameterMessage:
        """RAR and ASR; for a session that is not there 5002 (RFC 6733 §7.1.5)."""
        session = self._sessions.get(request.session_id or "")
        if isinstance(request, ReAuthRequest):
            self._counters["Rx RAR"] += 1
            if session is not None:
                self._on_rar(session, request)
        elif isinstance(request, AbortSessionRequest):
            self._counters["Rx ASR"] += 1
            if session is not None:
                self._lose(session, "aborted by the PCRF")
        else:
            return request.answer(result_code=Result.COMMAND_UNSUPPORTED)
        known = session is not None
        return request.answer(result_code=Result.SUCCESS if known else Result.UNKNOWN_SESSION_ID)

    def _on_rar(self, session: AfSession, request: ReAuthRequest) -> None:
        actions = frozenset(request.specific_action)
        lost = actions & _LOST
        if lost:
            released = SpecificAction.INDICATION_OF_RELEASE_OF_BEARER in lost
            self._lose(session, "bearer released" if released else "bearer lost")
        if session.bearers is None:
            return
        components = [
            one.media_component_number
            for one in request.flows
            if one.media_component_number is not None
        ]
        if _FAILED in actions or lost:
            session.bearers.report(components, there=False)
        elif actions & _THERE:
            session.bearers.report(components, there=True)

    def _lose(self, session: AfSession, why: str) -> None:
        self._counters[f"Rx: {why}"] += 1
        calls = list(session.phone.calls) if session.call is None else [session.call]
        if self.on_lost is not None:
            for call in calls:
                self.on_lost(call, why)

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _subscription(phone: Phone) -> SubscriptionId:
    """Whose session it is: the number, where there is one, else the private identity."""
    for identity in phone.associated:
        if identity.startswith("tel:+"):
            return SubscriptionId(SubscriptionIdType.END_USER_E164, identity[5:])
    return SubscriptionId(SubscriptionIdType.END_USER_NAI, phone.impi)
