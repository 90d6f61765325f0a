"""Phones and the reference core, each with the ESP backend of its choice: every procedure, and the wire.

The host level (``test_esp_pairs``) has all algorithms with all backends; here each combination of
backends meets each algorithm once or twice, as a run takes its ten seconds.
"""

from __future__ import annotations

from collections import defaultdict

import pytest

from imsbench.host import addresses
from tests.lab import wire
from tests.lab.procedures import Observed, observe

pytestmark = [pytest.mark.kernel_esp, pytest.mark.slow]

_PHONES = 4
_PROFILE = f"""
name: procedures
subscribers: {{count: {_PHONES}}}
phones: {{ip_version: %d, ipsec: %s, algs: [%s], ealgs: ["%s"]}}
target: {{ipsec: %s, expires: 8s, min_expires: 2s, reauthenticate: true}}
generator: {{arrivals: constant}}
phases:
  - fill: {{rate: 8, to: {_PHONES}}}
  - hold: {{duration: 4s}}
  - cycle: {{rate: 8}}
"""
# A phone refreshes at half of what was granted: each once in the hold, 4 s after its registration, and
# the second time 2.5 s after the cycle, however long the steps take to follow each other.
_COMBINATIONS = [
    (4, "kernel", "kernel", "hmac-sha-1-96", "null"),
    (6, "kernel", "kernel", "hmac-md5-96", "aes-cbc"),
    (4, "kernel", "userspace", "hmac-md5-96", "null"),
    (6, "kernel", "userspace", "hmac-sha-1-96", "aes-cbc"),
    (4, "userspace", "kernel", "hmac-sha-1-96", "aes-cbc"),
    (6, "userspace", "kernel", "hmac-md5-96", "null"),
]
_SIP = 5060
_HOSTILE = ("bad_icv", "replayed", "truncated", "bad_padding", "wrong_port", "wrong_address")


@pytest.mark.parametrize(
    ("version", "phones", "core", "alg", "ealg"),
    _COMBINATIONS,
    ids=[f"ipv{v}-phones:{a}-core:{b}-{c}-{d}" for v, a, b, c, d in _COMBINATIONS],
)
def test_every_procedure(version: int, phones: str, core: str, alg: str, ealg: str) -> None:
    run = observe(_PROFILE % (version, phones, alg, ealg, core))
    assert (run.status, run.failures) == ("complete", []), run.reason
    assert (run.backend, run.core["backend"]) == (phones, core)
    check_procedures(run)
    check_wire(run, version)
    for counters in (run.backend_counters, run.core["backend_counters"]):
        assert not {name: counters[name] for name in _HOSTILE if counters.get(name)}


def check_procedures(run: Observed) -> None:
    """Registration and reg-event; refresh with a new SA set; de-registration and all again."""
    everybody = (_PHONES, _PHONES)
    fill, hold, cycle = run.steps
    assert fill == {"registration": everybody, "subscription": everybody}
    assert hold["reregistration"] == everybody
    assert cycle["deregistration"] == cycle["registration"] == cycle["subscription"] == everybody


def check_wire(run: Observed, version: int) -> None:
    """In clear only the unprotected REGISTER and its 401; all four SAs of every set carried packets."""
    transports = [p for p in run.packets if p.protocol in (wire.TCP, wire.UDP)]
    pcscf = addresses.pcscf_address(version)
    clear = [str(p) for p in transports if (pcscf, _SIP) not in ends(p)]
    assert not clear
    assert transports, "the unprotected REGISTERs were seen"
    sets = run.total("registration") + run.total("reregistration")
    used = spans(run.packets)
    assert len(used) == 2 * _PHONES
    assert sum(map(len, used.values())) == 4 * sets, used
    # A set has two SAs each way: with three in use, the new set of a refresh stands beside the old.
    assert {side: most_at_once(sas) for side, sas in used.items() if most_at_once(sas) < 3} == {}


Span = tuple[int, int]
"""First and last packet of an SA, by their places on the wire."""


def spans(packets: list[wire.Packet]) -> dict[tuple[str, str], dict[int, Span]]:
    """When each SA was in use: by source and destination, then by SPI."""
    found: dict[tuple[str, str], dict[int, Span]] = defaultdict(dict)
    for place, packet in enumerate(packets):
        if packet.protocol == wire.ESP:
            sas = found[packet.source, packet.destination]
            first, _ = sas.get(packet.spi, (place, place))
            sas[packet.spi] = first, place
    return found


def most_at_once(sas: dict[int, Span]) -> int:
    """How many SAs were in use at the same time."""
    starts = [first for first, _ in sas.values()]
    return max(sum(first <= at <= last for first, last in sas.values()) for at in starts)


def ends(packet: wire.Packet) -> set[tuple[str, int]]:
    source, destination = packet.ports
    return {(packet.source, source), (packet.destination, destination)}
