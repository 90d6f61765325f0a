"""What user-space ESP costs: µs of CPU per ESP packet, split, and packets per second.

    python -m tests.bench.esp [--phones 50] [--seconds 3]

A phone's namespace and a P-CSCF's, joined by veth; each phone has one TCP connection and sends a
request of 900 bytes as soon as the answer of 600 bytes to its last is there. The same exchange runs
through SAs and in clear; the difference of the phone process's CPU, over the ESP packets it carried,
is the price of ESP. It is split into system calls (the kernel's share), crypto (measured alone, on
packets of these sizes) and Python (the rest).
"""

from __future__ import annotations

import argparse
import resource
import select
import socket
import struct
import threading
import time
import timeit
from collections.abc import Callable
from dataclasses import dataclass

from imsbench.host import addresses, links
from imsbench.host.userspace import UserspaceEsp
from imsbench.protocol.esp import EspIn, EspKeys, EspOut
from imsbench.protocol.secagree import SaSet, esp_keys
from tests.host import hosts
from tests.host.hosts import Host

PORT_UC, PORT_US, PORT_PC, PORT_PS, PORT_CLEAR = 20000, 6101, 40000, 5063, 5060
REQUEST, ANSWER = b"R" * 900, b"A" * 600


@dataclass
class Cost:
    """What one run of the exchange took of the phone's process."""

    exchanges: int
    user_s: float
    system_s: float
    wall_s: float
    packets: int

    @property
    def user_us(self) -> float:
        return self.user_s / self.exchanges * 1e6

    @property
    def system_us(self) -> float:
        return self.system_s / self.exchanges * 1e6


class Loop:
    """The least that carries a backend and sockets."""

    def __init__(self) -> None:
        self.poll = select.epoll()
        self.readers: dict[int, Callable[[], object]] = {}

    def add_reader(self, descriptor: int, callback: Callable[[], object]) -> None:
        self.readers[descriptor] = callback
        self.poll.register(descriptor, select.EPOLLIN)

    def run(self, until: float) -> None:
        readers = self.readers
        while time.monotonic() < until:
            for descriptor, _ in self.poll.poll(0.2):
                readers[descriptor]()


def sas_of(version: int, n: int, alg: str, ealg: str) -> SaSet:
    """The n-th phone's set."""
    integrity, cipher = esp_keys(alg, ealg, bytes(16), bytes(16))
    return SaSet(
        phone_address=addresses.phone_address(version, 0, 1, n),
        pcscf_address=addresses.pcscf_address(version),
        port_uc=PORT_UC,
        port_us=PORT_US,
        port_pc=PORT_PC,
        port_ps=PORT_PS,
        spi_uc=1000 + 4 * n,
        spi_us=1001 + 4 * n,
        spi_pc=1002 + 4 * n,
        spi_ps=1003 + 4 * n,
        alg=alg,
        ealg=ealg,
        integrity_key=integrity,
        cipher_key=cipher,
    )


def start_pcscf(version: int, phones: int, alg: str, ealg: str) -> None:
    """Answer every request on both ports, in a thread."""
    loop = Loop()
    ports = [(PORT_PS, PORT_PS), (PORT_PC, PORT_PC)]
    backend = UserspaceEsp("pcscf", version, protected_ports=ports)
    backend.attach(loop.add_reader)
    for n in range(phones):
        backend.install(sas_of(version, n, alg, ealg))

    def serve(device: str, port: int) -> None:
        address = addresses.pcscf_address(version)
        listener = hosts.open_socket(version, device, address, port)
        listener.listen(1024)

        def accept() -> None:
            sock, _ = listener.accept()
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

            def answer() -> None:
                try:
                    asked = bool(sock.recv(65536))
                    if asked:
                        sock.send(ANSWER)
                except ConnectionError:
                    asked = False
                if not asked:
                    loop.poll.unregister(sock)
                    sock.close()

            loop.add_reader(sock.fileno(), answer)

        loop.add_reader(listener.fileno(), accept)

    serve("esp0", PORT_PS)
    serve("w0", PORT_CLEAR)
    threading.Thread(target=loop.run, args=(float("inf"),), daemon=True).start()


BACKEND: list[UserspaceEsp] = []


def start_phones(version: int, phones: int, alg: str, ealg: str) -> None:
    ports = [(PORT_UC, PORT_UC), (PORT_US, PORT_US)]
    BACKEND.append(UserspaceEsp("phone", version, protected_ports=ports))
    for n in range(phones):
        BACKEND[0].install(sas_of(version, n, alg, ealg))


def measure(version: int, phones: int, seconds: float, protected: bool) -> Cost:
    """The exchange for some seconds; connecting is not counted."""
    (backend,) = BACKEND
    loop = Loop()
    backend.attach(loop.add_reader)
    done = 0
    socks: list[socket.socket] = []
    device, port = ("esp0", PORT_PS) if protected else ("ims0", PORT_CLEAR)

    def ask(sock: socket.socket) -> None:
        def again() -> None:
            nonlocal done
            sock.recv(65536)
            done += 1
            sock.send(REQUEST)

        loop.add_reader(sock.fileno(), again)

    for n in range(phones):
        source = addresses.phone_address(version, 0, 1, n)
        sock = hosts.open_socket(version, device, source, PORT_UC)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setblocking(False)
        sock.connect_ex((addresses.pcscf_address(version), port))
        socks.append(sock)
        give_up_at = time.monotonic() + 5.0
        while not select.select([], [sock], [], 0)[1]:  # writable: connected
            assert time.monotonic() < give_up_at, "no connection through the SAs"
            loop.run(time.monotonic() + 0.01)
    for sock in socks:
        ask(sock)
        sock.send(REQUEST)
    loop.run(time.monotonic() + 0.2)
    carried = backend.counters()
    start, usage, first = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF), done
    loop.run(start + seconds)
    end, used = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF)
    counters = backend.counters()
    packets = sum(counters[name] - carried[name] for name in ("packets_in", "packets_out"))
    for sock in socks:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.close()
    loop.run(time.monotonic() + 0.1)
    dropped = {k: v for k, v in counters.items() if "drop" in k and v}
    assert not dropped, dropped
    return Cost(
        exchanges=done - first,
        user_s=used.ru_utime - usage.ru_utime,
        system_s=used.ru_stime - usage.ru_stime,
        wall_s=end - start,
        packets=packets,
    )


def crypto_us(alg: str, ealg: str) -> float:
    """Sealing a request and opening an answer, per packet, nothing else."""
    keys = EspKeys(alg, ealg, *esp_keys(alg, ealg, bytes(16), bytes(16)))
    number, iv = 20_000, bytes(keys.iv_size)
    request, answer = bytes(32) + REQUEST, bytes(32) + ANSWER
    out, into, back = EspOut(1000, keys), EspIn(1001, keys), EspOut(1001, keys)
    answers = iter([back.seal(6, answer, iv) for _ in range(number)])
    clock = time.process_time  # of CPU, as the rest of the table
    seal_s = timeit.timeit(lambda: out.seal(6, request, iv), timer=clock, number=number)
    open_s = timeit.timeit(lambda: into.open(next(answers)), timer=clock, number=number)
    return (seal_s + open_s) / (2 * number) * 1e6


def bench(version: int, alg: str, ealg: str, phones: int, seconds: float) -> str:
    """One line of the table."""
    near, far, prefix = addresses.link_addresses(version, 0)
    for phone, pcscf in hosts.hosts(count=2):
        hosts.join(phone, "ims0", pcscf, "w0")
        phone.do(links.configure_link, "ims0", far, prefix)
        phone.do(links.add_local_prefix, addresses.phone_prefix(version, 0, 1))
        phone.do(links.add_route, addresses.core_prefix(version), via=near)
        pcscf.do(links.configure_link, "w0", near, prefix)
        address = addresses.pcscf_address(version)
        pcscf.do(links.configure_link, "lo", address, 128 if version == 6 else 32)
        pcscf.do(links.add_route, addresses.phone_prefix(version, 0, 1), via=far)
        pcscf.do(start_pcscf, version, phones, alg, ealg)
        phone.do(start_phones, version, phones, alg, ealg)
        return line(phone, version, alg, ealg, phones, seconds)
    raise AssertionError("no hosts")


def line(phone: Host, version: int, alg: str, ealg: str, phones: int, seconds: float) -> str:
    """Measure both ways, and set the numbers out."""
    clear: Cost = phone.do(measure, version, phones, seconds, False)
    esp: Cost = phone.do(measure, version, phones, seconds, True)
    each = esp.packets / esp.exchanges
    system = (esp.system_us - clear.system_us) / each
    user = (esp.user_us - clear.user_us) / each
    crypto = crypto_us(alg, ealg)
    return (
        f"{version}   {alg:14} {ealg:12} {system + user:6.1f} {system:8.1f} {crypto:7.1f} "
        f"{user - crypto:7.1f} {each:9.2f} {esp.packets / esp.wall_s:10,.0f} "
        f"{clear.system_us + clear.user_us:9.1f} {esp.system_us + esp.user_us:9.1f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--phones", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=3.0)
    arguments = parser.parse_args()
    print(
        "                               µs of CPU per ESP packet            ESP packets      "
        "   µs per exchange\n"
        "IP  alg            ealg            all    calls  crypto  Python /exchange    /second "
        "    clear    in SAs"
    )
    for version in (4, 6):
        for alg, ealg in (
            ("hmac-sha-1-96", "null"),
            ("hmac-md5-96", "null"),
            ("hmac-sha-1-96", "aes-cbc"),
            ("hmac-sha-1-96", "des-ede3-cbc"),
            ("null", "aes-gcm"),
            ("aes-gmac", "null"),
        ):
            print(bench(version, alg, ealg, arguments.phones, arguments.seconds))


if __name__ == "__main__":
    main()
