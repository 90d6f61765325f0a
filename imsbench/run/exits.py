"""Exit codes of the command, and which of several wins."""

from __future__ import annotations

from collections.abc import Iterable

KEPT = 0
"""Every threshold kept."""
BROKEN = 1
"""A threshold broken, the one phone of a check not registered, or the target never there."""
USAGE = 2
"""A usage or profile error."""
UNVOUCHED = 3
"""The generator was not able to vouch for the run."""
TARGET_DIED = 4
"""The target died."""
HOST_LACKS = 5
"""The host lacks something."""
DEFECT = 70
"""A defect of imsbench itself (EX_SOFTWARE of sysexits.h)."""
INTERRUPTED = 130
"""SIGINT or SIGTERM (128 + SIGINT)."""

_GRAVEST_FIRST = (DEFECT, INTERRUPTED, HOST_LACKS, TARGET_DIED, UNVOUCHED, BROKEN)


def gravest(codes: Iterable[int]) -> int:
    """The one that wins: 70, 130, 5, 4, 3, 1, and 0 if there is none of them."""
    found = set(codes)
    return next((code for code in _GRAVEST_FIRST if code in found), KEPT)


class RunRefused(Exception):
    """The run cannot start; the text says what is wrong and what to do."""

    def __init__(self, text: str, exit_code: int) -> None:
        super().__init__(text)
        self.exit_code = exit_code
        """The exit code this asks for."""
