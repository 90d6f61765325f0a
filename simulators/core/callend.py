"""The calls there are, and how they end: by their phones, by the network, by injected faults.

TS 24.229 §5.2.8 (release by the P-CSCF), RFC 3326 (Reason).
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Protocol

from imsbench.protocol.sip import Header, Request, Response, tag_of
from simulators.core.answer import refusal
from simulators.core.calls import Call, Leg, own_request
from simulators.core.phones import Phone
from simulators.core.proxy import TRANSACTION_S, Proxy
from simulators.core.registrar import OnAnswer
from simulators.core.settings import Faults

EXIT_DIED = 86
"""Exit code of a core that dies as injected."""


class Sender(Protocol):
    """Sends requests of the P-CSCF's own."""

    def send(self, phone: Phone, request: Request, on_answer: OnAnswer) -> None:
        """Send; the final response, or None: it could not be sent or was not answered."""
        ...


class Calls:
    """The calls of a P-CSCF, by Call-ID and caller's tag."""

    def __init__(
        self, faults: Faults, seed: int, proxy: Proxy, sender: Sender, counters: Counter[str]
    ) -> None:
        self._faults = faults
        self._proxy = proxy
        self._sender = sender
        self._counters = counters
        self._random = random.Random(f"faults|{seed}")
        self._calls: dict[tuple[str, str], Call] = {}
        self._answered = 0
        self.on_leg_ended: Callable[[Leg], None] | None = None
        """Told each leg of a call that ended."""
        self.die: Callable[[], None] = lambda: os._exit(EXIT_DIED)
        """What the injected death does."""

    def __len__(self) -> int:
        return len(self._calls)

    def __iter__(self) -> Iterator[Call]:
        return iter(list(self._calls.values()))

    def states(self) -> dict[str, int]:
        """How many calls there are in each state."""
        found = Counter(call.state for call in self._calls.values())
        return {state: found[state] for state in ("setting up", "answered")}

    def find(self, call_id: str, tag: str) -> Call | None:
        """The call of this caller's tag."""
        return self._calls.get((call_id, tag))

    def of(self, request: Request) -> tuple[Call, Leg] | None:
        """The call that a request belongs to, and the leg that its From tag names."""
        from_tag = tag_of(request.get("from") or "")
        call = self._calls.get((request.call_id, from_tag))
        if call is not None:
            return call, call.caller
        call = self._calls.get((request.call_id, tag_of(request.get("to") or "")))
        if call is None or call.callee is None:
            return None
        return call, call.callee

    def add(self, call: Call) -> None:
        """A call attempt came in."""
        self._calls[call.call_id, call.caller_tag] = call
        call.caller.phone.calls.add(call)
        self._counters["calls attempted"] += 1

    # -- answered

    def answered(self, call: Call) -> None:
        """The 2xx went to the caller: from now on the injected faults may hit."""
        call.state = "answered"
        call.caller.answered = True
        self._counters["calls answered"] += 1
        self._answered += 1
        faults = self._faults
        if faults.lose_bye_share and self._random.random() < faults.lose_bye_share:
            call.loses_bye = True
        if faults.early_bye_share and self._random.random() < faults.early_bye_share:
            delay_s = faults.early_bye.draw(self._random)
            loop = asyncio.get_running_loop()
            call.early_bye = loop.call_later(delay_s, self._end_early, call)
        if self._answered == faults.die_at_call:
            self.die()

    def _end_early(self, call: Call) -> None:
        self._counters["early BYEs as injected"] += 1
        self.release(call, "as injected")

    def lose_bye(self, call: Call) -> None:
        """A BYE that nobody hears of; later ones of this call are lost too, for a while."""
        self._counters["BYEs lost as injected"] += 1
        if call.state != "ended":
            key = call.call_id, call.caller_tag
            self.end(call, "BYE lost as injected")
            self._calls[key] = call
            asyncio.get_running_loop().call_later(TRANSACTION_S, self._calls.pop, key, None)

    # -- ended

    def end(self, call: Call, how: str) -> None:
        """Forget a call; its Rx sessions end with it."""
        if call.state == "ended":
            return
        call.state = "ended"
        self._counters[f"calls ended: {how}"] += 1
        self._calls.pop((call.call_id, call.caller_tag), None)
        call.held.clear()
        for timer in (call.grace, call.early_bye):
            if timer is not None:
                timer.cancel()
        for leg in call.legs():
            leg.phone.calls.discard(call)
            if self.on_leg_ended is not None:
                self.on_leg_ended(leg)

    def release(self, call: Call, why: str, *, warning: str = "") -> None:
        """The network ends a call: BYE to whom it stands, 500 and CANCEL where it does not yet.

        ``why`` goes into the Reason of the BYEs, ``warning`` into the Warning of the 500.
        """
        if call.state == "ended":
            return
        waiting = list(call.open)
        half = not call.caller.answered
        self.end(call, f"released: {why}")
        for transaction in waiting:
            self._proxy.refuse(transaction, refusal(500, warning or why))
            if transaction.is_invite and transaction.target is not None:
                self._proxy.cancel(transaction)
        for leg in call.legs():
            if not leg.answered:
                continue
            if half:
                self._proxy.send(own_request(call, leg, "ACK", []), leg.phone)
            self.bye(call, leg, why)

    def hang_up(self, call: Call, *, acknowledge_only: bool) -> None:
        """The called phone answered a call that has ended: ACK and BYE (RFC 3261 §13.2.2.4)."""
        assert call.callee is not None
        self._proxy.send(own_request(call, call.callee, "ACK", []), call.callee.phone)
        if not acknowledge_only:
            self._counters["calls answered after their end"] += 1
            self.bye(call, call.callee, "the call has ended")

    def bearer_lost(self, call: Call, why: str, grace_s: float) -> None:
        """The PCRF reports that a call has no bearer: it is released after a grace."""
        if call.state == "ended" or call.grace is not None:
            return
        loop = asyncio.get_running_loop()
        call.grace = loop.call_later(grace_s, self.release, call, why)

    def bye(self, call: Call, leg: Leg, why: str) -> None:
        """A BYE of our own to one phone (TS 24.229 §5.2.8.1.2)."""
        reason: Header = ("reason", f'SIP;cause=503;text="{why}"')
        request = own_request(call, leg, "BYE", [reason])
        self._sender.send(leg.phone, request, self._on_bye_answered)

    def _on_bye_answered(self, response: Response | None) -> None:
        if response is None or response.status >= 300:
            status = "no answer" if response is None else str(response.status)
            self._counters[f"BYEs of the network failed: {status}"] += 1

    def left(self, phone: Phone) -> None:
        """A phone is no longer registered: its calls are released (TS 24.229 §5.2.8.1.2)."""
        for call in list(phone.calls):
            self.release(call, "registration ended")

    def close(self) -> None:
        """Forget all calls."""
        for call in self:
            for task in (call.setting_up, call.asking):
                if task is not None:
                    task.cancel()
            for timer in (call.grace, call.early_bye):
                if timer is not None:
                    timer.cancel()
        self._calls.clear()
