"""AF sessions that the PCRF holds, by Session-Id."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field

from simulators.ipfilter import Network
from simulators.pcrf.media import Component
from simulators.rx import SubscriptionIdType


@dataclass(frozen=True, slots=True)
class Report:
    """What is due to an AF once the bearer stands."""

    actions: tuple[int, ...]
    """Specific-Actions that the AF subscribed to."""
    components: tuple[int, ...]
    """Numbers of the media components it is about."""


@dataclass(slots=True)
class Session:
    """One AF session: a registration's signalling, or a call leg."""

    id: str
    """Session-Id."""
    af_host: bytes
    """Origin-Host of the AF that sent the last AAR: where RAR and ASR go."""
    af_realm: bytes
    """Its Origin-Realm."""
    phone: Network | None = None
    """Framed address or prefix."""
    subscriptions: tuple[tuple[SubscriptionIdType | None, str], ...] = ()
    """Subscription-Ids: type and data."""
    actions: frozenset[int] = frozenset()
    """Specific-Actions that the AF subscribed to."""
    components: dict[int, Component] = field(default_factory=dict)
    """Its media, by Media-Component-Number."""
    reports: dict[int, Report] = field(default_factory=dict)
    """Reports due once the AAR of this End-to-End identifier is answered."""
    last_request: int = -1
    """End-to-End identifier of the last AAR that was served."""

    @property
    def is_media(self) -> bool:
        """Whether it is a call leg's: it has media that are no signalling."""
        return any(not one.is_signalling for one in self.components.values())


class Sessions:
    """All of them, counted as they come and go."""

    def __init__(self, seed: int = 1) -> None:
        self.media = 0
        """How many have media now."""
        self.most_media = 0
        """How many had at one time."""
        self._by_id: dict[str, Session] = {}
        self._random = random.Random(f"pcrf sessions {seed}")

    def __len__(self) -> int:
        """How many there are."""
        return len(self._by_id)

    def get(self, session_id: str | None) -> Session | None:
        """The session of this name."""
        return self._by_id.get(session_id or "")

    def keep(self, session: Session, components: dict[int, Component]) -> None:
        """Keep a session, new or known, with these media."""
        was_media = session.id in self._by_id and session.is_media
        session.components = components
        self._by_id[session.id] = session
        self.media += session.is_media - was_media
        self.most_media = max(self.most_media, self.media)

    def end(self, session_id: str | None) -> Session | None:
        """Forget a session; None if there is none of this name."""
        session = self._by_id.pop(session_id or "", None)
        if session is not None:
            self.media -= session.is_media
        return session

    def draw(self, count: int, actions: Iterable[int] = ()) -> list[Session]:
        """So many media sessions, or all there are, that subscribed to all these actions, at random."""
        wanted = frozenset(actions)
        found = [one for one in self._by_id.values() if one.is_media and wanted <= one.actions]
        return self._random.sample(found, min(count, len(found)))
