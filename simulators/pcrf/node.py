"""The PCRF as a Diameter node: what every simulator's node does, RAR and ASR, bearers that take time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from imsbench.distribution import Distribution
from simulators.base import DiameterMessage
from simulators.codec import Result
from simulators.faults import Done, Striking, wanted
from simulators.node import Injection, Node
from simulators.pcrf.procedures import Procedures
from simulators.pcrf.sessions import Report, Session
from simulators.peer import PeerError
from simulators.rx import (
    IP_CAN_3GPP_EPS,
    RAT_EUTRAN,
    RX,
    AbortCause,
    AbortSessionRequest,
    Command,
    Flows,
    ReAuthRequest,
    RxResult,
    SpecificAction,
)

NAMES: dict[int, str] = {
    Command.AA: "AAR",
    Command.SESSION_TERMINATION: "STR",
    Command.RE_AUTH: "RAR",
    Command.ABORT_SESSION: "ASR",
}
"""Commands as the field calls them."""
RELEASE = (int(SpecificAction.INDICATION_OF_RELEASE_OF_BEARER),)
"""What a RAR reports unless told otherwise."""
_WITH_CAUSE = frozenset(
    {
        SpecificAction.INDICATION_OF_LOSS_OF_BEARER,
        SpecificAction.INDICATION_OF_RELEASE_OF_BEARER,
    }
)


class PcrfNode(Node):
    """The Rx procedures behind a Peer."""

    name = "PCRF"
    command_names = NAMES
    experimental_results = frozenset(RxResult)

    def __init__(
        self,
        procedures: Procedures | None = None,
        *,
        origin_host: str,
        origin_realm: str,
        bearer_setup: Distribution | None = None,
        injection: Injection | None = None,
        seed: int = 1,
    ) -> None:
        self.procedures = procedures or Procedures(seed)
        """What it answers."""
        super().__init__(
            self.procedures,
            RX,
            origin_host=origin_host,
            origin_realm=origin_realm,
            injection=injection,
            seed=seed,
        )
        self._bearer_setup = bearer_setup or Distribution()
        self._bearer_random = random.Random(f"pcrf bearers {seed}")

    async def send_rar(
        self,
        session_id: str,
        actions: Sequence[int] = RELEASE,
        abort_cause: int | None = None,
        *,
        flows: Sequence[Flows] = (),
        timeout_s: float = 5.0,
    ) -> DiameterMessage:
        """Report to the AF of a session; loss and release carry an Abort-Cause.

        LookupError if there is no such session, or its AF did not subscribe to these actions; PeerError if
        it cannot be asked.
        """
        session = self._session(session_id)
        missing = set(actions) - session.actions
        if missing:
            raise LookupError(f"session {session_id} did not subscribe to {sorted(missing)}")
        if abort_cause is None and not _WITH_CAUSE.isdisjoint(actions):
            abort_cause = AbortCause.BEARER_RELEASED
        request = ReAuthRequest(
            session_id=session.id,
            destination_host=session.af_host,
            destination_realm=session.af_realm,
            specific_action=list(actions),
            abort_cause=abort_cause,
            flows=list(flows),
            ip_can_type=IP_CAN_3GPP_EPS,
            rat_type=RAT_EUTRAN,
        )
        return await self._ask(session, request, timeout_s)

    async def send_asr(
        self,
        session_id: str,
        abort_cause: int = AbortCause.BEARER_RELEASED,
        timeout_s: float = 5.0,
    ) -> DiameterMessage:
        """Ask the AF of a session to end it; the session stays until its STR.

        LookupError if there is no such session; PeerError if its AF cannot be asked.
        """
        session = self._session(session_id)
        request = AbortSessionRequest(
            session_id=session.id,
            destination_host=session.af_host,
            destination_realm=session.af_realm,
            abort_cause=abort_cause,
        )
        return await self._ask(session, request, timeout_s)

    # --- for Node ---------------------------------------------------------------------------------------

    def describe(self) -> str:
        """Anybody's sessions."""
        return "AF sessions of any subscriber"

    def state(self) -> dict[str, Any]:
        """Sessions open; those of calls, now and at most."""
        sessions = self.procedures.sessions
        return {
            "sessions": len(sessions),
            "media_sessions": sessions.media,
            "most_media_sessions": sessions.most_media,
        }

    def to_json(self) -> dict[str, Any]:
        """What it measured, for the ``result`` message; what was wrong with requests, by name."""
        return super().to_json() | {"wrong": dict(self.procedures.wrong)}

    def on_control(self, message: Mapping[str, Any]) -> Awaitable[object] | None:
        """Serve ``rar`` and ``asr``; see the process."""
        match message["type"]:
            case "rar":
                actions = [int(one) for one in message.get("actions", RELEASE)]
                cause = message.get("abort_cause")
                cause = None if cause is None else int(cause)
                chosen = self._chosen(message, actions)
                return self.each("rar", [self.send_rar(one, actions, cause) for one in chosen])
            case "asr":
                cause = int(message.get("abort_cause", AbortCause.BEARER_RELEASED))
                chosen = self._chosen(message, ())
                return self.each("asr", [self.send_asr(one, cause) for one in chosen])
            case other:
                raise ValueError(f"unknown type {other!r}")

    def strikes(self) -> Mapping[str, Striking]:
        """RAR and ASR for sessions of calls, drawn among those that subscribed to what is reported."""
        procedures = self.procedures

        def struck(
            name: str, actions: tuple[int, ...], send: Callable[[str], Awaitable[object]]
        ) -> Striking:
            async def strike(count: int | None, share: float | None) -> Done:
                number = wanted(count, share, procedures.sessions.media)
                chosen = procedures.sessions.draw(number, actions)
                done, failed = await self.each(name, [send(one.id) for one in chosen])
                return done, failed + number - len(chosen)

            return strike

        return {
            "rar": struck("rar", RELEASE, self.send_rar),
            "asr": struck("asr", (), self.send_asr),
        }

    def answered(self, request: DiameterMessage, answer: DiameterMessage) -> None:
        """An AAA is out: the bearer is set up now, and its report follows."""
        session = self.procedures.sessions.get(request.session_id)
        if session is not None and session.reports:
            report = session.reports.pop(request.header.end_to_end_identifier, None)
            if report is not None:
                self.peer.run(self._report(session, report))

    # --- private ----------------------------------------------------------------------------------------

    def _session(self, session_id: str) -> Session:
        session = self.procedures.sessions.get(session_id)
        if session is None:
            raise LookupError(f"no AF session {session_id}")
        return session

    async def _ask(
        self, session: Session, request: DiameterMessage, timeout_s: float
    ) -> DiameterMessage:
        """Send a request of a session; one that the AF does not know is a session no more."""
        answer = await self._send(request, timeout_s)
        if (
            answer.result_code == Result.UNKNOWN_SESSION_ID
            and self.procedures.sessions.get(session.id) is session
        ):
            self.procedures.sessions.end(session.id)
            self.peer.counters["sessions_unknown_to_af"] += 1
        return answer

    async def _report(self, session: Session, report: Report) -> None:
        """Wait for the bearer, then tell the AF; unless the session is over meanwhile."""
        delay_s = self._bearer_setup.draw(self._bearer_random)
        if delay_s:
            await asyncio.sleep(delay_s)
        if self.procedures.sessions.get(session.id) is not session:
            self.peer.counters["reports_overtaken"] += 1
            return
        flows = [
            Flows(number, sorted(session.components[number].flows))
            for number in report.components
            if number in session.components
        ]
        try:
            await self.send_rar(session.id, report.actions, flows=flows)
        except (LookupError, PeerError):
            self.peer.counters["rar_failed"] += 1

    def _chosen(self, message: Mapping[str, Any], actions: Sequence[int]) -> list[str]:
        """The Session-Ids that a control message means: one by name, or media sessions at random."""
        if "session" in message:
            return [str(message["session"])]
        count = int(message["n"])
        chosen = self.procedures.sessions.draw(count, actions)
        self.peer.counters["sessions_wanted_in_vain"] += count - len(chosen)
        return [one.id for one in chosen]
