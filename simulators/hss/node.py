"""The HSS as a Diameter node: serves Cx, injects latency and errors, measures itself, sends RTR and PPR."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Any

from imsbench.distribution import Distribution
from imsbench.histogram import Histogram
from simulators.base import DiameterMessage
from simulators.cx import (
    CX,
    Command,
    DeregistrationReason,
    PushProfileRequest,
    ReasonCode,
    RegistrationTerminationRequest,
)
from simulators.hss.procedures import Procedures
from simulators.hss.store import State
from simulators.peer import Connection, Peer

NAMES = {
    Command.USER_AUTHORIZATION: "UAR",
    Command.SERVER_ASSIGNMENT: "SAR",
    Command.LOCATION_INFO: "LIR",
    Command.MULTIMEDIA_AUTH: "MAR",
    Command.REGISTRATION_TERMINATION: "RTR",
    Command.PUSH_PROFILE: "PPR",
}
"""Commands as the field calls them."""


@dataclass(frozen=True, slots=True)
class Injection:
    """What an operator wants the HSS to do wrong."""

    latency: Distribution = field(default_factory=Distribution)
    """Added to each answer, after the work is done."""
    error_share: float = 0.0
    """Share of requests refused, 0..1; they change nothing."""
    error_result: int = 5012
    """Result-Code of those."""


@dataclass(slots=True)
class CommandStats:
    """What became of one command."""

    count: int = 0
    """Requests answered by the HSS itself (not those refused by the codec)."""
    results: Counter[str] = field(default_factory=Counter)
    """By outcome: "2001", "exp. 2002"."""
    response_time: Histogram = field(default_factory=Histogram)
    """Last byte read -> first byte written, waiting behind others and injected latency included."""

    def to_json(self) -> dict[str, Any]:
        """For the control channel."""
        return {
            "count": self.count,
            "results": dict(self.results),
            "response_time": self.response_time.to_json(),
        }


class HssNode:
    """Procedures behind a Peer."""

    def __init__(
        self,
        procedures: Procedures,
        *,
        origin_host: str,
        origin_realm: str,
        injection: Injection | None = None,
        seed: int = 1,
    ) -> None:
        self.procedures = procedures
        """What it answers."""
        self.peer = Peer(
            origin_host=origin_host,
            origin_realm=origin_realm,
            applications=(CX,),
            on_request=self._serve,
            on_answered=self._measure,
            product_name="imsbench HSS",
        )
        """How it is reached."""
        self.commands: dict[str, CommandStats] = {}
        """What was answered, by command."""
        self._injection = injection or Injection()
        self._random = random.Random(f"hss injection {seed}")

    async def send_rtr(
        self, n: int, reason: ReasonCode = ReasonCode.PERMANENT_TERMINATION, timeout_s: float = 5.0
    ) -> DiameterMessage:
        """Network-initiated de-registration (TS 29.228 §6.1.3.1): the state is set first.

        LookupError if no S-CSCF serves this subscriber; PeerError if it cannot be asked.
        """
        entry = self.procedures.store.get(n)
        subscriber = self.procedures.population.subscriber(n)
        host = entry.scscf_host
        if entry.state is State.NOT_REGISTERED or not host:
            raise LookupError(f"subscriber {n} is at no S-CSCF")
        if reason is ReasonCode.REMOVE_S_CSCF and entry.state is not State.UNREGISTERED:
            raise LookupError(
                f"subscriber {n} is registered: REMOVE_S-CSCF is for unregistered ones"
            )
        request = RegistrationTerminationRequest(
            destination_host=host,
            user_name=subscriber.impi,
            deregistration_reason=DeregistrationReason(reason_code=reason),
        )
        if reason is ReasonCode.NEW_SERVER_ASSIGNED:
            # The old S-CSCF drops its data; the identities are named, and the new one's state stays.
            request.public_identity = list(subscriber.impus)
        else:
            self.procedures.store.change(
                n, state=State.NOT_REGISTERED, server_name="", pending=False
            )
        return await self._send(request, timeout_s)

    async def send_ppr(self, n: int, timeout_s: float = 5.0) -> DiameterMessage:
        """Push the profile anew (TS 29.228 §6.2.2.1). LookupError and PeerError as send_rtr."""
        host = self.procedures.store.get(n).scscf_host
        if not host:
            raise LookupError(f"subscriber {n} is at no S-CSCF")
        request = PushProfileRequest(
            destination_host=host,
            user_name=self.procedures.population.subscriber(n).impi,
            user_data=self.procedures.user_data(n),
        )
        return await self._send(request, timeout_s)

    def counters(self) -> dict[str, int]:
        """Everything that happened, by name."""
        return dict(self.peer.counters + self.procedures.counters)

    def to_json(self) -> dict[str, Any]:
        """What it measured, for the ``result`` message."""
        return {
            "commands": {name: stats.to_json() for name, stats in self.commands.items()},
            "registered": self.procedures.store.registered,
            "counters": self.counters(),
        }

    # --- private ------------------------------------------------------------------------------------

    async def _send(self, request: DiameterMessage, timeout_s: float) -> DiameterMessage:
        name = NAMES[Command(request.code)]
        self.peer.counters[f"{name.lower()}_sent"] += 1
        answer = await self.peer.request(request, timeout_s)
        self.peer.counters[f"{name.lower()}_answered_{answer.outcome}"] += 1
        return answer

    def _serve(
        self, request: DiameterMessage, connection: Connection
    ) -> DiameterMessage | Awaitable[DiameterMessage]:
        injection = self._injection
        if injection.error_share and self._random.random() < injection.error_share:
            self.peer.counters["errors_injected"] += 1
            answer = request.answer(result_code=injection.error_result)
            # RFC 6733 §7.1.3: 3xxx answers carry the E bit
            answer.header.is_error = 3000 <= injection.error_result < 4000
        else:
            answer = self.procedures.answer(request)
        delay_s = injection.latency.draw(self._random) if injection.latency.mean_s else 0.0
        return _later(answer, delay_s) if delay_s else answer

    def _measure(self, request: DiameterMessage, answer: DiameterMessage, time_s: float) -> None:
        name = NAMES[Command(request.code)]
        stats = self.commands.get(name)
        if stats is None:
            stats = self.commands[name] = CommandStats()
        stats.count += 1
        stats.results[answer.outcome] += 1
        stats.response_time.record(time_s)


async def _later(answer: DiameterMessage, delay_s: float) -> DiameterMessage:
    await asyncio.sleep(delay_s)
    return answer
