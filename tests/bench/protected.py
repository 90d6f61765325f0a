"""Protected registrations per CPU-second of the worker: user-space ESP, reg-event, NOTIFY.

Against the null target in its own namespace. One registration here is REGISTER, 401, four SAs,
REGISTER, 200, SUBSCRIBE, 200, NOTIFY over the target's own connection, 200. The unprotected run of
the same flow stands beside it in the same invocation: the difference is what ESP costs.

    python -m tests.bench.protected [--rate 100 250] [--phones 1500]      (as root)
"""

from __future__ import annotations

import argparse
import subprocess
import sys

from imsbench.profile import parse_profile
from imsbench.run import network
from imsbench.run.coordinator import Coordinator

PROFILE = """
name: bench
subscribers: {{count: {phones}}}
phones: {{ipsec: "{ipsec}"}}
target: {{kind: "null"}}
phases: [{{fill: {{rate: {rate}, to: {phones}}}}}]
generator: {{arrivals: constant}}
"""


def measure(phones: int, rate: float, ipsec: str) -> None:
    """Run once in this process; print registrations per CPU-second, and µs per ESP packet."""
    profile = parse_profile(PROFILE.format(phones=phones, rate=rate, ipsec=ipsec))
    network.enter(profile)
    record = Coordinator(profile, lambda _event: None).run()
    step = record.steps[0]
    totals, health = step.kpis.totals(), step.health[0]
    assert not totals["failed"], step.failures
    packets = sum(step.counters.get(f"esp packets_{way}", 0) for way in ("in", "out"))
    lag = health["loop_lag"]
    print(
        f"{rate:7g} {phones:7,} {ipsec:>10} {phones / health['cpu_s']:12,.0f} "
        f"{packets / phones:10.1f} {lag['max_s'] * 1e3:12.1f}"
    )


def main() -> None:
    """Every combination in a process of its own: each enters a namespace."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=float, nargs="*", default=[100, 250])
    parser.add_argument("--phones", type=int, default=1500)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        measure(int(arguments.one[0]), float(arguments.one[1]), arguments.one[2])
        return
    print(
        f"{'rate/s':>7} {'phones':>7} {'ipsec':>10} {'reg/CPU-s':>12} {'ESP pkts':>10} {'max lag ms':>12}"
    )
    for rate in arguments.rate:
        for ipsec in ("userspace", "off"):
            one = [str(arguments.phones), str(rate), ipsec]
            subprocess.run(
                [sys.executable, "-m", "tests.bench.protected", "--one", *one], check=True
            )


if __name__ == "__main__":
    main()
