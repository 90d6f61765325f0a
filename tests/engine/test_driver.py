"""The driver on real sockets: what a flow asks for happens, and every way a wait can end is named."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import pytest

from imsbench.engine.connections import EngineSettings
from imsbench.engine.driver import Driver
from imsbench.engine.loop import clock
from imsbench.host.backend import AddReader
from imsbench.phone.actions import (
    Accept,
    Channel,
    Close,
    Exchange,
    FlowError,
    Incoming,
    Next,
    Receive,
    Send,
    Timeout,
    TransportError,
)
from imsbench.protocol.secagree import SaSet
from imsbench.protocol.sip import Request, Response, response_to, serialize_message
from tests.engine.helpers import Bench, Owner, answer_all, request


@pytest.fixture
def bench() -> Iterator[Bench]:
    """A far end that answers 200 to everything."""
    bench = Bench()
    yield bench
    bench.close()


def test_exchange_stamps_what_it_sent_and_read(bench: Bench) -> None:
    stamps = []

    async def flow() -> None:
        exchange = Exchange(request("z1"), bench.channel, 5.0)
        before = clock()
        reply = await exchange
        stamps.extend([before, exchange.started_at, exchange.sent_at, reply.at, clock()])
        assert reply.status == 200

    assert bench.run(flow()) is None
    assert stamps == sorted(stamps)
    assert bench.driver.connections.count == 1
    assert bench.driver.transactions == 0


def test_the_connection_is_held_and_used_again(bench: Bench) -> None:
    async def flow() -> None:
        for number in range(3):
            await Exchange(request(f"z{number}"), bench.channel, 5.0)

    assert bench.run(flow()) is None
    assert len(bench.far.sockets) == 1


def test_a_message_larger_than_the_socket_buffer_arrives_whole(bench: Bench) -> None:
    body = bytes(range(256)) * 4000

    async def flow() -> None:
        await Exchange(request("z1", body=body), bench.channel, 10.0)

    assert bench.run(flow(), 10.0) is None
    assert bench.far.received[0].body == body


def test_provisional_responses_do_not_end_a_transaction(bench: Bench) -> None:
    def trying_then_ok(message: Request, sock: socket.socket) -> None:
        sock.send(serialize_message(response_to(message, 100, "Trying")))
        sock.send(serialize_message(response_to(message, 200, "OK")))

    bench.far.on_request = trying_then_ok
    statuses = []

    async def flow() -> None:
        statuses.append((await Exchange(request("z1"), bench.channel, 5.0)).status)

    assert bench.run(flow()) is None
    assert statuses == [200]
    assert bench.driver.events["provisional_responses"] == 1


def caught(bench: Bench, timeout_s: float = 0.3) -> FlowError:
    """The error that one exchange ends in."""
    errors: list[FlowError] = []

    async def flow() -> None:
        try:
            await Exchange(request("z1"), bench.channel, timeout_s)
        except FlowError as error:
            errors.append(error)

    assert bench.run(flow()) is None
    assert errors[0].at == pytest.approx(clock(), abs=0.5)
    return errors[0]


def test_silence_is_a_timeout(bench: Bench) -> None:
    bench.far.on_request = lambda _message, _sock: None
    error = caught(bench, 0.05)
    assert isinstance(error, Timeout)
    assert error.cause == "timeout"


def test_a_late_response_is_counted_not_delivered(bench: Bench) -> None:
    kept: list[tuple[Request, socket.socket]] = []
    bench.far.on_request = lambda message, sock: kept.append((message, sock))
    caught(bench, 0.05)
    bench.far.ok(*kept[0])
    bench.turn_for(0.05)
    assert bench.driver.events["stray_responses"] == 1


def test_a_closed_port_is_refused(bench: Bench) -> None:
    free = socket.create_server(("127.0.0.1", 0))
    bench.channel.remote_port = free.getsockname()[1]
    free.close()
    error = caught(bench)
    assert isinstance(error, TransportError)
    assert error.cause == "refused"
    assert bench.driver.events["connection refused"] == 1
    assert bench.driver.connections.count == 0


def test_a_local_address_that_is_not_there(bench: Bench) -> None:
    bench.channel.local_address = "192.0.2.1"
    assert caught(bench).cause == "local address not available"


@pytest.mark.parametrize(
    ("reset", "cause"), [(True, "reset by target"), (False, "closed by target")]
)
def test_the_far_end_goes_away(bench: Bench, reset: bool, cause: str) -> None:
    def leave(_message: Request, sock: socket.socket) -> None:
        if reset:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        bench.far.drop(sock)

    bench.far.on_request = leave
    assert caught(bench).cause == cause
    assert bench.driver.events[f"connection {cause}"] == 1
    bench.far.on_request = bench.far.ok

    async def again() -> None:
        await Exchange(request("z2"), bench.channel, 5.0)

    assert bench.run(again()) is None
    assert bench.driver.events["reconnects"] == 1


@pytest.mark.parametrize(
    ("data", "event"),
    [
        (b"SIP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n", "malformed: no Via"),
        (b"garbage\r\n\r\n", "malformed: no Via"),
        (b"\0\0\0\r\n\r\n", "malformed: NUL in headers"),
    ],
)
def test_a_malformed_message_costs_one_attempt(bench: Bench, data: bytes, event: str) -> None:
    bench.far.on_request = lambda _message, sock: sock.sendall(data)
    assert caught(bench).cause == "malformed"
    assert bench.driver.events[event] == 1
    bench.far.on_request = bench.far.ok

    async def again() -> None:
        await Exchange(request("z2"), bench.channel, 5.0)

    assert bench.run(again()) is None


def test_a_response_to_another_method_is_stray(bench: Bench) -> None:
    def other_method(message: Request, sock: socket.socket) -> None:
        message.headers = [
            (name, "1 BYE" if name == "cseq" else value) for name, value in message.headers
        ]
        bench.far.ok(message, sock)

    bench.far.on_request = other_method
    assert caught(bench, 0.05).cause == "timeout"
    assert bench.driver.events["stray_responses"] == 1


def test_a_request_is_answered_and_wakes_the_flow_that_waits(bench: Bench) -> None:
    def ok_then_ask(message: Request, sock: socket.socket) -> None:
        bench.far.ok(message, sock)
        sock.send(serialize_message(request("far", "NOTIFY")))

    bench.far.on_request = ok_then_ask
    times = []

    async def flow() -> None:
        await Exchange(request("z1"), bench.channel, 5.0)
        times.append(await Receive("far", 5.0))

    assert bench.run(flow()) is None
    assert times[0] <= clock()
    bench.turn_for(0.05)
    assert [type(message).__name__ for message in bench.far.received] == ["Request", "Response"]


def test_waiting_for_a_request_ends_too(bench: Bench) -> None:
    async def flow() -> None:
        with pytest.raises(Timeout):
            await Receive("never", 0.05)

    assert bench.run(flow()) is None


def test_close_waits_for_the_far_ends_fin(bench: Bench) -> None:
    async def flow() -> None:
        await Exchange(request("z1"), bench.channel, 5.0)
        await Close(bench.channel, 1.0)
        assert bench.channel.connection is None

    assert bench.run(flow()) is None
    assert bench.driver.connections.count == 0
    assert not bench.driver.events["close_timeout"]


def test_close_lets_what_is_under_way_end_first(bench: Bench) -> None:
    def later(message: Request, sock: socket.socket) -> None:
        answer = serialize_message(response_to(message, 200, "OK"))
        bench.loop.call_at(clock() + 0.2, lambda _none: sock.sendall(answer), None)

    bench.far.on_request = later
    statuses = []

    async def slow() -> None:
        statuses.append((await Exchange(request("z1"), bench.channel, 5.0)).status)

    async def flow() -> None:
        await Close(bench.channel, 1.0, settle_s=2.0)
        assert statuses == [200]
        assert bench.channel.connection is None

    bench.driver.start(slow(), Owner(), lambda _owner, _problem: None)
    assert bench.run(flow()) is None


def test_close_lets_a_request_of_the_far_end_be_answered_first(bench: Bench) -> None:
    async def answering() -> None:
        incoming = await Next()
        assert isinstance(incoming, Incoming)
        assert await Next(0.2) is None
        await Send(response_to(incoming.request, 200, "OK"), incoming)

    bench.driver._answer = lambda _owner, _incoming: Accept(answering(), lambda _o, _p: None)
    answers: list[int] = []
    bench.far.on_response = lambda response, _socket: answers.append(response.status)

    async def flow() -> None:
        await Exchange(request("z1"), bench.channel, 5.0)
        bench.far.sockets[0].sendall(serialize_message(request("in1")))
        assert await Next(0.05) is None
        await Close(bench.channel, 1.0, settle_s=4.0)
        assert answers == [200]

    assert bench.run(flow()) is None


def test_a_call_that_stands_does_not_hold_a_close(bench: Bench) -> None:
    async def flow() -> None:
        await Send(request("z1", "INVITE"), bench.channel)
        answer = await Next(2.0)
        assert isinstance(answer, Response)
        assert answer.status == 200
        await Close(bench.channel, 0.5, settle_s=60.0)

    assert bench.run(flow()) is None


def test_close_does_not_wait_for_ever_for_what_is_under_way(bench: Bench) -> None:
    bench.far.on_request = lambda _request, _socket: None
    causes = []

    async def unanswered() -> None:
        try:
            await Exchange(request("z1"), bench.channel, 5.0)
        except FlowError as error:
            causes.append(error.cause)

    async def flow() -> None:
        await Close(bench.channel, 1.0, settle_s=0.2)

    bench.driver.start(unanswered(), Owner(), lambda _owner, _problem: None)
    assert bench.run(flow()) is None
    assert causes == ["closed here"]


def test_close_of_a_far_end_that_stays_is_bounded(bench: Bench) -> None:
    async def flow() -> None:
        await Exchange(request("z1"), bench.channel, 5.0)
        bench.loop.unregister(bench.far.sockets[0].fileno())  # it reads no FIN
        await Close(bench.channel, 0.1)

    before = clock()
    assert bench.run(flow()) is None
    assert clock() - before >= 0.1
    assert bench.driver.events["close_timeout"] == 1
    assert bench.driver.connections.count == 0


def test_what_is_no_action_is_our_defect(bench: Bench) -> None:
    class Sleep:
        def __await__(self) -> Iterator[str]:
            yield "asyncio would"

    async def flow() -> None:
        await Sleep()  # type: ignore[misc]  # the very mistake that is tested

    assert isinstance(bench.run(flow()), TypeError)


def test_a_ping_is_answered(bench: Bench) -> None:
    async def flow() -> None:
        await Exchange(request("z1"), bench.channel, 5.0)

    assert bench.run(flow()) is None
    bench.far.raw = b""
    bench.far.sockets[0].send(b"\r\n\r\n")
    bench.turn_for(0.05)
    assert bench.driver.events["pings_answered"] == 1
    assert bench.far.raw == b"\r\n"


def test_keepalives_are_sent_and_their_pongs_counted() -> None:
    bench = Bench(keepalive_s=0.05)
    try:

        async def flow() -> None:
            await Exchange(request("z1"), bench.channel, 5.0)

        assert bench.run(flow()) is None
        bench.turn_for(0.18)
        assert bench.driver.events["keepalives_sent"] >= 2
        assert bench.far.raw.endswith(b"\r\n\r\n\r\n\r\n")
        bench.far.sockets[0].send(b"\r\n")
        bench.turn_for(0.02)
        assert bench.driver.events["pongs"] == 1
        assert not bench.driver.events["pings_answered"]
    finally:
        bench.close()


def test_an_idle_connection_is_closed_and_opened_again() -> None:
    bench = Bench(idle_close_s=0.05)
    try:

        async def flow() -> None:
            await Exchange(request(f"z{clock()}"), bench.channel, 5.0)

        assert bench.run(flow()) is None
        bench.turn_for(0.15)
        assert bench.driver.events["idle_closed"] == 1
        assert bench.driver.connections.count == 0
        assert bench.run(flow()) is None
        assert bench.driver.events["reconnects"] == 1
    finally:
        bench.close()


class Carrier:
    """A backend that notes what has happened whenever it is asked to carry packets."""

    name, device = "userspace", ""

    def __init__(self) -> None:
        self.asked = 0

    def attach(self, add_reader: AddReader) -> None:
        add_reader(-1, self._carry)

    def _carry(self) -> None:
        self.asked += 1

    def install(self, sas: SaSet) -> None: ...

    def remove(self, sas: SaSet) -> None: ...

    def counters(self) -> dict[str, int]:
        return {}

    def close(self) -> None: ...


def test_the_end_resets_every_connection_and_leaves_flows_unfinished(bench: Bench) -> None:
    bench.far.on_request = lambda _message, _sock: None
    carrier = Carrier()
    driver = Driver(bench.loop, EngineSettings(), carrier, lambda _address: None, answer_all)
    went_on: list[str] = []

    async def asks(number: int, channel: Channel) -> None:
        try:
            await Exchange(request(f"z{number}"), channel, 5.0)
        except FlowError as error:
            went_on.append(error.cause)

    async def closes(channel: Channel) -> None:
        await Close(channel, 5.0)
        went_on.append("closed")

    for number in range(40):
        channel = Channel("127.0.0.1", 0, "127.0.0.1", bench.far.port, protected=False)
        driver.start(asks(number, channel), Owner(), lambda *_: None)
    bench.turn_for(0.2)
    driver.start(closes(channel), Owner(), lambda *_: None)
    assert driver.connections.count == len(bench.far.sockets) == 40
    driver.close()
    assert (driver.connections.count, driver.transactions, went_on) == (0, 0, [])
    assert carrier.asked == 3  # the resets must leave through the SAs, a batch at a time
    for sock in bench.far.sockets[:-1]:  # the last one got a FIN before
        with pytest.raises(ConnectionResetError):
            sock.recv(1)
