"""Phone: what outlives a procedure, as plain slotted data, and how it answers the network.

An idle phone is this object, its connections and one timer; a flow exists only while a procedure
runs. What all phones of a worker share (settings, identifiers, counters) is in their Network.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from math import inf, nan
from typing import Literal

from imsbench.phone.actions import Accept, Channel, Incoming, TransportError, UdpPorts
from imsbench.protocol.aka import SqnWindow
from imsbench.protocol.secagree import Mechanism, SaSet
from imsbench.subscriber import Population, Subscriber

FIRST_SPI = 0x1000
"""Lowest SPI a phone offers; 1..255 are reserved (RFC 4303 §2.1)."""
MAX_SHARED_TEXTS = 4096
"""Texts that a worker keeps for all its phones; what comes beyond them is each phone's own."""


@dataclass(frozen=True, slots=True)
class PhoneSettings:
    """How the phones of a run behave; the same for all of them."""

    pcscf_address: str
    """IP address of the P-CSCF."""
    pcscf_port: int = 5060
    """Its unprotected port."""
    ipsec: bool = True
    """Whether phones negotiate security associations (TS 33.203); False: no sec-agree at all."""
    mechanisms: tuple[tuple[str, str], ...] = (("hmac-sha-1-96", "null"),)
    """(alg, ealg) offered, most preferred first."""
    port_us: int = 6101
    """Protected server port."""
    port_uc_first: int = 20_000
    """First of the ring of protected client ports."""
    port_uc_count: int = 64
    """Size of the ring; a port comes back after so many security agreements."""
    clear_port: int = 5060
    """Port named in Via and Contact of an unprotected REGISTER."""
    expires_s: int = 600_000
    """Expiry asked for a registration (TS 24.229 §5.1.1.2.1)."""
    subscription_expires_s: int = 600_000
    """Expiry asked for the reg-event subscription (TS 24.229 §5.1.1.3)."""
    access_network_info: str = "3GPP-E-UTRAN-FDD;utran-cell-id-3gpp=0010100010000001"
    """P-Access-Network-Info, sent once a security association exists."""
    user_agent: str = "imsbench"
    """User-Agent; empty: none."""
    registration_timeout_s: float = 32.0
    """For a whole registration attempt (UE value of TS 24.229: 128 s a transaction)."""
    transaction_timeout_s: float = 32.0
    """For every other request (RFC 3261 Timer F)."""
    transport: Literal["tcp", "udp"] = "tcp"
    """What phones use; requests over 1,300 bytes go by TCP all the same (RFC 3261 §18.1.1)."""
    max_challenges: int = 3
    """401 responses that one attempt answers: the challenge, a repeated one, one after an AUTS."""
    close_timeout_s: float = 1.0
    """How long a phone waits for the far end's FIN when it de-registers."""


class Network:
    """What the phones of one worker share."""

    __slots__ = (
        "_counter", "_prefix", "_spi", "events", "first_port_index", "on_deregistered", "on_invite",
        "on_notify", "on_refresh_moved", "population", "random", "settings", "texts",
    )  # fmt: skip

    def __init__(
        self,
        settings: PhoneSettings,
        population: Population,
        source: random.Random,
        start: int | None = None,
    ) -> None:
        """start: where identifiers, SPIs and the ring of port_uc begin; any number, of 64 bits.

        A core that still holds something of an earlier run must not meet the same ones again, so it
        is another one in each run; None: drawn from ``source``.
        """
        self.settings = settings
        self.population = population
        self.random = source
        self.events: Counter[str] = Counter()
        """What happened to phones, by name."""
        self.texts: dict[str, str] = {}
        """Texts that are the same for many phones (Service-Route …), kept once."""
        self.on_deregistered: Callable[[Phone, str], None] | None = None
        """Called when the network ends a registration, with the contact's event."""
        self.on_invite: Callable[[Phone, Incoming], Accept] | None = None
        """Called with an INVITE of no known dialog: the flow that answers it; None: calls are refused."""
        self.on_notify: Callable[[Phone], None] | None = None
        """Called when a phone's first NOTIFY of a subscription has come."""
        self.on_refresh_moved: Callable[[Phone], None] | None = None
        """Called when the network shortened something, so that its refresh is due earlier."""
        self._counter = 0
        start = source.getrandbits(64) if start is None else start
        self._prefix = f"{start & 0xFFFF_FFFF:08x}"
        self._spi = FIRST_SPI + (start >> 32) % (2**31 - FIRST_SPI)
        self.first_port_index = (start >> 32) % settings.port_uc_count
        """Where in the ring of port_uc every phone begins."""

    def identifier(self) -> str:
        """Text that no other phone of this run has: for branches, tags and Call-IDs."""
        self._counter += 1
        return f"{self._prefix}{self._counter:x}"

    def branch(self) -> str:
        """A branch parameter (RFC 3261 §8.1.1.7)."""
        return "z9hG4bK" + self.identifier()

    def spi_pair(self) -> tuple[int, int]:
        """Two SPIs that no phone of this worker has used: (spi_c, spi_s)."""
        spi = self._spi
        self._spi = spi + 2 if spi < 2**32 - 4 else FIRST_SPI
        return spi, spi + 1

    def shared(self, text: str) -> str:
        """The one copy of a text that many phones hold."""
        if len(self.texts) >= MAX_SHARED_TEXTS:  # each phone has its own: nothing is shared
            return self.texts.get(text, text)
        return self.texts.setdefault(text, text)


@dataclass(slots=True)
class Registration:
    """A registration dialogue, under way or accepted (TS 24.229 §5.1.1)."""

    call_id: str
    """Same for all REGISTERs of it."""
    from_tag: str
    """From tag of all its REGISTERs."""
    cseq: int = 0
    """Of the last REGISTER."""
    expires_at: float = nan
    """When it ends unless it is refreshed, seconds; NaN until it is accepted."""
    service_route: tuple[str, ...] = ()
    """Service-Route entries of the 200, in order (RFC 3608)."""
    impu: str = ""
    """Default public identity: the first P-Associated-URI entry (TS 24.229 §5.1.1.2.1)."""
    realm: str = ""
    """Realm of the last challenge."""
    nonce: str = ""
    """Its nonce."""
    response: str = ""
    """Digest response given to it."""
    refresh_at: float = nan
    """When it is to be refreshed, seconds; NaN: no refresh is planned."""
    security_verify: tuple[str, ...] = ()
    """Security-Server of the agreement in use, to be echoed (RFC 3329 §2.4)."""


@dataclass(slots=True)
class Subscription:
    """The reg-event subscription (TS 24.229 §5.1.1.3, RFC 3680)."""

    call_id: str
    """Of its dialog."""
    from_tag: str
    """The phone's tag."""
    impu: str
    """Subscribed identity."""
    cseq: int = 0
    """Of the last SUBSCRIBE."""
    to_tag: str = ""
    """The notifier's tag, from its NOTIFY or its 200."""
    target: str = ""
    """Remote target: the notifier's Contact (RFC 6665 §4.4.1)."""
    route_set: tuple[str, ...] = ()
    """Record-Route of the dialog, in the phone's order."""
    expires_at: float = nan
    """When it ends unless it is refreshed, seconds."""
    refresh_at: float = nan
    """When it is to be refreshed, seconds; NaN: no refresh is planned."""
    notify_at: float = nan
    """When its first NOTIFY was read, seconds."""
    notify_cseq: int = -1
    """CSeq of the last NOTIFY (RFC 3261 §12.2.2)."""
    notify_owed: bool = False
    """Whether no NOTIFY has come since the last refresh was sent (RFC 6665 §4.2.1.2)."""
    version: int = -1
    """Version of the last reginfo document (RFC 3680 §4)."""


class Phone:
    """One phone: one subscriber, one IP address."""

    __slots__ = (
        "_port_index", "address", "clear", "client", "deregistering", "n", "network", "newer",
        "registration", "sas", "subscription", "timer_at", "window",
    )  # fmt: skip

    def __init__(self, network: Network, n: int, address: str) -> None:
        self.network = network
        self.n = n
        """Number of its subscriber."""
        self.address = address
        """Its IP address."""
        self.registration: Registration | None = None
        """The accepted registration; None: not registered."""
        self.subscription: Subscription | None = None
        """The reg-event subscription, also while it is being made."""
        self.sas: SaSet | None = None
        """The SA set in use."""
        self.clear: Channel | None = None
        """Connection to the unprotected port; without IPsec the only one."""
        self.client: Channel | None = None
        """Connection port_uc -> port_ps."""
        self.newer: tuple[SaSet, Channel] | None = None
        """The SA set that a refresh has agreed upon, until its 200 (TS 33.203 §7.4)."""
        self.deregistering = False
        """Whether it is ending its registration itself."""
        self.window: SqnWindow | None = None
        """The USIM's sequence numbers; None: a new USIM."""
        self.timer_at = inf
        """When whoever keeps it looks at it next, seconds; infinity: never."""
        self._port_index = network.first_port_index

    def __repr__(self) -> str:
        return f"<Phone {self.n} {self.address}>"

    @property
    def subscriber(self) -> Subscriber:
        """Its identities and keys, computed."""
        return self.network.population.subscriber(self.n)

    @property
    def signalling(self) -> Channel:
        """Where its requests go now: inside the SAs, if the phone has IPsec at all.

        TransportError where they have gone with its registration, under a call: outside them only a
        REGISTER may leave (TS 33.203 §7.1).
        """
        if self.client is not None:
            return self.client
        if self.network.settings.ipsec:
            raise TransportError("registration lost", "the phone has no security association left")
        if self.clear is None:
            self.clear = self.clear_channel()
        return self.clear

    @property
    def contact_port(self) -> int:
        """The port it names in Via and Contact: port_us inside SAs (TS 24.229 §5.1.1.2.2)."""
        settings = self.network.settings
        return settings.port_us if self.sas is not None else settings.clear_port

    def clear_channel(self) -> Channel:
        """The way to the unprotected port: by TCP from any port, by UDP from the clear one."""
        settings = self.network.settings
        udp = UdpPorts(settings.clear_port) if settings.transport == "udp" else None
        return Channel(
            self.address, 0, settings.pcscf_address, settings.pcscf_port, protected=False, udp=udp
        )

    def protected_channel(self, sas: SaSet) -> Channel:
        """The way inside an SA set (TS 33.203 §7.1)."""
        settings = self.network.settings
        udp = None
        if settings.transport == "udp":
            udp = UdpPorts(sas.port_uc, sas.port_us, sas.port_pc)
        return Channel(
            self.address, sas.port_uc, settings.pcscf_address, sas.port_ps, protected=True, udp=udp
        )

    def offer(self) -> list[Mechanism]:
        """Security-Client with new SPIs and the next port_uc of the ring (TS 33.203 §7.1, §7.4).

        All mechanisms carry the same SPIs and ports (TS 33.203 annex H).
        """
        settings = self.network.settings
        spi_c, spi_s = self.network.spi_pair()
        in_use = {one.port_uc for one in (self.sas, self.newer and self.newer[0]) if one}
        port_c = 0
        while not port_c or port_c in in_use:  # the ring is longer than what is in use
            port_c = settings.port_uc_first + self._port_index
            self._port_index = (self._port_index + 1) % settings.port_uc_count
        return [
            Mechanism(alg, ealg, spi_c, spi_s, port_c, settings.port_us)
            for alg, ealg in settings.mechanisms
        ]


def refresh_delay(expires_s: float) -> float:
    """Seconds until a refresh: 600 s before expiry, or half of it (TS 24.229 §5.1.1.4.1, §5.1.1.3)."""
    return expires_s - 600.0 if expires_s > 1200.0 else expires_s / 2.0
