"""Who the null target may be asked for: settings, and what it keeps of each phone."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from imsbench.protocol.aka import Milenage, check_auts, generate_vector, make_nonce
from imsbench.protocol.secagree import SaSet
from imsbench.subscriber import Population, Subscriber
from simulators.core.settings import CoreSettings

if TYPE_CHECKING:
    from simulators.core.nullnet import Connection

RAND = bytes(range(16))
AMF = b"\x80\0"


@dataclass(frozen=True, slots=True)
class NullSettings:
    """Settings of the null target: a core's, and whom it may be asked for."""

    core: CoreSettings
    population: Population

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> NullSettings:
        """From a control channel's config, which must hold a population; KeyError if it does not."""
        return cls(CoreSettings.from_config(config), population_of(config["population"]))


def population_of(fields: Mapping[str, Any]) -> Population:
    """A population out of its fields, keys as hexadecimal text; TypeError or ValueError if unfit."""
    keys = {
        name: bytes.fromhex(fields[name])
        for name in ("k", "op", "opc")
        if isinstance(fields.get(name), str)
    }
    return Population(**{**fields, **keys})


@dataclass(slots=True)
class NullSas:
    """An SA set and the connection towards the phone's server port."""

    sas: SaSet
    phone: NullPhone
    server: bytes
    """The Security-Server header line."""
    link: Connection | None = None


class NullPhone:
    """What is kept of one phone."""

    __slots__ = (
        "_subscriber",
        "asserted",
        "ck",
        "connection",
        "contact",
        "dialog",
        "ik",
        "impu",
        "nonce",
        "number",
        "registered",
        "ring",
        "routes",
        "sas",
        "sqn",
        "uris",
    )

    def __init__(self, subscriber: Subscriber, routes: bytes) -> None:
        self._subscriber = subscriber
        self.impu = subscriber.impu_sip.encode()
        tel = subscriber.impu_tel.encode()
        self.number = subscriber.n
        """Its place among the phones."""
        self.uris = (tel, self.impu, self.impu + b";user=phone")
        """Request-URIs that call it."""
        self.asserted = b"\r\nP-Asserted-Identity: <%b>, <%b>" % (self.impu, tel)
        """Header line of the calls that it makes, with its line end in front."""
        self.contact = b""
        """The URI that it registered."""
        self.connection: Connection | None = None
        """Where its requests come from; responses to them go there."""
        self.routes = routes
        """Header lines of a 200 to REGISTER: Service-Route, P-Associated-URI."""
        self.registered = False
        self.sqn = 0
        self.nonce = self.ck = self.ik = b""
        self.ring = 0
        """Next port_pc, counted from the first."""
        self.sas: NullSas | None = None
        self.dialog: tuple[bytes, bytes, bytes, bytes, int] | None = None
        """Of its subscription: target, our From, our To, Call-ID, CSeq of the last NOTIFY."""
        self.make_challenge()

    def make_challenge(self) -> None:
        """The next vector (TS 33.102 §6.3.2)."""
        self.sqn += 32
        vector = generate_vector(self._milenage(), RAND, self.sqn, AMF)
        self.nonce = make_nonce(vector.rand, vector.autn).encode()
        self.ck, self.ik = vector.ck, vector.ik

    def resynchronise(self, auts: bytes) -> None:
        """Go on behind the phone's SQN (TS 33.102 §6.3.5)."""
        self.sqn = check_auts(self._milenage(), RAND, base64.b64decode(auts)) & ~31
        self.make_challenge()

    def _milenage(self) -> Milenage:
        subscriber = self._subscriber
        return Milenage(subscriber.k, opc=subscriber.opc, op=subscriber.op)
