"""Security agreement and the lives of SA sets at the P-CSCF, with a backend that only remembers.

Nothing is encrypted: protected connections run in clear over loopback, everything else is as inside SAs.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from imsbench.host.backend import AddReader, BackendError
from imsbench.protocol import digest
from imsbench.protocol.secagree import Mechanism, SaSet, parse_security, serialize_security
from imsbench.protocol.sip import Request, Response, parse_message, response_to, serialize_message
from imsbench.protocol.stream import SipReader
from simulators.core import security
from simulators.core.service import ReferenceCore
from tests.simulators.core_helpers import DOMAIN, FakeCx, TestPhone, running
from tests.simulators.test_core_registration import run

_PORTS = itertools.count(43_000)


class FakeBackend:
    """Remembers what is installed."""

    name = "fake"
    device = ""

    def __init__(self) -> None:
        self.installed: list[SaSet] = []
        self.order: list[str] = []
        self.refuse = False

    def attach(self, add_reader: AddReader) -> None:
        self.order.append("attach")

    def install(self, sas: SaSet) -> None:
        if self.refuse:
            raise BackendError("no ESP here")
        self.order.append("install")
        self.installed.append(sas)

    def remove(self, sas: SaSet) -> None:
        self.order.append("remove")
        self.installed.remove(sas)

    def counters(self) -> dict[str, int]:
        return {}

    def close(self) -> None:
        self.order.append("close")


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


class SecurePhone(TestPhone):
    """A phone with sec-agree: its protected connection comes from port_uc."""

    def __init__(self, core: ReferenceCore, n: int = 0) -> None:
        super().__init__(core, n)
        self.port_us = free_port()
        self.notified: asyncio.Queue[Request] = asyncio.Queue()
        self.notified_from: list[int] = []
        self.server: asyncio.Server | None = None
        self.security_server = ""
        self.offer()

    def offer(self, alg: str = "hmac-sha-1-96", port_c: int = 0) -> None:
        """A new Security-Client: new SPIs and port_uc, the old port_us."""
        number = next(_PORTS)
        self.client = Mechanism(
            alg, "null", number, number + 100_000, port_c or free_port(), self.port_us
        )

    def security(self, *, verify: bool = False) -> None:
        """Put the headers of sec-agree into all requests from now on."""
        self.extra = [
            ("require", "sec-agree"),
            ("proxy-require", "sec-agree"),
            ("security-client", serialize_security([self.client])),
        ]
        if verify:
            self.extra.append(("security-verify", self.security_server))

    async def listen(self) -> None:
        """Serve port_us: NOTIFYs are answered and queued."""

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.notified_from.append(writer.get_extra_info("peername")[1])
            sip = SipReader()
            while data := await reader.read(65536):
                for message in sip.feed(data):
                    assert isinstance(message, Request)
                    writer.write(serialize_message(response_to(message, 200, "OK")))
                    self.notified.put_nowait(message)
            writer.close()

        self.server = await asyncio.start_server(serve, "127.0.0.1", self.port_us)

    async def protected(self) -> None:
        """Connect from port_uc to port_ps."""
        self.local_port = self.client.port_c
        port_ps = parse_security([self.security_server])[0].port_s
        await self.connect(("127.0.0.1", port_ps))

    async def challenged(self) -> Response:
        """REGISTER in clear: the 401; the clear connection is left."""
        await self.connect()
        self.security()
        unauthorized = await self.exchange(self.initial())
        self.security_server = unauthorized.get("security-server") or ""
        await self.close()
        return unauthorized

    async def register_inside(self) -> Response:
        """The whole registration, through a new set of SAs."""
        self.local_port = 0
        unauthorized = await self.challenged()
        await self.protected()
        self.security(verify=True)
        return await self.exchange(self.register_request(self.answer_to(unauthorized)))

    async def stop(self) -> None:
        await self.close()
        if self.server is not None:
            self.server.close()


def secure(
    backend: FakeBackend, cx: FakeCx | None = None, **changes: Any
) -> AbstractAsyncContextManager[ReferenceCore]:
    """A core with sec-agree on ports of its own."""
    first = 20_000 + next(_PORTS) % 1000 * 20
    return running(
        cx, backend=backend, port_ps=free_port(), port_pc_first=first, port_pc_count=64, **changes
    )


def test_a_phone_registers_inside_its_sas_and_is_notified_from_port_pc() -> None:
    async def scenario() -> None:
        backend = FakeBackend()
        async with secure(backend) as core:
            phone = SecurePhone(core)
            await phone.listen()
            unauthorized = await phone.challenged()
            (sas,) = backend.installed  # before the 401
            (server,) = parse_security([phone.security_server])
            assert server.q > 0
            assert (sas.spi_uc, sas.spi_us) == (phone.client.spi_c, phone.client.spi_s)
            assert (sas.spi_pc, sas.spi_ps) == (server.spi_c, server.spi_s)
            assert (sas.port_pc, sas.port_ps) == (server.port_c, server.port_s)
            await phone.protected()
            phone.security(verify=True)
            ok = await phone.exchange(phone.register_request(phone.answer_to(unauthorized)))
            assert ok.status == 200
            assert phone.aka is not None
            assert sas.integrity_key == phone.aka.ik + bytes(4)
            assert core.counts()["sas"] == 4
            subscribed = await phone.exchange(phone.subscribe_request())
            assert subscribed.status == 200
            notify = await asyncio.wait_for(phone.notified.get(), 3)
            assert notify.method == "NOTIFY"
            assert phone.notified_from == [server.port_c]
            await phone.stop()

    run(scenario)


def test_deregistration_is_answered_inside_and_sas_go_after_a_grace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(security, "CLOSE_GRACE_S", 0.2)

    async def scenario() -> None:
        backend = FakeBackend()
        async with secure(backend) as core:
            phone = SecurePhone(core)
            await phone.listen()
            await phone.register_inside()
            await phone.exchange(phone.subscribe_request())
            await asyncio.wait_for(phone.notified.get(), 3)
            ok = await phone.exchange(phone.refresh(0))
            assert ok.status == 200
            last = await asyncio.wait_for(phone.notified.get(), 3)
            assert (last.get("subscription-state") or "").startswith("terminated")
            assert len(backend.installed) == 1  # the FINs still run inside
            await phone.close()
            await asyncio.sleep(0.6)
            assert backend.installed == []
            assert core.counts()["sas"] == 0
            phone.offer()
            assert (await phone.register_inside()).status == 200  # and in again
            await phone.stop()

    run(scenario)


def test_a_challenged_refresh_makes_a_new_set_beside_the_old(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(security, "CLOSE_GRACE_S", 0.1)

    async def scenario() -> None:
        backend = FakeBackend()
        async with secure(backend, reauthenticate=True) as core:
            phone = SecurePhone(core)
            await phone.listen()
            await phone.register_inside()
            old_verify = phone.security_server
            phone.offer()
            phone.security(verify=True)
            unauthorized = await phone.exchange(phone.refresh())  # over the old set
            phone.security_server = unauthorized.get("security-server") or ""
            assert phone.security_server != old_verify
            assert len(backend.installed) == 2
            old, new = backend.installed
            assert (old.port_us, old.port_ps) == (new.port_us, new.port_ps)
            assert old.port_pc != new.port_pc
            await phone.close()
            await phone.protected()
            phone.security(verify=True)
            ok = await phone.exchange(phone.register_request(phone.answer_to(unauthorized)))
            assert ok.status == 200
            assert len(backend.installed) == 2  # until something came by the new one
            assert (await phone.exchange(phone.subscribe_request())).status == 200
            await asyncio.sleep(0.6)
            assert backend.installed == [new]
            await asyncio.wait_for(phone.notified.get(), 3)
            assert phone.notified_from == [new.port_pc]
            await phone.stop()

    run(scenario)


def test_an_unchallenged_refresh_keeps_the_sas() -> None:
    async def scenario() -> None:
        backend = FakeBackend()
        async with secure(backend) as core:
            phone = SecurePhone(core)
            await phone.register_inside()
            phone.offer()
            phone.security(verify=True)
            assert (await phone.exchange(phone.refresh())).status == 200
            assert len(backend.installed) == 1
            assert core.counts()["sas"] == 4
            await phone.stop()

    run(scenario)


def test_the_unprotected_port_takes_only_register() -> None:
    async def scenario() -> None:
        async with secure(FakeBackend()) as core:
            phone = SecurePhone(core)
            await phone.connect()
            answer = await phone.exchange(phone.subscribe_request())
            assert answer.status == 403
            assert core.counters["refused: not REGISTER on the unprotected port"] == 1
            await phone.stop()

    run(scenario)


def test_without_sec_agree_421_without_common_mechanism_494() -> None:
    async def scenario() -> None:
        backend = FakeBackend()
        async with secure(backend) as core:
            phone = SecurePhone(core)
            await phone.connect()
            plain = await phone.exchange(phone.initial())
            assert (plain.status, plain.get("require")) == (421, "sec-agree")
            phone.offer("hmac-md5-96")
            phone.security()
            other = await phone.exchange(phone.initial())
            assert other.status == 494
            assert "alg=hmac-sha-1-96" in (other.get("security-server") or "")
            phone.extra = [h for h in phone.extra if h[0] != "security-client"]
            assert (await phone.exchange(phone.initial())).status == 494
            assert backend.installed == []
            await phone.stop()

    run(scenario)


@pytest.mark.parametrize(
    "security_client",
    [
        "ipsec-3gpp;alg=hmac-sha-1-96;spi-c=0;spi-s=2;port-c=3;port-s=4",
        "ipsec-3gpp;spi-c=1;spi-s=2;port-c=3;port-s=4",
        "ipsec-3gpp;alg=hmac-sha-1-96;spi-c=2;spi-s=2;port-c=3;port-s=4",
        "ipsec-3gpp;alg=hmac-sha-1-96;spi-c=1;spi-s=2;port-c=3;port-s=4,"
        "ipsec-3gpp;alg=hmac-md5-96;spi-c=1;spi-s=9;port-c=3;port-s=4",
    ],
)
def test_a_broken_security_client_is_400(security_client: str) -> None:
    async def scenario() -> None:
        async with secure(FakeBackend()) as core:
            phone = SecurePhone(core)
            await phone.connect()
            phone.security()
            phone.extra[2] = ("security-client", security_client)
            assert (await phone.exchange(phone.initial())).status == 400
            await phone.stop()

    run(scenario)


def test_an_unknown_extension_is_420() -> None:
    async def scenario() -> None:
        async with secure(FakeBackend()) as core:
            phone = SecurePhone(core)
            await phone.connect()
            phone.security()
            phone.extra.append(("require", "teleport"))
            answer = await phone.exchange(phone.initial())
            assert (answer.status, answer.get("unsupported")) == (420, "teleport")
            await phone.stop()

    run(scenario)


@pytest.mark.parametrize("verify", ["", "ipsec-3gpp;alg=hmac-sha-1-96;spi-c=1;spi-s=2"])
def test_security_verify_must_repeat_what_was_sent(verify: str) -> None:
    async def scenario() -> None:
        async with secure(FakeBackend()) as core:
            phone = SecurePhone(core)
            unauthorized = await phone.challenged()
            await phone.protected()
            phone.security()
            if verify:
                phone.extra.append(("security-verify", verify))
            answer = await phone.exchange(phone.register_request(phone.answer_to(unauthorized)))
            assert answer.status == 494
            assert answer.get("security-server") == phone.security_server
            await phone.stop()

    run(scenario)


def test_security_client_must_stay_as_it_was() -> None:
    async def scenario() -> None:
        async with secure(FakeBackend()) as core:
            phone = SecurePhone(core)
            unauthorized = await phone.challenged()
            await phone.protected()
            phone.offer()
            phone.security(verify=True)
            answer = await phone.exchange(phone.register_request(phone.answer_to(unauthorized)))
            assert answer.status == 494
            assert core.counters["refused: Security-Client changed"] == 1
            await phone.stop()

    run(scenario)


def test_an_identity_does_not_use_anothers_sas() -> None:
    async def scenario() -> None:
        async with secure(FakeBackend()) as core:
            phone, other = SecurePhone(core), SecurePhone(core, 1)
            assert (await phone.register_inside()).status == 200
            assert (await other.register_inside()).status == 200
            request = phone.refresh()
            impi = other.subscriber.impi
            request.headers = [
                (n, digest.refresh_authorization(impi, DOMAIN, f"sip:{DOMAIN}", "n", "r"))
                if n == "authorization"
                else (n, v)
                for n, v in request.headers
            ]
            assert (await phone.exchange(request)).status == 403
            subscribe = phone.subscribe_request()
            subscribe.headers = [
                (n, f"<{other.subscriber.impu_sip}>;tag=x" if n == "from" else v)
                for n, v in subscribe.headers
            ]
            assert (await phone.exchange(subscribe)).status == 403
            await phone.stop()
            await other.stop()

    run(scenario)


def test_a_foreign_contact_or_via_inside_is_403() -> None:
    async def scenario() -> None:
        async with secure(FakeBackend()) as core:
            phone = SecurePhone(core)
            await phone.register_inside()
            for name, value in (
                ("contact", "<sip:x@127.9.9.9:5060>"),
                ("via", "SIP/2.0/TCP 127.9.9.9:5060;branch=z9hG4bKx"),
            ):
                request = phone.refresh()
                request.headers = [(n, value if n == name else v) for n, v in request.headers]
                assert (await phone.exchange(request)).status == 403
            await phone.stop()

    run(scenario)


def test_only_register_before_the_registration() -> None:
    async def scenario() -> None:
        async with secure(FakeBackend()) as core:
            phone = SecurePhone(core)
            await phone.challenged()
            await phone.protected()
            assert (await phone.exchange(phone.subscribe_request())).status == 403
            await phone.stop()

    run(scenario)


def test_a_connection_without_sas_is_closed() -> None:
    async def scenario() -> None:
        async with secure(FakeBackend()) as core:
            reader, writer = await asyncio.open_connection("127.0.0.1", core.settings.port_ps)
            assert await asyncio.wait_for(reader.read(), 2) == b""
            assert core.counters["protected connections without SAs"] == 1
            writer.close()

    run(scenario)


def test_a_backend_that_refuses_is_a_500() -> None:
    async def scenario() -> None:
        backend = FakeBackend()
        backend.refuse = True
        async with secure(backend) as core:
            phone = SecurePhone(core)
            await phone.connect()
            phone.security()
            answer = await phone.exchange(phone.initial())
            assert answer.status == 500
            assert "no ESP here" in (answer.get("warning") or "")
            assert answer.get("www-authenticate") is None
            await phone.stop()

    run(scenario)


def test_port_c_of_another_identity_is_refused_and_temporary_sets_are_replaced() -> None:
    async def scenario() -> None:
        backend = FakeBackend()
        async with secure(backend) as core:
            phone, other = SecurePhone(core), SecurePhone(core, 1)
            await phone.challenged()
            other.offer(port_c=phone.client.port_c)
            await other.connect()
            other.security()
            assert (await other.exchange(other.initial())).status == 403
            phone.call_id = "again"
            phone.local_port = 0
            phone.offer()
            assert (await phone.challenged()).status == 401
            await asyncio.sleep(0.4)
            assert len(backend.installed) == 1
            await phone.stop()
            await other.stop()

    run(scenario)


@pytest.mark.parametrize("registered", [False, True])
def test_a_phone_that_comes_back_with_its_old_port_c_is_served_at_once(registered: bool) -> None:
    async def scenario() -> None:
        backend = FakeBackend()
        async with secure(backend) as core:
            phone = SecurePhone(core)
            await (phone.register_inside() if registered else phone.challenged())
            await phone.close()
            phone.call_id = "after a loss of power"
            phone.local_port = 0
            phone.offer(port_c=phone.client.port_c)  # TS 33.203 §7.1: new SPIs, the same port
            assert (await phone.challenged()).status == 401
            # One flow has one SA: a backend would have refused the new ones beside the old.
            assert backend.order[-3:] == ["install", "remove", "install"]
            await asyncio.sleep(0.4)
            assert len(backend.installed) == 1
            await phone.stop()

    run(scenario)


def test_port_pc_rotates_in_a_ring() -> None:
    async def scenario() -> None:
        async with secure(FakeBackend()) as core:
            phone = SecurePhone(core)
            ports = []
            for _ in range(4):
                phone.offer()
                await phone.challenged()
                ports.append(parse_security([phone.security_server])[0].port_c)
            first = core.settings.port_pc_first
            assert ports == [first, first + 1, first + 2, first + 3]
            await phone.stop()

    run(scenario)


def test_wrong_res_inside_ends_the_temporary_sas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security, "CLOSE_GRACE_S", 0.1)

    async def scenario() -> None:
        backend = FakeBackend()
        async with secure(backend) as core:
            phone = SecurePhone(core)
            unauthorized = await phone.challenged()
            await phone.protected()
            phone.security(verify=True)
            wrong = phone.answer_to(unauthorized, res=b"wrong")
            assert (await phone.exchange(phone.register_request(wrong))).status == 403
            await asyncio.sleep(0.6)
            assert backend.installed == []
            await phone.stop()

    run(scenario)


def test_the_own_connection_is_reopened_after_a_reset() -> None:
    async def scenario() -> None:
        async with secure(FakeBackend()) as core:
            phone = SecurePhone(core)
            connections = 0
            seen: asyncio.Queue[Request] = asyncio.Queue()

            async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                nonlocal connections
                connections += 1
                message = parse_message(await reader.read(65536))
                assert isinstance(message, Request)
                writer.write(serialize_message(response_to(message, 200, "OK")))
                await writer.drain()
                writer.close()
                seen.put_nowait(message)

            phone.server = await asyncio.start_server(once, "127.0.0.1", phone.port_us)
            await phone.register_inside()
            await phone.exchange(phone.subscribe_request())
            await asyncio.wait_for(seen.get(), 3)
            await asyncio.sleep(0.1)
            await phone.exchange(phone.refresh())
            await asyncio.wait_for(seen.get(), 3)
            assert connections == 2
            assert core.counters["connections to phones reopened"] == 1
            await phone.stop()

    run(scenario)


def test_no_more_than_six_sas_per_direction_and_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security, "CLOSE_GRACE_S", 0.1)

    async def scenario() -> None:
        backend = FakeBackend()
        async with secure(backend, reauthenticate=True) as core:
            phone = SecurePhone(core)
            await phone.register_inside()
            for _ in range(4):  # challenged, never answered
                phone.offer()
                phone.security(verify=True)
                assert (await phone.exchange(phone.refresh())).status == 401
                await asyncio.sleep(0.4)
                assert len(backend.installed) <= 3
            assert core.counters["SA sets over six per direction"] == 2
            # The set in use stayed: it still answers.
            assert (await phone.exchange(phone.subscribe_request())).status == 200
            await phone.stop()

    run(scenario)


def test_sas_live_their_margin_beyond_an_expired_registration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(security, "MARGIN_S", 0.5)

    async def scenario() -> None:
        backend = FakeBackend()
        async with secure(backend, min_expires_s=1, expires_s=1) as core:
            phone = SecurePhone(core)
            await phone.challenged()
            phone.offer()
            phone.call_id = "next"
            # The temporary set would live 4 minutes: never shortened, so it is the longer one.
            await phone.register_inside()
            assert core.pcscf.security is not None
            (held,) = core.pcscf.security.of(phone.subscriber.impi)
            now = asyncio.get_running_loop().time()
            assert held.expires_at - now == pytest.approx(240, abs=2)
            await asyncio.sleep(1.2)
            assert core.counts()["registered"] == 0
            assert core.counts()["sas"] == 4
            await phone.stop()

    run(scenario)
