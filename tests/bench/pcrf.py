"""Speed of the PCRF simulator: ``python tests/bench/pcrf.py``.

Prints two figures, with a client on loopback in another process than the PCRF. A leg of a call is AAR, AAR,
STR on one session, as a P-CSCF opens one for each side of a call with preconditions.

* Rx transactions per CPU-second of the PCRF process, at full speed.
* Response time at a steady rate, as the PCRF measures it (last byte read -> first byte written) and as the
  client sees it (written -> decoded).
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import itertools
import json
import multiprocessing
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection as Pipe

from imsbench.histogram import Histogram
from simulators.base import DiameterMessage
from simulators.ipfilter import permit
from simulators.pcrf import PcrfNode
from simulators.peer import Peer
from simulators.rx import (
    RX,
    AaRequest,
    FlowUsage,
    MediaComponentDescription,
    MediaSubComponent,
    MediaType,
    SessionTerminationRequest,
    SubscriptionId,
    SubscriptionIdType,
    TerminationCause,
    codec_data,
    framed,
    succeeded,
)

REALM = "ims.mnc001.mcc001.3gppnetwork.org"
TRANSACTIONS_PER_LEG = 3
SDP = (
    "m=audio 50000 RTP/AVP 97 98\nb=AS:49\na=rtpmap:97 AMR-WB/16000/1\n"
    "a=rtpmap:98 telephone-event/16000"
)


def pcrf(pipe: Pipe) -> None:
    """The PCRF process: serves until told to report."""
    asyncio.run(_pcrf(pipe))


async def _pcrf(pipe: Pipe) -> None:
    node = PcrfNode(origin_host=f"pcrf.{REALM}", origin_realm=REALM)
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
    """A P-CSCF, as fast as it is let."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.times = Histogram()
        self.done = 0

    async def leg(self, n: int) -> None:
        """Both AARs and the STR of one side of a call."""
        phone, other = f"198.18.{n >> 8 & 255}.{n & 255}", "198.19.0.10"
        session_id = self.peer.new_session_id()
        for role in ("offer", "answer"):
            await self._ask(
                AaRequest(
                    session_id=session_id,
                    af_application_identifier=b"IMS Services",
                    media_component_description=[audio(phone, other, role)],
                    specific_action=[2, 4],
                    subscription_id=[
                        SubscriptionId(SubscriptionIdType.END_USER_SIP_URI, f"sip:+{n}@{REALM}")
                    ],
                    **framed(phone),
                )
            )
        await self._ask(
            SessionTerminationRequest(
                session_id=session_id, termination_cause=TerminationCause.LOGOUT
            )
        )

    async def _ask(self, request: DiameterMessage) -> None:
        start = time.perf_counter()
        answer = await self.peer.request(request)
        self.times.record(time.perf_counter() - start)
        if not succeeded(answer):
            raise SystemExit(f"{answer.name}: {answer.outcome}")
        self.done += 1


def audio(phone: str, other: str, role: str) -> MediaComponentDescription:
    """RTP and RTCP, each way."""
    flows = [
        MediaSubComponent(
            number,
            [
                permit("out", (other, 40000 + number), (phone, 50000 + number)),
                permit("in", (phone, 50000 + number), (other, 40000 + number)),
            ],
            flow_usage=FlowUsage.RTCP if number == 2 else None,
        )
        for number in (1, 2)
    ]
    return MediaComponentDescription(
        media_component_number=1,
        media_sub_component=flows,
        media_type=MediaType.AUDIO,
        max_requested_bandwidth_ul=49_000,
        max_requested_bandwidth_dl=49_000,
        codec_data=[codec_data("uplink", role, SDP), codec_data("downlink", role, SDP)],
    )


async def full_speed(client: Client, seconds: float, parallel: int) -> None:
    """``parallel`` legs at a time, each one's transactions in order."""
    end = time.perf_counter() + seconds

    async def one(numbers: Iterator[int]) -> None:
        for n in numbers:
            if time.perf_counter() > end:
                return
            await client.leg(n)

    numbers = itertools.count()
    await asyncio.gather(*(one(numbers) for _ in range(parallel)))


async def steady(client: Client, seconds: float, rate: float) -> None:
    """Legs start evenly spaced so that ``rate`` transactions a second are asked."""
    start = time.perf_counter()
    tasks = []
    for i in range(int(seconds * rate / TRANSACTIONS_PER_LEG)):
        due = start + i * TRANSACTIONS_PER_LEG / rate
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        tasks.append(asyncio.create_task(client.leg(i)))
    await asyncio.gather(*tasks)


async def measure(pipe: Pipe, seconds: float, rate: float) -> None:
    """Both figures."""
    host, port = pipe.recv()
    peer = Peer(origin_host=f"pcscf.{REALM}", origin_realm=REALM, applications=(RX,))
    await peer.connect(host, port)
    pipe.send("report")
    pipe.recv()

    client = Client(peer)
    await full_speed(client, seconds, parallel=16)
    pipe.send("report")
    cpu_s, _ = pipe.recv()
    print(f"full speed: {client.done} transactions, {client.done / seconds:,.0f}/s")
    print(f"            {client.done / cpu_s:,.0f} per CPU-second of the PCRF")

    client = Client(peer)
    await steady(client, seconds, rate)
    pipe.send("report")
    cpu_s, report = pipe.recv()
    print(f"at {rate:g}/s: {client.done} transactions, PCRF CPU {cpu_s / seconds:.1%} of a core")
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
    """Start the PCRF and measure it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rate", type=float, default=600.0)
    options = parser.parse_args()
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=pcrf, args=(theirs,))
    process.start()
    try:
        asyncio.run(measure(ours, options.seconds, options.rate))
    finally:
        ours.send("stop")
        process.join(5)


if __name__ == "__main__":
    main()
