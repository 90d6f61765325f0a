"""What stands is taken out of the collector, and full collections are rare from then on."""

from __future__ import annotations

import gc

from imsbench.host import garbage


def test_what_stands_is_frozen_and_full_collections_are_rare() -> None:
    threshold = gc.get_threshold()
    try:
        standing = [[n] for n in range(1000)]
        garbage.settle()
        assert gc.get_freeze_count() >= len(standing)
        assert gc.get_threshold() == (700, 10, 100_000)
        cycle: list[object] = []
        cycle.append(cycle)
        del cycle
        assert gc.collect(0) >= 1  # what comes later is still looked for
    finally:
        gc.unfreeze()
        gc.set_threshold(*threshold)
