"""Answering a challenge: AKA, the security agreement, and the REGISTER that carries the answer.

TS 24.229 §5.1.1.5, TS 33.203 §6.1 and §7.2, RFC 3310. A 401 is no failure but a part of the
attempt, as are one resynchronisation and one 423.
"""

from __future__ import annotations

from imsbench.outcome import LadderLine, Outcome
from imsbench.phone.actions import Close, Protect, Timeout, Unprotect
from imsbench.phone.attempt import Rejected, exchange
from imsbench.phone.messages import register_request
from imsbench.phone.phone import Phone, Registration
from imsbench.protocol.aka import (
    AkaResult,
    MacFailure,
    Milenage,
    SqnWindow,
    SyncFailure,
    run_aka,
    split_nonce,
)
from imsbench.protocol.digest import (
    Challenge,
    answer_authorization,
    auts_authorization,
    mac_failure_authorization,
    parse_challenge,
)
from imsbench.protocol.secagree import (
    Mechanism,
    SaSet,
    SecurityAgreementError,
    choose,
    parse_security,
    sa_set,
)
from imsbench.protocol.sip import Response
from imsbench.subscriber import Subscriber


class RegisterAttempt:
    """The state of one REGISTER dialogue while it runs: what a flow's locals would hold."""

    __slots__ = (
        "channel", "client", "deadline", "expires_s", "outcome", "phone", "registration", "sas",
        "subscriber", "verify",
    )  # fmt: skip

    def __init__(
        self, phone: Phone, outcome: Outcome, registration: Registration, expires_s: int
    ) -> None:
        self.phone = phone
        self.subscriber = phone.subscriber
        self.outcome = outcome
        self.registration = registration
        self.expires_s = expires_s
        self.client: list[Mechanism] = phone.offer() if phone.network.settings.ipsec else []
        """Security-Client of the REGISTER under way."""
        self.verify: tuple[str, ...] = registration.security_verify
        """Security-Verify of the REGISTER under way."""
        self.channel = phone.clear or phone.signalling
        """Where the next REGISTER goes."""
        self.sas: SaSet | None = None
        """A new SA set, installed and not yet confirmed by a 200."""
        self.deadline = 0.0
        """When the whole attempt has to be over, seconds; set by its first response."""

    async def send(self, stage: str, authorization: str) -> Response:
        """One REGISTER and its final response, within what is left of the attempt's time."""
        phone = self.phone
        request = register_request(
            phone,
            self.subscriber,
            self.registration,
            authorization,
            self.expires_s,
            self.client,
            self.verify,
        )
        limit_s = phone.network.settings.registration_timeout_s
        if self.deadline:
            limit_s = max(0.001, self.deadline - self.outcome.ended_at)
        reply = await exchange(self.outcome, stage, request, self.channel, limit_s)
        if not self.deadline:
            self.deadline = self.outcome.started_at + phone.network.settings.registration_timeout_s
        return reply


async def answer_challenges(work: RegisterAttempt, reply: Response, authorization: str) -> Response:
    """Answer 401 and 423 until there is another final response (TS 24.229 §5.1.1.5.1)."""
    outcome = work.outcome
    shortened = False
    while True:
        if reply.status == 401:
            network = work.phone.network
            most = network.settings.max_challenges
            if outcome.challenges == most:
                raise Rejected("too many challenges", f"{most} were answered", reply.at, 401)
            outcome.challenges += 1
            if outcome.stage == "answer":
                # Some S-CSCFs challenge before they have stored the vector, and so once more.
                network.events["repeated_challenges"] += 1
            outcome.stage = "aka"
            reply, authorization = await _answer_challenge(work, reply)
        elif reply.status == 423 and not shortened and work.expires_s:
            # RFC 3261 §10.2.8: once, with the expiry that the registrar asks for.
            shortened = True
            work.expires_s = _min_expires(reply)
            reply = await work.send(outcome.stage, authorization)
        else:
            return reply


async def _answer_challenge(work: RegisterAttempt, reply: Response) -> tuple[Response, str]:
    """Run AKA on a 401 and send the REGISTER that answers it (RFC 3310 §3.3, TS 33.203 §6.1)."""
    phone, outcome = work.phone, work.outcome
    subscriber = work.subscriber
    uri = f"sip:{subscriber.domain}"
    cnonce = phone.network.identifier()
    try:
        challenge = parse_challenge(reply.get_all("www-authenticate"))
        rand, autn = split_nonce(challenge.nonce)
        result = _run_aka(phone, subscriber, rand, autn)
        authorization = answer_authorization(
            challenge, subscriber.impi, uri, "REGISTER", result.res, cnonce=cnonce
        )
    except ValueError as problem:
        raise Rejected("bad challenge", str(problem), reply.at, 401) from problem
    except MacFailure as problem:
        await _refuse_network(work, challenge, subscriber.impi, uri)
        raise Rejected(
            "mac failure",
            "AUTN is not from a network that knows this K and OP/OPc (or its AMF differs)",
            outcome.ended_at,
            outcome.status,
        ) from problem
    except SyncFailure as problem:
        if outcome.resynchronisations:
            raise Rejected(
                "sync failure", "SQN still out of range after one AUTS", reply.at, 401
            ) from problem
        outcome.resynchronisations = 1
        if work.client:
            work.client = phone.offer()  # TS 24.229 §5.1.1.5.3: new SPIs and port_uc
        authorization = auts_authorization(
            challenge, subscriber.impi, uri, "REGISTER", problem.auts, cnonce=cnonce
        )
        return await work.send("resynchronisation", authorization), authorization
    if work.client:
        await _agree(work, reply, result)
    work.registration.realm = challenge.realm
    work.registration.nonce = challenge.nonce
    work.registration.response = authorization.partition(',response="')[2].partition('"')[0]
    return await work.send("answer", authorization), authorization


def _run_aka(phone: Phone, subscriber: Subscriber, rand: bytes, autn: bytes) -> AkaResult:
    if phone.window is None:
        phone.window = SqnWindow()
    milenage = Milenage(subscriber.k, opc=subscriber.opc, op=subscriber.op)
    return run_aka(milenage, rand, autn, phone.window)


async def _refuse_network(work: RegisterAttempt, challenge: Challenge, impi: str, uri: str) -> None:
    """MAC failure: REGISTER with an empty response, so that the network knows (TS 24.229 §5.1.1.5.3)."""
    try:
        await work.send("mac failure", mac_failure_authorization(challenge, impi, uri))
    except Timeout:
        work.outcome.ladder.append(
            LadderLine(work.outcome.ended_at, "--", "the network did not answer the refusal")
        )
    work.outcome.stage = "aka"


async def _agree(work: RegisterAttempt, reply: Response, keys: AkaResult) -> None:
    """From Security-Server to four SAs, and onto the new channel (TS 33.203 §7.2, §7.3)."""
    phone, outcome = work.phone, work.outcome
    values = reply.get_all("security-server")
    if not values:
        if work.sas is not None:
            return  # a second challenge within the agreement that stands
        raise Rejected("no Security-Server", "the 401 offers no security agreement", reply.at, 401)
    try:
        offered = parse_security(values)
        server = choose(offered, work.client)
    except SecurityAgreementError as problem:
        raise Rejected("bad Security-Server", str(problem), reply.at, 401) from problem
    if any(one.q < 0 for one in offered):
        phone.network.events["security_server_without_q"] += 1
    client = next(m for m in work.client if (m.alg, m.ealg) == (server.alg, server.ealg))
    settings = phone.network.settings
    sas = sa_set(phone.address, settings.pcscf_address, client, server, keys.ck, keys.ik)
    outcome.stage = "sa"
    if work.sas is not None:
        # The same offer agreed upon anew, with other keys: its SPIs are ours, so the first set goes.
        await Close(work.channel, 0.0)
        await Unprotect(work.sas)
    await Protect(sas)
    text = f"SAs {sas.alg}/{sas.ealg}, port_uc {sas.port_uc} -> port_ps {sas.port_ps}"
    outcome.ladder.append(LadderLine(reply.at, "--", text))
    work.sas, work.verify = sas, tuple(values)
    work.channel = phone.protected_channel(sas)
    if phone.registration is None:
        phone.sas, phone.client = sas, work.channel
    else:
        # Until its 200 only the REGISTER goes there (TS 24.229 §5.1.1.5.1): calls stay where they are.
        phone.newer = sas, work.channel


def _min_expires(reply: Response) -> int:
    text = (reply.get("min-expires") or "").strip()
    if not text.isascii() or not text.isdigit() or len(text) > 10:
        raise Rejected("423", "423 without a Min-Expires", reply.at, 423)
    return int(text)
