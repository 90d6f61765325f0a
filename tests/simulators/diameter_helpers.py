"""A Diameter peer made of a plain socket, for tests that need bytes no Peer would send."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from simulators.base import (
    CapabilitiesExchangeAnswer,
    CapabilitiesExchangeRequest,
    DiameterMessage,
    VendorSpecificApplicationId,
    decode,
)
from simulators.cx import APPLICATION_CX
from simulators.framing import MessageReader, parse_header

T = TypeVar("T")
M = TypeVar("M", bound=DiameterMessage)


def run(work: Coroutine[Any, Any, T], limit_s: float = 10.0) -> T:
    """Run one test's coroutine, never longer than ten seconds or what is given."""

    async def bounded() -> T:
        async with asyncio.timeout(limit_s):
            return await work

    return asyncio.run(bounded())


def cer(**values: Any) -> CapabilitiesExchangeRequest:
    """A CER that a Cx peer accepts."""
    one = VendorSpecificApplicationId(vendor_id=10415, auth_application_id=APPLICATION_CX)
    complete: dict[str, Any] = {
        "origin_host": b"raw",
        "origin_realm": b"home",
        "host_ip_address": ["127.0.0.1"],
        "vendor_id": 0,
        "product_name": "raw socket",
        "vendor_specific_application_id": [one],
    }
    return CapabilitiesExchangeRequest(**complete | values)


class RawPeer:
    """A socket that speaks whole messages."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._messages = MessageReader()
        self._queue: list[bytes] = []

    @classmethod
    async def connect(cls, address: tuple[str, int], *, exchange: bool = True) -> RawPeer:
        """Connected, and capabilities exchanged unless told otherwise."""
        raw = cls(*await asyncio.open_connection(*address))
        if exchange:
            raw.send(cer().as_bytes())
            assert (await raw.answer(CapabilitiesExchangeAnswer)).result_code == 2001
        return raw

    def send(self, data: bytes) -> None:
        """Write octets."""
        self._writer.write(data)

    async def drain(self) -> None:
        """Wait until they left."""
        await self._writer.drain()

    async def receive(self) -> bytes:
        """The next whole message; EOFError when the other side closed."""
        while not self._queue:
            data = await self._reader.read(65536)
            if not data:
                raise EOFError
            self._queue += self._messages.feed(data)
        return self._queue.pop(0)

    async def answer(self, cls: type[M]) -> M:
        """The next message, decoded."""
        data = await self.receive()
        return decode(data, parse_header(data), cls)

    async def closed(self) -> bool:
        """Wait until the other side closes; False if it says something instead."""
        try:
            await self.receive()
        except (EOFError, ConnectionError):
            await self.close()
            return True
        return False

    async def close(self) -> None:
        """Close the socket."""
        self._writer.close()
        await asyncio.wait((asyncio.ensure_future(self._writer.wait_closed()),), timeout=1)
