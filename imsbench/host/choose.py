"""Which backend carries the ESP: the profile's word, or what the host can do."""

from __future__ import annotations

from collections.abc import Sequence

from imsbench.host.backend import BackendError, SaBackend, Side
from imsbench.host.userspace import UserspaceEsp


def choose_backend(
    mode: str,
    side: Side,
    ip_version: int,
    protected_ports: Sequence[tuple[int, int]] = (),
) -> SaBackend:
    """The backend of ``mode`` ("auto", "kernel", "userspace") for this network namespace.

    "auto" is user space as long as there is no kernel backend to prefer.

    ``protected_ports`` are the (first, last) ranges of this side's protected ports: what leaves from
    them goes into an SA or nowhere (see UserspaceEsp). BackendError says what the host lacks and what
    to load; ESP is never left out silently. "off" is the caller's to handle.
    """
    match mode:
        case "auto" | "userspace":
            return UserspaceEsp(side, ip_version, protected_ports=protected_ports)
        case "kernel":
            raise BackendError(
                "ipsec: kernel is not built in this version; use ipsec: userspace (or auto)"
            )
    raise BackendError(f"ipsec: {mode!r} is no backend; auto, kernel or userspace")
