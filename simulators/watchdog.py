"""The watchdog of a Diameter connection (RFC 3539 §3.4.1): told the time, it says what to do.

Any octet received is a sign of life. A first silence of Tw asks for a DWR, a second makes the connection
suspect, a third ends it. REOPEN, which holds a returned peer back for three watchdogs, is left out: there is
no other peer to prefer meanwhile.
"""

from __future__ import annotations

import random
from enum import Enum

JITTER_S = 2.0
"""Most that Tw is lengthened or shortened by (RFC 3539 §3.4.1)."""


class Verdict(Enum):
    """What to do when the timer has expired."""

    ALIVE = "set the timer again"
    SEND_DWR = "send a DWR"
    SUSPECT = "send nothing more here if there is another way"
    DEAD = "close"


class Watchdog:
    """One connection's signs of life; times are seconds on one clock."""

    __slots__ = ("_heard_at", "_random", "_silences", "_tw_s")

    def __init__(self, tw_s: float, source: random.Random, now: float) -> None:
        self._tw_s = tw_s
        self._random = source
        self._heard_at = now
        self._silences = 0

    def heard(self, now: float) -> None:
        """Octets came."""
        self._heard_at = now
        self._silences = 0

    @property
    def suspect(self) -> bool:
        """Whether a DWR went unanswered."""
        return self._silences >= 2

    def expired(self, now: float) -> tuple[Verdict, float]:
        """The timer went off: what to do, and when to set it again (seconds from now)."""
        # A jitter of 2 s is meant for a Tw of 6 s or more; the short ones of tests get their tenth.
        jitter_s = min(JITTER_S, self._tw_s / 10)
        tw_s = self._tw_s + self._random.uniform(-jitter_s, jitter_s)
        idle_s = now - self._heard_at
        if self._silences == 0 and idle_s < self._tw_s - jitter_s:
            return Verdict.ALIVE, tw_s - idle_s
        self._silences += 1
        verdict = {1: Verdict.SEND_DWR, 2: Verdict.SUSPECT}.get(self._silences, Verdict.DEAD)
        return verdict, tw_s
