"""Latency histograms that merge: counts in HDR buckets, never percentiles of percentiles.

A histogram holds durations in whole microseconds from 1 us to 1 h with three significant digits.
HdrHistogram refuses a value outside its range by returning False; here it is clamped *and*
counted in ``out_of_range``, so that no sample goes missing in silence.
"""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections.abc import Mapping

from hdrh.histogram import HdrHistogram

LOWEST_US = 1
HIGHEST_US = 3_600_000_000
DIGITS = 3

_PREFIX_SIZE = 8  # cookie and length, before what is compressed
_HEADER = struct.Struct(">III I QQ d")  # cookie, length, offset, digits, lowest, highest, ratio
_LARGEST = 1 << 20  # bytes unpacked: all buckets with the highest counts take a quarter of it


class Histogram:
    """Durations in seconds; exact count, sum, minimum and maximum beside the buckets."""

    __slots__ = ("_buckets", "_max_s", "_min_s", "_sum_s", "_sum_squares", "count", "out_of_range")

    def __init__(self) -> None:
        self._buckets = HdrHistogram(LOWEST_US, HIGHEST_US, DIGITS)
        self.count = 0
        self.out_of_range = 0
        self._sum_s = 0.0
        self._sum_squares = 0.0
        self._min_s = math.inf
        self._max_s = 0.0

    def record(self, duration_s: float) -> None:
        """Add one duration in seconds; what is below 1 us counts as 1 us, above 1 h as 1 h."""
        value = round(duration_s * 1e6)
        if not LOWEST_US <= value <= HIGHEST_US:
            if value < 0 or value > HIGHEST_US:
                self.out_of_range += 1
            value = min(max(value, LOWEST_US), HIGHEST_US)
        self._buckets.record_value(value)
        self.count += 1
        self._sum_s += duration_s
        self._sum_squares += duration_s * duration_s
        self._min_s = min(self._min_s, duration_s)
        self._max_s = max(self._max_s, duration_s)

    def quantile(self, q: float) -> float:
        """The duration in seconds that a share q (0..1) of the samples does not exceed; NaN if empty."""
        if not self.count:
            return math.nan
        # HdrHistogram rounds the rank to the nearest; a share that is not exceeded rounds up.
        rank = max(1, math.ceil(q * self.count - 1e-9))
        held_s = float(self._buckets.get_value_at_percentile(100.0 * rank / self.count)) / 1e6
        return min(held_s, self._max_s)  # a bucket's upper end may lie beyond the longest

    def count_above(self, duration_s: float) -> int:
        """Samples above this duration in seconds, to the three digits that are kept of each."""
        if not self.count or duration_s >= self._max_s:
            return 0
        limit = self._buckets.get_highest_equivalent_value(round(duration_s * 1e6)) / 1e6
        return sum(count for time_s, count in self.buckets() if time_s > limit)

    def buckets(self) -> list[tuple[float, int]]:
        """Durations in seconds, rising, and how many samples each stands for."""
        recorded = self._buckets.get_recorded_iterator()
        return [
            (item.value_iterated_to / 1e6, int(item.count_at_value_iterated_to))
            for item in recorded
        ]

    @property
    def mean(self) -> float:
        """Arithmetic mean in seconds; NaN if empty."""
        return self._sum_s / self.count if self.count else math.nan

    @property
    def deviation(self) -> float:
        """Standard deviation in seconds (population); NaN if empty."""
        if not self.count:
            return math.nan
        return math.sqrt(max(0.0, self._sum_squares / self.count - self.mean**2))

    @property
    def minimum(self) -> float:
        """Smallest sample in seconds; NaN if empty."""
        return self._min_s if self.count else math.nan

    @property
    def maximum(self) -> float:
        """Largest sample in seconds; NaN if empty."""
        return self._max_s if self.count else math.nan

    def merge(self, other: Histogram) -> None:
        """Add all samples of another histogram."""
        self._buckets.add(other._buckets)
        self.count += other.count
        self.out_of_range += other.out_of_range
        self._sum_s += other._sum_s
        self._sum_squares += other._sum_squares
        self._min_s = min(self._min_s, other._min_s)
        self._max_s = max(self._max_s, other._max_s)

    def to_json(self) -> dict[str, object]:
        """Everything needed to merge again: HdrHistogram's own base64 form and the exact sums."""
        return {
            "hdr": self._buckets.encode().decode("ascii"),
            "count": self.count,
            "out_of_range": self.out_of_range,
            "sum_s": self._sum_s,
            "sum_squares": self._sum_squares,
            "min_s": self._min_s if self.count else None,
            "max_s": self._max_s if self.count else None,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> Histogram:
        """The inverse of to_json; ValueError if the data is not of its form."""
        histogram = cls()
        try:
            histogram._buckets = _decode(str(data["hdr"]))
            histogram.count = int(str(data["count"]))
            histogram.out_of_range = int(str(data["out_of_range"]))
            histogram._sum_s = float(str(data["sum_s"]))
            histogram._sum_squares = float(str(data["sum_squares"]))
            if histogram.count:
                histogram._min_s = float(str(data["min_s"]))
                histogram._max_s = float(str(data["max_s"]))
        except Exception as error:  # the decoder raises zlib, base64, struct and its own errors
            raise ValueError(f"not a histogram: {type(error).__name__}: {error}") from error
        if histogram._buckets.get_total_count() != histogram.count:
            raise ValueError("not a histogram: its count differs from its buckets")
        sums = [histogram._sum_s, histogram._sum_squares, histogram._max_s]
        if histogram.count:
            sums.append(histogram._min_s)
        if not all(map(math.isfinite, sums)) or not 0 <= histogram.out_of_range < 2**63:
            raise ValueError("not a histogram: a sum is no number")
        return histogram


def _decode(text: str) -> HdrHistogram:
    """HdrHistogram's own form, of our range and digits; any exception if it is not.

    Its decoder unpacks and allocates whatever it is told to, so it is looked at before.
    """
    packed = base64.b64decode(text, validate=True)[_PREFIX_SIZE:]
    unpacker = zlib.decompressobj()
    header = _HEADER.unpack_from(unpacker.decompress(packed, _LARGEST))
    if unpacker.unconsumed_tail or header[3:6] != (DIGITS, LOWEST_US, HIGHEST_US):
        raise ValueError("it has another range, or is too large")
    return HdrHistogram.decode(text)
