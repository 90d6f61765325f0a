"""What the P-CSCF keeps of a phone, and how that is the S-CSCF's way to it (RFC 3327)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from imsbench.protocol.sip import Request
from simulators.core.registrar import OnAnswer
from simulators.core.security import PhoneSas
from simulators.core.ways import DatagramFlow, Way

if TYPE_CHECKING:
    from simulators.core.calls import Call
    from simulators.core.pcscf import Pcscf


class Phone:
    """A phone that is registered, or registering, through this P-CSCF: the S-CSCF's way to it."""

    __slots__ = (
        "_pcscf", "address", "associated", "calls", "datagrams", "flow", "identities", "impi", "sas",
        "service_route", "signalling",
    )  # fmt: skip

    def __init__(self, pcscf: Pcscf, impi: str) -> None:
        self._pcscf = pcscf
        self.impi = impi
        self.address = ""
        """Its IP address."""
        self.sas: PhoneSas | None = None
        """The set that requests to it use; None before it is registered, and with ipsec off."""
        self.flow: Way | None = None
        """ipsec off: the connection it used last."""
        self.datagrams: DatagramFlow | None = None
        """How it registered, if that was by UDP: requests to it go so, too."""
        self.identities: frozenset[str] = frozenset()
        """Its registered public identities."""
        self.associated: tuple[str, ...] = ()
        """P-Associated-URI of its registration: identities it may assert, the default first."""
        self.service_route: tuple[str, ...] = ()
        """URIs of the Service-Route of its registration (RFC 3608)."""
        self.calls: set[Call] = set()
        """Calls that it has a leg of."""
        self.signalling: str = ""
        """Rx session of its signalling; empty: none."""

    @property
    def registered(self) -> bool:
        """Whether its registration stands."""
        return bool(self.associated)

    def send(self, request: Request, on_answer: OnAnswer) -> None:
        """Send it a request (see PhoneRoute)."""
        self._pcscf.send(self, request, on_answer)

    def expired(self) -> None:
        """Its registration ran out (see PhoneRoute)."""
        self._pcscf.forget(self, give_up=False)

    def release(self) -> None:
        """The network de-registered it: SAs go after a grace (TS 24.229 §5.2.5)."""
        self._pcscf.forget(self)
