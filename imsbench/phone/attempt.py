"""One attempt: how its messages, times and failures get into its Outcome."""

from __future__ import annotations

from collections.abc import Coroutine
from math import nan
from typing import Any

from imsbench.outcome import LadderLine, Outcome
from imsbench.phone.actions import Action, Channel, Exchange, FlowError
from imsbench.protocol.sip import Request, Response


class Rejected(Exception):
    """The procedure ended without success, for a reason that is not a transport's."""

    def __init__(self, cause: str, detail: str = "", at: float = nan, status: int = 0) -> None:
        super().__init__(cause, detail)
        self.cause = cause
        self.detail = detail
        self.at = at
        self.status = status
        self.retry_after_s = 0.0


async def attempt(flow: Coroutine[Action, Any, None], outcome: Outcome) -> None:
    """Run a flow and write how it ended into its Outcome (causes of TS 32.409's failure counters)."""
    try:
        await flow
    except Rejected as problem:
        outcome.stage = outcome.stage or "start"  # nothing was sent yet
        outcome.cause = problem.cause
        outcome.detail = problem.detail
        outcome.ended_at = problem.at
        outcome.status = problem.status
        outcome.retry_after_s = problem.retry_after_s
    except FlowError as problem:
        outcome.cause = problem.cause
        outcome.detail = problem.detail
        outcome.ended_at = problem.at
        outcome.ladder.append(LadderLine(problem.at, "--", f"{problem.cause}: {problem.detail}"))
    else:
        outcome.stage = ""


async def exchange(
    outcome: Outcome, stage: str, request: Request, channel: Channel, timeout_s: float
) -> Response:
    """One request and its final response (RFC 3261 §17.1), with its times in the Outcome."""
    outcome.stage = stage
    action = Exchange(request, channel, timeout_s)
    try:
        reply = await action
    except FlowError:
        _note_sent(outcome, action)
        if action.sent_at != action.sent_at:  # NaN: it never left
            outcome.stage = "connect"
        raise
    _note_sent(outcome, action)
    text = f"{reply.status} {reply.reason}"
    outcome.ladder.append(LadderLine(reply.at, "<-", text, channel.protected))
    outcome.status = reply.status
    if outcome.responded_at != outcome.responded_at:  # NaN: it is the first
        outcome.responded_at = reply.at
    outcome.ended_at = reply.at
    return reply


def _note_sent(outcome: Outcome, action: Exchange) -> None:
    request, sent_at = action.request, action.sent_at
    if outcome.started_at != outcome.started_at:
        outcome.started_at = action.started_at
        outcome.sent_at = sent_at
    elif outcome.ended_at == outcome.ended_at and sent_at == sent_at:
        # From the last response read to the request it led to: our own share. The handshake of a
        # connection in between is the network's, so it counts to the moment the phone acted.
        outcome.phone_s += action.started_at - outcome.ended_at
    if sent_at == sent_at:
        text = f"{request.method} {request.uri}"
        outcome.ladder.append(LadderLine(sent_at, "->", text, action.channel.protected))


def rejected(reply: Response) -> Rejected:
    """The failure that a final response is, with what it says of itself (RFC 3261 §20.43, RFC 3326)."""
    said = [f"{reply.status} {reply.reason}"]
    said += [f"{name}: {value}" for name, value in reply.headers if name in ("reason", "warning")]
    problem = Rejected(str(reply.status), "; ".join(said), reply.at, reply.status)
    retry_after = (reply.get("retry-after") or "").split(";")[0].split("(")[0].strip()
    if retry_after.isascii() and retry_after.isdigit():
        problem.retry_after_s = float(retry_after[:9])
    return problem
