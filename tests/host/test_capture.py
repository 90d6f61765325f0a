"""Captures on a real link: whose packets, both ways, with time; what is missing is counted."""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from imsbench.host import addresses, links
from imsbench.host.capture import Capture
from tests.host import hosts
from tests.host.hosts import Host
from tests.host.test_pcapng import blocks, options

pytestmark = pytest.mark.net

PORT = 7000
OPEN: list[Capture] = []


@pytest.fixture(scope="module", params=[4, 6], ids=["ipv4", "ipv6"])
def version(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def host(version: int) -> Iterator[Host]:
    """A worker's namespace with phones, joined to another that answers nothing."""
    near, far, prefix = addresses.link_addresses(version, 0)
    for worker, core in hosts.hosts(count=2):
        hosts.join(worker, "ims0", core, "w0")
        worker.do(links.configure_link, "ims0", far, prefix)
        worker.do(links.add_local_prefix, addresses.phone_prefix(version, 0, 1))
        worker.do(links.add_route, addresses.core_prefix(version), via=near)
        core.do(links.configure_link, "w0", near, prefix)
        core.do(links.configure_link, "lo", _core(version), 128 if version == 6 else 32)
        core.do(links.add_route, addresses.phone_prefix(version, 0, 1), via=far)
        worker.do(send, version, 0, 1, 1)  # neighbours know each other from here on
        time.sleep(0.2)
        yield worker


def _core(version: int) -> str:
    return addresses.pcscf_address(version)


def _phone(version: int, index: int) -> str:
    return addresses.phone_address(version, 0, 1, index)


# What the worker's namespace does


def start(version: int, path: str, first: int, last: int, **bounds: int) -> None:
    one = Capture(
        "ims0", _phone(version, first), _phone(version, last), Path(path),
        application="a test", **bounds,
    )  # fmt: skip
    OPEN.append(one)


def send(version: int, index: int, count: int, size: int) -> None:
    """Datagrams of a phone to a closed port of the core, which is told of each by ICMP, or not."""
    family = socket.AF_INET6 if version == 6 else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        if version == 6:
            sock.setsockopt(socket.IPPROTO_IPV6, links.IPV6_FREEBIND, 1)
        sock.bind((_phone(version, index), PORT))
        for _ in range(count):
            with contextlib.suppress(ConnectionRefusedError):
                sock.sendto(bytes(size), (_core(version), PORT))


def carry(seconds: float) -> None:
    """Read the capture as a loop does."""
    poll = select.epoll()
    readers: dict[int, Callable[[], object]] = {}

    def add_reader(descriptor: int, callback: Callable[[], object]) -> None:
        poll.register(descriptor, select.EPOLLIN)
        readers[descriptor] = callback

    OPEN[0].attach(add_reader)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for descriptor, _ in poll.poll(0.05):
            readers[descriptor]()
    poll.close()


def finish() -> tuple[dict[str, int], str]:
    one = OPEN.pop()
    one.close()
    return one.counters(), one.problem


def refused(version: int, device: str, path: str) -> str:
    try:
        Capture(device, _phone(version, 0), _phone(version, 0), Path(path), application="a test")
    except OSError as error:
        return error.strerror or ""
    return "not refused"


# What is in the file


def packets(data: bytes) -> list[tuple[int, bytes, bool]]:
    """Time, packet and whether it was sent, of each."""
    found = []
    for kind, body in blocks(data):
        if kind == 6:
            _, high, low, kept, size = struct.unpack_from("=IIIII", body)
            assert kept == size
            (flags,) = struct.unpack("=I", options(body[20 + kept + -kept % 4 :])[2])
            found.append((high << 32 | low, body[20 : 20 + kept], flags == 2))
    return found


def phones_in(version: int, packet: bytes) -> set[str]:
    width, start = (4, 12) if version == 4 else (16, 8)
    family = socket.AF_INET if version == 4 else socket.AF_INET6
    ends = (packet[start : start + width], packet[start + width : start + 2 * width])
    return {socket.inet_ntop(family, end) for end in ends} - {_core(version)}


def test_packets_of_the_chosen_phones_both_ways(host: Host, version: int, tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    before_ns = time.time_ns()
    host.do(start, version, str(path), 1, 2)
    for index in range(5):
        host.do(send, version, index, 1, 100)
    host.do(carry, 0.3)
    counters, problem = host.do(finish)
    found = packets(path.read_bytes())
    sent = [packet for _, packet, outbound in found if outbound]
    answers = [packet for _, packet, outbound in found if not outbound]
    wanted = [{_phone(version, 1)}, {_phone(version, 2)}]
    assert [phones_in(version, packet) for packet in sent] == wanted
    assert [phones_in(version, packet) for packet in answers] == wanted  # ICMP: port unreachable
    times = [at_ns for at_ns, _, _ in found]
    assert times == sorted(times)
    assert before_ns <= times[0] <= times[-1] <= time.time_ns()
    assert counters == {"packets": 4, "kernel_dropped": 0, "not_written": 0}
    assert not problem


def test_the_end_takes_what_no_loop_has_read(host: Host, version: int, tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    host.do(start, version, str(path), 1, 1)
    host.do(send, version, 1, 1, 100)
    host.do(time.sleep, 0.1)
    host.do(finish)
    assert any(outbound for _, _, outbound in packets(path.read_bytes()))


def test_what_a_full_file_misses_is_counted(host: Host, version: int, tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    host.do(start, version, str(path), 1, 1, file_bytes=2000)
    host.do(send, version, 1, 10, 500)
    host.do(carry, 0.2)
    counters, _ = host.do(finish)
    assert 0 < counters["packets"] == len(packets(path.read_bytes()))
    assert counters["not_written"] >= 10 - counters["packets"]
    assert path.stat().st_size <= 2000


def test_what_nobody_read_in_time_is_counted(host: Host, version: int, tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    host.do(start, version, str(path), 1, 1)
    host.do(send, version, 1, 20_000, 1300)
    counters, _ = host.do(finish)
    assert counters["kernel_dropped"] > 0
    assert counters["packets"] == len(packets(path.read_bytes()))
    *_, (kind, body) = blocks(path.read_bytes())
    assert kind == 5
    told = {code: int.from_bytes(value, "little") for code, value in options(body[12:]).items()}
    assert told[5] == counters["kernel_dropped"] + counters["not_written"]
    assert told[4] == told[5] + counters["packets"]


def test_a_link_or_a_folder_that_is_not_there_is_refused(
    host: Host, version: int, tmp_path: Path
) -> None:
    path = str(tmp_path / "a.pcapng")
    assert host.do(refused, version, "ims7", path) == "No such device"
    assert host.do(refused, version, "ims0", path + "/b") == "No such file or directory"
