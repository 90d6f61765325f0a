"""User-space ESP: a TUN device and raw sockets carry SA sets where the kernel's IPsec does not."""

from __future__ import annotations

from collections.abc import Sequence

from imsbench.host.backend import AddReader, Side
from imsbench.protocol.secagree import SaSet


class UserspaceEsp:
    """SaBackend over a TUN device and raw sockets (RFC 4303 transport mode, TS 33.203 §6.3)."""

    def __init__(
        self,
        side: Side,
        ip_version: int,
        tun_name: str = "esp0",
        *,
        protected_ports: Sequence[tuple[int, int]] = (),
    ) -> None:
        self.name = "userspace"
        self.device = tun_name
        raise NotImplementedError

    def attach(self, add_reader: AddReader) -> None:
        """Give the TUN's and the raw socket's descriptors to the loop."""
        raise NotImplementedError

    def install(self, sas: SaSet) -> None:
        """Four SAs; BackendError where an SPI or a port pair is taken."""
        raise NotImplementedError

    def remove(self, sas: SaSet) -> None:
        """Take a set away; one that is not there is no error."""
        raise NotImplementedError

    def counters(self) -> dict[str, int]:
        """Totals since the start, by name."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the sockets and the TUN device, which ends with its file."""
        raise NotImplementedError
