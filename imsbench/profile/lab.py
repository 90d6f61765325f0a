"""What a profile says of a lab: a real core that the run starts beside the phones."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from imsbench.profile.fields import Integer, Settings


class Lab(Settings):
    """A core of a lab, and how it runs."""

    core: Literal["kamailio"] = "kamailio"
    """Which: Kamailio's P-, I- and S-CSCF, from this machine's packages."""
    variant: Literal["host", "hosts", "uml"] = "host"
    """host: in a network namespace of this machine, without IPsec; hosts: there, with the ESP of this
    machine's kernel; uml: the P-CSCF in user-mode Linux, whose kernel has ESP."""
    ipsec_entries: Annotated[Integer, Field(ge=0, le=2000)] = 0
    """Sets of security associations its P-CSCF can hold; 0: one for each phone, and half as many more."""
    children: Annotated[Integer, Field(ge=1, le=64)] = 2
    """Processes for each UDP socket of a server."""
    tcp_children: Annotated[Integer, Field(ge=1, le=64)] = 2
    """Processes of each server that read TCP."""
    shared_memory_mb: Annotated[Integer, Field(ge=64, le=16384)] = 256
    """Shared memory of each server, MB: 128 hold some 8,000 registrations."""

    @property
    def title(self) -> str:
        """What a report calls it."""
        return f"{self.core.capitalize()} lab ({self.variant})"
