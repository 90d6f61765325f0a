"""Raw IP sockets (raw(7), RFC 3542): how ESP enters and leaves where the kernel does not know it."""

from __future__ import annotations

import os
import socket
from pathlib import Path

RECEIVE_BUFFER = 32 << 20
"""Receive buffer asked for, bytes; the kernel reports twice what it grants."""

_SO_RCVBUFFORCE = 33  # asm-generic/socket.h: beyond net.core.rmem_max, with CAP_NET_ADMIN


def open_raw(ip_version: int, protocol: int) -> socket.socket:
    """A non-blocking raw socket for an IP protocol; PermissionError without CAP_NET_RAW.

    IPPROTO_RAW only sends, and its packets bring their IP header. The receive buffer is as large as
    the host grants: in a user namespace net.core.rmem_max is the limit.
    """
    family = socket.AF_INET6 if ip_version == 6 else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_RAW | socket.SOCK_NONBLOCK, protocol)
    set_receive_buffer(sock, RECEIVE_BUFFER)
    return sock


def set_receive_buffer(sock: socket.socket, size: int) -> None:
    """Ask for a receive buffer of so many bytes; without the right to, the host's limit stands."""
    try:
        sock.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, size)
    except PermissionError:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)


def queue_drops(sock: socket.socket) -> int:
    """Packets that the kernel dropped because this socket's receive buffer was full."""
    inode = str(os.fstat(sock.fileno()).st_ino)
    table = "raw6" if sock.family == socket.AF_INET6 else "raw"
    for line in Path("/proc/thread-self/net", table).read_text().splitlines()[1:]:
        columns = line.split()
        if columns[9] == inode:
            return int(columns[12])
    return 0
