"""What the target used of its machine: CPU and memory, or a dash and why."""

from __future__ import annotations

from imsbench.report.form import DASH, plain, spell_bytes, spell_cores
from imsbench.report.parts import TargetUsage
from imsbench.report.result import RunResult, StepResult

CPU = (
    "user and system time of the target's process tree per wall time, over the evaluated time; in "
    "parentheses its whole host's, idle left out (kernel IPsec is there)."
)
MEMORY = "of the target: RSS if it is one process, the sum of PSS if it is several; mean of the last 30 s."
SELF_TEST = "not measured in a self-test: the target is no product and shares this machine"


def cpu(result: RunResult, done: StepResult) -> str:
    """Cores the target used in a step, and its whole host."""
    used = usage_of(result, done)
    if used is None or used.cpu_cores is None:
        return DASH
    host = "" if used.host_cpu_cores is None else f" ({spell_cores(used.host_cpu_cores)})"
    return f"{spell_cores(used.cpu_cores)}{host}"


def memory(result: RunResult, done: StepResult) -> str:
    """The target's resident memory in a step."""
    used = usage_of(result, done)
    if used is None or used.memory_rss_bytes is None:
        return DASH
    return spell_bytes(used.memory_rss_bytes)


def usage_of(result: RunResult, done: StepResult) -> TargetUsage | None:
    """What a table may show of a step; None in a self-test."""
    return None if result.self_test else done.sut


def why_missing(result: RunResult) -> str:
    """Why there is a dash, as a sentence; empty if CPU and memory are all there."""
    reason = reason_missing(result)
    return f"A dash: {reason}." if reason else ""


def reason_missing(result: RunResult) -> str:
    """Why CPU and memory were not measured in some step; empty if they were in all."""
    if result.self_test:
        return SELF_TEST
    steps = result.asked
    incomplete = [
        done.sut
        for done in result.steps
        if _is_incomplete(done.sut, fill=steps[done.index].kind == "fill")
    ]
    if not incomplete:
        return ""
    notes = sorted({plain(used.note).rstrip(".") for used in incomplete if used and used.note})
    return "; ".join(notes) or "the target's processes were not read in this run"


def _is_incomplete(used: TargetUsage | None, *, fill: bool) -> bool:
    """Whether something is missing; CPU is not measured in fills."""
    if used is None or used.memory_rss_bytes is None:
        return True
    return used.cpu_cores is None and not fill
