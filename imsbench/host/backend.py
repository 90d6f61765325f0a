"""What a host must give to carry SA sets: one interface, several backends (TS 33.203 §6.3, §7.1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

from imsbench.protocol.secagree import SaSet

Side = Literal["phone", "pcscf"]
"""Which end of the SA set this host is."""

AddReader = Callable[[int, Callable[[], object]], object]
"""(fd, callback): what a loop offers; asyncio's add_reader and the engine's have this shape."""


class BackendError(Exception):
    """The host cannot carry protected traffic; the text says what is missing and what to do."""


class SaBackend(Protocol):
    """Carries the ESP of SA sets for one side, in one network namespace."""

    name: str
    """"userspace" or "kernel"."""
    device: str
    """Device that protected sockets are bound to (SO_BINDTODEVICE); "" where policies do the work."""

    def attach(self, add_reader: AddReader) -> None:
        """Start carrying packets: give the backend's descriptors to the loop of this process."""
        ...

    def install(self, sas: SaSet) -> None:
        """Four SAs and their policies; BackendError if the host refuses them."""
        ...

    def remove(self, sas: SaSet) -> None:
        """Policies first, then states; a set that is not there is no error."""
        ...

    def counters(self) -> dict[str, int]:
        """Totals since the start, by name: packets and bytes in and out, each kind of drop."""
        ...

    def close(self) -> None:
        """Give everything back to the host."""
        ...
