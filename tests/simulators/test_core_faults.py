"""Faults of the reference core: refusals, losses and delays of chosen messages, resets, standing still."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from imsbench.protocol.sip import serialize_message
from simulators.core.faults import stand_still, timed_faults
from tests.simulators.core_helpers import TestPhone, running
from tests.simulators.diameter_helpers import run


def fault(what: str, *names: str, **values: Any) -> dict[str, Any]:
    made = {"what": what, "names": names, "share": 1.0, "code": None, "delay": {}}
    return made | values


async def connected(core: Any) -> TestPhone:
    phone = TestPhone(core)
    await phone.connect()
    return phone


def test_an_error_refuses_what_begins_a_registration_and_nothing_else() -> None:
    async def scenario() -> None:
        faults = (fault("error", "REGISTER", code=503, share=0.5),)
        async with running(steady_faults=faults) as core:
            phone = await connected(core)
            answers = [await phone.exchange(phone.initial()) for _ in range(100)]
            challenges = [answer for answer in answers if answer.status == 401]
            assert len(challenges) == 50
            assert {answer.status for answer in answers} == {401, 503}
            assert core.counters["refused as injected"] == 50
            again = phone.register_request(phone.answer_to(challenges[-1]))
            assert (await phone.exchange(again)).status == 200
            (told,) = core.result()["steady_faults"]
            assert (told["of"], told["struck"]) == (100, 50)
            await phone.close()

    run(scenario())


def test_a_loss_and_a_delay_strike_the_answers_that_they_name() -> None:
    async def scenario() -> None:
        faults = (
            fault("loss", "423 REGISTER"),
            fault("delay", "401 REGISTER", delay={"kind": "constant", "mean_s": 0.1}),
        )
        async with running(steady_faults=faults) as core:
            phone = await connected(core)
            phone.writer.write(serialize_message(phone.initial(1)))  # 423: lost
            begin = time.monotonic()
            assert (await phone.exchange(phone.initial())).status == 401
            assert time.monotonic() - begin >= 0.1
            lost, delayed = core.result()["steady_faults"]
            assert (lost["struck"], delayed["struck"]) == (1, 1)
            assert delayed["delays"]["count"] == 1
            assert core.counters["answers lost as injected"] == 1
            await phone.close()

    run(scenario())


def test_a_reset_reaches_the_phone_as_one() -> None:
    async def scenario() -> None:
        async with running() as core:
            reader, writer = await asyncio.open_connection(*core.address)
            writer.write(b"\r\n\r\n")
            assert await reader.readexactly(2) == b"\r\n"  # it is served
            faults = timed_faults(core, None)
            order = {
                "fault": 0, "step": None, "what": "tcp_reset", "at": 0.0, "duration_s": 0.0,
                "rate": None, "count": 3, "share": None,
            }  # fmt: skip
            faults.order(order)
            with pytest.raises(ConnectionResetError):
                await reader.readexactly(1)
            (told,) = faults.to_json()
            assert (told["done"], told["failed"]) == (1, 2)  # there was one only
            await faults.close()
            writer.close()

    run(scenario())


def test_a_core_that_stands_still_reads_later_and_tells_that_it_lives() -> None:
    class Channel:
        def __init__(self) -> None:
            self.sent: list[str] = []

        def send(self, kind: str, **values: Any) -> None:
            self.sent.append(kind)

    async def scenario() -> None:
        async with running() as core:
            phone = await connected(core)
            phone.writer.write(serialize_message(phone.initial()))
            await asyncio.sleep(0)  # it is on its way
            channel, begin = Channel(), time.monotonic()
            stand_still(core, channel, 1.1)  # type: ignore[arg-type]  # all that it uses of one
            assert time.monotonic() - begin >= 1.1
            assert channel.sent == ["tick"]
            assert core.counters["received REGISTER"] == 0
            assert (await phone.next_response()).status == 401
            await phone.close()

    run(scenario())
