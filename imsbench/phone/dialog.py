"""Dialogs of calls: their identity, and the requests a phone writes inside them (RFC 3261 §12)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from imsbench.phone.messages import ICSI, access_network, contact, routes, via
from imsbench.phone.phone import Phone
from imsbench.protocol.address import parse_name_addr, parse_parameters, parse_uri
from imsbench.protocol.sip import Header, Message, Request, tag_of

ICSI_SERVICE = "urn:urn-7:3gpp-service.ims.icsi.mmtel"
ALLOW = "INVITE, ACK, CANCEL, BYE, UPDATE, PRACK, MESSAGE, REFER, NOTIFY, INFO, OPTIONS"


@dataclass(slots=True)
class Dialog:
    """One dialog, early or confirmed, from this phone's side."""

    call_id: str
    """Of all its messages."""
    local: str
    """This side's From value, tag included."""
    remote: str
    """The far side's To value, tag included."""
    target: str
    """Remote target: the far side's Contact."""
    route_set: tuple[str, ...]
    """Route entries of requests this side sends."""
    local_cseq: int
    """Of the last request this side sent."""
    remote_cseq: int = -1
    """Of the last request the far side sent; -1: none yet."""
    rseq: int = 0
    """RSeq of the last reliable provisional response acknowledged (RFC 3262 §4)."""
    confirmed: bool = False
    """Whether a 2xx made it one."""
    target_told: bool = True
    """Whether the far side gave that target."""

    @property
    def remote_tag(self) -> str:
        """The far side's tag."""
        return tag_of(self.remote)


def target_of(message: Message) -> str:
    """The URI of a message's Contact; "" if there is none to read (RFC 3261 §12.1)."""
    try:
        uri = parse_name_addr(message.get("contact") or "").uri
        parse_uri(uri)
    except ValueError:
        return ""
    return uri


def dialog_of_response(invite: Request, response: Message) -> Dialog:
    """The dialog a response to our INVITE makes (RFC 3261 §12.1.2): Record-Route reversed.

    Without a Contact, which it must have, its target is that of the INVITE: whom else to tell?
    """
    target = target_of(response)
    return Dialog(
        call_id=invite.call_id,
        local=invite.get("from") or "",
        remote=response.get("to") or "",
        target=target or invite.uri,
        target_told=bool(target),
        route_set=tuple(reversed(response.values("record-route"))),
        local_cseq=invite.cseq,
    )


def dialog_of_request(invite: Request, local_tag: str) -> Dialog:
    """The dialog an INVITE to us makes (RFC 3261 §12.1.1): Record-Route as it stands."""
    return Dialog(
        call_id=invite.call_id,
        local=f"{invite.get('to') or ''};tag={local_tag}",
        remote=invite.get("from") or "",
        target=target_of(invite),
        route_set=tuple(invite.values("record-route")),
        local_cseq=0,
        remote_cseq=invite.cseq,
    )


def invite_request(
    phone: Phone, callee_uri: str, headers: Sequence[Header], body: bytes, call_id: str
) -> Request:
    """The INVITE of a voice call (TS 24.229 §5.1.3.1, IR.92; conformance TS 34.229-1 A.2.1)."""
    network = phone.network
    registration = phone.registration
    assert registration is not None
    branch = network.branch()
    written: list[Header] = [via(phone, branch)]
    written += [("route", value) for value in routes(phone, registration)]
    written += [
        ("max-forwards", "70"),
        ("from", f"<{registration.impu}>;tag={network.identifier()}"),
        ("to", f"<{callee_uri}>"),
        ("call-id", call_id),
        ("cseq", "1 INVITE"),
        ("contact", contact(phone, phone.subscriber.imsi)),
        ("p-preferred-service", ICSI_SERVICE),
        ("accept-contact", f'*;+g.3gpp.icsi-ref="{ICSI}"'),
        ("p-early-media", "supported"),
        ("accept", "application/sdp, application/3gpp-ims+xml"),
        ("allow", ALLOW),
        *security(phone),
        *headers,
    ]
    return Request("INVITE", callee_uri, written, body, branch=branch, call_id=call_id, cseq=1)


def dialog_request(
    phone: Phone, dialog: Dialog, method: str, headers: Sequence[Header] = (), body: bytes = b""
) -> Request:
    """A request inside a dialog (RFC 3261 §12.2.1.1), with the next CSeq; an ACK has the INVITE's."""
    branch = phone.network.branch()
    if method != "ACK":
        dialog.local_cseq += 1
    cseq = dialog.local_cseq
    written: list[Header] = [via(phone, branch)]
    written += [("route", value) for value in dialog.route_set]
    written += [
        ("max-forwards", "70"),
        ("from", dialog.local),
        ("to", dialog.remote),
        ("call-id", dialog.call_id),
        ("cseq", f"{cseq} {method}"),
        *headers,
    ]
    if method in ("INVITE", "UPDATE"):
        written.append(("contact", contact(phone, phone.subscriber.imsi)))
    if method != "ACK":
        written += security(phone)
    return Request(
        method, dialog.target, written, body, branch=branch, call_id=dialog.call_id, cseq=cseq
    )


def cancel_request(invite: Request) -> Request:
    """The CANCEL of an INVITE: its branch, its Route (RFC 3261 §9.1)."""
    kept = ("via", "route", "max-forwards", "from", "to", "call-id")
    headers = [header for header in invite.headers if header[0] in kept]
    headers.append(("cseq", f"{invite.cseq} CANCEL"))
    return Request(
        "CANCEL",
        invite.uri,
        headers,
        branch=invite.branch,
        call_id=invite.call_id,
        cseq=invite.cseq,
    )


def session_timer_of(request: Request) -> list[Header]:
    """What a 2xx says of the session timer that its request asks for (RFC 4028 §9, Table 2).

    Who refreshes is left to us where the request does not say: its sender, if that supports timers.
    """
    seconds, _, parameters = (request.get("session-expires") or "").partition(";")
    seconds = seconds.strip()
    if not seconds.isascii() or not seconds.isdigit() or len(seconds) > 10:
        return []
    refresher = parse_parameters(parameters).get("refresher", "").lower()
    if refresher not in ("uac", "uas"):
        supported = {value.lower() for value in request.values("supported")}
        refresher = "uac" if "timer" in supported else "uas"
    headers: list[Header] = [("session-expires", f"{seconds};refresher={refresher}")]
    return [*headers, ("require", "timer")] if refresher == "uac" else headers


def security(phone: Phone) -> list[Header]:
    """What every protected request but ACK and CANCEL carries (TS 24.229 §5.1.1.5, RFC 3329 §2.4)."""
    registration = phone.registration
    if phone.sas is None or registration is None:
        return []
    headers: list[Header] = [("require", "sec-agree"), ("proxy-require", "sec-agree")]
    headers += [("security-verify", value) for value in registration.security_verify]
    return headers + access_network(phone)
