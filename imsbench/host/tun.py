"""A TUN device: the kernel's IP packets as reads and writes of a file (kernel's tuntap.rst)."""

from __future__ import annotations

import errno
import fcntl
import io
import os
import struct

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


def _refused(error: OSError) -> TunError:
    advice = _ADVICE.get(error.errno or 0, "")
    return TunError(f"{_DEVICE}: {error.strerror}" + (f"; {advice}" if advice else ""))
