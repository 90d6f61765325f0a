"""What comes in clear by TCP to a protected port, where user-space ESP has the protected sockets.

Such a segment reaches no socket (they are bound to the TUN), so the kernel answers it by a RST and nobody
would know. A raw socket is given a copy of it: the response to a protected request, say, of a P-CSCF that
has deleted its security associations too early. UDP has its own listener (``engine.datagrams``), and the
kernel's ESP its own count (``clear_in`` of ``xfrm``).
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence

from imsbench.host import rawsocket
from imsbench.host.packetfilter import attach_filter

_BATCH = 32
_LONGEST = 65535
_RESPONSE = b"SIP/2.0 "
_LOAD_WORD, _LOAD_HALF, _LOAD_HALF_INDEXED = 0x20, 0x28, 0x48  # linux/filter.h
_INDEX_BY_IP_HEADER, _EQUAL, _AT_LEAST, _ABOVE, _RETURN = 0xB1, 0x15, 0x35, 0x25, 0x06
_DEVICE = 0xFFFFF000 + 8  # SKF_AD_OFF + SKF_AD_IFINDEX
_WHOLE = 0xFFFFFFFF
_INSTRUCTION = struct.Struct("=HBBI")


class ClearWatch:
    """Counts segments in clear to ranges of ports, whatever link they came by."""

    def __init__(self, ip_version: int, device: str, ports: Sequence[tuple[int, int]]) -> None:
        """device: what comes by it has been inside an SA. PermissionError without CAP_NET_RAW."""
        self.segments = 0
        """Segments in clear to a protected port."""
        self.responses = 0
        """Those that begin a SIP response."""
        self._version = ip_version
        self._socket = rawsocket.open_raw(ip_version, socket.IPPROTO_TCP)
        program = clear_filter(ip_version, socket.if_nametoindex(device), ports)
        attach_filter(self._socket, program)

    def fileno(self) -> int:
        """The descriptor that is readable when something came."""
        return self._socket.fileno()

    def read(self) -> None:
        """Take what came."""
        for _ in range(_BATCH):
            try:
                packet = self._socket.recv(_LONGEST)
            except OSError:  # none left, or an error of the network
                return
            self.segments += 1
            self.responses += _payload(packet, self._version).startswith(_RESPONSE)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


def clear_filter(ip_version: int, device: int, ports: Sequence[tuple[int, int]]) -> bytes:
    """Instructions that keep TCP to these ranges of ports, unless it came by the device of this index."""
    load = [(_LOAD_HALF, 0, 0, 2)]  # IPv6 raw sockets begin at the TCP header: its destination port
    if ip_version == 4:
        load = [(_INDEX_BY_IP_HEADER, 0, 0, 0), (_LOAD_HALF_INDEXED, 0, 0, 2)]
    tests = 2 * len(ports)
    code = [(_LOAD_WORD, 0, 0, _DEVICE), (_EQUAL, len(load) + tests, 0, device), *load]
    for place, (first, last) in enumerate(ports):
        # too low for this range or above it: on to the next; else to "keep", behind "drop"
        left = tests - 2 * place
        code += [(_AT_LEAST, 0, 1, first), (_ABOVE, 0, left - 1, last)]
    code += [(_RETURN, 0, 0, 0), (_RETURN, 0, 0, _WHOLE)]
    return b"".join(_INSTRUCTION.pack(*one) for one in code)


def _payload(packet: bytes, ip_version: int) -> bytes:
    """What a TCP segment carries; b"" of one that is cut short."""
    start = (packet[0] & 0x0F) << 2 if ip_version == 4 and packet else 0
    if len(packet) < start + 20:
        return b""
    return packet[start + ((packet[start + 12] >> 4) << 2) :]
