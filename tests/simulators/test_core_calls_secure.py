"""Calls of phones inside their SAs, with a backend that only remembers (TS 33.203 §7.1, TS 24.229 §5.2.6)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from imsbench.protocol.secagree import parse_security
from imsbench.protocol.sip import Malformed, Request, Response, serialize_message
from imsbench.protocol.stream import SipReader
from simulators.core.service import ReferenceCore
from tests.simulators.call_helpers import (
    Callee,
    Caller,
    CallPhone,
    answered,
    ends,
    free_port,
    run,
    sdp,
)
from tests.simulators.test_core_security import FakeBackend, SecurePhone, secure


class ProtectedPhone(SecurePhone, CallPhone):
    """Requests leave from port_uc and come to port_us; responses go back where the request came."""

    def __init__(self, core: ReferenceCore, n: int = 0) -> None:
        super().__init__(core, n)
        self.called: asyncio.StreamWriter | None = None
        self.accepted: list[asyncio.StreamWriter] = []

    @property
    def port(self) -> int:
        """What Via and Contact show."""
        return self.port_us

    @property
    def port_ps(self) -> int:
        """The P-CSCF's protected server port."""
        return parse_security([self.security_server])[0].port_s

    def send(self, message: Request | Response) -> None:
        """See CallPhone."""
        writer = self.writer
        if isinstance(message, Response) and self.called is not None:
            writer = self.called
        writer.write(serialize_message(message))

    async def listen(self) -> None:
        """Serve port_us."""

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.notified_from.append(writer.get_extra_info("peername")[1])
            self.called = writer
            self.accepted.append(writer)
            sip = SipReader()
            while data := await reader.read(65536):
                for message in sip.feed(data):
                    assert not isinstance(message, Malformed)
                    self.inbox.put_nowait(message)

        self.server = await asyncio.start_server(serve, "127.0.0.1", self.port_us)

    async def stop(self) -> None:
        """Close everything."""
        await super().stop()
        for writer in self.accepted:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def attach(self) -> ProtectedPhone:
        """Register inside new SAs."""
        await self.listen()
        ok = await self.register_inside()
        assert ok.status == 200
        self.service_route = ok.get_all("service-route")
        return self


@asynccontextmanager
async def two_protected(
    **changes: Any,
) -> AsyncIterator[tuple[ReferenceCore, ProtectedPhone, ProtectedPhone]]:
    """A core with sec-agree and two phones registered inside their SAs."""
    async with secure(FakeBackend(), listen=("127.0.0.1", free_port()), **changes) as core:
        caller = await ProtectedPhone(core, 0).attach()
        callee = await ProtectedPhone(core, 1).attach()
        try:
            yield core, caller, callee
        finally:
            await caller.stop()
            await callee.stop()


def test_a_call_goes_from_port_uc_to_port_us_and_back() -> None:
    async def scenario() -> None:
        async with two_protected() as (core, caller, callee):
            a = Caller(caller, callee.subscriber.impu_tel)
            a.routes[0] = f"<sip:127.0.0.1:{caller.port_ps};lr>"
            a.invite(("require", "sec-agree"), ("security-verify", caller.security_server))
            await caller.response(100, "INVITE")
            b = await Callee.rings(callee)
            assert b.invited.get("security-verify") is None
            assert b.routes[0] == f"<sip:mt@127.0.0.1:{callee.port_ps};lr>"
            assert b.routes[-1] == f"<sip:mo@127.0.0.1:{caller.port_ps};lr>"
            via = b.invited.values("via")[0]
            assert via.startswith(f"SIP/2.0/TCP 127.0.0.1:{callee.port_ps};")
            b.answer(180)
            await a.progress(180)
            b.answer(200, body=sdp(callee))
            await a.progress(200)
            a.ack()
            await b.takes("ACK")
            await ends(a, b)
            a, b = await answered(caller, callee)
            await ends(b, a)
            for phone in (caller, callee):
                held = core.pcscf.phone(phone.subscriber.impi)
                assert held is not None
                assert held.sas is not None
                assert phone.notified_from == [held.sas.sas.port_pc]

    run(scenario)


def test_a_security_verify_that_differs_is_494() -> None:
    async def scenario() -> None:
        async with two_protected() as (core, caller, callee):
            a = Caller(caller, callee.subscriber.impu_tel)
            a.invite(("security-verify", "ipsec-3gpp;alg=null"))
            refused = await a.fails(494)
            assert refused.get("security-server") == caller.security_server
            await callee.silence()
            assert core.counts()["calls"] == 0

    run(scenario)


def test_calls_need_sas_and_their_own_address() -> None:
    async def scenario() -> None:
        async with two_protected() as (core, caller, callee):
            stranger = CallPhone(core, 2)
            await stranger.connect()
            a = Caller(stranger, f"tel:+{callee.subscriber.msisdn}")
            a.invite()
            await a.fails(403)
            b = Caller(caller, callee.subscriber.impu_sip)
            invite = b.build("INVITE", body=sdp(caller))
            invite.headers = [
                (name, "<sip:x@192.0.2.1>" if name == "contact" else value)
                for name, value in invite.headers
            ]
            b.invited = invite
            caller.send(invite)
            await b.fails(403)
            assert core.counters["refused: foreign address in Via or Contact"] == 1
            await callee.silence()

    run(scenario)


def test_a_call_outlives_new_sas() -> None:
    async def scenario() -> None:
        async with two_protected() as (_, caller, callee):
            a, b = await answered(caller, callee)
            await callee.close()
            callee.offer()
            assert (await callee.register_inside()).status == 200
            await ends(a, b)

    run(scenario)
