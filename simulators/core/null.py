"""The null target: answers at the least cost, to measure what the generator alone takes (RFC 7502 §6.1).

Theory of operation. One epoll loop, no Cx, no registrar, no check of what phones send. A phone is
found by its IMPI; its challenge is computed from its own keys, so that it accepts, with one fixed
RAND and an SQN that counts up; vectors for all are made before the target is ready. A REGISTER
without a nonce (or with auts) is answered 401, any other 200. SUBSCRIBE: 200 and a NOTIFY. What is
of a call is relayed (nullcalls). With
IPsec the four SAs are agreed upon and installed as by a P-CSCF, NOTIFYs go by a connection from
port_pc to port_us, and SAs go 2.5 s after the 200 to a de-registration.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections import Counter
from typing import Any

from imsbench.host import garbage
from imsbench.host.backend import BackendError, SaBackend
from imsbench.host.control import ControlChannel
from imsbench.protocol.address import host_port
from imsbench.protocol.aka import AkaError
from imsbench.protocol.secagree import (
    Mechanism,
    SecurityAgreementError,
    choose,
    parse_security,
    sa_set,
    serialize_security,
)
from imsbench.subscriber import Subscriber
from simulators.core import nullsip
from simulators.core.nullcalls import NullCalls
from simulators.core.nullnet import Connection, Loop, OnSocket, accept_all, start_connect
from simulators.core.nullphone import NullPhone, NullSas, NullSettings
from simulators.core.nullsip import Head, copied
from simulators.core.transport import listening_socket, outer_devices

CLOSE_GRACE_S = 2.0
REMOVE_GRACE_S = 0.5
TICK_S = 1.0

_LOG = logging.getLogger(__name__)


class NullTarget:
    """All of it; ``backend`` is service.protected_backend(settings.core)."""

    def __init__(self, settings: NullSettings, backend: SaBackend | None) -> None:
        core = self._settings = settings.core
        self.counters: Counter[str] = Counter()
        self.loop = Loop()
        self.backend = backend
        self._domain = core.domain.encode()
        port = core.listen[1] if backend is None else core.port_ps
        self._sent_by = host_port(core.listen[0], port).encode()
        self._phones = {
            subscriber.impi.encode(): NullPhone(subscriber, self._routes(subscriber))
            for subscriber in map(settings.population.subscriber, range(settings.population.count))
        }
        self._by_impu = {phone.impu: phone for phone in self._phones.values()}
        self._calls = NullCalls(
            list(self._phones.values()), self._sent_by, self._send, self.counters
        )
        self._sets: dict[tuple[str, int], NullSas] = {}
        self._spi = 4096
        self._branch = 0
        self.registered = 0
        """Phones that are registered now."""
        self._listeners = [listening_socket(*core.listen)]
        self.address = self._listeners[0].getsockname()[:2]
        """Where the unprotected port listens."""

    def _routes(self, subscriber: Subscriber) -> bytes:
        return (
            f"Service-Route: <sip:orig@null.{subscriber.domain};lr>\r\n"
            f"P-Associated-URI: <{subscriber.impu_sip}>,<{subscriber.impu_tel}>\r\n"
        ).encode()

    def start(self) -> None:
        """Listen; BackendError or OSError say what fails."""
        accept_all(self.loop, self._listeners[0], self._on_clear)
        backend, core = self.backend, self._settings
        if backend is None:
            return
        backend.attach(self.loop.add_reader)
        host, port, device = core.listen[0], core.port_ps, backend.device
        self._listen(host, port, device, self._on_protected)
        for outer in outer_devices(device) if device else ():
            self._listen(host, port, outer, self._on_outside)

    def _listen(self, host: str, port: int, device: str, on_socket: OnSocket) -> None:
        self._listeners.append(listening_socket(host, port, device=device))
        accept_all(self.loop, self._listeners[-1], on_socket)

    # -- connections

    def _on_clear(self, sock: Any, address: str, port: int) -> None:
        Connection(self.loop, sock, self._on_message, self.counters)

    def _on_protected(self, sock: Any, address: str, port: int) -> None:
        held = self._sets.get((address, port))
        if held is None:
            self.counters["protected connections without SAs"] += 1
            sock.close()
            return
        connection = Connection(self.loop, sock, self._on_message, self.counters)
        connection.sas, connection.phone = held, held.phone

    def _on_outside(self, sock: Any, address: str, port: int) -> None:
        self.counters["clear connections to the protected port"] += 1
        sock.close()

    # -- messages

    def _on_message(self, connection: Connection, head: bytes, message: bytes) -> None:
        method = head[: head.find(b" ")]
        if method == b"SIP/2.0":
            self._calls.response(message)
        elif method == b"REGISTER":
            self._register(connection, nullsip.read_head(head))
        elif method == b"SUBSCRIBE":
            self._subscribe(connection, nullsip.read_head(head))
        else:
            self._calls.request(connection, method, head, message)

    def _register(self, connection: Connection, head: Head) -> None:
        authorization = head.get(b"authorization", b"")
        username = nullsip.USERNAME.search(authorization)
        phone = self._phones.get(username[1]) if username else None
        if phone is None:
            self.counters["refused: unknown identity"] += 1
            connection.send(nullsip.REFUSED % copied(head))
            return
        auts = nullsip.AUTS.search(authorization)
        if auts is not None or nullsip.NO_NONCE.search(authorization):
            try:
                if auts is not None:
                    phone.resynchronise(auts[1])
                self._challenge(connection, phone, head)
            except (AkaError, BackendError, SecurityAgreementError) as error:
                self.counters[f"refused: {type(error).__name__}"] += 1
                connection.send(nullsip.REFUSED % copied(head))
        elif nullsip.expires_of(head, 3600):
            self._registered(connection, phone, head)
        else:
            self._deregistered(connection, phone, head)

    def _challenge(self, connection: Connection, phone: NullPhone, head: Head) -> None:
        server = b""
        if self.backend is not None and connection.sock is not None:
            address = connection.sock.getpeername()[0]
            server = self._agree(phone, address, head[b"security-client"].decode())
        connection.send(nullsip.UNAUTHORIZED % (*copied(head), self._domain, phone.nonce, server))
        self.counters["challenges"] += 1
        phone.make_challenge()

    def _registered(self, connection: Connection, phone: NullPhone, head: Head) -> None:
        granted_s = min(nullsip.expires_of(head, 3600), self._settings.expires_s)
        contact = _uri(head)
        connection.phone = phone
        self._calls.registered(phone, connection, contact)
        connection.send(nullsip.REGISTERED % (*copied(head), contact, granted_s, phone.routes))
        self.registered += not phone.registered
        phone.registered = True
        self.counters["registrations"] += 1

    def _deregistered(self, connection: Connection, phone: NullPhone, head: Head) -> None:
        if phone.dialog is not None:
            self._notify(connection, phone, b"terminated", b"unregistered", b"terminated")
            phone.dialog = None
        connection.send(nullsip.DEREGISTERED % copied(head))
        self.registered -= phone.registered
        phone.registered = False
        self.counters["de-registrations"] += 1
        if phone.sas is not None:
            self._give_up(phone.sas)
            phone.sas = None

    def _subscribe(self, connection: Connection, head: Head) -> None:
        phone = connection.phone or self._by_impu.get(_between(head[b"from"]))
        if phone is None:
            self.counters["refused: unknown identity"] += 1
            connection.send(nullsip.REFUSED % copied(head))
            return
        expires_s = nullsip.expires_of(head, 3761)
        cseq = phone.dialog[4] if phone.dialog is not None else 0
        phone.dialog = (_uri(head), head[b"to"], head[b"from"], head[b"call-id"], cseq)
        connection.send(nullsip.SUBSCRIBED % (*copied(head), self._sent_by, expires_s))
        if expires_s:
            self._notify(
                connection, phone, b"active", b"registered", b"active;expires=%d" % expires_s
            )
        else:
            self._notify(connection, phone, b"active", b"registered", b"terminated;reason=timeout")
            phone.dialog = None
        self.counters["subscriptions"] += 1

    def _notify(
        self,
        connection: Connection,
        phone: NullPhone,
        state: bytes,
        event: bytes,
        subscription: bytes,
    ) -> None:
        assert phone.dialog is not None
        target, ours, theirs, call_id, cseq = phone.dialog
        phone.dialog = (target, ours, theirs, call_id, cseq + 1)
        body = nullsip.REGINFO % (
            cseq, phone.impu, state, state, event, nullsip.escaped(target),
        )  # fmt: skip
        self._branch += 1
        data = nullsip.NOTIFY % (
            target, self._sent_by, self._branch, ours, theirs, call_id, cseq + 1, self._sent_by,
            subscription, len(body), body,
        )  # fmt: skip
        if phone.sas is None:
            connection.send(data)
        else:
            self._send_inside(phone.sas, data)

    def _send(self, phone: NullPhone, data: bytes) -> None:
        """A request of a call towards a phone."""
        if phone.sas is not None:
            self._send_inside(phone.sas, data)
        elif phone.connection is not None:
            phone.connection.send(data)

    # -- IPsec

    def _agree(self, phone: NullPhone, address: str, offer: str) -> bytes:
        """Four SAs, installed; the Security-Server line (TS 33.203 §7.2)."""
        if phone.sas is not None:
            self._give_up(phone.sas)
        core = self._settings
        offered = parse_security([offer])
        ours = [Mechanism(alg, ealg, 1, 1, 1, 1) for alg, ealg in core.algs]
        client = choose(offered, ours)
        spi_pc = self._next_spi(client)
        spi_ps = self._next_spi(client)
        port_pc = core.port_pc_first + phone.ring % core.port_pc_count
        phone.ring += 1
        server = Mechanism(client.alg, client.ealg, spi_pc, spi_ps, port_pc, core.port_ps, q=0.1)
        sas = sa_set(address, core.listen[0], client, server, phone.ck, phone.ik)
        assert self.backend is not None
        self.backend.install(sas)
        line = f"Security-Server: {serialize_security([server])}\r\n".encode()
        phone.sas = NullSas(sas, phone, line)
        self._sets[address, client.port_c] = phone.sas
        return line

    def _next_spi(self, client: Mechanism) -> int:
        self._spi += 1
        while self._spi in (client.spi_c, client.spi_s):
            self._spi += 1
        return self._spi

    def _send_inside(self, held: NullSas, data: bytes) -> None:
        link = held.link
        if link is None or link.sock is None:
            sas = held.sas
            assert self.backend is not None
            sock = start_connect(
                sas.pcscf_address,
                sas.port_pc,
                (sas.phone_address, sas.port_us),
                self.backend.device,
            )
            if sock is None:
                self.counters["connections to phones failed"] += 1
                return
            link = Connection(self.loop, sock, self._on_message, self.counters, connecting=True)
            link.sas, link.phone, held.link = held, held.phone, link
        link.send(data)

    def _give_up(self, held: NullSas) -> None:
        self.loop.later(CLOSE_GRACE_S, lambda: self._close_link(held))

    def _close_link(self, held: NullSas) -> None:
        if held.link is not None:
            held.link.close()
        self.loop.later(REMOVE_GRACE_S, lambda: self._remove(held))

    def _remove(self, held: NullSas) -> None:
        flow = (held.sas.phone_address, held.sas.port_uc)
        if self._sets.get(flow) is held:
            del self._sets[flow]
        if self.backend is not None:
            self.backend.remove(held.sas)

    # -- results

    def result(self) -> dict[str, Any]:
        """What the control channel's result says."""
        return {
            "counters": dict(self.counters),
            "registered": self.registered,
            "connections": len(self.loop.connections),
            "sas": 4 * len(self._sets),
            "backend": self.backend.name if self.backend is not None else "off",
            "backend_counters": self.backend.counters() if self.backend is not None else {},
            "cpu_s": time.process_time(),
        }

    def close(self, *, keep_backend: bool = False) -> None:
        """Stop listening; keep_backend: as ReferenceCore.close has it."""
        for listener in self._listeners:
            listener.close()
        if self.backend is not None and not keep_backend:
            self.backend.close()
        self.loop.close()


def serve(
    settings: NullSettings, backend: SaBackend | None, channel: ControlChannel | None
) -> dict[str, Any]:
    """Run until told to stop, by SIGINT, or until the channel's other end is gone; the result.

    The backend is left to whoever made it.
    """
    target = NullTarget(settings, backend)
    try:
        target.start()
        garbage.settle()
        garbage.keep_young(target.loop.later)
        if channel is not None:
            _report_to(channel, target)
        _LOG.info("null target at %s port %s", *target.address)
        with contextlib.suppress(KeyboardInterrupt):
            target.loop.run()
        result = target.result()
    finally:
        target.close(keep_backend=True)
    if channel is not None:
        channel.send("result", **result)
    return result


def _report_to(channel: ControlChannel, target: NullTarget) -> None:
    channel.setblocking(False)

    def on_control() -> None:
        stop = any(message["type"] == "stop" for message in channel.receive())
        target.loop.stopped = stop or channel.closed

    def tick() -> None:
        counts = dict(target.counters) | {"registered": target.registered}
        channel.send("tick", counts=counts, cpu_s=time.process_time())
        target.loop.later(TICK_S, tick)

    target.loop.add_reader(channel.fileno(), on_control)
    tick()
    channel.send("ready")


def _uri(head: Head) -> bytes:
    found = nullsip.CONTACT_URI.search(head.get(b"contact", b""))
    return found[1] if found else b""


def _between(value: bytes) -> bytes:
    """The URI of a From value without its parameters."""
    return value.partition(b"<")[2].partition(b">")[0].partition(b";")[0]
