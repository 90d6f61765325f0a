"""One side of a call while it lasts: what both sides do alike.

A leg has its flow's mailbox to itself. While it waits for the response to one of its own requests,
requests from the far side are answered as they come (else two BYEs that cross would wait for each
other), and everything else is put aside for later.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from math import nan

from imsbench.distribution import Distribution
from imsbench.outcome import Expected, LadderLine
from imsbench.phone.actions import (
    Channel,
    Ended,
    Event,
    Incoming,
    Next,
    Send,
    Timeout,
    TransportError,
)
from imsbench.phone.dialog import (
    Dialog,
    dialog_request,
    session_timer_of,
    target_of,
)
from imsbench.phone.endings import Released, warning
from imsbench.phone.messages import access_network, contact
from imsbench.phone.phone import Phone
from imsbench.protocol.sdp import Sdp, SdpError, answer_within, fits, parse_sdp, serialize_sdp
from imsbench.protocol.sip import Header, Request, Response, response_to

_OTHER_METHODS = frozenset(("MESSAGE", "NOTIFY", "PUBLISH", "REFER", "REGISTER", "SUBSCRIBE"))
"""Requests refused in a call that are counted by name; all other names are the network's, without end."""
SDP_TYPE: Header = ("content-type", "application/sdp")


@dataclass(frozen=True, slots=True)
class CallSettings:
    """How the calls of a step are made; the same for all of them."""

    preconditions: bool = True
    """Whether both phones reserve resources before the called one rings (RFC 3312, IR.92)."""
    reliable_ringing: bool = False
    """Whether the 180 is sent reliably (RFC 3262)."""
    ringing: bool = True
    """Whether there is a 180 at all; False: answered early."""
    request_uri: str = "sip"
    """"sip": sip:+MSISDN@domain;user=phone; "tel": tel:+MSISDN."""
    session_expires_s: int = 0
    """Session-Expires asked for, refreshed by UPDATE at half of it (RFC 4028); 0: no timer."""
    hold_resume: bool = False
    """Whether the caller holds and resumes the call once, by re-INVITE."""
    media_port: int = 50_000
    """Even port named in SDP; no media is sent."""
    no_answer_s: float = 180.0
    """From the first provisional response until the caller gives up (TS 24.229: Timer C of a proxy)."""
    transaction_timeout_s: float = 32.0
    """For each request of the call (RFC 3261 Timers B and F)."""
    t1_s: float = 0.5
    """T1: 64 of it end the repetition of a 2xx or reliable 1xx."""
    hold: Distribution = field(default_factory=lambda: Distribution("constant", 90.0))
    """From the ACK to the BYE."""
    ring: Distribution = field(default_factory=Distribution)
    """From the 180 to the 2xx."""


@dataclass(slots=True)
class CallPlan:
    """What one call is meant to be: drawn by the load, known to both of its phones."""

    settings: CallSettings
    """Common to the step's calls."""
    hold_s: float = 90.0
    """From the ACK to the BYE, seconds."""
    ring_s: float = 0.0
    """From the 180 to the 2xx, seconds."""
    bye_by_callee: bool = False
    """Whether the called phone ends the call."""
    expected: Expected = "answered"
    """How it is meant to end."""
    cancel_after_s: float = 5.0
    """Where it is to be cancelled: seconds of ringing."""
    caller_impu: str = ""
    """Who must be shown as the caller; empty: not checked."""
    offer: Sdp | None = None
    """What the caller offered, for the called phone to compare; None: not checked."""
    answer: Sdp | None = None
    """What the called phone answered last, for the caller to compare; None: not checked."""


class Leg:
    """One side of one call."""

    def __init__(self, phone: Phone, plan: CallPlan, ladder: list[LadderLine]) -> None:
        self.phone = phone
        self.plan = plan
        self.ladder = ladder
        self.events: dict[str, int] = {}
        """Crossings, repetitions and the like, by name."""
        self.dialog: Dialog | None = None
        """The dialog in use."""
        self.local_sdp: Sdp | None = None
        """The last description this side gave."""
        self.remote_sdp: Sdp | None = None
        """The last one the far side gave."""
        self.bye_sent_at = nan
        """First byte of our BYE handed to the kernel, seconds; NaN until it is answered."""
        self.phone_s = 0.0
        """Time between a message read and the one it led to, seconds."""
        self.cancelled: Incoming | None = None
        """The CANCEL, once it has come."""
        self.invite_pending = False
        """Whether an INVITE of our own is under way (RFC 3261 §14.1: glare)."""
        self.invite_unacknowledged = False
        """Whether an INVITE of the far side's has no final response yet, or no ACK to it."""
        self.offer_pending = False
        """Whether the offer of a 2xx of ours waits for its answer, in the ACK."""
        self._refused_invites: set[int] = set()
        self.now = 0.0
        """Time of the last thing that happened here, seconds: a flow reads no clock."""
        self._later: deque[Event] = deque()

    @property
    def channel(self) -> Channel:
        """Where this side's requests go; TransportError if the phone's registration has gone."""
        try:
            return self.phone.signalling
        except TransportError as lost:
            lost.at = self.now
            raise

    def count(self, what: str) -> None:
        """One more event of this name."""
        self.events[what] = self.events.get(what, 0) + 1

    async def send(self, request: Request) -> Send:
        """Send a request; its responses come as events."""
        channel = self.channel
        protected = channel.protected
        action = Send(request, channel, timeout_s=self.plan.settings.transaction_timeout_s)
        await action
        self.now = action.started_at
        text = f"{request.method} {request.uri}"
        self._note(action, text, protected)
        return action

    async def reply(
        self,
        incoming: Incoming,
        status: int,
        reason: str,
        *,
        to_tag: str = "",
        headers: list[Header] | None = None,
        body: bytes = b"",
        repeat: bool = False,
    ) -> Send:
        """Answer a request; with ``repeat`` again and again until it is settled."""
        headers = headers or []
        if status > 100 and incoming.request.method != "CANCEL":
            headers = headers + access_network(self.phone)
        response = response_to(
            incoming.request, status, reason, to_tag=to_tag, headers=headers, body=body
        )
        repeat_s = 64 * self.plan.settings.t1_s if repeat else 0.0
        action = Send(response, incoming, repeat_s=repeat_s)
        await action
        self.now = action.started_at
        self._note(action, f"{status} {reason} ({incoming.request.method})", incoming.protected)
        return action

    async def next_event(self, timeout_s: float | None = None) -> Event | None:
        """The next event: what was put aside first; None when the time is up."""
        if self._later:
            aside = self._later.popleft()
            self.now = max(self.now, aside.error.at if isinstance(aside, Ended) else aside.at)
            return aside  # it is in the ladder already
        event = await Next(timeout_s)
        if event is None:
            self.now += timeout_s or 0.0
            return None
        self.now = event.error.at if isinstance(event, Ended) else max(self.now, event.at)
        if isinstance(event, Response):
            text = f"{event.status} {event.reason} ({event.method})"
            protected = self.phone.network.settings.ipsec
            self.ladder.append(LadderLine(event.at, "<-", text, protected))
        elif isinstance(event, Incoming):
            text = f"{event.request.method} {event.request.uri}"
            self.ladder.append(LadderLine(event.at, "<-", text, event.protected))
        return event

    async def exchange(self, request: Request, read_at: float = 0.0) -> Response:
        """A request inside the dialog and its final response; FlowError if there is none.

        ``read_at``: when the message that led to it was read; the difference is phone time.
        """
        action = await self.send(request)
        if read_at:
            self.phone_s += action.started_at - read_at
        # RFC 3261 §17.1.1.2: a provisional response ends Timer B, and then nothing ends a re-INVITE
        # but its sender's patience. Other requests keep Timer F.
        invite = request.method == "INVITE"
        give_up_at = self.now + action.timeout_s if invite else None
        aside: list[Event] = []
        try:
            while True:
                event = await self.next_event(self._left_s(give_up_at))
                if event is None:
                    what = f"no final response to the {request.method} in {action.timeout_s:g} s"
                    raise Timeout("timeout", what, self.now)
                if isinstance(event, Response) and event.branch == request.branch:
                    if event.status >= 200:
                        return event
                elif isinstance(event, Ended) and event.send is action:
                    raise event.error
                elif isinstance(event, Incoming):
                    await self.on_request(event)
                else:
                    aside.append(event)
        finally:
            self._later.extendleft(reversed(aside))

    def _left_s(self, until: float | None) -> float | None:
        """Seconds until a point in time; None: no limit."""
        return None if until is None else max(0.0, until - self.now)

    async def on_request(self, incoming: Incoming) -> None:
        """Answer a request of the dialog that needs no decision; Released if it ends the call."""
        request = incoming.request
        dialog = self.dialog
        if request.method == "ACK":
            if request.cseq not in self._refused_invites:
                self.count("ack_out_of_turn")
            return
        if request.method == "CANCEL":
            await self.reply(incoming, 200, "OK")
            if self.cancelled is None:
                self.cancelled = incoming
            return
        if dialog is not None and request.cseq <= dialog.remote_cseq:
            self.count("request_out_of_order")  # RFC 3261 §12.2.2
            await self.reply(incoming, 500, "Server Internal Error")
            return
        if dialog is not None:
            dialog.remote_cseq = request.cseq
        match request.method:
            case "BYE":
                await self.reply(incoming, 200, "OK")
                raise Released(incoming.at, request.values("reason"))
            case "UPDATE":
                await self.on_update(incoming)
            case "INVITE":
                await self._on_reinvite(incoming)
            case "PRACK":
                await self.reply(incoming, 200, "OK")
            case "INFO" | "OPTIONS":
                await self.reply(incoming, 200, "OK")
            case _:
                named = request.method if request.method in _OTHER_METHODS else "request"
                self.count(f"unexpected_{named.lower()}")
                await self.reply(incoming, 405, "Method Not Allowed")

    async def on_update(self, incoming: Incoming) -> None:
        """An UPDATE: session refresh, or a new offer (RFC 3311 §5.2)."""
        if self.offer_pending and incoming.request.body:
            await self._refuse_glare(incoming)
            return
        self._retarget(incoming.request)
        await self._answer_offer(incoming)

    async def _on_reinvite(self, incoming: Incoming) -> None:
        if self.invite_pending:
            await self._refuse_glare(incoming)
            return
        if self.invite_unacknowledged:
            await self._refuse_too_early(incoming)
            return
        self._retarget(incoming.request)
        action = await self._answer_offer(incoming, repeat=True)
        self.offer_pending = not incoming.request.body
        ack = await self.await_ack(action, incoming.request.cseq)
        self.offer_pending = False
        if ack is None:
            # A failure response leaves the session as it was (RFC 3261 §14.1), acknowledged or not.
            self.count("ack_missing")
            return
        if not incoming.request.body and self.local_sdp is not None:
            self.take_answer_of_ack(ack)

    async def _answer_offer(self, incoming: Incoming, *, repeat: bool = False) -> Send:
        """200 with the answer to its offer; to a re-INVITE without one, with an offer (RFC 3261 §14.2)."""
        request = incoming.request
        # RFC 3261 §12.1.1, RFC 3311 §5.2: both tell where this side is.
        headers = [("contact", contact(self.phone, self.phone.subscriber.imsi))]
        headers += session_timer_of(request)
        if headers[-1][1].endswith("refresher=uas"):
            self.count("refresh_owed")  # only a plan's own session timer is kept by this phone
        if not request.body and request.method != "INVITE":
            return await self.reply(incoming, 200, "OK", headers=headers, repeat=repeat)
        if self.local_sdp is None:
            return await self._refuse_too_early(incoming)
        sdp = self.local_sdp  # to no offer: the same again keeps its version (RFC 3264 §8)
        if request.body:
            try:
                offer = parse_sdp(request.body)
                sdp = self.answer_to(self.local_sdp, offer)
            except SdpError as problem:
                self.count("bad_sdp")
                why = [warning(str(problem))]
                return await self.reply(incoming, 488, "Not Acceptable Here", headers=why)
            self.local_sdp, self.remote_sdp = sdp, offer
        headers.append(SDP_TYPE)
        body = serialize_sdp(sdp)
        return await self.reply(incoming, 200, "OK", headers=headers, body=body, repeat=repeat)

    async def _refuse_glare(self, incoming: Incoming) -> None:
        """491 to an offer while one of ours is not answered (RFC 3261 §14.2, RFC 3311 §5.2)."""
        self.count("glare")
        self._refused_invites.add(incoming.request.cseq)
        await self.reply(incoming, 491, "Request Pending")

    async def _refuse_too_early(self, incoming: Incoming) -> Send:
        """500 to an offer before the INVITE before it is over (RFC 3261 §14.2, RFC 3311 §5.2)."""
        self.count("offer_too_early")
        self._refused_invites.add(incoming.request.cseq)
        wait = ("retry-after", str(self.phone.network.random.randrange(11)))
        return await self.reply(incoming, 500, "Server Internal Error", headers=[wait])

    def answer_to(self, local: Sdp, offer: Sdp) -> Sdp:
        """This side's next description, as the answer to an offer within the call (RFC 3264 §8)."""
        return answer_within(local, offer, self.plan.settings.media_port)

    def take_answer_of_ack(self, ack: Incoming) -> str:
        """The answer to the offer in our 2xx (RFC 3261 §13.2.2.4); why it is none, or ""."""
        assert self.local_sdp is not None
        try:
            answer = parse_sdp(ack.request.body)
        except SdpError as problem:
            self.count("bad_sdp")
            return str(problem)
        self.remote_sdp = answer
        return fits(self.local_sdp, answer)

    async def await_ack(self, action: Send, cseq: int) -> Incoming | None:
        """The ACK to a final response of ours, for 64*T1.

        If it never comes: FlowError after a 2xx (RFC 3261 §13.3.1.4), else None (§17.2.1 Timer H).
        """
        self.invite_unacknowledged = True
        timer_h_at = None if action.repeat_s else self.now + 64 * self.plan.settings.t1_s
        aside: list[Event] = []
        try:
            while True:
                event = await self.next_event(self._left_s(timer_h_at))
                if event is None:
                    self.invite_unacknowledged = False
                    return None
                if isinstance(event, Incoming) and event.request.method == "ACK":
                    if event.request.cseq == cseq:
                        action.settled = True
                        self.invite_unacknowledged = False
                        return event
                    self.count("ack_out_of_turn")
                elif isinstance(event, Ended) and event.send is action:
                    raise event.error
                elif isinstance(event, Incoming):
                    await self.on_request(event)
                else:
                    aside.append(event)
        except Released:
            action.settled = True  # not by any BYE: one out of order is refused, and ends nothing
            raise
        finally:
            self._later.extendleft(reversed(aside))

    async def hang_up(self) -> Response:
        """BYE and its final response; a BYE that crosses ours is answered too (RFC 3261 §15)."""
        self.bye_sent_at = nan
        assert self.dialog is not None
        request = dialog_request(self.phone, self.dialog, "BYE")
        action = await self.send(request)
        while True:
            event = await self.next_event()
            if isinstance(event, Response) and event.branch == request.branch:
                if event.status >= 200:
                    self.bye_sent_at = action.sent_at  # by now it has left, whatever it waited for
                    return event
            elif isinstance(event, Ended) and event.send is action:
                raise event.error
            elif isinstance(event, Incoming):
                try:
                    await self.on_request(event)
                except Released:
                    self.count("bye_crossing")

    async def acknowledge(self, dialog: Dialog, cseq: int) -> None:
        """The ACK to a 2xx: a request of its own, with the INVITE's CSeq (RFC 3261 §13.2.2.4)."""
        request = dialog_request(self.phone, dialog, "ACK")
        request.cseq = cseq
        request.headers = [
            (name, f"{cseq} ACK" if name == "cseq" else value) for name, value in request.headers
        ]
        await self.send(request)

    def _retarget(self, request: Request) -> None:
        target = target_of(request)
        if target and self.dialog is not None:
            self.dialog.target = target  # RFC 3261 §12.2.2

    def _note(self, action: Send, text: str, protected: bool) -> None:
        sent_at = action.sent_at
        if sent_at != sent_at:  # NaN: it waits for its connection
            sent_at = action.started_at
        self.ladder.append(LadderLine(sent_at, "->", text, protected))
