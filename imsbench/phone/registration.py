"""Registration flows: initial, refresh, de-registration (TS 24.229 §5.1.1, TS 33.203 §6, §7).

Each flow fills its Outcome and returns, or raises Rejected or FlowError; ``attempt`` turns either
into the Outcome's cause and stage. An attempt never retries by itself.
"""

from __future__ import annotations

from imsbench.outcome import Outcome
from imsbench.phone.actions import Close, Timeout, Unprotect
from imsbench.phone.attempt import Rejected, rejected
from imsbench.phone.challenge import RegisterAttempt, answer_challenges
from imsbench.phone.phone import Phone, Registration
from imsbench.phone.subscription import count_owed_notify
from imsbench.protocol.address import parse_name_addr, parse_uri, same_address
from imsbench.protocol.digest import initial_authorization, refresh_authorization
from imsbench.protocol.sip import Response
from imsbench.subscriber import Subscriber


async def register(phone: Phone, outcome: Outcome) -> None:
    """Initial registration with IMS-AKA and, if the phone has it, IPsec (TS 24.229 §5.1.1.2)."""
    network = phone.network
    await abandon(phone)
    phone.clear = phone.clear_channel()
    registration = Registration(call_id=network.identifier(), from_tag=network.identifier())
    work = RegisterAttempt(phone, outcome, registration, network.settings.expires_s)
    subscriber = work.subscriber
    first = initial_authorization(subscriber.impi, subscriber.domain, f"sip:{subscriber.domain}")
    reply = await work.send("challenge", first)
    reply = await answer_challenges(work, reply, first)
    if reply.status == 200 and network.settings.ipsec and work.sas is None:
        # Taken for registered it would do everything in clear.
        what = "200 without a challenge: there are no security associations"
        raise Rejected("not protected", what, reply.at, 200)
    _accept(work, reply)
    if work.sas is not None and phone.clear is not None:
        # The clear connection has done its work (TS 33.203 §7.1: nothing goes in clear from now).
        clear, phone.clear = phone.clear, None
        await Close(clear, 0.0)


async def reregister(phone: Phone, outcome: Outcome) -> None:
    """Refresh of a registration (TS 24.229 §5.1.1.4): inside the SAs, offering a new set.

    A plain 200 keeps the old SAs and drops the offer; a challenge makes a new set beside the old
    (TS 33.203 §7.4), and the old one goes after the 200 on the new, when the transactions that are
    under way on it have ended: a call that is being set up goes on there.
    """
    network = phone.network
    registration = phone.registration
    if registration is None:
        raise Rejected("not registered")
    work = RegisterAttempt(phone, outcome, registration, network.settings.expires_s)
    authorization = _refresh_authorization(work.subscriber, registration)
    reply = await work.send("refresh", authorization)
    reply = await answer_challenges(work, reply, authorization)
    _accept(work, reply)
    if outcome.challenges:
        network.events["challenged_refreshes"] += 1
    if phone.newer is not None and phone.sas is not None:
        sas, client = phone.sas, phone.client
        (phone.sas, phone.client), phone.newer = phone.newer, None
        timeout_s, settle_s = (
            network.settings.close_timeout_s,
            network.settings.transaction_timeout_s,
        )
        await Close(client, timeout_s, phone, sas.port_pc, settle_s=settle_s)
        await Unprotect(sas)


async def deregister(phone: Phone, outcome: Outcome) -> None:
    """De-registration by the phone (TS 24.229 §5.1.1.6).

    Its end is ordered so that nothing leaves in clear: the 200 is read, both connections are closed
    inside the SAs, then the policies go, then the states. A 200 that does not come, or comes in clear
    after the P-CSCF has deleted its SAs, is a failure: whether the core has ended the registration the
    phone cannot know.
    """
    registration = phone.registration
    if registration is None:
        raise Rejected("not registered")
    phone.deregistering = True
    count_owed_notify(phone)
    work = RegisterAttempt(phone, outcome, registration, 0)
    authorization = _refresh_authorization(work.subscriber, registration)
    try:
        reply = await work.send("deregistration", authorization)
        reply = await answer_challenges(work, reply, authorization)
    except Timeout:
        phone.network.events["deregistrations_unanswered"] += 1
        raise
    if reply.status != 200:
        raise rejected(reply)
    await abandon(phone, phone.network.settings.close_timeout_s)


async def abandon(phone: Phone, close_timeout_s: float = 0.0, *, silently: bool = False) -> None:
    """Forget registration, subscription, connections and SAs (TS 33.203 §7.4), in that order.

    Silently: the network is told nothing and keeps what it holds of the phone, as when power or
    coverage is lost.
    """
    phone.deregistering = False
    phone.registration = None
    phone.subscription = None
    sas, phone.sas = phone.sas, None
    client, phone.client = phone.client, None
    clear, phone.clear = phone.clear, None
    newer, phone.newer = phone.newer, None
    if newer is not None:
        await Close(newer[1], close_timeout_s, silently=silently)
    if client is not None:
        await Close(client, close_timeout_s, phone, silently=silently)
    if clear is not None:
        await Close(clear, close_timeout_s, phone, silently=silently)
    for one in (sas, newer and newer[0]):
        if one:
            await Unprotect(one)


def _accept(work: RegisterAttempt, reply: Response) -> None:
    """Keep what a 200 grants (TS 24.229 §5.1.1.2.1, §5.1.1.4.1)."""
    if reply.status != 200:
        raise rejected(reply)
    phone, registration = work.phone, work.registration
    expires_s = _granted(phone, reply)
    if expires_s is None:
        raise Rejected("no binding", "the 200 does not list this phone's Contact", reply.at, 200)
    shared = phone.network.shared
    registration.expires_at = reply.at + expires_s
    registration.service_route = tuple(shared(v) for v in reply.values("service-route"))
    associated = reply.values("p-associated-uri")
    registration.impu = _default_identity(work, associated, reply)
    registration.security_verify = tuple(shared(v) for v in work.verify)
    phone.registration = registration


def _default_identity(work: RegisterAttempt, associated: list[str], reply: Response) -> str:
    """The first of the P-Associated-URI (TS 24.229 §5.1.1.2.1); Rejected if it is no identity."""
    if not associated:
        return work.subscriber.impu_temporary
    try:
        uri = parse_name_addr(associated[0]).uri
        parse_uri(uri)
    except ValueError as problem:
        raise Rejected("bad P-Associated-URI", str(problem), reply.at, 200) from problem
    return uri


def _granted(phone: Phone, reply: Response) -> int | None:
    """Expiry of this phone's own binding among those listed (RFC 3261 §10.2.4); None if absent."""
    for value in reply.values("contact"):
        try:
            binding = parse_name_addr(value)
            uri = parse_uri(binding.uri)
        except ValueError:
            continue  # another phone's, in a form of its own
        if same_address(uri.host, phone.address) and (uri.port or 5060) == phone.contact_port:
            text = binding.parameters.get("expires") or reply.get("expires") or ""
            # 0 is no binding: the registrar has ended it (RFC 3261 §10.2.4).
            return (
                int(text) or None if text.isascii() and text.isdigit() and len(text) < 11 else None
            )
    return None


def _refresh_authorization(subscriber: Subscriber, registration: Registration) -> str:
    return refresh_authorization(
        subscriber.impi,
        registration.realm or subscriber.domain,
        f"sip:{subscriber.domain}",
        registration.nonce,
        registration.response,
    )
