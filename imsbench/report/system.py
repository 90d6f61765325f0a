"""Memory, Limits and Host Requirements: each row measured (and how), declared, or not measured and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from imsbench.profile import Step, spell_duration
from imsbench.report import usage
from imsbench.report.form import DASH, cell, spell_bytes, spell_rate, table
from imsbench.report.parts import EndedCalls, TargetUsage
from imsbench.report.result import RunResult, StepResult
from imsbench.report.tables import Lines, Pair, name_of, pairs

Row = tuple[str, str, str]
"""Item, value, how it is known."""

PROFILE = "profile"
NOT_MEASURED = "not measured"


def rows_of(
    title: str,
    item: str,
    name: Literal["memory", "limits", "host", "setup"],
    rows: Sequence[Row],
    result: RunResult,
) -> Lines:
    """A table with what the target's file declares behind what was measured."""
    declared = [
        (row.item, row.value, "declared")
        for row in result.profile.target.declared
        if row.table == name
    ]
    yield f"## {title}"
    yield ""
    cells = [[cell(text) for text in row] for row in (*rows, *declared)]
    yield from table((item, "Value", "How it is known"), cells)


def memory(result: RunResult) -> Lines:
    """The published rows: idle, per registered subscriber, in the kernel, of ended calls."""
    rows = [_idle(result), _per_subscriber(result), _kernel(result), _ended_calls(result)]
    yield from rows_of("Memory", "Item", "memory", rows, result)


def _missing(result: RunResult) -> str:
    why = usage.reason_missing(result) or "it was not asked for in this run"
    return why if why == usage.SELF_TEST else f"{NOT_MEASURED}: {why}"


def _idle_bytes(result: RunResult) -> int | None:
    if result.self_test or result.idle is None:
        return None
    return result.idle.memory_rss_bytes


def _idle(result: RunResult) -> Row:
    size = _idle_bytes(result)
    if size is None:
        return "Resident memory, idle", DASH, _missing(result)
    return "Resident memory, idle", spell_bytes(size), "measured: before any load"


def _per_subscriber(result: RunResult) -> Row:
    item = "Resident memory per registered subscriber"
    idle = _idle_bytes(result)
    found = _registered_memory(result)
    if idle is None or found is None:
        return item, DASH, _missing(result)
    step, done, size = found
    each = (size - idle) / done.registered_after
    how = f"measured: (at the end of “{name_of(step)}” - idle) / {done.registered_after:,}"
    return item, spell_bytes(round(each)) if each > 0 else DASH, how


def _registered_memory(result: RunResult) -> tuple[Step, StepResult, int] | None:
    """The last step without calls that has most phones registered, and the target's memory in it."""
    return _most_registered_usage(result, lambda used: used.memory_rss_bytes)


def _most_registered_usage(
    result: RunResult, size_of: Callable[[TargetUsage], int | None]
) -> tuple[Step, StepResult, int] | None:
    best = None
    for step, done in pairs(result):
        used = usage.usage_of(result, done)
        size = size_of(used) if used else None
        if step.calls is not None or size is None or not done.registered_after:
            continue
        if best is None or done.registered_after >= best[1].registered_after:
            best = step, done, size
    return best


def _kernel(result: RunResult) -> Row:
    item = "Kernel memory per registered subscriber"
    if result.self_test:
        return item, DASH, usage.SELF_TEST
    idle = result.idle.kernel_memory_bytes if result.idle is not None else None
    found = _most_registered_usage(result, lambda used: used.kernel_memory_bytes)
    if idle is None or found is None:
        why = "only of a target with a kernel of its own that this run can read"
        return item, DASH, f"{NOT_MEASURED}: {why}"
    step, done, size = found
    each = (size - idle) / done.registered_after
    how = (
        f"measured: (at the end of “{name_of(step)}” - idle) / {done.registered_after:,}, of Slab, "
        "Percpu, PageTables, KernelStack and pages of sockets"
    )
    return item, spell_bytes(round(each)) if each > 0 else DASH, how


def _ended_calls(result: RunResult) -> Row:
    item, found = "Memory of ended calls", result.ended_calls
    if result.self_test or found is None:
        why = usage.SELF_TEST
        if not result.self_test:
            why = f"{NOT_MEASURED}: no calls were watched after their end (calls.watch_release)"
        return item, DASH, why
    if found.released_s is not None:
        within = spell_duration(max(1.0, round(found.released_s)))
        return item, f"Released within {within}", "measured: until 5 % of the growth was left"
    if not found.again:
        return (
            item,
            "Not released while it was watched",
            "measured; no second batch of calls decides",
        )
    said = {"reused": "Kept, and reused by new calls", "grows": "Kept, and grows with new calls"}
    return item, said[found.again], f"measured: a second identical batch of calls{_amounts(found)}"


def _amounts(found: EndedCalls) -> str:
    """What the calls took, left and took again, in words."""
    if found.growth_bytes is None or found.kept_bytes is None or found.added_bytes is None:
        return ""
    watched = f" after {spell_duration(found.watched_s)}" if found.watched_s else ""
    added = "nothing"
    if found.added_bytes > 0:
        added = spell_bytes(found.added_bytes)
    return (
        f" added {added}; {spell_bytes(max(0, found.kept_bytes))} of the first one's "
        f"{spell_bytes(found.growth_bytes)} were left{watched}"
    )


def limits(result: RunResult) -> Lines:
    """What the run found: most registered, highest rates kept and first broken, connections."""
    rows = [
        _most_registered(result),
        _highest("Registration rate", result, _is_registration),
        _highest("Call rate", result, _is_calls),
        _connections(result),
    ]
    yield from rows_of("Limits", "Limit", "limits", rows, result)
    yield ""
    yield (
        "- **Kept**: the generator vouches for the step, and every threshold of the profile holds in it; "
        "where none is of a rate that was measured in it, every attempt succeeded."
    )


def kept(result: RunResult, done: StepResult) -> bool:
    """Whether a step's load was carried as the profile wants it."""
    if not done.valid or not done.complete:
        return False
    if any(done.index in threshold.broken_in for threshold in result.thresholds):
        return False
    judged = [one for one in result.thresholds if done.index in one.steps]
    # What a time says of those that succeeded does not say how many may fail.
    return any(one.of_rate for one in judged) or not done.kpis.totals()["failed"]


def _most_registered(result: RunResult) -> Row:
    item = "Registered subscribers"
    whole = [
        done
        for step, done in pairs(result)
        if done.complete and done.registered_after == step.registered
    ]
    judged = [done.registered_after for done in whole if done.valid]
    if not judged:
        why = "no step ended with all its phones registered"
        if whole:
            why = "the generator vouches for no step that ended with all its phones registered"
        return item, DASH, f"{NOT_MEASURED}: {why}"
    return item, f"{max(judged):,} tested", "measured: all of a step's phones registered at its end"


def _is_registration(step: Step) -> bool:
    return step.kind in ("fill", "cycle")


def _is_calls(step: Step) -> bool:
    return step.calls is not None


def _highest(item: str, result: RunResult, fits: Callable[[Step], bool]) -> Row:
    tried = sorted((pair for pair in pairs(result) if fits(pair[0])), key=lambda p: p[0].rate)
    if not tried:
        return item, DASH, f"{NOT_MEASURED}: not part of this profile"
    return item, "; ".join(_kept_and_broken(tried, result)), "measured: each rate of the profile"


def _kept_and_broken(tried: Sequence[Pair], result: RunResult) -> Iterator[str]:
    good = [step.rate for step, done in tried if kept(result, done)]
    if good:
        yield f"{spell_rate(max(good))}/s kept"
    for step, done in tried:
        if not kept(result, done):
            what = "broken" if done.valid and done.complete else "not to be judged"
            yield f"{spell_rate(step.rate)}/s is the first {what}"
            return
    yield "none broken"


def _connections(result: RunResult) -> Row:
    item = "SIP TCP connections"
    registered = sum(worker.registered for worker in result.workers)
    held = sum(worker.connections for worker in result.workers)
    if not registered:
        return item, DASH, f"{NOT_MEASURED}: no phone was registered in the end"
    value = f"{held:,} held by {registered:,} phones: {held / registered:.3g} each"
    return item, value, "measured: at the phones, in the end"


def host(result: RunResult) -> Lines:
    """What the target's host must have: nothing of it can be measured from outside."""
    declared = {row.item for row in result.profile.target.declared if row.table == "host"}
    rows: list[Row] = []
    if "Receive queues" not in declared:
        why = "the target's machine is not read by this run"
        if result.profile.target.kind != "external":
            why = "all traffic stays within this machine"
        rows.append(("Receive queues", DASH, f"{NOT_MEASURED}: {why}"))
    yield from rows_of("Host Requirements", "Requirement", "host", rows, result)
