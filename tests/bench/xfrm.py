"""What kernel SA sets cost to install and remove: sets per second, µs of CPU, bytes of netlink per set.

    python -m tests.bench.xfrm [--sets 10000] [--ip-version 4]

In a namespace of its own. Sets are installed until all stand, an equal share at a time, so that the
cost can be seen to rise with their number or not; then they are removed the same way. On a kernel
without ESP only the four policies of each set can be had, and they are measured; inside user-mode
Linux everything is (python -m tests.lab.uml -- python -m tests.bench.xfrm --sets 2000).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence

from imsbench.host import addresses, namespace
from imsbench.host import xfrm_messages as messages
from imsbench.host.netlink import NETLINK_XFRM, NetlinkSocket
from imsbench.host.xfrm import KernelEsp, esp_refusal
from imsbench.protocol.secagree import Sa, SaSet, integrity_key

PARTS = 5
PORTS = ((20000, 20063), (6101, 6101))


def sas_of(version: int, number: int) -> SaSet:
    return SaSet(
        phone_address=addresses.phone_address(version, 0, 1, number),
        pcscf_address=addresses.pcscf_address(version),
        port_uc=20000,
        port_us=6101,
        port_pc=40000,
        port_ps=5063,
        spi_uc=4096 + 2 * number,
        spi_us=4097 + 2 * number,
        spi_pc=1_000_000 + 2 * number,
        spi_ps=1_000_001 + 2 * number,
        alg="hmac-sha-1-96",
        ealg="null",
        integrity_key=integrity_key("hmac-sha-1-96", bytes(16)),
        cipher_key=b"",
    )


def made(sas: SaSet) -> list[messages.SaMessages]:
    def one(sa: Sa, direction: messages.Direction) -> messages.SaMessages:
        return messages.SaMessages(sa, direction)

    out, into = sas.sas_from("phone"), sas.sas_to("phone")
    return [*(one(sa, "out") for sa in out), *(one(sa, "in") for sa in into)]


class PoliciesOnly:
    """What a kernel without ESP takes of a set."""

    def __init__(self) -> None:
        self._netlink = NetlinkSocket(NETLINK_XFRM)

    def install(self, sas: SaSet) -> None:
        requests = [(messages.NEW_POLICY, m.new_policy()) for m in made(sas)]
        assert not self._netlink.transact(requests).refusals

    def remove(self, sas: SaSet) -> None:
        requests = [(messages.DELETE_POLICY, m.policy_id()) for m in made(sas)]
        assert not self._netlink.transact(requests).refusals


def bytes_per_set(sas: SaSet) -> tuple[int, int]:
    """What is sent to install a set and to remove it: all of it, states and policies."""
    algorithms = messages.algorithm_attributes(sas.alg, sas.ealg, sas.integrity_key, sas.cipher_key)
    install = sum(2 * 16 + len(m.new_state(algorithms)) + len(m.new_policy()) for m in made(sas))
    remove = sum(3 * 16 + 2 * len(m.state_id()) + len(m.policy_id()) for m in made(sas))
    return install, remove


def measure(what: str, act: Callable[[SaSet], None], sets: Sequence[SaSet]) -> None:
    size = len(sets) // PARTS
    for start in range(0, PARTS * size, size):
        wall, cpu = time.perf_counter(), time.process_time()
        for sas in sets[start : start + size]:
            act(sas)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        print(
            f"  {what} sets {start + 1:>6,} to {start + size:>6,}: "
            f"{size / wall:>8,.0f} sets/s, {cpu / size * 1e6:6.1f} µs of CPU a set"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=10_000)
    parser.add_argument("--ip-version", type=int, choices=(4, 6), default=4)
    arguments = parser.parse_args()
    version = arguments.ip_version
    namespace.enter_new_network_namespace()
    sets = [sas_of(version, number) for number in range(arguments.sets)]
    refusal = esp_refusal(version)
    print("policies only: " + refusal if refusal else "states and policies")
    installed, removed = bytes_per_set(sets[0])
    print(f"  netlink of a whole set: {installed:,} bytes to install, {removed:,} to remove")
    began = time.process_time()
    for sas in sets:
        bytes_per_set(sas)
    packing = (time.process_time() - began) / len(sets) * 1e6
    print(f"  packing all its messages: {packing:.1f} µs of CPU a set (install and remove)")
    backend = KernelEsp("phone", version, protected_ports=PORTS)
    carrier = PoliciesOnly() if refusal else backend
    measure("install", carrier.install, sets)
    began = time.perf_counter()
    backend.counters()
    print(f"  counters() over them: {(time.perf_counter() - began) * 1e3:.1f} ms")
    measure("remove ", carrier.remove, sets)
    backend.close()


if __name__ == "__main__":
    main()
