"""Messages as they leave for the other phone: what the CSCFs take out, and what they put in.

TS 24.229 §5.2.6.3 (originating P-CSCF), §5.4.3 (S-CSCF), §5.2.6.4 (terminating P-CSCF); RFC 3261 §16.6,
§16.7; RFC 3325; RFC 7315. All CSCFs are one process: five proxies handle an initial request, four one
within a dialog, and Max-Forwards and Record-Route say so, but one Via stands for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from imsbench.protocol.address import parse_name_addr
from imsbench.protocol.secagree import split_list
from imsbench.protocol.sip import Header, Message, Request, Response

INITIAL_HOPS = 5
"""P-CSCF, S-CSCF, I-CSCF, S-CSCF, P-CSCF: what Max-Forwards loses on an initial request."""
DIALOG_HOPS = 4
"""P-CSCF, S-CSCF, S-CSCF, P-CSCF: likewise within a dialog."""
DEFAULT_MAX_FORWARDS = 70  # RFC 3261 §16.6 step 3

_LEFT_BEHIND = frozenset(
    (
        "route", "record-route", "security-client", "security-verify", "security-server",
        "p-preferred-identity", "p-asserted-identity", "p-access-network-info", "max-forwards",
        "p-called-party-id", "p-charging-vector", "content-length",
    )
)  # fmt: skip
"""Taken out of requests: routes are used up, security is hop by hop (RFC 3329 §2.3.1), identities are
asserted anew (RFC 3325 §5), and the other phone is not told where this one is (RFC 7315 §4.4)."""
_OPTIONS = frozenset(("require", "proxy-require"))
_LEFT_BEHIND_BY_RESPONSES = _LEFT_BEHIND - {"max-forwards"}


def max_forwards(request: Request) -> int:
    """Its Max-Forwards; 70 without one; ValueError if it is no number (RFC 3261 §20.22)."""
    text = request.get("max-forwards")
    if text is None:
        return DEFAULT_MAX_FORWARDS
    if not text.isascii() or not text.isdigit() or len(text) > 5:
        raise ValueError("Max-Forwards is no number")
    return int(text)


def outgoing(
    request: Request, uri: str, via: str, branch: str, hops: int, added: Sequence[Header] = ()
) -> Request:
    """The request as the other phone gets it; ``added`` stands behind the Vias."""
    vias: list[Header] = [("via", via)]
    kept: list[Header] = [("max-forwards", str(max_forwards(request) - hops))]
    for name, value in request.headers:
        if name == "via":
            vias.append((name, value))
        elif name in _OPTIONS:
            value = _without_sec_agree(value)
            if value:
                kept.append((name, value))
        elif name not in _LEFT_BEHIND:
            kept.append((name, value))
    return Request(
        request.method, uri, [*vias, *added, *kept], request.body,
        branch=branch, call_id=request.call_id, cseq=request.cseq,
    )  # fmt: skip


def returning(
    response: Response, vias: Sequence[Header], routes: Sequence[Header], asserted: Sequence[Header]
) -> Response:
    """A response as the requesting phone gets it: with the Vias that it sent.

    ``routes`` are the Record-Routes of the request; they replace what the other phone made of them
    (TS 24.229 §5.2.6.4.4). ``asserted`` is the identity of the answering user.
    """
    kept = [*vias, *routes, *asserted]
    for name, value in response.headers:
        if name != "via" and name not in _LEFT_BEHIND_BY_RESPONSES:
            kept.append((name, value))
    return Response(
        response.status, response.reason, kept, response.body,
        method=response.method, call_id=response.call_id, cseq=response.cseq,
    )  # fmt: skip


def routes_of(request: Request) -> list[str]:
    """URIs of its Route entries, in order; ValueError on one that is none."""
    return [parse_name_addr(value).uri for value in request.values("route")]


def unknown_proxy_options(request: Request) -> list[str]:
    """Options of Proxy-Require that no CSCF knows (RFC 3261 §16.3 step 5)."""
    options = {option.lower() for option in request.values("proxy-require")}
    return sorted(options - {"sec-agree", ""})


def mark_source(message: Message, address: str, port: int) -> None:
    """received and rport in the topmost Via, where the phone asked for it (RFC 3581 §4)."""
    for index, (name, value) in enumerate(message.headers):
        if name == "via":
            first, comma, others = value.partition(",")
            if first.endswith(";rport") or ";rport;" in first:
                first = first.replace(";rport", f";rport={port};received={address}", 1)
                message.headers[index] = (name, first + comma + others)
            return


def _without_sec_agree(value: str) -> str:
    return ", ".join(option for option in split_list(value) if option.lower() != "sec-agree")
