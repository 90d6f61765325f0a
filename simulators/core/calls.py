"""What the P-CSCF keeps of a call: its two legs, and what a BYE of its own needs (RFC 3261 §12)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from imsbench.protocol.address import parse_name_addr
from imsbench.protocol.sip import Header, Message, Request
from simulators.core.relay import DIALOG_HOPS

if TYPE_CHECKING:
    import asyncio

    from simulators.core.phones import Phone
    from simulators.core.proxy import Transaction

State = Literal["setting up", "answered", "ended"]
Side = Literal["caller", "callee"]


@dataclass(slots=True)
class Leg:
    """One phone's side of a call."""

    side: Side
    """Which of the two it is."""
    phone: Phone
    """Who."""
    targets: list[str] = field(default_factory=list)
    """Contact URIs that it gave, the newest last: requests to it are addressed to one of them."""
    cseq: int = 0
    """CSeq of its last request: a BYE in its name counts on."""
    rx_session: str = ""
    """Session-Id of its AF session; empty: none."""
    answered: bool = False
    """Whether the final 2xx of the INVITE passed here: sent by the callee, sent to the caller."""


@dataclass(slots=True)
class Negotiated:
    """An SDP offer and its answer (RFC 3264)."""

    offerer: Leg
    offer: bytes
    answer: bytes


@dataclass(slots=True, eq=False)
class Call:
    """One INVITE's call, from its arrival until both sides have left it."""

    call_id: str
    caller_tag: str
    invite: Transaction
    caller: Leg
    callee: Leg | None = None
    """None until the called phone is found."""
    state: State = "setting up"
    local: str = ""
    """From of the INVITE: the caller, as a header value with its tag."""
    remote: str = ""
    """To of the last response that made a dialog: the callee, with its tag."""
    asserted: list[Header] = field(default_factory=list)
    """P-Asserted-Identity of the called user, for the responses to the INVITE."""
    open: set[Transaction] = field(default_factory=set)
    """Transactions without a final response, the INVITE's among them."""
    setting_up: asyncio.Task[None] | None = None
    """Looking for the called phone."""
    late_offer: bytes = b""
    """The SDP offer of a response to an INVITE without one; ACK or PRACK brings the answer."""
    held: deque[tuple[Negotiated | None, Callable[[], None]]] = field(default_factory=deque)
    """Messages that wait, in order, until the PCRF has answered; with what it is asked for each."""
    asking: asyncio.Task[None] | None = None
    """Asks the PCRF, while messages are held."""
    grace: asyncio.TimerHandle | None = None
    """Runs between the loss of a bearer and the release."""
    early_bye: asyncio.TimerHandle | None = None
    """An injected BYE that waits."""
    loses_bye: bool = False
    """Whether its BYEs are lost, as injected."""

    def leg_of(self, tag: str) -> Leg | None:
        """The leg whose requests have this From tag: the caller's own, or any of the callee's."""
        return self.caller if tag == self.caller_tag else self.callee

    def other(self, leg: Leg) -> Leg | None:
        """The other leg."""
        return self.callee if leg is self.caller else self.caller

    def legs(self) -> list[Leg]:
        """Those there are, the called one first: it is nearer to the end."""
        return [self.caller] if self.callee is None else [self.callee, self.caller]


def learn_target(leg: Leg, message: Message) -> None:
    """Its Contact is where requests to this leg go from now on (RFC 3261 §12.2.1.2)."""
    value = message.get("contact")
    if value is None:
        return
    uri = parse_name_addr(value).uri
    if uri not in leg.targets:
        leg.targets.append(uri)
    elif leg.targets[-1] != uri:
        leg.targets.remove(uri)
        leg.targets.append(uri)


def own_request(call: Call, leg: Leg, method: str, headers: list[Header]) -> Request:
    """A request to this leg in the name of the other one (TS 24.229 §5.2.8.1.2)."""
    other = call.other(leg)
    assert other is not None
    sender, receiver = call.local, call.remote
    if leg is call.caller:
        sender, receiver = receiver, sender
    cseq = call.invite.request.cseq
    if method != "ACK":
        other.cseq = cseq = other.cseq + 1
    return Request(
        method,
        leg.targets[-1] if leg.targets else receiver,
        [
            ("max-forwards", str(70 - DIALOG_HOPS)),
            ("from", sender),
            ("to", receiver),
            ("call-id", call.call_id),
            ("cseq", f"{cseq} {method}"),
            *headers,
        ],
        call_id=call.call_id,
        cseq=cseq,
    )
