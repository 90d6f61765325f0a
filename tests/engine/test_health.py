"""The generator's view of itself, on clocks and counters made by hand."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from imsbench.engine import health
from imsbench.engine.loop import Loop
from imsbench.histogram import Histogram
from imsbench.host.counters import CpuTimes


class Machine:
    """What Health reads, as a test sets it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        self.wall = 5000.0
        self.cpu = CpuTimes(0.0, 0.0, 0.0)
        monkeypatch.setattr(health, "clock", lambda: self.now)
        monkeypatch.setattr("imsbench.engine.health.time.time", lambda: self.wall)
        monkeypatch.setattr("imsbench.engine.health.counters.read_cpu", lambda: self.cpu)
        monkeypatch.setattr("imsbench.engine.health.counters.memory_share", lambda: 0.25)

    def pass_time(self, seconds: float, jump_s: float = 0.0) -> None:
        self.now += seconds
        self.wall += seconds + jump_s


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


@pytest.fixture
def watched(machine: Machine) -> Any:
    loop = Loop()
    made = health.Health(loop)
    yield made
    gc.callbacks.remove(made._on_gc)
    loop.close()


def test_shares_of_the_host(machine: Machine, watched: health.Health) -> None:
    watched.begin()
    machine.pass_time(10.0)
    machine.cpu = CpuTimes(busy_s=15.0, steal_s=1.0, all_s=20.0)
    told = watched.end()
    assert (told["host_cpu_share"], told["steal_share"]) == (0.75, 0.05)
    assert (told["memory_share"], told["wall_s"], told["clock_jump_s"]) == (0.25, 10.0, 0.0)


def test_what_the_host_does_not_say_is_none(
    watched: health.Health, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise PermissionError

    monkeypatch.setattr("imsbench.engine.health.counters.read_cpu", refuse)
    monkeypatch.setattr("imsbench.engine.health.counters.memory_share", refuse)
    watched.begin()
    told = watched.end()
    assert [told[name] for name in ("host_cpu_share", "steal_share", "memory_share")] == [None] * 3


def test_the_largest_jump_of_the_wall_clock(machine: Machine, watched: health.Health) -> None:
    watched.begin()
    for jump_s in (0.0005, -0.2, 0.0005):  # slewed, set back, slewed
        machine.pass_time(1.0, jump_s)
        watched.look()
    assert watched.end()["clock_jump_s"] == pytest.approx(0.2)
    watched.begin()
    assert watched.end()["clock_jump_s"] == 0.0


def test_a_clock_slewed_for_long_has_not_jumped(machine: Machine, watched: health.Health) -> None:
    watched.begin()
    for _ in range(500):
        machine.pass_time(1.0, 0.0005)
        watched.look()
    assert watched.end()["clock_jump_s"] == pytest.approx(0.0005)


def test_losing_the_cpu_between_two_clocks_is_no_jump(
    machine: Machine, watched: health.Health, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost_s = iter([0.3, 0.0, 0.3, 0.0, 0.0])

    def wall() -> float:
        seen = machine.wall
        machine.pass_time(next(lost_s, 0.0))
        return seen

    monkeypatch.setattr("imsbench.engine.health.time.time", wall)
    before = health.wall_offset_s()
    assert before == pytest.approx(machine.wall - machine.now)


def test_garbage_collections_are_timed(watched: health.Health) -> None:
    watched.begin()
    gc.collect()
    assert Histogram.from_json(watched.end()["gc_pauses"]).count >= 1
