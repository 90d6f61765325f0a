"""ESP of a phone's host and of a P-CSCF's, one of them or both the kernel's: packets and counters.

Both ends of a link are namespaces of one guest; every SA set is installed on both, each by its own
backend. The reference pair has ``ip xfrm`` at one end: an implementation of neither ours.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from imsbench.protocol.secagree import MECHANISMS, SaSet
from tests.host import hosts
from tests.host.hosts import Host
from tests.host.pairs import (
    PORT_PC,
    PORT_PS,
    PORT_UC,
    PORT_US,
    Pair,
    hang_up,
    pairs,
    ping,
)
from tests.lab import iproute, wire

pytestmark = pytest.mark.kernel_esp

_STARTS: dict[str, Callable[..., str]] = {
    "kernel": partial(hosts.start_backend, mode="kernel"),
    "userspace": partial(hosts.start_backend, mode="userspace"),
    "ip-xfrm": iproute.start,
}
_ENDS = [
    ("kernel", "kernel"),
    ("kernel", "userspace"),
    ("userspace", "kernel"),
    ("userspace", "ip-xfrm"),
    ("ip-xfrm", "kernel"),
]
_COMBINATIONS = [(*ends, version) for version in (4, 6) for ends in _ENDS]
_REFUSED = {"bad_icv": "XfrmInStateProtoError", "replayed": "XfrmInStateSeqError"}
"""The kernel's names of what both backends count by ours."""
_COUNTED = ("no_sa_out", "unknown_spi", "wrong_address", "wrong_port", "clear_in", *_REFUSED)


@pytest.fixture(
    scope="module",
    params=_COMBINATIONS,
    ids=[f"phone:{a}-pcscf:{b}-ipv{version}" for a, b, version in _COMBINATIONS],
)
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    phone, pcscf, version = request.param
    yield from pairs(version, _STARTS[phone], _STARTS[pcscf])


def refused(host: Host) -> dict[str, int]:
    """What this end has refused: as its backend counts it, or the kernel's own names for ``ip xfrm``."""
    counts = host.do(hosts.counters)
    if counts:
        return {name: counts[name] for name in _COUNTED if counts.get(name)}
    theirs: dict[str, int] = host.do(iproute.xfrm_errors)
    return theirs


def carried(host: Host) -> tuple[int, int] | None:
    """ESP packets out and in, as this end's backend counts them; ``ip xfrm`` does not."""
    counts = host.do(hosts.counters)
    return (counts["packets_out"], counts["packets_in"]) if counts else None


def _difference(counts: tuple[int, int], earlier: tuple[int, int]) -> tuple[int, int]:
    return counts[0] - earlier[0], counts[1] - earlier[1]


def newly_refused(host: Host, act: Callable[[], Any], *, settle_s: float = 0.1) -> dict[str, int]:
    before = refused(host)
    act()
    time.sleep(settle_s)
    after = refused(host)
    rises = {name: count - before.get(name, 0) for name, count in after.items()}
    return {name: rise for name, rise in rises.items() if rise}


def seen(pair: Pair, sas: SaSet) -> list[wire.Packet]:
    """The phone's packets on the wire since the last call, both ways."""
    packets = wire.parse_all(pair.pcscf.do(hosts.take_frames))
    return [p for p in packets if sas.phone_address in (p.source, p.destination)]


@pytest.mark.parametrize(("alg", "ealg"), MECHANISMS)
def test_four_sas_carry_tcp_both_ways_and_nothing_in_clear(pair: Pair, alg: str, ealg: str) -> None:
    sas = pair.sas(alg, ealg)
    pair.install(sas)
    pair.pcscf.do(hosts.take_frames)
    both = (pair.phone, pair.pcscf)
    refused_before, carried_before = [*map(refused, both)], [*map(carried, both)]
    ping(pair, sas)
    hang_up(pair)
    time.sleep(0.1)  # the FINs
    packets = seen(pair, sas)
    assert {packet.protocol for packet in packets} == {wire.ESP}
    assert {packet.spi for packet in packets} == {sas.spi_uc, sas.spi_us, sas.spi_pc, sas.spi_ps}
    assert [*map(refused, both)] == refused_before
    up = sum(packet.source == sas.phone_address for packet in packets)
    down = len(packets) - up
    for host, earlier, way in zip(both, carried_before, ((up, down), (down, up)), strict=True):
        counts = carried(host)
        assert counts is None or earlier is None or _difference(counts, earlier) == way
    pair.remove(sas)


def test_a_replayed_and_a_changed_packet_are_dropped_and_counted(pair: Pair) -> None:
    sas = pair.sas()
    pair.install(sas)
    pair.pcscf.do(hosts.take_frames)
    ping(pair, sas)
    time.sleep(0.1)
    packets = seen(pair, sas)
    ends = {
        pair.phone: (pair.pcscf, sas.phone_address, sas.spi_us),
        pair.pcscf: (pair.phone, sas.pcscf_address, sas.spi_ps),
    }
    for host, (sender, destination, spi) in ends.items():
        old = next(packet for packet in packets if packet.spi == spi)
        changed = wire.with_sequence(old, 100_000)
        for data, kind in ((old.data, "replayed"), (changed, "bad_icv")):
            inject = partial(sender.do, hosts.inject, pair.version, data, destination)
            rise = newly_refused(host, inject)
            assert rise in ({kind: 1}, {_REFUSED[kind]: 1})
    hang_up(pair)
    pair.remove(sas)


def test_a_clear_syn_between_protected_ports_is_not_answered_in_clear(pair: Pair) -> None:
    sas = pair.sas()
    pair.install(sas)
    up = wire.syn(sas.phone_address, PORT_UC, sas.pcscf_address, PORT_PS)
    down = wire.syn(sas.pcscf_address, PORT_PC, sas.phone_address, PORT_US)
    for sender, receiver, listener, packet, to in (
        (pair.phone, pair.pcscf, "ps", up, sas.pcscf_address),
        (pair.pcscf, pair.phone, "us", down, sas.phone_address),
    ):
        pair.pcscf.do(hosts.take_frames)
        sender.do(hosts.inject, pair.version, packet, to)
        assert receiver.do(hosts.accept, listener, "taken", 0.3) is None
        clear = [str(p) for p in seen(pair, sas) if p.protocol != wire.ESP]
        assert len(clear) == 1, clear  # the SYN itself
    pair.remove(sas)


def test_when_its_sas_are_gone_a_connection_says_nothing(pair: Pair) -> None:
    """Not what it wanted to send, not its FIN: what leaves in clear is nobody's."""
    sas = pair.sas()
    pair.install(sas)
    ping(pair, sas)
    time.sleep(0.1)  # the acknowledgements
    pair.remove(sas)
    pair.pcscf.do(hosts.take_frames)
    ends = [(pair.phone, ("uc", "us-pc")), (pair.pcscf, ("pc", "ps-uc"))]
    guarded = [(host, names) for host, names in ends if host.do(hosts.counters)]  # not: ip xfrm
    before = [refused(host).get("no_sa_out", 0) for host, _ in guarded]
    for host, names in guarded:
        for name in names:
            host.do(hosts.send, name, b"late")
    time.sleep(0.1)
    for host, names in guarded:
        host.do(hosts.close, *names)
    time.sleep(0.3)
    assert [str(packet) for packet in seen(pair, sas)] == []
    for (host, _), earlier in zip(guarded, before, strict=True):
        assert refused(host).get("no_sa_out", 0) > earlier
        assert host.do(hosts.counters)["sas"] == 0


def test_two_sets_stand_side_by_side(pair: Pair) -> None:
    """Re-registration: port_us and port_ps stay, the rest is new (TS 33.203 §7.4)."""
    old, new = pair.sas(), pair.sas()
    new.phone_address = old.phone_address
    new.port_uc, new.port_pc = PORT_UC + 1, PORT_PC + 1
    pair.install(old)
    pair.install(new)
    ping(pair, old)
    pair.remove(new)
    pair.phone.do(hosts.send, "uc", b"still")
    assert pair.pcscf.do(hosts.receive, "ps-uc", 5) == b"still"
    hang_up(pair)
    pair.remove(old)
