"""The phones of one worker under load: procedures are started, refreshed when due, and recorded.

A phone runs one REGISTER dialogue and one subscription at a time (``busy``), beside its calls.
After a registration its subscription follows by itself, and both are refreshed when due
(TS 24.229 §5.1.1.4.1, §5.1.1.3); their outcomes belong to the step in which they were due.

An idle phone has one entry in the timer heap, at its next refresh. An entry is never taken out: one
that finds nothing due yet is put back at what is due next.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Coroutine
from math import inf, nan
from typing import Any, Literal

from imsbench.engine.driver import Driver
from imsbench.engine.loop import Loop, clock
from imsbench.outcome import Outcome, Procedure
from imsbench.phone.actions import Action
from imsbench.phone.attempt import attempt
from imsbench.phone.phone import Network, Phone, Registration, refresh_delay
from imsbench.phone.registration import abandon, deregister, register, reregister
from imsbench.phone.subscription import refresh_subscription, subscribe_reg_event

FlowOf = Callable[[Phone, Outcome], Coroutine[Action, Any, None]]
Then = Callable[[Phone, Outcome], None]
_Ended = tuple[Phone, Registration, str]
"""Whose registration the network ended, which one, and the event that reginfo gives for it."""


class Phones:
    """All phones of a worker."""

    def __init__(
        self,
        loop: Loop,
        driver: Driver,
        network: Network,
        addresses: dict[int, str],
        *,
        subscribe: bool,
        on_outcome: Callable[[Outcome], None],
        spread: str = "",
        second_address: Callable[[int], str] | None = None,
    ) -> None:
        """spread: a seed, where each phone's first refresh is drawn uniformly between now and when it
        would be due; else refreshes keep the wave of the fill. second_address: where the phone of a
        number re-attaches; None: no phone does.
        """
        self.all = [Phone(network, n, address) for n, address in addresses.items()]
        """Every phone, in the order of its number."""
        self.by_address = {phone.address: phone for phone in self.all}
        self.registered = 0
        """How many are registered now."""
        self.outstanding: Counter[int] = Counter()
        """Attempts under way, by the step they belong to."""
        self.step = -1
        """Index of the step that attempts due now belong to; -1: to none."""
        self.in_call: dict[int, int] = {}
        """Number of calls under way, by phone number."""
        self.busy: dict[int, int] = {}
        """Number of attempts under way, by phone number."""
        self._loop = loop
        self._driver = driver
        self._network = network
        self._subscribe = subscribe
        self._on_outcome = on_outcome
        self._spread = spread
        self._second_address = second_address
        self._homes: dict[int, str] = {}
        self._ended_by_network: dict[int, _Ended] = {}
        network.on_deregistered = self._on_network_deregistration
        network.on_refresh_moved = self._schedule

    def register(
        self, phone: Phone, due_at: float, step: int | None = None, then: Then | None = None
    ) -> None:
        """Initial registration, and on success the subscription, in this step or the present one.

        then() is called when the registration has ended, well or badly.
        """

        def ended(phone: Phone, outcome: Outcome) -> None:
            self._after_registration(phone, outcome)
            if then is not None:
                then(phone, outcome)

        self._attempt("registration", register, phone, due_at, ended, step)

    def refresh(
        self,
        phone: Phone,
        due_at: float,
        what: Literal["registration", "subscription"] = "registration",
    ) -> bool:
        """Refresh one of an idle phone's two ahead of its timer; False if it has none."""
        one = phone.registration if what == "registration" else phone.subscription
        if one is None:
            return False
        one.refresh_at = due_at
        self._refresh(phone, due_at, due_at)
        return True

    def reattach(self, phone: Phone, due_at: float) -> None:
        """The phone is gone without a word, and registers from its other address."""
        self.lose(phone)
        self._move(phone)
        self.register(phone, due_at)

    def lose(self, phone: Phone) -> None:
        """An idle phone loses registration, connections and SAs; the network is not told."""
        self.registered -= phone.registration is not None
        self._driver.start(abandon(phone, silently=True), phone, _gone)

    def deregister(self, phone: Phone, due_at: float, then: Then) -> None:
        """De-registration; then() is called when the phone holds nothing any more."""
        self._attempt("deregistration", deregister, phone, due_at, then)

    # private

    def _move(self, phone: Phone) -> None:
        """To its second address, or home again."""
        assert self._second_address is not None
        home = self._homes.pop(phone.n, None)
        if home is None:
            self._homes[phone.n] = phone.address
        del self.by_address[phone.address]
        phone.address = home or self._second_address(phone.n)
        self.by_address[phone.address] = phone

    def _attempt(
        self,
        procedure: Procedure,
        flow_of: FlowOf,
        phone: Phone,
        due_at: float,
        then: Then,
        step: int | None = None,
    ) -> None:
        """Run one attempt: count it, and tidy up behind a failed one before then() is called."""
        outcome = Outcome(procedure, phone.n, self.step if step is None else step, due_at)
        self.outstanding[outcome.step] += 1
        self.busy[phone.n] = self.busy.get(phone.n, 0) + 1
        was_registered = phone.registration is not None

        def done(_phone: object, problem: BaseException | None) -> None:
            if problem is not None:
                raise problem  # a defect of ours: attempt() turns every failure into an outcome
            lost = not outcome.succeeded and procedure in (
                "registration", "reregistration", "deregistration",
            )  # fmt: skip
            if lost:
                # The phone starts afresh (TS 24.229 §5.1.1.4.1: after a failed refresh by an
                # initial registration), so nothing of the old registration may stay.
                self._driver.start(abandon(phone), phone, lambda *_: settle())
            else:
                settle()

        def settle() -> None:
            self.registered += (phone.registration is not None) - was_registered
            self.outstanding[outcome.step] -= 1
            left = self.busy[phone.n] - 1
            if left:
                self.busy[phone.n] = left
            else:
                del self.busy[phone.n]
            self._on_outcome(outcome)
            then(phone, outcome)
            self._catch_up(phone)

        self._driver.start(attempt(flow_of(phone, outcome), outcome), phone, done)

    def _after_registration(self, phone: Phone, outcome: Outcome) -> None:
        if not outcome.succeeded:
            return
        self._refresh_later(phone, outcome.ended_at, first=True)
        if self._subscribe:
            self._attempt(
                "subscription",
                subscribe_reg_event,
                phone,
                clock(),
                self._after_subscribing,
                outcome.step,
            )

    def _after_subscribing(self, phone: Phone, outcome: Outcome) -> None:
        self._after_subscription(phone, outcome, first=True)

    def _after_subscription(self, phone: Phone, outcome: Outcome, *, first: bool = False) -> None:
        subscription = phone.subscription
        if outcome.succeeded and subscription is not None:
            delay_s = refresh_delay(subscription.expires_at - outcome.ended_at)
            if first:
                delay_s *= self._share_of_first(phone, "subscription")
            subscription.refresh_at = outcome.ended_at + delay_s
            self._schedule(phone)

    def _refresh_later(self, phone: Phone, registered_at: float, *, first: bool = False) -> None:
        registration = phone.registration
        if registration is not None:
            delay_s = refresh_delay(registration.expires_at - registered_at)
            if first:
                delay_s *= self._share_of_first(phone, "registration")
            registration.refresh_at = registered_at + delay_s
            self._schedule(phone)

    def _share_of_first(self, phone: Phone, what: str) -> float:
        """The part of the interval that a phone waits for its first refresh; its own, from the seed."""
        if not self._spread:
            return 1.0
        return random.Random(f"{self._spread}/{phone.n}/{what}").random()

    def _schedule(self, phone: Phone) -> None:
        """Have the phone looked at when its next refresh is due, unless it will be anyway."""
        due_at = _next_refresh(phone)
        if due_at < phone.timer_at:
            phone.timer_at = due_at
            self._loop.call_at(due_at, self._on_timer, phone)

    def _on_timer(self, phone: Phone) -> None:
        phone.timer_at = inf
        due_at = _next_refresh(phone)
        if due_at > clock():
            self._schedule(phone)
        elif phone.n not in self.busy:  # else when it is idle again: _catch_up
            self._refresh(phone, due_at, due_at)
            self._schedule(phone)

    def _catch_up(self, phone: Phone) -> None:
        """What came due while the phone had something under way is due now that it has not."""
        if phone.n in self.busy:
            return
        ended = self._ended_by_network.pop(phone.n, None)
        if ended is not None and ended[1] is phone.registration:
            self._act_on_deregistration(ended)
            return
        due_at, now = _next_refresh(phone), clock()
        if due_at <= now:
            self._refresh(phone, due_at, now)
            self._schedule(phone)

    def _refresh(self, phone: Phone, planned_at: float, due_at: float) -> None:
        """Start the refresh that was planned for this instant; it counts from ``due_at``."""
        registration, subscription = phone.registration, phone.subscription
        if registration is not None and registration.refresh_at == planned_at:
            registration.refresh_at = nan
            self._attempt("reregistration", reregister, phone, due_at, self._after_refresh)
        elif subscription is not None:
            subscription.refresh_at = nan
            self._attempt(
                "subscription_refresh",
                refresh_subscription,
                phone,
                due_at,
                self._after_subscription,
            )

    def _after_refresh(self, phone: Phone, outcome: Outcome) -> None:
        if outcome.succeeded:
            self._refresh_later(phone, outcome.ended_at)

    def _on_network_deregistration(self, phone: Phone, event: str) -> None:
        """TS 24.229 §5.1.1.7: ``deactivated`` and ``probation`` want a new registration, others none.

        Called while the NOTIFY is being answered, so it acts in the loop's next turn.
        """
        if phone.registration is not None:
            ended = phone, phone.registration, event
            self._loop.call_at(clock(), self._act_on_deregistration, ended)

    def _act_on_deregistration(self, ended: _Ended) -> None:
        phone, registration, event = ended
        if phone.registration is not registration:
            return  # its own de-registration was faster, and it may have registered again
        if phone.n in self.busy:
            self._ended_by_network[phone.n] = ended
            return
        self.registered -= 1
        phone.registration = None

        def abandoned(*_: object) -> None:
            if event == "deactivated":
                self.register(phone, clock())

        self._driver.start(abandon(phone), phone, abandoned)


def _gone(_phone: object, problem: BaseException | None) -> None:
    if problem is not None:
        raise problem  # a defect of ours: nothing of it waits for the network


def _next_refresh(phone: Phone) -> float:
    """When the earlier of its refreshes is due, seconds; infinity if none is."""
    times = [
        one.refresh_at
        for one in (phone.registration, phone.subscription)
        if one is not None and one.refresh_at == one.refresh_at  # NaN: none is planned
    ]
    return min(times, default=inf)
