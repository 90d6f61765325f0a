"""The Diameter peer: capabilities, watchdog, answers matched, bad messages answered and never fatal."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from simulators.base import (
    RELAY,
    CapabilitiesExchangeAnswer,
    DeviceWatchdogAnswer,
    DeviceWatchdogRequest,
    DiameterMessage,
    DisconnectCause,
    DisconnectPeerAnswer,
    DisconnectPeerRequest,
    ErrorAnswer,
    VendorSpecificApplicationId,
    decode,
)
from simulators.codec import BadMessage, Result
from simulators.connection import Connection
from simulators.cx import (
    APPLICATION_CX,
    CX,
    LocationInfoAnswer,
    LocationInfoRequest,
    UserAuthorizationAnswer,
)
from simulators.framing import parse_header
from simulators.peer import AnswerTimeout, BadAnswer, NoConnection, Peer
from tests.simulators.diameter_helpers import RawPeer, cer, run
from tests.simulators.test_codec import FAULTS, uar, with_avps


def serve(request: DiameterMessage, connection: Connection) -> DiameterMessage:
    """The simplest handler."""
    return request.answer(result_code=Result.SUCCESS)


def peer(name: str, **options: Any) -> Peer:
    """A Cx peer."""
    return Peer(origin_host=name, origin_realm="home", applications=(CX,), **options)


@asynccontextmanager
async def serving(**options: Any) -> AsyncIterator[tuple[Peer, tuple[str, int]]]:
    """A server peer and its address."""
    server = peer("hss", **({"on_request": serve} | options))
    address = await server.listen("127.0.0.1", 0)
    try:
        yield server, address
    finally:
        await server.close()


@asynccontextmanager
async def joined(**options: Any) -> AsyncIterator[tuple[Peer, Peer]]:
    """A client and the server it is connected to."""
    async with serving(**options) as (server, address):
        client = peer("scscf")
        await client.connect(*address)
        try:
            yield client, server
        finally:
            await client.close()


async def until(condition: Any, timeout_s: float = 5.0) -> None:
    """Wait for something that another task does."""
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.005)


def ask() -> LocationInfoRequest:
    """A request that needs nothing but an identity."""
    return LocationInfoRequest(public_identity="sip:u@home")


def test_an_answer_comes_back_and_what_is_missing_is_filled_in() -> None:
    async def scenario() -> None:
        async with joined() as (client, server):
            request = ask()
            answer = await client.request(request)
            assert isinstance(answer, LocationInfoAnswer)
            assert (answer.origin_host, answer.origin_realm) == (b"hss", b"home")
            assert request.destination_realm == b"home"
            assert answer.session_id == request.session_id
            assert str(request.session_id).startswith("scscf;")
            again = await client.request(ask())
            assert again.session_id != answer.session_id
            assert server.counters["answers_sent"] == 2

    run(scenario())


def test_many_at_once_are_matched_by_hop_by_hop_though_answered_out_of_order() -> None:
    async def late(request: DiameterMessage) -> DiameterMessage:
        await asyncio.sleep(0.05 if str(request.public_identity) < "5" else 0.0)
        return request.answer(result_code=Result.SUCCESS, server_name=str(request.public_identity))

    async def scenario() -> None:
        async with joined(on_request=lambda request, _: late(request)) as (client, _server):
            asked = [LocationInfoRequest(public_identity=str(n)) for n in range(10)]
            answers = await asyncio.gather(*(client.request(one) for one in asked))
            assert [one.server_name for one in answers] == [str(n) for n in range(10)]

    run(scenario())


def test_capabilities_name_the_application_in_its_vendors_frame() -> None:
    async def scenario() -> None:
        async with serving() as (server, address):
            raw = await RawPeer.connect(address, exchange=False)
            raw.send(cer().as_bytes())
            cea = await raw.answer(CapabilitiesExchangeAnswer)
            assert cea.result_code == 2001
            assert cea.host_ip_address == ["127.0.0.1"]
            assert cea.supported_vendor_id == [10415, 13019]
            assert cea.vendor_specific_application_id == [
                VendorSpecificApplicationId(10415, APPLICATION_CX)
            ]
            assert not cea.header.is_error
            assert server.connections[0].remote_host == b"raw"
            await raw.close()

    run(scenario())


def test_a_cer_without_an_address_is_served_and_counted() -> None:
    # Kamailio's, where it looked for its own address before the connection stood; refused, it would
    # come again only after its Tc.
    async def scenario() -> None:
        async with serving() as (server, address):
            raw = await RawPeer.connect(address, exchange=False)
            raw.send(cer(host_ip_address=[]).as_bytes())
            assert (await raw.answer(CapabilitiesExchangeAnswer)).result_code == 2001
            assert server.counters["cer_without_host_ip_address"] == 1
            assert len(server.connections) == 1
            await raw.close()

    run(scenario())


def test_no_common_application_is_5010_and_the_end() -> None:
    async def scenario() -> None:
        async with serving() as (server, address):
            raw = await RawPeer.connect(address, exchange=False)
            other = VendorSpecificApplicationId(vendor_id=10415, auth_application_id=16777236)
            raw.send(cer(vendor_specific_application_id=[other]).as_bytes())
            assert (await raw.answer(CapabilitiesExchangeAnswer)).result_code == 5010
            assert await raw.closed()
            assert not server.connections
            assert server.counters["no_common_application"] == 1

    run(scenario())


def test_a_client_that_is_refused_says_so_and_tries_on() -> None:
    async def scenario() -> None:
        async with serving() as (_, address):
            client = Peer(origin_host="pcscf", origin_realm="home", applications=())
            with pytest.raises(NoConnection):
                await client.connect(*address, timeout_s=0.5)
            assert client.counters["cer_refused"] > 1
            await client.close()

    run(scenario())


def test_nothing_is_served_before_a_cer() -> None:
    async def scenario() -> None:
        async with serving() as (server, address):
            raw = await RawPeer.connect(address, exchange=False)
            raw.send(uar().as_bytes())
            assert await raw.closed()
            assert server.counters["requests_before_cer"] == 1

    run(scenario())


def header_of(
    data: bytes, *, flags: int = 0xC0, code: int = 300, app: int = APPLICATION_CX
) -> bytes:
    """A message with another header."""
    return data[:4] + struct.pack(">III", flags << 24 | code, app, 77) + data[16:]


BAD_HEADERS = {
    "unknown command": ({"code": 399}, Result.COMMAND_UNSUPPORTED),
    "unknown command of the base protocol": ({"code": 274, "app": 0}, Result.COMMAND_UNSUPPORTED),
    "unknown application": ({"app": 16777236}, Result.APPLICATION_UNSUPPORTED),
    "E bit in a request": ({"flags": 0xE0}, Result.INVALID_HDR_BITS),
}


@pytest.mark.parametrize("fault", BAD_HEADERS)
def test_a_bad_header_is_answered_with_its_code_and_the_e_bit(fault: str) -> None:
    values, result = BAD_HEADERS[fault]

    async def scenario() -> None:
        async with serving() as (server, address):
            raw = await RawPeer.connect(address)
            raw.send(header_of(uar().as_bytes(), **values))
            answer = await raw.answer(ErrorAnswer)
            assert answer.result_code == result
            assert answer.header.is_error  # RFC 6733 §7.1.3
            assert not answer.header.is_request
            assert answer.header.command_code == values.get("code", 300)
            assert answer.header.hop_by_hop_identifier == 77
            assert answer.session_id == "i;1;1"
            assert answer.error_message
            raw.send(uar().as_bytes())
            assert (await raw.answer(UserAuthorizationAnswer)).result_code == 2001
            assert server.counters[f"refused_{int(result)}"] == 1
            await raw.close()

    run(scenario())


@pytest.mark.parametrize("fault", FAULTS)
def test_a_bad_avp_is_answered_with_its_code_and_the_failed_avp(fault: str) -> None:
    extra, result, code = FAULTS[fault]

    async def scenario() -> None:
        async with serving() as (server, address):
            raw = await RawPeer.connect(address)
            raw.send(header_of(with_avps(uar(), extra)))
            data = await raw.receive()
            header = parse_header(data)
            protocol_error = 3000 <= result < 4000
            assert header.is_error == protocol_error
            answer = decode(
                data, header, ErrorAnswer if protocol_error else UserAuthorizationAnswer
            )
            assert answer.result_code == result
            assert answer.failed_avp[0].additional_avps[0].code == code
            raw.send(uar().as_bytes())
            assert (await raw.answer(UserAuthorizationAnswer)).result_code == 2001
            assert server.counters["handler_failures"] == 0
            await raw.close()

    run(scenario())


def test_messages_come_octet_by_octet_and_all_at_once() -> None:
    async def scenario() -> None:
        async with serving() as (_, address):
            raw = await RawPeer.connect(address)
            for octet in uar().as_bytes():
                raw.send(bytes((octet,)))
                await raw.drain()
                await asyncio.sleep(0)
            assert (await raw.answer(UserAuthorizationAnswer)).result_code == 2001
            raw.send(uar().as_bytes() * 50)
            for _ in range(50):
                assert (await raw.answer(UserAuthorizationAnswer)).result_code == 2001
            await raw.close()

    run(scenario())


@pytest.mark.parametrize("junk", [b"GET / HTTP/1.1\r\n\r\n", b"\x01\0\0\x05", b"\xff" * 64])
def test_a_stream_that_cannot_be_cut_is_closed_and_the_next_peer_served(junk: bytes) -> None:
    async def scenario() -> None:
        async with serving() as (server, address):
            raw = await RawPeer.connect(address)
            raw.send(junk)
            assert await raw.closed()
            assert server.counters["framing_errors"] == 1
            raw = await RawPeer.connect(address)
            raw.send(uar().as_bytes())
            assert (await raw.answer(UserAuthorizationAnswer)).result_code == 2001
            await raw.close()

    run(scenario())


def test_what_a_handler_does_wrong_is_not_the_peers_end() -> None:
    def broken(request: DiameterMessage, connection: Connection) -> Any:
        match request.public_identity:
            case "raise":
                raise RuntimeError("a defect")
            case "raise later":
                return fail()
            case "refuse":
                raise BadMessage(Result.TOO_BUSY, "not now")
            case "unencodable":
                return request.answer(result_code=Result.SUCCESS, server_name=b"bytes")
            case "silent":
                return None
        return serve(request, connection)

    async def fail() -> DiameterMessage:
        raise RuntimeError("a defect")

    async def scenario() -> None:
        async with joined(on_request=broken) as (client, server):
            for identity, outcome in {
                "raise": "5012",
                "raise later": "5012",
                "refuse": "3004",
                "unencodable": "5012",
                "fine": "2001",
            }.items():
                answer = await client.request(LocationInfoRequest(public_identity=identity))
                assert answer.outcome == outcome
                assert answer.header.is_error == (outcome == "3004")
            with pytest.raises(AnswerTimeout):
                await client.request(LocationInfoRequest(public_identity="silent"), timeout_s=0.05)
            assert server.counters["handler_failures"] == 3
            assert server.counters["requests_unanswered"] == 1

    run(scenario())


def test_without_a_handler_requests_are_unsupported() -> None:
    async def scenario() -> None:
        async with joined(on_request=None) as (client, _):
            assert (await client.request(ask())).outcome == "3001"

    run(scenario())


def test_a_late_answer_is_counted_and_belongs_to_nobody() -> None:
    async def late(request: DiameterMessage) -> DiameterMessage:
        await asyncio.sleep(0.1)
        return request.answer(result_code=Result.SUCCESS)

    async def scenario() -> None:
        async with joined(on_request=lambda request, _: late(request)) as (client, _):
            with pytest.raises(AnswerTimeout, match="Location-Info-Request"):
                await client.request(ask(), timeout_s=0.02)
            await until(lambda: client.counters["unmatched_answers"] == 1)
            assert client.counters["answer_timeouts"] == 1
            assert (await client.request(ask())).outcome == "2001"

    run(scenario())


def test_an_answer_that_cannot_be_read_fails_its_request_alone() -> None:
    """An AVP longer than the message, then another command's answer, then a good one."""

    async def server(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raw = RawPeer(reader, writer)
        data = await raw.receive()
        exchange = cer()
        capabilities = {row.attr_name: getattr(exchange, row.attr_name) for row in exchange.avp_def}
        request = decode(data, parse_header(data), type(exchange))
        raw.send(request.answer(result_code=2001, **capabilities).as_bytes())
        too_long = FAULTS["length beyond the message"][0]
        for breaking, code in ((too_long, 302), (b"", 300), (b"", 302)):
            data = await raw.receive()
            asked = decode(data, parse_header(data), LocationInfoRequest)
            answer = asked.answer(result_code=2001, origin_host=b"h", origin_realm=b"r")
            answer.header.command_code = code
            raw.send(with_avps(answer, breaking))
        await raw.closed()
        await raw.close()

    async def scenario() -> None:
        listening = await asyncio.start_server(server, "127.0.0.1", 0)
        client = peer("scscf")
        await client.connect(*listening.sockets[0].getsockname()[:2])
        with pytest.raises(BadAnswer, match="length 400"):
            await client.request(ask())
        with pytest.raises(BadAnswer, match="answered by 300"):
            await client.request(ask())
        assert (await client.request(ask())).outcome == "2001"
        assert client.counters["bad_answers"] == 2
        await client.close()
        listening.close()

    run(scenario())


def test_requests_go_to_the_peer_that_is_named() -> None:
    async def scenario() -> None:
        async with serving() as (server, address):
            clients = [peer(name, on_request=serve) for name in ("scscf1", "scscf2")]
            for client in clients:
                await client.connect(*address)
            for name in (b"scscf1", b"scscf2"):
                request = ask()
                request.destination_host = name
                assert (await server.request(request)).origin_host == name
            request.destination_host = b"scscf3"
            with pytest.raises(NoConnection):
                await server.request(request)
            for client in clients:
                await client.close()

    run(scenario())


def test_who_is_no_peer_is_reached_through_a_relay() -> None:
    async def scenario() -> None:
        async with serving() as (server, address):
            relay = await RawPeer.connect(address, exchange=False)
            names = {"origin_host": b"relay", "auth_application_id": [RELAY]}
            relay.send(cer(vendor_specific_application_id=[], **names).as_bytes())
            assert (await relay.answer(CapabilitiesExchangeAnswer)).result_code == 2001
            client = peer("scscf1", on_request=serve)
            await client.connect(*address)
            request = ask()
            request.destination_host = b"scscf1"
            assert (await server.request(request)).origin_host == b"scscf1"
            beyond = ask()
            beyond.destination_host = b"scscf2"
            waiting = asyncio.create_task(server.request(beyond))
            data = await relay.receive()
            asked = decode(data, parse_header(data), type(beyond))
            assert asked.destination_host == b"scscf2"
            relay.send(
                asked.answer(result_code=2001, origin_host=b"scscf2", origin_realm=b"r").as_bytes()
            )
            assert (await waiting).origin_host == b"scscf2"
            await client.close()
            await relay.close()

    run(scenario())


def test_a_lost_connection_fails_what_waits_and_is_made_again() -> None:
    async def scenario() -> None:
        server = peer("hss", on_request=lambda *_: None)
        host, port = await server.listen("127.0.0.1", 0)
        client = peer("scscf")
        first = await client.connect(host, port)
        waiting = asyncio.create_task(client.request(ask()))
        await until(lambda: server.counters["requests_unanswered"])
        await server.close()
        with pytest.raises(NoConnection):
            await waiting
        assert client.connection_to() is None
        with pytest.raises(NoConnection):
            await client.request(ask())

        server = peer("hss", on_request=serve)
        await server.listen(host, port)
        await until(lambda: client.connections)
        assert client.connections != [first]
        assert (await client.request(ask())).outcome == "2001"
        assert client.counters["connections_opened"] == 2
        await client.close()
        await server.close()

    run(scenario())


def test_a_client_waits_for_a_server_that_comes_later() -> None:
    async def scenario() -> None:
        server = peer("hss", on_request=serve)
        host, port = await server.listen("127.0.0.1", 0)
        await server.close()
        client = peer("scscf")
        with pytest.raises(NoConnection, match=r"0\.2 s"):
            await client.connect(host, port, timeout_s=0.2)
        assert client.counters["connects_failed"] >= 1
        server = peer("hss", on_request=serve)
        await server.listen(host, port)
        await until(lambda: client.connections)
        await client.close()
        await server.close()

    run(scenario())


def test_a_watchdog_is_answered() -> None:
    async def scenario() -> None:
        async with serving() as (server, address):
            raw = await RawPeer.connect(address)
            raw.send(DeviceWatchdogRequest(origin_host=b"raw", origin_realm=b"home").as_bytes())
            dwa = await raw.answer(DeviceWatchdogAnswer)
            assert dwa.result_code == 2001
            assert dwa.origin_state_id == server.origin_state_id
            await raw.close()

    run(scenario())


def test_idle_peers_watch_each_other_and_stay() -> None:
    async def scenario() -> None:
        async with joined(watchdog_s=0.1) as (client, server):
            await asyncio.sleep(0.6)
            assert server.counters["dwr_sent"] >= 3
            assert server.counters["watchdog_closed"] == 0
            assert not client.counters["connections_closed"]
            assert (await client.request(ask())).outcome == "2001"

    run(scenario())


def test_a_dead_peer_becomes_suspect_and_is_closed() -> None:
    """RFC 3539 §3.4.1: DWR after Tw, suspect after two, closed after three."""

    async def scenario() -> None:
        async with serving(watchdog_s=0.1) as (server, address):
            raw = await RawPeer.connect(address)
            (connection,) = server.connections
            assert parse_header(await raw.receive()).command_code == DeviceWatchdogRequest.code
            await until(lambda: connection.suspect)
            assert server.connections == [connection]
            assert await raw.closed()
            await until(lambda: not server.connections)
            assert server.counters["dwr_sent"] == 1
            assert server.counters["watchdog_closed"] == 1

    run(scenario())


def test_any_octet_ends_suspicion() -> None:
    async def scenario() -> None:
        async with serving(watchdog_s=0.1) as (server, address):
            raw = await RawPeer.connect(address)
            (connection,) = server.connections
            await until(lambda: connection.suspect)
            raw.send(uar().as_bytes())
            await until(lambda: not connection.suspect)
            assert server.connection_to(b"raw") is connection
            await raw.close()

    run(scenario())


def test_a_peer_that_never_says_cer_is_dropped() -> None:
    async def scenario() -> None:
        async with serving(watchdog_s=0.1) as (server, address):
            raw = await RawPeer.connect(address, exchange=False)
            assert await raw.closed()
            assert server.counters["closed_by_timer"] == 1

    run(scenario())


def test_dpr_is_answered_and_no_request_follows() -> None:
    async def scenario() -> None:
        async with serving() as (server, address):
            raw = await RawPeer.connect(address)
            dpr = DisconnectPeerRequest(
                origin_host=b"raw", origin_realm=b"home", disconnect_cause=DisconnectCause.BUSY
            )
            raw.send(dpr.as_bytes())
            assert (await raw.answer(DisconnectPeerAnswer)).result_code == 2001
            with pytest.raises(NoConnection):
                await server.request(ask())
            await raw.close()
            await until(lambda: not server.connections)

    run(scenario())


def test_close_says_dpr_first() -> None:
    async def scenario() -> None:
        async with serving() as (server, address):
            raw = await RawPeer.connect(address)
            closing = asyncio.create_task(server.close())
            dpr = await raw.answer(DisconnectPeerRequest)
            assert dpr.disconnect_cause is DisconnectCause.REBOOTING
            dpa = dpr.answer(result_code=2001, origin_host=b"raw", origin_realm=b"home")
            raw.send(dpa.as_bytes())
            assert await raw.closed()
            await closing
            await raw.close()

    run(scenario())


def test_a_peer_that_does_not_read_is_cut_off() -> None:
    async def scenario() -> None:
        large = "x" * 500_000

        def flood(request: DiameterMessage, connection: Connection) -> DiameterMessage:
            return request.answer(result_code=Result.SUCCESS, server_name=large)

        async with serving(on_request=flood) as (server, address):
            raw = await RawPeer.connect(address)
            for _ in range(80):
                raw.send(uar().as_bytes())
            await until(lambda: server.counters["send_buffer_full"])
            await until(lambda: not server.connections)
            await raw.close()

    run(scenario())


def test_response_times_are_told() -> None:
    seen: list[tuple[str, str, float]] = []

    def told(request: DiameterMessage, answer: DiameterMessage, time_s: float) -> None:
        seen.append((request.name, answer.outcome, time_s))

    async def slow(request: DiameterMessage) -> DiameterMessage:
        await asyncio.sleep(0.05)
        return request.answer(result_code=Result.SUCCESS)

    async def scenario() -> None:
        handler = lambda request, _: slow(request)  # noqa: E731
        async with joined(on_request=handler, on_answered=told) as (client, _):
            await client.request(ask())

    run(scenario())
    ((name, outcome, time_s),) = seen
    assert (name, outcome) == ("Location-Info-Request", "2001")
    assert 0.05 <= time_s < 1.0


def test_a_restart_resets_its_connections_and_serves_again_under_a_new_state() -> None:
    async def scenario() -> None:
        async with serving() as (server, address):
            client = peer("scscf")
            first = await client.connect(*address)
            state = server.origin_state_id
            restart = asyncio.create_task(server.restart(0.05))
            await first.ended
            with pytest.raises(NoConnection):
                await client.request(uar())
            await restart
            while client.connection_to() is None:
                await asyncio.sleep(0.01)
            assert (await client.request(uar())).result_code == Result.SUCCESS
            assert server.origin_state_id == state + 1
            assert server.counters["restarts_injected"] == 1
            await client.close()

    run(scenario())
