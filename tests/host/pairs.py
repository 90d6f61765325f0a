"""Two hosts, a phone's and a P-CSCF's, joined by a link, each with an ESP backend of its choice."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from imsbench.host import addresses, links
from imsbench.protocol.secagree import SaSet, esp_keys
from tests.host import hosts
from tests.host.hosts import Host

PORT_UC, PORT_US, PORT_PC, PORT_PS = 20000, 6101, 40000, 5063
PHONE_PORTS = ((PORT_US, PORT_US + 10), (PORT_UC, PORT_UC + 63))
PCSCF_PORTS = ((PORT_PS, PORT_PS), (PORT_PC, PORT_PC + 63))
_numbers = itertools.count()


@dataclass
class Pair:
    """A phone's host and a P-CSCF's, joined."""

    version: int
    phone: Host
    pcscf: Host
    pcscf_address: str
    phone_device: str = "esp0"
    """What protected sockets are bound to: the TUN of user-space ESP, nothing for the kernel's."""
    pcscf_device: str = "esp0"

    def sas(self, alg: str = "hmac-sha-1-96", ealg: str = "null") -> SaSet:
        """A new set with an address and SPIs of its own."""
        n = next(_numbers)
        spis = [1000 + 4 * n + k for k in range(4)]
        integrity, cipher = esp_keys(alg, ealg, bytes(range(16, 32)), bytes(range(16)))
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
            integrity_key=integrity,
            cipher_key=cipher,
        )

    def install(self, sas: SaSet) -> None:
        self.phone.do(hosts.install, sas)
        self.pcscf.do(hosts.install, sas)

    def remove(self, sas: SaSet) -> None:
        self.phone.do(hosts.remove, sas)
        self.pcscf.do(hosts.remove, sas)


def pairs(version: int, start_phone: Any, start_pcscf: Any) -> Iterator[Pair]:
    """Join two hosts, start their backends and listen on the protected server ports.

    ``start_phone(side, version, ports)`` runs in the child and gives the device of its backend.
    """
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
        phone_device = phone.do(start_phone, "phone", version, PHONE_PORTS)
        pcscf_device = pcscf.do(start_pcscf, "pcscf", version, PCSCF_PORTS)
        phone.do(hosts.listen, "us", version, phone_device, everybody, PORT_US)
        pcscf.do(hosts.listen, "ps", version, pcscf_device, pcscf_address, PORT_PS)
        pcscf.do(hosts.start_sniffer, "w0")
        yield Pair(version, phone, pcscf, pcscf_address, phone_device, pcscf_device)


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
    assert phone.do(hosts.connect, "uc", version, pair.phone_device, client, server) == "connected"
    assert pcscf.do(hosts.accept, "ps", "ps-uc") == client
    phone.do(hosts.send, "uc", up)
    assert pcscf.do(hosts.receive, "ps-uc", len(up)) == up
    pcscf.do(hosts.send, "ps-uc", down)
    assert phone.do(hosts.receive, "uc", len(down)) == down
    client, server = (sas.pcscf_address, PORT_PC), (sas.phone_address, PORT_US)
    assert pcscf.do(hosts.connect, "pc", version, pair.pcscf_device, client, server) == "connected"
    assert phone.do(hosts.accept, "us", "us-pc") == client
    pcscf.do(hosts.send, "pc", down)
    assert phone.do(hosts.receive, "us-pc", len(down)) == down
    phone.do(hosts.send, "us-pc", up)
    assert pcscf.do(hosts.receive, "pc", len(up)) == up


def hang_up(pair: Pair) -> None:
    pair.phone.do(hosts.close, "uc", "us-pc")
    pair.pcscf.do(hosts.close, "pc", "ps-uc")


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
