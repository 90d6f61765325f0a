"""The table of what was injected on purpose: what, when, how many, and what the phones saw of it."""

from __future__ import annotations

from collections.abc import Iterator

from imsbench.profile import TimedFault
from imsbench.report.form import DASH, spell_rate, spell_share, spell_time, table
from imsbench.report.parts import SteadyFaultResult, TimedFaultResult
from imsbench.report.result import RunResult
from imsbench.report.tables import Lines, name_of

_PROCEDURES = {"REGISTER": "registration", "SUBSCRIBE": "subscription", "INVITE": "call"}
_TITLES = {
    "hss_restart": "HSS restarted",
    "pcrf_restart": "PCRF restarted",
    "core_stall": "target stands still",
    "tcp_reset": "connections of phones reset",
    "rtr": "RTR",
    "ppr": "PPR",
    "rar": "RAR, bearer released",
    "asr": "ASR",
}


def injected(result: RunResult) -> Lines:
    """Steady faults, then those at an instant; nothing where none was asked for."""
    rows = [_steady(result, fault) for fault in result.steady_faults]
    rows += [_timed(result, one) for one in result.timed_faults]
    if not rows:
        return
    yield "## Injected faults"
    yield ""
    headers = ("Fault", "When", "Asked", "Injected", "Of", "Failed", "Seen")
    yield from table(headers, rows, "lllrrrr")
    yield ""
    yield (
        "- **When**: “all along”, or seconds from the beginning of the load, as the process that did it "
        "measured; a dash: it was not done, or whoever was to do it did not live to tell."
    )
    yield (
        "- **Injected**, **Of**: messages struck, of those that might have been: of each hundred exactly "
        "the share, at places drawn from the seed; first calls made before the load are not among them."
    )
    yield "- **Failed**: those that could not be struck: not there, or the far end did not answer."
    yield (
        "- **Seen**: of an error of the target, attempts that failed at the phones by this status, in all "
        "steps and repairs."
    )


def _steady(result: RunResult, fault: SteadyFaultResult) -> list[str]:
    what = f"{fault.what} {fault.code}" if fault.code else fault.what
    if fault.delays is not None:
        what += f", {spell_time(fault.delays.mean)} on average"
    of = ", ".join(fault.names) or "all messages"
    asked = f"{spell_share(fault.share)}"
    seen = _seen(result, fault)
    return [
        f"{fault.where}: {what} ({of})", "all along", asked, f"{fault.struck:,}", f"{fault.of:,}",
        DASH, DASH if seen is None else f"{seen:,}",
    ]  # fmt: skip


def _seen(result: RunResult, fault: SteadyFaultResult) -> int | None:
    """Attempts that failed by the status of a target's error; None where that cannot be told."""
    procedures = {_PROCEDURES.get(name, "") for name in fault.names}
    if fault.where != "target" or fault.what != "error" or "" in procedures:
        return None
    return sum(
        count
        for procedure, cause, count in _failures(result)
        if procedure in procedures and cause == str(fault.code)
    )


def _failures(result: RunResult) -> Iterator[tuple[str, str, int]]:
    """Procedure, cause and count of what failed, in steps and repairs."""
    parts = [done.kpis for done in result.steps]
    parts += [done.repair.kpis for done in result.steps if done.repair is not None]
    for kpis in parts:
        for procedure, part in kpis.procedures.items():
            for (_, cause), count in part.failures.items():
                yield procedure, cause, count
        for (_, cause), count in kpis.sessions.failures.items():
            yield "call", cause, count


def _timed(result: RunResult, one: TimedFaultResult) -> list[str]:
    fault = result.profile.faults[one.fault]
    when = DASH
    if one.at_s is not None:
        when = f"at {spell_time(one.at_s)}"
        when += f" for {spell_time(one.lasted_s)}" if one.lasted_s is not None else ", not ended"
    if one.step is not None:
        when += f" ({name_of(result.profile.steps()[one.step])})"
    done = f"{one.done:,}" if one.at_s is not None else DASH
    return [_TITLES[fault.what], when, _asked(fault), done, DASH, f"{one.failed:,}", DASH]


def _asked(fault: TimedFault) -> str:
    if fault.rate is not None:
        return f"{spell_rate(fault.rate)}/s for {spell_time(fault.duration)}"
    if fault.count is not None:
        return f"{fault.count:,} at once"
    if fault.share is not None:
        return f"{spell_share(fault.share)} at once"
    return f"for {spell_time(fault.duration)}"
