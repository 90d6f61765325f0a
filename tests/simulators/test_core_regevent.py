"""The reg event package at the reference core (RFC 3680, RFC 6665, TS 24.229 §5.4.2.1)."""

from __future__ import annotations

import asyncio

import pytest

from imsbench.protocol.reginfo import Reginfo, parse_reginfo
from imsbench.protocol.sip import Request, serialize_message, tag_of
from simulators.cx import ReasonCode
from tests.simulators.core_helpers import TestPhone, running
from tests.simulators.test_core_registration import run


def reginfo(notify: Request) -> Reginfo:
    assert notify.method == "NOTIFY"
    assert notify.get("event") == "reg"
    assert notify.get("content-type") == "application/reginfo+xml"
    return parse_reginfo(notify.body)


def state(notify: Request) -> str:
    return (notify.get("subscription-state") or "").partition(";")[0]


def test_the_ladder_of_a_subscription() -> None:
    async def scenario() -> None:
        async with running() as core:
            phone = TestPhone(core)
            await phone.connect()
            await phone.register()
            ok = await phone.exchange(phone.subscribe_request())
            assert (ok.status, ok.get("expires")) == (200, "600000")
            assert ok.get("record-route")
            notify = await phone.notify()
            document = reginfo(notify)
            assert (document.version, document.state) == (0, "full")
            assert [r.aor for r in document.registrations] == [
                phone.subscriber.impu_sip, phone.subscriber.impu_tel,
            ]  # fmt: skip
            contact = document.registrations[0].contacts[0]
            assert (contact.state, contact.event) == ("active", "registered")
            assert state(notify) == "active"
            # One dialog: its tags are those of the 200.
            assert tag_of(notify.get("from") or "") == tag_of(ok.get("to") or "")
            assert tag_of(notify.get("to") or "") == "phone"
            assert notify.uri == contact.uri
            await asyncio.sleep(0.05)
            assert core.counters["NOTIFYs accepted"] == 1
            await phone.close()

    run(scenario)


def test_a_refreshed_registration_is_notified() -> None:
    async def scenario() -> None:
        async with running() as core:
            phone = TestPhone(core)
            await phone.connect()
            await phone.register()
            await phone.exchange(phone.subscribe_request())
            await phone.notify()
            await phone.exchange(phone.refresh())
            document = reginfo(await phone.notify())
            assert document.version == 1
            assert document.registrations[0].contacts[0].event == "refreshed"
            await phone.close()

    run(scenario)


def test_a_subscription_is_refreshed_and_ended_by_its_subscriber() -> None:
    async def scenario() -> None:
        async with running() as core:
            phone = TestPhone(core)
            await phone.connect()
            await phone.register()
            ok = await phone.exchange(phone.subscribe_request())
            await phone.notify()
            to = ok.get("to") or ""
            again = await phone.exchange(phone.subscribe_request(1000, to=to))
            assert (again.status, again.get("expires")) == (200, "1000")
            assert state(await phone.notify()) == "active"
            assert core.counts()["subscribed"] == 1
            ended = await phone.exchange(phone.subscribe_request(0, to=to))
            assert ended.status == 200
            last = await phone.notify()
            assert last.get("subscription-state") == "terminated;reason=timeout"
            assert core.counts()["subscribed"] == 0
            gone = await phone.exchange(phone.subscribe_request(1000, to=to))
            assert gone.status == 481
            await phone.close()

    run(scenario)


def test_deregistration_ends_all_subscriptions() -> None:
    async def scenario() -> None:
        async with running() as core:
            phone = TestPhone(core)
            await phone.connect()
            await phone.register()
            for _ in range(2):
                await phone.exchange(phone.subscribe_request())
                await phone.notify()
            assert (await phone.exchange(phone.refresh(0))).status == 200
            for _ in range(2):
                last = await phone.notify()
                assert state(last) == "terminated"
                registration = reginfo(last).registrations[0]
                assert registration.state == "terminated"
                assert registration.contacts[0].event == "unregistered"
            assert core.counts()["subscribed"] == 0
            await phone.close()

    run(scenario)


@pytest.mark.parametrize(
    ("reason", "event"),
    [
        (ReasonCode.PERMANENT_TERMINATION, "rejected"),
        (ReasonCode.SERVER_CHANGE, "deactivated"),
    ],
)
def test_an_rtr_is_told_to_the_phone(reason: ReasonCode, event: str) -> None:
    async def scenario() -> None:
        async with running() as core:
            phone = TestPhone(core)
            await phone.connect()
            await phone.register()
            await phone.exchange(phone.subscribe_request())
            await phone.notify()
            assert core.scscf.deregister_by_network(phone.subscriber.impi, [], reason) == 1
            last = await phone.notify()
            assert last.get("subscription-state") == f"terminated;reason={event}"
            assert reginfo(last).registrations[0].contacts[0].event == event
            assert core.counts()["registered"] == 0
            assert (await phone.exchange(phone.refresh())).status == 401
            await phone.close()

    run(scenario)


def test_an_expired_registration_is_told_to_the_phone() -> None:
    async def scenario() -> None:
        async with running(min_expires_s=1, expires_s=1) as core:
            phone = TestPhone(core)
            await phone.connect()
            await phone.register()
            await phone.exchange(phone.subscribe_request())
            await phone.notify()
            last = await phone.notify()
            assert reginfo(last).registrations[0].contacts[0].event == "expired"
            await phone.close()

    run(scenario)


def test_a_subscription_that_nobody_refreshes_ends() -> None:
    async def scenario() -> None:
        async with running() as core:
            phone = TestPhone(core)
            await phone.connect()
            await phone.register()
            await phone.exchange(phone.subscribe_request(1))
            assert state(await phone.notify()) == "active"
            last = await phone.notify()
            assert last.get("subscription-state") == "terminated;reason=timeout"
            assert core.counts()["subscribed"] == 0
            await phone.close()

    run(scenario)


def test_who_may_not_subscribe() -> None:
    async def scenario() -> None:
        async with running() as core:
            phone, other = TestPhone(core), TestPhone(core, 1)
            await phone.connect()
            unregistered = await phone.exchange(phone.subscribe_request())
            assert unregistered.status == 403
            await phone.register()
            request = phone.subscribe_request()
            request.uri = other.subscriber.impu_sip
            assert (await phone.exchange(request)).status == 403
            request = phone.subscribe_request()
            request.headers = [h for h in request.headers if h[0] != "event"]
            bad = await phone.exchange(request)
            assert (bad.status, bad.get("allow-events")) == (489, "reg")
            assert core.counts()["subscribed"] == 0
            await phone.close()

    run(scenario)


def test_a_phone_that_came_back_on_another_connection_is_notified_there() -> None:
    async def scenario() -> None:
        async with running() as core:
            phone = TestPhone(core)
            await phone.connect()
            await phone.register()
            await phone.close()
            await phone.connect()
            assert (await phone.exchange(phone.subscribe_request())).status == 200
            assert state(await phone.notify()) == "active"
            await phone.close()

    run(scenario)


def test_a_notify_without_a_connection_ends_the_subscription() -> None:
    async def scenario() -> None:
        async with running() as core:
            phone = TestPhone(core)
            await phone.connect()
            await phone.register()
            await phone.exchange(phone.subscribe_request())
            await phone.notify()
            await phone.close()
            await asyncio.sleep(0.05)
            core.scscf.reg_events.changed(next(iter(core.scscf.registrar)))
            assert core.counters["NOTIFYs failed: no answer"] == 1
            assert core.counts()["subscribed"] == 0

    run(scenario)


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01" + bytes(range(256)) * 4 + b"\r\n\r\n",
        b"REGISTER sip:x SIP/2.0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"SIP/2.0 200 OK\r\nVia: SIP/2.0/TCP a;branch=z\r\nFrom: <a:b>\r\nTo: <a:b>\r\n"
        b"Call-ID: 1\r\nCSeq: 1 NOTIFY\r\nContent-Length: 0\r\n\r\n",
    ],
)
def test_malformed_bytes_are_counted_and_never_fatal(data: bytes) -> None:
    async def scenario() -> None:
        async with running() as core:
            _, writer = await asyncio.open_connection(*core.address)
            writer.write(data)
            await asyncio.sleep(0.05)
            counted = [n for n in core.counters if n.startswith(("malformed", "responses without"))]
            assert counted
            writer.close()
            phone = TestPhone(core)
            await phone.connect()
            assert (await phone.register()).status == 200
            await phone.close()

    run(scenario)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("to", "nonsense"),
        ("authorization", "Digest username"),
        ("contact", "<sip:a@b>, <sip:c@d>"),
        ("contact", "<nonsense>"),
        ("contact", "*"),
    ],
)
def test_a_register_that_cannot_be_read_is_400(name: str, value: str) -> None:
    async def scenario() -> None:
        async with running() as core:
            phone = TestPhone(core)
            await phone.connect()
            request = phone.initial()
            request.headers = [(n, value if n == name else v) for n, v in request.headers]
            assert (await phone.exchange(request)).status == 400
            await phone.close()

    run(scenario)


def test_a_ping_gets_a_pong() -> None:
    async def scenario() -> None:
        async with running() as core:
            reader, writer = await asyncio.open_connection(*core.address)
            writer.write(b"\r\n\r\n")
            assert await asyncio.wait_for(reader.readexactly(2), 2) == b"\r\n"
            assert core.counters["keep-alive pings"] == 1
            writer.close()

    run(scenario)


def test_other_methods_are_405() -> None:
    async def scenario() -> None:
        async with running() as core:
            phone = TestPhone(core)
            await phone.connect()
            impu = phone.subscriber.impu_sip
            options = phone.build("OPTIONS", impu, impu, [])
            assert (await phone.exchange(options)).status == 403  # not registered
            phone.writer.write(serialize_message(phone.build("ACK", impu, impu, [])))  # no answer
            assert (await phone.register()).status == 200
            answer = await phone.exchange(phone.build("OPTIONS", impu, impu, []))
            assert answer.status == 405
            assert answer.get("allow")
            await phone.close()

    run(scenario)
