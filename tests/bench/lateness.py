"""How late a worker acts on its plan: an idle worker, 100 registrations per second, no ESP.

due -> act: until the SYN of the attempt's connection; due -> sent: until the first byte of the
REGISTER, the target's handshake included. Beside them a bare timer of the same loop (the loop lag),
and time.sleep() in a process of its own at the same moment: what this machine does to anybody.

    python -m tests.bench.lateness [--seconds 15]
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import time
from pathlib import Path

from imsbench.engine.connections import EngineSettings
from imsbench.engine.driver import Driver
from imsbench.engine.loop import Loop, clock
from imsbench.histogram import Histogram
from imsbench.outcome import Outcome
from imsbench.phone.phone import Network, PhoneSettings
from imsbench.phone.requests import answer_request
from imsbench.run.phones import Phones
from imsbench.subscriber import Population
from tests.bench.registrations import OP, PORT, K, nonce

RATE = 100.0
SLEEPER = (
    "import sys, time\n"
    "n, gap, late = int(sys.argv[1]), float(sys.argv[2]), []\n"
    "due = time.monotonic()\n"
    "for _ in range(n):\n"
    "    due += gap\n"
    "    time.sleep(max(0.0, due - time.monotonic()))\n"
    "    late.append(time.monotonic() - due)\n"
    "late.sort()\n"
    "print(late[n // 2], late[n * 99 // 100], late[-1])\n"
)


def measure(count: int) -> tuple[Histogram, Histogram, Histogram]:
    """(due -> act, due -> sent, loop lag) of so many registrations."""
    loop = Loop()
    network = Network(
        PhoneSettings("127.0.0.1", PORT, ipsec=False),
        Population(count, domain="ims.test", k=K, op=OP),
        random.Random(1),
    )
    driver = Driver(loop, EngineSettings(), None, lambda _address: None, answer_request)
    act, sent = Histogram(), Histogram()

    def record(outcome: Outcome) -> None:
        assert outcome.succeeded, outcome
        act.record(outcome.started_at - outcome.due_at)
        sent.record(outcome.sent_at - outcome.due_at)
        if act.count == count:
            loop.stop()

    addresses = dict.fromkeys(range(count), "127.0.0.1")
    load = Phones(loop, driver, network, addresses, subscribe=False, on_outcome=record)
    begin = clock() + 0.2

    def arrive(index: int) -> None:
        load.register(load.all[index], begin + index / RATE)
        if index + 1 < count:
            loop.call_at(begin + (index + 1) / RATE, arrive, index + 1)

    loop.call_at(begin, arrive, 0)
    loop.run()
    return act, sent, loop.lag


def main() -> None:
    """Measure once and print milliseconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=15)
    count = int(parser.parse_args().seconds * RATE)
    sink = [sys.executable, str(Path(__file__).with_name("sink.py")), str(PORT), nonce(), "0"]
    with subprocess.Popen(sink, stdout=subprocess.PIPE) as process:
        try:
            time.sleep(0.5)
            with subprocess.Popen(
                [sys.executable, "-c", SLEEPER, str(count), str(1 / RATE)],
                stdout=subprocess.PIPE,
                text=True,
            ) as sleeper:
                act, sent, lag = measure(count)
                slept = [float(value) for value in sleeper.communicate()[0].split()]
        finally:
            process.kill()
    print(f"{'ms':>20} {'p50':>8} {'p99':>8} {'max':>8}")
    for name, histogram in (("due -> act", act), ("due -> sent", sent), ("loop lag", lag)):
        values = histogram.quantile(0.5), histogram.quantile(0.99), histogram.maximum
        print(f"{name:>20} " + " ".join(f"{value * 1e3:8.3f}" for value in values))
    print(f"{'time.sleep() beside':>20} " + " ".join(f"{value * 1e3:8.3f}" for value in slept))


if __name__ == "__main__":
    main()
