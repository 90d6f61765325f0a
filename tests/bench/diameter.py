"""What the benchmarks of Diameter simulators share: a node in a process of its own, and a client.

Full speed      units of work, so many at a time, each one's transactions in order
steady          units that start evenly spaced, for so many transactions a second
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import multiprocessing
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe

from imsbench.histogram import Histogram
from simulators.base import Application, DiameterMessage
from simulators.node import Node
from simulators.peer import Peer

PARALLEL = 16


class Client:
    """A peer of the simulator, as fast as it is let."""

    def __init__(self, peer: Peer, succeeded: Callable[[DiameterMessage], bool]) -> None:
        self.peer = peer
        self.times = Histogram()
        self.done = 0
        self._succeeded = succeeded

    async def ask(self, request: DiameterMessage) -> None:
        """One transaction."""
        start = time.perf_counter()
        answer = await self.peer.request(request)
        self.times.record(time.perf_counter() - start)
        if not self._succeeded(answer):
            raise SystemExit(f"{answer.name}: {answer.outcome}")
        self.done += 1


@dataclass(frozen=True, slots=True)
class Bench:
    """One simulator and the work it is given."""

    name: str
    """"HSS"."""
    make_node: Callable[[], Node]
    """The simulator; a function of a module, as it is made in another process."""
    application: Application
    """What the client speaks."""
    origin: tuple[str, str]
    """The client's host and realm."""
    succeeded: Callable[[DiameterMessage], bool]
    """Whether an answer is a success."""
    unit: Callable[[Client, int], Awaitable[None]]
    """The work of number n."""
    transactions: int
    """In one unit."""
    units: int
    """How many there are."""
    bar: str = ""
    """What full speed has to reach, in words."""


def serve(pipe: Pipe, make_node: Callable[[], Node]) -> None:
    """The simulator's process: serves until told to report."""
    asyncio.run(_serve(pipe, make_node()))


async def _serve(pipe: Pipe, node: Node) -> None:
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


async def _full_speed(bench: Bench, client: Client, seconds: float) -> None:
    end = time.perf_counter() + seconds
    numbers = iter(range(bench.units))

    async def one() -> None:
        for n in numbers:
            if time.perf_counter() > end:
                return
            await bench.unit(client, n)

    await asyncio.gather(*(one() for _ in range(PARALLEL)))


async def _steady(bench: Bench, client: Client, seconds: float, rate: float) -> None:
    start = time.perf_counter()
    tasks = []
    interval_s = bench.transactions / rate
    for i in range(int(seconds / interval_s)):
        await asyncio.sleep(max(0.0, start + i * interval_s - time.perf_counter()))
        tasks.append(asyncio.ensure_future(bench.unit(client, i)))
    await asyncio.gather(*tasks)


async def _measure(bench: Bench, pipe: Pipe, seconds: float, rate: float) -> None:
    host, port = pipe.recv()
    origin_host, origin_realm = bench.origin
    peer = Peer(
        origin_host=origin_host, origin_realm=origin_realm, applications=(bench.application,)
    )
    await peer.connect(host, port)
    pipe.send("report")
    pipe.recv()

    client = Client(peer, bench.succeeded)
    await _full_speed(bench, client, seconds)
    pipe.send("report")
    cpu_s, _ = pipe.recv()
    print(f"full speed: {client.done} transactions, {client.done / seconds:,.0f}/s")
    print(f"            {client.done / cpu_s:,.0f} per CPU-second of the {bench.name}{bench.bar}")

    client = Client(peer, bench.succeeded)
    await _steady(bench, client, seconds, rate)
    pipe.send("report")
    cpu_s, report = pipe.recv()
    share = cpu_s / seconds
    print(f"at {rate:g}/s: {client.done} transactions, {bench.name} CPU {share:.1%} of a core")
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


def run(bench: Bench, description: str, rate: float) -> None:
    """Start the simulator and measure it; ``rate``: transactions a second unless told otherwise."""
    parser = argparse.ArgumentParser(description=description.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rate", type=float, default=rate)
    options = parser.parse_args()
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=serve, args=(theirs, bench.make_node)
    )
    process.start()
    try:
        asyncio.run(_measure(bench, ours, options.seconds, options.rate))
    finally:
        ours.send("stop")
        process.join(5)
