"""Which exit code wins."""

import pytest

from imsbench.run import exits
from imsbench.run.exits import gravest


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ([], exits.KEPT),
        ([exits.KEPT, exits.BROKEN], exits.BROKEN),
        ([exits.BROKEN, exits.UNVOUCHED], exits.UNVOUCHED),
        ([exits.UNVOUCHED, exits.TARGET_DIED, exits.BROKEN], exits.TARGET_DIED),
        ([exits.TARGET_DIED, exits.INTERRUPTED], exits.INTERRUPTED),
        ([exits.INTERRUPTED, exits.DEFECT, exits.TARGET_DIED], exits.DEFECT),
    ],
)
def test_the_gravest_wins(codes: list[int], expected: int) -> None:
    assert gravest(codes) == expected
