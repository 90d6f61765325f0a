"""What the core does to requests and answers on purpose: refuse, lose, delay."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

from imsbench.protocol.sip import Request
from simulators.core.answer import Answer, counted, refusal
from simulators.core.limiter import begins
from simulators.core.settings import CoreSettings
from simulators.faults import Sampler, SteadyFaults, What
from simulators.timers import Timers

_REFUSED: frozenset[What] = frozenset(("error",))
_HELD: frozenset[What] = frozenset(("loss", "delay"))
_BEGINNINGS = {"REGISTER": "registrations", "INVITE": "calls"}


class Impairment:
    """Draws the injected refusals of requests, and the delays and losses of answers."""

    def __init__(self, settings: CoreSettings, counters: Counter[str]) -> None:
        self.faults = SteadyFaults(settings.steady_faults, f"core {settings.seed}")
        """What goes wrong with chosen messages, and how often it did."""
        self._counters = counters
        self._answers = frozenset(settings.answers)
        self._delay = settings.delay
        self._losses = Sampler(settings.loss_share, f"loss|{settings.seed}")
        self._random = random.Random(f"impairment|{settings.seed}")
        self._timers = Timers()

    def refuse(self, request: Request) -> Answer | None:
        """The injected refusal of a request, or None. A REGISTER or an INVITE: if it begins something."""
        if not self.faults.all:
            return None
        method = counted(request.method)
        if method == "ACK" or begins(request) != _BEGINNINGS.get(method, ""):
            return None
        fault = self.faults.strike(_REFUSED, method)
        if fault is None:
            return None
        self._counters["refused as injected"] += 1
        return refusal(fault.code, "injected")

    def draw(self, method: str, status: int) -> float | None:
        """Seconds to wait before this answer is sent; None: it is lost."""
        if self.faults.all:
            # A method alone means its final answers.
            names = (f"{status} {method}", method) if status >= 200 else (f"{status} {method}",)
            fault = self.faults.strike(_HELD, *names)
            if fault is not None:
                return None if fault.what == "loss" else fault.draw(self._random)
        if status < 200:
            return 0.0
        chosen = self._answers
        if chosen and method not in chosen and f"{method} {status}" not in chosen:
            return 0.0
        if self._losses.draw():
            return None
        return self._delay.draw(self._random) if self._delay.mean_s else 0.0

    def send(self, method: str, status: int, send: Callable[..., object], *arguments: Any) -> bool:
        """Send an answer, at once or as late as drawn; False: it is lost, which is counted."""
        delay_s = self.draw(method, status)
        if delay_s is None:
            self._counters["answers lost as injected"] += 1
            return False
        if delay_s:
            self._timers.call_later(delay_s, send, *arguments)
        else:
            send(*arguments)
        return True

    def close(self) -> None:
        """Send no more of what waits."""
        self._timers.close()
