"""The P-CSCF's own connection to a phone: port_pc -> port_us, inside SA pair 2 (TS 33.203 §7.1).

In clear there is one only to phones that use UDP, for what is too large for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from simulators.core.transport import ConnectionOwner, SipConnection, connect

if TYPE_CHECKING:
    from simulators.core.security import PhoneSas

CONNECT_TIMEOUT_S = 32.0

OnFailed = Callable[[], None]


class PhoneLink:
    """Opened when there is something to send, and again after it was closed or reset."""

    __slots__ = (
        "_closed", "_connection", "_device", "_far_end", "_near_end", "_opening", "_owner", "_queue",
        "_sas",
    )  # fmt: skip

    def __init__(
        self,
        owner: ConnectionOwner,
        near_end: tuple[str, int],
        far_end: tuple[str, int],
        *,
        device: str = "",
        sas: PhoneSas | None = None,
    ) -> None:
        """near_end: our address and port, 0: any; sas: what carries it."""
        self._owner = owner
        self._near_end = near_end
        self._far_end = far_end
        self._sas = sas
        self._device = device
        self._connection: SipConnection | None = None
        self._opening: asyncio.Task[None] | None = None
        self._queue: list[tuple[bytes, OnFailed]] = []
        self._closed = False

    def send(self, data: bytes, on_failed: OnFailed) -> None:
        """Send a request, opening the connection if need be; on_failed if that is not possible."""
        if self._connection is not None and self._connection.write(data):
            return
        if self._closed:
            on_failed()
            return
        self._queue.append((data, on_failed))
        if self._opening is None:
            self._opening = asyncio.get_running_loop().create_task(self._open())

    async def _open(self) -> None:
        counters = self._owner.counters
        try:
            sock = await connect(
                *self._near_end,
                self._far_end,
                device=self._device,
                timeout_s=CONNECT_TIMEOUT_S,
            )
            connection = SipConnection(self._owner, "own")
            connection.sas = self._sas
            await asyncio.get_running_loop().create_connection(lambda: connection, sock=sock)
        except OSError as error:  # TimeoutError is one
            counters[f"connections to phones failed: {_named(error)}"] += 1
            self._opening = None
            queue, self._queue = self._queue, []
            for _, on_failed in queue:
                on_failed()
            return
        again = self._connection is not None
        counters["connections to phones reopened" if again else "connections to phones opened"] += 1
        self._connection = connection
        self._opening = None
        queue, self._queue = self._queue, []
        for data, on_failed in queue:
            if not connection.write(data):
                on_failed()

    def abort(self) -> None:
        """Close for good, at once."""
        self._closed = True
        if self._opening is not None:
            self._opening.cancel()
        if self._connection is not None:
            self._connection.abort()
        queue, self._queue = self._queue, []
        for _, on_failed in queue:
            on_failed()


def _named(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "timeout"
    return (error.strerror or type(error).__name__).lower()
