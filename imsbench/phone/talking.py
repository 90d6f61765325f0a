"""The calling phone's side of a call that stands: held, resumed, refreshed, ended (TS 24.229 §5.1.3)."""

from __future__ import annotations

from imsbench.outcome import CallOutcome
from imsbench.phone.actions import Ended, Incoming
from imsbench.phone.dialog import Dialog, dialog_of_response, dialog_request
from imsbench.phone.endings import Failed, refused
from imsbench.phone.leg import SDP_TYPE, CallPlan, Leg
from imsbench.phone.phone import Phone
from imsbench.protocol.sdp import (
    SdpError,
    fits,
    parse_sdp,
    same_session,
    serialize_sdp,
    with_status,
)
from imsbench.protocol.sip import Header, Request, Response, tag_of


class CallingLeg(Leg):
    """The calling phone's leg: the dialogs that its INVITE made, and what is done within them."""

    invite: Request
    """The INVITE; its From, Call-ID and CSeq are those of every dialog of the call."""

    def __init__(self, phone: Phone, outcome: CallOutcome, plan: CallPlan) -> None:
        super().__init__(phone, plan, outcome.ladder)
        self.outcome = outcome
        self.stage = "invite"
        """What is under way: where a failure would be."""
        self.dialogs: dict[str, Dialog] = {}
        """By To tag: more than one after a fork (RFC 3261 §12.1.2)."""

    def session_timer(self) -> list[Header]:
        """Session-Expires, if the plan has it (RFC 4028 §7.1)."""
        seconds = self.plan.settings.session_expires_s
        return [("session-expires", f"{seconds};refresher=uac")] if seconds else []

    def dialog_of(self, response: Response) -> Dialog | None:
        """The early dialog of its To tag; a second tag is a fork (RFC 3261 §12.1.2, §13.2.2.4)."""
        tag = tag_of(response.get("to") or "")
        if not tag:
            return None
        dialog = self.dialogs.get(tag)
        if dialog is None:
            if self.dialogs:
                self.count("forked")
            dialog = self.dialogs[tag] = dialog_of_response(self.invite, response)
            if self.dialog is None:
                self.dialog = dialog
        return dialog

    def take_answer(self, response: Response) -> None:
        """The far side's answer; one that does not fit our offer (RFC 3264 §6), or is not what the called
        phone gave, is a wrong call.
        """
        assert self.local_sdp is not None
        self.outcome.answers += 1
        try:
            answer = parse_sdp(response.body)
        except SdpError as problem:
            self.outcome.wrong = self.outcome.wrong or f"SDP of {response.status}: {problem}"
            return
        why = fits(self.local_sdp, answer)
        given = self.plan.answer
        if not why and given is not None and not same_session(given, answer):
            why = "not what the called phone sent"
        if why:
            self.outcome.wrong = self.outcome.wrong or f"SDP of {response.status}: {why}"
        self.remote_sdp = answer

    async def talk(self) -> None:
        """From the ACK to the end of the call."""
        plan = self.plan
        self.stage = "talk"
        began = self.now
        for offset_s, what in self._marks():
            await self._hold(began + offset_s)
            if what == "refresh":
                await self._refresh_session()
            elif what != "end":
                await self._change_direction("sendonly" if what == "hold" else "sendrecv")
        if plan.bye_by_callee:
            # Its time is up too; the BYE comes, or the call hangs.
            await self._hold(self.now + plan.settings.transaction_timeout_s)
            raise Failed("bye", "no bye", "the called phone did not end the call", self.now)
        await self.release()

    def _marks(self) -> list[tuple[float, str]]:
        """What happens in the call, and when: seconds from the ACK."""
        plan, settings = self.plan, self.plan.settings
        marks: list[tuple[float, str]] = [(plan.hold_s, "end")]
        if settings.session_expires_s:
            step_s = settings.session_expires_s / 2  # RFC 4028 §10
            marks += [(n * step_s, "refresh") for n in range(1, int(plan.hold_s / step_s) + 1)]
        if settings.hold_resume:
            marks += [(plan.hold_s / 3, "hold"), (2 * plan.hold_s / 3, "resume")]
        return sorted(marks)

    async def _hold(self, until: float) -> None:
        """Let time pass, answering what comes; Released if the far side ends the call."""
        while self.now < until:
            event = await self.next_event(until - self.now)
            if event is None:
                self.now = until
            elif isinstance(event, Incoming):
                await self.on_request(event)
            elif isinstance(event, Ended):
                self.count("connection_lost_in_call")
            elif event.branch == self.invite.branch and 200 <= event.status < 300:
                await self._again(event)

    async def _again(self, response: Response) -> None:
        """A repeated 2xx is acknowledged again; one of another fork is ended (RFC 3261 §13.2.2.4)."""
        dialog = self.dialog_of(response)
        if dialog is self.dialog and dialog is not None:
            self.count("repeated_2xx")
            await self.acknowledge(dialog, self.invite.cseq)
        elif dialog is not None:
            self.count("forked_2xx")
            await self.acknowledge(dialog, self.invite.cseq)
            await self.send(dialog_request(self.phone, dialog, "BYE"))

    async def release(self) -> None:
        """Our BYE and its response (RFC 3261 §15.1.1)."""
        outcome = self.outcome
        self.stage = "bye"
        outcome.release_by = "caller"
        reply = await self.hang_up()
        outcome.ended_at = reply.at
        if reply.status >= 300:
            raise refused("bye", reply)

    async def hang_up(self) -> Response:
        """As Leg's, with the time of the BYE noted (RFC 6076 §4.4)."""
        reply = await super().hang_up()
        self.outcome.released_at = self.bye_sent_at
        return reply

    async def _refresh_session(self) -> None:
        """Session refresh by UPDATE (RFC 4028 §10)."""
        assert self.dialog is not None
        self.stage = "session refresh"
        request = dialog_request(self.phone, self.dialog, "UPDATE", self.session_timer())
        reply = await self.exchange(request)
        if reply.status in (408, 481):
            raise refused(self.stage, reply)
        self.count("session_refreshes")
        self.stage = "talk"

    async def _change_direction(self, direction: str) -> None:
        """Hold or resume by re-INVITE (RFC 3264 §8.4, TS 24.610)."""
        assert self.dialog is not None
        assert self.local_sdp is not None
        self.stage = "hold" if direction == "sendonly" else "resume"
        qos = self.local_sdp.qos
        told = self.remote_sdp.qos if self.remote_sdp is not None else None
        if qos is not None and told is not None:
            qos.curr_remote = told.curr_local  # as the far side last told it (RFC 3312 §5.1)
        self.local_sdp = with_status(self.local_sdp, qos, direction=direction)
        body = serialize_sdp(self.local_sdp)
        request = dialog_request(self.phone, self.dialog, "INVITE", [SDP_TYPE], body)
        self.invite_pending = True
        try:
            reply = await self.exchange(request)
        finally:
            self.invite_pending = False
        if reply.status >= 300:
            self.count(f"{self.stage}_{reply.status}")
            if reply.status in (408, 481):
                raise refused(self.stage, reply)
        else:
            await self.acknowledge(self.dialog, request.cseq)
            self.take_answer(reply)
            self.count(self.stage)
        self.stage = "talk"
