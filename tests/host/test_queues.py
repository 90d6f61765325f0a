"""What waits in the kernel's queues, and what is dropped there, is known."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from imsbench.host import links, rawsocket, tun
from imsbench.host.userspace import UserspaceEsp
from imsbench.protocol.secagree import SaSet
from tests.host import hosts

pytestmark = pytest.mark.net

ESP = 50
PCSCF, PHONE = "198.19.0.10", "198.18.0.1"


def flood_raw_socket(version: int) -> tuple[int, int]:
    """Drops counted before and after more ESP came to an unread socket than it holds."""
    address = "::1" if version == 6 else "127.0.0.1"
    with rawsocket.open_raw(version, ESP) as receiver, rawsocket.open_raw(version, ESP) as sender:
        other = rawsocket.open_raw(version, ESP)  # its drops are not ours
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        before = rawsocket.queue_drops(receiver)
        for _ in range(100):
            sender.sendto(bytes(500), (address, 0))
        assert rawsocket.queue_drops(other) == 0
        other.close()
        return before, rawsocket.queue_drops(receiver)


@pytest.mark.parametrize("version", [4, 6])
def test_drops_of_a_raw_socket_are_counted(version: int) -> None:
    for (host,) in hosts.hosts(count=1):
        before, after = host.do(flood_raw_socket, version)
        assert before == 0
        assert 50 < after < 100


def phone_backend() -> UserspaceEsp:
    """A backend that no loop carries."""
    links.add_local_prefix("198.18.0.0/16")
    return UserspaceEsp("phone", 4, protected_ports=((6101, 6101), (20000, 20063)))


def overflow_device() -> dict[str, int]:
    backend = phone_backend()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"esp0")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 28)
        sock.bind((PHONE, 0))
        for _ in range(tun.QUEUE_LENGTH + 2000):
            sock.sendto(b"x", (PCSCF, 5063))
        counters = backend.counters()
    backend.close()
    return counters


@pytest.mark.tun
def test_drops_of_the_device_are_counted() -> None:
    for (host,) in hosts.hosts(count=1):
        dropped: Any = host.do(overflow_device)["tun_queue_dropped"]
        assert 0 < dropped <= 2000


def send_and_remove() -> dict[str, int]:
    """A SYN in the device's queue, then the end of its SA."""
    backend = phone_backend()
    sas = SaSet(
        phone_address=PHONE,
        pcscf_address=PCSCF,
        port_uc=20000,
        port_us=6101,
        port_pc=40000,
        port_ps=5063,
        spi_uc=1001,
        spi_us=1002,
        spi_pc=1003,
        spi_ps=1004,
        alg="hmac-sha-1-96",
        ealg="null",
        integrity_key=bytes(20),
        cipher_key=b"",
    )
    links.add_route("198.19.0.0/24", dev="lo")  # where its ESP may go
    backend.install(sas)
    with hosts.open_socket(4, "esp0", PHONE, 20000) as sock:
        sock.setblocking(False)
        sock.connect_ex((PCSCF, 5063))
        backend.remove(sas)
        counters = backend.counters()
    backend.close()
    return counters


@pytest.mark.tun
def test_what_was_sent_before_the_end_of_an_sa_leaves_under_it() -> None:
    for (host,) in hosts.hosts(count=1):
        counters = host.do(send_and_remove)
        assert counters["packets_out"] == 1
        assert counters["no_sa_out"] == 0
        assert counters["sas"] == 0


def reserved_ports() -> str:
    phone_backend().close()
    return Path("/proc/sys/net/ipv4/ip_local_reserved_ports").read_text().strip()


@pytest.mark.tun
def test_no_clear_connection_gets_a_protected_port_by_chance() -> None:
    for (host,) in hosts.hosts(count=1):
        assert host.do(reserved_ports) == "6101,20000-20063"
