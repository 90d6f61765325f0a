"""Calls per CPU-second of the null target: the whole ladder with preconditions, two legs, loopback, no ESP.

12 messages a call from phones that are a script: byte templates, a few calls at a time. CPU is user +
system of the target's process alone, between the first INVITE and the last 200 to BYE.

    python tests/bench/nullcalls.py [--calls 5000] [--core]

``--core`` measures the reference core instead (its speed is not what anybody measures; for information).
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from multiprocessing import Pipe, Process
from multiprocessing.connection import Connection

from imsbench.phone.dialog import ALLOW
from imsbench.protocol.sdp import make_offer, serialize_sdp
from simulators.core.null import NullTarget
from simulators.core.nullphone import NullSettings
from simulators.core.service import ReferenceCore
from simulators.core.settings import CoreSettings
from tests.simulators.call_helpers import Callee, Caller, CallPhone, ends, free_port, sdp
from tests.simulators.core_helpers import DOMAIN, POPULATION, FakeCx

AT_ONCE = 4
IR92 = [
    ("p-preferred-service", "urn:urn-7:3gpp-service.ims.icsi.mmtel"),
    ("p-early-media", "supported"),
    ("accept", "application/sdp, application/3gpp-ims+xml"),
    ("allow", ALLOW),
    ("supported", "100rel, precondition, timer"),
    ("p-access-network-info", "3GPP-E-UTRAN-FDD; utran-cell-id-3gpp=0010100010000001"),
]


def serve_null(port: int, pipe: Connection) -> None:
    """A null target until it is killed; its CPU time whenever asked."""
    settings = CoreSettings(listen=("127.0.0.1", port), domain=DOMAIN, ipsec="off")
    target = NullTarget(NullSettings(settings, POPULATION), None)
    target.start()
    target.loop.add_reader(pipe.fileno(), lambda: pipe.send((pipe.recv(), time.process_time())))
    pipe.send("ready")
    target.loop.run()


def serve_core(port: int, pipe: Connection) -> None:
    """A reference core with an HSS in memory."""

    async def serve() -> None:
        settings = CoreSettings(listen=("127.0.0.1", port), domain=DOMAIN, ipsec="off")
        await ReferenceCore(settings, None, cx=FakeCx()).start()
        loop = asyncio.get_running_loop()
        loop.add_reader(pipe.fileno(), lambda: pipe.send((pipe.recv(), time.process_time())))
        pipe.send("ready")
        await asyncio.Event().wait()

    asyncio.run(serve())


async def one_call(caller: CallPhone, callee: CallPhone) -> None:
    """The ladder of IR.92 with preconditions."""
    offer = serialize_sdp(make_offer("127.0.0.1", 49152, "1", preconditions=True))
    a = Caller(caller, callee.subscriber.impu_tel)
    a.invite(*IR92, body=offer)
    await caller.response(100, "INVITE")
    b = await Callee.rings(callee)
    b.answer(183, ("require", "100rel"), ("rseq", "1"), body=offer)
    await a.progress(183)
    a.send("PRACK", ("rack", "1 1 INVITE"))
    await b.takes("PRACK")
    await caller.response(200, "PRACK")
    a.send("UPDATE", body=offer)
    await b.takes("UPDATE", body=sdp(callee))
    await caller.response(200, "UPDATE")
    b.answer(180)
    await a.progress(180)
    b.answer(200)
    await a.progress(200)
    a.ack()
    await b.takes("ACK")
    await ends(a, b)


async def call(address: tuple[str, int], calls: int, pipe: Connection) -> float:
    """CPU-seconds of the target for so many calls."""

    class Address:
        pass

    Address.address = address  # type: ignore[attr-defined]
    phones = [
        await CallPhone(Address(), n).attach()  # type: ignore[arg-type]
        for n in range(2 * AT_ONCE)
    ]

    async def some(k: int) -> None:
        for _ in range(calls // AT_ONCE):
            await one_call(phones[2 * k], phones[2 * k + 1])

    def cpu_s() -> float:
        pipe.send(None)
        return float(pipe.recv()[1])

    begin = cpu_s()
    await asyncio.gather(*(some(k) for k in range(AT_ONCE)))
    return cpu_s() - begin


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=5000)
    parser.add_argument("--core", action="store_true")
    arguments = parser.parse_args()
    ours, theirs = Pipe()
    port = free_port()
    target = Process(target=serve_core if arguments.core else serve_null, args=(port, theirs))
    target.start()
    try:
        assert ours.recv() == "ready"
        used_s = asyncio.run(call(("127.0.0.1", port), arguments.calls, ours))
    finally:
        target.kill()
        target.join()
    name = "reference core" if arguments.core else "null target"
    print(f"{name}: {arguments.calls / used_s:,.0f} calls per CPU-second ({os.cpu_count()} CPUs)")


if __name__ == "__main__":
    main()
