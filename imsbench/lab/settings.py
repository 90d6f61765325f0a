"""Everything that is to be known about one Kamailio core: its files and processes follow from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

Transport = Literal["tcp", "udp"]


FOLDER = "/run/imsbench-lab"
"""Where a core's files are, in a file system that only its own processes see."""


_DESCRIPTORS = 980
"""Of the 1,024, what the sets of associations may take."""


class LabError(Exception):
    """A core that cannot be; the text says why and what to do."""


class Endpoint(NamedTuple):
    """An IP address and a port."""

    address: str
    """IPv4 address."""
    port: int
    """TCP and UDP port."""


@dataclass(frozen=True, slots=True)
class IpsecPool:
    """What the P-CSCF has for security associations (TS 33.203 §7)."""

    entries: int
    """Security associations it can hold, in sets: one for each phone, and one more for each refresh
    until the registration before it has expired. Each costs two TCP listeners and two UDP sockets with
    ``children`` processes each."""
    client_port: int = 40_000
    """First of its protected client ports, one for each entry."""
    server_port: int = 50_000
    """First of its protected server ports, one for each entry."""
    spi_start: int = 4096
    """First SPI it gives."""

    @property
    def spi_range(self) -> int:
        """How many SPIs it needs: two for each entry, and as many that rest."""
        return max(1000, 4 * self.entries)


@dataclass(frozen=True, slots=True)
class LabSettings:
    """One core: P-CSCF, I-CSCF and S-CSCF."""

    domain: str
    """Home network domain, and realm of its Diameter peers."""
    pcscf: Endpoint
    """Where the P-CSCF serves phones."""
    icscf: Endpoint
    """Where the I-CSCF serves the other two."""
    scscf: Endpoint
    """Where the S-CSCF serves them."""
    hss: Endpoint
    """Where the HSS serves Diameter."""
    pcrf: Endpoint | None = None
    """Where the PCRF serves Diameter; None: no Rx."""
    folder: str = FOLDER
    """Where its files are, as its processes see them."""
    modules: str = "/usr/lib/x86_64-linux-gnu/kamailio/modules"
    """Where Kamailio's modules are."""
    phone_transport: Transport = "tcp"
    """What the phones' requests come by."""
    inner_transport: Transport = "udp"
    """What the three servers use between them."""
    ipsec: IpsecPool | None = None
    """None: no sec-agree, everything in clear."""
    children: int = 2
    """Processes for each UDP socket of a server."""
    tcp_children: int = 2
    """Processes of each server that read TCP."""
    diameter_workers: int = 2
    """Processes of each server that take Diameter answers."""
    tcp_max_connections: int = 16_384
    """TCP connections that a server holds at most."""
    shared_memory_mb: int = 256
    """Shared memory of each server: registrations and transactions are in it."""
    private_memory_mb: int = 8
    """Memory of each of its processes."""
    expires_s: int = 600_000
    """Registration expiry granted at most, seconds."""
    min_expires_s: int = 30
    """Shortest that is granted, seconds."""
    expires_grace_s: int = 1
    """What the P-CSCF keeps a contact beyond its expiry, seconds: its associations are free then."""
    timer_interval_s: int = 1
    """How often the P-CSCF looks for expired contacts, seconds."""
    tcp_reuse_port: bool = True
    """False provokes a defect: requests to a phone's protected port leave in clear."""
    keep_sas_at_deregistration: bool = True
    """False provokes a defect: the 200 to a de-registration leaves in clear."""
    await_vector: bool = True
    """False provokes a defect: an answer faster than the vector is stored is challenged once more."""

    def __post_init__(self) -> None:
        for name in ("children", "tcp_children", "diameter_workers", "shared_memory_mb"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be positive")

    def pool_problem(self) -> str:
        """Why its P-CSCF would not start with so many sets of associations; "" if it does.

        With Rx a process of its Diameter stack ends by SIGABRT where its descriptors pass 1,024, which is
        all that select(2) can watch: four sockets for each set, and one for each of their processes.
        """
        if self.ipsec is None or self.pcrf is None:
            return ""
        most = _DESCRIPTORS // (4 + 2 * self.children)
        if self.ipsec.entries <= most:
            return ""
        return (
            f"{self.ipsec.entries} sets of security associations are more than Kamailio's P-CSCF can hold "
            f"with Rx ({most} with {self.children} children): fewer phones, a slower cycle, or "
            "target.lab.ipsec_entries"
        )

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> LabSettings:
        """From a control channel's config; TypeError or ValueError if it is not fit."""
        values = dict(config)
        for name in ("pcscf", "icscf", "scscf", "hss", "pcrf"):
            if values.get(name) is not None:
                values[name] = Endpoint(*values[name])
        if values.get("ipsec") is not None:
            values["ipsec"] = IpsecPool(**values["ipsec"])
        return cls(**values)
