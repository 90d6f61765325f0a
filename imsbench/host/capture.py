"""A capture of some phones' packets on the outer link, for both backends: what a tap there would see.

A packet socket on the link, with a filter in the kernel and the kernel's own time stamps, is read in
the loop and written by a thread (FileWriter). Nothing waits for it: where the socket's buffer, the
queue to the disk or the file is full, packets are missing from the file, and are counted by name.
"""

from __future__ import annotations

import socket
import struct
import time
from pathlib import Path

from imsbench.host import pcapng
from imsbench.host.backend import AddReader
from imsbench.host.filewriter import FileWriter
from imsbench.host.packetfilter import address_filter, attach_filter
from imsbench.host.rawsocket import set_receive_buffer

BATCH = 32
"""Packets taken at one wake-up, at most: the phones must not starve behind them."""
QUEUE_BYTES = 8 << 20
"""What may wait for the disk."""
FILE_BYTES = 1 << 30
"""How large a capture may become."""
_RECEIVE_BUFFER = 8 << 20
_END_PACKETS = 10_000

_ETH_P_ALL = 3
_SOL_PACKET, _PACKET_STATISTICS = 263, 6  # linux/if_packet.h
_SO_TIMESTAMPNS = 35  # asm-generic/socket.h; the message that brings the time has the same number
_TIMESPEC = struct.Struct("@ll")
_STATISTICS = struct.Struct("=II")


class Capture:
    """Writes the IP packets that a link carries from or to a range of addresses to a pcapng file."""

    def __init__(
        self,
        device: str,
        first: str,
        last: str,
        path: Path,
        *,
        application: str,
        queue_bytes: int = QUEUE_BYTES,
        file_bytes: int = FILE_BYTES,
    ) -> None:
        """Capture from now on; OSError if the link or the file refuses (CAP_NET_RAW is needed).

        first, last: the range, text form. application: who says in the file that it wrote it.
        """
        self._packets = 0
        self._refused = 0
        self._kernel_dropped = 0
        self._buffer = bytearray(pcapng.SNAP_LENGTH)
        # protocol 0 receives nothing: what comes before the filter is attached must not get in
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK, 0)
        try:
            set_receive_buffer(self._socket, _RECEIVE_BUFFER)
            self._socket.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
            attach_filter(self._socket, address_filter(first, last))
            self._socket.bind((device, _ETH_P_ALL))
            self._writer = FileWriter(path, queue_bytes=queue_bytes, file_bytes=file_bytes)
        except OSError:
            self._socket.close()
            raise
        self._writer.put(pcapng.section_header(application))
        self._writer.put(pcapng.interface_description(device))

    def attach(self, add_reader: AddReader) -> None:
        """Give the socket to the loop, which must let go of it before ``close``."""
        add_reader(self._socket.fileno(), self._read)

    def counters(self) -> dict[str, int]:
        """Totals: ``packets`` in the file; ``kernel_dropped``: not read in time; ``not_written``: no
        room in the queue to the disk or in the file, or the disk refused.
        """
        self._ask_kernel()
        return {
            "packets": self._packets,
            "kernel_dropped": self._kernel_dropped,
            "not_written": self._refused,
        }

    @property
    def problem(self) -> str:
        """Why the disk refused a write; empty: it did not."""
        return self._writer.problem

    def close(self) -> None:
        """Take what has come, end the file with its statistics, and close it."""
        for _ in range(_END_PACKETS // BATCH):
            if not self._read():
                break
        counts = self.counters()
        dropped = counts["kernel_dropped"] + counts["not_written"]
        received = counts["packets"] + dropped
        self._writer.put(pcapng.interface_statistics(time.time_ns(), received, dropped))
        self._writer.close()
        self._socket.close()

    def _read(self) -> bool:
        """Take a batch; whether there may be more."""
        buffer, receive = self._buffer, self._socket.recvmsg_into
        for _ in range(BATCH):
            try:
                size, ancillary, _flags, address = receive(
                    [buffer], socket.CMSG_SPACE(_TIMESPEC.size), socket.MSG_TRUNC
                )
            except BlockingIOError:
                return False
            except OSError:  # the link went down; it may come up again
                return False
            block = pcapng.enhanced_packet(
                _time_ns(ancillary),
                bytes(buffer[:size]),
                size,
                outbound=address[2] == socket.PACKET_OUTGOING,
            )
            if self._writer.put(block):
                self._packets += 1
            else:
                self._refused += 1
        return True

    def _ask_kernel(self) -> None:
        """Reading the kernel's counter sets it to zero; a closed socket counts no more."""
        if self._socket.fileno() < 0:
            return
        option = self._socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, _STATISTICS.size)
        self._kernel_dropped += _STATISTICS.unpack(option)[1]


def _time_ns(ancillary: list[tuple[int, int, bytes]]) -> int:
    """When the kernel had the packet, nanoseconds since 1970."""
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, _SO_TIMESTAMPNS) and len(data) == _TIMESPEC.size:
            seconds, nanoseconds = _TIMESPEC.unpack(data)
            return int(seconds) * 1_000_000_000 + int(nanoseconds)
    return time.time_ns()
