"""The reg event package at the S-CSCF (RFC 3680, RFC 6665, TS 24.229 §5.4.2.1)."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

from imsbench.protocol.address import canonical_identity, parse_name_addr, parse_uri
from imsbench.protocol.reginfo import Contact, Reginfo, serialize_reginfo
from imsbench.protocol.reginfo import Registration as ReginfoRegistration
from imsbench.protocol.sip import Request, Response, tag_of
from simulators.core.answer import Answer, refusal
from simulators.core.registrar import Registrar, Registration, Subscription
from simulators.core.settings import CoreSettings

CONTENT_TYPE = "application/reginfo+xml"
DEFAULT_EXPIRES_S = 3761  # RFC 3680 §4.3


class RegEvents:
    """Subscriptions to registrations, and the NOTIFYs that they cause."""

    def __init__(
        self, settings: CoreSettings, registrar: Registrar, counters: Counter[str]
    ) -> None:
        self._settings = settings
        self._registrar = registrar
        self._counters = counters
        self._random = random.Random(f"dialogs|{settings.seed}")
        self._contact = f"<sip:scscf.{settings.domain}:6060>"
        self.count = 0
        """Subscriptions there are."""

    # -- SUBSCRIBE

    def subscribe(self, request: Request, asserted: str) -> Answer:
        """Serve a SUBSCRIBE of an asserted identity; the NOTIFY follows the answer (RFC 6665 §4.2.1)."""
        event = (request.get("event") or "").partition(";")[0].strip().lower()
        if event != "reg":
            return refusal(489, "", ("allow-events", "reg"))
        try:
            target = parse_name_addr(request.get("contact") or "").uri
            parse_uri(target)
            wanted = canonical_identity(request.uri)
        except ValueError as error:
            return refusal(400, str(error))
        registration = self._registrar.by_impu(asserted)
        tag = tag_of(request.get("to") or "")
        if tag:
            subscription = registration.subscriptions.get(tag) if registration else None
            if (
                registration is None
                or subscription is None
                or not _in_dialog(request, subscription)
            ):
                return refusal(481, "no such subscription")
            subscription.target = target
        else:
            # TS 24.229 §5.4.2.1.1: only the user itself (and its P-CSCF) may watch it.
            if registration is None or self._registrar.by_impu(wanted) is not registration:
                return refusal(403, "this registration is not there, or not the subscriber's own")
            subscription = self._create(registration, request, target)
        subscription.remote_cseq = request.cseq
        return self._accept(registration, subscription, _expires(request))

    def _create(self, registration: Registration, request: Request, target: str) -> Subscription:
        tag = f"{self._random.getrandbits(48):012x}"
        to = request.get("to") or ""
        subscription = Subscription(
            request.call_id, tag, f"{to};tag={tag}", request.get("from") or "", target, 0.0
        )
        registration.subscriptions[tag] = subscription
        self.count += 1
        self._counters["subscriptions"] += 1
        return subscription

    def _accept(
        self, registration: Registration, subscription: Subscription, asked_s: int
    ) -> Answer:
        granted_s = min(asked_s, self._settings.subscription_expires_s)
        loop = asyncio.get_running_loop()
        self._stop_timer(subscription)
        subscription.expires_at = loop.time() + granted_s
        answer = Answer(200, [("expires", str(granted_s)), ("contact", self._contact)])
        answer.local_tag = subscription.local_tag
        if granted_s:
            subscription.timer = loop.call_later(
                granted_s, self._expired, registration, subscription
            )
            answer.after.append(lambda: self._notify(registration, subscription))
        else:
            answer.after.append(lambda: self._expired(registration, subscription))
        return answer

    def _expired(self, registration: Registration, subscription: Subscription) -> None:
        """Unsubscribed or not refreshed: a last NOTIFY (RFC 6665 §4.2.2, §4.4.1)."""
        if self._forget(registration, subscription):
            self._notify(registration, subscription, "terminated;reason=timeout")

    # -- NOTIFY

    def changed(self, registration: Registration) -> None:
        """Tell all subscribers of a registration that it was created or refreshed."""
        for subscription in list(registration.subscriptions.values()):
            self._notify(registration, subscription)

    def ended(self, registration: Registration, event: str, reason: str) -> None:
        """The registration is over: tell all its subscribers, and end their subscriptions."""
        registration.event = event
        for subscription in list(registration.subscriptions.values()):
            self._forget(registration, subscription)
            self._notify(registration, subscription, f"terminated;reason={reason}", ended=True)

    def drop(self, registration: Registration) -> None:
        """Forget the subscriptions without a word."""
        for subscription in list(registration.subscriptions.values()):
            self._forget(registration, subscription)

    def _notify(
        self,
        registration: Registration,
        subscription: Subscription,
        state: str = "",
        *,
        ended: bool = False,
    ) -> None:
        if not state:
            if subscription.local_tag not in registration.subscriptions:
                return  # it ended between the answer and its NOTIFY
            left_s = subscription.expires_at - asyncio.get_running_loop().time()
            state = f"active;expires={max(0, round(left_s))}"
        body = serialize_reginfo(self._reginfo(registration, subscription, ended))
        subscription.cseq += 1
        request = Request(
            "NOTIFY",
            subscription.target,
            [
                ("max-forwards", "70"),
                ("from", subscription.local),
                ("to", subscription.remote),
                ("call-id", subscription.call_id),
                ("cseq", f"{subscription.cseq} NOTIFY"),
                ("contact", self._contact),
                ("event", "reg"),
                ("subscription-state", state),
                ("content-type", CONTENT_TYPE),
            ],
            body,
            call_id=subscription.call_id,
            cseq=subscription.cseq,
        )
        self._counters["NOTIFYs"] += 1
        registration.route.send(
            request, lambda response: self._notified(registration, subscription, response)
        )

    def _notified(
        self, registration: Registration, subscription: Subscription, response: Response | None
    ) -> None:
        """The answer to a NOTIFY (RFC 6665 §4.2.2): failures that end the dialog end the subscription."""
        if response is not None and response.status < 300:
            self._counters["NOTIFYs accepted"] += 1
            return
        status = str(response.status) if response is not None else "no answer"
        self._counters[f"NOTIFYs failed: {status}"] += 1
        if response is None or response.status in (404, 405, 410, 416, 480, 481, 489, 501):
            self._forget(registration, subscription)

    def _reginfo(
        self, registration: Registration, subscription: Subscription, ended: bool
    ) -> Reginfo:
        """Full state of all identities of the set that are not barred (RFC 3680 §5)."""
        loop_time = asyncio.get_running_loop().time()
        left_s = None if ended else max(0, round(registration.expires_at - loop_time))
        state = "terminated" if ended else "active"
        number = registration.number
        registrations = [
            ReginfoRegistration(
                aor=identity,
                id=f"r{number}-{index}",
                state=state,
                contacts=[
                    Contact(
                        id=f"c{number}-{index}",
                        state=state,
                        event=registration.event,
                        uri=registration.contact_uri,
                        expires=left_s,
                    )
                ],
            )
            for index, identity in enumerate(registration.identities)
        ]
        version = subscription.version
        subscription.version += 1
        return Reginfo(version=version, state="full", registrations=registrations)

    def _forget(self, registration: Registration, subscription: Subscription) -> bool:
        self._stop_timer(subscription)
        if registration.subscriptions.pop(subscription.local_tag, None) is None:
            return False
        self.count -= 1
        return True

    def _stop_timer(self, subscription: Subscription) -> None:
        if subscription.timer is not None:
            subscription.timer.cancel()
            subscription.timer = None


def _in_dialog(request: Request, subscription: Subscription) -> bool:
    """RFC 3261 §12.2.2: Call-ID, the remote tag, and a CSeq above the last."""
    return (
        request.call_id == subscription.call_id
        and tag_of(request.get("from") or "") == tag_of(subscription.remote)
        and request.cseq > subscription.remote_cseq
    )


def _expires(request: Request) -> int:
    text = request.get("expires") or ""
    if text.isascii() and text.isdigit() and len(text) <= 10:
        return int(text)
    return DEFAULT_EXPIRES_S
