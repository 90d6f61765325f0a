"""A file that is written from a thread of its own: whoever hands bytes over never waits for a disk."""

from __future__ import annotations

import os
import queue
import stat
import threading
from pathlib import Path


class FileWriter:
    """Appends what it is handed, in order; what exceeds its bounds is refused and left to be counted."""

    def __init__(
        self, path: Path, *, queue_bytes: int, file_bytes: int, private: bool = False
    ) -> None:
        """A new file in place of an old one; OSError if that cannot be.

        queue_bytes: how much may wait for the disk; file_bytes: how large the file may become;
        private: only its owner may read it.
        """
        mode = 0o600 if private else 0o644
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        if private and stat.S_ISREG(os.fstat(self._descriptor).st_mode):
            os.fchmod(self._descriptor, mode)  # an old file keeps its mode
        self._queue_bytes = queue_bytes
        self._file_bytes = file_bytes
        # Each counter has one writing thread, so neither needs a lock.
        self._taken = 0
        self._done = 0
        self._queue: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self.problem = ""
        """Why the disk refused a write; empty: it did not."""
        self._thread = threading.Thread(target=self._write, name=f"write {path.name}", daemon=True)
        self._thread.start()

    def put(self, data: bytes) -> bool:
        """Have it written whole; False if it does not fit, or if the disk has refused before."""
        taken = self._taken + len(data)
        if taken > self._file_bytes or taken - self._done > self._queue_bytes or self.problem:
            return False
        self._taken = taken
        self._queue.put(data)
        return True

    def close(self, timeout_s: float = 2.0) -> None:
        """Write out what waits, as far as the time allows, and close the file."""
        self._queue.put(b"")
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            self.problem = self.problem or f"the disk took more than {timeout_s:g} s"

    def _write(self) -> None:
        while data := self._queue.get():
            try:
                left = memoryview(data)
                while left and not self.problem:
                    left = left[os.write(self._descriptor, left) :]
            except OSError as error:
                self.problem = error.strerror or str(error)
            self._done += len(data)
        os.close(self._descriptor)
