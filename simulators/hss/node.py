"""The HSS as a Diameter node: what every simulator's node does, and RTR and PPR."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from simulators.base import DiameterMessage
from simulators.cx import (
    CX,
    Command,
    DeregistrationReason,
    PushProfileRequest,
    ReasonCode,
    RegistrationTerminationRequest,
)
from simulators.faults import Done, Striking, wanted
from simulators.hss.procedures import Procedures
from simulators.hss.store import State
from simulators.node import Injection, Node

NAMES: dict[int, str] = {
    Command.USER_AUTHORIZATION: "UAR",
    Command.SERVER_ASSIGNMENT: "SAR",
    Command.LOCATION_INFO: "LIR",
    Command.MULTIMEDIA_AUTH: "MAR",
    Command.REGISTRATION_TERMINATION: "RTR",
    Command.PUSH_PROFILE: "PPR",
}
"""Commands as the field calls them."""


class HssNode(Node):
    """The Cx procedures behind a Peer."""

    name = "HSS"
    command_names = NAMES

    def __init__(
        self,
        procedures: Procedures,
        *,
        origin_host: str,
        origin_realm: str,
        injection: Injection | None = None,
        seed: int = 1,
    ) -> None:
        super().__init__(
            procedures,
            CX,
            origin_host=origin_host,
            origin_realm=origin_realm,
            injection=injection,
            seed=seed,
        )
        self.procedures = procedures
        """What it answers."""
        self._drawing = random.Random(f"hss faults {seed}")

    def describe(self) -> str:
        """How many subscribers it has."""
        return f"{self.procedures.population.count} subscribers"

    def state(self) -> dict[str, Any]:
        """How many are registered."""
        return {"registered": self.procedures.store.registered}

    def on_control(self, message: Mapping[str, Any]) -> Awaitable[object] | None:
        """Serve ``rtr``, ``ppr`` and ``set_sqn``; see the process."""
        match message["type"]:
            case "rtr":
                reason = ReasonCode(message.get("reason", ReasonCode.PERMANENT_TERMINATION))
                return self.send_rtr(int(message["n"]), reason)
            case "ppr":
                return self.send_ppr(int(message["n"]))
            case "set_sqn":
                self.procedures.store.set_sqn(int(message["n"]), int(message["sqn"]))
                return None
            case other:
                raise ValueError(f"unknown type {other!r}")

    def strikes(self) -> Mapping[str, Striking]:
        """RTR and PPR for registered subscribers, drawn from the seed."""

        def struck(name: str, send: Callable[[int], Awaitable[object]]) -> Striking:
            async def strike(count: int | None, share: float | None) -> Done:
                store = self.procedures.store
                number = wanted(count, share, store.registered)
                chosen = store.draw(number, self._drawing)
                done, failed = await self.each(name, [send(n) for n in chosen])
                return done, failed + number - len(chosen)

            return strike

        return {"rtr": struck("rtr", self.send_rtr), "ppr": struck("ppr", self.send_ppr)}

    async def send_rtr(
        self, n: int, reason: ReasonCode = ReasonCode.PERMANENT_TERMINATION, timeout_s: float = 5.0
    ) -> DiameterMessage:
        """Network-initiated de-registration (TS 29.228 §6.1.3.1): the state is set first.

        LookupError if no S-CSCF serves this subscriber; PeerError if it cannot be asked.
        """
        entry = self.procedures.store.get(n)
        subscriber = self.procedures.population.subscriber(n)
        host, realm = entry.scscf_host, entry.scscf_realm
        if entry.state is State.NOT_REGISTERED or not host:
            raise LookupError(f"subscriber {n} is at no S-CSCF")
        if reason is ReasonCode.REMOVE_S_CSCF and entry.state is not State.UNREGISTERED:
            raise LookupError(
                f"subscriber {n} is registered: REMOVE_S-CSCF is for unregistered ones"
            )
        request = RegistrationTerminationRequest(
            destination_host=host,
            destination_realm=realm or None,
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
        entry = self.procedures.store.get(n)
        host, realm = entry.scscf_host, entry.scscf_realm
        if not host:
            raise LookupError(f"subscriber {n} is at no S-CSCF")
        request = PushProfileRequest(
            destination_host=host,
            destination_realm=realm or None,
            user_name=self.procedures.population.subscriber(n).impi,
            user_data=self.procedures.user_data(n),
        )
        return await self._send(request, timeout_s)
