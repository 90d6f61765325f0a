"""A phone driven by hand: a flow's actions are taken one by one and answered by the test.

``Network side`` here is the test itself: it makes challenges with the subscriber's own keys and
answers with responses built from the phone's requests. Time is a number the test moves.
"""

from __future__ import annotations

import random
from collections.abc import Coroutine
from typing import Any

from imsbench.outcome import Outcome, Procedure
from imsbench.phone.actions import Action, Close, Exchange, FlowError, Protect, Receive, Unprotect
from imsbench.phone.attempt import attempt
from imsbench.phone.phone import Network, Phone, PhoneSettings
from imsbench.protocol.aka import Milenage, Vector, generate_vector, make_nonce
from imsbench.protocol.sip import Header, Request, response_to
from imsbench.subscriber import Population

PCSCF = "198.19.0.10"
AMF = b"\x80\x00"
SECURITY_SERVER = (
    "ipsec-3gpp;q=0.1;alg=hmac-sha-1-96;prot=esp;mod=trans;ealg=null;"
    "spi-c=7001;spi-s=7002;port-c=40001;port-s=5063"
)


def make_phone(*, address: str = "198.18.0.1", **settings: Any) -> Phone:
    """Phone 0 of a small population."""
    pcscf = "2001:2:0:2::10" if ":" in address else PCSCF
    network = Network(PhoneSettings(pcscf, **settings), Population(10), random.Random(1), start=0)
    return Phone(network, 0, address)


class Hand:
    """Drives one flow: what it asks for is looked at, then answered."""

    def __init__(
        self,
        phone: Phone,
        flow_of: Any,
        procedure: Procedure = "registration",
    ) -> None:
        self.phone = phone
        self.outcome = Outcome(procedure, phone.n, 0, due_at=100.0)
        self.now = 100.0
        self.ladder: list[str] = []
        """What was asked for and answered, in order."""
        self.done = False
        self.sqn = 32 << 5
        self._flow: Coroutine[Action, Any, None] = attempt(
            flow_of(phone, self.outcome), self.outcome
        )
        self.action: Action | None = None
        self._go(None)

    def expect(self, method: str) -> Request:
        """The request that the flow sends now; it has left by 1 ms from now."""
        action = self.action
        assert isinstance(action, Exchange), f"{action!r} instead of a {method}"
        assert action.request.method == method
        return action.request

    @property
    def exchange(self) -> Exchange:
        """The exchange under way."""
        assert isinstance(self.action, Exchange)
        return self.action

    def answer(
        self, status: int, *headers: Header, reason: str = "Reason", body: bytes = b""
    ) -> None:
        """Give the request under way its final response, 10 ms later."""
        action = self.exchange
        self._sent(action)
        self.now += 0.010
        reply = response_to(
            action.request, status, reason, to_tag="far", headers=headers, body=body
        )
        reply.at = self.now
        self.ladder.append(f"<- {status}")
        self._go(reply)

    def fail(self, error: FlowError, *, sent: bool = True) -> None:
        """Let the request under way end in an error, 10 ms later."""
        action = self.exchange
        action.started_at = self.now
        if sent:
            self._sent(action)
        self.now += 0.010
        error.at = self.now
        self.ladder.append(f"-- {error.cause}")
        self._go(None, error)

    def challenge(self, *headers: Header, vector: Vector | None = None, qop: str = "auth") -> None:
        """401 with a challenge that this subscriber's HSS would make, SQN rising by one step."""
        vector = vector or self.vector()
        text = f'Digest realm="{self.phone.subscriber.domain}",nonce="'
        text += make_nonce(vector.rand, vector.autn) + '",algorithm=AKAv1-MD5'
        if qop:
            text += f',qop="{qop}"'
        self.answer(401, ("www-authenticate", text), *headers)

    def vector(self, sqn: int | None = None) -> Vector:
        """The next authentication vector, or one with a given SQN."""
        if sqn is None:
            self.sqn += 32
            sqn = self.sqn
        subscriber = self.phone.subscriber
        milenage = Milenage(subscriber.k, opc=subscriber.opc)
        return generate_vector(milenage, bytes(range(16)), sqn, AMF)

    def accept(self, expires_s: int = 3600) -> None:
        """200 to a REGISTER: the binding of its Contact, Service-Route, P-Associated-URI."""
        request = self.exchange.request
        contact = (request.get("contact") or "").split(";")[0]
        subscriber = self.phone.subscriber
        self.answer(
            200,
            ("contact", f"{contact};expires={expires_s}"),
            ("service-route", f"<sip:orig@{PCSCF}:6060;lr>"),
            ("p-associated-uri", f"<{subscriber.impu_sip}>, <{subscriber.impu_tel}>"),
        )

    def receive(self, error: FlowError | None = None) -> None:
        """End a wait for a request of the dialog."""
        assert isinstance(self.action, Receive)
        self.now += 0.010
        if error is not None:
            error.at = self.now
        self._go(None if error else self.now, error)

    # private

    def _sent(self, action: Exchange) -> None:
        action.started_at = self.now
        self.now += 0.001
        action.sent_at = self.now
        place = "protected" if action.channel.protected else "clear"
        self.ladder.append(f"-> {action.request.method} {place}")

    def _go(self, answer: Any, error: FlowError | None = None) -> None:
        """Resume, carry out what needs no answer, and stop at what does."""
        while True:
            try:
                action = self._flow.send(answer) if error is None else self._flow.throw(error)
            except StopIteration:
                self.action, self.done = None, True
                return
            answer, error = None, None
            match action:
                case Protect():
                    self.ladder.append(f"protect {action.sas.port_uc}")
                case Unprotect():
                    self.ladder.append(f"unprotect {action.sas.port_uc}")
                case Close():
                    self.ladder.append("settle, close" if action.settle_s else "close")
                    answer = self.now
                case _:
                    self.action = action
                    return


def registered(**settings: Any) -> Phone:
    """A phone that has registered, with IPsec unless the settings say otherwise."""
    from imsbench.phone.registration import register

    phone = make_phone(**settings)
    hand = Hand(phone, register)
    hand.challenge(("security-server", SECURITY_SERVER))
    hand.accept()
    assert hand.done
    assert hand.outcome.succeeded, hand.outcome
    return phone
