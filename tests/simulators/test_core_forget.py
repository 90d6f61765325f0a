"""A core that loses its state: what it held is gone at once, and phones may come back."""

from __future__ import annotations

import asyncio

from tests.simulators.core_helpers import FakeCx, TestPhone, running
from tests.simulators.test_core_registration import run
from tests.simulators.test_core_security import FakeBackend, SecurePhone, secure


def test_everything_is_gone_and_a_phone_registers_again() -> None:
    async def scenario() -> None:
        cx = FakeCx()
        async with running(cx) as core:
            phone = TestPhone(core)
            await phone.connect()
            await phone.register()
            core.forget()
            await asyncio.sleep(0.05)
            await phone.close()
            counts = core.counts()
            held = ("registered", "subscribed", "calls", "connections", "sas")
            assert [counts[name] for name in held] == [0, 0, 0, 0, 0]
            assert counts["states lost"] == 1
            assert cx.asked[-1] == "SAR REGISTRATION"  # the HSS is told nothing
            await phone.connect()
            assert (await phone.register()).status == 200
            assert core.counts()["registered"] == 1
            await phone.close()

    run(scenario)


def test_a_challenge_from_before_is_not_known_any_more() -> None:
    async def scenario() -> None:
        async with running() as core:
            phone = TestPhone(core)
            await phone.connect()
            unauthorized = await phone.exchange(phone.initial())
            core.forget()
            await phone.close()
            await phone.connect()
            answer = await phone.exchange(phone.register_request(phone.answer_to(unauthorized)))
            assert answer.status == 401
            await phone.close()

    run(scenario)


def test_the_sas_go_at_once() -> None:
    async def scenario() -> None:
        backend = FakeBackend()
        async with secure(backend) as core:
            phone = SecurePhone(core)
            await phone.listen()
            assert (await phone.register_inside()).status == 200
            assert backend.installed
            core.forget()
            assert not backend.installed
            assert core.counts()["sas"] == 0
            await phone.stop()

    run(scenario)
