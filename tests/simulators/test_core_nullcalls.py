"""Calls through the null target: relayed as they are, both ways, without any state."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from imsbench.protocol.sip import response_to
from simulators.core.null import NullTarget
from simulators.core.nullsip import cut_via
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
from tests.simulators.core_helpers import POPULATION
from tests.simulators.test_core_calls_secure import ProtectedPhone
from tests.simulators.test_core_null import null_target
from tests.simulators.test_core_security import FakeBackend

Scenario = Callable[[CallPhone, CallPhone], Awaitable[None]]


def between_two(scenario: Scenario) -> NullTarget:
    """Run a scenario with two registered phones."""
    with null_target() as target:

        class Address:
            address = target.address

        async def whole() -> None:
            caller = await CallPhone(Address(), 0).attach()  # type: ignore[arg-type]
            callee = await CallPhone(Address(), 1).attach()  # type: ignore[arg-type]
            await scenario(caller, callee)

        run(whole)
    return target


def test_the_whole_ladder_with_preconditions() -> None:
    async def scenario(caller: CallPhone, callee: CallPhone) -> None:
        a = Caller(caller, callee.subscriber.impu_tel)
        sent = a.invite(
            ("require", "sec-agree"),
            ("proxy-require", "sec-agree"),
            ("security-verify", "ipsec-3gpp"),
            ("supported", "100rel"),
        )
        await caller.response(100, "INVITE")
        b = await Callee.rings(callee)
        invite = b.invited
        assert invite.uri == callee.contact
        assert invite.values("p-asserted-identity") == [
            f"<{caller.subscriber.impu_sip}>", f"<{caller.subscriber.impu_tel}>",
        ]  # fmt: skip
        assert invite.get("p-called-party-id") == f"<{callee.subscriber.impu_tel}>"
        assert invite.body == sent.body
        assert len(invite.values("via")) == 2
        for gone in ("require", "proxy-require", "security-verify", "route"):
            assert invite.get(gone) is None, gone
        for kept in ("from", "to", "call-id", "cseq", "contact", "supported", "max-forwards"):
            assert invite.get(kept) == sent.get(kept), kept
        b.answer(183, ("rseq", "1"), body=sdp(callee))
        progress = await a.progress(183)
        assert progress.values("via") == sent.values("via")
        assert progress.body == sdp(callee)
        a.send("PRACK", ("rack", "1 1 INVITE"))
        await b.takes("PRACK")
        await caller.response(200, "PRACK")
        a.send("UPDATE", body=sdp(caller))
        await b.takes("UPDATE", body=sdp(callee))
        await caller.response(200, "UPDATE")
        b.answer(180)
        await a.progress(180)
        b.answer(200)
        await a.progress(200)
        a.ack()
        await b.takes("ACK")
        held = b.send("INVITE", body=sdp(callee))
        again = await caller.request("INVITE")
        caller.send(response_to(again, 488, "Not Acceptable Here"))
        await callee.response(488, "INVITE")
        b.send("ACK", cseq=held.cseq)
        await caller.request("ACK")
        await ends(a, b)

    target = between_two(scenario)
    assert target.counters["calls"] == 1
    assert not any(name.startswith(("refused", "malformed")) for name in target.counters)


def test_busy_and_cancelled() -> None:
    async def scenario(caller: CallPhone, callee: CallPhone) -> None:
        a = Caller(caller, f"{callee.subscriber.impu_sip};user=phone")
        a.invite()
        await caller.response(100, "INVITE")
        b = await Callee.rings(callee)
        b.answer(486)
        await a.fails(486)
        ack = await callee.request("ACK")
        assert ack.branch == b.invited.branch
        a.invite()
        await caller.response(100, "INVITE")
        b = await Callee.rings(callee)
        b.answer(180)
        await a.progress(180)
        a.target = a.invited.uri if a.invited is not None else ""
        a.cancel()
        cancel = await callee.request("CANCEL")
        assert cancel.branch == b.invited.branch
        b.answer(200, request=cancel)
        await caller.response(200, "CANCEL")
        b.answer(487)
        await a.fails(487)

    between_two(scenario)


@pytest.mark.parametrize(
    ("uri", "status"),
    [("tel:+19999999999", 404), (POPULATION.subscriber(5).impu_tel, 480)],
)
def test_nobody_there(uri: str, status: int) -> None:
    async def scenario(caller: CallPhone, callee: CallPhone) -> None:
        a = Caller(caller, uri)
        a.invite()
        await a.fails(status)
        await callee.silence()

    between_two(scenario)


def test_a_phone_that_is_not_registered_is_refused() -> None:
    async def scenario(caller: CallPhone, callee: CallPhone) -> None:
        stranger = CallPhone(caller.core, 2)
        await stranger.connect()
        a = Caller(stranger, callee.subscriber.impu_tel)
        a.invite()
        await a.fails(403)

    between_two(scenario)


@pytest.mark.parametrize(
    "data",
    [
        b"INVITE\r\nContent-Length: 0\r\n\r\n",
        b"INVITE tel:+15550000002 SIP/2.0\r\nVia: x\r\nContent-Length: 0\r\n\r\n",
        b"INVITE tel:+15550000002 SIP/2.0\r\nVia: x;branch=y\r\nContent-Length: 0\r\n\r\n",
        b"SIP/2.0 200 OK\r\nVia: SIP/2.0/TCP 127.0.0.1;branch=z9hG4bKrx\r\n"
        b"Content-Length: 0\r\n\r\n",
        b"SIP/2.0 200 OK\r\nVia: SIP/2.0/TCP 127.0.0.1;branch=z9hG4bKr99-x\r\n"
        b"Content-Length: 0\r\n\r\n",
    ],
)
def test_malformed_messages_of_calls_are_never_fatal(data: bytes) -> None:
    async def scenario(caller: CallPhone, callee: CallPhone) -> None:
        broken = await CallPhone(caller.core, 2).attach()
        broken.writer.write(data)
        a = Caller(caller, callee.subscriber.impu_tel)
        a.invite()
        await caller.response(100, "INVITE")
        (await Callee.rings(callee)).answer(486)
        await a.fails(486)

    between_two(scenario)


def test_a_via_is_cut_from_a_line_of_its_own_and_from_a_list() -> None:
    mark = b"SIP/2.0/TCP h;branch=z9hG4bKr"
    theirs = b"SIP/2.0/TCP p;branch=x"
    rest = b"\r\nTo: <a:b>\r\n\r\n"
    alone = b"SIP/2.0 200 OK\r\nVia: " + mark + b"7-x\r\nv: " + theirs + rest
    assert cut_via(alone, mark) == (7, b"SIP/2.0 200 OK\r\nv: " + theirs + rest)
    listed = b"SIP/2.0 200 OK\r\nVia: " + mark + b"7-x, " + theirs + rest
    assert cut_via(listed, mark) == (7, b"SIP/2.0 200 OK\r\nVia: " + theirs + rest)
    assert cut_via(b"SIP/2.0 200 OK\r\nVia: " + theirs + rest, mark) is None


def test_calls_inside_sas_go_from_port_pc_to_port_us() -> None:
    backend = FakeBackend()
    ports = {"port_ps": free_port(), "port_pc_first": 39_000, "port_pc_count": 64}
    with null_target(backend, **ports) as target:

        class Address:
            address = target.address

        async def scenario() -> None:
            caller = await ProtectedPhone(Address(), 0).attach()  # type: ignore[arg-type]
            callee = await ProtectedPhone(Address(), 1).attach()  # type: ignore[arg-type]
            a, b = await answered(caller, callee)
            await ends(b, a)
            assert {39_000} == set(caller.notified_from) == set(callee.notified_from)
            await caller.stop()
            await callee.stop()

        run(scenario)
    assert len(backend.installed) == 2
