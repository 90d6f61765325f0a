"""Inputs that were findings once stay harmless; a short run of every target finds no new one."""

from __future__ import annotations

import pathlib
import random
import re
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulators.framing import MessageReader
from tests.fuzz.harness import BlowUp, Hang, Run, Target, corpus, fuzz, replay
from tests.fuzz.mutate import Mutator
from tests.fuzz.reshape import reshape_diameter, reshape_json
from tests.fuzz.targets import TARGETS

SHORT = 2_000
SLOW = {"profile": 600, "core": 1_000, "core-sas": 1_000, "flows": 1_000}
"""Targets that take a millisecond an input get fewer."""

KEPT = [(name, path) for name in TARGETS for path in corpus(name)]


@pytest.mark.parametrize(("name", "path"), KEPT, ids=lambda value: getattr(value, "name", value))
def test_kept_inputs(name: str, path: pathlib.Path) -> None:
    replay(TARGETS[name], path.read_bytes())


@pytest.mark.parametrize("name", TARGETS)
def test_a_short_run_finds_nothing(name: str) -> None:
    report = fuzz(TARGETS[name], SLOW.get(name, SHORT), seed=7, limit_s=10.0)
    assert not report.findings, "\n".join(map(str, report.findings))
    assert report.kinds > 1


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_are_taken(name: str) -> None:
    """Each target's good inputs lead to different outcomes: the fuzzing starts inside the readers."""
    target = TARGETS[name]
    assert len({replay(target, seed) for seed in target.seeds()}) > 1


@settings(max_examples=200, deadline=None)
@given(data=st.binary(max_size=300), name=st.sampled_from(sorted(TARGETS)))
def test_any_bytes(data: bytes, name: str) -> None:
    replay(TARGETS[name], data)


class TestHarness:
    """The tool finds what it is made to find."""

    @staticmethod
    def target(run: Run) -> Target:
        return Target("own", "a reader made to fail", lambda: run, lambda: [b"seed", b"other"])

    def test_an_exception(self) -> None:
        def run(data: bytes) -> int:
            if b"\0" in data:
                raise KeyError("defect")
            return len(data) % 7

        report = fuzz(self.target(run), 2_000, seed=1)
        assert [str(finding) for finding in report.findings] == ["KeyError: 'defect'"]
        assert b"\0" in report.findings[0].data
        assert report.inputs == 2_000

    def test_a_hang(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def run(data: bytes) -> int:
            while True:
                pass

        monkeypatch.setattr("tests.fuzz.harness.HANG_S", 0.05)
        report = fuzz(self.target(run), 1, seed=1)
        assert isinstance(report.findings[0].error, Hang)

    def test_a_blow_up(self, monkeypatch: pytest.MonkeyPatch) -> None:
        peaks = iter((0, 0, 100 << 20, 100 << 20))
        monkeypatch.setattr("tests.fuzz.harness._peak_bytes", lambda: next(peaks))
        report = fuzz(self.target(lambda data: 0), 2, seed=1)
        assert isinstance(report.findings[0].error, BlowUp)

    def test_the_same_seed_makes_the_same_inputs(self) -> None:
        def made(seed: int) -> list[bytes]:
            mutator = Mutator(random.Random(seed), [b"INVITE sip:a SIP/2.0\r\n", b"x" * 50])
            return [mutator.make() for _ in range(300)]

        assert made(1) == made(1)
        assert made(1) != made(2)
        assert len(set(made(1))) > 250

    def test_structure_survives(self) -> None:
        source = random.Random(1)
        json_like = b'{"a": [1, "x", {"b": null}], "c": 2.5}'
        assert len({reshape_json(source, json_like) for _ in range(200)}) > 50
        seeds = TARGETS["hss"].seeds()
        changed = {reshape_diameter(source, seeds[0]) for _ in range(200)}
        assert len(changed) > 50
        for stream in changed:  # whatever the AVPs are, the messages around them are whole
            assert sum(map(len, MessageReader().feed(stream))) == len(stream)

    def test_the_command_line_reports(self) -> None:
        command = [sys.executable, "-m", "tests.fuzz", "nonce", "--count", "50", "--seed", "3"]
        told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        assert re.match(r"nonce +50 inputs +[0-9.]+ s .*/s .* 0 findings\n", told.stdout)
