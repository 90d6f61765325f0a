"""What UDP lost and what it cost: messages sent and received again, by kind, and the first responses."""

from __future__ import annotations

from collections import Counter

from imsbench.kpi.kpis import StepKpis
from imsbench.report.form import DASH, cell, spell_quantile, spell_share, spell_time, table
from imsbench.report.result import RunResult, StepResult
from imsbench.report.tables import Lines, name_of, pairs

_SENT, _SENT_LATE = "retransmission sent: ", "retransmission sent late: "
_CAME, _CAME_LATE = "retransmission received: ", "retransmission received late: "
_NO_ROOM = "datagram not sent: no room"
_BY_UDP = "large request by UDP: TCP was refused"
_OWN = {"repeated_2xx": "2xx of INVITE, until its ACK", "repeated_1xx": "1xx, until its PRACK"}
"""What a called phone repeats on any transport (RFC 3261 §13.3.1.4, RFC 3262 §3)."""


def udp(result: RunResult) -> Lines:
    """The section of a report; nothing where phones speak TCP."""
    if result.profile.phones.transport != "udp" or not result.steps:
        return
    yield "## UDP"
    yield ""
    headers = (
        "Load", "Sent again", "Came again", "Of these while the generator was late",
        "First response to REGISTER, mean", "p99", "First response to INVITE, mean", "p99",
        "Datagrams without room", "Large requests by UDP",
    )  # fmt: skip
    rows = [[name_of(step), *_step(done)] for step, done in pairs(result)]
    yield from table(headers, rows, "lrrrrrrrrr")
    yield ""
    counters: Counter[str] = Counter()
    messages: Counter[str] = Counter()
    for worker in result.workers:
        counters.update(worker.counters)
        messages.update(worker.messages)
    kinds = _kinds(counters, messages)
    if kinds:
        yield from table(
            ("Kind", "Sent", "Sent again", "Share", "Late", "Came", "Came again", "Share", "Late"),
            kinds,
            "lrrrrrrrr",
        )
    else:
        yield "Nothing was sent or came again."
    yield ""
    yield from _rules(result, counters)


def _sum(counters: Counter[str] | dict[str, int], *beginnings: str) -> int:
    return sum(count for name, count in counters.items() if name.startswith(beginnings))


def _step(done: StepResult) -> list[str]:
    counters, kpis = done.counters, done.kpis
    return [
        f"{_sum(counters, _SENT):,}",
        f"{_sum(counters, _CAME):,}",
        f"{_sum(counters, _SENT_LATE, _CAME_LATE):,}",
        *_first_response(kpis, "registration_first_response_time"),
        *_first_response(kpis, "session_first_response_time"),
        f"{counters.get(_NO_ROOM, 0):,}",
        f"{counters.get(_BY_UDP, 0):,}",
    ]


def _first_response(kpis: StepKpis, key: str) -> list[str]:
    return [spell_time(kpis.histogram(key).mean), spell_quantile(kpis, key, 0.99)]


def _kinds(counters: Counter[str], messages: Counter[str]) -> list[list[str]]:
    """A row for each kind that went or came again in the whole run."""
    beginnings = (_SENT, _CAME)
    found = {
        name.removeprefix(beginning)
        for beginning in beginnings
        for name in counters
        if name.startswith(beginning)
    }
    return [
        [
            cell(kind),
            *_direction(kind, "->", counters, messages, _SENT, _SENT_LATE),
            *_direction(kind, "<-", counters, messages, _CAME, _CAME_LATE),
        ]
        for kind in sorted(found, key=lambda kind: (kind[:1].isdigit(), kind))
    ]


def _direction(
    kind: str, arrow: str, counters: Counter[str], messages: Counter[str], again: str, late: str
) -> list[str]:
    once, repeated = messages[f"{arrow} {kind}"], counters[again + kind]
    share = spell_share(repeated / once) if once and repeated else DASH
    shown = (once, repeated, counters[late + kind])
    first, *others = (f"{count:,}" if count else DASH for count in shown)
    return [first, others[0], share, others[1]]


def _rules(result: RunResult, counters: Counter[str]) -> Lines:
    timers = {"rfc3261": "RFC 3261", "3gpp": "TS 24.229"}[result.profile.phones.timers]
    t1_s, t2_s, t4_s = result.profile.phones.timer_values
    yield (
        "- **Sent again**: requests by Timers A and E, failure responses to INVITE by Timer G, and "
        "responses to requests that came again (RFC 3261 §17); T1 "
        f"{spell_time(t1_s)}, T2 {spell_time(t2_s)}, T4 {spell_time(t4_s)} (values of {timers}). "
        "**Came again**: the same, of the target. **Sent**, **Came**: each message once; shares are of "
        "them. The first table is by step with what came due before the next one, the second of the whole "
        "run."
    )
    yield (
        "- **Late**: this process was late by more than T1/10 meanwhile, so it says nothing of the network."
    )
    yield (
        "- **First response to REGISTER**: of initial registrations the first final one, mostly the 401. "
        "**To INVITE**: any response, 100 included; requests over 1,300 bytes go by TCP "
        "(RFC 3261 §18.1.1), and by UDP only where that is refused."
    )
    own = [f"{words}: {counters[name]:,}" for name, words in _OWN.items() if counters[name]]
    if own:
        yield f"- Repeated by called phones on any transport: {'; '.join(own)}."
    if result.profile.target.loss_share:
        share = spell_share(result.profile.target.loss_share)
        lost = result.core.counters.get("answers lost as injected", 0) if result.core else 0
        yield (
            f"- The reference core was told to lose {share} of its answers, and lost {lost:,}; one to a "
            "request that went by TCP is not asked for again."
        )
