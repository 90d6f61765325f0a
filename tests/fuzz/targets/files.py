"""Files that people hand in: profiles and results."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Hashable

import yaml

from imsbench.histogram import Histogram
from imsbench.profile import Profile, ProfileError, parse_profile
from imsbench.report.markdown import render
from imsbench.report.result import ResultError, RunResult
from tests.fuzz.harness import Run, Target, kind_of
from tests.fuzz.reshape import reshape_json
from tests.kpi.outcomes import success
from tests.report.results import hand_made, histogram

_SMALL = b"name: a\nsubscribers: {count: 9}\nphases:\n- fill: {rate: 1/s, to: 9}\n- cycle: {rate: [1/s]}\n"
_MORE = b"""name: b
subscribers: {count: 9, mnc: "01", k: "00112233445566778899aabbccddeeff"}
target: {expires: 24s, min_expires: 20s, delay: {mean: 1ms}}
phases: [fill: {rate: 6/min, to: 9}, hold: {duration: 1m}, hold: {duration: 2m}]
thresholds: [registration_time.p99 < 1s]
generator: {arrivals: poisson}
"""
_PROFILE_WORDS = (
    b"- ", b": ", b"\n  ", b"{", b"}", b"[", b"]", b"[" * 50, b"{a: " * 50, b"? ", b"| ", b"> ",
    b"&a ", b"*a", b"!!int ", b"!!bool ", b"!!float ", b"!!timestamp ", b"!!null ", b"!!binary ",
    b"!!python/name:os.system ", b"!x ", b"%YAML 1.1\n", b"---\n", b"...\n", b"<<: ", b"~",
    b".inf", b".nan", b"1_000", b"0x" + b"f" * 4000, b"1:30", b"2001-01-01", b"9999-99-99",
    b'"\\ud800"', b'"\\0"', b"# ", b"1e400", b"yes", b"-1", b"=", b"hold: {duration: 1s}",
    b"seed: ", b"phones: {", b"simulators: {hss: {", b"1d", b"99999999999d",
)  # fmt: skip
_RESULT_WORDS = (
    b"null", b"true", b"NaN", b"Infinity", b"-Infinity", b"1e999", b"[]", b"{}", b'""',
    b'"\\ud800"', b"[" * 2000, b'{"a":' * 2000, b'"schema_version": 1', b'"hdr": "', b"-0",
    b"1e-400", b'"\\u0000"', b"| x", b"```",
)  # fmt: skip


def _profile() -> Run:
    def run(data: bytes) -> Hashable:
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError:  # a file of this kind is refused before it is parsed
            text = data.decode("latin-1")
        try:
            profile = parse_profile(text)
        except ProfileError as error:
            return kind_of(error), min(len(error.problems), 6)
        profile.describe()
        assert Profile.model_validate(profile.model_dump()) == profile, "dumped, it differs"
        return "profile", len(profile.steps())

    return run


def _result() -> Run:
    def run(data: bytes) -> Hashable:
        try:
            result = RunResult.from_json(data)
        except ResultError as error:
            return kind_of(error)
        text = result.to_json()
        again = RunResult.from_json(text)
        assert again.to_json() == text, "written and read again, it differs"
        report = render(result)
        assert render(again) == report
        return "result", len(result.steps), len(report) > 2000

    return run


def _histogram() -> Run:
    def run(data: bytes) -> Hashable:
        """The input is what stands compressed in the text: header and counts."""
        packed = zlib.compress(data, 1)
        blob = struct.pack(">II", 0x1C849314, len(packed)) + packed
        text = base64.b64encode(blob).decode()
        fields: dict[str, object] = {
            "hdr": text, "count": 1, "out_of_range": 0, "sum_s": 0.1, "sum_squares": 0.1,
            "min_s": 0.1, "max_s": 0.1,
        }  # fmt: skip
        for count in (1, 3):
            try:
                read = Histogram.from_json(fields | {"count": count})
            except ValueError as error:
                kind = kind_of(error)
                continue
            assert 0.0 <= read.quantile(0.0) <= read.quantile(0.99) < 2**32 * 1e-6
            read.merge(read)
            assert Histogram.from_json(read.to_json()).count == 2 * count
            return count
        return kind

    return run


def _histogram_seeds() -> list[bytes]:
    made = (histogram(0.1), histogram(0.1, 0.2, 3599.0), histogram(*(0.001 for _ in range(1000))))
    return [zlib.decompress(base64.b64decode(str(one.to_json()["hdr"]))[8:]) for one in made]


def _profile_seeds() -> list[bytes]:
    """Small ones, as blocks and as flows: PyYAML reads some 100 KB a second."""
    plain = [_SMALL, _MORE]
    return [*plain, *(json.dumps(yaml.safe_load(text)).encode() for text in plain)]


def _result_seeds() -> list[bytes]:
    """Small ones: a whole result of a run is 50 KB, most of it histograms."""
    result = hand_made()
    one = result.steps[0]
    one.kpis = type(one.kpis)()
    one.kpis.record(success("registration", 0.01))
    one.health[0].loop_lag = histogram(0.001)
    for name, stats in list((result.hss.commands if result.hss else {}).items()):
        if name != "UAR" and result.hss:
            del result.hss.commands[name]
        else:
            stats.response_time, stats.count = histogram(0.002), 1
    result.steps, result.thresholds = [one], result.thresholds[:1]
    result.thresholds[0].steps = {0: 1.0}
    compact = result.model_dump_json().encode()
    result.steps, result.hss = [], None
    return [compact, result.model_dump_json().encode()]


TARGETS = [
    Target(
        "profile", "YAML profiles", _profile, _profile_seeds, _PROFILE_WORDS, reshape=reshape_json
    ),
    Target(
        "result", "result files, and their reports", _result, _result_seeds, _RESULT_WORDS,
        reshape=reshape_json,
    ),
    Target("histogram", "histograms of a result file", _histogram, _histogram_seeds),
]  # fmt: skip
