"""The reference core with the simulated HSS over Diameter, on loopback (TS 29.228 §6)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from simulators.connection import NoConnection
from simulators.core import hssclient
from simulators.core.service import ReferenceCore
from simulators.core.settings import CoreSettings
from simulators.hss import HssNode, Procedures
from tests.simulators.call_helpers import Caller, CallPhone, answered, ends, free_port
from tests.simulators.call_helpers import run as run_calls
from tests.simulators.core_helpers import DOMAIN, POPULATION, TestPhone
from tests.simulators.test_core_registration import run


@asynccontextmanager
async def core_and_hss() -> AsyncIterator[tuple[ReferenceCore, HssNode]]:
    """Both, connected."""
    hss = HssNode(Procedures(POPULATION, seed=1), origin_host="hss.test", origin_realm=DOMAIN)
    address = await hss.peer.listen("127.0.0.1", 0)
    listen = ("127.0.0.1", free_port())
    settings = CoreSettings(listen=listen, domain=DOMAIN, ipsec="off", hss=address)
    core = ReferenceCore(settings, None)
    await core.start()
    try:
        yield core, hss
    finally:
        await core.close()
        await hss.peer.close()


def test_a_phone_registers_refreshes_and_goes() -> None:
    async def scenario() -> None:
        async with core_and_hss() as (core, hss):
            phone = TestPhone(core)
            await phone.connect()
            ok = await phone.register()
            assert ok.status == 200
            assert ok.values("p-associated-uri")[0] == f"<{phone.subscriber.impu_sip}>"
            assert {name: stats.count for name, stats in hss.commands.items()} == {
                "UAR": 2, "MAR": 1, "SAR": 1,
            }  # fmt: skip
            assert hss.procedures.store.registered == 1
            assert (await phone.exchange(phone.refresh())).status == 200
            assert hss.commands["UAR"].count == 3
            assert (await phone.exchange(phone.refresh(0))).status == 200
            assert (hss.commands["UAR"].count, hss.commands["SAR"].count) == (4, 2)
            assert hss.procedures.store.registered == 0
            await phone.close()

    run(scenario)


def test_a_phone_that_is_ahead_resynchronises() -> None:
    async def scenario() -> None:
        async with core_and_hss() as (core, _):
            phone = TestPhone(core)
            for seq in (1 << 27, (1 << 27) + 1):
                for ind in range(32):
                    phone.window.accept(seq << 5 | ind)
            await phone.connect()
            first = await phone.exchange(phone.initial())
            auts = phone.answer_to(first)
            assert "auts=" in auts
            second = await phone.exchange(phone.register_request(auts))
            ok = await phone.exchange(phone.register_request(phone.answer_to(second)))
            assert ok.status == 200
            await phone.close()

    run(scenario)


def test_a_call_is_one_lir() -> None:
    async def scenario() -> None:
        async with core_and_hss() as (core, hss):
            caller, callee = CallPhone(core, 0), CallPhone(core, 1)
            await caller.attach()
            await callee.attach()
            a, b = await answered(caller, callee)
            await ends(a, b)
            assert hss.commands["LIR"].count == 1
            assert (await callee.exchange(callee.refresh(0))).status == 200
            for uri, status in ((callee.subscriber.impu_tel, 480), ("tel:+19999999999", 404)):
                nobody = Caller(caller, uri)
                nobody.invite()
                await caller.response(100, "INVITE")
                await nobody.fails(status)
            assert hss.commands["LIR"].results == {"2001": 1, "exp. 5003": 1, "exp. 5001": 1}

    run_calls(scenario)


def test_an_rtr_ends_the_registration() -> None:
    async def scenario() -> None:
        async with core_and_hss() as (core, hss):
            phone = TestPhone(core)
            await phone.connect()
            await phone.register()
            await phone.exchange(phone.subscribe_request())
            await phone.notify()
            answer = await hss.send_rtr(0)
            assert answer.outcome == "2001"
            last = await phone.notify()
            assert (last.get("subscription-state") or "").startswith("terminated")
            assert core.counts()["registered"] == 0
            await phone.close()

    run(scenario)


def test_a_ppr_replaces_the_profile() -> None:
    async def scenario() -> None:
        async with core_and_hss() as (core, hss):
            phone = TestPhone(core)
            await phone.connect()
            await phone.register()
            assert (await hss.send_ppr(0)).outcome == "2001"
            assert core.counters["profiles pushed"] == 1
            await phone.close()

    run(scenario)


def test_a_dead_hss_is_named() -> None:
    async def scenario() -> None:
        async with core_and_hss() as (core, hss):
            await hss.peer.close()
            await asyncio.sleep(0.05)
            phone = TestPhone(core)
            await phone.connect()
            answer = await phone.exchange(phone.initial())
            assert answer.status == 480
            assert "Cx UAR: no connection to the HSS" in (answer.get("warning") or "")
            await phone.close()

    run(scenario)


def test_a_silent_hss_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hssclient, "CX_TIMEOUT_S", 0.1)

    async def scenario() -> None:
        async with core_and_hss() as (core, hss):
            hss.peer.on_request = lambda request, connection: None
            phone = TestPhone(core)
            await phone.connect()
            answer = await phone.exchange(phone.initial())
            assert answer.status == 504
            assert "Cx UAR: no answer from the HSS" in (answer.get("warning") or "")
            await phone.close()

    run(scenario)


def test_a_core_without_a_hss_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hssclient, "CONNECT_TIMEOUT_S", 0.1)

    async def scenario() -> None:
        settings = CoreSettings(
            listen=("127.0.0.1", 0), domain=DOMAIN, ipsec="off", hss=("127.0.0.1", 1)
        )
        core = ReferenceCore(settings, None)
        with pytest.raises(NoConnection):
            await core.start()
        await core.close()

    run(scenario)
