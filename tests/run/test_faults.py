"""Timed faults: ordered with their instants, and told as they came out."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from imsbench.profile import parse_profile
from imsbench.run import injected
from imsbench.run.faults import FaultOrders
from imsbench.run.record import RunRecord

PROFILE = parse_profile(
    """name: small
subscribers: {count: 100}
phases:
  - fill: {rate: 10/s, to: 100}
  - cycle: {rate: 10/s}
faults:
  - {what: core_stall, step: 2, at: 2s, duration: 2s}
  - {what: hss_restart, at: 5s, duration: 3s}
  - {what: rtr, step: cycle, rate: 2/s, duration: 1s}
"""
)


class Sent:
    """A crew that keeps what it is to send."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, str, dict[str, Any]]] = []

    def send(self, name: str, kind: str, **values: Any) -> None:
        self.messages.append((name, kind, values))


def record() -> RunRecord:
    return RunRecord(started=datetime.now(UTC))


def test_each_is_ordered_once_its_instant_is_known() -> None:
    sent, run = Sent(), record()
    orders = FaultOrders(PROFILE, sent, run)  # type: ignore[arg-type]  # all that it uses of one
    first, second = PROFILE.steps()
    orders.begin(first, 100.0)
    assert [(name, values["what"], values["at"]) for name, _, values in sent.messages] == [
        ("hss", "hss_restart", 105.0)
    ]
    orders.begin(second, 120.0)
    assert [(name, values["what"], values["at"]) for name, _, values in sent.messages[1:]] == [
        ("core", "core_stall", 122.0), ("hss", "rtr", 120.0),
    ]  # fmt: skip
    assert (run.load_at, len(run.ordered)) == (100.0, 3)


def test_what_was_ordered_is_told_with_what_came_of_it() -> None:
    run = record()
    run.load_at = 100.0
    run.ordered = [(1, None, 105.0), (0, 1, 122.0), (2, 1, 120.0)]
    run.note("core", {"timed_faults": []})
    run.note(
        "core",
        {"timed_faults": [{"fault": 0, "step": 1, "at": 122.001, "ended_at": 124.0, "done": 1,
                           "failed": 0}]},
    )  # fmt: skip
    run.note(
        "hss",
        {"timed_faults": [{"fault": 2, "step": 1, "at": 120.0, "ended_at": None, "done": 1,
                           "failed": 1}]},
    )  # fmt: skip
    restart, stall, rtr = injected.timed_faults(run)
    assert (restart.at_s, restart.lasted_s, restart.planned_s) == (None, None, 5.0)
    assert (round(stall.at_s or 0, 6), round(stall.lasted_s or 0, 6)) == (22.001, 1.999)
    assert (rtr.at_s, rtr.lasted_s, rtr.done, rtr.failed) == (20.0, None, 1, 1)


def test_steady_faults_are_told_by_whoever_had_them() -> None:
    run = record()
    told = {"what": "error", "names": ["MAR"], "share": 0.05, "code": 5012, "of": 400, "struck": 20}
    run.simulators["hss"] = {"steady_faults": [told | {"delays": None}]}
    (fault,) = injected.steady_faults(run)
    assert (fault.where, fault.struck, fault.of, fault.code) == ("HSS", 20, 400, 5012)
