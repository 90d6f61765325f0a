"""The SA sets of a P-CSCF and their lives (TS 33.203 §7.1, §7.4, TS 24.229 §5.2.2).

agreed (before the 401)      temporary: reg-await-auth, 4 minutes
answer accepted (the 200)    established: expiry of the registration + 30 s, never shortened
first message after that     older sets of the private identity are given up
de-registered, refused       given up: connections have a grace to close in order, a request by UDP may
                             come again while its transaction lives; then the SAs go
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Literal

from imsbench.host.backend import BackendError, SaBackend
from imsbench.protocol.secagree import SaSet, sa_set, serialize_security
from simulators.core.agreement import Offer, server_mechanisms
from simulators.core.phonelink import PhoneLink
from simulators.core.settings import REG_AWAIT_AUTH_S, CoreSettings
from simulators.core.transport import ConnectionOwner, SipConnection

if TYPE_CHECKING:
    from simulators.core.ways import DatagramFlow

MARGIN_S = 30.0  # TS 33.203 §7.4: SA lifetime beyond the registration's expiry
CLOSE_GRACE_S = 2.0  # for FINs inside the SAs
RESET_GRACE_S = 0.2  # for the resets of connections that were still open
MAX_SETS = 3  # TS 33.203 §7.1: six SAs per direction and private identity, two in each set
_FIRST_SPI = 4096
_LAST_SPI = 2**32 - 1

State = Literal["temporary", "established", "closing", "gone"]


class PhoneSas:
    """One SA set at the P-CSCF, with what runs inside it."""

    __slots__ = (
        "accepted", "client_entries", "expires_at", "flow", "impi", "link", "sas", "security_server",
        "state", "takes_over", "timer",
    )  # fmt: skip

    def __init__(
        self, impi: str, sas: SaSet, security_server: str, client_entries: tuple[str, ...]
    ) -> None:
        self.impi = impi
        """The private identity that it belongs to."""
        self.sas = sas
        self.security_server = security_server
        """The header value sent; Security-Verify must repeat it."""
        self.client_entries = client_entries
        """Security-Client as offered, normalized."""
        self.state: State = "temporary"
        self.takes_over = False
        """Whether its next message ends the older sets."""
        self.expires_at = 0.0
        """On the loop's clock, seconds."""
        self.timer: asyncio.TimerHandle | None = None
        self.accepted: set[SipConnection] = set()
        """Connections port_uc -> port_ps."""
        self.link: PhoneLink | None = None
        """Our connection port_pc -> port_us."""
        self.flow: DatagramFlow | None = None
        """The phone's datagrams port_uc -> port_ps, and ours port_pc -> port_us."""


class SecurityAssociations:
    """All SA sets of one P-CSCF."""

    def __init__(
        self,
        settings: CoreSettings,
        backend: SaBackend,
        owner: ConnectionOwner,
        counters: Counter[str],
    ) -> None:
        self._settings = settings
        self._backend = backend
        self._owner = owner
        self._counters = counters
        self._by_flow: dict[tuple[str, int], PhoneSas] = {}
        self._by_impi: dict[str, list[PhoneSas]] = {}
        self._leaving: dict[tuple[str, int], PhoneSas] = {}
        self._ring: dict[str, int] = {}
        self._ports_pc: set[tuple[str, int]] = set()
        self._spi = _FIRST_SPI
        self.count = 0
        """SAs installed."""

    def find(self, address: str, port_uc: int) -> PhoneSas | None:
        """The set that a connection from this phone address and port came in by."""
        return self._by_flow.get((address, port_uc))

    def of(self, impi: str) -> list[PhoneSas]:
        """The sets of a private identity, the oldest first."""
        return list(self._by_impi.get(impi, ()))

    def agree(
        self, impi: str, address: str, offer: Offer, ck: bytes, ik: bytes, inside: PhoneSas | None
    ) -> PhoneSas:
        """Four temporary SAs, installed; BackendError if the host refuses, ValueError if the specs do.

        ``inside`` is the set that carries the agreement, None for one in clear.
        """
        client = offer.client
        self._make_room(impi, address, client.port_c, inside)
        port_pc = self._next_port_pc(address)
        spi_pc, spi_ps = self._next_spis(client.spi_c, client.spi_s)
        settings = self._settings
        mechanisms = server_mechanisms(settings.algs, spi_pc, spi_ps, port_pc, settings.port_ps)
        chosen = next(m for m in mechanisms if (m.alg, m.ealg) == (client.alg, client.ealg))
        sas = sa_set(address, settings.listen[0], client, chosen, ck, ik)
        self._backend.install(sas)
        self.count += 4
        held = PhoneSas(impi, sas, serialize_security(mechanisms), offer.entries)
        held.link = PhoneLink(
            self._owner,
            (sas.pcscf_address, sas.port_pc),
            (sas.phone_address, sas.port_us),
            device=self._backend.device,
            sas=held,
        )
        self._by_flow[address, client.port_c] = held
        self._by_impi.setdefault(impi, []).append(held)
        self._ports_pc.add((address, port_pc))
        self._counters["SA sets agreed"] += 1
        self._live_until(held, REG_AWAIT_AUTH_S)
        return held

    def establish(self, held: PhoneSas, expires_s: float) -> None:
        """Its REGISTER was accepted; or extend it at a refresh (TS 33.203 §7.4: never shortened)."""
        if held.state == "temporary":
            held.state = "established"
            held.takes_over = True
            self._counters["SA sets established"] += 1
        self._live_until(held, expires_s + MARGIN_S)

    def used(self, held: PhoneSas) -> None:
        """A message came in by it: a set that takes over ends the older ones (TS 33.203 §7.4)."""
        if not held.takes_over or held.state != "established":
            return
        held.takes_over = False
        for other in self.of(held.impi):
            if other is held:
                break
            self.give_up(other)

    def give_up(self, held: PhoneSas) -> None:
        """Remove it once its connections have had time to close inside it."""
        if held.state in ("closing", "gone"):
            return
        held.state = "closing"
        if held.timer is not None:
            held.timer.cancel()
        grace_s = CLOSE_GRACE_S
        if held.flow is not None:
            # Its last response may be asked for again as long as the transaction lives (Timer J).
            grace_s = 64 * self._settings.timers[0]
        held.timer = asyncio.get_running_loop().call_later(grace_s, self._reset, held)

    def close(self) -> None:
        """Remove all sets at once."""
        for sets in list(self._by_impi.values()):
            for held in list(sets):
                self._reset(held)
                self._uninstall(held)

    def _make_room(self, impi: str, address: str, port_uc: int, inside: PhoneSas | None) -> None:
        if inside is None:
            # A phone that starts anew in clear has given up what it was answering.
            for held in self.of(impi):
                if held.state == "temporary":
                    self._counters["temporary SA sets replaced"] += 1
                    self._reset(held)
        taken = self._by_flow.get((address, port_uc))
        if taken is not None:  # TS 33.203 §7.1
            if taken.impi != impi or taken is inside:
                raise ValueError(f"port-c {port_uc} of {address} is in use")
            self._counters["SA sets replaced: same port-c"] += 1
            self._reset(taken)
        leaving = self._leaving.get((address, port_uc))
        if leaving is not None:  # its grace ends at once: the new SAs are of the same flow
            self._uninstall(leaving)
        live = [h for h in self.of(impi) if h.state in ("temporary", "established")]
        live.sort(key=lambda held: held.state == "established")
        for held in live[: max(0, len(live) + 1 - MAX_SETS)]:
            if held is not inside:
                self._counters["SA sets over six per direction"] += 1
                self.give_up(held)

    def _next_port_pc(self, address: str) -> int:
        """The next port of this phone's ring that none of its sets uses."""
        first, count = self._settings.port_pc_first, self._settings.port_pc_count
        start = self._ring.get(address, 0)
        for step in range(count):
            port = first + (start + step) % count
            if (address, port) not in self._ports_pc:
                self._ring[address] = (start + step + 1) % count
                return port
        raise BackendError(f"all {count} protected client ports towards {address} are in use")

    def _next_spis(self, spi_c: int, spi_s: int) -> tuple[int, int]:
        """Two SPIs of ours that differ from the phone's (TS 33.203 §7.2)."""
        found: list[int] = []
        while len(found) < 2:
            if self._spi not in (spi_c, spi_s):
                found.append(self._spi)
            self._spi = self._spi + 1 if self._spi < _LAST_SPI else _FIRST_SPI
        return found[0], found[1]

    def _live_until(self, held: PhoneSas, lifetime_s: float) -> None:
        loop = asyncio.get_running_loop()
        expires_at = loop.time() + lifetime_s
        if expires_at <= held.expires_at or held.state in ("closing", "gone"):
            return
        held.expires_at = expires_at
        if held.timer is not None:
            held.timer.cancel()
        held.timer = loop.call_at(expires_at, self._expire, held)

    def _expire(self, held: PhoneSas) -> None:
        self._counters[f"SA sets expired: {held.state}"] += 1
        self._reset(held)

    def _reset(self, held: PhoneSas) -> None:
        """Forget it and reset what still runs inside it; the SAs go when the resets have left."""
        if held.state == "gone":
            return
        held.state = "gone"
        if held.timer is not None:
            held.timer.cancel()
        flow = (held.sas.phone_address, held.sas.port_uc)
        if self._by_flow.get(flow) is held:
            del self._by_flow[flow]
        self._leaving[flow] = held
        sets = self._by_impi[held.impi]
        sets.remove(held)
        if not sets:
            del self._by_impi[held.impi]
        for connection in list(held.accepted):
            connection.abort()
        if held.link is not None:
            held.link.abort()
        held.timer = asyncio.get_running_loop().call_later(RESET_GRACE_S, self._uninstall, held)

    def _uninstall(self, held: PhoneSas) -> None:
        if held.timer is None:
            return
        held.timer.cancel()
        held.timer = None
        del self._leaving[held.sas.phone_address, held.sas.port_uc]
        self._backend.remove(held.sas)
        self._ports_pc.discard((held.sas.phone_address, held.sas.port_pc))
        self.count -= 4
        self._counters["SA sets removed"] += 1
