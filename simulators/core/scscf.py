"""S-CSCF: authentication, registration and de-registration (TS 24.229 §5.4.1, TS 33.203 §6.1)."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from imsbench.protocol import digest
from imsbench.protocol.aka import make_nonce
from imsbench.protocol.sip import Request
from simulators.core.answer import Answer, Challenge, refusal
from simulators.core.cxclient import AuthVector, Cx, CxFailure
from simulators.core.regevent import RegEvents
from simulators.core.register import Register
from simulators.core.registrar import PhoneRoute, Registrar, Registration
from simulators.core.settings import REG_AWAIT_AUTH_S, CoreSettings
from simulators.core.userdata import UserData, UserDataError, parse_user_data
from simulators.cx import ReasonCode, ServerAssignmentType

MAX_RESYNCHRONISATIONS = 2


@dataclass(slots=True)
class Pending:
    """A challenge that waits for its answer."""

    register: Register
    nonce: str
    vector: AuthVector
    timer: asyncio.TimerHandle
    resynchronisations: int = 0


class Scscf:
    """Registrar and authenticator of the home network."""

    def __init__(self, settings: CoreSettings, cx: Cx, counters: Counter[str]) -> None:
        self.name = f"sip:scscf.{settings.domain}:6060"
        """Server-Name towards the HSS (TS 29.228 §6)."""
        self._settings = settings
        self._cx = cx
        self._counters = counters
        self._pending: dict[str, Pending] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.registrar = Registrar(counters, self._on_expired)
        self.reg_events = RegEvents(settings, self.registrar, counters)

    async def register(self, register: Register, protected: bool, route: PhoneRoute) -> Answer:
        """Serve a REGISTER (TS 24.229 §5.4.1.2); CxFailure if the HSS fails it."""
        settings = self._settings
        if 0 < register.expires_s < settings.min_expires_s:
            return refusal(423, "", ("min-expires", str(settings.min_expires_s)))
        if register.expires_s and not register.contact_uri:
            return refusal(400, "REGISTER without a Contact")
        pending = self._pending.get(register.impi)
        if pending and register.authorization.get("nonce") == pending.nonce:
            return await self._answered(register, pending, route)
        registration = self.registrar.by_impi(register.impi)
        trusted = protected and registration is not None
        if trusted and not (settings.reauthenticate and register.expires_s):
            return await self._accept(register, route, authenticated=False)
        if protected and registration is None and not register.expires_s:
            return refusal(481, "no such registration")
        return await self._challenge(register, b"", 0)

    def subscribe(self, request: Request, asserted: str) -> Answer:
        """Serve a SUBSCRIBE from an asserted public identity (TS 24.229 §5.4.2.1.1)."""
        return self.reg_events.subscribe(request, asserted)

    # -- authentication

    async def _challenge(self, register: Register, auts: bytes, resynchronisations: int) -> Answer:
        """Fetch a vector and challenge with it (TS 24.229 §5.4.1.2.1A)."""
        vector = await self._cx.multimedia_auth(register.impi, register.impu, self.name, auts)
        nonce = make_nonce(vector.rand, vector.autn)
        self._forget_pending(register.impi)
        timer = asyncio.get_running_loop().call_later(
            REG_AWAIT_AUTH_S, self._not_answered, register.impi, nonce
        )
        self._pending[register.impi] = Pending(register, nonce, vector, timer, resynchronisations)
        challenge = digest.Challenge(self._settings.domain, nonce, digest.ALGORITHM, ("auth",), "")
        return Answer(
            401,
            [("www-authenticate", digest.serialize_challenge(challenge))],
            challenge=Challenge(nonce, vector.ck, vector.ik),
        )

    async def _answered(self, register: Register, pending: Pending, route: PhoneRoute) -> Answer:
        """The answer to a challenge: RES, AUTS, or nothing at all (RFC 3310 §3, TS 33.203 §6.1)."""
        fields = register.authorization
        if fields.get("auts"):
            return await self._resynchronise(register, pending)
        self._forget_pending(register.impi)
        if not fields.get("response"):
            self._counters["MAC failures reported by phones"] += 1
            return await self._refused(register, "the phone refused the challenge: MAC failure")
        right_place = (
            fields.get("username") == register.impi and fields.get("realm") == self._settings.domain
        )
        if right_place and digest.check_response(fields, pending.vector.xres, "REGISTER"):
            return await self._accept(register, route, authenticated=True)
        self._counters["wrong responses"] += 1
        return await self._refused(register, "wrong response to the challenge")

    async def _resynchronise(self, register: Register, pending: Pending) -> Answer:
        """SQN out of range at the phone: ask the HSS with RAND ‖ AUTS (TS 33.203 §6.1.3)."""
        self._counters["resynchronisations"] += 1
        if pending.resynchronisations >= MAX_RESYNCHRONISATIONS:
            self._forget_pending(register.impi)
            return await self._refused(register, "too many resynchronisations")
        try:
            auts = base64.b64decode(register.authorization["auts"], validate=True)
        except (binascii.Error, ValueError):
            auts = b""
        if len(auts) != 14:
            return refusal(400, "auts is not base64 of 14 bytes")
        resynchronisation = pending.vector.rand + auts
        return await self._challenge(register, resynchronisation, pending.resynchronisations + 1)

    async def _refused(self, register: Register, why: str) -> Answer:
        """403, and the HSS forgets the pending authentication (TS 29.228 §6.1.2.1)."""
        await self._assign(
            register.impi, [register.impu], ServerAssignmentType.AUTHENTICATION_FAILURE
        )
        return refusal(403, why)

    def _not_answered(self, impi: str, nonce: str) -> None:
        """reg-await-auth is over (TS 24.229 table 7.8)."""
        pending = self._pending.get(impi)
        if pending is None or pending.nonce != nonce:
            return
        del self._pending[impi]
        self._counters["challenges not answered"] += 1
        self._assign_later(
            impi, [pending.register.impu], ServerAssignmentType.AUTHENTICATION_TIMEOUT
        )

    def _forget_pending(self, impi: str) -> None:
        pending = self._pending.pop(impi, None)
        if pending is not None:
            pending.timer.cancel()

    # -- registration

    async def _accept(
        self, register: Register, route: PhoneRoute, *, authenticated: bool
    ) -> Answer:
        """An authenticated REGISTER: register, refresh or de-register (TS 24.229 §5.4.1.2.2F, §5.4.1.4)."""
        registration = self.registrar.by_impi(register.impi)
        if not register.expires_s:
            if registration is None:
                return refusal(481, "no such registration")
            return await self._deregister(register, registration)
        expires_s = min(register.expires_s, self._settings.expires_s)
        if registration is not None and not authenticated:
            if not self._newer(register, registration):
                return refusal(500, "CSeq is not above the last REGISTER's")
            self.registrar.refresh(registration, register, route, expires_s)
            registration.event = "refreshed"
            self._counters["registrations refreshed"] += 1
        else:
            again = registration is not None
            user_data = await self._profile(register, again)
            registration = self.registrar.add(register, user_data, route, expires_s)
            registration.event = "refreshed" if again else "registered"
            self._counters["re-authentications" if again else "registrations"] += 1
        answer = self._registered(register, registration, expires_s)
        renewed = registration
        answer.after.append(lambda: self.reg_events.changed(renewed))
        return answer

    async def _profile(self, register: Register, again: bool) -> UserData:
        kind = ServerAssignmentType.RE_REGISTRATION if again else ServerAssignmentType.REGISTRATION
        data = await self._assign(register.impi, [register.impu], kind)
        try:
            return parse_user_data(data)
        except UserDataError as error:
            self._counters["User-Data unreadable"] += 1
            raise CxFailure("SAR", "malformed") from error

    def _newer(self, register: Register, registration: Registration) -> bool:
        """RFC 3261 §10.3 step 7: a binding is renewed only in order within one Call-ID."""
        request = register.request
        return request.call_id != registration.call_id or request.cseq > registration.cseq

    def _registered(self, register: Register, registration: Registration, expires_s: int) -> Answer:
        """The 200 of a registration (TS 24.229 §5.4.1.2.2F; Path: RFC 3327 §5.3)."""
        headers = [("path", path) for path in register.request.get_all("path")]
        headers.append(("contact", f"{registration.contact};expires={expires_s}"))
        headers.append(("service-route", f"<sip:orig@{self.name.removeprefix('sip:')};lr>"))
        headers.extend(("p-associated-uri", f"<{uri}>") for uri in registration.identities)
        return Answer(
            200,
            headers,
            expires_s=expires_s,
            identities=(*registration.identities, registration.impu),
        )

    # -- the end of registrations

    async def _deregister(self, register: Register, registration: Registration) -> Answer:
        """By the phone (TS 24.229 §5.4.1.4): SAR, NOTIFY terminated, 200."""
        await self._assign(
            registration.impi, [registration.impu], ServerAssignmentType.USER_DEREGISTRATION
        )
        self.registrar.remove(registration)
        self._counters["de-registrations"] += 1
        # Inside SAs that stay until the phone has read the 200, so the NOTIFY may go first.
        self.reg_events.ended(registration, "unregistered", "noresource")
        return Answer(200, expires_s=0)

    def _on_expired(self, registration: Registration) -> None:
        """Not refreshed in time (TS 24.229 §5.4.1.4, TS 29.228 TIMEOUT_DEREGISTRATION)."""
        self.reg_events.ended(registration, "expired", "noresource")
        registration.route.expired()
        self._assign_later(
            registration.impi, [registration.impu], ServerAssignmentType.TIMEOUT_DEREGISTRATION
        )

    def deregister_by_network(self, impi: str, impus: Sequence[str], reason: ReasonCode) -> int:
        """An RTR of the HSS (TS 29.228 §6.1.3, TS 24.229 §5.4.1.5); how many registrations ended.

        With identities: those; without: all of the private identity's.
        """
        if (
            reason == ReasonCode.REMOVE_S_CSCF
        ):  # for users that are not registered; none is kept here
            return 0
        found = [self.registrar.by_impu(impu) for impu in impus]
        if not impus:
            found = [self.registrar.by_impi(impi)]
        ended = {id(item): item for item in found if item is not None and item.impi == impi}
        for registration in ended.values():
            self._counters[f"registrations ended by the HSS: {reason.name}"] += 1
            self.registrar.remove(registration)
            if reason == ReasonCode.NEW_SERVER_ASSIGNED:  # no de-registration signalling
                self.reg_events.drop(registration)
                continue
            event = "deactivated" if reason == ReasonCode.SERVER_CHANGE else "rejected"
            self.reg_events.ended(registration, event, event)
            registration.route.release()
        return len(ended)

    def replace_profile(self, impi: str, data: bytes) -> bool:
        """A PPR of the HSS (TS 29.228 §6.2.2.1): False if it cannot be read, or nobody is registered."""
        registration = self.registrar.by_impi(impi)
        try:
            user_data = parse_user_data(data)
        except UserDataError:
            self._counters["User-Data unreadable"] += 1
            return False
        if registration is None:
            return False
        self.registrar.replace_profile(registration, user_data)
        self._counters["profiles pushed"] += 1
        return True

    # -- Cx

    async def _assign(self, impi: str, impus: Sequence[str], kind: ServerAssignmentType) -> bytes:
        return await self._cx.server_assignment(impi, impus, self.name, kind)

    def _assign_later(self, impi: str, impus: Sequence[str], kind: ServerAssignmentType) -> None:
        """A SAR that no request waits for; its failure is a count."""

        async def assign() -> None:
            try:
                await self._assign(impi, impus, kind)
            except CxFailure as failure:
                self._counters[str(failure)] += 1

        task = asyncio.get_running_loop().create_task(assign())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        """Stop all timers and what still runs."""
        for impi in list(self._pending):
            self._forget_pending(impi)
        for registration in self.registrar:
            self.reg_events.drop(registration)
            self.registrar.remove(registration)
        for task in self._tasks:
            task.cancel()
