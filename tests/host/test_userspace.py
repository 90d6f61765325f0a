"""User-space ESP between two namespaces: a phone's and a P-CSCF's."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from imsbench.host import addresses, links
from imsbench.protocol.esp import EspKeys, EspOut
from imsbench.protocol.secagree import ALGS, EALGS, SaSet, cipher_key, integrity_key
from tests.host import hosts
from tests.host.hosts import Host

pytestmark = [pytest.mark.net, pytest.mark.tun]

PORT_UC, PORT_US, PORT_PC, PORT_PS = 20000, 6101, 40000, 5063
_numbers = itertools.count()


@dataclass
class Pair:
    """A phone's host and a P-CSCF's, joined."""

    version: int
    phone: Host
    pcscf: Host
    pcscf_address: str

    def sas(self, alg: str = "hmac-sha-1-96", ealg: str = "null") -> SaSet:
        """A new set with an address and SPIs of its own."""
        n = next(_numbers)
        spis = [1000 + 4 * n + k for k in range(4)]
        return SaSet(
            phone_address=addresses.phone_address(self.version, 0, 1, n),
            pcscf_address=self.pcscf_address,
            port_uc=PORT_UC,
            port_us=PORT_US,
            port_pc=PORT_PC,
            port_ps=PORT_PS,
            spi_uc=spis[0],
            spi_us=spis[1],
            spi_pc=spis[2],
            spi_ps=spis[3],
            alg=alg,
            ealg=ealg,
            integrity_key=integrity_key(alg, bytes(range(16))),
            cipher_key=cipher_key(ealg, bytes(range(16, 32))),
        )

    def install(self, sas: SaSet) -> None:
        self.phone.do(hosts.install, sas)
        self.pcscf.do(hosts.install, sas)

    def remove(self, sas: SaSet) -> None:
        self.phone.do(hosts.remove, sas)
        self.pcscf.do(hosts.remove, sas)


@pytest.fixture(scope="module", params=[4, 6], ids=["ipv4", "ipv6"])
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    version: int = request.param
    near, far, prefix = addresses.link_addresses(version, 0)
    pcscf_address = addresses.pcscf_address(version)
    everybody = "::" if version == 6 else "0.0.0.0"
    for phone, pcscf in hosts.hosts(count=2):
        hosts.join(phone, "ims0", pcscf, "w0")
        phone.do(links.configure_link, "ims0", far, prefix)
        phone.do(links.add_local_prefix, addresses.phone_prefix(version, 0, 1))
        phone.do(links.add_route, addresses.core_prefix(version), via=near)
        phone.do(links.tune_for_phones)
        pcscf.do(links.configure_link, "w0", near, prefix)
        pcscf.do(links.configure_link, "lo", pcscf_address, 128 if version == 6 else 32)
        pcscf.do(links.add_route, addresses.phone_prefix(version, 0, 1), via=far)
        ports = ((PORT_US, PORT_US + 10), (PORT_UC, PORT_UC + 63))
        phone.do(hosts.start_backend, "phone", version, ports)
        ports = ((PORT_PS, PORT_PS), (PORT_PC, PORT_PC + 63))
        pcscf.do(hosts.start_backend, "pcscf", version, ports)
        phone.do(hosts.listen, "us", version, "esp0", everybody, PORT_US)
        phone.do(hosts.listen, "us-clear", version, "ims0", everybody, PORT_US)
        pcscf.do(hosts.listen, "ps", version, "esp0", pcscf_address, PORT_PS)
        pcscf.do(hosts.listen, "ps-clear", version, "w0", pcscf_address, PORT_PS)
        pcscf.do(hosts.start_sniffer, "w0")
        yield Pair(version, phone, pcscf, pcscf_address)


def protocols(frames: list[bytes], address: str) -> set[int]:
    """The IP protocols on the wire that have this address at either end."""
    found = set()
    for frame in frames:
        if frame[0] >> 4 == 6:
            protocol, ends = frame[6], {hosts.text(frame[8:24]), hosts.text(frame[24:40])}
        else:
            protocol, ends = frame[9], {hosts.text(frame[12:16]), hosts.text(frame[16:20])}
        if address in ends:
            found.add(protocol)
    return found


def grown(host: Host, act: Callable[[], Any], *, settle_s: float = 0.2) -> dict[str, int]:
    """By how much each counter rises while ``act`` runs."""
    before = host.do(hosts.counters)
    act()
    time.sleep(settle_s)
    after = host.do(hosts.counters)
    return {name: after[name] - before[name] for name in after if after[name] != before[name]}


def ping(pair: Pair, sas: SaSet) -> None:
    """Both connections of a set, data both ways on each."""
    phone, pcscf, version = pair.phone, pair.pcscf, pair.version
    up, down = b"REGISTER" * 2000, b"200 OK" * 2000
    client, server = (sas.phone_address, PORT_UC), (sas.pcscf_address, PORT_PS)
    assert phone.do(hosts.connect, "uc", version, "esp0", client, server) == "connected"
    assert pcscf.do(hosts.accept, "ps", "ps-uc") == client
    phone.do(hosts.send, "uc", up)
    assert pcscf.do(hosts.receive, "ps-uc", len(up)) == up
    pcscf.do(hosts.send, "ps-uc", down)
    assert phone.do(hosts.receive, "uc", len(down)) == down
    client, server = (sas.pcscf_address, PORT_PC), (sas.phone_address, PORT_US)
    assert pcscf.do(hosts.connect, "pc", version, "esp0", client, server) == "connected"
    assert phone.do(hosts.accept, "us", "us-pc") == client
    pcscf.do(hosts.send, "pc", down)
    assert phone.do(hosts.receive, "us-pc", len(down)) == down
    phone.do(hosts.send, "us-pc", up)
    assert pcscf.do(hosts.receive, "pc", len(up)) == up


def hang_up(pair: Pair) -> None:
    pair.phone.do(hosts.close, "uc", "us-pc")
    pair.pcscf.do(hosts.close, "pc", "ps-uc")


@pytest.mark.parametrize(("alg", "ealg"), [*itertools.product(ALGS, EALGS)])
def test_four_sas_carry_tcp_both_ways_and_nothing_in_clear(pair: Pair, alg: str, ealg: str) -> None:
    sas = pair.sas(alg, ealg)
    pair.install(sas)
    pair.pcscf.do(hosts.take_frames)

    def act() -> None:
        ping(pair, sas)
        hang_up(pair)

    rise = grown(pair.phone, act)
    assert set(rise) == {"packets_out", "bytes_out", "packets_in", "bytes_in"}
    assert rise["bytes_out"] > 32_000
    assert rise["bytes_in"] > 24_000
    assert protocols(pair.pcscf.do(hosts.take_frames), sas.phone_address) == {50}
    pair.remove(sas)


def test_clear_segments_do_not_reach_protected_listeners(pair: Pair) -> None:
    sas = pair.sas()
    pair.install(sas)
    version, phone, pcscf = pair.version, pair.phone, pair.pcscf
    to = (sas.phone_address, PORT_US)
    source = (sas.pcscf_address, PORT_PC + 1)
    assert pcscf.do(hosts.connect, "clear", version, "w0", source, to) == "connected"
    assert phone.do(hosts.accept, "us", "taken", 0.2) is None
    assert phone.do(hosts.accept, "us-clear", "counted") == source
    to, source = (sas.pcscf_address, PORT_PS), (sas.phone_address, 30000)
    assert phone.do(hosts.connect, "clear", version, "ims0", source, to) == "connected"
    assert pcscf.do(hosts.accept, "ps", "taken", 0.2) is None
    assert pcscf.do(hosts.accept, "ps-clear", "counted") == source
    phone.do(hosts.abort, "clear", "counted")
    pcscf.do(hosts.abort, "clear", "counted")
    pair.remove(sas)


def test_without_clear_listener_a_clear_syn_is_refused(pair: Pair) -> None:
    everybody = "::" if pair.version == 6 else "0.0.0.0"
    pair.phone.do(hosts.listen, "alone", pair.version, "esp0", everybody, 6199)
    to = (addresses.phone_address(pair.version, 0, 1, 0), 6199)
    source = (pair.pcscf_address, PORT_PC + 2)
    answer = pair.pcscf.do(hosts.connect, "clear", pair.version, "w0", source, to)
    assert answer == "ConnectionRefusedError"
    pair.phone.do(hosts.close, "alone")


def test_without_sas_a_protected_socket_sends_nothing(pair: Pair) -> None:
    sas = pair.sas()
    pair.install(sas)
    ping(pair, sas)
    pair.remove(sas)
    pair.pcscf.do(hosts.take_frames)
    rise = grown(pair.phone, lambda: pair.phone.do(hosts.send, "uc", b"late"), settle_s=0.4)
    assert set(rise) == {"no_sa_out"}
    assert protocols(pair.pcscf.do(hosts.take_frames), sas.phone_address) == set()
    pair.phone.do(hosts.abort, "uc", "us-pc")
    pair.pcscf.do(hosts.abort, "pc", "ps-uc")


def test_a_reset_without_socket_stays_protected(pair: Pair) -> None:
    """A segment for nobody, inside the SA: the kernel's RST may not take the main route."""
    sas = pair.sas()
    sas.port_us = PORT_US + 1  # where nobody listens
    pair.install(sas)
    pair.pcscf.do(hosts.take_frames)
    source, to = (sas.pcscf_address, PORT_PC), (sas.phone_address, sas.port_us)
    outcome = pair.pcscf.do(hosts.connect, "nobody", pair.version, "esp0", source, to)
    assert outcome == "ConnectionRefusedError"  # the RST came back, through the SA
    assert protocols(pair.pcscf.do(hosts.take_frames), sas.phone_address) == {50}
    pair.remove(sas)


def wrapped(pair: Pair, sas: SaSet, esp: bytes, source: str = "") -> bytes:
    """An ESP packet of the P-CSCF to the phone, with its IP header."""
    ends = hosts.packed(source or sas.pcscf_address) + hosts.packed(sas.phone_address)
    if pair.version == 6:
        return b"\x60\0\0\0" + len(esp).to_bytes(2, "big") + b"\x32\x40" + ends + esp
    return b"\x45\0\0\0\0\0\0\0\x40\x32\0\0" + ends + esp


def segment(source_port: int, destination_port: int) -> bytes:
    """Some UDP to a port where nobody is."""
    ports = source_port.to_bytes(2, "big") + destination_port.to_bytes(2, "big")
    return ports + b"\x00\x10\x00\x00" + b"datagram"


def test_what_an_sa_does_not_take_is_counted_by_its_reason(pair: Pair) -> None:
    sas = pair.sas()
    pair.phone.do(hosts.install, sas)
    keys = EspKeys(sas.alg, sas.ealg, sas.integrity_key, sas.cipher_key)
    esp = EspOut(sas.spi_us, keys)
    right = segment(PORT_PC, PORT_US)
    good = esp.seal(17, right)
    changed = bytearray(esp.seal(17, right))
    changed[-1] ^= 1
    other_source = str(addresses.link_addresses(pair.version, 0).near)
    body = sas.spi_us.to_bytes(4, "big") + b"\0\0\0\x0b" + right + b"\x09\x09\x02\x11"
    cases = [
        ("packets_in", wrapped(pair, sas, good)),
        ("replayed", wrapped(pair, sas, good)),
        ("bad_icv", wrapped(pair, sas, bytes(changed))),
        ("unknown_spi", wrapped(pair, sas, b"\0\0\1\0" + good[4:])),
        ("truncated", wrapped(pair, sas, good[:16])),
        ("wrong_address", wrapped(pair, sas, esp.seal(17, right), other_source)),
        ("wrong_port", wrapped(pair, sas, esp.seal(17, segment(PORT_PC, PORT_UC)))),
        ("bad_padding", wrapped(pair, sas, body + keys.icv(body))),
    ]
    for counter, packet in cases:
        inject = partial(hosts.inject, pair.version, packet, sas.phone_address)
        rise = grown(pair.phone, partial(pair.pcscf.do, inject), settle_s=0.05)
        rise.pop("bytes_in", None)
        # the good one is answered by "port unreachable", which is no segment of the SA
        rise.pop("other_out", None)
        assert rise == {counter: 1}, counter
    pair.phone.do(hosts.remove, sas)


def test_a_taken_spi_or_port_pair_is_refused(pair: Pair) -> None:
    sas = pair.sas()
    pair.phone.do(hosts.install, sas)
    with pytest.raises(AssertionError, match=r"BackendError: an SA from .* port 20000"):
        pair.phone.do(hosts.install, sas)
    other = pair.sas()
    other.spi_uc = sas.spi_us
    with pytest.raises(AssertionError, match=f"BackendError: an SA with SPI {sas.spi_us} "):
        pair.phone.do(hosts.install, other)
    assert pair.phone.do(hosts.counters)["sas"] == 4, "a refused set leaves nothing behind"
    pair.phone.do(hosts.remove, other)
    assert pair.phone.do(hosts.counters)["sas"] == 4, "another set's SAs stay"
    pair.phone.do(hosts.remove, sas)
    pair.phone.do(hosts.remove, sas)
    assert pair.phone.do(hosts.counters)["sas"] == 0


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
