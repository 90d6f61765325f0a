"""The null target over loopback TCP: phones accept what it says, and nothing stops it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from imsbench.host.backend import SaBackend
from imsbench.protocol.reginfo import parse_reginfo
from simulators.core.null import NullTarget
from simulators.core.nullphone import NullSettings
from simulators.core.nullsip import cut, expires_of, read_head
from simulators.core.settings import CoreSettings
from tests.simulators.core_helpers import DOMAIN, POPULATION, TestPhone


@contextmanager
def null_target(backend: SaBackend | None = None, **changes: Any) -> Iterator[NullTarget]:
    """A null target that runs in a thread."""
    ipsec = "off" if backend is None else "auto"
    core = CoreSettings(listen=("127.0.0.1", 0), domain=DOMAIN, ipsec=ipsec, **changes)
    target = NullTarget(NullSettings(core, POPULATION), backend)
    target.start()
    thread = threading.Thread(target=target.loop.run)
    target.loop.later(0.0, lambda: None)

    def look() -> None:  # wakes the loop, so that it sees that it shall stop
        target.loop.later(0.02, look)

    look()
    thread.start()
    try:
        yield target
    finally:
        target.loop.stopped = True
        thread.join(5)
        target.close()


def run_phone(target: NullTarget, n: int = 0) -> TestPhone:
    class Address:
        address = target.address

    return TestPhone(Address(), n)  # type: ignore[arg-type]


def test_a_phone_registers_subscribes_refreshes_and_goes() -> None:
    async def scenario(target: NullTarget) -> None:
        phone = run_phone(target)
        await phone.connect()
        ok = await phone.register()
        assert ok.status == 200
        assert (ok.get("contact") or "").endswith("expires=3600")
        assert ok.values("p-associated-uri")[0] == f"<{phone.subscriber.impu_sip}>"
        subscribed = await phone.exchange(phone.subscribe_request())
        assert (subscribed.status, subscribed.get("expires")) == (200, "600000")
        notify = await phone.notify()
        assert parse_reginfo(notify.body).registrations[0].state == "active"
        assert (await phone.exchange(phone.refresh())).status == 200
        gone = await phone.exchange(phone.refresh(0))
        assert (gone.status, gone.get("contact")) == (200, None)
        last = await phone.notify()
        assert (last.get("subscription-state") or "").startswith("terminated")
        assert parse_reginfo(last.body).version == 1
        assert last.cseq == 2
        await phone.close()

    with null_target() as target:
        asyncio.run(asyncio.wait_for(scenario(target), 10))


def test_each_registration_has_a_fresh_sqn() -> None:
    async def scenario(target: NullTarget) -> None:
        phone = run_phone(target)
        await phone.connect()
        for _ in range(4):
            assert (await phone.register()).status == 200
            assert (await phone.exchange(phone.refresh(0))).status == 200
        await phone.close()

    with null_target() as target:
        asyncio.run(asyncio.wait_for(scenario(target), 10))
        assert target.result()["registered"] == 0


def test_a_phone_that_is_ahead_resynchronises() -> None:
    async def scenario(target: NullTarget) -> None:
        phone = run_phone(target)
        assert phone.window.accept(32 * 500)
        assert phone.window.accept(32 * 501)
        await phone.connect()
        first = await phone.exchange(phone.initial())
        second = await phone.exchange(phone.register_request(phone.answer_to(first)))
        ok = await phone.exchange(phone.register_request(phone.answer_to(second)))
        assert ok.status == 200
        await phone.close()

    with null_target() as target:
        asyncio.run(asyncio.wait_for(scenario(target), 10))


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\xff" * 40_000,
        b"REGISTER sip:x SIP/2.0\r\n\r\n",
        b"REGISTER sip:x SIP/2.0\r\nContent-Length: 0\r\n\r\n",
        b"REGISTER sip:x SIP/2.0\r\nTo: <a:b>\r\nContent-Length: 0\r\n\r\n",
    ],
)
def test_malformed_bytes_close_the_connection_and_nothing_else(data: bytes) -> None:
    async def scenario(target: NullTarget) -> None:
        reader, writer = await asyncio.open_connection(*target.address)
        writer.write(data)
        try:
            answer = await reader.read()
        except ConnectionResetError:
            answer = b""
        assert answer in (b"",) or answer.startswith(b"SIP/2.0 403")
        writer.transport.abort()  # what was not read of it is not waited for
        phone = run_phone(target, 1)
        await phone.connect()
        assert (await phone.register()).status == 200
        await phone.close()

    with null_target() as target:
        asyncio.run(asyncio.wait_for(scenario(target), 10))
        assert any(name.startswith("malformed") for name in target.counters)


def test_a_ping_is_answered() -> None:
    async def scenario(target: NullTarget) -> None:
        reader, writer = await asyncio.open_connection(*target.address)
        writer.write(b"\r\n\r\n")
        assert await reader.readexactly(2) == b"\r\n"
        writer.close()

    with null_target() as target:
        asyncio.run(asyncio.wait_for(scenario(target), 10))


def test_heads_are_cut_where_they_end() -> None:
    message = b"REGISTER sip:x SIP/2.0\r\nt: <a:b>\r\nm: <sip:c>;expires=7\r\nl: 3\r\n\r\nabc"
    for length in range(len(message)):
        assert cut(message[:length]) == (b"", 0)
    head, size = cut(message + b"next")
    assert size == len(message)
    fields = read_head(head)
    assert fields[b"to"] == b"<a:b>;tag=null"
    assert expires_of(fields, 1) == 7
