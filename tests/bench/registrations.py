"""AKA registrations per CPU-second of the generator, beside SIPp in the same run.

REGISTER, 401, REGISTER, 200; one TCP connection per phone, held open; no ESP; loopback. The window
is the fill: first REGISTER sent to last 200 read. CPU is user + system of the generator's process
alone. SIPp's cost is its poll() over the sockets held, so it depends on rate and number.

    python -m tests.bench.registrations [--phones 1000 8000] [--rate 200 800] [--no-sipp]
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from imsbench.engine.connections import EngineSettings
from imsbench.engine.driver import Driver
from imsbench.engine.loop import Loop, clock
from imsbench.outcome import Outcome
from imsbench.phone.phone import Network, PhoneSettings
from imsbench.phone.requests import answer_request
from imsbench.protocol.aka import Milenage, generate_vector, make_nonce
from imsbench.run.phones import Phones
from imsbench.subscriber import Population

K, OP, AMF = b"0123456789abcdef", b"fedcba9876543210", b"ab"
PORT = 15060
MODULE = "tests.bench.registrations"
SCENARIO = Path(__file__).with_name("register_aka.xml")
SINK = Path(__file__).with_name("sink.py")


def nonce() -> str:
    """One challenge that every new phone with these keys accepts."""
    vector = generate_vector(Milenage(K, op=OP), bytes(range(16)), 32 << 5, AMF)
    return make_nonce(vector.rand, vector.autn)


def imsbench_worker(phones: int, rate: float) -> None:
    """Register ``phones`` phones at ``rate`` in this process; print CPU and times as JSON."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    loop = Loop()
    settings = PhoneSettings("127.0.0.1", PORT, ipsec=False)
    network = Network(settings, Population(phones, domain="ims.test", k=K, op=OP), random.Random(1))
    driver = Driver(loop, EngineSettings(), None, lambda _address: None, answer_request)
    failed, done = [0], [0]

    def record(outcome: Outcome) -> None:
        done[0] += 1
        failed[0] += bool(outcome.cause)
        if done[0] == phones:
            loop.stop()

    addresses = dict.fromkeys(range(phones), "127.0.0.1")
    load = Phones(loop, driver, network, addresses, subscribe=False, on_outcome=record)
    begin = clock() + 0.1
    count = [0]

    def arrive(due_at: float) -> None:
        load.register(load.all[count[0]], due_at)
        count[0] += 1
        if count[0] < phones:
            due_at = begin + count[0] / rate
            loop.call_at(due_at, arrive, due_at)

    loop.call_at(begin, arrive, begin)
    cpu = time.process_time()
    loop.run()
    cpu = time.process_time() - cpu
    print(json.dumps({"cpu_s": cpu, "failed": failed[0], "elapsed_s": clock() - begin}))


def run_imsbench(phones: int, rate: float) -> float:
    """Registrations per CPU-second of a worker."""
    command = [sys.executable, "-m", MODULE, "--worker", str(phones), str(rate)]
    result = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    assert not result["failed"], result
    return phones / float(result["cpu_s"])


def run_sipp(phones: int, rate: float, sink: subprocess.Popen[str]) -> float:
    """Registrations per CPU-second of SIPp: its CPU when the sink has answered the last 200."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            "sipp", "-sf", str(SCENARIO), "-i", "127.0.0.1", "-p", "15071", "-t", "tn",
            f"127.0.0.1:{PORT}", "-r", str(int(rate)), "-m", str(phones), "-l", str(phones),
            "-max_socket", "19000", "-nostdin",
        ]  # fmt: skip
        process = subprocess.Popen(
            command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            _wait_line(sink, "registered", phones / rate * 5 + 30)
            # Nanoseconds on a CPU, user and system, of each of its threads.
            threads = Path(f"/proc/{process.pid}/task").glob("*/schedstat")
            cpu_s = sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9
        finally:
            process.kill()
            process.wait()
    return phones / cpu_s


def _wait_line(process: subprocess.Popen[str], line: str, timeout_s: float) -> None:
    assert process.stdout is not None
    if not select.select([process.stdout], [], [], timeout_s)[0]:
        raise TimeoutError(f"no {line!r} in {timeout_s:g} s")
    assert process.stdout.readline().strip() == line


def main() -> None:
    """Run every combination of population and rate, and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--phones", type=int, nargs="*", default=[1000, 8000])
    parser.add_argument("--rate", type=float, nargs="*", default=[200, 800])
    parser.add_argument("--no-sipp", action="store_true")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        imsbench_worker(int(arguments.worker[0]), float(arguments.worker[1]))
        return
    with_sipp = not arguments.no_sipp and shutil.which("sipp") is not None
    print(f"{'phones':>7} {'rate/s':>7} {'imsbench/CPU-s':>15} {'SIPp/CPU-s':>11} {'ratio':>6}")
    for phones in arguments.phones:
        for rate in arguments.rate:
            with _sink(phones) as sink:
                ours = run_imsbench(phones, rate)
                _wait_line(sink, "registered", 5)
                theirs = run_sipp(phones, rate, sink) if with_sipp else float("nan")
            print(f"{phones:7,} {rate:7g} {ours:15,.0f} {theirs:11,.0f} {ours / theirs:6.2f}")


@contextmanager
def _sink(phones: int) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, str(SINK), str(PORT), nonce(), str(phones)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        _wait_line(process, "listening", 5)
        yield process
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    main()
