"""The requests a phone writes: TS 24.229 §5.1.1, header by header (conformance TS 34.229-1 A.1)."""

from __future__ import annotations

from collections.abc import Sequence

from imsbench.phone.phone import Phone, Registration, Subscription
from imsbench.protocol.address import host_port
from imsbench.protocol.secagree import Mechanism, serialize_security
from imsbench.protocol.sip import Header, Request
from imsbench.subscriber import Subscriber

ICSI = "urn%3Aurn-7%3A3gpp-service.ims.icsi.mmtel"
"""IMS communication service identifier of MMTEL, percent-coded (TS 24.229 §7.2A.8)."""
TYPE_ALLOCATION_CODE = "35693803"
"""First 8 digits of the IMEI that phones show; the serial number is the subscriber's."""


def contact(phone: Phone, user: str) -> str:
    """The Contact value: address, protected server port if any, ICSI, instance (RFC 7254)."""
    where = host_port(phone.address, phone.contact_port)
    instance = f"urn:gsma:imei:{TYPE_ALLOCATION_CODE}-{phone.n % 1_000_000:06d}-0"
    return f'<sip:{user}@{where}>;+g.3gpp.icsi-ref="{ICSI}";+sip.instance="<{instance}>"'


def via(phone: Phone, branch: str) -> Header:
    """The Via of a request (RFC 3261 §8.1.1.7), with rport (RFC 3581) where responses come back to the
    port it leaves from; inside SAs UDP brings them to port_us (TS 33.203 §7.1).
    """
    datagrams = phone.network.settings.transport == "udp"
    transport = "UDP" if datagrams else "TCP"
    rport = "" if datagrams and phone.sas is not None else ";rport"
    sent_by = host_port(phone.address, phone.contact_port)
    return "via", f"SIP/2.0/{transport} {sent_by};branch={branch}{rport}"


def register_request(
    phone: Phone,
    subscriber: Subscriber,
    registration: Registration,
    authorization: str,
    expires_s: int,
    client: Sequence[Mechanism],
    verify: Sequence[str],
) -> Request:
    """A REGISTER (TS 24.229 §5.1.1.2, §5.1.1.4, §5.1.1.6).

    ``client`` is Security-Client, ``verify`` the Security-Server values to echo; both empty without
    IPsec. P-Access-Network-Info is sent only once there is a security association (§5.1.1.2.1).
    """
    network = phone.network
    settings = network.settings
    registration.cseq += 1
    branch = network.branch()
    impu = subscriber.impu_temporary
    headers: list[Header] = [
        via(phone, branch),
        ("max-forwards", "70"),
        ("from", f"<{impu}>;tag={registration.from_tag}"),
        ("to", f"<{impu}>"),
        ("call-id", registration.call_id),
        ("cseq", f"{registration.cseq} REGISTER"),
        ("contact", contact(phone, subscriber.imsi)),
        ("expires", str(expires_s)),
        ("authorization", authorization),
        ("supported", "path"),
    ]
    if settings.ipsec:
        headers.append(("require", "sec-agree"))
        headers.append(("proxy-require", "sec-agree"))
        headers.append(("security-client", serialize_security(client)))
        headers.extend(("security-verify", value) for value in verify)
    headers += access_network(phone)
    if settings.user_agent:
        headers.append(("user-agent", settings.user_agent))
    return Request(
        "REGISTER",
        f"sip:{subscriber.domain}",
        headers,
        branch=branch,
        call_id=registration.call_id,
        cseq=registration.cseq,
    )


def subscribe_request(
    phone: Phone, registration: Registration, subscription: Subscription, expires_s: int
) -> Request:
    """A SUBSCRIBE for the reg event package (TS 24.229 §5.1.1.3), also inside its dialog."""
    network = phone.network
    settings = network.settings
    subscription.cseq += 1
    branch = network.branch()
    impu = subscription.impu
    sent_by = host_port(phone.address, phone.contact_port)
    to = f"<{impu}>;tag={subscription.to_tag}" if subscription.to_tag else f"<{impu}>"
    headers: list[Header] = [via(phone, branch)]
    headers.extend(("route", value) for value in routes(phone, registration, subscription))
    headers += [
        ("max-forwards", "70"),
        ("from", f"<{impu}>;tag={subscription.from_tag}"),
        ("to", to),
        ("call-id", subscription.call_id),
        ("cseq", f"{subscription.cseq} SUBSCRIBE"),
        ("contact", f"<sip:{phone.subscriber.imsi}@{sent_by}>"),
        ("event", "reg"),
        ("accept", "application/reginfo+xml"),
        ("expires", str(expires_s)),
    ]
    headers += access_network(phone)
    if phone.sas is not None:
        headers.append(("require", "sec-agree"))
        headers.append(("proxy-require", "sec-agree"))
        headers.extend(("security-verify", value) for value in registration.security_verify)
    if settings.user_agent:
        headers.append(("user-agent", settings.user_agent))
    return Request(
        "SUBSCRIBE",
        subscription.target or impu,
        headers,
        branch=branch,
        call_id=subscription.call_id,
        cseq=subscription.cseq,
    )


def routes(
    phone: Phone, registration: Registration, subscription: Subscription | None = None
) -> tuple[str, ...]:
    """The Route entries of a request (TS 24.229 §5.1.2A.1.1): the dialog's, or P-CSCF, Service-Route."""
    if subscription is not None and subscription.to_tag:
        return subscription.route_set
    settings = phone.network.settings
    port = settings.pcscf_port if phone.sas is None else phone.sas.port_ps
    return (f"<sip:{host_port(settings.pcscf_address, port)};lr>", *registration.service_route)


def access_network(phone: Phone) -> list[Header]:
    """P-Access-Network-Info of requests, and of responses but those to CANCEL, inside security
    associations only (TS 24.229 §5.1.2A.1.1, §5.1.2A.2)."""
    text = phone.network.settings.access_network_info
    return [("p-access-network-info", text)] if text and phone.sas is not None else []
