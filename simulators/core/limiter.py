"""A limit that has nothing to do with CPU: a core that takes so many new attempts a second and no more.

Licences, static rate limits and connection pools look like this from outside: successes stay at a rate
while the processors idle. A search for capacity must find such a limit and must not blame the CPU.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from imsbench.protocol.digest import parse_digest
from imsbench.protocol.sip import Request
from simulators.core.answer import Answer, refusal


@dataclass(frozen=True, slots=True)
class LimiterSettings:
    """How many new attempts the core takes."""

    registrations_per_s: float = 0.0
    """Initial registrations a second; 0: no limit."""
    calls_per_s: float = 0.0
    """Calls a second; 0: no limit."""
    burst: int = 1
    """Attempts that are taken at once after a rest: the depth of each token bucket."""

    def __post_init__(self) -> None:
        if min(self.registrations_per_s, self.calls_per_s) < 0:
            raise ValueError("a limiter's rates must not be negative")
        if self.burst < 1:
            raise ValueError("a limiter's burst must be at least 1")

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> LimiterSettings:
        """From a control channel's config; TypeError or ValueError if it is not fit."""
        return cls(**config)


class TokenBucket:
    """Takes ``rate`` a second, and ``depth`` at once after a rest."""

    __slots__ = ("_at", "_depth", "_rate", "_tokens")

    def __init__(self, rate: float, depth: int) -> None:
        """rate: tokens a second, above 0; depth: the most there are, at least 1."""
        self._rate = rate
        self._depth = float(depth)
        self._tokens = self._depth
        self._at: float | None = None

    def take(self, now: float) -> bool:
        """Whether there is a token at this instant, monotonic seconds; it is taken."""
        if self._at is not None:
            self._tokens = min(self._depth, self._tokens + (now - self._at) * self._rate)
        self._at = now
        # What a sum of many small floats lacks of a whole token is not a token that lacks.
        if self._tokens < 1.0 - 1e-6:
            return False
        self._tokens -= 1.0
        return True


class Limiter:
    """Refuses what is beyond the limit with a 503 (RFC 3261 §21.5.4)."""

    def __init__(self, settings: LimiterSettings, counters: Counter[str]) -> None:
        self._counters = counters
        self._buckets = {
            name: TokenBucket(rate, settings.burst)
            for name, rate in (
                ("registrations", settings.registrations_per_s),
                ("calls", settings.calls_per_s),
            )
            if rate
        }

    def check(self, request: Request, now: float) -> Answer | None:
        """The refusal of a request that would begin one attempt too many at this instant, or None."""
        if not self._buckets:
            return None
        kind = begins(request)
        bucket = self._buckets.get(kind)
        if bucket is None or bucket.take(now):
            return None
        self._counters[f"refused: limit of {kind}"] += 1
        return refusal(503, f"limit of {kind} reached")


def begins(request: Request) -> str:
    """What a request begins: "registrations", "calls", or nothing that is limited."""
    if request.method == "INVITE" and ";tag=" not in (request.get("to") or ""):
        return "calls"
    if request.method != "REGISTER":
        return ""
    try:
        nonce = parse_digest(request.get("authorization") or "Digest").get("nonce")
    except ValueError:
        return ""  # it is answered 400
    # The answer to a challenge, a refresh and a de-registration repeat the nonce of theirs.
    return "" if nonce else "registrations"
