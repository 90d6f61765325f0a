"""Blocks of a pcapng file (draft-ietf-opsawg-pcapng): one section, one interface, its packets.

    section header | interface description | enhanced packet … | interface statistics

In this host's byte order, which the section header shows. Times are nanoseconds since 1970-01-01 UTC.
"""

from __future__ import annotations

import struct

LINK_RAW_IP = 101
"""Link type of packets that begin with their IP header (LINKTYPE_RAW)."""
SNAP_LENGTH = 65535
"""Bytes of a packet that are kept at most."""

_SECTION, _INTERFACE, _STATISTICS, _PACKET = 0x0A0D0D0A, 1, 5, 6
_BYTE_ORDER_MAGIC = 0x1A2B3C4D
_APPLICATION = 4  # options: shb_userappl, if_name, if_tsresol, epb_flags, isb_ifrecv, isb_ifdrop
_NAME, _RESOLUTION = 2, 9
_FLAGS = 2
_RECEIVED, _DROPPED = 4, 5
_NANOSECONDS = b"\x09"  # 10^-9 s

_FRAME = struct.Struct("=II")
_LENGTH = struct.Struct("=I")
_COUNT = struct.Struct("=Q")
_OPTION = struct.Struct("=HH")
_SECTION_BODY = struct.Struct("=IHHq")
_INTERFACE_BODY = struct.Struct("=HHI")
_PACKET_BODY = struct.Struct("=IIIII")
_STATISTICS_BODY = struct.Struct("=III")
_END_OF_OPTIONS = _OPTION.pack(0, 0)
_DIRECTIONS = {
    outbound: _OPTION.pack(_FLAGS, 4) + _LENGTH.pack(2 if outbound else 1) + _END_OF_OPTIONS
    for outbound in (False, True)
}


def section_header(application: str) -> bytes:
    """Begins the file; ``application`` names who wrote it."""
    body = _SECTION_BODY.pack(_BYTE_ORDER_MAGIC, 1, 0, -1)  # version 1.0, length not known
    return _block(_SECTION, body + _option(_APPLICATION, application.encode()) + _END_OF_OPTIONS)


def interface_description(name: str) -> bytes:
    """The one interface: packets from the IP header on, times in nanoseconds."""
    body = _INTERFACE_BODY.pack(LINK_RAW_IP, 0, SNAP_LENGTH)
    options = _option(_NAME, name.encode()) + _option(_RESOLUTION, _NANOSECONDS)
    return _block(_INTERFACE, body + options + _END_OF_OPTIONS)


def enhanced_packet(at_ns: int, packet: bytes, size: int, *, outbound: bool) -> bytes:
    """One packet, which had ``size`` bytes on the link."""
    kept = len(packet)
    head = _PACKET_BODY.pack(0, at_ns >> 32, at_ns & 0xFFFFFFFF, kept, size)
    return _block(_PACKET, head + packet + bytes(-kept % 4) + _DIRECTIONS[outbound])


def interface_statistics(at_ns: int, received: int, dropped: int) -> bytes:
    """Ends the file: packets seen, and how many of them are not in it."""
    body = _STATISTICS_BODY.pack(0, at_ns >> 32, at_ns & 0xFFFFFFFF)
    options = _option(_RECEIVED, _COUNT.pack(received)) + _option(_DROPPED, _COUNT.pack(dropped))
    return _block(_STATISTICS, body + options + _END_OF_OPTIONS)


def _option(code: int, value: bytes) -> bytes:
    return _OPTION.pack(code, len(value)) + value + bytes(-len(value) % 4)


def _block(kind: int, body: bytes) -> bytes:
    size = len(body) + 12
    return _FRAME.pack(kind, size) + body + _LENGTH.pack(size)
