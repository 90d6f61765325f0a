"""What a profile says of a lab: a real core that the run starts beside the phones."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from imsbench.profile.fields import Integer, Settings

Defect = Literal[
    "clear_requests", "clear_deregistration", "second_challenge", "small_pool"
]  # fmt: skip
"""What a lab's core can be made to do wrong; ``Lab.provoke`` says what each is."""


Variant = Literal["host", "hosts", "uml"]
"""Where a lab's core runs; ``Lab.variant`` says what each is."""


class Lab(Settings):
    """A core of a lab, and how it runs."""

    core: Literal["kamailio"] = "kamailio"
    """Which: Kamailio's P-, I- and S-CSCF, from this machine's packages."""
    variant: Variant = "host"
    """host: in a network namespace of this machine, without IPsec; hosts: there, with the ESP of this
    machine's kernel; uml: the P-CSCF in user-mode Linux, whose kernel has ESP."""
    ipsec_entries: Annotated[Integer, Field(ge=0, le=2000)] = 0
    """Sets of security associations its P-CSCF can hold; 0: one for each phone, a quarter more, and what
    is held of ended registrations, for three seconds each."""
    children: Annotated[Integer, Field(ge=1, le=64)] = 2
    """Processes for each UDP socket of a server."""
    tcp_children: Annotated[Integer, Field(ge=1, le=64)] = 2
    """Processes of each server that read TCP."""
    shared_memory_mb: Annotated[Integer, Field(ge=64, le=16384)] = 256
    """Shared memory of each server, MB: 128 hold some 8,000 registrations."""

    provoke: tuple[Defect, ...] = ()
    """Defects of the core that its configuration else avoids, to see that they are noticed.
    clear_requests: requests to a phone's protected port leave in clear (TCP from any port).
    clear_deregistration: the 200 to a de-registration leaves in clear, behind its associations.
    second_challenge: a fast answer to a challenge is challenged once more (the vector is not stored yet).
    small_pool: associations for half of the phones; the others' 401 has no Security-Server."""

    @property
    def title(self) -> str:
        """What a report calls it."""
        return f"{self.core.capitalize()} lab ({self.variant})"
