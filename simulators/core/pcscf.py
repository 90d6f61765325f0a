"""P-CSCF: the first hop of phones (TS 24.229 §5.2, TS 33.203 §7)."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import Counter

from imsbench.host.backend import BackendError, SaBackend
from imsbench.protocol.address import (
    canonical_identity,
    canonical_or_same,
    host_port,
    parse_name_addr,
)
from imsbench.protocol.sip import Request, Response, response_to, serialize_message
from simulators.core.admission import Admission
from simulators.core.agreement import Offer, read_offer
from simulators.core.answer import Answer, counted, refusal
from simulators.core.callend import Calls
from simulators.core.callsetup import CallSetup, Routes
from simulators.core.delivery import Delivery
from simulators.core.icscf import Icscf
from simulators.core.impairment import Impairment
from simulators.core.limiter import Limiter
from simulators.core.phones import Phone
from simulators.core.policy import RxPolicy
from simulators.core.proxy import Proxy
from simulators.core.register import Register, parse_register
from simulators.core.registrar import OnAnswer
from simulators.core.relay import mark_source
from simulators.core.scscf import Scscf
from simulators.core.security import SecurityAssociations
from simulators.core.sessions import Sessions
from simulators.core.settings import CoreSettings
from simulators.core.transport import SipConnection
from simulators.core.unreliable import Unreliable
from simulators.core.ways import DatagramFlow, Udp, Way
from simulators.faults import wanted

TIMER_F_S = 32.0  # RFC 3261 §17.1.2.2
_LOG = logging.getLogger(__name__)


class Pcscf:
    """Takes connections and messages of phones; hands REGISTERs to the I-CSCF."""

    def __init__(
        self,
        settings: CoreSettings,
        icscf: Icscf,
        scscf: Scscf,
        backend: SaBackend | None,
        counters: Counter[str],
    ) -> None:
        self.counters = counters
        self._settings = settings
        self._icscf = icscf
        self._scscf = scscf
        self.security = (
            SecurityAssociations(settings, backend, self, counters) if backend is not None else None
        )
        self._admission = Admission(counters)
        self._limiter = Limiter(settings.limiter, counters)
        self.impairment = Impairment(settings, counters)
        """What goes wrong with messages on purpose."""
        self._random = random.Random(f"p-cscf|{settings.seed}")
        self._transactions: dict[str, tuple[OnAnswer, asyncio.TimerHandle]] = {}
        self._phones: dict[str, Phone] = {}
        self._by_identity: dict[str, Phone] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._policy: RxPolicy | None = None
        self.connections: set[SipConnection] = set()
        """All that are open."""
        port = settings.listen[1] if backend is None else settings.port_ps
        self._sent_by = host_port(settings.listen[0], port)
        self._path = f"<sip:term@{host_port(*settings.listen)};lr>"
        host = settings.listen[0]
        unreliable = Unreliable(settings, self.impairment, counters)
        self.udp = Udp(self, unreliable, counters, host)
        self._ways = Delivery(self, self.udp, host, self._sent_by, counters)
        proxy = Proxy(settings, self._ways, self.impairment, counters)
        routes = Routes(settings, scscf.name)
        self.calls = Calls(settings.faults, settings.seed, proxy, self, counters)
        setup = CallSetup(proxy, self.calls, routes, icscf, scscf, self, counters)
        self.sessions = Sessions(proxy, self.calls, setup, routes, self._sent_by, counters)

    def use(self, policy: RxPolicy) -> None:
        """Ask this PCRF for calls and registrations from now on."""
        self._policy = policy
        self.sessions.policy = policy
        self.calls.on_leg_ended = policy.leg_ended
        grace_s = self._settings.rx_grace_s
        policy.on_lost = lambda call, why: self.calls.bearer_lost(call, why, grace_s)

    # -- connections

    def on_open(self, connection: SipConnection) -> None:
        """A connection stands; one on port_ps must belong to an SA set."""
        self.connections.add(connection)
        self.counters[f"connections: {connection.kind}"] += 1
        if connection.kind != "protected" or self.security is None:
            return
        held = self.security.find(connection.peer_address, connection.peer_port)
        if held is None:
            self.counters["protected connections without SAs"] += 1
            connection.abort()
            return
        connection.sas = held
        held.accepted.add(connection)

    def on_closed(self, connection: SipConnection) -> None:
        """A connection is gone."""
        self.connections.discard(connection)
        if connection.sas is not None:
            connection.sas.accepted.discard(connection)

    # -- messages

    def on_message(self, connection: Way, message: Request | Response) -> None:
        """Serve one message of a phone."""
        if connection.sas is not None and self.security is not None:
            self.security.used(connection.sas)
        if isinstance(message, Response):
            self._on_response(message)
            return
        method = counted(message.method)
        self.counters[f"received {method}"] += 1
        refused = self._admission.check(connection, message, ipsec=self.security is not None)
        refused = refused or self._limiter.check(message, time.monotonic())
        refused = refused or self.impairment.refuse(message)
        if refused is not None:
            self._answer(connection, message, refused)
        elif method == "REGISTER":
            task = asyncio.get_running_loop().create_task(self._on_register(connection, message))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif method == "SUBSCRIBE":
            self._answer(connection, message, self._on_subscribe(connection, message))
        else:
            self._on_session_request(connection, message)

    def _on_session_request(self, connection: Way, request: Request) -> None:
        """What is of a call goes on by the SAs, or the connection, of a registered phone only."""
        impi = connection.sas.impi if connection.sas is not None else connection.impi
        phone = self._phones.get(impi) or self._by_datagrams(connection, request)
        if phone is not None:
            self.sessions.on_request(connection, phone, request)
            return
        self.counters["requests of phones that are not registered"] += 1
        self._answer(connection, request, refusal(403, "not registered by this way"))

    def _by_datagrams(self, connection: Way, request: Request) -> Phone | None:
        """ipsec off: the phone that uses UDP and sends what is too large for it by TCP."""
        if self.security is not None:
            return None
        try:
            identity = canonical_identity(parse_name_addr(request.get("from") or "").uri)
        except ValueError:
            return None
        phone = self._by_identity.get(identity)
        if phone is None or phone.datagrams is None or phone.address != connection.peer_address:
            return None
        return phone

    def phone(self, impi: str) -> Phone | None:
        """The phone that is registered with a private identity."""
        return self._phones.get(impi)

    def _on_response(self, response: Response) -> None:
        method = counted(response.method)
        self.counters[f"received {response.status} {method}"] += 1
        if self.sessions.on_response(response) or response.status < 200:
            return
        transaction = self._transactions.pop(response.branch, None)
        if transaction is None:
            self.counters["responses without a transaction"] += 1
            return
        on_answer, timer = transaction
        timer.cancel()
        on_answer(response)

    async def _on_register(self, connection: Way, request: Request) -> None:
        """A REGISTER's way to the S-CSCF and back; a defect of ours is a 500 and a count."""
        try:
            answer = await self._register(connection, request)
        except Exception as error:
            _LOG.exception("REGISTER of %s", request.call_id)
            self.counters[f"internal errors: {type(error).__name__}"] += 1
            answer = refusal(500, "internal error")
        self._answer(connection, request, answer)

    async def _register(self, connection: Way, request: Request) -> Answer:
        try:
            register = parse_register(request)
        except ValueError as error:
            return refusal(400, str(error))
        held = connection.sas
        if held is not None and register.impi != held.impi:  # TS 33.203 §7.1
            self.counters["REGISTERs in another identity's SAs"] += 1
            return refusal(403, "the SAs belong to another private identity")
        offer: Offer | None = None
        if self.security is not None:
            read = read_offer(request, self._settings.algs)
            if isinstance(read, Answer):
                self.counters[f"refused: security agreement, {read.status}"] += 1
                return read
            offer = read
            answering = held is not None and held.state == "temporary"
            if held is not None and answering and offer.entries != held.client_entries:
                self.counters["refused: Security-Client changed"] += 1  # TS 33.203 §7.3.2.3
                header = ("security-server", held.security_server)
                return refusal(494, "Security-Client differs from the first", header)
        request.headers.append(("path", self._path))
        phone = self._phones.get(register.impi) or Phone(self, register.impi)
        protected = self._is_protected(connection, register)
        answer = await self._icscf.register(register, protected, phone)
        return self._conclude(connection, register, answer, offer, phone)

    def _is_protected(self, connection: Way, register: Register) -> bool:
        """integrity-protected of TS 24.229 §5.2.2: it came in by an established SA.

        With ipsec off the connection on which the phone was authenticated stands for the SA; a
        REGISTER without a nonce starts anew.
        """
        if connection.sas is not None:
            return connection.sas.state == "established"
        if self.security is not None:
            return False
        return connection.impi == register.impi and bool(register.authorization.get("nonce"))

    def _conclude(
        self,
        connection: Way,
        register: Register,
        answer: Answer,
        offer: Offer | None,
        phone: Phone,
    ) -> Answer:
        """What the answer means for the SAs, before it leaves (TS 24.229 §5.2.2)."""
        held = connection.sas
        if answer.challenge is not None and self.security is not None:
            assert offer is not None
            return self._protect(connection, register, answer, offer)
        if answer.status == 200 and answer.expires_s:
            self._remember(connection, phone, answer)
        elif answer.status == 200:
            self.forget(phone)
        elif answer.status != 401 and held is not None and held.state == "temporary":
            # TS 33.203 §7.4: a failed authentication ends its temporary SAs.
            assert self.security is not None
            if answer.status == 403:
                self.security.give_up(held)
        return answer

    def _protect(self, connection: Way, register: Register, answer: Answer, offer: Offer) -> Answer:
        """Install the four SAs of a challenge; only then may the 401 leave (TS 33.203 §7.2)."""
        assert self.security is not None
        assert answer.challenge is not None
        challenge = answer.challenge
        try:
            held = self.security.agree(
                register.impi, connection.peer_address, offer, challenge.ck, challenge.ik,
                connection.sas,
            )  # fmt: skip
        except BackendError as error:
            self.counters["SA installations failed"] += 1
            return refusal(500, f"SAs not installed: {error}")
        except ValueError as error:
            self.counters["SA agreements refused"] += 1
            return refusal(403, str(error))
        answer.headers.append(("security-server", held.security_server))
        return answer

    def _remember(self, connection: Way, phone: Phone, answer: Answer) -> None:
        """Registered or refreshed: requests to the phone go by this way now."""
        phone.address = connection.peer_address
        phone.datagrams = connection if isinstance(connection, DatagramFlow) else None
        if self.security is not None and connection.sas is not None:
            self.security.establish(connection.sas, answer.expires_s)
            phone.sas = connection.sas
        else:
            phone.flow = connection
            connection.impi = phone.impi
        self._phones[phone.impi] = phone
        phone.identities = frozenset(map(canonical_or_same, answer.identities))
        for identity in phone.identities:
            self._by_identity[identity] = phone
        phone.associated = _uris(answer, "p-associated-uri")
        phone.service_route = _uris(answer, "service-route")
        if self._policy is not None:
            self._policy.registered(phone)

    def forget(self, phone: Phone, *, give_up: bool = True) -> None:
        """No longer registered; its SA sets go after a grace (TS 24.229 §5.2.5), or in their time."""
        self._phones.pop(phone.impi, None)
        phone.associated = ()
        self.calls.left(phone)
        if self._policy is not None:
            self._policy.deregistered(phone)
        for identity in phone.identities:
            if self._by_identity.get(identity) is phone:
                del self._by_identity[identity]
        if phone.flow is not None:
            phone.flow.impi = ""
        if self.security is not None and give_up:
            for held in self.security.of(phone.impi):
                self.security.give_up(held)

    def _on_subscribe(self, connection: Way, request: Request) -> Answer:
        """A SUBSCRIBE of a registered phone, with its identity checked (TS 24.229 §5.2.6.3)."""
        try:
            identity = canonical_identity(parse_name_addr(request.get("from") or "").uri)
        except ValueError as error:
            return refusal(400, str(error))
        phone = self._by_identity.get(identity)
        allowed = phone is not None and phone.address == connection.peer_address
        if phone is None or not allowed or (connection.sas and connection.sas.impi != phone.impi):
            self.counters["requests of identities that are not registered here"] += 1
            return refusal(403, "this identity is not registered by this way")
        if self.security is None:
            phone.flow = connection
        return self._scscf.subscribe(request, identity)

    # -- answers and requests to phones

    def _answer(self, connection: Way, request: Request, answer: Answer) -> None:
        """Send an answer, or delay or lose it as injected; then what follows it."""
        if request.method == "ACK":  # RFC 3261 §17.1.1.3: never answered
            return
        method = counted(request.method)
        self.counters[f"answered {answer.status}"] += 1
        self.counters[f"sent {answer.status} {method}"] += 1
        tag = answer.local_tag or f"{self._random.getrandbits(48):012x}"
        response = response_to(
            request, answer.status, answer.reason, to_tag=tag, headers=answer.headers
        )
        mark_source(response, connection.peer_address, connection.peer_port)
        if request.method == "SUBSCRIBE" and answer.status == 200:
            response.headers.append(("record-route", f"<sip:{self._sent_by};lr>"))
        data = serialize_message(response)
        sending = self._write, connection, data, answer
        if not self.impairment.send(request.method, answer.status, *sending):
            connection.lose(data)
            self._follow(answer)

    def _write(self, connection: Way, data: bytes, answer: Answer) -> None:
        if not connection.write(data):
            self.counters["answers without a connection"] += 1
        self._follow(answer)

    def _follow(self, answer: Answer) -> None:
        for call in answer.after:
            call()

    def send(self, phone: Phone, request: Request, on_answer: OnAnswer) -> None:
        """A request towards a phone: over our own connection, with ipsec off over the phone's."""
        branch = f"z9hG4bK{self._random.getrandbits(64):016x}"
        request.branch = branch
        request.headers.insert(0, ("via", self._ways.via(branch)))
        if request.method == "NOTIFY":
            request.headers.insert(1, ("record-route", f"<sip:{self._sent_by};lr>"))
        timer = asyncio.get_running_loop().call_later(TIMER_F_S, self._not_answered, branch)
        self._transactions[branch] = (on_answer, timer)
        self.counters[f"sent {request.method}"] += 1
        data = serialize_message(request)
        self._ways.deliver(phone, data, lambda: self._not_answered(branch))

    def _not_answered(self, branch: str) -> None:
        transaction = self._transactions.pop(branch, None)
        if transaction is not None:
            on_answer, timer = transaction
            timer.cancel()
            on_answer(None)

    def reset_connections(self, count: int | None, share: float | None) -> int:
        """Reset so many TCP connections that phones opened, or this share of them, at random."""
        there = [one for one in self.connections if one.kind != "own" and one.is_open]
        chosen = self._random.sample(there, min(wanted(count, share, len(there)), len(there)))
        for connection in chosen:
            connection.reset()
        return len(chosen)

    def forget_all(self) -> None:
        """Forget every phone: requests in progress, calls, SAs, connections."""
        for task in self._tasks:
            task.cancel()
        for _, timer in self._transactions.values():
            timer.cancel()
        self._transactions.clear()
        self.impairment.close()
        self.sessions.close()
        for phone in self._phones.values():
            if phone.datagrams is not None and phone.datagrams.link is not None:
                phone.datagrams.link.abort()
        self._phones.clear()
        self._by_identity.clear()
        for connection in list(self.connections):
            connection.abort()
        if self.security is not None:
            self.security.close()

    def close(self) -> None:
        """Forget every phone, and serve none any more."""
        self.udp.close()
        self.forget_all()


def _uris(answer: Answer, name: str) -> tuple[str, ...]:
    return tuple(parse_name_addr(value).uri for key, value in answer.headers if key == name)
