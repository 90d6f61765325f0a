"""Resident memory of a worker per registered phone: one connection each, subscribed, NOTIFY on it.

``ipsec: off``, so that it is the Python side alone that is measured. Two runs of different size
against the null target; the slope between them leaves out what a worker needs anyway.

    python -m tests.bench.memory [--phones 10000] [--rate 500]      (as root)
"""

from __future__ import annotations

import argparse
import subprocess
import sys

from imsbench.profile import parse_profile
from imsbench.run import network
from imsbench.run.coordinator import Coordinator

FEW = 100
PROFILE = """
name: bench
subscribers: {{count: {phones}}}
phones: {{ipsec: "off"}}
target: {{kind: "null"}}
phases: [{{fill: {{rate: {rate}, to: {phones}}}}}]
generator: {{arrivals: constant}}
"""


def resident_bytes(phones: int, rate: float) -> int:
    """Resident memory of the worker once all phones are registered and subscribed."""
    profile = parse_profile(PROFILE.format(phones=phones, rate=rate))
    network.enter(profile)
    record = Coordinator(profile, lambda _event: None).run()
    totals = record.steps[0].kpis.totals()
    assert totals["succeeded"] == 2 * phones, (totals, record.steps[0].failures)
    return int(record.steps[0].health[0]["memory_rss"])


def main() -> None:
    """Both runs, each in a process of its own: a run enters a namespace."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--phones", type=int, default=10_000)
    parser.add_argument("--rate", type=float, default=500)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(resident_bytes(arguments.one, arguments.rate))
        return
    sizes = []
    for phones in (FEW, FEW + arguments.phones):
        command = [
            sys.executable,
            "-m",
            "tests.bench.memory",
            "--one",
            str(phones),
            "--rate",
            str(arguments.rate),
        ]
        sizes.append(int(subprocess.run(command, check=True, capture_output=True).stdout))
    slope = (sizes[1] - sizes[0]) / arguments.phones
    print(f"worker with {FEW} phones: {sizes[0] / 2**20:.1f} MiB")
    print(f"worker with {FEW + arguments.phones:,} phones: {sizes[1] / 2**20:.1f} MiB")
    print(f"a registered phone: {slope:,.0f} bytes ({slope / 1024:.2f} KiB)")


if __name__ == "__main__":
    main()
