"""A registrar and a relay of calls on the test's own loop: challenges with each subscriber's keys."""

from __future__ import annotations

import random
import socket
from collections import Counter
from collections.abc import Callable

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
    """Some phones, one after the other in number, and the network they register with and call by."""

    def __init__(
        self, phones: int, *, expires_s: int = 3600, step: int = 0, seed: int = 2, spread: str = ""
    ) -> None:
        self.loop = Loop()
        self.far = FarEnd(self.loop)
        self.far.on_request = self._on_request
        self.far.on_response = self._on_response
        self.alter: Callable[[Request | Response], None] = lambda _message: None
        """Changes what is relayed between two phones."""
        self.population = Population(phones)
        self.expires_s = expires_s
        self.refuse: set[str] = set()
        """IMPIs that get a 403."""
        self.retry_after = ""
        """Of those 403."""
        self.delay_s = 0.0
        """Before each answer."""
        self.outcomes: list[Outcome] = []
        self.call_outcomes: list[CallOutcome] = []
        self.received: Counter[str] = Counter()
        self._sqn = 0
        self._reached_by: dict[int, socket.socket] = {}
        self._dialogs: dict[str, tuple[socket.socket, socket.socket]] = {}
        settings = PhoneSettings(
            "127.0.0.1", self.far.port, ipsec=False, registration_timeout_s=2.0
        )
        network = Network(settings, self.population, random.Random(1))
        self.driver = driver = Driver(
            self.loop, EngineSettings(), None, lambda _a: None, answer_request
        )
        addresses = {n: f"127.0.1.{n + 1}" for n in range(phones)}
        self.phones = Phones(
            self.loop, driver, network, addresses, subscribe=False,
            on_outcome=self.outcomes.append, spread=spread,
            second_address=lambda n: f"127.0.2.{n + 1}",
        )  # fmt: skip
        self.phones.step = step
        self.calls = Calls(
            driver, network, self.phones, random.Random(seed), self.call_outcomes.append
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

    # -- calls

    def _relay(self, request: Request, sock: socket.socket) -> None:
        """To the phone of the Request-URI, within a dialog to the other one; nobody there: 404."""
        dialog = self._dialogs.get(request.call_id)
        if dialog is None:
            callee = self._reached_by.get(self._number_in(request.uri))
            if callee is None:
                self._send(response_to(request, 404, "Not Found", to_tag="relay"), sock)
                return
            dialog = self._dialogs[request.call_id] = (sock, callee)
            self._send(response_to(request, 100, "Trying"), sock)
            caller = next(n for n, one in self._reached_by.items() if one is sock)
            identity = self.population.subscriber(caller).impu_sip
            request.headers.append(("p-asserted-identity", f"<{identity}>"))
            request.headers.append(("record-route", f"<sip:127.0.0.1:{self.far.port};lr>"))
        request.headers = [header for header in request.headers if header[0] != "route"]
        self._forward(request, dialog, sock)

    def _on_response(self, response: Response, sock: socket.socket) -> None:
        dialog = self._dialogs.get(response.call_id)
        if dialog is not None and response.status > 100:
            self._forward(response, dialog, sock)

    def _forward(
        self,
        message: Request | Response,
        dialog: tuple[socket.socket, socket.socket],
        sock: socket.socket,
    ) -> None:
        self.alter(message)
        self._send(message, dialog[1] if sock is dialog[0] else dialog[0])

    def _send(self, message: Request | Response, sock: socket.socket) -> None:
        data = serialize_message(message)
        if self.delay_s:
            self.loop.call_at(clock() + self.delay_s, sock.sendall, data)
        else:
            sock.sendall(data)

    def _number_in(self, uri: str) -> int:
        numbers = range(self.population.count)
        return next((n for n in numbers if self.population.subscriber(n).impu_sip in uri), -1)

    # -- registrations

    def _on_request(self, request: Request, sock: socket.socket) -> None:
        if request.method != "REGISTER":
            self._relay(request, sock)
            return
        self.received[f"{request.method} {request.get('expires')}"] += 1
        answer = self._answer(request)
        if answer.status == 200:
            n = self.population.number_of(_username(request))
            assert n is not None
            self._reached_by[n] = sock
            if request.get("expires") == "0":
                del self._reached_by[n]
        self._send(answer, sock)

    def _answer(self, request: Request) -> Response:
        authorization = parse_digest(request.get("authorization") or "")
        if authorization["username"] in self.refuse:
            headers = [("retry-after", self.retry_after)] if self.retry_after else []
            return response_to(request, 403, "Forbidden", headers=headers)
        if not authorization["nonce"]:
            return response_to(request, 401, "Unauthorized", headers=[self._challenge(request)])
        contact = (request.get("contact") or "").partition(">")[0] + f">;expires={self.expires_s}"
        n = self.population.number_of(_username(request))
        assert n is not None
        identity = f"<{self.population.subscriber(n).impu_sip}>"
        granted = [("contact", contact), ("p-associated-uri", identity)]
        headers = [] if request.get("expires") == "0" else granted
        return response_to(request, 200, "OK", headers=headers)

    def _challenge(self, request: Request) -> tuple[str, str]:
        n = self.population.number_of(_username(request))
        assert n is not None
        subscriber = self.population.subscriber(n)
        self._sqn += 32
        vector = generate_vector(
            Milenage(subscriber.k, opc=subscriber.opc), bytes(16), self._sqn, b"\x80\0"
        )
        nonce = make_nonce(vector.rand, vector.autn)
        realm = subscriber.domain
        return "www-authenticate", f'Digest realm="{realm}",nonce="{nonce}",algorithm=AKAv1-MD5'


def _username(request: Request) -> str:
    return parse_digest(request.get("authorization") or "")["username"]
