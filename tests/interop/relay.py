"""freeDiameter as a relay between a core and the simulators: one daemon, started with its own files."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from simulators.base import DiameterMessage
from simulators.codec import Result
from simulators.connection import Connection
from simulators.cx import CX
from simulators.hss import HssNode
from simulators.hss import Procedures as Hss
from simulators.pcrf import PcrfNode
from simulators.peer import Peer
from simulators.rx import RX
from tests.simulators.dissection import Tap
from tests.simulators.process_helpers import free_port
from tests.simulators.test_hss import PEOPLE

DAEMON = "freeDiameterd"
REALM = PEOPLE.home_domain
WATCHDOG_S = 6
"""The shortest Tw there is (RFC 3539 §3.4.1)."""
OPEN_S = 10.0
_CONFIGURATION = """
Identity = "relay.{realm}";
Realm = "{realm}";
Port = {port};
SecPort = 0;
No_SCTP;
No_IPv6;
ListenOn = "127.0.0.1";
TwTimer = {watchdog_s};
TcTimer = 1;
LoadExtension = "dict_nasreq.fdx";
LoadExtension = "dict_dcca.fdx";
LoadExtension = "dict_dcca_3gpp.fdx";
LoadExtension = "acl_wl.fdx" : "{folder}/acl.conf";
{peers}
"""
_PEER = 'ConnectPeer = "{name}" {{ No_TLS; ConnectTo = "127.0.0.1"; Port = {port}; }};'


def lacking() -> str:
    """What is missing on this machine, as a reason to skip; "" if nothing is."""
    return "" if shutil.which(DAEMON) else (
        "needs freeDiameter: apt-get install freediameterd freediameter-extensions"
    )  # fmt: skip


class Site:
    """HSS, PCRF, the relay, and a node of the core's that is connected to the relay only."""

    def __init__(self, folder: Path) -> None:
        self.hss = HssNode(Hss(PEOPLE), origin_host=f"hss.{REALM}", origin_realm=REALM)
        self.pcrf = PcrfNode(origin_host=f"pcrf.{REALM}", origin_realm=REALM)
        self.asked: list[DiameterMessage] = []
        """What came to the core's node."""
        self.core = Peer(
            origin_host=f"cscf.{REALM}",
            origin_realm=REALM,
            applications=(CX, RX),
            on_request=self._on_request,
            watchdog_s=WATCHDOG_S / 2,  # so that ours is the first to ask
        )
        self.taps = {"core": Tap(), "hss": Tap(), "pcrf": Tap()}
        """What passed at each of the relay's three connections."""
        self.log = folder / "freediameter.log"
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    async def open(self) -> None:
        """Start everything; TimeoutError if the relay is not connected in time."""
        hss = await self.taps["hss"].relay(await self.hss.peer.listen("127.0.0.1", 0))
        pcrf = await self.taps["pcrf"].relay(await self.pcrf.peer.listen("127.0.0.1", 0))
        port = free_port()
        (self._folder / "acl.conf").write_text(f"ALLOW_IPSEC *.{REALM}\n")
        configuration = self._folder / "freediameter.conf"
        named = ((f"hss.{REALM}", hss[1]), (f"pcrf.{REALM}", pcrf[1]))
        peers = "\n".join(_PEER.format(name=name, port=at) for name, at in named)
        configuration.write_text(
            _CONFIGURATION.format(
                realm=REALM, port=port, folder=self._folder, watchdog_s=WATCHDOG_S, peers=peers
            )
        )
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [DAEMON, "-c", str(configuration)], stdout=log, stderr=subprocess.STDOUT
            )
        async with asyncio.timeout(OPEN_S):
            while not (self.hss.peer.connections and self.pcrf.peer.connections):
                assert self._process.poll() is None, self.log.read_text()
                await asyncio.sleep(0.05)
        address = await self.taps["core"].relay(("127.0.0.1", port))
        await self.core.connect(*address, timeout_s=OPEN_S)

    async def close(self) -> None:
        """Say good-bye, end the daemon."""
        for peer in (self.core, self.hss.peer, self.pcrf.peer):
            await peer.close()
        if self._process is not None:
            self._process.kill()  # at SIGTERM it waits up to 16 s for who is gone already
            self._process.wait()
        for tap in self.taps.values():
            await tap.finished()

    async def ask(self, request: DiameterMessage) -> DiameterMessage:
        """A request of the core's node, as its own."""
        request.origin_host = request.origin_realm = None
        request.destination_host = None
        request.destination_realm = REALM.encode()
        return await self.core.request(request)

    def _on_request(self, request: DiameterMessage, _connection: Connection) -> DiameterMessage:
        self.asked.append(request)
        return request.answer(result_code=Result.SUCCESS)


@asynccontextmanager
async def relayed(folder: Path) -> AsyncIterator[Site]:
    """A site that is up."""
    site = Site(folder)
    try:
        await site.open()
        yield site
    finally:
        await site.close()
