"""The phone's side: requests of a hostile network, and flows under hostile answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Hashable
from typing import Any

from imsbench.outcome import Outcome, Procedure
from imsbench.phone.actions import Action, Close, Exchange, FlowError, Incoming, Receive, Timeout
from imsbench.phone.attempt import attempt
from imsbench.phone.phone import Phone, Subscription
from imsbench.phone.registration import deregister, register, reregister
from imsbench.phone.requests import answer_request
from imsbench.phone.subscription import refresh_subscription, subscribe_reg_event
from imsbench.protocol.aka import make_nonce
from imsbench.protocol.sip import (
    Header,
    Request,
    Response,
    parse_message,
    response_to,
    serialize_message,
)
from imsbench.protocol.stream import SipReader
from tests.fuzz.harness import BlowUp, Run, Target
from tests.fuzz.targets import sip
from tests.fuzz.targets.documents import REGINFO
from tests.phone.helpers import SECURITY_SERVER, Hand, make_phone, registered

_FLOWS: tuple[tuple[Procedure, Callable[[Phone, Outcome], Coroutine[Action, Any, None]]], ...] = (
    ("registration", register),
    ("subscription", subscribe_reg_event),
    ("reregistration", reregister),
    ("subscription_refresh", refresh_subscription),
    ("deregistration", deregister),
)
_MOST_EXCHANGES = 12
"""In one attempt: three challenges, a refusal, a shorter expiry, and room."""
_MOST_NAMES = 60
_CAUSE = re.compile(r"[A-Za-z0-9 .-]{1,40}")
_CALL_ID = "subscription-of-the-phone"


def _notify() -> Run:
    phone = registered()
    network = phone.network
    names: set[str] = set()

    def run(data: bytes) -> Hashable:
        phone.subscription = Subscription(_CALL_ID, "mine", phone.subscriber.impu_sip)
        ended: list[str] = []
        network.on_deregistered = lambda _, event: ended.append(event)
        network.events.clear()
        statuses = []
        for message in SipReader().feed(data):
            if isinstance(message, Request):
                response = _answer(phone, message, 1.0, protected=len(message.body) % 7 != 6)
                statuses.append(response.status)
                sip.check_answer(message, response)
        names.update(network.events)
        if len(names) > _MOST_NAMES:
            raise BlowUp(f"events named by the network: {sorted(names)[-3:]}")
        if len(network.texts) > 10_000:
            raise BlowUp("texts of the network are kept without end")
        return tuple(statuses[:3]), tuple(sorted(network.events))

    return run


def _flow() -> Run:
    causes: set[str] = set()

    def run(data: bytes) -> Hashable:
        """The phone's life under the answers that the input holds: the first octet is its settings."""
        choice = data[0] if data else 0
        phone = make_phone(ipsec=not choice & 1)
        script = [m for m in SipReader().feed(data[1:]) if isinstance(m, (Request, Response))]
        results = []
        for procedure, flow in _FLOWS:
            outcome = Outcome(procedure, phone.n, 0, due_at=0.0)
            _drive(phone, attempt(flow(phone, outcome), outcome), script)
            assert bool(outcome.cause) == bool(outcome.stage) or not outcome.cause, outcome
            assert not outcome.cause or _CAUSE.fullmatch(outcome.cause), outcome
            causes.add(outcome.cause)
            results.append(outcome.cause)
        named = [cause for cause in causes if not cause.isdigit()]
        if len(named) > _MOST_NAMES:
            raise BlowUp(f"causes named by the network: {sorted(named)[-3:]}")
        return choice & 1, tuple(results)

    return run


def _drive(
    phone: Phone, flow: Coroutine[Action, Any, None], script: list[Request | Response]
) -> None:
    """Carry out what the flow asks for, with the script's messages as the network's; then silence."""
    answer: Any = None
    error: FlowError | None = None
    exchanges = 0
    while True:
        try:
            action = flow.send(answer) if error is None else flow.throw(error)
        except StopIteration:
            return
        answer, error = None, None
        if isinstance(action, Exchange):
            exchanges += 1
            assert exchanges <= _MOST_EXCHANGES, "it never ends"
            _check_request(action.request)
            action.started_at = action.sent_at = 1.0
            answer = _next_response(phone, script)
            if answer is None:
                error = Timeout("timeout", "silence", 2.0)
        elif isinstance(action, Receive):
            while script and isinstance(script[0], Request):
                _serve(phone, script.pop(0))
                answer = 3.0
            if answer is None:
                error = Timeout("timeout", "silence", 3.0)
        elif isinstance(action, Close):
            answer = 4.0


def _next_response(phone: Phone, script: list[Request | Response]) -> Response | None:
    while script:
        message = script.pop(0)
        if isinstance(message, Response) and message.status >= 200:
            message.at = 2.0
            return message
        _serve(phone, message)
    return None


def _serve(phone: Phone, message: Request | Response) -> None:
    if isinstance(message, Request):
        sip.check_answer(message, _answer(phone, message, 1.5, protected=True))


def _answer(phone: Phone, request: Request, at: float, *, protected: bool) -> Response:
    """What a phone without calls answers at once."""
    answer = answer_request(phone, Incoming(request, at, None, protected=protected))
    assert isinstance(answer, Response)
    return answer


def _check_request(request: Request) -> None:
    """Whatever the network said: what the phone sends is a message, and all of it is the phone's."""
    again = parse_message(serialize_message(request))
    assert isinstance(again, Request), f"the phone sends no message: {again}"
    assert again.headers[:-1] == [(name, value.strip()) for name, value in request.headers]


def _notify_seeds() -> list[bytes]:
    phone = registered()
    contact = f"sip:{phone.subscriber.imsi}@{phone.address}:6101".encode()
    mine = REGINFO.replace(b"sip:1@198.18.0.1:6101", contact)
    ended = mine.replace(b'"active"', b'"terminated"').replace(b'"registered"', b'"deactivated"')
    made = [
        _request("NOTIFY", [("subscription-state", "active;expires=600")], 1, mine),
        _request("NOTIFY", [("subscription-state", "terminated;reason=timeout")], 2, b""),
        _request("NOTIFY", [("subscription-state", "active")], 3, ended),
        _request("OPTIONS", [], 4, b""),
        _request("MESSAGE", [], 5, b"text"),
    ]
    return [*made, b"".join(made)]


def _request(method: str, headers: list[Header], cseq: int, body: bytes) -> bytes:
    common = [
        ("via", "SIP/2.0/TCP 198.19.0.10:40001;branch=z9hG4bKn1"),
        ("from", "<sip:a@b>;tag=far"),
        ("to", "<sip:c@d>;tag=mine"),
        ("call-id", _CALL_ID),
        ("cseq", f"{cseq} {method}"),
        ("contact", "<sip:scscf.home:6060>"),
        ("record-route", "<sip:198.19.0.10:5063;lr>"),
        ("event", "reg"),
    ]
    return serialize_message(Request(method, "sip:1@198.18.0.1:6101", common + headers, body))


class _Recorder(Hand):
    """A hand that keeps what it answers, to be mutated."""

    def __init__(
        self, phone: Phone, flow_of: Any, procedure: Procedure, record: list[bytes]
    ) -> None:
        self.record = record
        super().__init__(phone, flow_of, procedure)

    def answer(
        self, status: int, *headers: Header, reason: str = "Reason", body: bytes = b""
    ) -> None:
        request = self.exchange.request
        reply = response_to(request, status, reason, to_tag="far", headers=headers, body=body)
        self.record.append(serialize_message(reply))
        super().answer(status, *headers, reason=reason, body=body)


def _life(*, ipsec: bool) -> bytes:
    """The answers to a whole life: registered, subscribed, both refreshed, gone."""
    phone = make_phone(ipsec=ipsec)
    record: list[bytes] = []
    agreement = [("security-server", SECURITY_SERVER)] if ipsec else []
    hand = _Recorder(phone, register, "registration", record)
    hand.challenge(*agreement)
    hand.accept()
    hand = _Recorder(phone, subscribe_reg_event, "subscription", record)
    hand.answer(200, ("expires", "600"), ("contact", "<sip:scscf.home:6060>"))
    call_id = phone.subscription.call_id if phone.subscription else ""
    notify = _request("NOTIFY", [("subscription-state", "active;expires=600")], 1, REGINFO)
    record.append(notify.replace(_CALL_ID.encode(), call_id.encode()))
    hand = _Recorder(phone, reregister, "reregistration", record)
    hand.sqn = 64 << 5
    hand.challenge(*agreement)
    hand.accept()
    hand = _Recorder(phone, refresh_subscription, "subscription_refresh", record)
    hand.answer(200, ("expires", "600"))
    hand = _Recorder(phone, deregister, "deregistration", record)
    hand.answer(200)
    assert hand.done
    return bytes([not ipsec]) + b"".join(record)


def _flow_seeds() -> list[bytes]:
    with_ipsec, without = _life(ipsec=True), _life(ipsec=False)
    phone = make_phone()
    record: list[bytes] = []
    hand = _Recorder(phone, register, "registration", record)
    hand.answer(423, ("min-expires", "700000"))
    vector = hand.vector(32)
    hand.challenge(("security-server", SECURITY_SERVER))
    hand.challenge(("security-server", SECURITY_SERVER), vector=vector)  # a replayed SQN: AUTS
    hand.challenge(("security-server", SECURITY_SERVER))
    hand.answer(403, ("warning", '399 scscf "no"'), ("retry-after", "10 (busy)"))
    forged = make_nonce(bytes(16), bytes(16))
    refused = [
        record[1].replace(make_nonce(vector.rand, vector.autn).encode(), forged.encode()),
        record[-1],
    ]
    return [with_ipsec, without, b"\0" + b"".join(record), b"\0" + b"".join(refused), b"\0"]


_FLOW_WORDS = (
    *sip.WORDS, b"WWW-Authenticate: ", b"Security-Server: ", b"P-Associated-URI: ", b"Service-Route: ",
    b"Contact: ", b"Expires: ", b"Min-Expires: ", b"SIP/2.0 200 OK\r\n", b"SIP/2.0 401 X\r\n", b";expires=0",
    b"P-Associated-URI: <>\r\n", b"Service-Route: ,\r\n",
)  # fmt: skip

TARGETS = [
    Target("notify", "requests of the network to a phone", _notify, _notify_seeds, sip.WORDS),
    Target("flows", "a phone's flows under hostile answers", _flow, _flow_seeds, _FLOW_WORDS),
]
