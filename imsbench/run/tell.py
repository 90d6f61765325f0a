"""What a run tells of its steps while it goes: titles, counts once a second, one line at the end."""

from __future__ import annotations

from imsbench.host.control import Message
from imsbench.outcome import Procedure
from imsbench.profile import Step
from imsbench.run.events import Progress
from imsbench.run.record import StepRecord

_SUMMARISED: tuple[tuple[Procedure, str], ...] = (
    ("registration", "registrations"),
    ("reregistration", "refreshes"),
)


def progress(
    title: str, elapsed_s: float, expected_s: float, ticks: dict[str, Message]
) -> Progress:
    """The counts of all workers' last ticks together."""

    def total(key: str) -> int:
        return sum(int(tick.get(key, 0)) for tick in ticks.values())

    return Progress(
        title=title,
        elapsed_s=elapsed_s,
        expected_s=expected_s,
        registered=total("registered"),
        registrations=total("registrations"),
        registrations_succeeded=total("registrations_succeeded"),
        refreshes=total("refreshes"),
        refreshes_succeeded=total("refreshes_succeeded"),
        calls=total("calls"),
        calls_succeeded=total("calls_succeeded"),
        in_progress=total("in_progress"),
        failed=total("failed"),
    )


def title_of(step: Step) -> str:
    """The step in words, with its rate."""
    match step.kind:
        case "cycle":
            done = "" if step.reattach == 1 else "cycled "
            return f"{step.title}, {done}at {step.spelled_rate}"
        case "calls":
            return f"{step.title} at {step.spelled_rate}"
        case _:
            return step.title


def repair_title(step: Step, registered: int) -> str:
    """The repair before a step in words."""
    return f"repair: from {registered:,} to {step.registered_before:,} registered"


def summary(record: StepRecord) -> str:
    """One line on a step that has ended: who is registered, its registrations, refreshes and calls."""
    parts = [f"{record.registered_after:,} registered"]
    for procedure, name in _SUMMARISED:
        kpis = record.kpis.procedures[procedure]
        if kpis.attempted:
            mean_ms = kpis.histogram("time").mean * 1e3
            mean = f", {mean_ms:.3g} ms on average" if kpis.succeeded else ""
            parts.append(f"{kpis.succeeded:,} of {kpis.attempted:,} {name} succeeded{mean}")
    calls = record.kpis.sessions
    if calls.attempted:
        setup = calls.histogram("setup_time")
        mean = f", set up in {setup.mean * 1e3:.3g} ms on average" if setup.count else ""
        parts.append(f"{calls.planned:,} of {calls.attempted:,} calls ended as planned{mean}")
    return "; ".join(parts)
