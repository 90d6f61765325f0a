"""The reg-event subscription (TS 24.229 §5.1.1.3, RFC 3680, RFC 6665): SUBSCRIBE and its NOTIFYs."""

from __future__ import annotations

from imsbench.outcome import LadderLine, Outcome
from imsbench.phone.actions import Receive, Timeout
from imsbench.phone.attempt import Rejected, exchange, rejected
from imsbench.phone.messages import subscribe_request
from imsbench.phone.phone import Phone, Subscription, refresh_delay
from imsbench.protocol.address import (
    parse_name_addr,
    parse_parameters,
    parse_uri,
    same_address,
)
from imsbench.protocol.reginfo import EVENTS, Contact, ReginfoError, parse_reginfo
from imsbench.protocol.sip import Message, Request, Response, response_to, tag_of


async def subscribe_reg_event(phone: Phone, outcome: Outcome) -> None:
    """Subscribe to the registration's state (TS 24.229 §5.1.1.3).

    Success is the 2xx and the first NOTIFY of the dialog, which may come before the 2xx and over
    the P-CSCF's own connection (RFC 6665 §4.1.2.4).
    """
    network = phone.network
    registration = phone.registration
    if registration is None:
        raise Rejected("not registered")
    subscription = Subscription(network.identifier(), network.identifier(), registration.impu)
    phone.subscription = subscription
    await _subscribe(phone, outcome, subscription)
    now, until = outcome.ended_at, outcome.ended_at + network.settings.transaction_timeout_s
    while subscription.notify_at != subscription.notify_at:  # NaN: not yet, or none that is one
        outcome.stage = "notify"
        try:
            now = await Receive(subscription.call_id, max(0.001, until - now))
        except Timeout as problem:
            raise Rejected("no notify", "200, but no NOTIFY", problem.at, 200) from problem
    outcome.notify_at = subscription.notify_at
    outcome.ladder.append(LadderLine(subscription.notify_at, "<-", "NOTIFY", phone.sas is not None))


async def refresh_subscription(phone: Phone, outcome: Outcome) -> None:
    """Refresh the subscription inside its dialog (TS 24.229 §5.1.1.3, RFC 6665 §4.1.2.2)."""
    subscription = phone.subscription
    if subscription is None:
        raise Rejected("not subscribed")
    count_owed_notify(phone)
    subscription.notify_owed = True
    await _subscribe(phone, outcome, subscription)


def count_owed_notify(phone: Phone) -> None:
    """Count a refresh after which no NOTIFY came until now (RFC 6665 §4.2.1.2 wants one at once)."""
    if phone.subscription is not None and phone.subscription.notify_owed:
        phone.network.events["refresh_without_notify"] += 1
        phone.subscription.notify_owed = False


async def _subscribe(phone: Phone, outcome: Outcome, subscription: Subscription) -> None:
    registration = phone.registration
    if registration is None:
        raise Rejected("not registered")
    settings = phone.network.settings
    request = subscribe_request(phone, registration, subscription, settings.subscription_expires_s)
    reply = await exchange(
        outcome, "subscribe", request, phone.signalling, settings.transaction_timeout_s
    )
    if not 200 <= reply.status < 300:
        if reply.status == 481:  # RFC 6665 §4.1.2.2: the subscription is gone
            phone.subscription = None
        raise rejected(reply)
    expires = (reply.get("expires") or "").strip()
    if not expires.isascii() or not expires.isdigit() or len(expires) > 10:
        # RFC 6665 §3.1.1: the 2xx to a SUBSCRIBE must have it.
        raise Rejected("no Expires", "2xx to SUBSCRIBE without Expires", reply.at, reply.status)
    if not int(expires):
        phone.subscription = None
        raise Rejected("Expires 0", "2xx to SUBSCRIBE that ends it at once", reply.at, reply.status)
    subscription.expires_at = reply.at + int(expires)
    _learn_dialog(subscription, reply, tag_of(reply.get("to") or ""), reverse=True, phone=phone)


def on_notify(phone: Phone, request: Request, at: float) -> Response:
    """Answer a NOTIFY and act on what it says (TS 24.229 §5.1.1.3, §5.1.1.7).

    200 inside the dialog; 481 to one that no subscription of the phone owns; 400 to a body that is
    no reginfo; 500 to one out of order (RFC 3261 §12.2.2). Each kind is counted.
    """
    network, subscription = phone.network, phone.subscription
    if subscription is None or subscription.call_id != request.call_id:
        network.events["late_notify" if subscription is None else "notify_for_no_dialog"] += 1
        return response_to(
            request, 481, "Call/Transaction Does Not Exist", to_tag=network.identifier()
        )
    if request.cseq <= subscription.notify_cseq:
        network.events["notify_out_of_order"] += 1
        return response_to(request, 500, "Server Internal Error")
    subscription.notify_cseq = request.cseq
    subscription.notify_owed = False
    network.events["notify"] += 1
    try:
        contact = _own_contact(phone, request) if request.body else None
    except ReginfoError as problem:
        network.events["bad_reginfo"] += 1
        reason = str(problem)[:60].replace("\r", " ").replace("\n", " ")
        return response_to(request, 400, f"Bad reginfo: {reason}")
    _learn_dialog(
        subscription, request, tag_of(request.get("from") or ""), reverse=False, phone=phone
    )
    first = subscription.notify_at != subscription.notify_at
    if first:
        subscription.notify_at = at
        if subscription.expires_at != subscription.expires_at:
            # NaN: no 2xx yet (RFC 6665 §4.1.2.4 allows it)
            network.events["notify_before_2xx"] += 1
    state = request.get("subscription-state") or ""
    if contact is not None and contact.state == "terminated":
        _on_terminated(phone, contact, state)
    elif state.partition(";")[0].strip().lower() == "terminated":
        network.events["subscription_terminated_by_target"] += 1
        phone.subscription = None
    else:
        _take_expires(phone, subscription, state, at)
    return response_to(request, 200, "OK")


def _own_contact(phone: Phone, request: Request) -> Contact | None:
    """This phone's contact in the document: the binding at its own address (RFC 3680 §5)."""
    document = parse_reginfo(request.body)
    for registration in document.registrations:
        for contact in registration.contacts:
            try:
                host = parse_uri(contact.uri).host
            except ValueError:
                continue  # somebody else's, in a form of its own
            if same_address(host, phone.address):
                return contact
    return None


def _on_terminated(phone: Phone, contact: Contact, state: str) -> None:
    """The network ended the binding (TS 24.229 §5.1.1.7); after our own Expires: 0 it is no news."""
    network = phone.network
    event = contact.event if contact.event in EVENTS else "other"  # no counter of their naming
    if event == "unregistered" or phone.deregistering:
        network.events["notify_of_own_deregistration"] += 1
        if event != "unregistered":  # RFC 3680 §5.1: what a user agent asks for is no expiry
            network.events[f"own_deregistration_called_{event}"] += 1
        if state.partition(";")[0].strip().lower() != "terminated":
            network.events["subscription_active_after_deregistration"] += 1
        return
    network.events[f"network_deregistration_{event}"] += 1
    if network.on_deregistered is not None:
        network.on_deregistered(phone, contact.event)


def _take_expires(phone: Phone, subscription: Subscription, state: str, at: float) -> None:
    """RFC 6665 §4.1.2.4: the expires of Subscription-State may shorten the subscription."""
    text = parse_parameters(state).get("expires", "")
    if not text.isascii() or not text.isdigit() or len(text) > 10:
        return
    subscription.expires_at = at + int(text)
    refresh_at = at + refresh_delay(int(text))
    if refresh_at < subscription.refresh_at:  # never true of NaN: no refresh is planned
        subscription.refresh_at = refresh_at
        if phone.network.on_refresh_moved is not None:
            phone.network.on_refresh_moved(phone)


def _learn_dialog(
    subscription: Subscription, message: Message, tag: str, *, reverse: bool, phone: Phone
) -> None:
    """Remote tag, target and route set, from the 2xx or the NOTIFY that comes first (RFC 6665 §4.4.1)."""
    if subscription.to_tag:
        return
    contact = message.get("contact")
    try:
        target = parse_name_addr(contact).uri if contact else ""
        parse_uri(target)
    except ValueError:
        target = ""
    if not tag or not target:
        phone.network.events["dialog_without_tag_or_contact"] += 1
        return
    shared = phone.network.shared
    subscription.to_tag = tag
    subscription.target = shared(target)
    # RFC 3261 §12.1.2: reversed from a response; §12.1.1: as it stands from a request.
    entries = message.values("record-route")
    subscription.route_set = tuple(shared(e) for e in (reversed(entries) if reverse else entries))
