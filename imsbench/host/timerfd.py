"""A timerfd that wakes epoll at an absolute time, to the microsecond.

epoll's own timeout is rounded to whole milliseconds, which alone would make a phone up to 1 ms
late. ``os.timerfd_create`` comes with Python 3.13; until then libc is called directly.
"""

from __future__ import annotations

import ctypes
import os

_CLOCK_MONOTONIC = 1
_TFD_NONBLOCK = os.O_NONBLOCK
_TFD_CLOEXEC = os.O_CLOEXEC
_TFD_TIMER_ABSTIME = 1


class _TimeSpec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _TimerSpec(ctypes.Structure):
    _fields_ = (("interval", _TimeSpec), ("value", _TimeSpec))


_libc = ctypes.CDLL(None, use_errno=True)


class TimerFd:
    """One timer on CLOCK_MONOTONIC, the clock of time.monotonic()."""

    __slots__ = ("_pointer", "_spec", "fd")

    def __init__(self) -> None:
        self.fd: int = _libc.timerfd_create(_CLOCK_MONOTONIC, _TFD_NONBLOCK | _TFD_CLOEXEC)
        if self.fd < 0:
            number = ctypes.get_errno()
            raise OSError(number, f"timerfd_create: {os.strerror(number)}")
        self._spec = _TimerSpec()
        self._pointer = ctypes.byref(self._spec)

    def arm(self, at: float) -> None:
        """Become readable at this time, seconds; a time that has passed wakes at once."""
        seconds = int(at)
        self._spec.value.seconds = seconds
        # 0 would disarm it.
        self._spec.value.nanoseconds = max(1, int((at - seconds) * 1e9))
        if _libc.timerfd_settime(self.fd, _TFD_TIMER_ABSTIME, self._pointer, None):
            number = ctypes.get_errno()
            raise OSError(number, f"timerfd_settime: {os.strerror(number)}")

    def acknowledge(self) -> None:
        """Read the expiry, so that the descriptor is quiet until it is armed again."""
        try:
            os.read(self.fd, 8)
        except BlockingIOError:
            return

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self.fd)
