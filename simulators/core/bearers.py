"""Media of an AF session whose bearers the PCRF has yet to report (TS 29.214)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from simulators.rx import FlowStatus, MediaComponentDescription


class Bearers:
    """Those of one AF session; each medium is waited for by its Media-Component-Number.

    expect    what an AAR asks for, before it is sent: the report may come with its answer
    report    what a RAR says
    wait      until each of them is there
    """

    def __init__(self) -> None:
        self._asked: set[int] = set()
        self._missing: set[int] = set()
        self._failed = False
        self._told = asyncio.Event()
        self._closed = False

    def expect(self, media: Iterable[MediaComponentDescription]) -> None:
        """New media get a bearer; one that was removed needs a new one if it comes back."""
        for one in media:
            number = one.media_component_number
            assert number is not None  # ours always have one
            if one.flow_status is FlowStatus.REMOVED:
                self._asked.discard(number)
                self._missing.discard(number)
            elif number not in self._asked:
                self._asked.add(number)
                self._missing.add(number)

    def report(self, components: Iterable[int], *, there: bool) -> None:
        """The bearers of these components are there, or fail; none named: all of the session."""
        named = set(components) or set(self._asked)
        if there:
            self._missing -= named
        elif named & self._missing:
            self._failed = True
        self._told.set()

    def close(self) -> None:
        """The session is over: whoever waits is cancelled."""
        self._closed = True
        self._told.set()

    async def wait(self) -> bool:
        """True when each is there; False as soon as one has failed; CancelledError when it is closed."""
        while self._missing and not self._failed:
            if self._closed:
                raise asyncio.CancelledError
            self._told.clear()
            await self._told.wait()
        return not self._failed
