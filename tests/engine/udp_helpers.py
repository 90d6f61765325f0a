"""A far end by UDP, and a driver whose phones use it; all on real sockets of the loopback."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from imsbench.engine.connections import EngineSettings
from imsbench.engine.driver import Driver
from imsbench.engine.loop import Loop, clock
from imsbench.engine.tasks import Answer
from imsbench.phone.actions import Accept, Channel, Incoming, UdpPorts
from imsbench.protocol.sip import (
    Malformed,
    Request,
    Response,
    parse_message,
    response_to,
    serialize_message,
)
from tests.engine.helpers import FarEnd

Peer = tuple[str, int]


class UdpFarEnd:
    """Reads datagrams, keeps each with its time, and hands requests to ``on_request``."""

    def __init__(self, loop: Loop, address: str = "127.0.0.1", port: int = 0) -> None:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.loop = loop
        self.sock = socket.socket(family, socket.SOCK_DGRAM)
        self.sock.setblocking(False)
        self.sock.bind((address, port))
        self.port: int = self.sock.getsockname()[1]
        self.on_request: Callable[[Request, Peer], None] = self.ok
        self.received: list[tuple[float, Request | Response]] = []
        self.peers: list[Peer] = []
        loop.add_reader(self.sock.fileno(), self._read)

    def ok(self, request: Request, peer: Peer) -> None:
        """The default: 200 to everything but ACK."""
        if request.method != "ACK":
            self.send(response_to(request, 200, "OK"), peer)

    def send(self, message: Request | Response, peer: Peer) -> None:
        """Send a message to a phone."""
        self.sock.sendto(serialize_message(message), peer)

    def of(self, method: str, *, status: int = 0) -> list[float]:
        """When each request of this method, or response with this status, came."""
        return [
            at
            for at, message in self.received
            if message.method == method and getattr(message, "status", 0) == status
        ]

    def close(self) -> None:
        """Close the socket."""
        self.loop.unregister(self.sock.fileno())
        self.sock.close()

    def _read(self) -> None:
        data, peer = self.sock.recvfrom(65535)
        message = parse_message(data)
        assert not isinstance(message, Malformed), message
        self.received.append((clock(), message))
        self.peers.append(peer[:2])
        if isinstance(message, Request):
            self.on_request(message, peer[:2])


class UdpOwner:
    """A phone, as far as the engine knows."""

    def __init__(self, address: str) -> None:
        self.address = address


class UdpBench:
    """Loop, driver, far ends by UDP and TCP on one port, and a phone's channel to them."""

    def __init__(self, answer: Answer, address: str = "127.0.0.1", **settings: Any) -> None:
        self.loop = Loop()
        self.tcp = FarEnd(self.loop)
        self.far = UdpFarEnd(self.loop, address, self.tcp.port)
        self.owner = UdpOwner(address)
        self.driver = Driver(
            self.loop, EngineSettings(udp=True, **settings), None, lambda _a: self.owner, answer
        )
        self.channel = Channel(
            address, 0, address, self.far.port, protected=False, udp=UdpPorts(free_port(address))
        )
        self.ended: list[BaseException | None] = []

    @property
    def phone(self) -> Peer:
        """Where its datagrams come from."""
        assert self.channel.udp is not None
        return self.channel.local_address, self.channel.udp.client

    def start(self, flow: Any, call_id: str = "") -> None:
        """Start a flow; what it ends in is appended to ``ended``."""
        self.driver.start(
            flow, self.owner, lambda _owner, problem: self.ended.append(problem), call_id
        )

    def run(self, flow: Any, timeout_s: float = 5.0) -> None:
        """Run one flow to its end; it must not raise."""
        before = len(self.ended)
        self.start(flow)
        self.turn_until(lambda: len(self.ended) > before, timeout_s)
        assert self.ended[-1] is None

    def turn_until(self, reached: Callable[[], bool], timeout_s: float = 5.0) -> None:
        """Let the loop turn until something is so; it must become so in time."""
        deadline = clock() + timeout_s
        while not reached():
            assert clock() < deadline, "it did not happen"
            self.turn_for(0.01)

    def turn_for(self, seconds: float) -> None:
        """Let the loop turn for so long."""
        self.loop.call_at(clock() + seconds, lambda _none: self.loop.stop(), None)
        self.loop.run()

    def close(self) -> None:
        """Close everything."""
        self.driver.close()
        self.far.close()
        self.tcp.close()
        self.loop.close()


def free_port(address: str) -> int:
    """A UDP port that nobody uses now."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        sock.bind((address, 0))
        return int(sock.getsockname()[1])


def answer_ok(_owner: Any, incoming: Incoming) -> Response | Accept:
    """200 to everything."""
    return response_to(incoming.request, 200, "OK")


@contextmanager
def udp_bench(answer: Answer = answer_ok, **settings: Any) -> Iterator[UdpBench]:
    """A bench that is closed behind the test."""
    bench = UdpBench(answer, **settings)
    try:
        yield bench
    finally:
        bench.close()


def udp_request(branch: str, method: str = "OPTIONS", body: bytes = b"") -> Request:
    """A request of its own transaction, written for UDP."""
    headers = [
        ("via", f"SIP/2.0/UDP 127.0.0.1;branch={branch};rport"),
        ("from", "<sip:a@b>;tag=1"),
        ("to", "<sip:c@d>"),
        ("call-id", branch),
        ("cseq", f"1 {method}"),
    ]
    return Request(method, "sip:d", headers, body, branch=branch, call_id=branch, cseq=1)
