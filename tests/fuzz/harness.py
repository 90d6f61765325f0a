"""Runs one target against many inputs, under a watch on its time and its memory."""

from __future__ import annotations

import contextlib
import hashlib
import pathlib
import random
import re
import resource
import signal
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from types import FrameType

from tests.fuzz.mutate import Mutator, Reshape

CORPUS = pathlib.Path(__file__).parents[1] / "data" / "corpus"
HANG_S = 1.0
"""Processor seconds that one input may take: other processes on the machine do not count."""
BLOW_UP_BYTES = 48 << 20
"""By how much one input may raise the process's peak of resident memory."""

MOST_KINDS = 20_000
"""Kinds of outcome told apart: beyond them nothing is news."""

_PARTICULARS = re.compile(r"\d+|'.*|\".*|\[.*|, got .*", re.DOTALL)

Run = Callable[[bytes], Hashable]
"""Feeds one input; returns what kind of thing came of it. Raises only for what is a finding."""


@dataclass(frozen=True, slots=True)
class Target:
    """One reader of untrusted bytes."""

    name: str
    """On the command line, and of its corpus folder."""
    reads: str
    """What is fuzzed, in words."""
    make: Callable[[], Run]
    """A fresh instance of it."""
    seeds: Callable[[], Sequence[bytes]]
    """Good inputs to start from."""
    words: tuple[bytes, ...] = ()
    """What its language is made of, for insertion."""
    largest: int = 65_536
    """Bytes of the longest input."""
    reshape: Reshape | None = None
    """Mutation by structure, beside that by bytes."""


class Hang(BaseException):
    """One input took too long. No Exception, so that no reader swallows it."""


class BlowUp(AssertionError):
    """One input took too much memory, or left too much behind."""


@dataclass(slots=True)
class Finding:
    """An input that a reader did not treat as documented."""

    data: bytes
    error: BaseException

    def __str__(self) -> str:
        return f"{type(self.error).__name__}: {str(self.error)[:200]}"


@dataclass(slots=True)
class Report:
    """What a run of a target came to."""

    target: str
    inputs: int = 0
    elapsed_s: float = 0.0
    cpu_s: float = 0.0
    slowest_s: float = 0.0
    """Processor time of the slowest input."""
    grown_bytes: int = 0
    """Peak of resident memory at the end, beyond that at the start."""
    kinds: int = 0
    """Different kinds of outcome that were seen."""
    findings: list[Finding] = field(default_factory=list)
    """The first of each kind."""

    def __str__(self) -> str:
        rate = self.inputs / self.elapsed_s if self.elapsed_s else 0.0
        return (
            f"{self.target:<14} {self.inputs:>9} inputs  {self.elapsed_s:8.1f} s "
            f"({self.cpu_s:.1f} s cpu)  {rate:8.0f}/s  slowest {self.slowest_s * 1e3:6.1f} ms  "
            f"memory +{self.grown_bytes >> 20} MiB  {self.kinds} kinds  "
            f"{len(self.findings)} findings"
        )


def fuzz(
    target: Target, count: int, seed: int, *, limit_s: float = 0.0, most_findings: int = 20
) -> Report:
    """Feed up to ``count`` inputs, in at most ``limit_s`` seconds (0: no limit); the same for one seed."""
    mutator = Mutator(
        random.Random(f"{target.name}|{seed}"),
        target.seeds(),
        target.words,
        target.largest,
        target.reshape,
    )
    run = target.make()
    report = Report(target.name)
    kinds: set[Hashable] = set()
    seen: set[str] = set()
    began, cpu_began, peak = time.perf_counter(), time.process_time(), _peak_bytes()
    peak_began = peak
    with _watchdog() as watched:
        while report.inputs < count and len(report.findings) < most_findings:
            if limit_s and time.perf_counter() - began > limit_s:
                break
            data = mutator.make()
            report.inputs += 1
            before = time.process_time()
            try:
                kind = watched(run, data)
                now, peak = peak, _peak_bytes()
                if peak - now > BLOW_UP_BYTES:
                    raise BlowUp(f"{peak - now >> 20} MiB")
            except (Exception, Hang) as error:
                place = _place_of(error)
                if place not in seen:
                    seen.add(place)
                    report.findings.append(Finding(data, error))
                run = target.make()
                continue
            finally:
                report.slowest_s = max(report.slowest_s, time.process_time() - before)
            if kind not in kinds and len(kinds) < MOST_KINDS:
                kinds.add(kind)
                mutator.keep(data)
    report.kinds = len(kinds)
    report.elapsed_s = time.perf_counter() - began
    report.cpu_s = time.process_time() - cpu_began
    report.grown_bytes = peak - peak_began
    return report


def kind_of(error: Exception) -> str:
    """An error's text as a kind of outcome: without the numbers and quotations in it."""
    return _PARTICULARS.sub("", str(error))[:50]


def replay(target: Target, data: bytes) -> Hashable:
    """Feed one input to a fresh instance, under the watchdog; raises what a finding is."""
    run = target.make()
    with _watchdog() as watched:
        return watched(run, data)


def save(finding: Finding, target: str) -> pathlib.Path:
    """Keep a finding's input in the corpus."""
    folder = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / hashlib.sha256(finding.data).hexdigest()[:16]
    path.write_bytes(finding.data)
    return path


def corpus(target: str) -> list[pathlib.Path]:
    """The kept inputs of a target."""
    folder = CORPUS / target
    return sorted(path for path in folder.iterdir()) if folder.is_dir() else []


@contextlib.contextmanager
def _watchdog() -> Iterator[Callable[[Run, bytes], Hashable]]:
    """A way to call that raises Hang in what takes too long; the old handler comes back at the end."""

    def bark(number: int, frame: FrameType | None) -> None:
        raise Hang(f"over {HANG_S:g} s")

    def watched(run: Run, data: bytes) -> Hashable:
        signal.setitimer(signal.ITIMER_PROF, HANG_S)
        try:
            return run(data)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0.0)

    before = signal.signal(signal.SIGPROF, bark)
    try:
        yield watched
    finally:
        signal.signal(signal.SIGPROF, before)


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def _place_of(error: BaseException) -> str:
    """Where it was raised: one finding for each place."""
    trace = error.__traceback__
    lines = []
    while trace is not None:
        lines.append(f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}")
        trace = trace.tb_next
    if isinstance(error, Hang):
        return f"Hang {lines[2:4]}"
    return f"{type(error).__name__} {lines[-3:]}"
