"""The report's section on UDP: what went and came again, by kind, and whose fault it was."""

from __future__ import annotations

from imsbench.report import RunResult, render
from imsbench.report.parts import CoreResult
from tests.kpi.outcomes import call, success
from tests.report.call_results import EMBEDDED, calls_made

UDP = EMBEDDED.replace(
    "phones: {refresh_phase: uniform}",
    'phones: {refresh_phase: uniform, transport: udp, ipsec: "off"}\ntarget: {loss_share: 0.05}',
)


def lossy() -> RunResult:
    """Two REGISTERs of 2,000 sent again, one of them by a slow generator; one NOTIFY came again."""
    result = calls_made(UDP)
    result.steps = result.steps[:3]
    result.steps[0].counters = {
        "retransmission sent: REGISTER": 2,
        "retransmission sent late: REGISTER": 1,
        "retransmission sent: 200 NOTIFY": 1,
        "retransmission received: NOTIFY": 1,
    }
    result.steps[2].counters = {
        "datagram not sent: no room": 3,
        "large request by UDP: TCP was refused": 4,
    }
    answered = success()
    answered.responded_at = answered.sent_at + 0.007
    result.steps[0].kpis.record(answered)
    result.steps[2].kpis.record_call(call(due_at=1300.0))
    worker = result.workers[0]
    worker.counters = dict(result.steps[0].counters) | {"repeated_2xx": 7}
    worker.messages = {"-> REGISTER": 2000, "<- NOTIFY": 1000, "-> 200 NOTIFY": 1000}
    result.core = CoreResult(counters={"answers lost as injected": 3}, registered=1000)
    return result


def rows(page: str) -> list[list[str]]:
    section = page.split("\n## UDP\n")[1].split("\n## ")[0]
    return [
        [cell.strip() for cell in line.strip("| ").split("|")]
        for line in section.splitlines()
        if line.startswith("|")
    ]


def test_what_went_again_is_told_by_kind_and_direction_with_its_share() -> None:
    shown = {row[0]: row[1:] for row in rows(render(lossy()))}
    assert shown["REGISTER"] == ["2,000", "2", "0.1%", "1", "—", "—", "—", "—"]
    assert shown["NOTIFY"] == ["—", "—", "—", "—", "1,000", "1", "0.1%", "—"]
    assert shown["200 NOTIFY"] == ["1,000", "1", "0.1%", "—", "—", "—", "—", "—"]


def test_each_step_has_its_sums_and_its_first_response() -> None:
    _, _, fill, _cycle, made, *_ = rows(render(lossy()))
    assert fill[1:4] == ["3", "1", "1"]
    assert fill[4:6] == ["7.0 ms", "—"]  # of one registration no quantile is told
    assert fill[6:] == ["—", "—", "0", "0"]
    assert made[1:6] == ["0", "0", "0", "—", "—"]
    assert made[6].endswith("ms")
    assert made[8:] == ["3", "4"]


def test_injected_loss_and_what_phones_repeat_anyway_are_told() -> None:
    page = render(lossy())
    assert "told to lose 5% of its answers, and lost 3" in page
    assert "2xx of INVITE, until its ACK: 7" in page
    assert "T1 500 ms, T2 4.00 s, T4 5.00 s (values of RFC 3261)" in page


def test_a_clean_run_says_so() -> None:
    result = calls_made(UDP)
    assert "Nothing was sent or came again." in render(result)


def test_phones_that_speak_tcp_have_no_such_section() -> None:
    assert "## UDP" not in render(calls_made())
