"""Memory of calls that have ended: released, used again, or growing."""

from __future__ import annotations

from typing import cast

import pytest

from imsbench.profile import Step, parse_profile
from imsbench.run.release import Release
from imsbench.run.sut import Memory, Target

MIB = 1 << 20


def steps(*rates: int) -> list[Step]:
    """A fill, then calls at these rates."""
    listed = "".join(
        f"  - calls: {{rate: {rate}, duration: 1s, hold: {{mean: 1s}}}}\n" for rate in rates
    )
    text = (
        f"name: x\nsubscribers: {{count: 100}}\nphases:\n  - fill: {{rate: 100, to: 100}}\n{listed}"
    )
    return list(parse_profile(text).steps())


def test_it_is_released_when_a_twentieth_of_the_growth_is_left() -> None:
    fill, calls = steps(1)
    release = Release()
    release.before(fill, 50 * MIB)
    release.before(calls, 100 * MIB)
    release.began(calls, 200 * MIB)
    assert release.limit == 105 * MIB
    assert not release.look(10.0, 106 * MIB)
    assert release.released_s is None
    assert release.look(20.0, 105 * MIB)
    assert release.released_s == 20.0


def test_where_nothing_was_taken_nothing_has_to_be_released() -> None:
    _, calls = steps(1)
    release = Release()
    release.before(calls, 100 * MIB)
    release.began(calls, 100 * MIB + 1000)
    assert release.look(0.1, 100 * MIB + 900)


@pytest.mark.parametrize(("second", "again"), [(204 * MIB, "reused"), (206 * MIB, "grows")])
def test_a_second_batch_tells_what_is_used_again_from_what_grows(second: int, again: str) -> None:
    fill, first_calls, second_calls = steps(2, 2)
    release = Release()
    release.before(fill, 100 * MIB)
    release.before(first_calls, 100 * MIB)
    release.began(first_calls, 200 * MIB)
    assert not release.look(300.0, 190 * MIB)
    release.gave_up(first_calls)
    assert release.again == ""
    release.before(second_calls, 190 * MIB)
    assert release.baseline == 100 * MIB  # the registered phones', before any calls
    release.began(second_calls, second)
    assert release.again == again


def test_other_calls_are_no_second_batch() -> None:
    _, first_calls, other_calls = steps(2, 3)
    release = Release()
    release.before(first_calls, 100 * MIB)
    release.began(first_calls, 200 * MIB)
    release.gave_up(first_calls)
    release.before(other_calls, 190 * MIB)
    release.began(other_calls, 300 * MIB)
    assert release.again == ""


class Shrinking:
    """A target whose memory takes these sizes, one look after the other; None: it is gone."""

    def __init__(self, *sizes: int | None) -> None:
        self.sizes = list(sizes)

    def memory(self) -> Memory | None:
        size = self.sizes.pop(0) if len(self.sizes) > 1 else self.sizes[0]
        return None if size is None else Memory(size, "rss", 1)


@pytest.mark.parametrize(
    ("sizes", "looks", "released"),
    [
        ((200 * MIB, 150 * MIB, 104 * MIB), 2, True),
        ((200 * MIB, None), 1, False),
        ((200 * MIB,), 4, False),
    ],
)
def test_the_target_is_watched_until_it_is_released_gone_or_long_enough(
    monkeypatch: pytest.MonkeyPatch, sizes: tuple[int | None, ...], looks: int, released: bool
) -> None:
    now = 1000.0

    def wait(seconds: float) -> None:
        nonlocal now
        now += seconds
        waited.append(seconds)

    waited: list[float] = []
    monkeypatch.setattr("imsbench.run.release.time.monotonic", lambda: now)
    _, calls = steps(1)
    release = Release()
    release.before(calls, 100 * MIB)
    release.watch(calls, 200 * MIB, 3.0, cast(Target, Shrinking(*sizes)), wait)
    assert len(waited) == looks
    assert (release.released_s is not None) is released
    assert not released or release.released_s == pytest.approx(2.0)
