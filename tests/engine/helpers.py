"""A far end for the engine's tests: a listener on the same loop, answering as the test says."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

from imsbench.engine.connections import EngineSettings
from imsbench.engine.driver import Driver
from imsbench.engine.loop import Loop, clock
from imsbench.phone.actions import Channel, Incoming
from imsbench.protocol.sip import Request, Response, response_to, serialize_message
from imsbench.protocol.stream import SipReader


class Owner:
    """A phone, as far as the engine knows."""

    address = "127.0.0.1"


class FarEnd:
    """Accepts connections and hands every request to ``on_request(request, socket)``."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.setblocking(False)
        self.port: int = self.listener.getsockname()[1]
        self.on_request: Callable[[Request, socket.socket], None] = self.ok
        self.on_response: Callable[[Response, socket.socket], None] = lambda _r, _s: None
        self.received: list[Any] = []
        self.raw = b""
        self.sockets: list[socket.socket] = []
        loop.add_reader(self.listener.fileno(), self._accept)

    def ok(self, request: Request, sock: socket.socket) -> None:
        """The default: 200 to everything."""
        sock.send(serialize_message(response_to(request, 200, "OK")))

    def close(self) -> None:
        """Close everything."""
        for sock in (self.listener, *self.sockets):
            self.loop.unregister(sock.fileno())
            sock.close()

    def drop(self, sock: socket.socket) -> None:
        """Close one connection."""
        self.loop.unregister(sock.fileno())
        self.sockets.remove(sock)
        sock.close()

    def _accept(self) -> None:
        sock, _address = self.listener.accept()
        sock.setblocking(False)
        self.sockets.append(sock)
        reader = SipReader()

        def readable() -> None:
            try:
                data = sock.recv(65536)
            except OSError:
                data = b""
            if not data:
                self.drop(sock)
                return
            self.raw += data
            for message in reader.feed(data):
                self.received.append(message)
                if isinstance(message, Request):
                    self.on_request(message, sock)
                elif isinstance(message, Response):
                    self.on_response(message, sock)

        self.loop.add_reader(sock.fileno(), readable)


def answer_all(_owner: Any, incoming: Incoming) -> Response:
    """What a phone answers here: 200."""
    assert not incoming.protected
    return response_to(incoming.request, 200, "OK")


class Bench:
    """Loop, driver and far end together."""

    def __init__(self, **settings: Any) -> None:
        self.loop = Loop()
        self.far = FarEnd(self.loop)
        self.driver = Driver(
            self.loop, EngineSettings(**settings), None, lambda _address: None, answer_all
        )
        self.channel = Channel("127.0.0.1", 0, "127.0.0.1", self.far.port, protected=False)
        self.ended: list[BaseException | None] = []

    def run(self, flow: Any, timeout_s: float = 5.0) -> BaseException | None:
        """Run one flow to its end on the real loop; what it raised, or None."""

        def done(_owner: Any, problem: BaseException | None) -> None:
            self.ended.append(problem)
            self.loop.stop()

        self.driver.start(flow, Owner(), done)
        if not self.ended:
            self.turn_for(timeout_s)
        assert self.ended, "the flow did not end"
        return self.ended.pop()

    def turn_for(self, seconds: float) -> None:
        """Let the loop turn, until stop() or for so long."""
        timer = self.loop.call_at(clock() + seconds, lambda _none: self.loop.stop(), None)
        self.loop.run()
        timer.cancel()

    def close(self) -> None:
        """Close everything."""
        if self.channel.connection is not None:
            self.channel.connection.abort()
        self.driver.close()
        self.far.close()
        self.loop.close()


def request(branch: str, method: str = "OPTIONS", body: bytes = b"") -> Request:
    """A request of its own transaction."""
    headers = [
        ("via", f"SIP/2.0/TCP 127.0.0.1;branch={branch}"),
        ("from", "<sip:a@b>;tag=1"),
        ("to", "<sip:c@d>"),
        ("call-id", branch),
        ("cseq", f"1 {method}"),
    ]
    return Request(method, "sip:d", headers, body, branch=branch, call_id=branch, cseq=1)
