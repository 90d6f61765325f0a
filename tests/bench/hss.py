"""Speed of the HSS simulator: ``python -m tests.bench.hss``.

Prints two figures, with a client on loopback in another process than the HSS:

* Cx transactions per CPU-second of the HSS process, at full speed: registrations (UAR, MAR, UAR, SAR) and
  de-registrations (UAR, SAR) of as many subscribers as fit the seconds given.
* Response time at a steady rate, as the HSS measures it (last byte read -> first byte written) and as the
  client sees it (written -> decoded).
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import multiprocessing
import time
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection as Pipe

from imsbench.histogram import Histogram
from imsbench.subscriber import Population
from simulators.cx import (
    AKA_SCHEME,
    CX,
    MultimediaAuthRequest,
    ServerAssignmentRequest,
    ServerAssignmentType,
    SipAuthDataItem,
    UserAuthorizationRequest,
    UserAuthorizationType,
    succeeded,
)
from simulators.hss import HssNode, Procedures
from simulators.peer import Peer

POPULATION = Population(count=50_000, seed=7)
REALM = POPULATION.home_domain
SERVER = f"sip:scscf.{REALM}"


def hss(pipe: Pipe) -> None:
    """The HSS process: serves until told to report."""
    asyncio.run(_hss(pipe))


async def _hss(pipe: Pipe) -> None:
    node = HssNode(Procedures(POPULATION), origin_host=f"hss.{REALM}", origin_realm=REALM)
    pipe.send(await node.peer.listen("127.0.0.1", 0))
    gc.collect()
    gc.freeze()
    stopped = asyncio.Event()
    started = time.process_time()

    def on_command() -> None:
        nonlocal started
        if pipe.recv() == "stop":
            stopped.set()
            return
        pipe.send((time.process_time() - started, json.dumps(node.to_json())))
        node.commands.clear()
        started = time.process_time()

    asyncio.get_running_loop().add_reader(pipe.fileno(), on_command)
    await stopped.wait()
    await node.peer.close()


class Client:
    """An S-CSCF and I-CSCF in one, as fast as it is let."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.times = Histogram()
        self.done = 0

    async def ask(self, request: object) -> None:
        """One transaction."""
        start = time.perf_counter()
        answer = await self.peer.request(request)  # type: ignore[arg-type]  # any Cx request
        self.times.record(time.perf_counter() - start)
        if not succeeded(answer):
            raise SystemExit(f"{answer.name}: {answer.outcome}")
        self.done += 1

    def steps(self, n: int) -> list[Callable[[], Awaitable[None]]]:
        """One registration and one de-registration of subscriber n: six transactions."""
        one = POPULATION.subscriber(n)
        impi, impu = one.impi, one.impu_temporary

        def uar(kind: UserAuthorizationType) -> Awaitable[None]:
            return self.ask(
                UserAuthorizationRequest(
                    user_name=impi,
                    public_identity=impu,
                    visited_network_identifier=REALM.encode(),
                    user_authorization_type=kind,
                )
            )

        def mar() -> Awaitable[None]:
            return self.ask(
                MultimediaAuthRequest(
                    user_name=impi,
                    public_identity=impu,
                    sip_auth_data_item=SipAuthDataItem(sip_authentication_scheme=AKA_SCHEME),
                    sip_number_auth_items=1,
                    server_name=SERVER,
                )
            )

        def sar(kind: ServerAssignmentType) -> Awaitable[None]:
            return self.ask(
                ServerAssignmentRequest(
                    user_name=impi,
                    public_identity=[impu],
                    server_name=SERVER,
                    server_assignment_type=kind,
                    user_data_already_available=0,
                )
            )

        return [
            lambda: uar(UserAuthorizationType.REGISTRATION),
            mar,
            lambda: uar(UserAuthorizationType.REGISTRATION),
            lambda: sar(ServerAssignmentType.REGISTRATION),
            lambda: uar(UserAuthorizationType.DE_REGISTRATION),
            lambda: sar(ServerAssignmentType.USER_DEREGISTRATION),
        ]


async def full_speed(client: Client, seconds: float, parallel: int) -> None:
    """``parallel`` subscribers at a time, each one's transactions in order."""
    end = time.perf_counter() + seconds
    numbers = iter(range(POPULATION.count))

    async def one() -> None:
        for n in numbers:
            if time.perf_counter() > end:
                return
            for step in client.steps(n):
                await step()

    await asyncio.gather(*(one() for _ in range(parallel)))


async def steady(client: Client, seconds: float, rate: float) -> None:
    """Subscribers start evenly spaced so that ``rate`` transactions a second are asked."""
    start = time.perf_counter()
    tasks = []

    async def one(n: int) -> None:
        for step in client.steps(n):
            await step()

    for i in range(int(seconds * rate / 6)):
        due = start + i * 6 / rate
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        tasks.append(asyncio.create_task(one(i)))
    await asyncio.gather(*tasks)


async def measure(pipe: Pipe, seconds: float, rate: float) -> None:
    """Both figures."""
    host, port = pipe.recv()
    peer = Peer(origin_host=f"cscf.{REALM}", origin_realm=REALM, applications=(CX,))
    await peer.connect(host, port)
    pipe.send("report")
    pipe.recv()

    client = Client(peer)
    await full_speed(client, seconds, parallel=16)
    pipe.send("report")
    cpu_s, _ = pipe.recv()
    print(f"full speed: {client.done} transactions, {client.done / seconds:,.0f}/s")
    print(f"            {client.done / cpu_s:,.0f} per CPU-second of the HSS (bar: 3,000)")

    client = Client(peer)
    await steady(client, seconds, rate)
    pipe.send("report")
    cpu_s, report = pipe.recv()
    print(f"at {rate:g}/s: {client.done} transactions, HSS CPU {cpu_s / seconds:.1%} of a core")
    total = Histogram()
    for name, stats in json.loads(report)["commands"].items():
        histogram = Histogram.from_json(stats["response_time"])
        total.merge(histogram)
        print(f"            {name} {spell(histogram)} {stats['results']}")
    print(f"            response time {spell(total)} (bar: mean < 1 ms, p99 < 5 ms)")
    print(f"            at the client {spell(client.times)}")
    await peer.close()


def spell(histogram: Histogram) -> str:
    """A histogram in one line."""
    p99, most = histogram.quantile(0.99), histogram.maximum
    return f"mean {histogram.mean * 1e3:.3f} ms, p99 {p99 * 1e3:.3f} ms, max {most * 1e3:.3f} ms"


def main() -> None:
    """Start the HSS and measure it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rate", type=float, default=400.0)
    options = parser.parse_args()
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=hss, args=(theirs,))
    process.start()
    try:
        asyncio.run(measure(ours, options.seconds, options.rate))
    finally:
        ours.send("stop")
        process.join(5)


if __name__ == "__main__":
    main()
