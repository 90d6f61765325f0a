"""Two phones in one call, joined by a wire of the test, on virtual time.

The wire does what a network's proxies do to the messages (Record-Route, P-Asserted-Identity, the
callee's contact as Request-URI) and lets a test look at, delay, repeat, drop or forge each of them.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from typing import Any

from imsbench.outcome import CallOutcome
from imsbench.phone.actions import Ended, Event, Incoming, Next, Send, Timeout
from imsbench.phone.leg import CallPlan, CallSettings
from imsbench.phone.originating import originate_call
from imsbench.phone.phone import Network, Phone, PhoneSettings, Registration
from imsbench.phone.terminating import CalleeOutcome, answer_call
from imsbench.protocol.sip import (
    Request,
    Response,
    ack_for_failure,
    parse_message,
    serialize_message,
)
from imsbench.subscriber import Population

DELAY_S = 0.005
T1_S = 0.5
CALL_ID = "call-1"
Hook = Callable[[Any, str, Request | Response], bool]
"""(pair, "caller"|"callee" that sent it, message): False swallows it."""


class Side:
    """One phone's flow, driven by hand."""

    def __init__(self, pair: Pair, name: str, phone: Phone) -> None:
        self.pair = pair
        self.name = name
        self.phone = phone
        self.flow: Any = None
        self.mailbox: list[Event] = []
        self.waits: Next | None = None
        self.wait_number = 0
        self.done = False
        self.pending: dict[str, Send] = {}
        self.invite_answered = False

    def start(self, flow: Any) -> None:
        """Run the flow to its first wait."""
        self.flow = flow
        self.resume(None)

    def deliver(self, event: Event) -> None:
        """An event for the mailbox."""
        if self.done:
            return
        if self.waits is None:
            self.mailbox.append(event)
        else:
            self.resume(event)

    def resume(self, answer: Event | None) -> None:
        """Go on until the next wait."""
        self.waits = None
        self.wait_number += 1
        while True:
            try:
                action = self.flow.send(answer)
            except StopIteration:
                self.done = True
                return
            answer = None
            if isinstance(action, Send):
                self._send(action)
            elif isinstance(action, Next):
                if self.mailbox:
                    answer = self.mailbox.pop(0)
                    continue
                self.waits = action
                if action.timeout_s is not None:
                    self.pair.at(action.timeout_s, self._time_is_up, self.wait_number)
                return
            else:
                raise TypeError(action)

    def _time_is_up(self, number: int) -> None:
        if self.waits is not None and self.wait_number == number:
            self.resume(None)

    def _send(self, action: Send) -> None:
        action.started_at = self.pair.now
        message = action.message
        if isinstance(message, Request) and message.method != "ACK":
            self.pending[message.branch + message.method] = action
            self.pair.at(action.timeout_s, self._timeout, message.branch + message.method)
        if isinstance(message, Request) and message.method == "BYE" and self.pair.connect_s:
            self.pair.at(self.pair.connect_s, self._put, action)
        else:
            self._put(action)
        if action.repeat_s:
            self.pair.at(T1_S, self._repeat, (action, T1_S, self.pair.now + action.repeat_s))

    def _put(self, action: Send) -> None:
        action.sent_at = self.pair.now
        self.pair.carry(self, action.message)

    def _repeat(self, what: tuple[Send, float, float]) -> None:
        action, interval_s, deadline = what
        if action.settled or self.done:
            return
        if self.pair.now >= deadline:
            self.deliver(Ended(action, Timeout("timeout", "never acknowledged", self.pair.now)))
            return
        self.pair.repeated += 1
        self.pair.carry(self, action.message)
        interval_s = min(2 * interval_s, 4.0)
        left_s = deadline - self.pair.now
        self.pair.at(min(interval_s, left_s), self._repeat, (action, interval_s, deadline))

    def _timeout(self, key: str) -> None:
        if key.endswith("INVITE") and self.invite_answered:
            return
        action = self.pending.pop(key, None)
        if action is not None:
            self.deliver(Ended(action, Timeout("timeout", "no final response", self.pair.now)))

    def read(self, message: Request | Response) -> None:
        """A message off the wire."""
        if isinstance(message, Request):
            if message.method == "INVITE" and self.flow is None:
                self.start(answer_call(self.phone, self.pair.callee_plan, self.pair.side))
            self.deliver(Incoming(message, self.pair.now, None, protected=False))
            return
        message.at = self.pair.now
        key = message.branch + message.method
        action = self.pending.get(key)
        if action is None:
            return
        sent = action.message
        assert isinstance(sent, Request)
        if message.status >= 200 and message.method != "INVITE":
            del self.pending[key]
        elif message.status >= 300:
            del self.pending[key]
            self.pair.carry(self, ack_for_failure(sent, message))
        elif message.method == "INVITE":
            self.invite_answered = True  # RFC 3261 §17.1.1.2: Timer B ends with the first response
        self.deliver(message)


class Pair:
    """Caller, callee, the wire between them, and the time."""

    def __init__(self, plan: CallPlan | None = None, **settings: Any) -> None:
        self.plan = self.callee_plan = plan or CallPlan(CallSettings(**settings))
        self.now = 0.0
        self.ladder: list[str] = []
        """Every message carried: "-> INVITE", "<- 183"."""
        self.hook: Hook = lambda _pair, _name, _message: True
        self.connect_s = 0.0
        """How long a BYE waits for its connection."""
        self.repeated = 0
        self.outcome = CallOutcome(0, 1, 0, due_at=0.0, expected=self.plan.expected)
        self.side = CalleeOutcome()
        self._events: list[tuple[float, int, Callable[[Any], None], Any]] = []
        self._number = 0
        network = Network(
            PhoneSettings("198.19.0.10", ipsec=False), Population(10), random.Random(1)
        )
        phones = [Phone(network, n, f"198.18.0.{n + 1}") for n in (0, 1)]
        for phone in phones:
            phone.registration = Registration(
                "r", "t", impu=phone.subscriber.impu_sip, service_route=("<sip:orig@scscf;lr>",)
            )
        self.caller, self.callee = (
            Side(self, "caller", phones[0]),
            Side(self, "callee", phones[1]),
        )

    def at(self, seconds: float, call: Callable[[Any], None], argument: Any) -> None:
        """Call so many seconds from now."""
        self._number += 1
        heapq.heappush(self._events, (self.now + seconds, self._number, call, argument))

    def run(self, limit_s: float = 1000.0) -> Pair:
        """The call from its start until nothing happens any more."""
        callee = self.callee.phone.subscriber
        self.plan.caller_impu = self.caller.phone.subscriber.impu_sip
        self.caller.start(
            originate_call(self.caller.phone, self.outcome, callee, self.plan, CALL_ID)
        )
        return self.go_on(limit_s)

    def go_on(self, limit_s: float = 1000.0) -> Pair:
        """All that is due, until nothing happens any more."""
        while self._events and self.now < limit_s:
            self.now, _, call, argument = heapq.heappop(self._events)
            call(argument)
        return self

    def carry(self, sender: Side, message: Request | Response) -> None:
        """Put a message on the wire, unless the hook swallows it."""
        arrow = "->" if sender is self.caller else "<-"
        what = message.method if isinstance(message, Request) else str(message.status)
        parsed = parse_message(serialize_message(message))
        assert isinstance(parsed, Request | Response), parsed
        if not self.hook(self, sender.name, parsed):
            self.ladder.append(f"{arrow} {what} lost")
            return
        self.ladder.append(f"{arrow} {what}")
        self.forward(sender, parsed)

    def forward(self, sender: Side, message: Request | Response, delay_s: float = DELAY_S) -> None:
        """Deliver to the other side, as the proxies between them would."""
        receiver = self.callee if sender is self.caller else self.caller
        if isinstance(message, Request):
            if message.method == "INVITE" and "tag=" not in (message.get("to") or ""):
                message.headers.append(("record-route", "<sip:198.19.0.10;lr>"))
                message.headers.append(
                    ("p-asserted-identity", f"<{sender.phone.subscriber.impu_sip}>")
                )
            message.headers = [h for h in message.headers if h[0] != "route"]
        self.at(delay_s, receiver.read, message)

    @property
    def over(self) -> bool:
        """Whether both flows have ended."""
        return self.caller.done and (self.callee.done or self.callee.flow is None)
