"""Diameter peer over TCP (RFC 6733, watchdog of RFC 3539), as server, as client, or both.

    peer = Peer(origin_host="icscf.ims…", origin_realm="ims…", applications=(CX,), on_request=handler)
    address = await peer.listen("127.0.0.1", 3868)           server: (address, port) it listens on
    await peer.connect("127.0.0.1", 3868, timeout_s=10)      client: returns once capabilities are exchanged,
                                                             NoConnection if they are not by then; whatever
                                                             happens, it goes on reconnecting until close()
    answer = await peer.request(UserAuthorizationRequest(user_name=…), timeout_s=5.0)
    await peer.close()                                       DPR, DPA, then the sockets

``request`` fills in Session-Id, Origin-Host, Origin-Realm and Destination-Realm where they are None; with
Destination-Host set it goes to the peer of that name, or to a relay. It raises NoConnection,
AnswerTimeout or BadAnswer, all of them PeerError. An answer is a message of the request's answer class, or
an ErrorAnswer where the E bit is set; ``answer.outcome`` is "2001" or "exp. 2002".

``on_request(request, connection)`` returns the answer (``request.answer(result_code=Result.SUCCESS)``), an
awaitable of it, or None for silence; Origin-Host and -Realm are filled in. It may raise BadMessage to refuse
with a result code; any other exception is answered 5012, counted as ``handler_failures`` and logged. Without
a handler every request is answered 3001.

A bad message is answered and never fatal: 3001 command, 3007 application, 3008 header bits, and what
``read_avps`` finds (3009, 5001, 5004, 5005, 5009, 5014). A stream that cannot be cut into messages is closed
and counted (``framing_errors``). ``peer.counters`` names everything that happened.

Theory of operation. One Connection is one asyncio Protocol: bytes in, messages cut, each either base
protocol (handled here), an answer (matched by Hop-by-Hop to its future) or a request (to the handler). The
watchdog (watchdog.py) is one timer per connection, set again lazily: data_received only notes the time.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from simulators.base import Application, DiameterMessage, DisconnectCause
from simulators.connection import AnswerTimeout, BadAnswer, Connection, NoConnection, PeerError

__all__ = ["AnswerTimeout", "BadAnswer", "Connection", "NoConnection", "Peer", "PeerError"]

Handler = Callable[
    [DiameterMessage, Connection], "DiameterMessage | Awaitable[DiameterMessage | None] | None"
]
Observer = Callable[[DiameterMessage, DiameterMessage, float], None]

RECONNECT_FIRST_S = 0.1
RECONNECT_MOST_S = 5.0
"""Back-off of a client: doubled from the first to the most; RFC 6733 §2.1 proposes 30 s for Tc, too long
for a measurement that waits."""

log = logging.getLogger(__name__)


class Peer:
    """One Diameter node: its identity, its applications, its connections."""

    def __init__(
        self,
        *,
        origin_host: str,
        origin_realm: str,
        applications: Sequence[Application] = (),
        on_request: Handler | None = None,
        on_answered: Observer | None = None,
        product_name: str = "imsbench",
        watchdog_s: float = 30.0,
        seed: int | None = None,
    ) -> None:
        self.origin_host = origin_host.encode()
        """Our DiameterIdentity."""
        self.origin_realm = origin_realm.encode()
        """Our realm."""
        self.applications = {one.id: one for one in applications}
        """What we speak, by application id."""
        self.on_request = on_request
        """Serves requests; see the module's text."""
        self.on_answered = on_answered
        """Told (request, answer, seconds from its last byte read to the answer's first byte written)."""
        self.product_name = product_name
        """Product-Name of CER and CEA."""
        self.watchdog_s = watchdog_s
        """Tw of RFC 3539 §3.4.1, before its jitter of 2 s."""
        self.random = random.Random(seed)
        """Jitter and first identifiers."""
        self.origin_state_id = int(time.time()) & 0xFFFFFFFF
        """Grows with each start (RFC 6733 §8.16)."""
        self.counters: Counter[str] = Counter()
        """What happened, by name."""
        self.connections: list[Connection] = []
        """Open ones: capabilities exchanged."""
        self._all: set[Connection] = set()
        self._servers: list[asyncio.Server] = []
        self._clients: list[asyncio.Task[None]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = False
        self._session_high = self.origin_state_id
        self._session_low = 0
        # RFC 6733 §3: high 12 bits of the clock, 20 random bits, then counted up.
        self._end_to_end = (self.origin_state_id & 0xFFF) << 20 | self.random.getrandbits(20)

    # --- public -------------------------------------------------------------------------------

    async def listen(self, host: str, port: int) -> tuple[str, int]:
        """Serve on this address; the one in use is returned (port 0: any). OSError if it is taken."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            lambda: Connection(self, initiator=False), host, port, backlog=128
        )
        self._servers.append(server)
        address = server.sockets[0].getsockname()
        return str(address[0]), int(address[1])

    async def connect(self, host: str, port: int, *, timeout_s: float = 10.0) -> Connection:
        """Keep a connection to this peer from now on; return it once it is open.

        NoConnection if it is not open within timeout_s; the attempts go on all the same.
        """
        first: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()
        self._clients.append(asyncio.create_task(self._keep_connected(host, port, first)))
        try:
            return await asyncio.wait_for(first, timeout_s)
        except TimeoutError:
            raise NoConnection(
                f"no Diameter connection to {host}:{port} in {timeout_s:g} s"
            ) from None

    async def request(self, message: DiameterMessage, timeout_s: float = 5.0) -> DiameterMessage:
        """Send a request and wait for its answer.

        NoConnection: none open, or lost meanwhile; AnswerTimeout: none in time; BadAnswer: undecodable.
        """
        connection = self.connection_to(message.destination_host)
        if connection is None:
            self.counters["requests_without_connection"] += 1
            raise NoConnection(f"{message.name}: no open Diameter connection")
        return await connection.request(message, timeout_s)

    def connection_to(self, destination_host: bytes | None = None) -> Connection | None:
        """The open connection to the peer of this name, else to a relay; without a name any.

        One that is not suspect if possible, and the newest: an older one may be half open.
        """
        open_ones = self.connections[::-1]
        if destination_host is not None:
            named = [one for one in open_ones if one.remote_host == destination_host]
            # RFC 6733 §6.1.4: who is no peer of ours is reached through a relay
            open_ones = named or [one for one in open_ones if one.relays]
        return min(open_ones, key=lambda one: one.suspect, default=None)

    async def close(self, cause: DisconnectCause = DisconnectCause.REBOOTING) -> None:
        """Stop listening and reconnecting; DPR on every open connection, then close all."""
        self._closing = True
        for server in self._servers:
            server.close()
        for task in self._clients:
            task.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)
        await asyncio.gather(*(one.disconnect(cause) for one in list(self._all)))
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def restart(self, down_s: float) -> None:
        """Be gone as a process that is restarted: connections reset, nobody listens; then listen again.

        OSError if somebody else has the address by then. What the node holds is kept.
        """
        addresses = [server.sockets[0].getsockname()[:2] for server in self._servers]
        for server in self._servers:
            server.close()
        self._servers.clear()
        for connection in list(self._all):
            connection.abort()
        self.counters["restarts_injected"] += 1
        await asyncio.sleep(down_s)
        self.origin_state_id += 1  # RFC 6733 §8.16
        for host, port in addresses:
            if not self._closing:
                await self.listen(host, port)

    def new_session_id(self) -> str:
        """A Session-Id that is never used again (RFC 6733 §8.8)."""
        self._session_low += 1
        return f"{self.origin_host.decode()};{self._session_high};{self._session_low}"

    # --- for Connection -----------------------------------------------------------------------

    def next_end_to_end(self) -> int:
        """The next End-to-End identifier."""
        self._end_to_end = (self._end_to_end + 1) & 0xFFFFFFFF
        return self._end_to_end

    def add(self, connection: Connection) -> None:
        """A connection came up at TCP level."""
        self._all.add(connection)

    def opened(self, connection: Connection) -> None:
        """Capabilities are exchanged."""
        self.counters["connections_opened"] += 1
        self.connections.append(connection)

    def closed(self, connection: Connection) -> None:
        """A connection is gone."""
        self._all.discard(connection)
        if connection in self.connections:
            self.connections.remove(connection)
            self.counters["connections_closed"] += 1

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something until it ends or the peer closes."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- private ------------------------------------------------------------------------------

    async def _keep_connected(
        self, host: str, port: int, first: asyncio.Future[Connection]
    ) -> None:
        """Connect, wait for the end, connect again; back off while it fails."""
        loop = asyncio.get_running_loop()
        wait_s = RECONNECT_FIRST_S
        while True:
            connection = Connection(self, initiator=True)
            try:
                await loop.create_connection(lambda: connection, host, port)  # noqa: B023
                await asyncio.shield(connection.opened)
                wait_s = RECONNECT_FIRST_S
                if not first.done():
                    first.set_result(connection)
                await asyncio.shield(connection.ended)
            except (OSError, PeerError) as error:
                self.counters["connects_failed"] += 1
                log.debug("Diameter connection to %s:%s: %s", host, port, error)
            # RFC 6733 §5.5.4: a client that was cut off tries again
            await asyncio.sleep(wait_s * self.random.uniform(0.75, 1.25))
            wait_s = min(2.0 * wait_s, RECONNECT_MOST_S)
