"""SIP messages out of a TCP stream: framing and keep-alives (RFC 3261 §18.3, RFC 5626 §3.5.1).

The reader never raises for what the network sends: see ``sip``.
"""

from __future__ import annotations

from imsbench.protocol.sip import (
    MAX_BODY_BYTES,
    MAX_HEADER_BYTES,
    Malformed,
    Request,
    Response,
    content_length,
    read_head,
)


class SipReader:
    """Messages out of a TCP stream (RFC 3261 §18.3, keep-alives RFC 5626 §3.5.1)."""

    __slots__ = ("_buffer", "_wanted", "broken", "pings", "pongs", "pongs_due")

    def __init__(self) -> None:
        self._buffer = b""
        self._wanted = 0  # bytes that the message at the front has; 0 while its end is unknown
        self.broken = False
        """Whether framing is lost: close the connection."""
        self.pings = 0
        """Double CRLFs read between messages: each wants a CRLF back."""
        self.pongs = 0
        """Single CRLFs read while a pong was due."""
        self.pongs_due = 0
        """Pings without a pong: whoever sends a double CRLF adds one. Only this tells a pong from
        the first half of a ping; two pongs would else be read as one ping."""

    @property
    def pending(self) -> int:
        """Bytes of a message that is not whole yet."""
        return len(self._buffer.lstrip(b"\r\n"))

    def feed(self, data: bytes) -> list[Request | Response | Malformed]:
        """The messages that these bytes complete, in order; the rest is kept."""
        found: list[Request | Response | Malformed] = []
        if self.broken:
            return found
        buffer = self._buffer + data if self._buffer else data
        while buffer and len(buffer) >= self._wanted:
            if buffer[0] in b"\r\n":
                rest = self._skip_line_ends(buffer)
                if rest is None:
                    break
                buffer = rest
                continue
            end = buffer.find(b"\r\n\r\n", 0, MAX_HEADER_BYTES + 4)
            if end < 0:
                if len(buffer) >= MAX_HEADER_BYTES + 4:
                    found.append(self._break("headers over 64 KiB", buffer))
                    return found
                break
            message = read_head(buffer[:end])
            size = self._body_size(message, buffer[:end])
            if isinstance(size, Malformed):
                found.append(size)
                return found
            after = end + 4 + size
            if len(buffer) < after:
                self._wanted = after
                break
            if not isinstance(message, Malformed):
                message.body = buffer[end + 4 : after]
            found.append(message)
            buffer = buffer[after:]
            self._wanted = 0
        self._buffer = buffer
        return found

    def _skip_line_ends(self, buffer: bytes) -> bytes | None:
        """The buffer behind its leading line ends, or None if more may follow that decides.

        Outside of keep-alives they mean nothing (RFC 3261 §7.5).
        """
        if self.pongs_due and buffer.startswith(b"\r\n"):
            self.pongs_due -= 1
            self.pongs += 1
            return buffer[2:]
        if buffer.startswith(b"\r\n\r\n"):
            self.pings += 1
            return buffer[4:]
        if buffer in (b"\r", b"\r\n", b"\r\n\r"):
            return None
        return buffer[2:] if buffer.startswith(b"\r\n") else buffer[1:]

    def _body_size(self, message: Request | Response | Malformed, head: bytes) -> int | Malformed:
        if isinstance(message, Malformed):
            # Its length may still be readable; then only this message is lost.
            length = _salvage_length(head)
            return length if length is not None else self._break(message.reason, head, head)
        size = content_length(message)
        if size is None:
            return self._break("no Content-Length on a stream", head, head)
        if isinstance(size, Malformed):
            return self._break(size.reason, head, head)
        return size

    def _break(self, reason: str, data: bytes, head: bytes = b"") -> Malformed:
        self.broken = True
        self._buffer = b""
        return Malformed(reason, data[:200], head)


def _salvage_length(head: bytes) -> int | None:
    """Content-Length of a head that does not parse, if it stands there plainly."""
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        value = value.strip()
        if name.strip().lower() in (b"content-length", b"l") and value.isdigit():
            length = int(value) if len(value) < 10 else MAX_BODY_BYTES + 1
            return length if length <= MAX_BODY_BYTES else None
    return None
