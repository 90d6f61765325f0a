"""Memory of calls that have ended: released, used again, or growing."""

from __future__ import annotations

from typing import cast

import pytest

from imsbench.profile import Step, parse_profile
from imsbench.run.release import Release, graver
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
    release.began(200 * MIB)
    assert release.limit == 105 * MIB
    assert not release.look(10.0, 106 * MIB)
    assert release.released_s is None
    assert release.look(20.0, 105 * MIB)
    assert release.released_s == 20.0


def test_where_nothing_was_taken_nothing_has_to_be_released() -> None:
    _, calls = steps(1)
    release = Release()
    release.before(calls, 100 * MIB)
    release.began(100 * MIB + 1000)
    assert release.look(0.1, 100 * MIB + 900)
    release.began(100 * MIB + 1000)
    assert release.look(0.1, 100 * MIB + 9000)  # a little more: noise too
    release.began(100 * MIB + 1000)
    assert not release.look(0.1, 102 * MIB)


@pytest.mark.parametrize(("second", "again"), [(204 * MIB, "reused"), (206 * MIB, "grows")])
def test_a_second_batch_tells_what_is_used_again_from_what_grows(second: int, again: str) -> None:
    fill, calls = steps(2)
    release = Release()
    release.before(fill, 90 * MIB)
    release.before(calls, 100 * MIB)
    release.began(200 * MIB)
    assert not release.look(300.0, 190 * MIB)
    assert release.again == ""
    release.decide(second)
    assert release.again == again
    assert release.told(calls) == {
        "step": 1, "watched_s": 0.0, "released_s": None, "growth_bytes": 100 * MIB,
        "kept_bytes": None, "added_bytes": second - 200 * MIB, "again": again,
    }  # fmt: skip


def test_what_the_last_calls_did_is_forgotten_when_others_have_ended() -> None:
    _, first, second = steps(2, 3)
    release = Release()
    release.before(first, 100 * MIB)
    release.began(200 * MIB)
    release.decide(300 * MIB)
    release.before(second, 190 * MIB)
    assert release.baseline == 100 * MIB  # the registered phones', before any calls
    release.began(300 * MIB)
    assert release.again == ""


def ended(**values: object) -> dict[str, object]:
    return {"released_s": None, "again": "", "growth_bytes": 10} | values


@pytest.mark.parametrize(
    ("less", "more"),
    [
        (ended(released_s=3.0), ended(released_s=8.0)),
        (ended(released_s=8.0), ended(again="reused")),
        (ended(again="reused"), ended()),
        (ended(), ended(again="grows")),
        (ended(again="grows"), ended(again="grows", growth_bytes=20)),
    ],
)
def test_of_several_calls_the_gravest_is_told(
    less: dict[str, object], more: dict[str, object]
) -> None:
    assert graver(None, less) is less
    assert graver(less, more) is more
    assert graver(more, less) is more


class Shrinking:
    """A target whose memory takes these sizes, one look after the other; None: it is gone."""

    def __init__(self, *sizes: int | None) -> None:
        self.sizes = list(sizes)

    def memory(self) -> Memory | None:
        size = self.sizes.pop(0) if len(self.sizes) > 1 else self.sizes[0]
        return None if size is None else Memory(size, "rss", 1)


@pytest.mark.parametrize(
    ("sizes", "looks", "released", "kept"),
    [
        ((200 * MIB, 150 * MIB, 104 * MIB), 2, True, None),
        ((200 * MIB, None), 1, False, None),
        ((200 * MIB, 190 * MIB), 4, False, 90 * MIB),
    ],
)
def test_the_target_is_watched_until_it_is_released_gone_or_long_enough(
    monkeypatch: pytest.MonkeyPatch,
    sizes: tuple[int | None, ...],
    looks: int,
    released: bool,
    kept: int | None,
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
    undecided = release.watch(200 * MIB, 3.0, cast(Target, Shrinking(*sizes)), wait)
    assert undecided is (kept is not None)
    assert release.kept == kept
    assert len(waited) == looks
    assert (release.released_s is not None) is released
    assert not released or release.released_s == pytest.approx(2.0)
