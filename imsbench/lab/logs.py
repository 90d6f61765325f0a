"""Logs of a core's servers: files that are kept short."""

from __future__ import annotations

import os
from pathlib import Path

SUFFIX = ".log"
_LIMIT_BYTES = 8 << 20
"""A log that has grown beyond is cut to its end …"""
_KEPT_BYTES = 1 << 20
"""… of this size."""


class LogFile:
    """What one server writes."""

    def __init__(self, folder: Path, name: str) -> None:
        """Empty at first; name: the server's."""
        self.path = folder / f"{name}{SUFFIX}"
        """The file."""
        self.path.touch()

    def append(self, data: bytes) -> None:
        """Add what came by another way than the server's own writing."""
        with self.path.open("ab") as log:
            log.write(data)

    def tail(self, size: int = 16_384) -> str:
        """Its end, so many bytes."""
        with self.path.open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - size))
            return log.read().decode(errors="replace")

    def trim(self) -> None:
        """Keep it from filling memory: it is written to by appending, so it may be cut."""
        if self.path.stat().st_size > _LIMIT_BYTES:
            kept = self.tail(_KEPT_BYTES)
            os.truncate(self.path, 0)
            self.append(kept.encode())
