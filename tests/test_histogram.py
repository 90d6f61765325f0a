"""Histograms: exact beside the buckets, merged without loss, nothing lost in silence."""

from __future__ import annotations

import base64
import math
import random
import statistics
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imsbench.histogram import HIGHEST_US, Histogram


def _of(*durations_s: float) -> Histogram:
    histogram = Histogram()
    for duration_s in durations_s:
        histogram.record(duration_s)
    return histogram


def test_empty() -> None:
    empty = Histogram()
    assert empty.count == 0
    for value in (empty.mean, empty.deviation, empty.minimum, empty.maximum, empty.quantile(0.99)):
        assert math.isnan(value)


def test_exact_beside_the_buckets() -> None:
    histogram = _of(0.010, 0.020, 0.0600004)
    assert histogram.count == 3
    assert histogram.mean == pytest.approx(0.0900004 / 3)
    assert (histogram.minimum, histogram.maximum) == (0.010, 0.0600004)
    assert histogram.deviation == pytest.approx(statistics.pstdev([0.010, 0.020, 0.0600004]))


def test_quantiles_have_three_digits() -> None:
    source = random.Random(1)
    samples = sorted(source.lognormvariate(-4, 1) for _ in range(20_000))
    histogram = _of(*samples)
    for q in (0.5, 0.9, 0.99, 0.999):
        exact = samples[math.ceil(q * len(samples)) - 1]
        assert histogram.quantile(q) == pytest.approx(exact, rel=2e-3)
    assert histogram.quantile(1.0) == pytest.approx(histogram.maximum, rel=1e-3)


@given(st.lists(st.floats(1e-6, 3600), min_size=1, max_size=60), st.integers(1, 5))
def test_merge_of_parts_equals_the_whole(samples: list[float], parts: int) -> None:
    whole, merged = _of(*samples), Histogram()
    for part in range(parts):
        merged.merge(_of(*samples[part::parts]))
    assert (merged.count, merged.minimum, merged.maximum) == (
        whole.count, whole.minimum, whole.maximum,
    )  # fmt: skip
    assert merged.mean == pytest.approx(whole.mean)
    for q in (0.0, 0.5, 0.99, 1.0):
        assert merged.quantile(q) == whole.quantile(q)


def test_merging_empty_ones_changes_nothing() -> None:
    histogram = _of(0.5)
    histogram.merge(Histogram())
    assert (histogram.count, histogram.minimum, histogram.maximum) == (1, 0.5, 0.5)
    other = Histogram()
    other.merge(histogram)
    assert (other.count, other.minimum, other.quantile(0.5)) == (1, 0.5, histogram.quantile(0.5))


def test_out_of_range_is_kept_and_counted() -> None:
    histogram = _of(0.0, 1e-7)
    assert (histogram.count, histogram.out_of_range) == (2, 0)
    assert histogram.quantile(1.0) == pytest.approx(1e-7)
    histogram = _of(-0.001, 7200.0, 3600.0)
    assert (histogram.count, histogram.out_of_range) == (3, 2)
    assert histogram.quantile(1.0) == pytest.approx(HIGHEST_US / 1e6, rel=1e-3)
    assert histogram.maximum == 7200.0


@given(st.lists(st.floats(0, 4000), max_size=30))
def test_json_is_read_back_and_merges(samples: list[float]) -> None:
    histogram = _of(*samples)
    again = Histogram.from_json(histogram.to_json())
    assert again.to_json() == histogram.to_json()
    again.merge(histogram)
    assert again.count == 2 * histogram.count
    assert again.quantile(0.5) == histogram.quantile(0.5) or not samples


@pytest.mark.parametrize(
    "change",
    [
        {"hdr": "not base64"},
        {"hdr": ""},
        {"count": 3},
        {"count": "many"},
        {"min_s": None},
        {"sum_s": None},
        {"sum_s": math.nan},
        {"sum_squares": math.inf},
        {"max_s": math.inf},
        {"min_s": math.inf},
        {"min_s": math.nan},
        {"out_of_range": "9" * 30},
    ],
)
def test_broken_json_is_refused(change: dict[str, object]) -> None:
    data = _of(0.5, 1.0).to_json()
    with pytest.raises(ValueError, match="not a histogram"):
        Histogram.from_json(data | change)
    with pytest.raises(ValueError, match="not a histogram"):
        Histogram.from_json({})


@pytest.mark.parametrize(
    ("digits", "lowest", "highest", "counts"),
    [
        (5, 1, 2**62, b"\x02"),  # would take 64 MiB
        (3, 1, 1000, b"\x02"),
        (3, 1, HIGHEST_US, bytes(200 << 20)),  # 200 KB that unpack to 200 MB
    ],
)
def test_what_would_take_memory_is_refused_unread(
    digits: int, lowest: int, highest: int, counts: bytes
) -> None:
    header = struct.pack(">IIIIQQd", 0x1C849313, 1, 0, digits, lowest, highest, 1.0)
    packed = zlib.compress(header + counts, 1)
    blob = struct.pack(">II", 0x1C849314, len(packed)) + packed
    data = _of(0.5).to_json() | {"hdr": base64.b64encode(blob).decode()}
    with pytest.raises(ValueError, match="it has another range, or is too large"):
        Histogram.from_json(data)


@pytest.mark.parametrize("count", [100, 150, 151, 441, 900])
def test_a_quantiles_rank_is_rounded_up(count: int) -> None:
    histogram = Histogram()
    for n in range(1, count + 1):
        histogram.record(n * 1e-6)
    assert histogram.quantile(0.99) * 1e6 == pytest.approx(math.ceil(0.99 * count - 1e-9))


def test_no_quantile_is_above_the_longest() -> None:
    histogram = _of(1.0, 10.048339721)
    assert histogram.quantile(1.0) == histogram.maximum == 10.048339721


def test_samples_above_a_duration_are_counted() -> None:
    histogram = Histogram()
    for duration_s in (0.010, 0.020, 0.030, 0.040):
        histogram.record(duration_s)
    assert [histogram.count_above(at) for at in (0.001, 0.020, 0.0305, 0.040, 9.0)] == [
        4, 2, 1, 0, 0,
    ]  # fmt: skip
    assert Histogram().count_above(0.1) == 0
