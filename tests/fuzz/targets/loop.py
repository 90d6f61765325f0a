"""An event loop for targets that are asyncio protocols, and a transport that leads nowhere."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class NowhereTransport(asyncio.Transport):
    """Keeps what is written; closing it is remembered."""

    def __init__(self, peer: tuple[str, int], local: tuple[str, int]) -> None:
        super().__init__({"peername": peer, "sockname": local})
        self.written: list[bytes] = []
        self.closed = False

    def write(self, data: Any) -> None:
        if not self.closed:
            self.written.append(bytes(data))

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True


class Loop:
    """Runs one coroutine for each input; what the loop's handlers raise is raised here."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(self._note)
        self._error: BaseException | None = None

    def __del__(self) -> None:
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The coroutine's result."""
        result = self._loop.run_until_complete(work)
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        return result

    def _note(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self._error = context.get("exception") or AssertionError(context["message"])


async def turns(count: int) -> None:
    """Let what is ready run, and what that makes ready."""
    for _ in range(count):
        await asyncio.sleep(0)
