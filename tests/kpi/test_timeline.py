"""Second by second: from when on an objective holds."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imsbench.kpi.timeline import Timeline


def timeline(*counts: tuple[int, int]) -> Timeline:
    """(attempted, inadequate) of seconds 0, 1, 2 …"""
    made = Timeline()
    for second, (attempted, inadequate) in enumerate(counts):
        for i in range(attempted):
            made.add(second + 0.5, i >= inadequate)
    return made


def test_it_holds_again_when_nothing_that_follows_breaks_it() -> None:
    made = timeline((10, 9), (10, 4), (10, 0), (10, 1), (10, 0), (10, 0))
    assert made.holds_after(0, 0.0) == 4
    assert made.holds_after(1, 0.0) == 3
    assert made.holds_after(0, 0.1) == 2
    assert made.holds_after(4, 0.0) == 0


def test_it_never_holds_or_nothing_was_due() -> None:
    assert timeline((10, 0), (10, 5)).holds_after(0, 0.1) is None
    assert timeline((10, 0)).holds_after(5, 0.1) is None
    assert Timeline().holds_after(0, 0.1) is None


attempts = st.lists(st.tuples(st.floats(0, 100), st.booleans()), max_size=60)


@given(attempts, st.integers(1, 4))
def test_the_parts_of_workers_make_the_whole(made: list[tuple[float, bool]], workers: int) -> None:
    whole, merged = Timeline(), Timeline()
    for offset_s, adequate in made:
        whole.add(offset_s, adequate)
    for worker in range(workers):
        part = Timeline()
        for offset_s, adequate in made[worker::workers]:
            part.add(offset_s, adequate)
        merged.merge(Timeline.from_json(json.loads(json.dumps(part.to_json()))))
    assert merged.to_json() == whole.to_json()


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"attempted": {"0": 1}},
        {"attempted": [], "inadequate": {}},
        {"attempted": {"x": 1}, "inadequate": {}},
        {"attempted": {"0": 1}, "inadequate": {"0": 2}},
        {"attempted": {"0": 1}, "inadequate": {"1": 1}},
        {"attempted": {"0": 1}, "inadequate": {"0": 0}},
    ],
)
def test_what_is_none_is_refused(data: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="not a timeline"):
        Timeline.from_json(data)
