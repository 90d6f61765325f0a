"""Phones in calls, either side, under a hostile network: every call ends, and says how."""

from __future__ import annotations

from collections.abc import Hashable
from math import isnan

from imsbench.kpi.sessions import SessionKpis
from imsbench.outcome import Expected
from imsbench.phone.leg import CallPlan, CallSettings
from imsbench.protocol.sip import Request, Response, serialize_message
from imsbench.protocol.stream import SipReader
from tests.fuzz.harness import BlowUp, Run, Target
from tests.fuzz.targets import sip
from tests.phone.pair import Pair, Side

_EXPECTED: tuple[Expected, ...] = ("answered", "busy", "rejected", "cancelled")
_MOST_NAMES = 60
_GAPS = slice(1, 16)
"""Octets behind the first, which is the call's settings: quarters of a second before each message."""


def _pair(choice: int) -> Pair:
    settings = CallSettings(
        preconditions=bool(choice & 2), reliable_ringing=bool(choice & 4),
        hold_resume=bool(choice & 16), session_expires_s=8 * bool(choice & 32), no_answer_s=20.0,
    )  # fmt: skip
    expected = _EXPECTED[choice >> 6]
    return Pair(CallPlan(settings, 10.0, 1.0, bye_by_callee=bool(choice & 8), expected=expected))


def _read(what: tuple[Side, Request | Response]) -> None:
    """As the engine gives it: a response belongs to a request under way (RFC 3261 §17.1.3)."""
    side, message = what
    if isinstance(message, Response):
        for sent in (action.message for action in side.pending.values()):
            if sent.method == message.method:
                message.branch = sent.branch
    if isinstance(message, Response) or side.flow is not None or message.method == "INVITE":
        side.read(message)


def _calls() -> Run:
    names: set[str] = set()

    def run(data: bytes) -> Hashable:
        choice, gaps = data[0] if data else 0, data[_GAPS] or b"\0"
        pair = _pair(choice)
        pair.hook = lambda _pair, _name, _message: False
        side = pair.callee if choice & 1 else pair.caller
        at = 0.0
        for n, message in enumerate(SipReader().feed(data[_GAPS.stop :])):
            at += gaps[n % len(gaps)] / 4
            if isinstance(message, Request | Response):
                pair.at(at, _read, (side, message))
        (pair.go_on if choice & 1 else pair.run)(5000.0)
        assert side.done or side.flow is None, "it waits for ever"
        if not choice & 1:
            kpis = SessionKpis()
            kpis.record(pair.outcome)
            SessionKpis.from_json(kpis.to_json())
        end = pair.side if choice & 1 else pair.outcome
        assert side.flow is None or not isnan(end.ended_at), end.cause
        names.update(end.events, [] if end.cause.isdigit() else [end.cause])
        if len(names) > _MOST_NAMES:
            raise BlowUp(f"named by the network: {sorted(names)[-3:]}")
        return choice & 1, end.cause, tuple(sorted(end.events))

    return run


def _seeds() -> list[bytes]:
    """All that either phone reads in calls of many kinds."""
    found = []
    for choice in (0, 2, 6, 2 + 8, 2 + 16, 32, 2 + 64, 128, 2 + 192):
        for side, reader in enumerate(("caller", "callee")):
            found.append(bytes([choice | side]) + _recorded(_pair(choice), reader))
    return found


def _recorded(pair: Pair, reader: str) -> bytes:
    gaps, read, before = bytearray(), bytearray(), 0.0

    def record(pair: Pair, sender: str, message: Request | Response) -> bool:
        nonlocal before
        if sender != reader:
            gaps.append(int((pair.now - before) * 4) + (pair.now - before > 0.1))
            read.extend(serialize_message(message))
            before = pair.now
        return True

    pair.hook = record
    pair.run()
    return bytes(gaps[:15].ljust(15, b"\0") + read)


TARGETS = [Target("calls", "phones in calls, either side", _calls, _seeds, sip.WORDS)]
