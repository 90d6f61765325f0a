"""How a connection ended, in words."""

from __future__ import annotations

import errno

import pytest

from imsbench.engine.connection import cause_of


@pytest.mark.parametrize(
    ("number", "cause"),
    [
        (errno.EPERM, "blocked by policy"),  # a guard of kernel ESP: its SA is not there
        (errno.ECONNREFUSED, "refused"),
        (errno.ECONNRESET, "reset by target"),
        (errno.ENOTCONN, "enotconn"),
    ],
)
def test_causes(number: int, cause: str) -> None:
    assert cause_of(OSError(number, "")) == cause
