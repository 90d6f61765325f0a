"""The simulators: what HSS and PCRF answered, and how fast."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from imsbench.histogram import Histogram
from imsbench.report.form import (
    cell,
    spell_time,
    table,
)
from imsbench.report.health import p99
from imsbench.report.parts import CommandResult, SimulatorResult
from imsbench.report.result import RunResult
from imsbench.report.tables import Lines, pairs


def hss(result: RunResult) -> Lines:
    """The HSS simulator's response time: what was configured and what was achieved."""
    settings = result.profile.simulators.hss
    configured_s = settings.response_time.mean if settings else 0.0
    yield from _simulator("HSS", result.hss, configured_s)
    if result.hss is not None and result.core is not None:
        yield from _lag("the core", result.core.loop_lag)


def pcrf(result: RunResult) -> Lines:
    """The PCRF simulator's response time, its sessions, and what was wrong with its requests."""
    if result.pcrf is None and not any(step.calls for step, _ in pairs(result)):
        return
    settings = result.profile.simulators.pcrf
    configured_s = settings.response_time.mean if settings else 0.0
    yield from _simulator("PCRF", result.pcrf, configured_s)
    if result.pcrf is None:
        return
    yield (
        f"- **AF sessions of calls**: {result.pcrf.most_media_sessions:,} at most at once, "
        f"{result.pcrf.media_sessions:,} left in the end."
    )
    if wrong := result.pcrf.wrong:
        said = "; ".join(f"{cell(name)}: {count:,}" for name, count in sorted(wrong.items()))
        yield f"- **Wrong in requests**: {said}."


def _simulator(name: str, measured: SimulatorResult | None, configured_s: float) -> Lines:
    yield f"## {name} simulator"
    yield ""
    if measured is None:
        yield "None, or it did not live to report."
        return
    headers = ("Command", "Count", "Results", "Configured mean", "Mean", "p99", "max")
    rows = []
    for command, done in sorted(measured.commands.items()):
        time = done.response_time
        said = ", ".join(f"{code}: {count:,}" for code, count in sorted(done.results.items()))
        row = [command, f"{done.count:,}", cell(said), spell_time(configured_s)]
        rows.append([*row, spell_time(time.mean), spell_time(p99(time)), spell_time(time.maximum)])
    yield from table(headers, rows, "lrlrrrr")
    yield ""
    yield (
        "- **Response time**: from the last byte of the request read to the first byte of the answer "
        "written, injected delay included."
    )
    yield from _lag(f"the {name}", measured.loop_lag)


def _lag(name: str, lag: Histogram) -> Iterator[str]:
    if lag.count:
        yield (
            f"- **Loop lag of {name}**: a timer of its process every 20 ms was late by "
            f"{spell_time(p99(lag))} at p99, by {spell_time(lag.maximum)} at most. Response "
            "times cannot show it: what stands still has not read the request."
        )


def merged_times(commands: Mapping[str, CommandResult]) -> Histogram:
    """A simulator's response time over all commands."""
    merged = Histogram()
    for command in commands.values():
        merged.merge(command.response_time)
    return merged
