"""Test Setup: what a row was measured with, each item with how it is known."""

from __future__ import annotations

from collections.abc import Iterator

from imsbench.profile import Profile, spell_duration, spell_protection
from imsbench.report import account, loads, system
from imsbench.report.form import DASH, spell_bytes, spell_share, spell_time
from imsbench.report.parts import SimulatorResult
from imsbench.report.result import RunResult
from imsbench.report.system import NOT_MEASURED, PROFILE, Row
from imsbench.report.tables import Lines, pairs

_SEEN = "measured: read from the system"


def setup(result: RunResult) -> Lines:
    """The table."""
    yield from system.rows_of("Test Setup", "Item", "setup", list(_rows(result)), result)


def _rows(result: RunResult) -> Iterator[Row]:
    profile = result.profile
    yield "Version", f"imsbench {result.version}", "measured: this program"
    external = profile.target.kind == "external"
    yield "Target", _target(result), "declared" if external else PROFILE
    yield from _machines(result)
    yield from _unread(result)
    workers = profile.generator.workers
    processes = f"{workers} worker process" + ("es" if workers != 1 else "")
    yield "Load generator", processes, PROFILE
    yield "Subscribers", f"{profile.subscribers.count:,}", PROFILE
    yield "Phones", _phones(profile), PROFILE
    yield "IPsec", _backends(result), "measured: what each end chose"
    yield "Registration expiry", _expiry(profile), PROFILE
    yield "Re-registrations", _authentication(result), "measured: challenges counted"
    yield "Timeouts", _timeouts(profile), PROFILE
    settings = profile.simulators
    hss_errors = settings.hss.error_share if settings.hss else 0.0
    yield _simulator("HSS", "Cx", result.hss, hss_errors, result)
    if any(step.calls for step, _ in pairs(result)):
        pcrf_errors = settings.pcrf.error_share if settings.pcrf else 0.0
        yield _simulator("Policy", "Rx", result.pcrf, pcrf_errors, result)
        yield "Media", "Not carried: calls are signalling only", PROFILE
    yield "Arrivals", _arrivals(profile), PROFILE
    yield from _loads(profile)
    yield "Seed", f"{result.seed}", PROFILE


def _arrivals(profile: Profile) -> str:
    """How arrivals are spread, with the steps that differ from what the generator is told."""
    usual: str = profile.generator.arrivals
    steps = profile.steps()
    said = [usual]
    said += (
        f"{step.arrivals} in “{step.title}”"
        for step in steps
        if step.kind not in ("fill", "hold") and step.arrivals != usual
    )
    drawn = [step for step in steps if step.kind == "fill" and step.arrivals == "poisson"]
    said.append("fills are constant" if not drawn else "some fills are Poisson")
    if any(step.points for step in steps):
        said.append("changing rates by the area under them")
    return "; ".join(said)


def _loads(profile: Profile) -> Iterator[Row]:
    """What storms, busy hours and loads over time are made of."""
    for step in profile.steps():
        if step.storm is not None:
            yield "Storm", f"{step.title}: {loads.how(step)}", PROFILE
    for phase in profile.phases:
        if phase.busy_hour is not None:
            hour = phase.busy_hour
            counts = ("answered", "busy", "unanswered", "refreshes", "reattaches", "power_cycles")
            said = ", ".join(f"{getattr(hour, name):g} {name.replace('_', ' ')}" for name in counts)
            times = f", all times {hour.scale:,g}" if hour.scale != 1 else ""
            yield "Busy hour", f"Per subscriber and hour: {said}{times}", PROFILE
        if phase.load is not None:
            names = ", ".join(phase.load.rates.given)
            where = phase.load.csv or "the profile"
            yield "Load over time", f"Rates of {where}, joined by straight lines: {names}", PROFILE


def _machines(result: RunResult) -> Iterator[Row]:
    for host in result.hosts:
        cpu = f" ({host.cpu})" if host.cpu else ""
        memory = spell_bytes(host.memory_bytes)
        yield f"Host, {host.role}", f"{host.cpus} CPUs{cpu}, {memory} of memory", _SEEN
        yield "Operating system", f"{host.system}, {host.kernel}", _SEEN
        yield "Open-file limit", f"{host.open_files:,}", _SEEN
        if host.python:
            yield "Interpreter", host.python, _SEEN


def _unread(result: RunResult) -> Iterator[Row]:
    """Rows of the published form that a run cannot read of an external target's machine."""
    if result.profile.target.kind != "external":
        yield "Network", "Virtual links between network namespaces of this machine", PROFILE
        yield "Disk", "Not used: the target keeps its state in memory", PROFILE
        return
    declared = {row.item for row in result.profile.target.declared if row.table == "setup"}
    for item in ("Host, target", "Network", "Disk"):
        if item not in declared:
            yield item, DASH, f"{NOT_MEASURED}: the target's machine is not read by this run"


def _target(result: RunResult) -> str:
    target = result.profile.target
    if target.kind == "external":
        return f"{target.title} at {target.pcscf}"
    if target.kind == "lab":
        return f"{target.title}, on the same machine"
    delay = target.delay
    said = [f"{target.title} of imsbench {result.version}, on the same machine"]
    if delay.mean:
        said.append(f"each response delayed ({delay.kind}, mean {spell_duration(delay.mean)})")
    if target.loss_share:
        said.append(f"{spell_share(target.loss_share)} of requests dropped")
    return "; ".join(said)


def _phones(profile: Profile) -> str:
    phones = profile.phones
    said = ["Simulated: IMS-AKA"]
    if phones.ipsec == "off":
        said.append("no IPsec")
    else:
        only = " with integrity protection only" if phones.ealgs == ("null",) else ""
        said.append(f"IPsec{only} ({spell_protection(phones)})")
    by = "TCP" if phones.transport == "tcp" else "UDP (requests over 1,300 bytes: TCP)"
    each = "two" if any(step.moves for step in profile.steps()) else "one"
    addresses = "addresses" if each == "two" else "address"
    said += [f"SIP over {by}", f"{each} IPv{phones.ip_version} {addresses} per phone"]
    if phones.subscribe_reg_event:
        said.append("registration event subscription")
    if phones.tcp_idle_close is None:
        said.append("connections held open")
    else:
        said.append(f"idle connections closed after {spell_duration(phones.tcp_idle_close)}")
    if phones.keepalive == "crlf":
        said.append(f"CRLF keep-alive every {spell_duration(phones.keepalive_interval)}")
    return ", ".join(said)


def _backends(result: RunResult) -> str:
    if result.profile.phones.ipsec == "off":
        return "off"
    names = sorted({worker.backend for worker in result.workers}) or ["unknown"]
    said = f"phones: {', '.join(names)} (asked: {result.profile.phones.ipsec})"
    if result.core and result.core.backend:
        asked = result.profile.target.ipsec
        said += f"; target: {result.core.backend}" + (f" (asked: {asked})" if asked else "")
    return said


def _expiry(profile: Profile) -> str:
    asked = f"{profile.phones.expires:,} s asked"
    if profile.target.kind == "external":
        return f"{asked}, granted as the target decides"
    target = profile.target
    return f"{asked}, {target.expires:,} s granted at most, {target.min_expires:,} s at least"


def _authentication(result: RunResult) -> str:
    parts = [done.kpis.procedures["reregistration"] for done in result.steps]
    attempted, challenges = sum(p.attempted for p in parts), sum(p.challenges for p in parts)
    if not attempted:
        return "None came up"
    if not challenges:
        return "Not re-authenticated"
    return f"Re-authenticated: {challenges:,} challenges in {attempted:,} attempts"


def _timeouts(profile: Profile) -> str:
    phones = profile.phones
    said = [
        f"registration {spell_duration(phones.registration_timeout)} for the whole attempt",
        f"other requests {spell_duration(phones.transaction_timeout)} (UE value of TS 24.229: 128 s a "
        "transaction)",
    ]
    waits = sorted({step.calls.no_answer for step in profile.steps() if step.calls})
    if waits:
        first = spell_duration(phones.transaction_timeout)
        longest = " or ".join(map(spell_duration, waits))
        said.append(f"INVITE {first} to the first response, then {longest} to the last")
    drain = spell_duration(profile.generator.drain)
    return f"{', '.join(said)}; drain of a step at most {drain}"


def _simulator(
    item: str, interface: str, measured: SimulatorResult | None, errors: float, result: RunResult
) -> Row:
    if measured is None:
        return item, "Not simulated, or it did not live to report", PROFILE
    mean = spell_time(account.merged_times(measured.commands).mean)
    what = "Simulated PCRF" if item == "Policy" else "Simulated"
    where = "on this machine" if result.self_test else "on the load generator"
    failing = f"; {spell_share(errors)} of requests refused on purpose" if errors else ""
    said = f"{what}, over {interface}, {where}: {mean} mean response time{failing}"
    return item, said, "measured: at the simulator"
