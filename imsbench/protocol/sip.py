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

_TOKEN_EXTRA = frozenset("-.!%*_+`'~")


@dataclass(slots=True)
class Malformed:
    """Something in the place of a message that is none; the reason is fit for a counter's name."""

    reason: str
    """A few fixed words: "no Via", "bad start line"."""
    data: bytes
    """The first bytes of it, for the log."""


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
    message = _parse_head(data[:end])
    if isinstance(message, Malformed):
        return message
    body = data[end + 4 :]
    length = _content_length(message)
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


class SipReader:
    """Messages out of a TCP stream (RFC 3261 §18.3, keep-alives RFC 5626 §3.5.1)."""

    __slots__ = ("_buffer", "broken", "pings", "pongs")

    def __init__(self) -> None:
        self._buffer = b""
        self.broken = False
        """Whether framing is lost: close the connection."""
        self.pings = 0
        """Double CRLFs read between messages: each wants a CRLF back."""
        self.pongs = 0
        """Single CRLFs read between messages."""

    @property
    def pending(self) -> int:
        """Bytes of a message that is not whole yet."""
        return len(self._buffer)

    def feed(self, data: bytes) -> list[Request | Response | Malformed]:
        """The messages that these bytes complete, in order; the rest is kept."""
        found: list[Request | Response | Malformed] = []
        if self.broken:
            return found
        buffer = self._buffer + data if self._buffer else data
        while buffer:
            if buffer[0] in b"\r\n":
                rest = self._skip_keepalives(buffer)
                if rest is None:
                    break
                buffer = rest
                continue
            end = buffer.find(b"\r\n\r\n", 0, MAX_HEADER_BYTES + 4)
            if end < 0:
                if len(buffer) > MAX_HEADER_BYTES:
                    found.append(self._break("headers over 64 KiB", buffer))
                    return found
                break
            message = _parse_head(buffer[:end])
            size = self._body_size(message, buffer)
            if isinstance(size, Malformed):
                found.append(size)
                return found
            if len(buffer) < end + 4 + size:
                break
            if not isinstance(message, Malformed):
                message.body = buffer[end + 4 : end + 4 + size]
            found.append(message)
            buffer = buffer[end + 4 + size :]
        self._buffer = buffer
        return found

    def _skip_keepalives(self, buffer: bytes) -> bytes | None:
        """The buffer behind its leading line ends, or None if they are only a part of one."""
        if buffer.startswith(b"\r\n\r\n"):
            self.pings += 1
            return buffer[4:]
        if buffer in (b"\r", b"\r\n\r"):
            return None
        if buffer.startswith(b"\r\n"):
            if len(buffer) == 2:
                # A lone CRLF at the end of a segment: a pong now, or half a ping that a second
                # CRLF completes. It is kept, so that a split ping is still a ping.
                return None
            self.pongs += 1
            return buffer[2:]
        return buffer.lstrip(b"\r\n")

    def _body_size(self, message: Request | Response | Malformed, buffer: bytes) -> int | Malformed:
        if isinstance(message, Malformed):
            # Its length may still be readable; then only this message is lost.
            length = _salvage_length(buffer)
            return length if length is not None else self._break(message.reason, buffer)
        size = _content_length(message)
        if size is None:
            return self._break("no Content-Length on a stream", buffer)
        if isinstance(size, Malformed):
            return self._break(size.reason, buffer)
        return size

    def _break(self, reason: str, buffer: bytes) -> Malformed:
        self.broken = True
        self._buffer = b""
        return Malformed(reason, buffer[:200])


def _parse_head(head: bytes) -> Request | Response | Malformed:
    """Start line and headers, without the blank line."""
    if b"\0" in head:
        return Malformed("NUL in headers", head[:200])
    text = head.decode("utf-8", "replace")
    if "\r\n " in text or "\r\n\t" in text:
        text = _unfold(text)
    lines = text.split("\r\n")
    headers: list[Header] = []
    via = from_ = to = call_id = cseq = ""
    for line in lines[1:]:
        raw, colon, value = line.partition(":")
        name = _FROM_WIRE.get(raw) or _canonical(raw)
        if not colon or not name:
            return Malformed("bad header line", head[:200])
        value = value.strip()
        headers.append((name, value))
        if name == "via":
            via = via or value
        elif name == "from":
            from_ = from_ or value
        elif name == "to":
            to = to or value
        elif name == "call-id":
            call_id = call_id or value
        elif name == "cseq":
            cseq = cseq or value
    for name, value in (
        ("Via", via), ("From", from_), ("To", to), ("Call-ID", call_id), ("CSeq", cseq),
    ):  # fmt: skip
        if not value:
            return Malformed(f"no {name}", head[:200])
    number, _, method = cseq.partition(" ")
    method = method.strip()
    if not number.isascii() or not number.isdigit() or len(number) > 10 or not method:
        return Malformed("bad CSeq", head[:200])
    return _parse_start(lines[0], headers, _branch_of(via), call_id, int(number), method, head)


def _parse_start(
    line: str,
    headers: list[Header],
    branch: str,
    call_id: str,
    cseq: int,
    method: str,
    head: bytes,
) -> Request | Response | Malformed:
    if line.startswith("SIP/2.0 "):
        status, _, reason = line[8:].partition(" ")
        if len(status) != 3 or not status.isascii() or not status.isdigit() or status < "100":
            return Malformed("bad status line", head[:200])
        if status >= "700":
            return Malformed("bad status line", head[:200])
        return Response(
            int(status), reason, headers, method=method, branch=branch, call_id=call_id, cseq=cseq
        )
    words = line.split(" ")
    if len(words) != 3 or not all(words) or words[2].upper() != "SIP/2.0":
        return Malformed("bad start line", head[:200])
    if words[0] != method:
        return Malformed("CSeq method differs", head[:200])  # RFC 3261 §8.1.1.5
    return Request(words[0], words[1], headers, branch=branch, call_id=call_id, cseq=cseq)


def _unfold(text: str) -> str:
    """Continuation lines joined to the line they continue (RFC 3261 §7.3.1)."""
    joined: list[str] = []
    for line in text.split("\r\n"):
        if line[:1] in (" ", "\t") and len(joined) > 1:
            joined[-1] = f"{joined[-1].rstrip()} {line.strip()}"
        else:
            joined.append(line)
    return "\r\n".join(joined)


def _canonical(raw: str) -> str:
    """Lower-case long form of a header name; "" if it is no token."""
    name = raw.rstrip(" \t").lower()
    if not name or not name.isascii():
        return ""
    if not all(c.isalnum() or c in _TOKEN_EXTRA for c in name):
        return ""
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


def _content_length(message: Message) -> int | Malformed | None:
    value = message.get("content-length")
    if value is None:
        return None
    if not value.isascii() or not value.isdigit() or len(value) > 7:
        return Malformed("bad Content-Length", value.encode("utf-8", "replace")[:200])
    length = int(value)
    if length > MAX_BODY_BYTES:
        return Malformed("body over 1 MiB", value.encode())
    return length


def _salvage_length(buffer: bytes) -> int | None:
    """Content-Length of a head that does not parse, if it stands there plainly."""
    end = buffer.find(b"\r\n\r\n")
    for line in buffer[:end].split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() in (b"content-length", b"l") and value.strip().isdigit():
            length = int(value.strip()[:8])
            return length if length <= MAX_BODY_BYTES else None
    return None
