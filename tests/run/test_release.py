"""Memory of calls that have ended: released, used again, or growing."""

from __future__ import annotations

import pytest

from imsbench.profile import Step, parse_profile
from imsbench.run.release import Release

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
