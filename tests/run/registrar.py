"""A registrar on the test's own loop: challenges with each subscriber's keys, then grants."""

from __future__ import annotations

import random
import socket
from collections import Counter

from imsbench.engine.connections import EngineSettings
from imsbench.engine.driver import Driver
from imsbench.engine.loop import Loop, clock
from imsbench.outcome import CallOutcome, Outcome
from imsbench.phone.phone import Network, PhoneSettings
from imsbench.phone.requests import answer_request
from imsbench.protocol.aka import Milenage, generate_vector, make_nonce
from imsbench.protocol.digest import parse_digest
from imsbench.protocol.sip import Request, Response, response_to, serialize_message
from imsbench.run.calls import Calls
from imsbench.run.phones import Phones
from imsbench.subscriber import Population
from tests.engine.helpers import FarEnd


class Site:
    """Some phones, one after the other in number, and the registrar they register with."""

    def __init__(self, phones: int, *, expires_s: int = 3600, step: int = 0) -> None:
        self.loop = Loop()
        self.far = FarEnd(self.loop)
        self.far.on_request = self._on_request
        self.population = Population(phones)
        self.expires_s = expires_s
        self.refuse: set[str] = set()
        """IMPIs that get a 403."""
        self.delay_s = 0.0
        """Before each answer."""
        self.outcomes: list[Outcome] = []
        self.call_outcomes: list[CallOutcome] = []
        self.received: Counter[str] = Counter()
        self._sqn = 0
        settings = PhoneSettings(
            "127.0.0.1", self.far.port, ipsec=False, registration_timeout_s=2.0
        )
        network = Network(settings, self.population, random.Random(1))
        driver = Driver(self.loop, EngineSettings(), None, lambda _a: None, answer_request)
        addresses = dict.fromkeys(range(phones), "127.0.0.1")
        self.phones = Phones(
            self.loop, driver, network, addresses, subscribe=False, on_outcome=self.outcomes.append
        )
        self.phones.step = step
        self.calls = Calls(
            driver, network, self.phones, random.Random(2), self.call_outcomes.append
        )

    def turn_until_stopped(self, limit_s: float = 5.0) -> None:
        """Turn until somebody stops the loop; TimeoutError after the limit."""
        late: list[bool] = []

        def give_up(_none: object) -> None:
            late.append(True)
            self.loop.stop()

        timer = self.loop.call_at(clock() + limit_s, give_up, None)
        self.loop.run()
        timer.cancel()
        if late:
            raise TimeoutError(f"not over in {limit_s:g} s: {self.outcomes}")

    def turn_for(self, seconds: float) -> None:
        """Turn for so long."""
        self.loop.call_at(clock() + seconds, lambda _none: self.loop.stop(), None)
        self.loop.run()

    def close(self) -> None:
        """Close all connections, then the loop."""
        for phone in self.phones.all:
            if phone.clear is not None and phone.clear.connection is not None:
                phone.clear.connection.abort()
        self.far.close()
        self.loop.close()

    def of(self, procedure: str) -> list[Outcome]:
        """The outcomes of one procedure."""
        return [outcome for outcome in self.outcomes if outcome.procedure == procedure]

    def _on_request(self, request: Request, sock: socket.socket) -> None:
        self.received[f"{request.method} {request.get('expires')}"] += 1
        answer = serialize_message(self._answer(request))
        if self.delay_s:
            self.loop.call_at(clock() + self.delay_s, sock.sendall, answer)
        else:
            sock.send(answer)

    def _answer(self, request: Request) -> Response:
        authorization = parse_digest(request.get("authorization") or "")
        if authorization["username"] in self.refuse:
            return response_to(request, 403, "Forbidden")
        if not authorization["nonce"]:
            return response_to(request, 401, "Unauthorized", headers=[self._challenge(request)])
        contact = (request.get("contact") or "").partition(">")[0] + f">;expires={self.expires_s}"
        headers = [] if request.get("expires") == "0" else [("contact", contact)]
        return response_to(request, 200, "OK", headers=headers)

    def _challenge(self, request: Request) -> tuple[str, str]:
        username = parse_digest(request.get("authorization") or "")["username"]
        n = self.population.number_of(username)
        assert n is not None
        subscriber = self.population.subscriber(n)
        self._sqn += 32
        vector = generate_vector(
            Milenage(subscriber.k, opc=subscriber.opc), bytes(16), self._sqn, b"\x80\0"
        )
        nonce = make_nonce(vector.rand, vector.autn)
        realm = subscriber.domain
        return "www-authenticate", f'Digest realm="{realm}",nonce="{nonce}",algorithm=AKAv1-MD5'
