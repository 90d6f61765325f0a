"""The reference core as a whole: CSCFs, listeners, the HSS connection; start, count, stop."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from imsbench.histogram import Histogram
from imsbench.host.backend import SaBackend
from imsbench.host.choose import choose_backend
from simulators.core.cxclient import Cx
from simulators.core.hssclient import HssClient
from simulators.core.icscf import Icscf
from simulators.core.pcscf import Pcscf
from simulators.core.policy import RxPolicy
from simulators.core.scscf import Scscf
from simulators.core.settings import CoreSettings
from simulators.core.transport import ClearRefuser, Kind, SipConnection, listening_socket
from simulators.lag import LoopLag


class ReferenceCore:
    """P-, I- and S-CSCF in the running loop.

    ``backend`` is protected_backend(settings), made before the loop started (its netlink calls are
    synchronous), or None with ipsec off. ``cx`` may be handed in, for tests.
    """

    def __init__(
        self, settings: CoreSettings, backend: SaBackend | None, *, cx: Cx | None = None
    ) -> None:
        self.settings = settings
        self.counters: Counter[str] = Counter()
        self._hss = HssClient(settings) if cx is None else None
        found = cx if cx is not None else self._hss
        assert found is not None
        if (settings.ipsec == "off") != (backend is None):
            raise ValueError(f"ipsec {settings.ipsec} and a backend do not fit together")
        self.backend = backend
        self.scscf = Scscf(settings, found, self.counters)
        icscf = Icscf(found, self.scscf, self.counters)
        self.pcscf = Pcscf(settings, icscf, self.scscf, backend, self.counters)
        self.policy = RxPolicy(settings, self.counters) if settings.pcrf is not None else None
        """The end of Rx; None without a PCRF."""
        if self.policy is not None:
            self.pcscf.use(self.policy)
        self._servers: list[asyncio.Server] = []
        self._refuser: ClearRefuser | None = None
        self._lag: LoopLag | None = None
        self.address = settings.listen
        """Where the unprotected port listens, once started (port 0 was: any)."""

    async def start(self, on_wait: Callable[[float], object] | None = None) -> None:
        """Listen and connect to the HSS; OSError, BackendError or NoConnection say what fails.

        on_wait: called now and then with the seconds the HSS has been waited for; it is waited for
        without end then.
        """
        settings, backend = self.settings, self.backend
        host, port = settings.listen
        self.address = await self._listen("clear", host, port, "")
        self.pcscf.udp.listen(self.address[1])
        if backend is not None:
            backend.attach(asyncio.get_running_loop().add_reader)
            await self._listen("protected", host, settings.port_ps, backend.device)
            assert self.pcscf.security is not None
            self.pcscf.udp.listen_protected(settings.port_ps, backend.device, self.pcscf.security)
            if backend.device:
                self._refuser = ClearRefuser(host, settings.port_ps, backend.device, self.counters)
        self._lag = LoopLag()
        if self._hss is not None:
            self._hss.on_rtr = self.scscf.deregister_by_network
            self._hss.on_ppr = self.scscf.replace_profile
            await self._hss.connect(on_wait)
        if self.policy is not None:
            await self.policy.connect()

    async def _listen(self, kind: Kind, host: str, port: int, device: str) -> tuple[str, int]:
        sock = listening_socket(host, port, device=device)
        server = await asyncio.get_running_loop().create_server(
            lambda: SipConnection(self.pcscf, kind), sock=sock, backlog=4096
        )
        self._servers.append(server)
        address = sock.getsockname()
        return str(address[0]), int(address[1])

    def forget(self) -> None:
        """Lose every phone as a restart does: bindings, calls, SAs at once, connections by RST.

        The HSS and the PCRF are told nothing, and keep what they hold.
        """
        self.counters["states lost"] += 1
        self.scscf.close()
        self.pcscf.forget_all()
        if self.policy is not None:
            self.policy.forget_all()

    def counts(self) -> dict[str, int]:
        """Counters so far, and what is held now."""
        held = {
            "registered": len(self.scscf.registrar),
            "subscribed": self.scscf.reg_events.count,
            "calls": len(self.pcscf.calls),
            "rx_sessions": self.policy.count if self.policy is not None else 0,
            "connections": len(self.pcscf.connections),
            "sas": self.pcscf.security.count if self.pcscf.security is not None else 0,
        }
        return dict(self.counters) | held

    def result(self) -> dict[str, Any]:
        """What the control channel's result says."""
        counts = self.counts()
        peer = Counter(self._hss.peer.counters) if self._hss is not None else Counter()
        if self.policy is not None:
            peer += self.policy.peer.counters
        lag = self._lag.histogram if self._lag is not None else Histogram()
        return {
            "loop_lag": lag.to_json(),
            "steady_faults": self.pcscf.impairment.faults.to_json(),
            "counters": dict(self.counters) | {f"Diameter {k}": n for k, n in peer.items()},
            "registered": counts["registered"],
            "subscribed": counts["subscribed"],
            "calls": self.pcscf.calls.states(),
            "rx_sessions": counts["rx_sessions"],
            "connections": counts["connections"],
            "sas": counts["sas"],
            "backend": self.backend.name if self.backend is not None else "off",
            "backend_counters": self.backend.counters() if self.backend is not None else {},
            "cpu_s": time.process_time(),
        }

    async def close(self, *, keep_backend: bool = False) -> None:
        """Stop listening, drop connections and SAs, leave the HSS.

        keep_backend: leave the SAs to the namespace, which ends with this process. Without them, what
        the kernel still has to send for the connections (a FIN, once more) would leave in clear.
        """
        if self._lag is not None:
            self._lag.close()
        for server in self._servers:
            server.close()
        if self._refuser is not None:
            self._refuser.close()
        self.scscf.close()
        self.pcscf.close()
        for _ in range(3):  # what was accepted meanwhile, and the ends of what was aborted
            await asyncio.sleep(0)
            self.pcscf.close()
        if self._hss is not None:
            await self._hss.close()
        if self.policy is not None:
            await self.policy.close()
        if self.backend is not None and not keep_backend:
            self.backend.close()


def protected_ports(settings: CoreSettings) -> tuple[tuple[int, int], ...]:
    """(first, last) of the ranges of the P-CSCF's protected ports."""
    last = settings.port_pc_first + settings.port_pc_count - 1
    return (settings.port_ps, settings.port_ps), (settings.port_pc_first, last)


def protected_backend(settings: CoreSettings) -> SaBackend | None:
    """The SA backend of this host for these settings, None with ipsec off.

    BackendError says what is missing. Call it before a loop runs.
    """
    if settings.ipsec == "off":
        return None
    ports = protected_ports(settings)
    return choose_backend(settings.ipsec, "pcscf", settings.ip_version, ports)
