"""Requests from the network to a phone: which of them are answered how.

What the network may send at any time is no flow: it is answered at once, and a flow that waits for
it is told.
"""

from __future__ import annotations

from imsbench.phone.phone import Phone
from imsbench.phone.subscription import on_notify
from imsbench.protocol.sip import Request, Response, response_to

ALLOW = ("allow", "NOTIFY, OPTIONS")


def answer_request(phone: Phone, request: Request, at: float, *, protected: bool) -> Response:
    """Answer a request from the network (RFC 3261 §8.2); never raises for what the network sent.

    In clear on a phone that has SAs nothing is accepted (TS 33.203 §7.1): 403, counted.
    """
    network = phone.network
    if not protected and network.settings.ipsec:
        network.events["clear_request_by_target"] += 1
        return response_to(request, 403, "Forbidden", to_tag=network.identifier())
    if request.method == "NOTIFY":
        return on_notify(phone, request, at)
    if request.method == "OPTIONS":
        network.events["options"] += 1
        return response_to(request, 200, "OK", to_tag=network.identifier(), headers=[ALLOW])
    network.events["unexpected_request"] += 1
    return response_to(
        request, 405, "Method Not Allowed", to_tag=network.identifier(), headers=[ALLOW]
    )
