"""SIP messages and their framing (RFC 3261 §7, §18.3, §25), for TCP streams and datagrams.

Rules of this module:

* One representation: header names are lower case and long ("call-id"), values are text, in their
  order on the wire. What every message needs (Via branch, Call-ID, CSeq) is read when a message is
  parsed; everything else stays text until somebody asks for it.
* A reader never raises for what the network sends. It gives ``Malformed`` in the place of the
  message, and says with ``broken`` when the stream cannot be framed any further: whoever owns the
  connection counts the event and closes it.
* Nothing here knows time, randomness or sockets: branches, tags and Call-IDs are handed in.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from imsbench.protocol.secagree import split_list

MAX_HEADER_BYTES = 65_536
MAX_BODY_BYTES = 1_048_576

Header = tuple[str, str]

# RFC 3261 §7.3.3 and the registrations that came after it.
_COMPACT = {
    "a": "accept-contact", "b": "referred-by", "c": "content-type", "d": "request-disposition",
    "e": "content-encoding", "f": "from", "i": "call-id", "j": "reject-contact",
    "k": "supported", "l": "content-length", "m": "contact", "n": "identity-info",
    "o": "event", "r": "refer-to", "s": "subject", "t": "to", "u": "allow-events",
    "v": "via", "x": "session-expires", "y": "identity",
}  # fmt: skip

_WIRE_NAMES = (
    "Accept", "Accept-Contact", "Allow", "Allow-Events", "Authorization", "Call-ID", "Contact",
    "Content-Length", "Content-Type", "CSeq", "Error-Info", "Event", "Expires", "From",
    "Max-Forwards", "Min-Expires", "P-Access-Network-Info", "P-Asserted-Identity",
    "P-Associated-URI", "P-Called-Party-ID", "P-Charging-Vector", "P-Preferred-Identity",
    "P-Visited-Network-ID", "Path", "Proxy-Require", "Reason", "Record-Route", "Require",
    "Retry-After", "Route", "RSeq", "RAck", "Security-Client", "Security-Server",
    "Security-Verify", "Server", "Service-Route", "Subscription-State", "Supported", "To",
    "Unsupported", "User-Agent", "Via", "Warning", "WWW-Authenticate",
)  # fmt: skip
_TO_WIRE = {name.lower(): name for name in _WIRE_NAMES}
# Spelled as usual, a name is one dictionary look-up.
_FROM_WIRE = {name: name.lower() for name in _WIRE_NAMES} | {
    spelled: long for short, long in _COMPACT.items() for spelled in (short, short.upper())
}

_MANDATORY = ("via", "from", "to", "call-id", "cseq")
_SINGLE = ("from", "to", "call-id", "cseq")
_TOKEN = re.compile(r"[A-Za-z0-9\-.!%*_+`'~]+")  # RFC 3261 §25.1


@dataclass(slots=True)
class Malformed:
    """Something in the place of a message that is none; the reason is fit for a counter's name."""

    reason: str
    """A few fixed words: "no Via", "bad start line"."""
    data: bytes
    """The first bytes of it, for the log."""
    head: bytes = b""
    """Start line and headers, where their end was found: ``salvage`` may answer them."""


class Message:
    """What requests and responses share."""

    __slots__ = ("body", "branch", "call_id", "cseq", "headers", "method")

    def __init__(
        self, method: str, headers: list[Header], body: bytes, branch: str, call_id: str, cseq: int
    ) -> None:
        self.method = method
        """Request: its method; response: the method of its CSeq."""
        self.headers = headers
        """(lower-case long name, value), in the order of the wire."""
        self.body = body
        """The body's bytes."""
        self.branch = branch
        """Branch parameter of the topmost Via: the transaction (RFC 3261 §17.1.3)."""
        self.call_id = call_id
        """Call-ID, compared byte by byte."""
        self.cseq = cseq
        """Number of the CSeq header."""

    def get(self, name: str) -> str | None:
        """Value of the first header of this (lower-case, long) name, or None."""
        for key, value in self.headers:
            if key == name:
                return value
        return None

    def get_all(self, name: str) -> list[str]:
        """The values of all headers of this name, one a line of the wire."""
        return [value for key, value in self.headers if key == name]

    def values(self, name: str) -> list[str]:
        """The entries of a list header, on one line or many, in order (RFC 3261 §7.3.1)."""
        found: list[str] = []
        for key, value in self.headers:
            if key == name:
                found.extend(split_list(value))
        return found


class Request(Message):
    """A SIP request (RFC 3261 §7.1)."""

    __slots__ = ("uri",)

    def __init__(
        self,
        method: str,
        uri: str,
        headers: list[Header],
        body: bytes = b"",
        *,
        branch: str = "",
        call_id: str = "",
        cseq: int = 0,
    ) -> None:
        super().__init__(method, headers, body, branch, call_id, cseq)
        self.uri = uri
        """Request-URI."""

    def __repr__(self) -> str:
        return f"<Request {self.method} {self.uri} {self.call_id} {self.cseq}>"


class Response(Message):
    """A SIP response (RFC 3261 §7.2)."""

    __slots__ = ("at", "reason", "status")

    def __init__(
        self,
        status: int,
        reason: str,
        headers: list[Header],
        body: bytes = b"",
        *,
        method: str = "",
        branch: str = "",
        call_id: str = "",
        cseq: int = 0,
    ) -> None:
        super().__init__(method, headers, body, branch, call_id, cseq)
        self.status = status
        """Status code, 100..699."""
        self.reason = reason
        """Reason phrase."""
        self.at = 0.0
        """When its last byte was read, seconds; set by the engine."""

    def __repr__(self) -> str:
        return f"<Response {self.status} {self.method} {self.call_id} {self.cseq}>"


def parse_message(data: bytes) -> Request | Response | Malformed:
    """One whole message, as a datagram carries it (RFC 3261 §18.3).

    Without Content-Length the body reaches to the end; bytes beyond Content-Length are dropped.
    """
    end = data.find(b"\r\n\r\n")
    if end < 0:
        return Malformed("no end of headers", data[:200])
    message = read_head(data[:end])
    if isinstance(message, Malformed):
        return message
    body = data[end + 4 :]
    length = content_length(message)
    if isinstance(length, Malformed):
        return length
    if length is not None:
        if length > len(body):
            return Malformed("Content-Length beyond the datagram", data[:200])
        body = body[:length]
    message.body = body
    return message


def serialize_message(message: Request | Response) -> bytes:
    """The bytes of a message (RFC 3261 §7); Content-Length is written here and nowhere else."""
    if isinstance(message, Request):
        lines = [f"{message.method} {message.uri} SIP/2.0"]
    else:
        lines = [f"SIP/2.0 {message.status} {message.reason}"]
    for name, value in message.headers:
        if name != "content-length":
            lines.append(f"{_TO_WIRE.get(name) or name.title()}: {value}")
    body = message.body
    lines.append(f"Content-Length: {len(body)}\r\n\r\n")
    return "\r\n".join(lines).encode("utf-8", "replace") + body


def response_to(
    request: Request,
    status: int,
    reason: str,
    *,
    to_tag: str = "",
    headers: Sequence[Header] = (),
    body: bytes = b"",
) -> Response:
    """A response to a request (RFC 3261 §8.2.6): Via, From, To, Call-ID and CSeq copied.

    ``to_tag`` is added to a To that has no tag yet; Record-Route is copied into what makes a dialog.
    """
    copied: list[Header] = []
    for name, value in request.headers:
        if name in ("via", "from", "call-id", "cseq"):
            copied.append((name, value))
        elif name == "to":
            if to_tag and not tag_of(value):
                value = f"{value};tag={to_tag}"
            copied.append((name, value))
        elif name == "record-route" and 100 < status < 300:
            copied.append((name, value))  # RFC 3261 §12.1.1
    copied.extend(headers)
    return Response(
        status,
        reason,
        copied,
        body,
        method=request.method,
        branch=request.branch,
        call_id=request.call_id,
        cseq=request.cseq,
    )


def ack_for_failure(invite: Request, response: Response) -> Request:
    """The ACK to a final response of 300 or more: hop by hop, the INVITE's branch (RFC 3261 §17.1.1.3)."""
    kept: list[Header] = [("via", next(v for name, v in invite.headers if name == "via"))]
    kept += [h for h in invite.headers if h[0] in ("max-forwards", "from", "call-id", "route")]
    kept.append(("to", response.get("to") or ""))
    kept.append(("cseq", f"{invite.cseq} ACK"))
    return Request(
        "ACK", invite.uri, kept, branch=invite.branch, call_id=invite.call_id, cseq=invite.cseq
    )


def tag_of(value: str) -> str:
    """The tag parameter of a From or To value, or "" (RFC 3261 §20.20)."""
    if value.endswith(">"):
        return ""
    parameters = value[value.rfind(">") + 1 :]
    for parameter in parameters.split(";"):
        name, _, tag = parameter.partition("=")
        if name.strip().lower() == "tag":
            return tag.strip()
    return ""


def read_head(head: bytes) -> Request | Response | Malformed:
    """Start line and headers, without the blank line behind them (RFC 3261 §7)."""
    if b"\0" in head:
        return Malformed("NUL in headers", head[:200], head)
    lines = head.decode("utf-8", "replace").split("\r\n")
    if head.count(b"\n") + head.count(b"\r") != 2 * (len(lines) - 1):
        # RFC 3261 §25.1: neither is text. Written out again, it would be a header of its own.
        return Malformed("lone CR or LF in headers", head[:200], head)
    message = _parse_lines(lines)
    return Malformed(message, head[:200], head) if isinstance(message, str) else message


def header_lines(lines: list[str]) -> list[Header]:
    """The headers among these lines (RFC 3261 §7.3), folded ones joined; other lines are left out."""
    found = []
    for line in _unfold(["", *lines])[1:]:
        raw, colon, value = line.partition(":")
        if colon and (name := _canonical(raw)):
            found.append((name, value.strip()))
    return found


def _parse_lines(lines: list[str]) -> Request | Response | str:
    """The message in start line and header lines, or why there is none."""
    headers: list[Header] = []
    for line in lines[1:]:
        raw, colon, value = line.partition(":")
        name = _FROM_WIRE.get(raw) or _canonical(raw)
        if not colon or not name:
            # No header name starts with a blank, so only here can a line be a continuation.
            unfolded = _unfold(lines)
            return "bad header line" if len(unfolded) == len(lines) else _parse_lines(unfolded)
        headers.append((name, value.strip()))
    first = dict(reversed(headers))
    for name in _MANDATORY:
        if not first.get(name):
            return f"no {_TO_WIRE[name]}"
    if len(first) != len(headers):
        last = dict(headers)
        for name in _SINGLE:  # RFC 3261 §7.3.1: which of two counts would be a guess
            if last[name] != first[name]:
                return f"two {_TO_WIRE[name]}"
    if first["via"].startswith(","):
        return "bad Via"  # a list without a first entry: no response would find its way
    number, _, method = first["cseq"].replace("\t", " ").partition(" ")
    method = method.strip()
    if not number.isascii() or not number.isdigit() or len(number) > 10 or not method:
        return "bad CSeq"
    cseq = int(number)
    if cseq >= 2**31:  # RFC 3261 §8.1.1.5
        return "bad CSeq"
    return _parse_start(lines[0], headers, _branch_of(first["via"]), first["call-id"], cseq, method)


def _parse_start(
    line: str, headers: list[Header], branch: str, call_id: str, cseq: int, method: str
) -> Request | Response | str:
    if line[:8].upper() == "SIP/2.0 ":
        status, _, reason = line[8:].partition(" ")
        if len(status) != 3 or not status.isascii() or not status.isdigit():
            return "bad status line"
        if not "100" <= status < "700":
            return "bad status line"
        return Response(
            int(status), reason, headers, method=method, branch=branch, call_id=call_id, cseq=cseq
        )
    words = line.split(" ")
    if len(words) != 3 or not all(words) or words[2].upper() != "SIP/2.0":
        return "bad start line"
    if words[0] != method:
        return "CSeq method differs"  # RFC 3261 §8.1.1.5
    return Request(words[0], words[1], headers, branch=branch, call_id=call_id, cseq=cseq)


def _unfold(lines: list[str]) -> list[str]:
    """Continuation lines joined to the header line they continue (RFC 3261 §7.3.1)."""
    joined = lines[:2]
    for line in lines[2:]:
        if line.startswith((" ", "\t")):
            joined[-1] = f"{joined[-1].rstrip()} {line.strip()}"
        else:
            joined.append(line)
    return joined


def _canonical(raw: str) -> str:
    """Lower-case long form of a header name; "" if it is no token."""
    raw = raw.rstrip(" \t")
    if not _TOKEN.fullmatch(raw):
        return ""
    name = raw.lower()
    return _COMPACT.get(name, name)


def _branch_of(via: str) -> str:
    """The branch of the first entry of a Via value, or ""."""
    first = via.partition(",")[0] if '"' not in via else split_list(via)[0]
    start = first.lower().find(";branch=") if ";branch=" not in first else first.find(";branch=")
    if start < 0:
        for parameter in first.split(";")[1:]:
            name, _, value = parameter.partition("=")
            if name.strip().lower() == "branch":
                return value.strip()
        return ""
    return first[start + 8 :].partition(";")[0].strip()


def content_length(message: Message) -> int | Malformed | None:
    """Its Content-Length, or None without one; Malformed if it is no size (RFC 3261 §20.14)."""
    lengths = {value for name, value in message.headers if name == "content-length"}
    if not lengths:
        return None
    value = lengths.pop()
    if lengths:
        return Malformed("two Content-Lengths", value.encode("utf-8", "replace")[:200])
    if not value.isascii() or not value.isdigit() or len(value) > 10:
        return Malformed("bad Content-Length", value.encode("utf-8", "replace")[:200])
    length = int(value)
    if length > MAX_BODY_BYTES:
        return Malformed("body over 1 MiB", value.encode())
    return length
