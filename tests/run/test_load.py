"""The steps of a run's load, driven with a stand-in for its children and for the target."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

import pytest

from imsbench.kpi.halves import Halves
from imsbench.kpi.kpis import StepKpis
from imsbench.profile import Step, parse_profile
from imsbench.run.assemble import assemble
from imsbench.run.crew import Crew, Interrupted
from imsbench.run.load import Load
from imsbench.run.record import RunRecord
from imsbench.run.sut import Memory, Target
from tests.kpi.outcomes import call, success
from tests.report.results import health

MIB = 1 << 20
WATCHED = """
name: watched
subscribers: {count: 10}
phones: {ipsec: "off"}
target: {kind: external, pcscf: "192.0.2.1:5060", commands: [core]}
generator: {arrivals: constant}
phases:
  - fill: {rate: 100, to: 10}
  - calls: {rate: 1, duration: 2s, warm_up: 0s, hold: {mean: 1s}, watch_release: 20s}
"""


class OneWorker:
    """A worker that is done with every step at once, and time that passes while it is waited for."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.orders: list[tuple[int, bool]] = []
        self.registered = [10] * 9
        """After each order."""
        self.interrupt_at: int | None = None
        """The order that a signal comes in."""
        self._told: list[tuple[str, dict[str, Any]]] = []

    def send(self, name: str, kind: str, *, step: dict[str, Any], at: float, repair: bool) -> None:
        """An order to start a step."""
        assert kind == "start_at"
        kpis, index = StepKpis(), step["index"]
        if index == 1 and not repair:
            kpis.record_call(call())
        else:
            kpis.record(success("registration"))
        after = self.registered[len(self.orders)]
        self.orders.append((index, repair))
        done = {"type": "step_done", "step": index, "kpis": kpis.to_json(), "registered": after}
        done["halves"] = Halves().to_json()
        done["health"] = health(1.0, 2.0).model_dump(mode="json")
        self._told.append((name, done))

    def receive(self, timeout_s: float) -> list[tuple[str, dict[str, Any]]]:
        """What was told since."""
        if self.interrupt_at is not None and len(self.orders) > self.interrupt_at:
            raise Interrupted
        self.now += timeout_s
        told, self._told = self._told, []
        return told


class Core:
    """A target with this memory, whatever is done to it."""

    absent = ""

    def __init__(self, size: int) -> None:
        self.size = size

    def memory(self) -> Memory:
        return Memory(self.size, "rss", 1)


class Used:
    """The memory at the height of each of its steps."""

    def __init__(self, heights: list[int]) -> None:
        self.heights = heights

    def of(self, _target: Target, step: Step, _started_at: float) -> Used:
        """What stands for ``usage_of``."""
        self.step = step
        return self

    def look(self, now: float) -> None:
        """Nothing to be read."""

    def close(self) -> dict[str, Any]:
        return {"memory_rss_bytes": self.heights.pop(0)}


def driven(
    monkeypatch: pytest.MonkeyPatch, worker: OneWorker, heights: list[int], kept: int
) -> RunRecord:
    """What the load of WATCHED wrote down: the target took ``heights`` in its steps, ``kept`` between."""
    monkeypatch.setattr("imsbench.run.load.time.monotonic", lambda: worker.now)
    monkeypatch.setattr("imsbench.run.load.sut.usage_of", Used(heights).of)
    monkeypatch.setattr("imsbench.run.load.sut.at_rest", lambda _target: None)
    record = RunRecord(started=datetime.now(UTC))
    core = Core(100 * MIB)
    original = worker.send

    def send(name: str, kind: str, **values: Any) -> None:
        original(name, kind, **values)
        if values["step"]["index"] == 1:
            core.size = kept

    monkeypatch.setattr(worker, "send", send)
    load = Load(
        parse_profile(WATCHED),
        lambda _event: None,
        cast(Crew, worker),
        ["worker-0"],
        record,
        cast(Target, core),
    )
    load.run()
    return record


@pytest.mark.parametrize(("second", "again"), [(201, "reused"), (240, "grows")])
def test_memory_that_is_never_released_is_decided_by_the_same_calls_once_more(
    monkeypatch: pytest.MonkeyPatch, second: int, again: str
) -> None:
    worker = OneWorker()
    heights = [100 * MIB, 200 * MIB, second * MIB]
    injected: list[int] = []
    monkeypatch.setattr(
        "imsbench.run.load.FaultOrders.begin", lambda _self, step, _at: injected.append(step.index)
    )
    record = driven(monkeypatch, worker, heights, kept=190 * MIB)
    assert worker.orders == [(0, False), (1, False), (1, False)]
    assert injected == [0, 1]  # none again in the second batch
    assert record.ended_calls is not None
    assert record.ended_calls["again"] == again
    assert (record.ended_calls["step"], record.ended_calls["watched_s"]) == (1, 20.0)
    assert len(record.steps) == 2
    assert record.steps[1].kpis.sessions.attempted == 1  # the second batch is in no table
    result = assemble(parse_profile(WATCHED), record, "x")
    assert [len(done.beside) for done in result.steps] == [0, 1]
    assert result.steps[1].second_batch is not None
    assert result.steps[1].second_batch.sessions.attempted == 1
    assert result.ended_calls is not None
    assert result.ended_calls.again == again


def test_memory_that_is_released_needs_no_second_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = OneWorker()
    record = driven(monkeypatch, worker, [100 * MIB, 200 * MIB], kept=101 * MIB)
    assert worker.orders == [(0, False), (1, False)]
    assert record.steps[1].again is None
    assert record.ended_calls is not None
    assert record.ended_calls["released_s"] is not None


def test_the_second_batch_has_the_precondition_of_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker = OneWorker()
    worker.registered = [10, 8, 10, 10]
    record = driven(monkeypatch, worker, [100 * MIB, 200 * MIB, 201 * MIB], kept=190 * MIB)
    assert worker.orders == [(0, False), (1, False), (1, True), (1, False)]
    again = record.steps[1].again
    assert again is not None
    assert (len(again.repairs), record.steps[1].repairs) == (1, [])
    batch = assemble(parse_profile(WATCHED), record, "x").steps[1].second_batch
    assert batch is not None
    assert batch.procedures["registration"].attempted == 1


def test_a_run_that_ends_in_the_second_batch_keeps_what_that_had_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker = OneWorker()
    worker.interrupt_at = 2
    record = RunRecord(started=datetime.now(UTC))
    monkeypatch.setattr("tests.run.test_load.RunRecord", lambda **_values: record)
    with pytest.raises(Interrupted):
        driven(monkeypatch, worker, [100 * MIB, 200 * MIB], kept=190 * MIB)
    step = record.steps[1]
    assert step.complete
    assert step.under_way is step.again
    assert record.ended_calls is None
