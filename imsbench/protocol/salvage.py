"""What can still be said to a request that cannot be read: 400, where its sender would know it.

RFC 3261 §21.4.1 and RFC 4475 §3.1.2: a request with a fault is refused rather than left alone. The
response is made of the request's own Via, From, To, Call-ID and CSeq (§8.2.6); without each of them
nobody could tell what it answers, so nothing is sent.
"""

from __future__ import annotations

from imsbench.protocol.sip import Header, Request, Response, header_lines, response_to

_COPIED = ("via", "from", "to", "call-id", "cseq")


def bad_request(head: bytes, reason: str, *, to_tag: str) -> Response | None:
    """The 400 to a request with this head (start line and headers); None if it can have none.

    reason: what is wrong, into the reason phrase. A response, an ACK (RFC 3261 §17.1.1.3: it is
    never answered) and a head in which one of the five headers is missing, empty, ambiguous or no
    text get none.
    """
    lines = head.decode("utf-8", "replace").split("\r\n")
    method, _, uri = lines[0].partition(" ")
    if not method or method.upper().startswith("SIP/") or method == "ACK":
        return None
    headers: list[Header] = [pair for pair in header_lines(lines[1:]) if pair[0] in _COPIED]
    names = [name for name, _ in headers]
    if any(names.count(name) != 1 for name in _COPIED[1:]) or "via" not in names:
        return None
    if not all(value and value.isprintable() for _, value in headers):
        return None  # written out again, a control character might be a header of its own
    request = Request(method, uri, headers)
    return response_to(request, 400, f"Bad Request ({reason})", to_tag=to_tag)
