"""Sessions at the P-CSCF: every request of a phone that is no REGISTER and no SUBSCRIBE.

TS 24.229 §5.2.6.3, §5.2.6.4, RFC 3261 §12.2, §16, RFC 3262, RFC 3311.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Protocol

from imsbench.protocol.sip import Message, Request, Response, tag_of
from simulators.core.answer import Answer, refusal
from simulators.core.callend import Calls
from simulators.core.calls import Call, Leg, Negotiated, learn_target
from simulators.core.callsetup import CallSetup, Refused, Routes
from simulators.core.phones import Phone
from simulators.core.proxy import Proxy, Transaction
from simulators.core.relay import DIALOG_HOPS, INITIAL_HOPS, max_forwards, routes_of
from simulators.core.ways import Way

ALLOWED = "INVITE, ACK, CANCEL, BYE, PRACK, UPDATE, INFO, MESSAGE, REFER, NOTIFY, OPTIONS"
_NOT_IN_DIALOG = frozenset(("REGISTER", "SUBSCRIBE", "PUBLISH"))


class PolicyFailure(Exception):
    """The PCRF did not authorize what was negotiated; the text says why."""


class Policy(Protocol):
    """The PCRF, as sessions see it."""

    async def authorize(self, call: Call, negotiated: Negotiated) -> None:
        """Ask for both legs; PolicyFailure."""
        ...


class Sessions:
    """Serves the requests of phones that belong to calls, and the responses to them."""

    def __init__(
        self,
        proxy: Proxy,
        calls: Calls,
        setup: CallSetup,
        routes: Routes,
        sent_by: str,
        counters: Counter[str],
    ) -> None:
        self._proxy = proxy
        self._calls = calls
        self._setup = setup
        self._routes = routes
        self._sent_by = sent_by
        self._counters = counters
        self.policy: Policy | None = None
        """None: no Rx."""

    # -- requests

    def on_request(self, connection: Way, phone: Phone, request: Request) -> None:
        """Serve a request of a phone that came in by its own SAs, or its own connection."""
        if request.method == "ACK":
            self._on_ack(phone, request)
            return
        known = self._proxy.find(phone, request.branch, request.method)
        if known is not None:
            self._proxy.repeat(known)
            return
        transaction = self._proxy.open(connection, phone, request)
        try:
            self._serve(transaction)
        except Refused as refused:
            self._proxy.refuse(transaction, refused.answer)
        except ValueError as error:
            self._counters["refused: malformed request"] += 1
            self._proxy.refuse(transaction, refusal(400, str(error)))

    def _serve(self, transaction: Transaction) -> None:
        request = transaction.request
        vias = request.values("via")
        if any(self._sent_by in via for via in vias[1:]):  # RFC 3261 §16.3 step 4
            raise Refused(refusal(482, "loop"))
        if request.method == "CANCEL":
            self._cancel(transaction)
            return
        if max_forwards(request) < INITIAL_HOPS:
            raise Refused(refusal(483))
        if tag_of(request.get("to") or ""):
            self._within(transaction)
        elif request.method == "INVITE":
            transaction.on_response = self._on_invite_response
            transaction.on_final = self._on_invite_final
            transaction.offer = _sdp(request)
            self._setup.begin(transaction)
        else:
            raise Refused(refusal(405, "", ("allow", f"REGISTER, SUBSCRIBE, {ALLOWED}")))

    def _cancel(self, transaction: Transaction) -> None:
        """RFC 3261 §9.2, §16.10."""
        phone, branch = transaction.phone, transaction.request.branch
        invite = self._proxy.find(phone, branch, "INVITE")
        if invite is None:
            raise Refused(refusal(481, "no INVITE of this branch"))
        self._proxy.refuse(transaction, Answer(200))
        if invite.status:
            self._counters["CANCELs after the final response"] += 1
            return
        self._counters["INVITEs cancelled"] += 1
        self._proxy.cancel(invite)

    def _within(self, transaction: Transaction) -> None:
        """A request within a dialog: by its route set to the other phone (RFC 3261 §12.2.1.1)."""
        request = transaction.request
        if request.method in _NOT_IN_DIALOG:
            raise Refused(refusal(405, "", ("allow", ALLOWED)))
        call, leg, other = self._dialog(transaction.phone, request)
        leg.cseq = max(leg.cseq, request.cseq)
        if request.method == "BYE" and call.loses_bye:
            self._calls.lose_bye(call)
            self._proxy.forget(transaction)
            return
        if call.state == "ended":
            raise Refused(refusal(481, "the call has ended"))
        if request.method == "INVITE":
            self._proxy.refuse(transaction, Answer(100))
        if request.method in ("INVITE", "UPDATE"):
            learn_target(leg, request)
        transaction.call = call
        call.open.add(transaction)
        transaction.on_response = self._on_response_within
        transaction.on_final = self._on_final_within
        negotiated = None
        sdp = _sdp(request)
        if sdp and call.late_offer and request.method == "PRACK":
            negotiated = Negotiated(other, call.late_offer, sdp)
            call.late_offer = b""
        else:
            transaction.offer = sdp
        self._when_authorized(
            call,
            negotiated,
            lambda: self._proxy.forward(transaction, other.phone, request.uri, DIALOG_HOPS),
            waits=False,
        )

    def _dialog(self, phone: Phone, request: Request) -> tuple[Call, Leg, Leg]:
        """The call of a request, its sender's leg and the other one; Refused if it fits none."""
        found = self._calls.of(request)
        if found is None:
            raise Refused(refusal(481, "no such call"))
        call, leg = found
        other = call.other(leg)
        if other is None:
            raise Refused(refusal(481, "no such dialog"))
        if leg.phone is not phone:
            self._counters["refused: dialog of another phone"] += 1
            raise Refused(refusal(403, "this dialog is of another phone"))
        expected = self._routes.of_caller if leg is call.caller else self._routes.of_callee
        if routes_of(request) != expected:
            self._counters[f"refused: Route of a {request.method} within a dialog"] += 1
            raise Refused(refusal(400, "Route is not the route set of the dialog"))
        if request.uri not in other.targets:
            self._counters[f"refused: Request-URI of a {request.method} within a dialog"] += 1
            raise Refused(refusal(404, "Request-URI is not the remote target of the dialog"))
        return call, leg, other

    def _on_ack(self, phone: Phone, request: Request) -> None:
        """Hop by hop for a failure, end to end for a 2xx (RFC 3261 §17.1.1.3, §13.2.2.4)."""
        invite = self._proxy.find(phone, request.branch, "INVITE")
        if invite is not None:
            if invite.status >= 300:
                self._proxy.acknowledged(invite)
            else:
                self._counters["ACKs with the branch of the INVITE"] += 1
            return
        try:
            call, _, other = self._dialog(phone, request)
        except (Refused, ValueError):
            self._counters["ACKs without a call"] += 1
            return
        negotiated, sdp = None, _sdp(request)
        if sdp and call.late_offer:
            negotiated = Negotiated(other, call.late_offer, sdp)
            call.late_offer = b""
        self._when_authorized(
            call,
            negotiated,
            lambda: self._proxy.pass_on(request, other.phone, request.uri, DIALOG_HOPS),
            waits=False,
        )

    def close(self) -> None:
        """Stop all timers and what still runs."""
        self._calls.close()
        self._proxy.close()

    # -- responses

    def on_response(self, response: Response) -> bool:
        """Serve a response to a request that was forwarded; False if there is none."""
        return self._proxy.on_response(response)

    def _on_invite_response(self, transaction: Transaction, response: Response) -> None:
        """A response of the called phone (TS 24.229 §5.2.6.4.4)."""
        call = transaction.call
        assert call is not None
        assert call.callee is not None
        if response.status < 300:
            call.remote = response.get("to") or ""
            self._learn(call.callee, response)
            self._check_record_routes(response)
        if 200 <= response.status < 300:
            again = call.callee.answered
            call.callee.answered = True
            if call.state == "ended" and not call.caller.answered:
                self._calls.hang_up(call, acknowledge_only=again)
                return
        routes = self._routes.record if response.status < 300 else ()
        self._when_authorized(
            call,
            self._negotiated(call, call.caller, transaction, response),
            lambda: self._proxy.relay(transaction, response, routes, call.asserted),
            waits=response.status < 300,
        )

    def _on_invite_final(self, transaction: Transaction, status: int) -> None:
        call = transaction.call
        if call is None:  # refused before it was a call
            self._counters[f"calls refused: {status}"] += 1
            return
        call.open.discard(transaction)
        if status < 300:
            self._calls.answered(call)
        elif call.state == "setting up":
            self._calls.end(call, f"INVITE {status}")

    def _on_response_within(self, transaction: Transaction, response: Response) -> None:
        call = transaction.call
        assert call is not None
        found = self._calls.of(transaction.request)
        negotiated = None
        if found is not None:
            leg = found[1]
            other = call.other(leg)
            if other is not None and transaction.request.method in ("INVITE", "UPDATE"):
                self._learn(other, response)
            negotiated = self._negotiated(call, leg, transaction, response)
        self._when_authorized(
            call, negotiated, lambda: self._proxy.relay(transaction, response), waits=False
        )

    def _on_final_within(self, transaction: Transaction, status: int) -> None:
        call = transaction.call
        assert call is not None
        call.open.discard(transaction)
        if transaction.request.method == "BYE":
            found = self._calls.of(transaction.request)
            if found is not None:
                self._calls.end(call, f"BYE of the {found[1].side}")

    def _learn(self, leg: Leg, response: Response) -> None:
        try:
            learn_target(leg, response)
        except ValueError:
            self._counters["malformed: Contact of a response"] += 1

    def _check_record_routes(self, response: Response) -> None:
        if response.values("record-route") != [value for _, value in self._routes.record]:
            self._counters["Record-Routes changed by phones"] += 1

    def _negotiated(
        self, call: Call, sender: Leg, transaction: Transaction, response: Response
    ) -> Negotiated | None:
        """The offer that this response answers, with it; an offer of its own is kept (RFC 3261 §13.2.1)."""
        sdp = _sdp(response)
        if not sdp or response.status >= 300:
            return None
        if transaction.offer:
            offer, transaction.offer = transaction.offer, b""
            return Negotiated(sender, offer, sdp)
        if transaction.is_invite and not _sdp(transaction.request):
            call.late_offer = sdp
        return None

    # -- Rx

    def _when_authorized(
        self,
        call: Call,
        negotiated: Negotiated | None,
        then: Callable[[], None],
        *,
        waits: bool,
    ) -> None:
        """Go on at once, or when the PCRF has said yes to what is negotiated.

        ``waits``: not before all that is held either, as a 180 must not overtake its 183.
        """
        if self.policy is None or (negotiated is None and not (waits and call.asking is not None)):
            then()
            return
        call.held.append((negotiated, then))
        if call.asking is None:
            call.asking = asyncio.get_running_loop().create_task(self._ask(call, self.policy))

    async def _ask(self, call: Call, policy: Policy) -> None:
        try:
            while call.held:
                negotiated, then = call.held.popleft()
                if negotiated is not None and call.state != "ended":
                    await policy.authorize(call, negotiated)
                then()
        except PolicyFailure as failure:
            self._counters["calls refused by the PCRF"] += 1
            self._calls.release(call, "no resources", warning=str(failure))
        finally:
            call.asking = None


def _sdp(message: Message) -> bytes:
    """Its SDP body, or nothing."""
    if not message.body:
        return b""
    kind = (message.get("content-type") or "").partition(";")[0].strip().lower()
    return message.body if kind == "application/sdp" else b""
