"""The phones of one worker under load: procedures are started, refreshed when due, and recorded.

A phone runs one REGISTER dialogue and one subscription at a time (``busy``). After a registration
its subscription follows by itself, and both are refreshed by timers (TS 24.229 §5.1.1.4.1,
§5.1.1.3); their outcomes belong to the step in which they were due.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from imsbench.engine.driver import Driver
from imsbench.engine.loop import Loop, Timer, clock
from imsbench.outcome import Outcome, Procedure
from imsbench.phone.actions import Action
from imsbench.phone.attempt import attempt
from imsbench.phone.phone import Network, Phone
from imsbench.phone.registration import abandon, deregister, refresh_delay, register, reregister
from imsbench.phone.subscription import refresh_subscription, subscribe_reg_event

FlowOf = Callable[[Phone, Outcome], Coroutine[Action, Any, None]]
Then = Callable[[Phone, Outcome], None]

_RETRY_S = 0.5
"""A refresh that finds its phone busy comes back after this, its due time unchanged."""


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
    ) -> None:
        self.all = [Phone(network, n, address) for n, address in addresses.items()]
        """Every phone, in the order of its number."""
        self.by_address = {phone.address: phone for phone in self.all}
        self.registered = 0
        """How many are registered now."""
        self.outstanding = 0
        """Attempts under way."""
        self.step = -1
        """Index of the step that attempts due now belong to; -1: to none."""
        self.busy: dict[int, int] = {}
        """Number of attempts under way, by phone number."""
        self._loop = loop
        self._driver = driver
        self._network = network
        self._subscribe = subscribe
        self._on_outcome = on_outcome
        self._timers: dict[tuple[int, str], Timer] = {}
        network.on_deregistered = self._on_network_deregistration

    def register(self, phone: Phone, due_at: float, then: Then | None = None) -> None:
        """Initial registration, and on success the subscription."""
        self._attempt("registration", register, phone, due_at, self._after_registration(then))

    def deregister(self, phone: Phone, due_at: float, then: Then) -> None:
        """De-registration; then() is called when the phone holds nothing any more."""
        self._cancel_timers(phone)
        self._attempt("deregistration", deregister, phone, due_at, then)

    # private

    def _attempt(
        self, procedure: Procedure, flow_of: FlowOf, phone: Phone, due_at: float, then: Then
    ) -> None:
        """Run one attempt: count it, and tidy up behind a failed one before then() is called."""
        outcome = Outcome(procedure, phone.n, self.step, due_at)
        self.outstanding += 1
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
                self._cancel_timers(phone)
                self._driver.start(abandon(phone), phone, lambda *_: settle())
            else:
                settle()

        def settle() -> None:
            self.registered += (phone.registration is not None) - was_registered
            self.outstanding -= 1
            left = self.busy[phone.n] - 1
            if left:
                self.busy[phone.n] = left
            else:
                del self.busy[phone.n]
            self._on_outcome(outcome)
            then(phone, outcome)

        self._driver.start(attempt(flow_of(phone, outcome), outcome), phone, done)

    def _after_registration(self, then: Then | None) -> Then:
        def after(phone: Phone, outcome: Outcome) -> None:
            if outcome.succeeded:
                self._set_refresh(phone, outcome.ended_at)
                if self._subscribe:
                    self._attempt(
                        "subscription", subscribe_reg_event, phone, clock(), self._after_subscription
                    )
            if then is not None:
                then(phone, outcome)

        return after

    def _after_subscription(self, phone: Phone, outcome: Outcome) -> None:
        subscription = phone.subscription
        if outcome.succeeded and subscription is not None:
            delay_s = refresh_delay(subscription.expires_at - outcome.ended_at)
            self._set_timer(phone, "subscription", outcome.ended_at + delay_s)

    def _set_refresh(self, phone: Phone, registered_at: float) -> None:
        registration = phone.registration
        if registration is not None:
            delay_s = refresh_delay(registration.expires_at - registered_at)
            self._set_timer(phone, "registration", registered_at + delay_s)

    def _set_timer(self, phone: Phone, what: str, due_at: float) -> None:
        key = (phone.n, what)
        old = self._timers.get(key)
        if old is not None:
            old.cancel()
        self._timers[key] = self._loop.call_at(due_at, self._on_timer, (phone, what, due_at))

    def _cancel_timers(self, phone: Phone) -> None:
        for what in ("registration", "subscription"):
            timer = self._timers.pop((phone.n, what), None)
            if timer is not None:
                timer.cancel()

    def _on_timer(self, due: tuple[Phone, str, float]) -> None:
        phone, what, due_at = due
        if phone.n in self.busy:
            self._timers[phone.n, what] = self._loop.call_at(clock() + _RETRY_S, self._on_timer, due)
            return
        del self._timers[phone.n, what]
        if what == "registration":
            self._attempt("reregistration", reregister, phone, due_at, self._after_refresh)
        elif phone.subscription is not None:
            self._attempt(
                "subscription_refresh",
                refresh_subscription,
                phone,
                due_at,
                self._after_subscription,
            )

    def _after_refresh(self, phone: Phone, outcome: Outcome) -> None:
        if outcome.succeeded:
            self._set_refresh(phone, outcome.ended_at)

    def _on_network_deregistration(self, phone: Phone, event: str) -> None:
        """TS 24.229 §5.1.1.7: ``deactivated`` and ``probation`` want a new registration, others none.

        Called while the NOTIFY is being answered, so it acts in the loop's next turn.
        """
        self._loop.call_at(clock(), self._act_on_deregistration, (phone, event))

    def _act_on_deregistration(self, what: tuple[Phone, str]) -> None:
        phone, event = what
        if phone.n in self.busy or phone.registration is None:
            return  # its own procedure under way decides
        self._cancel_timers(phone)
        self.registered -= 1
        phone.registration = None

        def abandoned(*_: object) -> None:
            if event == "deactivated":
                self.register(phone, clock())

        self._driver.start(abandon(phone), phone, abandoned)


