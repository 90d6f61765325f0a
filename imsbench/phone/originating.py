"""The calling phone (TS 24.229 §5.1.3, IR.92): a voice call with preconditions, made and ended.

The success ladder (RFC 3312, RFC 3262, RFC 3311):

    INVITE/offer 1 -> 100, 183/answer 1 (reliable) -> PRACK/200 -> UPDATE/offer 2, 200/answer 2 ->
    180 -> 200 -> ACK … hold … BYE/200

A call that ends as its plan wants is no failure: a planned 486 leaves ``cause`` empty. What the
specifications let cross (CANCEL and 200, two BYEs) is handled and counted.
"""

from __future__ import annotations

from imsbench.outcome import CallOutcome
from imsbench.phone.actions import Ended, FlowError, Incoming
from imsbench.phone.dialog import (
    Dialog,
    cancel_request,
    dialog_request,
    invite_request,
    target_of,
)
from imsbench.phone.endings import CancelCrossed, Failed, Released, refused
from imsbench.phone.leg import SDP_TYPE, CallPlan, Leg
from imsbench.phone.phone import Phone
from imsbench.phone.talking import CallingLeg
from imsbench.protocol.sdp import (
    Qos,
    make_offer,
    narrowed,
    serialize_sdp,
    with_status,
)
from imsbench.protocol.sip import Header, Response
from imsbench.subscriber import Subscriber

_WANTED_STATUS = {
    "busy": (486, 600),
    "rejected": (603, 403, 480),
    "cancelled": (487,),
    "unregistered": (404, 480),
}
"""Final responses with which a call that is not meant to be answered ends as its plan wants."""


async def originate_call(
    phone: Phone, outcome: CallOutcome, callee: Subscriber, plan: CallPlan, call_id: str
) -> None:
    """The calling side, from the INVITE to the end of the call (TS 24.229 §5.1.3)."""
    caller = _Caller(phone, outcome, callee, plan, call_id)
    try:
        await caller.set_up()
        await caller.talk()
    except Released as end:
        _note_release(outcome, plan, end)
    except CancelCrossed as problem:
        outcome.stage, outcome.cause, outcome.detail = problem.stage, problem.cause, problem.detail
    except Failed as problem:
        _note_failure(outcome, problem.stage, problem.cause, problem.detail, problem.at)
        outcome.refusal = problem.refusal
        await caller.abandon()
    except FlowError as problem:
        _note_failure(outcome, caller.stage, problem.cause, problem.detail, problem.at)
        await caller.abandon()
    outcome.events = caller.events
    outcome.phone_s = caller.phone_s
    if outcome.ended_at != outcome.ended_at:
        outcome.ended_at = outcome.released_at


def _note_release(outcome: CallOutcome, plan: CallPlan, end: Released) -> None:
    """The far side's BYE: as planned, or a drop."""
    outcome.released_at = outcome.ended_at = end.at
    outcome.release_by = "network" if end.by_network else "callee"
    if end.by_network or not plan.bye_by_callee:
        outcome.dropped = outcome.answered
        outcome.stage, outcome.detail = "talk", end.reason
        outcome.cause = "released by the network" if end.by_network else "early bye"


def _note_failure(outcome: CallOutcome, stage: str, cause: str, detail: str, at: float) -> None:
    outcome.ended_at = at
    outcome.stage, outcome.cause, outcome.detail = stage, cause, detail
    outcome.dropped = outcome.answered


class _Caller(CallingLeg):
    """The calling phone's side of one call, up to its ACK or its failure."""

    def __init__(
        self, phone: Phone, outcome: CallOutcome, callee: Subscriber, plan: CallPlan, call_id: str
    ) -> None:
        super().__init__(phone, outcome, plan)
        self.invite_pending = True
        self._reserved = False
        self._cancel_sent = False
        self._give_up_at: float | None = None
        settings = plan.settings
        session_id = str(1 + phone.network.random.getrandbits(31))
        self.local_sdp = plan.offer = make_offer(
            phone.address, settings.media_port, session_id, preconditions=settings.preconditions
        )
        self.invite = invite_request(
            phone,
            callee.impu_tel if settings.request_uri == "tel" else f"{callee.impu_sip};user=phone",
            [("supported", self._supported()), *self.session_timer(), SDP_TYPE],
            serialize_sdp(self.local_sdp),
            call_id,
        )

    def _supported(self) -> str:
        extras = ", precondition" if self.plan.settings.preconditions else ""
        return f"100rel{extras}, timer"

    async def set_up(self) -> None:
        """INVITE to ACK; returns with a confirmed dialog, or raises."""
        outcome = self.outcome
        action = await self.send(self.invite)
        outcome.started_at = action.started_at
        while True:
            left_s = None if self._give_up_at is None else max(0.0, self._give_up_at - self.now)
            event = await self.next_event(left_s)
            if outcome.sent_at != outcome.sent_at:
                outcome.sent_at = action.sent_at
            if event is None and self._cancel_sent:
                raise Failed("invite", "timeout", "no final response after the CANCEL", self.now)
            if event is None:
                await self._cancel()
            elif isinstance(event, Ended):
                if event.send is action:
                    raise event.error
            elif isinstance(event, Incoming):
                await self.on_request(event)
            elif event.branch != self.invite.branch or event.method != "INVITE":
                continue  # the 200 to our CANCEL
            elif event.status < 200:
                await self._on_provisional(event)
            elif event.status < 300:
                if await self._on_answer(event):
                    return
            else:
                self._on_refusal(event)

    async def _on_provisional(self, response: Response) -> None:
        """Take a 1xx: note the time, acknowledge it if it is reliable, know when to give up."""
        outcome = self.outcome
        if self._give_up_at is None:
            # Timer B has ended with this first response; from now on it is the caller's patience.
            self._give_up_at = response.at + self.plan.settings.no_answer_s
        if response.status == 100:
            outcome.trying_at = response.at
            return
        if outcome.progress_at != outcome.progress_at:  # NaN: the first one
            outcome.progress_at = response.at
        if response.status == 180 and outcome.ringing_at != outcome.ringing_at:
            outcome.ringing_at = response.at
            if outcome.setup_at != outcome.setup_at:
                outcome.setup_at = response.at
            if self.plan.expected == "cancelled":
                self._give_up_at = response.at + self.plan.cancel_after_s
        dialog = self.dialog_of(response)
        rseq = _rseq_of(response)
        if rseq and dialog is not None:
            if rseq <= dialog.rseq:
                self.count("repeated_1xx")  # RFC 3262 §4: acknowledged already
            else:
                await self._acknowledge(dialog, response, rseq)

    async def _acknowledge(self, dialog: Dialog, response: Response, rseq: int) -> None:
        """PRACK a reliable 1xx, then tell that our resources are reserved (RFC 3262, RFC 3312)."""
        dialog.rseq = rseq
        if response.body:
            self.take_answer(response)
        self.stage = "prack"
        rack: Header = ("rack", f"{rseq} {response.cseq} INVITE")
        prack = dialog_request(self.phone, dialog, "PRACK", [rack])
        reply = await self.exchange(prack, read_at=response.at)
        if reply.status >= 300:
            raise refused("prack", reply)
        if self._must_reserve(dialog):
            await self._update(dialog, reply.at)
        self.stage = "invite"

    def _must_reserve(self, dialog: Dialog) -> bool:
        """Whether an UPDATE with our reservation is due on this dialog: once, with preconditions."""
        remote = self.remote_sdp
        if self._reserved or not self.plan.settings.preconditions or dialog is not self.dialog:
            return False
        return remote is not None and any(media.qos is not None for media in remote.media)

    async def _update(self, dialog: Dialog, read_at: float) -> None:
        """Offer 2: reserved at our access (RFC 3312 §5.1, RFC 3311); here it takes no time."""
        assert self.local_sdp is not None
        self.stage = "update"
        self._reserved = True
        assert self.remote_sdp is not None
        qos = Qos(curr_local="sendrecv", des_remote="mandatory sendrecv")
        self.local_sdp = with_status(narrowed(self.local_sdp, self.remote_sdp), qos)
        headers: list[Header] = [("require", "precondition"), ("supported", "100rel"), SDP_TYPE]
        if self.phone.sas is not None:
            headers[0] = ("require", "sec-agree, precondition")
        request = dialog_request(
            self.phone, dialog, "UPDATE", headers, serialize_sdp(self.local_sdp)
        )
        if self.phone.sas is not None:
            # One Require line for both, as one list (RFC 3261 §7.3.1).
            request.headers = [h for h in request.headers if h != ("require", "sec-agree")]
        reply = await self.exchange(request, read_at=read_at)
        if reply.status >= 300:
            raise refused("update", reply)
        self.take_answer(reply)

    async def _on_answer(self, response: Response) -> bool:
        """A 2xx: ACK it. True if the call stands; False if it is ended at once (a CANCEL crossed)."""
        outcome = self.outcome
        dialog = self.dialog_of(response)
        if dialog is None:
            raise Failed("invite", "no To tag", "2xx without a To tag", response.at)
        dialog.confirmed = True
        if target := target_of(response):
            dialog.target, dialog.target_told = target, True
        if not dialog.target_told:  # RFC 3261 §12.1.1: a 2xx has a Contact
            outcome.wrong = outcome.wrong or f"no Contact by the {response.status}"
        self.dialog = dialog
        if outcome.setup_at != outcome.setup_at:
            outcome.setup_at = response.at
        outcome.answered_at = response.at
        outcome.status = response.status
        if response.body:
            self.take_answer(response)
        elif self.remote_sdp is None:  # RFC 3261 §13.2.1: by now there must be an answer
            outcome.wrong = outcome.wrong or f"no SDP answer by the {response.status}"
        await self.acknowledge(dialog, self.invite.cseq)
        self.invite_pending = False
        if not self._cancel_sent:
            return True
        self.count("cancel_crossed_answer")  # RFC 3261 §9.1: then it is ended by a BYE
        try:
            await self.release()
        except (Failed, FlowError) as problem:
            self.count("abandoned_without_answer")
            outcome.ended_at = problem.at
        raise CancelCrossed(
            "invite", "answered", "answered while it was being cancelled", response.at
        )

    def _on_refusal(self, response: Response) -> None:
        """A final response of 300 or more ends the attempt (TS 32.409 SC.FailSession)."""
        outcome = self.outcome
        outcome.status = response.status
        outcome.ended_at = response.at
        if response.status in _WANTED_STATUS.get(self.plan.expected, ()):
            raise Failed("", "", f"{response.status} {response.reason}", response.at)
        raise refused(self.stage, response)

    async def _cancel(self) -> None:
        """Give up ringing (RFC 3261 §9.1); the 487, or a 2xx that crosses it, ends the attempt."""
        self._cancel_sent = True
        self._give_up_at = self.now + self.plan.settings.transaction_timeout_s
        await self.send(cancel_request(self.invite))

    async def abandon(self) -> None:
        """Leave nothing behind a failure: CANCEL what is not answered, BYE what is (RFC 3261 §9, §15)."""
        outcome = self.outcome
        try:
            if outcome.answered:
                if self.stage != "bye":
                    await Leg.hang_up(self)
            elif not outcome.status and self.dialogs:
                await self._await_end_of_invite()
        except (FlowError, Released):
            self.count("abandoned_without_answer")

    async def _await_end_of_invite(self) -> None:
        """CANCEL, and its INVITE's final response; a 2xx that crosses is ended by a BYE."""
        if not self._cancel_sent:
            await self._cancel()
        until = self.now + self.plan.settings.transaction_timeout_s
        while self.now < until:
            event = await self.next_event(until - self.now)
            if isinstance(event, Incoming):
                await self.on_request(event)
            elif isinstance(event, Ended):
                raise event.error
            elif event is not None and event.method == "INVITE" and event.status >= 200:
                if event.status < 300 and (dialog := self.dialog_of(event)) is not None:
                    self.dialog = dialog
                    await self.acknowledge(dialog, self.invite.cseq)
                    await Leg.hang_up(self)
                return


def _rseq_of(response: Response) -> int:
    """RSeq of a reliable provisional response (RFC 3262 §7.1); 0 if it is not reliable."""
    required = {value.lower() for value in response.values("require")}
    text = response.get("rseq") or ""
    if "100rel" not in required or not text.isascii() or not text.isdigit() or len(text) > 10:
        return 0
    return int(text)
