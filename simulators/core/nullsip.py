"""The null target's SIP: heads cut without checks, answers out of templates (RFC 3261 §7, RFC 3680)."""

from __future__ import annotations

import re

Head = dict[bytes, bytes]
"""Lower-case names as they stand on the wire, values; of a repeated header the last."""

USERNAME = re.compile(rb'username="([^"]*)"')
AUTS = re.compile(rb'auts="([^"]*)"')
NO_NONCE = re.compile(rb'nonce=""')
CONTACT_URI = re.compile(rb"<?([a-z]+:[^>;,\s]+(?:;[^>]*(?=>))?)")
_EXPIRES = re.compile(rb"expires\s*=\s*\"?(\d+)", re.IGNORECASE)
_LENGTH = re.compile(rb"\r\n(?:content-length|l)[ \t]*:[ \t]*(\d{1,7})[ \t]*\r\n", re.IGNORECASE)
_SHORT = {
    b"v": b"via", b"f": b"from", b"t": b"to", b"i": b"call-id", b"m": b"contact", b"o": b"event",
}  # fmt: skip

UNAUTHORIZED = (
    b"SIP/2.0 401 Unauthorized\r\nVia: %b\r\nFrom: %b\r\nTo: %b\r\nCall-ID: %b\r\nCSeq: %b\r\n"
    b'WWW-Authenticate: Digest realm="%b",nonce="%b",algorithm=AKAv1-MD5,qop="auth"\r\n'
    b"%bContent-Length: 0\r\n\r\n"
)
"""Via, From, To, Call-ID, CSeq, realm, nonce, Security-Server line or nothing."""

REGISTERED = (
    b"SIP/2.0 200 OK\r\nVia: %b\r\nFrom: %b\r\nTo: %b\r\nCall-ID: %b\r\nCSeq: %b\r\n"
    b"Contact: <%b>;expires=%d\r\n%bContent-Length: 0\r\n\r\n"
)
"""Via, From, To, Call-ID, CSeq, contact URI, expiry, the phone's Service-Route and identities."""

DEREGISTERED = (
    b"SIP/2.0 200 OK\r\nVia: %b\r\nFrom: %b\r\nTo: %b\r\nCall-ID: %b\r\nCSeq: %b\r\n"
    b"Content-Length: 0\r\n\r\n"
)

SUBSCRIBED = (
    b"SIP/2.0 200 OK\r\nVia: %b\r\nFrom: %b\r\nTo: %b\r\nCall-ID: %b\r\nCSeq: %b\r\n"
    b"Contact: <sip:null@%b>\r\nExpires: %d\r\nContent-Length: 0\r\n\r\n"
)

REFUSED = (
    b"SIP/2.0 403 Forbidden\r\nVia: %b\r\nFrom: %b\r\nTo: %b\r\nCall-ID: %b\r\nCSeq: %b\r\n"
    b"Content-Length: 0\r\n\r\n"
)

NOTIFY = (
    b"NOTIFY %b SIP/2.0\r\nVia: SIP/2.0/TCP %b;branch=z9hG4bKnull%d\r\nMax-Forwards: 70\r\n"
    b"From: %b\r\nTo: %b\r\nCall-ID: %b\r\nCSeq: %d NOTIFY\r\nContact: <sip:null@%b>\r\n"
    b"Event: reg\r\nSubscription-State: %b\r\nContent-Type: application/reginfo+xml\r\n"
    b"Content-Length: %d\r\n\r\n%b"
)
"""Target, our address, a number, From, To, Call-ID, CSeq, our address, state, length, body."""

REGINFO = (
    b'<?xml version="1.0"?>\n<reginfo xmlns="urn:ietf:params:xml:ns:reginfo" version="%d" state="full">'
    b'<registration aor="%b" id="r" state="%b">'
    b'<contact id="c" state="%b" event="%b"><uri>%b</uri></contact></registration></reginfo>\n'
)
"""Version, identity, state twice, event, contact URI (escaped)."""


def cut(data: bytes) -> tuple[bytes, int]:
    """(head, length of the whole message), or (b"", 0) if it is not all there; ValueError if it never is."""
    end = data.find(b"\r\n\r\n")
    if end < 0:
        if len(data) > 65_536:
            raise ValueError("headers over 64 KiB")
        return b"", 0
    found = _LENGTH.search(data, 0, end + 2)
    if found is None:
        raise ValueError("no Content-Length")
    size = end + 4 + int(found[1])
    return (data[: end + 2], size) if size <= len(data) else (b"", 0)


def cut_via(message: bytes, mark: bytes) -> tuple[int, bytes] | None:
    """(phone number behind the mark, the response without its first Via), None if that is not ours.

    ``mark`` is how our Via values begin; ValueError if there is no further one.
    """
    start = message.find(mark)
    if start < 0:
        return None
    end = message.index(b"\r\n", start)
    comma = message.find(b",", start, end)
    number = int(message[start + len(mark) : message.index(b"-", start + len(mark))])
    if comma >= 0:  # several Vias on one line: ours goes, the others stay
        return number, message[:start] + message[comma + 1 :].lstrip()
    return number, message[: message.rindex(b"\r\n", 0, start)] + message[end:]


def read_head(head: bytes) -> Head:
    """The headers, unchecked; KeyError if one of those that every answer copies is missing."""
    found: Head = {}
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        name = name.lower()
        found[_SHORT.get(name, name)] = value.strip()
    if b";tag=" not in found[b"to"]:
        found[b"to"] += b";tag=null"
    return found


def copied(head: Head) -> tuple[bytes, bytes, bytes, bytes, bytes]:
    """Via, From, To, Call-ID, CSeq."""
    return head[b"via"], head[b"from"], head[b"to"], head[b"call-id"], head[b"cseq"]


def expires_of(head: Head, default_s: int) -> int:
    """Expiry asked for, seconds: the Contact's, else the Expires header's."""
    found = _EXPIRES.search(head.get(b"contact", b""))
    if found is not None:
        return int(found[1])
    text = head.get(b"expires", b"")
    return int(text) if text.isdigit() else default_s


def escaped(uri: bytes) -> bytes:
    """A URI as XML text."""
    return uri.replace(b"&", b"&amp;").replace(b"<", b"&lt;")
