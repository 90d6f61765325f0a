"""A TUN device: the kernel's IP packets as reads and writes of a file (kernel's tuntap.rst)."""

from __future__ import annotations

import errno
import fcntl
import io
import os
import struct
from collections.abc import Sequence
from pathlib import Path

from imsbench.host import links

MTU = 1400
"""MTU of the device, bytes: header, IV, padding and ICV of ESP fit into 1500 beside it."""
QUEUE_LENGTH = 10_000
"""Packets that may wait in the device's queue."""
ROUTE_METRIC = 9999
"""Metric of the default route over the device: the last choice of unbound sockets."""
ROUTE_TABLE = 50
"""Routing table, and priority of the rules, of protected ports."""

_TUNSETIFF = 0x400454CA
_IFF_TUN = 0x0001
_IFF_NO_PI = 0x1000  # no 4 bytes before each packet
_IFREQ = struct.Struct("16sH22x")
_DEVICE = "/dev/net/tun"

_ADVICE = {
    errno.ENOENT: "load the module: modprobe tun (in a container: --device /dev/net/tun)",
    errno.ENODEV: "load the module: modprobe tun",
    errno.EACCES: f"{_DEVICE} is not readable and writable for this user (chmod 0666 is usual)",
    errno.EPERM: "CAP_NET_ADMIN over this network namespace is missing",
    errno.EBUSY: "the device is open in another process",
}


class TunError(Exception):
    """No TUN device; the text says why and what to do."""


def open_tun(name: str) -> io.FileIO:
    """Make the TUN device ``name`` in this network namespace, unbuffered and non-blocking.

    It lives as long as the file; TunError if the host refuses.
    """
    try:
        descriptor = os.open(_DEVICE, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise _refused(error) from error
    file = io.FileIO(descriptor, "r+")
    try:
        fcntl.ioctl(file, _TUNSETIFF, _IFREQ.pack(name.encode(), _IFF_TUN | _IFF_NO_PI))
    except OSError as error:
        file.close()
        raise _refused(error) from error
    return file


def configure_tun(
    name: str, ip_version: int, protected_ports: Sequence[tuple[int, int]] = ()
) -> None:
    """Set the device up as the way of protected sockets; LinkError if the kernel refuses.

    A default route of the worst metric, a loose reverse-path filter (what comes out of the device
    has its way back elsewhere), no address and no chatter of its own; a rule per protected port
    range, whose ports no connection gets by chance. Rules of a killed process go first: the device
    is open, so no other process has one.
    """
    ipv6 = Path(f"/proc/sys/net/ipv6/conf/{name}")
    if ip_version == 6:
        links.set_sysctl(f"net/ipv6/conf/{name}/addr_gen_mode", 1)  # no link-local address
        links.set_sysctl(f"net/ipv6/conf/{name}/accept_ra", 0)
    elif ipv6.exists():
        links.set_sysctl(f"net/ipv6/conf/{name}/disable_ipv6", 1)
    if ip_version == 4:
        # Of this value and that of "all" the larger counts (ip-sysctl.rst), so a 0 would depend on it.
        links.set_sysctl(f"net/ipv4/conf/{name}/rp_filter", 2)
    links.set_up(name, mtu=MTU, queue_length=QUEUE_LENGTH)
    everything = "::/0" if ip_version == 6 else "0.0.0.0/0"
    links.add_route(everything, dev=name, metric=ROUTE_METRIC)
    forget_rules()
    if protected_ports:
        links.add_route(everything, dev=name, table=ROUTE_TABLE)
        # An ephemeral port in these ranges would lead a clear connection into the device.
        links.reserve_ports(protected_ports)
    try:
        for first, last in protected_ports:
            links.add_source_port_rule(ip_version, first, last, ROUTE_TABLE, ROUTE_TABLE)
    except BaseException:  # refused, or interrupted: nobody will know of those that are made
        forget_rules()
        raise


def forget_rules() -> None:
    """Take away the rules of protected ports: they are the namespace's and outlive the device."""
    links.delete_rules(ROUTE_TABLE, ROUTE_TABLE)


def queue_drops(name: str) -> int:
    """Packets the kernel dropped because the device's queue was full."""
    for line in Path("/proc/thread-self/net/dev").read_text().splitlines():
        device, _, numbers = line.partition(":")
        if device.strip() == name:
            return int(numbers.split()[11])  # the transmit half's "drop"
    return 0


def _refused(error: OSError) -> TunError:
    advice = _ADVICE.get(error.errno or 0, "")
    return TunError(f"{_DEVICE}: {error.strerror}" + (f"; {advice}" if advice else ""))
