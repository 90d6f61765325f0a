"""A call's way through the CSCFs: P-CSCF and S-CSCF of the caller, I-CSCF, S-CSCF and P-CSCF of the callee.

TS 24.229 §5.2.6.3.2, §5.4.3.2, §5.3.2.1, §5.4.3.3, §5.2.6.4.3.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import Protocol

from imsbench.protocol.address import host_port, parse_uri, same_address
from imsbench.protocol.sip import Header, Request, tag_of
from simulators.core.answer import Answer, refusal
from simulators.core.callend import Calls
from simulators.core.calls import Call, Leg, learn_target
from simulators.core.cxclient import CxFailure
from simulators.core.icscf import Icscf, location_refusal
from simulators.core.identities import asserted, asserted_callee, called_identity
from simulators.core.phones import Phone
from simulators.core.proxy import Proxy, Transaction
from simulators.core.registrar import Registration
from simulators.core.relay import INITIAL_HOPS, routes_of, unknown_proxy_options
from simulators.core.scscf import Scscf
from simulators.core.settings import CoreSettings

_LOG = logging.getLogger(__name__)


class Refused(Exception):
    """A request that is not forwarded."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.status)
        self.answer = answer
        """What is answered instead."""


class PhoneBook(Protocol):
    """Where the P-CSCF's phones are found."""

    def phone(self, impi: str) -> Phone | None:
        """The phone that is registered with a private identity."""
        ...


class Routes:
    """The routes through this core, as phones see them (RFC 3261 §12.1, §16.6 step 4)."""

    def __init__(self, settings: CoreSettings, scscf_name: str) -> None:
        self._host = settings.listen[0]
        self._ports = {settings.listen[1], settings.port_ps}
        port = settings.listen[1] if settings.ipsec == "off" else settings.port_ps
        pcscf, scscf = host_port(self._host, port), scscf_name.removeprefix("sip:")
        uris = [
            f"sip:mt@{pcscf};lr",
            f"sip:mt@{scscf};lr",
            f"sip:mo@{scscf};lr",
            f"sip:mo@{pcscf};lr",
        ]
        self.record: list[Header] = [("record-route", f"<{uri}>") for uri in uris]
        """Record-Routes of an INVITE as the called phone gets it: the nearest CSCF first."""
        self.of_callee = uris
        """Route set of the called phone."""
        self.of_caller = uris[::-1]
        """Route set of the calling phone."""

    def is_own(self, uri: str) -> bool:
        """Whether a Route entry names this P-CSCF."""
        parsed = parse_uri(uri)
        return same_address(parsed.host, self._host) and (parsed.port or 5060) in self._ports


class CallSetup:
    """Takes the initial INVITEs."""

    def __init__(
        self,
        proxy: Proxy,
        calls: Calls,
        routes: Routes,
        icscf: Icscf,
        scscf: Scscf,
        phones: PhoneBook,
        counters: Counter[str],
    ) -> None:
        self._proxy = proxy
        self._calls = calls
        self._routes = routes
        self._icscf = icscf
        self._scscf = scscf
        self._phones = phones
        self._counters = counters

    def begin(self, transaction: Transaction) -> Call:
        """Check an INVITE at the originating P-CSCF, and look for who is called; Refused, ValueError."""
        request, phone = transaction.request, transaction.phone
        tag = tag_of(request.get("from") or "")
        if not tag:
            raise ValueError("From without a tag")
        if self._calls.find(request.call_id, tag) is not None:
            raise Refused(refusal(482, "merged request"))
        self._check(request, phone)
        call = Call(request.call_id, tag, transaction, Leg("caller", phone, cseq=request.cseq))
        call.local = request.get("from") or ""
        learn_target(call.caller, request)
        if not call.caller.targets:
            raise ValueError("INVITE without a Contact")
        transaction.call = call
        call.open.add(transaction)
        self._calls.add(call)
        self._proxy.refuse(transaction, Answer(100))
        task = asyncio.get_running_loop().create_task(self._route(call))
        call.setting_up = task
        return call

    def _check(self, request: Request, phone: Phone) -> None:
        if not phone.registered:
            raise Refused(refusal(403, "not registered"))
        unknown = unknown_proxy_options(request)
        if unknown:
            raise Refused(refusal(420, "", ("unsupported", ", ".join(unknown))))
        routes = routes_of(request)
        # TS 24.229 §5.2.6.3.2: a route that is not the Service-Route may be refused.
        if not routes or not self._routes.is_own(routes[0]) or routes[1:] != [*phone.service_route]:
            self._counters["refused: Route of an INVITE"] += 1
            raise Refused(refusal(400, "Route is not this P-CSCF and the Service-Route"))

    async def _route(self, call: Call) -> None:
        """From the S-CSCF of the caller to the phone of the callee; a defect of ours is a 500."""
        transaction = call.invite
        try:
            called = called_identity(transaction.request.uri)
            registration = await self._locate(called)
            phone = self._phones.phone(registration.impi)
            if phone is None or not phone.registered:
                raise Refused(refusal(480, "the called phone left"))
        except Refused as refused:
            self._proxy.refuse(transaction, refused.answer)
        except ValueError as error:
            self._proxy.refuse(transaction, refusal(416, str(error)))
        except Exception as error:
            _LOG.exception("INVITE of %s", call.call_id)
            self._counters[f"internal errors: {type(error).__name__}"] += 1
            self._proxy.refuse(transaction, refusal(500, "internal error"))
        else:
            if transaction.cancelled:
                self._proxy.refuse(transaction, Answer(487))
            elif call.state != "ended":
                self._ring(call, called, registration, phone)

    async def _locate(self, called: str) -> Registration:
        """The callee's registration, by LIR and at its S-CSCF (TS 24.229 §5.3.2.1, §5.4.3.3)."""
        try:
            server_name = await self._icscf.locate(called)
        except CxFailure as failure:
            self._counters[str(failure)] += 1
            raise Refused(location_refusal(failure)) from failure
        registration = self._scscf.registrar.by_impu(called)
        if not server_name or registration is None:
            raise Refused(refusal(480, "not registered"))
        if called in registration.user_data.barred:
            raise Refused(refusal(404, "this identity is barred"))
        return registration

    def _ring(self, call: Call, called: str, registration: Registration, phone: Phone) -> None:
        """S-CSCF and P-CSCF of the callee: to its contact (TS 24.229 §5.4.3.3, §5.2.6.4.3)."""
        transaction = call.invite
        call.callee = Leg("callee", phone)
        phone.calls.add(call)
        call.asserted = asserted_callee(called, phone.associated)
        added = [
            *self._routes.record,
            *asserted(transaction.request, call.caller.phone.associated),
            ("p-called-party-id", f"<{called}>"),
        ]
        self._proxy.forward(transaction, phone, registration.contact_uri, INITIAL_HOPS, added)
