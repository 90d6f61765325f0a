"""The called phone (TS 24.229 §5.1.4, IR.92): a voice call answered, refused or cancelled.

It does not ring before its mandatory preconditions are met (RFC 3312 §5.1): 183 with the answer,
PRACK, the caller's UPDATE; then 180, and after ringing the 200, repeated until its ACK.
"""

from __future__ import annotations

from typing import NoReturn

from imsbench.outcome import LadderLine
from imsbench.phone.actions import Ended, FlowError, Incoming, Send
from imsbench.phone.dialog import dialog_of_request, session_timer_of
from imsbench.phone.endings import Failed, Released, refused, warning
from imsbench.phone.leg import SDP_TYPE, CallPlan, Leg
from imsbench.phone.messages import contact
from imsbench.phone.phone import Phone
from imsbench.protocol.address import canonical_or_same, parse_name_addr
from imsbench.protocol.sdp import (
    Sdp,
    SdpError,
    make_answer,
    make_offer,
    parse_sdp,
    same_session,
    serialize_sdp,
)
from imsbench.protocol.sip import Header, Request


class CalleeOutcome:
    """What the called phone saw of a call; joined to the caller's outcome by whoever planned it."""

    __slots__ = ("cause", "detail", "ended_at", "events", "ladder", "reached_at", "stage", "wrong")

    def __init__(self) -> None:
        self.reached_at = float("nan")
        """INVITE read."""
        self.ended_at = float("nan")
        """Over, on this side."""
        self.wrong = ""
        """A failed expectation: caller identity, SDP."""
        self.stage = ""
        """Where it failed; empty: it did not."""
        self.cause = ""
        """Why."""
        self.detail = ""
        """What the far end said of it."""
        self.events: dict[str, int] = {}
        """Crossings and the like, by name."""
        self.ladder: list[LadderLine] = []
        """The messages at this phone."""


async def answer_call(phone: Phone, plan: CallPlan, side: CalleeOutcome) -> None:
    """The called side, from the INVITE to the end of the call (TS 24.229 §5.1.4)."""
    callee = _Callee(phone, plan, side)
    try:
        await callee.set_up()
        await callee.talk()
    except Released as end:
        side.ended_at = end.at
    except Failed as problem:
        side.ended_at = problem.at
        side.stage, side.cause, side.detail = problem.stage, problem.cause, problem.detail
        await callee.abandon()
    except FlowError as problem:
        side.ended_at = problem.at
        side.stage, side.cause, side.detail = callee.stage, problem.cause, problem.detail
        await callee.abandon()
    side.events = callee.events


class _Callee(Leg):
    """The called phone's side of one call."""

    def __init__(self, phone: Phone, plan: CallPlan, side: CalleeOutcome) -> None:
        super().__init__(phone, plan, side.ladder)
        self.side = side
        self.stage = "invite"
        self._tag = phone.network.identifier()
        self._rseq = 0
        self._offer: Sdp | None = None
        self.invite_unacknowledged = True
        self._answered = False

    async def set_up(self) -> None:
        """INVITE to ACK; returns with a confirmed dialog, or raises."""
        incoming = await self.next_event()
        assert isinstance(incoming, Incoming)
        request = incoming.request
        self.side.reached_at = incoming.at
        self.dialog = dialog_of_request(request, self._tag)
        await self.reply(incoming, 100, "Trying")
        if not self.dialog.target:  # RFC 3261 §8.1.1.8: there must be one, for our own requests
            self.side.wrong = "no Contact in the INVITE"
            self.count("no_contact")
            await self._refuse(incoming, 400, "Bad Request", [warning(self.side.wrong)])
        await self._read_offer(incoming)
        self._check(request)
        refusal = {"busy": (486, "Busy Here"), "rejected": (603, "Decline")}.get(self.plan.expected)
        if refusal is not None:
            await self._refuse(incoming, *refusal)
        left = await self._progress(incoming)
        if self.plan.settings.ringing or self.plan.ring_s:
            await self._ring(incoming)
        await self._wait_ringing(incoming)
        body, headers = b"", [("contact", self._contact()), *session_timer_of(request)]
        if left is not None:
            self.local_sdp = left
            body, headers = serialize_sdp(left), [*headers, SDP_TYPE]
        action = await self.reply(
            incoming, 200, "OK", to_tag=self._tag, headers=headers, body=body, repeat=True
        )
        self.stage, self._answered = "ack", True
        self.offer_pending = self._offer is None
        ack = await self.await_ack(action, request.cseq)
        self.offer_pending, self.dialog.confirmed = False, True
        assert ack is not None  # after a 2xx it is a FlowError that ends the wait
        if self._offer is None and (why := self.take_answer_of_ack(ack)):
            self.side.wrong = self.side.wrong or f"SDP of the ACK: {why}"

    async def talk(self) -> None:
        """From the ACK to the end of the call."""
        self.stage = "talk"
        until = self.now + self.plan.hold_s
        if not self.plan.bye_by_callee:
            # The caller's BYE ends the call; one that never comes must not keep the phone busy.
            until += 2 * self.plan.settings.transaction_timeout_s
        while True:
            event = await self.next_event(max(0.0, until - self.now))
            if event is None and not self.plan.bye_by_callee:
                raise Failed("talk", "no bye", "the calling phone did not end the call", self.now)
            if event is None:
                self.stage = "bye"
                reply = await self.hang_up()
                self.side.ended_at = reply.at
                if reply.status >= 300:
                    raise refused("bye", reply)
                return
            if isinstance(event, Incoming):
                await self.on_request(event)

    async def abandon(self) -> None:
        """BYE to what was answered: also where its 2xx was never acknowledged (RFC 3261 §13.3.1.4)."""
        if not self._answered or self.stage == "bye":
            return
        try:
            await self.hang_up()
        except FlowError:
            self.count("abandoned_without_answer")

    def answer_to(self, local: Sdp, offer: Sdp) -> Sdp:
        """As Leg's; the caller is to get it as it is."""
        self.plan.answer = super().answer_to(local, offer)
        return self.plan.answer

    def _contact(self) -> str:
        return contact(self.phone, self.phone.subscriber.imsi)

    async def _read_offer(self, invite: Incoming) -> None:
        """The INVITE's offer, if it has one; what cannot be read is refused (RFC 3261 §13.3.1.3)."""
        if not invite.request.body:
            return
        try:
            self._offer = parse_sdp(invite.request.body)
        except SdpError as problem:
            self.side.wrong = f"SDP of the INVITE: {problem}"
            self.count("bad_sdp")
            await self._refuse(invite, 488, "Not Acceptable Here", [warning(str(problem))])

    def _own_offer(self) -> Sdp:
        """The offer of the 2xx to an INVITE without one (RFC 3261 §13.2.1): nothing to be reserved."""
        session_id = str(1 + self.phone.network.random.getrandbits(31))
        port = self.plan.settings.media_port
        return make_offer(self.phone.address, port, session_id, preconditions=False)

    def _check(self, invite: Request) -> None:
        """Is this the call that was made? Caller identity (TS 24.229 §5.2.6.3), SDP as it was sent."""
        plan, side = self.plan, self.side
        wanted, shown = plan.caller_impu, _asserted(invite)
        sent, offer = plan.offer, self._offer
        if wanted and canonical_or_same(wanted) not in map(canonical_or_same, shown):
            side.wrong = f"caller shown as {', '.join(shown) or 'nobody'}"
        elif sent is not None and (offer is None or not same_session(sent, offer)):
            side.wrong = "the SDP of the INVITE is not what the caller sent"

    async def _progress(self, incoming: Incoming) -> Sdp | None:
        """183 with the answer, PRACK, UPDATE (RFC 3312 §5.1.2); what is left for the 2xx to describe."""
        settings = self.plan.settings
        request = incoming.request
        if self._offer is None:
            return self._own_offer()
        session_id = str(1 + self.phone.network.random.getrandbits(31))
        try:
            answer = self.plan.answer = make_answer(
                self._offer, self.phone.address, settings.media_port, session_id, 1
            )
        except SdpError as problem:
            await self._refuse(incoming, 488, "Not Acceptable Here", [warning(str(problem))])
        supported = _supported(request)
        wanted = any(media.qos is not None for media in self._offer.media)
        if "100rel" not in supported or not (wanted and "precondition" in supported):
            return answer
        self.stage, self.local_sdp = "prack", answer
        await self._reliable(incoming, 183, "Session Progress", serialize_sdp(answer))
        ready = any(m.qos is not None and m.qos.curr_local == "sendrecv" for m in self._offer.media)
        self.stage = "update"
        while not ready:
            ready = await self._await_update(incoming)
        return None

    async def _await_update(self, invite: Incoming) -> bool:
        """The next event before ringing; True once the caller's resources are reserved."""
        event = await self.next_event(self.plan.settings.transaction_timeout_s)
        if event is None:
            await self._refuse(invite, 504, "Server Time-out")
        if isinstance(event, Incoming):
            await self.on_request(event)
            await self._heed_cancel(invite)
            if event.request.method == "UPDATE" and self.remote_sdp is not None:
                streams = [m.qos for m in self.remote_sdp.media if m.qos is not None]
                return all(qos.curr_local == "sendrecv" for qos in streams)
        return False

    async def _ring(self, incoming: Incoming) -> None:
        """180, reliable or not (RFC 3261 §13.3.1.1); not before the preconditions are met.

        Not reliably to who does not support it (RFC 3262 §3), nor without an offer: it would have to be
        in there then (RFC 3262 §5).
        """
        self.stage = "ringing"
        reliable = self._offer is not None and "100rel" in _supported(incoming.request)
        if self.plan.settings.reliable_ringing and reliable:
            await self._reliable(incoming, 180, "Ringing", b"")
        else:
            headers: list[Header] = [("contact", self._contact())]
            await self.reply(incoming, 180, "Ringing", to_tag=self._tag, headers=headers)

    async def _wait_ringing(self, incoming: Incoming) -> None:
        """Ring for the planned time; a CANCEL ends it, a plan to be cancelled waits for that."""
        cancelled = self.plan.expected == "cancelled"
        left_s = self.plan.settings.no_answer_s + 32.0 if cancelled else self.plan.ring_s
        if left_s <= 0:
            await self._heed_cancel(incoming)
            return
        while True:
            event = await self.next_event(left_s)
            if event is None:
                return
            if isinstance(event, Incoming):
                await self.on_request(event)
                await self._heed_cancel(incoming)

    async def _reliable(self, incoming: Incoming, status: int, reason: str, body: bytes) -> None:
        """A reliable 1xx, repeated until its PRACK (RFC 3262 §3); a 5xx if that never comes."""
        self._rseq += 1
        required = "100rel, precondition" if body else "100rel"
        headers: list[Header] = [
            ("contact", self._contact()), ("require", required), ("rseq", str(self._rseq)),
        ]  # fmt: skip
        if body:
            headers.append(SDP_TYPE)
        action = await self.reply(
            incoming, status, reason, to_tag=self._tag, headers=headers, body=body, repeat=True
        )
        wanted = f"{self._rseq} {incoming.request.cseq} INVITE"
        while not action.settled:
            event = await self.next_event()
            if isinstance(event, Ended) and event.send is action:
                await self._refuse(incoming, 504, "Server Time-out")
            if isinstance(event, Incoming):
                await self._on_early(event, action, wanted)
                await self._heed_cancel(incoming, action)

    async def _on_early(self, event: Incoming, action: Send, wanted: str) -> None:
        """A request while a reliable 1xx is unacknowledged."""
        request = event.request
        if request.method == "PRACK":
            if " ".join((request.get("rack") or "").split()) != wanted:
                self.count("prack_for_nothing")  # RFC 3262 §3
                await self.reply(event, 481, "Call/Transaction Does Not Exist")
                return
            action.settled = True
        await self.on_request(event)

    async def _heed_cancel(self, invite: Incoming, action: Send | None = None) -> None:
        """487 if a CANCEL has come (RFC 3261 §9.2)."""
        if self.cancelled is not None:
            if action is not None:
                action.settled = True
            await self._refuse(invite, 487, "Request Terminated")

    async def _refuse(
        self, incoming: Incoming, status: int, reason: str, headers: list[Header] | None = None
    ) -> NoReturn:
        """A final failure response; over when its ACK has come (RFC 3261 §17.2.1)."""
        await self.reply(incoming, status, reason, to_tag=self._tag, headers=headers)
        at = incoming.at
        while True:
            event = await self.next_event(self.plan.settings.transaction_timeout_s)
            if event is None:
                raise Failed("ack", "timeout", f"no ACK to the {status}", at)
            if isinstance(event, Incoming):
                at = event.at
                if event.request.method == "ACK":
                    break
                await self.on_request(event)
        wanted = {"busy": 486, "rejected": 603, "cancelled": 487}.get(self.plan.expected)
        raise Failed("", "" if status == wanted else str(status), reason, at)


def _supported(request: Request) -> set[str]:
    """Option tags that the far side understands (RFC 3261 §20.32, §20.37)."""
    return {tag.lower() for tag in request.values("supported") + request.values("require")}


def _asserted(invite: Request) -> list[str]:
    """Who the network says is calling (RFC 3325 §9.1)."""
    shown = []
    for value in invite.values("p-asserted-identity"):
        try:
            shown.append(parse_name_addr(value).uri)
        except ValueError:
            shown.append(value)
    return shown
