"""Calls with preconditions per CPU-second of a worker, both ends, against the null target.

24 messages a call: 12 at each phone. Phones, flows, engine and the far end's byte relay are what a run
has; loopback, one TCP connection a phone, open arrivals. CPU is user + system of the worker's process
alone, from the first call due to the end of the last.

    python tests/bench/calls.py [--rate 150] [--seconds 15] [--profile] [--esp]

``--profile`` prints where the time goes (its calls per CPU-second are then those of a profiled one).
``--esp`` measures whole runs instead, in network namespaces (root): without ESP, with user-space ESP.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import random
import resource
import sys
import tempfile
import time
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

from imsbench.distribution import Distribution
from imsbench.engine.connections import EngineSettings
from imsbench.engine.driver import Driver
from imsbench.engine.loop import Loop, clock
from imsbench.outcome import CallOutcome, Outcome
from imsbench.phone.leg import CallSettings
from imsbench.phone.phone import Network, PhoneSettings
from imsbench.phone.requests import answer_request
from imsbench.profile import parse_profile
from imsbench.run import execute
from imsbench.run.calls import CallMix, Calls
from imsbench.run.phones import Phones
from imsbench.subscriber import Population
from simulators.core.null import NullTarget
from simulators.core.nullphone import NullSettings
from simulators.core.settings import CoreSettings

HOLD_S = 2.0
REGISTER_RATE = 200.0
BAR = 250
PROFILE = """
name: bench-calls
subscribers: {count: 400}
phones: {ipsec: %s, subscribe_reg_event: false}
target: {kind: "null"}
generator: {arrivals: constant}
phases:
  - fill: {rate: 100, to: 400}
  - calls: {rate: %g, duration: %gs, warm_up: 0s, hold: {mean: %gs}}
"""


class Bench:
    """Phones that register with the null target, then call each other."""

    def __init__(self, port: int, population: Population) -> None:
        self.loop = Loop()
        settings = PhoneSettings("127.0.0.1", port, ipsec=False)
        network = Network(settings, population, random.Random(1))
        self.driver = Driver(
            self.loop, EngineSettings(), None, lambda _address: None, answer_request
        )
        # Each an address of its own, as in a run: a call has one Call-ID at both ends.
        addresses = {n: f"127.1.{n // 250}.{n % 250 + 1}" for n in range(population.count)}
        self.phones = Phones(
            self.loop,
            self.driver,
            network,
            addresses,
            subscribe=False,
            on_outcome=self._registered,
        )
        self.calls = Calls(
            self.driver, network, self.phones, random.Random(1), on_outcome=self._called
        )
        self.failures: list[str] = []
        self._left = 0

    def register(self) -> None:
        """All of them, and return."""
        begin = clock() + 0.05
        for i, phone in enumerate(self.phones.all):
            due_at = begin + i / REGISTER_RATE
            self.loop.call_at(due_at, partial(self.phones.register, due_at=due_at), phone)
        self._run(len(self.phones.all))

    def call(self, rate: float, seconds: float) -> int:
        """As many calls as are due in so many seconds, to the end of the last; their number."""
        mix = CallMix(CallSettings(hold=Distribution("constant", HOLD_S)))
        count = int(rate * seconds)
        begin = clock() + 0.05

        def arrive(due_at: float) -> None:
            if not self.calls.start(mix, due_at):
                raise RuntimeError("no idle pair of phones: more phones, or less load")

        for i in range(count):
            due_at = begin + i / rate
            self.loop.call_at(due_at, arrive, due_at)
        self._run(count)
        return count

    def _run(self, count: int) -> None:
        self._left = count
        self.loop.run()
        if self.failures:
            raise RuntimeError(f"{len(self.failures)} failed, the first: {self.failures[0]}")

    def _registered(self, outcome: Outcome) -> None:
        self._ended(outcome.cause)

    def _called(self, outcome: CallOutcome) -> None:
        self._ended(f"{outcome.stage} {outcome.cause} {outcome.detail}" if outcome.cause else "")

    def _ended(self, failure: str) -> None:
        if failure:
            self.failures.append(failure)
        self._left -= 1
        if not self._left:
            self.loop.stop()


def serve_null(population: Population, pipe: Connection) -> None:
    """A null target until it is killed; its port is told first."""
    _raise_open_files()
    settings = CoreSettings(
        listen=("127.0.0.1", 0), domain=population.home_domain, ipsec="off", expires_s=600_000
    )
    target = NullTarget(NullSettings(settings, population), None)
    target.start()
    pipe.send(target.address[1])
    target.loop.run()


def measure(rate: float, seconds: float, profile: bool) -> float:
    """Calls per CPU-second of this process."""
    _raise_open_files()
    population = Population(int(rate * HOLD_S * 4) + 20)
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    target = context.Process(target=serve_null, args=(population, theirs))
    target.start()
    try:
        bench = Bench(ours.recv(), population)
        bench.register()
        profiler = cProfile.Profile() if profile else None
        begin = time.process_time()
        if profiler is not None:
            profiler.enable()
        count = bench.call(rate, seconds)
        if profiler is not None:
            profiler.disable()
        used_s = time.process_time() - begin
    finally:
        target.kill()
        target.join()
    if profiler is not None:
        pstats.Stats(profiler).sort_stats("tottime").print_stats(45)
    return count / used_s


def measure_run(ipsec: str, rate: float, seconds: float) -> float:
    """Calls per CPU-second of the worker of a whole run."""
    profile = parse_profile(PROFILE % (ipsec, rate, seconds, HOLD_S))
    with tempfile.TemporaryDirectory() as folder:
        executed = execute.execute(profile, lambda _event: None, Path(folder))
    step = executed.result.steps[-1]
    sessions = step.kpis.sessions
    failed = sessions.attempted - sessions.answered
    if failed or sessions.dropped:
        raise RuntimeError(f"{failed} of {sessions.attempted} calls failed")
    return float(sessions.attempted / sum(health.cpu_s for health in step.health))


def _raise_open_files() -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=float, default=150.0)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--esp", action="store_true")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:  # a run enters namespaces of its own, so each has a process
        found = measure_run(arguments.run, arguments.rate, arguments.seconds)
        print(
            f"a run, ESP {arguments.run}: {found:,.0f} calls per CPU-second of the worker",
            flush=True,
        )
        return
    print(f"{os.cpu_count()} CPUs, {arguments.rate:g} calls/s held {HOLD_S:g} s")
    if not arguments.esp:
        found = measure(arguments.rate, arguments.seconds, arguments.profile)
        print(f"no ESP, loopback: {found:,.0f} calls per CPU-second of the worker (bar {BAR})")
        return
    for ipsec in ("off", "userspace"):
        command = [sys.executable, __file__, "--run", ipsec]
        command += ["--rate", str(arguments.rate), "--seconds", str(arguments.seconds)]
        os.spawnv(os.P_WAIT, sys.executable, command)


if __name__ == "__main__":
    main()
