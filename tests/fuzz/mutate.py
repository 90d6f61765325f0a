"""A seeded mutation engine: from good inputs to hostile ones, the same for the same seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

_NUMBERS = (
    b"0", b"-1", b"00000000000000000001", b"255", b"256", b"65535", b"65536", b"2147483647",
    b"2147483648", b"4294967295", b"4294967296", b"9999999999", b"10000000000",
    b"18446744073709551616", b"1e999", b"0x10", b"1.5", b"9" * 400, b"9" * 5000,
)  # fmt: skip
_WORDS = (
    b"\0", b"\r", b"\n", b"\r\n", b"\r\n\r\n", b"\r\n ", b"\t", b" ", b'"', b"\\", b'\\"', b"<", b">",
    b",", b";", b":", b"=", b"@", b"[", b"]", b"%", b"%00", b"*", b"\x7f", b"\x85", b"\xa0", b"\xff",
    b"\xc0\x80", b"\xed\xa0\x80", b"\xef\xbf\xbe", b"\xef\xbf\xbf", b"\xe2\x80\xa8", b"\xf4\x90\x80\x80",
    b"\xd9\xa1", b"\xc2\xb2", b"\xef\xbb\xbf", b"A" * 300,
)  # fmt: skip
_EDGES = (0, 1, 2, 3, 4, 7, 8, 12, 16, 20, 127, 128, 255, 256, 0x7FFF, 0xFFFF, 0xFFFFFF, 0x7FFFFFFF)
_DIGITS = frozenset(b"0123456789")
_BREAKS = b"\n,;<>\"' "


Reshape = Callable[[random.Random, bytes], bytes]
"""Changes an input in terms of its structure; gives back what has none as it is."""


class Mutator:
    """Makes inputs out of a pool of seeds; what turned out to be new is added to the pool."""

    MAX_POOL = 400

    def __init__(
        self,
        source: random.Random,
        seeds: Sequence[bytes],
        words: Sequence[bytes] = (),
        largest: int = 65_536,
        reshape: Reshape | None = None,
    ) -> None:
        self._random = source
        self._seeds = len(seeds)
        # Long ones say nothing that short ones do not, and would make all that follow slow.
        self._longest_kept = 2 * max(map(len, seeds), default=0)
        self._pool = list(seeds)
        self._words = (*words, *_WORDS)
        self._largest = largest
        self._reshape = reshape
        self._changes = (
            self._flip, self._flip, self._insert_word, self._insert_word, self._replace_by_word,
            self._replace_number, self._replace_number, self._delete, self._delete, self._repeat,
            self._copy, self._splice, self._cut, self._swap, self._poke, self._piece,
        )  # fmt: skip

    def keep(self, data: bytes) -> None:
        """Mutate this one further: it made a reader say something new."""
        if len(data) > self._longest_kept:
            return
        if len(self._pool) < self._seeds + self.MAX_POOL:
            self._pool.append(data)
        else:  # the seeds themselves always stay
            self._pool[self._random.randrange(self._seeds, len(self._pool))] = data

    def make(self) -> bytes:
        """The next input."""
        choose = self._random.random
        # A third starts from the seeds, which lead deepest; the rest from all that made a difference.
        size = self._seeds if choose() < 0.35 else len(self._pool)
        data = self._pool[int(choose() * size)]
        if self._reshape is not None and choose() < 0.6:
            data = self._reshape(self._random, data)
            if choose() < 0.7:
                return data[: self._largest]
        rounds = 1
        while choose() < 0.55 and rounds < 12:
            rounds += 1
        changes = self._changes
        for _ in range(rounds):
            data = changes[int(choose() * len(changes))](data)
        return data[: self._largest]

    def _at(self, data: bytes) -> int:
        return int(self._random.random() * (len(data) + 1))

    def _span(self, data: bytes) -> tuple[int, int]:
        """A stretch of the data: mostly short, at times ending where a part ends."""
        start = self._at(data)
        length = int(self._random.random() ** 3 * min(len(data) - start, 400)) + 1
        if self._random.random() < 0.3:
            mark = _BREAKS[int(self._random.random() * len(_BREAKS))]
            found = data.find(mark, start)
            return start, found if found >= 0 else start + length
        return start, start + length

    def _word(self) -> bytes:
        return self._words[int(self._random.random() * len(self._words))]

    def _flip(self, data: bytes) -> bytes:
        if not data:
            return b"\0"
        at = int(self._random.random() * len(data))
        if self._random.random() < 0.5:
            value = data[at] ^ 1 << int(self._random.random() * 8)
        else:
            value = int(self._random.random() * 256)
        return data[:at] + bytes((value,)) + data[at + 1 :]

    def _insert_word(self, data: bytes) -> bytes:
        at = self._at(data)
        return data[:at] + self._word() + data[at:]

    def _replace_by_word(self, data: bytes) -> bytes:
        start, end = self._span(data)
        return data[:start] + self._word() + data[end:]

    def _replace_number(self, data: bytes) -> bytes:
        """A run of digits becomes another number."""
        start = self._at(data)
        while start < len(data) and data[start] not in _DIGITS:
            start += 1
        end = start
        while end < len(data) and data[end] in _DIGITS:
            end += 1
        number = _NUMBERS[int(self._random.random() * len(_NUMBERS))]
        return data[:start] + number + data[end:]

    def _delete(self, data: bytes) -> bytes:
        start, end = self._span(data)
        return data[:start] + data[end:]

    def _repeat(self, data: bytes) -> bytes:
        start, end = self._span(data)
        part = data[start:end]
        times = 2 ** int(self._random.random() * 12) if self._random.random() < 0.1 else 2
        times = min(times, 1 + self._largest // (len(part) + 1))
        return data[:start] + part * times + data[end:]

    def _copy(self, data: bytes) -> bytes:
        start, end = self._span(data)
        at = self._at(data)
        return data[:at] + data[start:end] + data[at:]

    def _splice(self, data: bytes) -> bytes:
        """The head of one and the tail of another."""
        other = self._pool[int(self._random.random() * len(self._pool))]
        return data[: self._at(data)] + other[self._at(other) :]

    def _piece(self, data: bytes) -> bytes:
        """A stretch of another input, somewhere."""
        other = self._pool[int(self._random.random() * len(self._pool))]
        start, end = self._span(other)
        at = self._at(data)
        return data[:at] + other[start:end] + data[at:]

    def _cut(self, data: bytes) -> bytes:
        return data[: self._at(data)]

    def _swap(self, data: bytes) -> bytes:
        """Two neighbouring stretches change places."""
        start, middle = self._span(data)
        end = middle + (middle - start)
        return data[:start] + data[middle:end] + data[start:middle] + data[end:]

    def _poke(self, data: bytes) -> bytes:
        """A binary number of one to four bytes, big endian, at or near an edge."""
        size = 1 + int(self._random.random() * 4)
        value = _EDGES[int(self._random.random() * len(_EDGES))]
        if self._random.random() < 0.3:
            value = max(0, len(data) + int(self._random.random() * 9) - 4)
        at = self._at(data)
        return data[:at] + (value & (1 << 8 * size) - 1).to_bytes(size, "big") + data[at + size :]
