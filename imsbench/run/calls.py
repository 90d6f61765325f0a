"""Calls between the phones of one worker: who calls whom, both sides run, one outcome each.

Both ends are ours, so each call is seen from both: the calling phone's flow fills the outcome, the
called phone's adds when the INVITE reached it and whether it was the call that was made. A call is
over, and its phones are idle, when both flows have ended.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from math import isnan

from imsbench.engine.driver import Driver
from imsbench.kpi.sessions import CallSpan
from imsbench.outcome import CallOutcome, Expected
from imsbench.phone.actions import Accept, Incoming
from imsbench.phone.leg import CallPlan, CallSettings
from imsbench.phone.originating import originate_call
from imsbench.phone.phone import Network, Phone
from imsbench.phone.terminating import CalleeOutcome, answer_call
from imsbench.run.phones import Phones

_TRIES = 50
"""Random draws of a phone before the whole population is searched."""


@dataclass(frozen=True, slots=True)
class CallMix:
    """How the calls of a step differ from each other."""

    settings: CallSettings
    """What they have in common."""
    shares: tuple[tuple[Expected, float], ...] = ()
    """Share of calls that are meant to end otherwise than answered."""
    bye_by_callee: float = 0.0
    """Share of answered calls that the called phone ends."""
    cancel_after_s: float = 5.0
    """Ringing time of those that are cancelled, seconds."""
    fixed_pairs: bool = False
    """Whether phones call their neighbour, the first the second, the third the fourth; else both are
    drawn at random."""
    calls_per_phone: int = 1
    """How many calls a phone may have at once."""


class _Call:
    """One call under way: both sides, and what they have told so far."""

    __slots__ = ("callee", "caller", "left", "outcome", "plan", "side")

    def __init__(self, caller: Phone, callee: Phone, outcome: CallOutcome, plan: CallPlan) -> None:
        self.caller = caller
        self.callee = callee
        self.outcome = outcome
        self.plan = plan
        self.side = CalleeOutcome()
        self.left = 1
        """Flows that have not ended."""


class Calls:
    """All calls of one worker."""

    def __init__(
        self,
        driver: Driver,
        network: Network,
        phones: Phones,
        source: random.Random,
        on_outcome: Callable[[CallOutcome], None],
    ) -> None:
        self.spans: list[CallSpan] = []
        """When each call was there; of every call that ended since it was last cleared."""
        self._driver = driver
        self._network = network
        self._phones = phones
        self._random = source
        self._on_outcome = on_outcome
        self._by_call_id: dict[str, _Call] = {}
        self._default = CallMix(CallSettings())
        network.on_invite = self._on_invite

    @property
    def outstanding(self) -> int:
        """Calls that are not over on both sides."""
        return len(self._by_call_id)

    def start(self, mix: CallMix, due_at: float) -> bool:
        """Start a call between two idle phones; False if there is no such pair."""
        expected = self._draw_expected(mix)
        pair = self._draw_pair(mix, callee_registered=expected != "unregistered")
        if pair is None:
            return False
        caller, callee = pair
        plan = self._draw_plan(mix, caller, expected)
        outcome = CallOutcome(caller.n, callee.n, self._phones.step, due_at, expected=expected)
        call = _Call(caller, callee, outcome, plan)
        call_id = f"{self._network.identifier()}@{caller.address}"
        self._by_call_id[call_id] = call
        for phone in pair:
            self._phones.in_call[phone.n] = self._phones.in_call.get(phone.n, 0) + 1
        flow = originate_call(caller, outcome, callee.subscriber, plan, call_id)
        self._driver.start(flow, caller, lambda _p, e: self._ended(call_id, call, e), call_id)
        return True

    # private

    def _draw_expected(self, mix: CallMix) -> Expected:
        x = self._random.random()
        for expected, share in mix.shares:
            x -= share
            if x < 0:
                return expected
        return "answered"

    def _draw_plan(self, mix: CallMix, caller: Phone, expected: Expected) -> CallPlan:
        assert caller.registration is not None
        settings = mix.settings
        return CallPlan(
            settings,
            hold_s=settings.hold.draw(self._random),
            ring_s=settings.ring.draw(self._random),
            bye_by_callee=self._random.random() < mix.bye_by_callee,
            expected=expected,
            cancel_after_s=mix.cancel_after_s,
            caller_impu=caller.registration.impu,
        )

    def _draw_pair(self, mix: CallMix, *, callee_registered: bool) -> tuple[Phone, Phone] | None:
        if mix.fixed_pairs:
            return self._draw_fixed_pair(mix, callee_registered)
        caller = self._draw_phone(mix, registered=True)
        if caller is None:
            return None
        callee = self._draw_phone(mix, registered=callee_registered, but=caller)
        return None if callee is None else (caller, callee)

    def _draw_fixed_pair(self, mix: CallMix, callee_registered: bool) -> tuple[Phone, Phone] | None:
        """A pair of neighbours that are both idle."""

        def idle(pair: int) -> bool:
            caller, callee = everyone[2 * pair], everyone[2 * pair + 1]
            return self._is_idle(caller, mix, True) and self._is_idle(
                callee, mix, callee_registered
            )

        everyone = self._phones.all
        pairs = len(everyone) // 2
        tried = (self._random.randrange(pairs) for _ in range(_TRIES if pairs else 0))
        pair = next((pair for pair in tried if idle(pair)), None)
        if pair is None:
            left = [pair for pair in range(pairs) if idle(pair)]
            pair = self._random.choice(left) if left else None
        return None if pair is None else (everyone[2 * pair], everyone[2 * pair + 1])

    def _draw_phone(
        self, mix: CallMix, *, registered: bool, but: Phone | None = None
    ) -> Phone | None:
        everyone = self._phones.all
        for _ in range(_TRIES):
            phone = everyone[self._random.randrange(len(everyone))]
            if phone is not but and self._is_idle(phone, mix, registered):
                return phone
        idle = [p for p in everyone if p is not but and self._is_idle(p, mix, registered)]
        return self._random.choice(idle) if idle else None

    def _is_idle(self, phone: Phone, mix: CallMix, registered: bool) -> bool:
        phones = self._phones
        return (
            (phone.registration is not None) == registered
            and phone.n not in phones.busy
            and phones.in_call.get(phone.n, 0) < mix.calls_per_phone
        )

    def _on_invite(self, phone: Phone, incoming: Incoming) -> Accept:
        """The called side of one of our calls, or of somebody else's."""
        call_id = incoming.request.call_id
        call = self._by_call_id.get(call_id)
        if call is None or call.callee is not phone:
            self._network.events["foreign_calls"] += 1
            settings = self._default.settings
            plan = CallPlan(settings, hold_s=settings.hold.mean_s)
            return Accept(answer_call(phone, plan, CalleeOutcome()), self._foreign_ended)
        call.left += 1
        flow = answer_call(phone, call.plan, call.side)
        return Accept(flow, lambda _p, e: self._ended(call_id, call, e))

    def _foreign_ended(self, _phone: object, problem: BaseException | None) -> None:
        if problem is not None:
            raise problem

    def _ended(self, call_id: str, call: _Call, problem: BaseException | None) -> None:
        if problem is not None:
            raise problem  # a defect of ours: flows turn every failure into their outcome
        call.left -= 1
        if call.left:
            return
        del self._by_call_id[call_id]
        for phone in (call.caller, call.callee):
            left = self._phones.in_call[phone.n] - 1
            if left:
                self._phones.in_call[phone.n] = left
            else:
                del self._phones.in_call[phone.n]
        outcome = _joined(call)
        ended_at = outcome.ended_at
        released_at = ended_at if isnan(outcome.released_at) else outcome.released_at
        self.spans.append(CallSpan(outcome.sent_at, outcome.answered_at, released_at, ended_at))
        self._on_outcome(outcome)


def _joined(call: _Call) -> CallOutcome:
    """The caller's outcome with what the called phone saw."""
    outcome, side = call.outcome, call.side
    outcome.reached_at = side.reached_at
    outcome.callee_ladder = side.ladder
    for name, count in side.events.items():
        outcome.events[name] = outcome.events.get(name, 0) + count
    outcome.wrong = outcome.wrong or side.wrong
    if outcome.wrong and not outcome.cause:
        outcome.stage, outcome.cause, outcome.detail = "check", "wrong call", outcome.wrong
    elif side.cause and not outcome.cause:
        outcome.stage, outcome.cause = f"called phone: {side.stage}", side.cause
        outcome.detail = side.detail
    return outcome
