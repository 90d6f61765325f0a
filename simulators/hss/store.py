"""What the HSS keeps of a subscriber: only what changed. All else is computed from its number."""

from __future__ import annotations

import random
from array import array
from dataclasses import dataclass
from enum import IntEnum

IND_BITS = 5
"""Length of IND, the part of SQN that names a place in the USIM's window (TS 33.102 annex C.3.1)."""
_IND_MASK = (1 << IND_BITS) - 1
_SQN_MASK = (1 << 48) - 1


class State(IntEnum):
    """Registration state of an implicit set (TS 29.228 §6, §8)."""

    NOT_REGISTERED = 0
    REGISTERED = 1
    UNREGISTERED = 2


@dataclass(slots=True)
class Entry:
    """What changed about one subscriber. Its three identities are one implicit set, so have one state."""

    state: State = State.NOT_REGISTERED
    """Registration state."""
    server_name: str = ""
    """S-CSCF name stored; empty: none."""
    pending: bool = False
    """Authentication pending: vectors are out, no SAR came yet."""
    scscf_host: bytes = b""
    """Origin-Host of the S-CSCF that sent the last SAR: where an RTR goes."""
    scscf_realm: bytes = b""
    """Its Origin-Realm, which a relay on the way may not be of."""


_BLANK = Entry()


class Store:
    """Entries by subscriber number, and the SQN of each (8 bytes a subscriber)."""

    def __init__(self, count: int) -> None:
        self.registered = 0
        """How many are registered."""
        self._entries: dict[int, Entry] = {}
        self._sqns = array("Q", bytes(8)) * count

    def get(self, n: int) -> Entry:
        """The entry, to read only: who has none is not registered and has no S-CSCF."""
        return self._entries.get(n, _BLANK)

    def change(
        self,
        n: int,
        *,
        state: State | None = None,
        server_name: str | None = None,
        pending: bool | None = None,
        scscf_host: bytes | None = None,
        scscf_realm: bytes | None = None,
    ) -> Entry:
        """Change what is given; an entry that says nothing any more is dropped."""
        entry = self._entries.get(n)
        if entry is None:
            entry = self._entries[n] = Entry()
        if state is not None:
            self.registered += (state is State.REGISTERED) - (entry.state is State.REGISTERED)
            entry.state = state
        if server_name is not None:
            entry.server_name = server_name
        if pending is not None:
            entry.pending = pending
        if scscf_host is not None:
            entry.scscf_host = scscf_host
        if scscf_realm is not None:
            entry.scscf_realm = scscf_realm
        if entry.state is State.NOT_REGISTERED and not entry.server_name and not entry.pending:
            del self._entries[n]
        return entry

    def __len__(self) -> int:
        """How many entries there are."""
        return len(self._entries)

    def draw(self, count: int, source: random.Random) -> list[int]:
        """So many registered subscribers, or all there are, at random."""
        few, many = count * 4 <= self.registered, self.registered * 4 >= len(self._sqns)
        if not (few and many):
            found = [n for n, one in self._entries.items() if one.state is State.REGISTERED]
            return source.sample(found, min(count, len(found)))
        # Every fourth hits or more: far cheaper than to walk all of a large population.
        chosen: dict[int, None] = {}
        while len(chosen) < count:
            n = source.randrange(len(self._sqns))
            if self.get(n).state is State.REGISTERED:
                chosen[n] = None
        return list(chosen)

    def next_sqn(self, n: int) -> int:
        """A new SQN: SEQ and IND each one further (TS 33.102 annex C.1.1.1, C.1.2).

        The first is SEQ 1, which a USIM that has seen none accepts.
        """
        last = self._sqns[n]
        seq = (last >> IND_BITS) + 1
        sqn = (seq << IND_BITS | (last + 1) & _IND_MASK) & _SQN_MASK
        self._sqns[n] = sqn
        return sqn

    def set_sqn(self, n: int, sqn: int) -> None:
        """Go on after this SQN: SQN_HE = SQN_MS (TS 33.102 §6.3.5), or a test's wish.

        ValueError if it is not a number of 48 bits.
        """
        if not 0 <= sqn <= _SQN_MASK:
            raise ValueError(f"SQN {sqn} is not a number of 48 bits")
        self._sqns[n] = sqn
