"""Which backend carries the ESP: the profile's word, or what the host can do."""

from __future__ import annotations

from collections.abc import Sequence

from imsbench.host.backend import BackendError, SaBackend, Side
from imsbench.host.userspace import UserspaceEsp
from imsbench.host.xfrm import KernelEsp, esp_refusal


def choose_backend(
    mode: str,
    side: Side,
    ip_version: int,
    protected_ports: Sequence[tuple[int, int]] = (),
) -> SaBackend:
    """The backend of ``mode`` ("auto", "kernel", "userspace") for this network namespace.

    "auto" is the kernel if it has ESP, else user space if a TUN device opens.

    ``protected_ports`` are the (first, last) ranges of this side's protected ports: what leaves from
    them goes into an SA or nowhere. BackendError says what the host lacks and what to load; ESP is
    never left out silently. "off" is the caller's to handle.
    """
    match mode:
        case "kernel":
            return _kernel(esp_refusal(ip_version), side, ip_version, protected_ports)
        case "userspace":
            return UserspaceEsp(side, ip_version, protected_ports=protected_ports)
        case "auto":
            refusal = esp_refusal(ip_version)
            if not refusal:
                return _kernel(refusal, side, ip_version, protected_ports)
            try:
                return UserspaceEsp(side, ip_version, protected_ports=protected_ports)
            except BackendError as error:
                raise BackendError(f"{refusal}; but {error}") from error
    raise BackendError(f"ipsec: {mode!r} is no backend; auto, kernel or userspace")


def needs_tun(mode: str, ip_version: int) -> bool:
    """Whether ``mode`` comes down to user space on this host, which takes a TUN device."""
    return mode == "userspace" or (mode == "auto" and esp_refusal(ip_version) != "")


def _kernel(
    refusal: str, side: Side, ip_version: int, protected_ports: Sequence[tuple[int, int]]
) -> SaBackend:
    if refusal:
        raise BackendError(refusal)
    return KernelEsp(side, ip_version, protected_ports=protected_ports)
