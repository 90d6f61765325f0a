"""The calibration as Markdown: every case with its rows, what was allowed, and what it all means."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from imsbench.calibrate.calibration import Done
from imsbench.calibrate.row import Row
from imsbench.report.form import DASH, cell, table
from imsbench.report.parts import Host

_HEADERS = ("Injected", "What", "Truth", "Measured", "Error", "Allowed", "From send", "OK")

_NOTES = (
    "- **Truth** of a count: what the process that injected it says that it struck. Where it had "
    "whole hundreds of messages to strike, that is its share to the one, in a row of its own.",
    "- **Truth** of a time: the same quantile of those attempts of the same run that were held back less, "
    "with the difference added: the delays that were drawn, less what the others were held. They alternate, "
    "drawn by seed, so that whatever the machine does meanwhile it does to both. The others are held too, "
    "because what sleeps and wakes takes longer than what goes on, by 0.7 ms where this was measured.",
    "- **Truth** of a stall: an attempt that is due while the core stands still waits for its end, and "
    "then takes what the median of the run took; the plan and the two instants give every attempt its "
    "time. That attempts wait for one another afterwards is left out, hence 5 %.",
    "- **Measured**: times count from the instant at which an attempt was due; **From send** is the "
    "same quantile from the first byte sent, as published KPIs count.",
    "- **Allowed**: counts exact, 1 ms at p50, 5 ms at p99, 5 % of a stall.",
)


def render(done: Sequence[Done], hosts: Sequence[Host]) -> str:
    """The table, the machine it was made on, and the notes."""
    lines = ["# Calibration", "", *_introduction(done, hosts), ""]
    rows = [_cells(one, number, row) for one in done for number, row in enumerate(one.rows)]
    lines += [*table(_HEADERS, rows, "llrrrrrl"), ""]
    for one in done:
        lines += [f"- Not vouched for, “{cell(one.case.title)}”: {cell(r)}" for r in one.reasons]
    return "\n".join([*lines, *_NOTES]) + "\n"


def summary(done: Sequence[Done]) -> str:
    """How many rows are right, in a sentence."""
    rows = [row for one in done for row in one.rows]
    right = sum(row.ok for row in rows)
    unvouched = sum(bool(one.reasons) for one in done)
    vouched = (
        "" if not unvouched else f"; the generator does not vouch for {unvouched} of the cases"
    )
    return f"{right} of {len(rows)} rows are right, in {len(done)} cases{vouched}."


def _introduction(done: Sequence[Done], hosts: Sequence[Host]) -> Iterator[str]:
    yield (
        "Known truths through the whole chain (phones, IPsec, reference core, HSS, PCRF, result), made "
        f"by `imsbench calibrate`. {summary(done)}"
    )
    yield ""
    loads = dict.fromkeys(one.case.profile.describe() for one in done)
    yield from (f"- {cell(load)}" for load in loads)
    for host in hosts:
        yield f"- {cell(host.system)}, {cell(host.kernel)}, {host.cpus} CPUs {cell(host.cpu)}".rstrip()


def _cells(one: Done, number: int, row: Row) -> list[str]:
    spell = _count if row.unit == "count" else _time
    title = cell(one.case.title) if not number else ""
    allowed = "exact" if not row.allowed else _time(row.allowed)
    from_send = DASH if row.from_send is None else _time(row.from_send)
    error = spell(row.error)
    sign = "+" if row.error > 0 else ""
    return [
        title, cell(row.what), spell(row.truth), spell(row.measured), f"{sign}{error}", allowed,
        from_send, "yes" if row.ok else "**no**",
    ]  # fmt: skip


def _count(value: float) -> str:
    return DASH if value != value else f"{value:,.0f}"


def _time(seconds: float) -> str:
    """Milliseconds to a hundredth: what is compared here is smaller than what reports show."""
    return DASH if seconds != seconds else f"{seconds * 1e3:,.2f} ms"
