"""The null target's calls: requests and responses relayed as bytes, by a dictionary (RFC 3261 §16.11).

A stateless proxy. A Request-URI is looked up as it stands: an identity of a subscriber, or the contact that
it registered. Our Via tells who sent the request, so the response finds back without any state:

    Via: SIP/2.0/TCP <us>;branch=z9hG4bKr<number of the phone>-<branch of the phone>

100 is answered here and absorbed here; no Record-Route, so phones send within a dialog to the contact
of the other one, by the connection that they have.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from simulators.core.nullsip import cut_via

if TYPE_CHECKING:
    from simulators.core.nullnet import Connection
    from simulators.core.nullphone import NullPhone

_BRANCH = re.compile(rb"\r\n(?:Via|v|VIA)[ \t]*:[^\r]*?;[ \t]*branch=([^;,\s]+)")
_OURS_ONLY = re.compile(
    rb"\r\n(?:Route|Security-Verify|Proxy-Require|P-Preferred-Identity|Require: sec-agree(?=\r))[^\r]*"
)
"""What the other phone must not see, as phones of ours write it."""

TRYING = (
    b"SIP/2.0 100 Trying\r\nVia: %b\r\nFrom: %b\r\nTo: %b\r\nCall-ID: %b\r\nCSeq: %b\r\n"
    b"Content-Length: 0\r\n\r\n"
)
REFUSED = (
    b"SIP/2.0 %b\r\nVia: %b\r\nFrom: %b\r\nTo: %b;tag=null\r\nCall-ID: %b\r\nCSeq: %b\r\n"
    b"Content-Length: 0\r\n\r\n"
)
_COPIED = tuple(
    re.compile(rb"\r\n(?:%b)[ \t]*:[ \t]*([^\r]*)" % names, re.IGNORECASE)
    for names in (b"Via|v", b"From|f", b"To|t", b"Call-ID|i", b"CSeq")
)

Deliver = Callable[["NullPhone", bytes], None]


class NullCalls:
    """Relays between the phones of one null target."""

    def __init__(
        self,
        phones: list[NullPhone],
        sent_by: bytes,
        deliver: Deliver,
        counters: Counter[str],
    ) -> None:
        self._phones = phones
        self._deliver = deliver
        self._counters = counters
        self._via = b" SIP/2.0\r\nVia: SIP/2.0/TCP %b;branch=z9hG4bKr" % sent_by
        self._mark = b"SIP/2.0/TCP %b;branch=z9hG4bKr" % sent_by
        self._targets: dict[bytes, NullPhone] = {}
        for phone in phones:
            for uri in phone.uris:
                self._targets[uri] = phone

    def registered(self, phone: NullPhone, connection: Connection, contact: bytes) -> None:
        """A phone is reached by this contact; responses to it go by this connection."""
        phone.connection = connection
        if contact != phone.contact:
            self._targets.pop(phone.contact, None)
            phone.contact = contact
            self._targets[contact] = phone

    def request(self, connection: Connection, method: bytes, head: bytes, message: bytes) -> None:
        """Relay a request, or answer that nobody is there."""
        phone = connection.phone
        if phone is None:
            self._refuse(connection, method, head, b"403 Forbidden")
            return
        start = len(method) + 1
        end = message.index(b" ", start)
        uri = message[start:end]
        target = self._targets.get(uri)
        if target is None or not target.registered:
            self._refuse(
                connection, method, head,
                b"404 Not Found" if target is None else b"480 Temporarily Unavailable",
            )  # fmt: skip
            return
        found = _BRANCH.search(head)
        if found is None:
            raise ValueError("no branch")
        rest = message.index(b"\r\n", end)
        size = len(head)
        kept = _OURS_ONLY.sub(b"", message[rest:size]) + message[size:]
        added = b""
        if uri != target.contact:
            if method == b"INVITE":
                self._counters["calls"] += 1
                connection.send(TRYING % _copied(head))
                added = b"%b\r\nP-Called-Party-ID: <%b>" % (phone.asserted, uri)
            uri = target.contact
        self._deliver(
            target,
            b"%b %b%b%d-%b%b%b" % (method, uri, self._via, phone.number, found[1], added, kept),
        )

    def response(self, message: bytes) -> None:
        """Relay a response to whom our Via names; those to our own requests are only counted."""
        if message[8:12] == b"100 ":
            return
        cut = cut_via(message, self._mark)
        if cut is None:
            self._counters["responses"] += 1
            return
        number, relayed = cut
        phone = self._phones[number]
        if phone.connection is None:
            self._counters["responses without a connection"] += 1
            return
        phone.connection.send(relayed)

    def _refuse(self, connection: Connection, method: bytes, head: bytes, status: bytes) -> None:
        self._counters[f"refused: {status.decode()}"] += 1
        if method != b"ACK":
            connection.send(REFUSED % (status, *_copied(head)))


def _copied(head: bytes) -> tuple[bytes, bytes, bytes, bytes, bytes]:
    """Via, From, To, Call-ID, CSeq; ValueError if one is missing."""
    via, from_, to, call_id, cseq = (pattern.search(head) for pattern in _COPIED)
    if via is None or from_ is None or to is None or call_id is None or cseq is None:
        raise ValueError("a header is missing")
    return via[1], from_[1], to[1], call_id[1], cseq[1]
