"""Diameter headers and the framing of a TCP stream (RFC 6733 §3).

MessageReader.feed(data)   a TCP stream -> whole messages
parse_header, serialize_header
"""

from __future__ import annotations

import struct

from diameter.message import MessageHeader

HEADER_LENGTH = 20
MAX_MESSAGE = 1 << 20
"""Longest message accepted; RFC 6733 allows 16 MiB, no interface here comes near 1 MiB."""

_LENGTH = 0x00FFFFFF
_HEADER = struct.Struct(">IIIII")
_U32 = struct.Struct(">I")


class MessageReader:
    """Cuts a byte stream into Diameter messages by their length (RFC 6733 §3)."""

    __slots__ = ("_buffer", "lost")

    def __init__(self) -> None:
        self._buffer = b""
        self.lost = ""
        """Why the stream can no longer be cut; empty while it can."""

    def feed(self, data: bytes) -> list[bytes]:
        """The messages that are whole now; what follows a head that cannot be one sets ``lost``."""
        if self._buffer:
            data = self._buffer + data
        messages: list[bytes] = []
        position, end = 0, len(data)
        while end - position >= 4 and not self.lost:
            word = _U32.unpack_from(data, position)[0]
            length = word & _LENGTH
            # §3: the length counts the header and the padded AVPs, so it is a multiple of four.
            if word >> 24 != 1 or not HEADER_LENGTH <= length <= MAX_MESSAGE or length & 3:
                self.lost = f"version {word >> 24}, length {length}"
            elif end - position < length:
                break
            else:
                messages.append(data[position : position + length])
                position += length
        self._buffer = b"" if self.lost else data[position:]
        return messages


def parse_header(data: bytes) -> MessageHeader:
    """The 20 octets that open a message (RFC 6733 §3); struct.error if there are fewer."""
    word, flags, application, hop_by_hop, end_to_end = _HEADER.unpack_from(data)
    header = MessageHeader(
        word >> 24,
        word & _LENGTH,
        flags >> 24,
        flags & _LENGTH,
        application,
        hop_by_hop,
        end_to_end,
    )
    header.length_header = HEADER_LENGTH
    return header


def serialize_header(header: MessageHeader, body_length: int) -> bytes:
    """The inverse of parse_header, for a body of this length."""
    header.length = HEADER_LENGTH + body_length
    return _HEADER.pack(
        0x01000000 | header.length,
        header.command_flags << 24 | header.command_code,
        header.application_id,
        header.hop_by_hop_identifier,
        header.end_to_end_identifier,
    )
