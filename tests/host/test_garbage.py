"""What stands is taken out of the collector, what is young is collected often, full ones are rare."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator

import pytest

from imsbench.host import garbage


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    """The collector as it was."""
    threshold = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*threshold)


def test_what_stands_is_frozen_and_full_collections_are_rare() -> None:
    standing = [[n] for n in range(1000)]
    garbage.settle()
    assert gc.get_freeze_count() >= len(standing)
    assert gc.get_threshold() == (700, 10, 100_000)
    cycle: list[object] = []
    cycle.append(cycle)
    del cycle
    assert gc.collect(0) >= 1  # what comes later is still looked for


def test_what_is_young_stays_little_where_as_much_ends_as_begins() -> None:
    due: list[tuple[float, Callable[[], None]]] = []
    standing = [[n] for n in range(20_000)]
    gc.collect()
    garbage.settle()
    garbage.keep_young(lambda delay_s, function: due.append((delay_s, function)))
    most = 0
    for turn in range(100):
        for n in range(200):  # each begins as one ends: Python sees no reason to collect
            standing[turn * 200 + n] = [n]
        most = max(most, len(gc.get_objects(generation=0)) + len(gc.get_objects(generation=1)))
        delay_s, tidy = due.pop()
        assert delay_s == garbage.TIDY_S
        tidy()
    assert 200 <= most < 2_000  # without: 20,000
