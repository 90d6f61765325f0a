"""Requests from the network to a phone: which of them are answered how.

What the network may send at any time is no flow: it is answered at once, and a flow that waits for
it is told.
"""

from __future__ import annotations

from imsbench.phone.actions import Accept, Incoming
from imsbench.phone.phone import Phone
from imsbench.phone.subscription import on_notify
from imsbench.protocol.sip import Response, response_to

ALLOW = ("allow", "INVITE, ACK, CANCEL, BYE, UPDATE, PRACK, NOTIFY, OPTIONS")


def answer_request(phone: Phone, incoming: Incoming) -> Response | Accept:
    """Answer a request from the network (RFC 3261 §8.2); never raises for what the network sent.

    In clear on a phone that has SAs nothing is accepted (TS 33.203 §7.1): 403, counted. An INVITE
    starts a flow where calls are expected.
    """
    network, request = phone.network, incoming.request
    if not incoming.protected and network.settings.ipsec:
        network.events["clear_request_by_target"] += 1
        return response_to(request, 403, "Forbidden", to_tag=network.identifier())
    if request.method == "NOTIFY":
        return on_notify(phone, request, incoming.at)
    if request.method == "OPTIONS":
        network.events["options"] += 1
        return response_to(request, 200, "OK", to_tag=network.identifier(), headers=[ALLOW])
    if request.method == "INVITE" and network.on_invite is not None:
        return network.on_invite(phone, incoming)
    if request.method in ("BYE", "CANCEL", "PRACK", "UPDATE", "ACK"):
        # Of a call that is over (RFC 3261 §12.2.2): a crossing, not a failure.
        network.events[f"late_{request.method.lower()}"] += 1
        return response_to(
            request, 481, "Call/Transaction Does Not Exist", to_tag=network.identifier()
        )
    network.events["unexpected_request"] += 1
    return response_to(
        request, 405, "Method Not Allowed", to_tag=network.identifier(), headers=[ALLOW]
    )
