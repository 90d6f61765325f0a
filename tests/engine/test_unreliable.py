"""UDP on real sockets: what is sent again and when, what comes again and is absorbed, what goes by TCP."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest

from imsbench.engine.unreliable import Kept
from imsbench.phone.actions import (
    Accept,
    Channel,
    Close,
    Ended,
    Event,
    Exchange,
    FlowError,
    Incoming,
    Next,
    Send,
    Timeout,
    UdpPorts,
)
from imsbench.protocol.sip import (
    Request,
    Response,
    ack_for_failure,
    response_to,
    serialize_message,
)
from tests.engine.helpers import FarEnd
from tests.engine.udp_helpers import (
    Peer,
    UdpBench,
    UdpFarEnd,
    free_port,
    udp_bench,
    udp_request,
)

T1 = 0.08
TIMERS: dict[str, Any] = {"t1_s": T1, "t2_s": 4 * T1, "t4_s": 5 * T1}
SLACK_S = 0.05
"""How late a timer may be on a busy machine."""


def gaps(times: Sequence[float]) -> list[float]:
    return [later - earlier for earlier, later in pairwise(times)]


def assert_gaps(times: Sequence[float], wanted: Sequence[float]) -> None:
    """Never early; late by no more than a busy machine makes it."""
    measured = gaps(times)
    assert len(measured) == len(wanted)
    for gap, due in zip(measured, wanted, strict=True):
        assert due - 0.005 <= gap <= due + SLACK_S, (measured, wanted)


async def one_exchange(
    channel: Channel, request: Request, timeout_s: float, got: list[Any]
) -> None:
    try:
        got.append((await Exchange(request, channel, timeout_s)).status)
    except FlowError as error:
        got.append(error)


async def one_send(
    channel: Channel, request: Request, timeout_s: float, got: list[Event | None]
) -> None:
    """Send, and keep what comes until a final response or an end."""
    await Send(request, channel, timeout_s=timeout_s)
    while True:
        event = await Next()
        got.append(event)
        if not isinstance(event, Response) or event.status >= 200:
            return


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_an_exchange_is_one_datagram_each_way(address: str) -> None:
    with udp_bench(address=address) as bench:
        got: list[Any] = []
        bench.run(one_exchange(bench.channel, udp_request("z1"), 5.0, got))
        assert got == [200]
        assert bench.far.peers == [bench.phone]
        assert (len(bench.driver.datagrams), bench.driver.connections.count) == (1, 0)
        assert not bench.driver.events


def test_timer_e_doubles_up_to_t2_and_f_ends_it() -> None:
    with udp_bench(**TIMERS) as bench:
        bench.far.on_request = lambda _request, _peer: None
        got: list[Any] = []
        bench.run(one_exchange(bench.channel, udp_request("z1"), 15.5 * T1, got))
        assert isinstance(got[0], Timeout)
        assert_gaps(bench.far.of("OPTIONS"), [T1, 2 * T1, 4 * T1, 4 * T1, 4 * T1])
        assert bench.driver.events["retransmission sent: OPTIONS"] == 5
        # A busy machine makes one late now and then, never all.
        assert bench.driver.events["retransmission sent late: OPTIONS"] < 5
        sent = len(bench.far.received)
        bench.turn_for(5 * T1)
        assert len(bench.far.received) == sent


def test_a_provisional_response_slows_timer_e_down_to_t2() -> None:
    with udp_bench(**TIMERS) as bench:

        def trying(request: Request, peer: Peer) -> None:
            if len(bench.far.received) == 1:
                bench.far.send(response_to(request, 100, "Trying"), peer)
            elif len(bench.far.received) == 3:
                bench.far.ok(request, peer)

        bench.far.on_request = trying
        got: list[Any] = []
        bench.run(one_exchange(bench.channel, udp_request("z1"), 5.0, got))
        assert got == [200]
        assert_gaps(bench.far.of("OPTIONS"), [T1, 4 * T1])


def test_timer_a_doubles_without_bound_until_a_provisional_response() -> None:
    with udp_bench(**TIMERS) as bench:
        kept: list[tuple[Request, Peer]] = []

        def ring_at_the_fifth(request: Request, peer: Peer) -> None:
            kept.append((request, peer))
            if len(kept) == 5:
                bench.far.send(response_to(request, 180, "Ringing"), peer)

        bench.far.on_request = ring_at_the_fifth
        got: list[Event | None] = []
        bench.start(one_send(bench.channel, udp_request("z1", "INVITE"), 5.0, got))
        bench.turn_until(lambda: len(kept) == 5)
        assert_gaps(bench.far.of("INVITE"), [T1, 2 * T1, 4 * T1, 8 * T1])
        bench.turn_for(17 * T1)
        assert len(kept) == 5
        bench.far.ok(*kept[0])
        bench.turn_until(lambda: bench.ended == [None])
        assert [event.status for event in got if isinstance(event, Response)] == [180, 200]


def test_a_final_response_that_comes_again_is_absorbed() -> None:
    with udp_bench(**TIMERS) as bench:
        kept: list[tuple[Request, Peer]] = []

        def twice(request: Request, peer: Peer) -> None:
            kept.append((request, peer))
            bench.far.ok(request, peer)
            bench.far.ok(request, peer)

        bench.far.on_request = twice
        bench.run(one_exchange(bench.channel, udp_request("z1"), 5.0, []))
        bench.turn_for(0.02)
        assert bench.driver.events["retransmission received: 200 OPTIONS"] == 1
        bench.turn_for(TIMERS["t4_s"] + 0.1)  # Timer K is over: now it is a stray one
        bench.far.ok(*kept[0])
        bench.turn_for(0.02)
        assert bench.driver.events["stray_responses"] == 1


def test_a_late_response_is_counted_not_delivered() -> None:
    with udp_bench(**TIMERS) as bench:
        kept: list[tuple[Request, Peer]] = []
        bench.far.on_request = lambda request, peer: kept.append((request, peer))
        got: list[Any] = []
        bench.run(one_exchange(bench.channel, udp_request("z1"), T1, got))
        assert isinstance(got[0], Timeout)
        bench.far.ok(*kept[0])
        bench.turn_for(0.02)
        assert bench.driver.events["stray_responses"] == 1


def test_a_failure_of_an_invite_that_comes_again_is_acknowledged_again() -> None:
    with udp_bench(**TIMERS) as bench:

        def busy(request: Request, peer: Peer) -> None:
            if request.method == "INVITE":
                bench.far.send(response_to(request, 486, "Busy Here", to_tag="x"), peer)
                bench.far.send(response_to(request, 486, "Busy Here", to_tag="x"), peer)

        bench.far.on_request = busy
        got: list[Event | None] = []
        bench.run(one_send(bench.channel, udp_request("z1", "INVITE"), 5.0, got))
        bench.turn_until(lambda: len(bench.far.of("ACK")) == 2)
        assert len(got) == 1
        assert bench.driver.events["retransmission received: 486 INVITE"] == 1


def test_a_request_that_comes_again_is_answered_again_by_the_same_response() -> None:
    served: list[str] = []

    def answer(_owner: Any, incoming: Incoming) -> Response:
        served.append(incoming.request.method)
        return response_to(incoming.request, 200, "OK", to_tag=f"tag{len(served)}")

    with udp_bench(answer, **TIMERS) as bench:
        bench.run(one_exchange(bench.channel, udp_request("z0"), 5.0, []))
        bench.far.received.clear()
        for _ in range(3):
            bench.far.send(udp_request("z1", "NOTIFY"), bench.phone)
        bench.turn_until(lambda: len(bench.far.received) == 3)
        assert served == ["NOTIFY"]
        tags = {message.get("to") for _, message in bench.far.received}
        assert tags == {"<sip:c@d>;tag=tag1"}
        events = bench.driver.events
        assert events["retransmission received: NOTIFY"] == 2
        assert events["retransmission sent: 200 NOTIFY"] == 2
        bench.turn_for(66 * T1)  # Timer J is over: it is a new request
        bench.far.send(udp_request("z1", "NOTIFY"), bench.phone)
        bench.turn_until(lambda: len(served) == 2)


def test_a_method_of_no_name_is_counted_as_other() -> None:
    with udp_bench(**TIMERS) as bench:
        bench.run(one_exchange(bench.channel, udp_request("z0"), 5.0, []))
        for _ in range(2):
            bench.far.send(udp_request("z1", "FROBNICATE"), bench.phone)
        bench.turn_for(0.05)
        assert bench.driver.events["retransmission received: other request"] == 1


class Refusing:
    """Accepts an INVITE and refuses it; keeps the events of the flow."""

    def __init__(self) -> None:
        self.events: list[Event | None] = []

    def answer(self, _owner: Any, incoming: Incoming) -> Response | Accept:
        if incoming.request.method != "INVITE":
            return response_to(incoming.request, 481, "Call/Transaction Does Not Exist")
        return Accept(self._flow(), lambda _owner, _problem: None)

    async def _flow(self) -> None:
        incoming = await Next()
        assert isinstance(incoming, Incoming)
        refusal = response_to(incoming.request, 486, "Busy Here", to_tag="x")
        await Send(refusal, incoming)
        while True:
            self.events.append(await Next(5.0))


def invited(bench: UdpBench) -> Request:
    """An INVITE from the far end, sent to the phone."""
    bench.run(one_exchange(bench.channel, udp_request("z0"), 5.0, []))
    bench.far.received.clear()
    invite = udp_request("z1", "INVITE")
    bench.far.send(invite, bench.phone)
    return invite


def test_timer_g_repeats_a_refusal_until_its_ack() -> None:
    refusing = Refusing()
    with udp_bench(refusing.answer, **TIMERS) as bench:
        invite = invited(bench)
        bench.turn_until(lambda: len(bench.far.received) == 4)
        assert_gaps(bench.far.of("INVITE", status=486), [T1, 2 * T1, 4 * T1])
        ack = ack_for_failure(invite, response_to(invite, 486, "Busy Here", to_tag="x"))
        bench.far.send(ack, bench.phone)
        bench.far.send(ack, bench.phone)
        bench.turn_for(6 * T1)
        assert len(bench.far.received) == 4
        acks = [e for e in refusing.events if isinstance(e, Incoming)]
        assert [event.request.method for event in acks] == ["ACK"]
        events = bench.driver.events
        assert events["retransmission sent: 486 INVITE"] == 3
        assert events["retransmission received: ACK"] == 1
        bench.far.send(invite, bench.phone)  # Timer I: nothing is due to it any more
        bench.turn_for(0.05)
        assert len(bench.far.received) == 4


def test_timer_h_ends_what_is_never_acknowledged() -> None:
    with udp_bench(Refusing().answer, t1_s=0.01, t2_s=0.04, t4_s=0.05) as bench:
        invited(bench)
        bench.turn_for(0.7)
        assert bench.driver.events["ack_missing: 486"] == 1
        sent = len(bench.far.received)
        bench.turn_for(0.1)
        assert len(bench.far.received) == sent


def test_a_request_over_1300_bytes_goes_by_tcp_and_says_so_in_its_via() -> None:
    with udp_bench(**TIMERS) as bench:
        got: list[Any] = []
        for size in (1000, 1300):
            request = udp_request(f"z{size}", body=b"x" * size)
            bench.run(one_exchange(bench.channel, request, 5.0, got))
        assert got == [200, 200]
        (_, small), (large,) = bench.far.received[0], bench.tcp.received
        assert "SIP/2.0/UDP" in (small.get("via") or "")
        assert (large.get("via") or "").startswith("SIP/2.0/TCP 127.0.0.1;branch=z1300")
        assert bench.driver.connections.count == 1


def test_a_large_request_goes_by_udp_where_tcp_is_refused() -> None:
    """RFC 3261 §18.1.1: as a datagram with its Via, retransmitted like one, and counted."""
    with udp_bench(**TIMERS) as bench:
        bench.loop.unregister(bench.tcp.listener.fileno())
        bench.tcp.listener.close()
        lost: list[Request] = []

        def lose_the_first(request: Request, peer: tuple[str, int]) -> None:
            if lost:
                bench.far.ok(request, peer)
            lost.append(request)

        bench.far.on_request = lose_the_first
        got: list[Any] = []
        request = udp_request("z1", body=b"x" * 1300)
        bench.run(one_exchange(bench.channel, request, 5.0, got))
        assert got == [200]
        assert [m.get("via") for _, m in bench.far.received] == 2 * [
            "SIP/2.0/UDP 127.0.0.1;branch=z1;rport"
        ]
        events = bench.driver.events
        assert events["large request by UDP: TCP was refused"] == 1
        assert events["retransmission sent: OPTIONS"] == 1
        bench.tcp = FarEnd(bench.loop)  # for the bench to close


def test_a_small_request_by_tcp_alone_is_not_tried_by_udp() -> None:
    with udp_bench(**TIMERS) as bench:
        bench.channel.udp = None
        bench.channel.remote_port = free_port("127.0.0.1")
        got: list[Any] = []
        bench.run(one_exchange(bench.channel, udp_request("z1"), 5.0, got))
        assert [error.cause for error in got] == ["refused"]
        assert not bench.far.received


def test_a_cancel_and_an_ack_go_the_way_of_their_large_invite() -> None:
    with udp_bench(**TIMERS) as bench:

        def terminated(request: Request, sock: Any) -> None:
            if request.method == "CANCEL":
                bench.tcp.ok(request, sock)
                bench.tcp.on_request = lambda _r, _s: None
                invite = bench.tcp.received[0]
                sock.send(
                    serialize_message(response_to(invite, 487, "Request Terminated", to_tag="x"))
                )

        bench.tcp.on_request = terminated
        invite = udp_request("z1", "INVITE", b"x" * 1300)

        async def flow() -> None:
            await Send(invite, bench.channel, timeout_s=5.0)
            headers = [(n, "1 CANCEL" if n == "cseq" else v) for n, v in invite.headers]
            cancel = Request("CANCEL", "sip:d", headers, branch="z1", call_id="z1", cseq=1)
            await Send(cancel, bench.channel, timeout_s=5.0)
            await Next(5.0)
            await Next(5.0)

        bench.run(flow())
        bench.turn_until(lambda: len(bench.tcp.received) == 3)
        assert [m.method for m in bench.tcp.received] == ["INVITE", "CANCEL", "ACK"]
        assert not bench.far.received


def test_a_closed_port_is_refused_at_once() -> None:
    with udp_bench(**TIMERS) as bench:
        bench.channel.remote_port = free_port("127.0.0.1")
        got: list[Any] = []
        bench.run(one_exchange(bench.channel, udp_request("z1"), 5.0, got))
        assert got[0].cause == "refused"
        assert bench.driver.events["datagram refused"] == 1


def test_close_closes_the_sockets_and_fails_what_waits() -> None:
    with udp_bench(**TIMERS) as bench:
        bench.far.on_request = lambda _request, _peer: None
        got: list[Any] = []
        bench.start(one_exchange(bench.channel, udp_request("z1"), 5.0, got))
        bench.turn_for(0.01)

        async def close() -> None:
            await Close(bench.channel, 0.0)

        bench.run(close())
        assert got[0].cause == "closed here"
        assert len(bench.driver.datagrams) == 0
        bench.turn_for(3 * T1)
        assert len(bench.far.received) == 1
        bench.run(one_exchange(bench.channel, udp_request("z2"), T1, got))  # opened again
        assert bench.far.received[1][1].branch == "z2"


def test_what_is_no_sip_is_counted_and_costs_nothing() -> None:
    with udp_bench(**TIMERS) as bench:
        kept: list[tuple[Request, Peer]] = []
        bench.far.on_request = lambda request, peer: kept.append((request, peer))
        got: list[Any] = []
        bench.start(one_exchange(bench.channel, udp_request("z1"), 5.0, got))
        bench.turn_until(lambda: bool(kept))
        bench.far.sock.sendto(b"\r\n\r\n", bench.phone)
        bench.far.sock.sendto(b"nonsense\r\n\r\n", bench.phone)
        bench.turn_for(0.02)
        bench.far.ok(*kept[0])
        bench.turn_until(lambda: got == [200])
        events = bench.driver.events
        assert events["empty_datagrams"] == 1
        assert sum(n for name, n in events.items() if name.startswith("malformed")) == 1


def test_what_is_sent_again_while_the_loop_is_late_is_marked() -> None:
    with udp_bench(**TIMERS) as bench:
        bench.far.on_request = lambda _request, _peer: None
        got: list[Any] = []
        bench.start(one_exchange(bench.channel, udp_request("z1"), 3.5 * T1, got))
        bench.turn_for(0.01)
        time.sleep(2 * T1)  # a stall: the retransmission is this process's own
        bench.turn_until(lambda: bool(got))
        events = bench.driver.events
        assert events["retransmission sent: OPTIONS"] >= 1
        assert events["retransmission sent late: OPTIONS"] >= 1


def test_inside_sas_requests_leave_from_port_uc_and_all_comes_to_port_us() -> None:
    """TS 33.203 §7.1: each side sends everything from its client port to the other's server port."""
    served: list[str] = []

    def answer(_owner: Any, incoming: Incoming) -> Response:
        assert incoming.protected
        served.append(incoming.request.method)
        return response_to(incoming.request, 200, "OK")

    with udp_bench(answer, **TIMERS) as bench:
        port_pc = UdpFarEnd(bench.loop)
        port_uc, port_us = free_port("127.0.0.1"), free_port("127.0.0.1")
        channel = Channel(
            "127.0.0.1", port_uc, "127.0.0.1", bench.far.port,
            protected=True, udp=UdpPorts(port_uc, port_us, port_pc.port),
        )  # fmt: skip
        us = ("127.0.0.1", port_us)
        bench.far.on_request = lambda request, _peer: port_pc.ok(request, us)
        got: list[Any] = []
        bench.run(one_exchange(channel, udp_request("z1"), 5.0, got))
        port_pc.send(udp_request("z2", "NOTIFY"), us)
        bench.turn_until(lambda: len(bench.far.received) == 2)
        assert (got, served) == ([200], ["NOTIFY"])
        assert bench.far.peers == [("127.0.0.1", port_uc)] * 2
        assert not port_pc.received
        # A response that comes to port_uc is taken, and counted as the target's defect.
        bench.far.on_request = bench.far.ok
        bench.run(one_exchange(channel, udp_request("z3"), 5.0, got))
        assert got == [200, 200]
        assert bench.driver.events["datagram_to_port_uc_by_target"] == 1
        bench.run(close_of(channel))
        port_pc.close()


def test_two_sa_sets_of_a_phone_share_port_us() -> None:
    with udp_bench(**TIMERS) as bench:
        port_us = free_port("127.0.0.1")
        ends = [UdpFarEnd(bench.loop), UdpFarEnd(bench.loop)]
        got: list[Any] = []
        channels = []
        for end in ends:
            port_uc = free_port("127.0.0.1")
            ports = UdpPorts(port_uc, port_us, end.port)
            channel = Channel(
                "127.0.0.1", port_uc, "127.0.0.1", bench.far.port, protected=True, udp=ports
            )
            channels.append(channel)
            bench.far.on_request = answering_from(end, ("127.0.0.1", port_us))
            bench.run(one_exchange(channel, udp_request(f"z{end.port}"), 5.0, got))
        assert got == [200, 200]
        ends[0].send(udp_request("za", "NOTIFY"), ("127.0.0.1", port_us))
        bench.turn_until(lambda: len(bench.far.received) == 3)
        assert channels[0].udp is not None
        assert bench.far.peers[2] == ("127.0.0.1", channels[0].udp.client)
        for channel in channels:
            bench.run(close_of(channel))
        for end in ends:
            end.close()


def answering_from(end: UdpFarEnd, port_us: Peer) -> Callable[[Request, Peer], None]:
    """200 to everything, from another port than it came to."""
    return lambda request, _peer: end.ok(request, port_us)


async def close_of(channel: Channel) -> None:
    await Close(channel, 0.0)


def test_a_large_request_of_the_network_comes_by_tcp_to_the_clear_port() -> None:
    port = free_port("127.0.0.1")
    with udp_bench(ip_version=4, clear_port=port, **TIMERS) as bench:
        bench.driver.open()
        with socket.create_connection(("127.0.0.1", port)) as sock:
            sock.sendall(serialize_message(udp_request("z1", "NOTIFY", b"x" * 2000)))
            bench.turn_for(0.05)
            sock.settimeout(2.0)
            assert sock.recv(4096).startswith(b"SIP/2.0 200 OK")


def test_kept_lets_go_in_time_and_not_before() -> None:
    kept: Kept[str, int] = Kept(10.0)
    kept.put("a", 1, 0.0)
    kept.put("b", 2, 1.0)
    kept.put("a", 3, 5.0)
    kept.sweep(11.0)
    assert (kept.get("a"), kept.get("b"), len(kept)) == (3, None, 1)
    kept.sweep(15.0)
    assert len(kept) == 0


def test_ended_of_a_send_without_any_response() -> None:
    with udp_bench(**TIMERS) as bench:
        bench.far.on_request = lambda _request, _peer: None
        got: list[Event | None] = []
        bench.run(one_send(bench.channel, udp_request("z1", "INVITE"), 3 * T1, got))
        assert isinstance(got[0], Ended)
        assert isinstance(got[0].error, Timeout)
