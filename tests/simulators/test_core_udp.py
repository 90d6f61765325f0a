"""The reference core over UDP: registrations and calls, what is sent again, what goes by TCP instead."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from imsbench.protocol.secagree import parse_security
from imsbench.protocol.sip import (
    Malformed,
    Request,
    Response,
    parse_message,
    response_to,
    serialize_message,
)
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
from tests.simulators.core_helpers import FakeCx, running
from tests.simulators.test_core_security import FakeBackend, SecurePhone, secure

T1 = 0.1
TIMERS = (T1, 4 * T1, 5 * T1)
PADDING = ("subject", "x" * 1300)


class Socket(asyncio.DatagramProtocol):
    """A phone's UDP socket; in the place of its stream's writer, too."""

    def __init__(self) -> None:
        self.received: list[tuple[float, bytes, Any]] = []
        self.on_message: Callable[[Any], None] = lambda _message: None
        self.transport: asyncio.DatagramTransport | None = None
        self.remote: Any = None

    async def open(self, port: int, remote: tuple[str, int]) -> None:
        """Bind to a port, 0: any."""
        self.remote = remote
        loop = asyncio.get_running_loop()
        self.transport, _ = await loop.create_datagram_endpoint(
            lambda: self, local_addr=("127.0.0.1", port)
        )

    def datagram_received(self, data: bytes, addr: Any) -> None:
        """asyncio: one came."""
        self.received.append((asyncio.get_running_loop().time(), data, addr))
        self.on_message(parse_message(data))

    def write(self, data: bytes) -> None:
        """Send a message that was written for TCP."""
        assert self.transport is not None
        self.transport.sendto(data.replace(b"SIP/2.0/TCP", b"SIP/2.0/UDP", 1), self.remote)

    def get_extra_info(self, name: str) -> Any:
        """As a StreamWriter."""
        assert self.transport is not None
        return self.transport.get_extra_info(name)

    def close(self) -> None:
        """Close it."""
        if self.transport is not None:
            self.transport.close()

    async def wait_closed(self) -> None:
        """As a StreamWriter."""

    def times(self, start: bytes) -> list[float]:
        """When each message with this beginning came."""
        return [at for at, data, _ in self.received if data.startswith(start)]


class UdpPhone(CallPhone):
    """A phone on one UDP socket, and with a listener for TCP on the same port."""

    def __init__(self, core: ReferenceCore, n: int = 0) -> None:
        super().__init__(core, n)
        self.socket = Socket()
        self.server: asyncio.Server | None = None
        self.by_tcp: list[Request | Response] = []
        self.silent = False
        """Whether requests are left unanswered."""

    async def connect(self, address: tuple[str, int] | None = None) -> None:
        """Open the socket and the listener."""
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self.server.sockets[0].getsockname()[1]
        await self.socket.open(port, address or self.core.address)
        self.socket.on_message = self._take
        self.writer = self.socket  # type: ignore[assignment]
        CallPhone.opened.append(self)

    def _take(self, message: Any) -> None:
        if not (self.silent and isinstance(message, Request)):
            self._on_message(message)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sip = SipReader()
        while data := await reader.read(65536):
            for message in sip.feed(data):
                assert not isinstance(message, Malformed)
                self.by_tcp.append(message)
                if isinstance(message, Request) and message.method != "ACK":
                    writer.write(
                        serialize_message(response_to(message, 603, "Decline", to_tag="t"))
                    )
        writer.close()

    async def close(self) -> None:
        """Close socket and listener."""
        self.socket.close()
        if self.server is not None:
            self.server.close()
        await asyncio.sleep(0)


def udp_core(cx: FakeCx | None = None, **changes: Any) -> Any:
    """A core whose port is known beforehand, as it stands in Route entries."""
    return running(cx, listen=("127.0.0.1", free_port()), timers=TIMERS, **changes)


def assert_gaps(times: list[float], wanted: list[float]) -> None:
    measured = [later - earlier for earlier, later in pairwise(times)]
    assert len(measured) >= len(wanted)
    for gap, due in zip(measured, wanted, strict=False):
        assert due - 0.01 <= gap <= due + 0.08, (measured, wanted)


def test_a_phone_registers_and_is_notified_by_udp() -> None:
    async def scenario() -> None:
        async with udp_core() as core:
            phone = UdpPhone(core)
            await phone.attach()
            assert (await phone.exchange(phone.subscribe_request())).status == 200
            await asyncio.sleep(0.05)
            starts = [data.partition(b" ")[0] for _, data, _ in phone.socket.received]
            assert starts.count(b"NOTIFY") == 1
            notify = parse_message(phone.socket.received[-1][1])
            assert isinstance(notify, Request)
            assert (notify.get("via") or "").startswith("SIP/2.0/UDP")
            assert {peer for _, _, peer in phone.socket.received} == {core.address}
            assert core.counts()["connections"] == 0
            assert not [name for name in core.counters if "retransmission" in name]

    run(scenario)


def test_a_register_that_comes_again_gets_the_same_answer_and_asks_the_hss_once() -> None:
    async def scenario() -> None:
        cx = FakeCx()
        async with udp_core(cx) as core:
            phone = UdpPhone(core)
            await phone.connect()
            request = phone.initial()
            for _ in range(3):
                phone.send(request)
            await phone.next_response()
            await asyncio.sleep(0.05)
            phone.send(request)
            await asyncio.sleep(0.05)
            assert cx.asked.count("MAR") == 1
            assert len({data for _, data, _ in phone.socket.received}) == 1
            assert core.counters["retransmissions received: REGISTER"] == 3
            assert 1 <= core.counters["retransmissions sent: 401 REGISTER"] <= 3

    run(scenario)


def test_an_answer_lost_as_injected_is_had_by_asking_again() -> None:
    async def scenario() -> None:
        async with udp_core(loss_share=0.8, answers=("REGISTER",)) as core:
            phone = UdpPhone(core)
            await phone.connect()

            async def insist(request: Request) -> Response:
                for _ in range(40):
                    phone.send(request)
                    try:
                        async with asyncio.timeout(0.05):
                            return await phone.next_response()
                    except TimeoutError:
                        continue
                raise AssertionError("never answered")

            unauthorized = await insist(phone.initial())
            ok = await insist(phone.register_request(phone.answer_to(unauthorized)))
            assert ok.status == 200
            assert core.counters["answers lost as injected"] >= 2
            assert core.counters["answered 401"] == core.counters["answered 200"] == 1

    run(scenario)


def test_a_request_of_the_core_is_sent_again_until_it_is_answered() -> None:
    async def scenario() -> None:
        async with udp_core() as core:
            phone = UdpPhone(core)
            await phone.attach()
            phone.silent = True
            assert (await phone.exchange(phone.subscribe_request())).status == 200
            await asyncio.sleep(8 * T1)
            assert_gaps(phone.socket.times(b"NOTIFY"), [T1, 2 * T1, 4 * T1])
            notify = parse_message(phone.socket.received[-1][1])
            assert isinstance(notify, Request)
            phone.send(response_to(notify, 200, "OK"))
            phone.send(response_to(notify, 200, "OK"))
            await asyncio.sleep(0.05)
            sent = len(phone.socket.times(b"NOTIFY"))
            assert core.counters["retransmissions sent: NOTIFY"] == sent - 1
            assert core.counters["retransmissions received: 200 NOTIFY"] == 1
            assert core.counters["responses without a transaction"] == 0
            await asyncio.sleep(5 * T1)
            assert len(phone.socket.times(b"NOTIFY")) == sent

    run(scenario)


def test_a_call_by_udp() -> None:
    async def scenario() -> None:
        async with udp_core() as core:
            caller, callee = UdpPhone(core, 0), UdpPhone(core, 1)
            await caller.attach()
            await callee.attach()
            a, b = await answered(caller, callee)
            await ends(a, b)
            assert core.counters["calls ended: BYE of the caller"] == 1
            assert core.counts()["connections"] == 0
            invites = [d for _, d, _ in callee.socket.received if d.startswith(b"INVITE")]
            assert len(invites) == 1
            assert b"Via: SIP/2.0/UDP" in invites[0].partition(b"\r\n")[2][:20]

    run(scenario)


def test_a_refusal_is_sent_again_until_its_ack_on_both_sides() -> None:
    async def scenario() -> None:
        async with udp_core() as core:
            caller, callee = UdpPhone(core, 0), UdpPhone(core, 1)
            await caller.attach()
            await callee.attach()
            a = Caller(caller, callee.subscriber.impu_tel)
            a.invite()
            await caller.response(100, "INVITE")
            b = await Callee.rings(callee)
            b.answer(486)
            b.answer(486)  # as if the ACK had been lost
            await asyncio.sleep(8 * T1)
            assert_gaps(caller.socket.times(b"SIP/2.0 486"), [T1, 2 * T1, 4 * T1])
            assert len(callee.socket.times(b"ACK")) == 2
            await a.fails(486)
            await asyncio.sleep(0.02)
            sent = len(caller.socket.times(b"SIP/2.0 486"))
            await asyncio.sleep(5 * T1)
            assert len(caller.socket.times(b"SIP/2.0 486")) == sent
            assert core.counters["ACKs missing"] == 0

    run(scenario)


def test_what_is_too_large_for_udp_goes_by_tcp_both_ways() -> None:
    async def scenario() -> None:
        async with udp_core() as core:
            caller, callee = UdpPhone(core, 0), UdpPhone(core, 1)
            await caller.attach()
            await callee.attach()
            reader, writer = await asyncio.open_connection(*core.address)
            invite = Caller(caller, callee.subscriber.impu_tel).build("INVITE", body=sdp(caller))
            invite.headers.append(PADDING)
            writer.write(serialize_message(invite))
            got = b""
            async with asyncio.timeout(3):
                while b"SIP/2.0 603" not in got:
                    got += await reader.read(65536)
            await asyncio.sleep(0.05)
            assert [m.method for m in callee.by_tcp] == ["INVITE", "ACK"]
            assert all((m.get("via") or "").startswith("SIP/2.0/TCP") for m in callee.by_tcp)
            assert not [d for _, d, _ in callee.socket.received if d.startswith(b"INVITE")]
            writer.close()
            await writer.wait_closed()

    run(scenario)


@pytest.mark.parametrize("rport", [True, False])
def test_a_response_goes_to_the_port_of_the_via_unless_rport_asks_for_the_source(
    rport: bool,
) -> None:
    async def scenario() -> None:
        async with udp_core() as core:
            phone, named = UdpPhone(core), Socket()
            await phone.connect()
            await named.open(0, core.address)
            request = phone.initial()
            port = named.get_extra_info("sockname")[1]
            tail = ";rport" if rport else ""
            via = f"SIP/2.0/UDP 127.0.0.1:{port};branch=z9hG4bKv{tail}"
            request.headers[0] = ("via", via)
            phone.send(request)
            await asyncio.sleep(0.1)
            assert (len(phone.socket.received), len(named.received)) == (rport, not rport)
            named.close()

    run(scenario)


def test_inside_sas_each_side_sends_from_its_client_port_to_the_others_server_port() -> None:
    """TS 33.203 §7.1, for UDP."""

    async def scenario() -> None:
        backend = FakeBackend()
        async with secure(backend, timers=TIMERS) as core:
            phone = SecurePhone(core)
            unauthorized = await phone.challenged()
            (server,) = parse_security([phone.security_server])
            sending, serving = Socket(), Socket()
            await sending.open(phone.client.port_c, ("127.0.0.1", server.port_s))
            await serving.open(phone.port_us, None)  # type: ignore[arg-type]
            phone.writer = sending  # type: ignore[assignment]

            def take(message: Any) -> None:
                if isinstance(message, Response):
                    phone._responses.put_nowait(message)
                else:
                    sending.write(serialize_message(response_to(message, 200, "OK")))
                    phone.requests.put_nowait(message)

            serving.on_message = take
            phone.security(verify=True)
            ok = await phone.exchange(phone.register_request(phone.answer_to(unauthorized)))
            assert ok.status == 200
            assert (await phone.exchange(phone.subscribe_request())).status == 200
            assert (await phone.notify()).method == "NOTIFY"
            assert not sending.received
            assert {peer[1] for _, _, peer in serving.received} == {server.port_c}
            assert core.counters["responses without a transaction"] == 0
            # The 200 of a de-registration may be asked for again: its SAs stand as long.
            goodbye = phone.refresh(0)
            assert (await phone.exchange(goodbye)).status == 200
            sending.write(serialize_message(goodbye))
            assert (await phone.next_response()).status == 200
            sending.close()
            serving.close()

    run(scenario)


def test_datagrams_without_sas_are_dropped_and_counted() -> None:
    async def scenario() -> None:
        async with secure(FakeBackend()) as core:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
                sock.sendto(b"REGISTER sip:x SIP/2.0\r\n\r\n", ("127.0.0.1", core.settings.port_ps))
            await asyncio.sleep(0.1)
            assert core.counters["protected datagrams without SAs"] == 1

    run(scenario)


def test_what_is_no_sip_is_counted_and_answered_where_that_is_possible() -> None:
    async def scenario() -> None:
        async with udp_core() as core:
            phone = UdpPhone(core)
            await phone.connect()
            request = serialize_message(phone.initial())
            phone.socket.write(b"\r\n\r\n")
            phone.socket.write(b"nonsense")
            phone.socket.write(request.replace(b"REGISTER\r\n", b"OTHER\r\n", 1))
            async with asyncio.timeout(3):
                answer = await phone.inbox.get()
                assert isinstance(answer, Response)
                assert answer.status == 400
            assert core.counters["keep-alive datagrams"] == 1
            assert sum(n for name, n in core.counters.items() if name[:10] == "malformed:") == 2

    run(scenario)
