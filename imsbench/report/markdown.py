"""The report in Markdown, from the result alone: the same result gives the same bytes."""

from __future__ import annotations

from imsbench.kpi.thresholds import Threshold, parse_threshold
from imsbench.profile import Profile, spell_duration, spell_protection
from imsbench.report import account, tables
from imsbench.report.form import cell, plain, spell_bytes, spell_share, spell_time, table
from imsbench.report.result import RunResult, ThresholdResult
from imsbench.report.tables import Lines, name_of

_STATUS = {
    "complete": "The run is complete",
    "interrupted": "The run was interrupted",
    "target_died": "The target died within the run",
    "generator_failed": "The generator failed within the run",
}
_EXIT = {
    0: "kept",
    1: "a threshold broken, or what the target did above",
    2: "usage or profile error",
    3: "the generator cannot vouch for the run",
    4: "the target died",
    5: "the host lacks something",
    70: "a defect of imsbench",
    130: "interrupted",
}
_STATE = {"kept": "kept", "broken": "**broken**", "undefined": "undefined"}


def render(result: RunResult) -> str:
    """The whole report."""
    sections = (
        _head, _verdict, tables.registrations, tables.reregistrations, tables.deregistrations,
        tables.subscriptions, account.failures, _thresholds, account.generator, account.hss,
        account.expectations, _setup,
    )  # fmt: skip
    blocks = ("\n".join(section(result)).rstrip() for section in sections)
    return "\n\n".join(blocks) + "\n"


def title(result: RunResult) -> str:
    """What the numbers are of; a self-test says so."""
    match result.profile.target.kind:
        case "embedded":
            return "Self-test: reference core, not a product; shares this machine"
        case "null":
            return "Generator floor: null target, no core"
        case "external":
            return f"Measured capacity of {cell(result.profile.target.title)}"


def _head(result: RunResult) -> Lines:
    lasted = spell_duration(round((result.ended - result.started).total_seconds()))
    yield f"# {title(result)}"
    yield ""
    yield cell(result.profile.describe())
    yield ""
    yield f"Run `{result.id}`, {result.started:%Y-%m-%d %H:%M:%S} UTC, lasted {lasted}."


def _verdict(result: RunResult) -> Lines:
    yield "## Verdict"
    yield ""
    reason = f": {cell(result.reason).rstrip('.')}" if result.reason else ""
    yield f"- {_STATUS[result.status]}{reason}."
    ratios = [done.kpis.ratio("initial_registration_success_rate") for done in result.steps]
    succeeded, attempted = sum(r.part for r in ratios), sum(r.whole for r in ratios)
    yield f"- Initial registrations: {succeeded:,} of {attempted:,} succeeded."
    if result.thresholds:
        kept = sum(threshold.state == "kept" for threshold in result.thresholds)
        names = [f"`{plain(t.text)}` {t.state}" for t in result.thresholds if t.state != "kept"]
        others = f": {'; '.join(names)}" if names else ""
        yield f"- Thresholds: {kept} of {len(result.thresholds)} kept{others}."
    valid = sum(step.valid for step in result.steps)
    whole = "" if not result.reasons else "; not for the run as a whole"
    why = "" if result.valid else "; see “Generator health”"
    yield f"- Generator: vouches for {valid} of {len(result.steps)} steps{whole}{why}."
    for step, done in tables.pairs(result):
        for finding in done.findings:
            yield f"- Target: “{name_of(step)}”: {finding}."
    for finding in result.findings:
        yield f"- Target: {finding}"
    if result.self_test:
        yield "- A self-test shares its machine with the target and is no capacity of anything."
    yield f"- Exit code {result.exit_code}: {_EXIT.get(result.exit_code, 'unknown')}."


def _thresholds(result: RunResult) -> Lines:
    yield "## Thresholds"
    yield ""
    if not result.thresholds:
        yield "The profile has none."
        return
    titles = {done.index: name_of(step) for step, done in tables.pairs(result)}
    rows = []
    for judged in result.thresholds:
        broken = "; ".join(titles.get(index, f"step {index}") for index in judged.broken_in)
        worst = _worst(parse_threshold(judged.text), judged)
        rows.append([f"`{plain(judged.text)}`", _STATE[judged.state], worst, broken])
    yield from table(("Threshold", "Result", "Worst step", "Broken in"), rows, "llr")
    yield ""
    yield "A threshold must hold in every step in which its number is defined; a p99 from 100 samples on."


def _worst(threshold: Threshold, judged: ThresholdResult) -> str:
    """The value nearest to, or farthest beyond, the limit."""
    if not judged.steps:
        return "—"
    pick = max if threshold.sign.startswith("<") else min
    value = pick(judged.steps.values())
    if threshold.statistic == "count":
        return f"{value:,.0f}"
    return spell_time(value) if threshold.statistic else spell_share(value)


def _setup(result: RunResult) -> Lines:
    profile = result.profile
    rows = [["Version", f"imsbench {result.version}"], ["Target", _target(result)]]
    for host in result.hosts:
        cpu = f" ({host.cpu})" if host.cpu else ""
        memory = spell_bytes(host.memory_bytes)
        rows += [
            [f"Host, {host.role}", f"{host.cpus} CPUs{cpu}, {memory} of memory"],
            ["Operating system", f"{host.system}, {host.kernel}"],
            ["Open-file limit", f"{host.open_files:,}"],
        ]
        if host.python:
            rows.append(["Interpreter", host.python])
    workers = profile.generator.workers
    rows += [
        ["Load generator", f"{workers} worker process" + ("es" if workers != 1 else "")],
        ["Subscribers", f"{profile.subscribers.count:,}"],
        ["Phones", _phones(profile)],
        ["IPsec", _backends(result)],
        ["Registration expiry", _expiry(profile)],
        ["Re-registrations", _authentication(result)],
        ["Timeouts", _timeouts(profile)],
        ["HSS", _hss(result)],
        ["Arrivals", f"{profile.generator.arrivals}; fills are constant"],
        ["Seed", f"{result.seed}"],
    ]
    yield "## Test Setup"
    yield ""
    yield from table(("Item", "Value"), [[cell(item), cell(value)] for item, value in rows])


def _target(result: RunResult) -> str:
    target = result.profile.target
    if target.kind == "external":
        return f"{target.title} at {target.pcscf}"
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
    said += ["SIP over TCP", f"one IPv{phones.ip_version} address per phone"]
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
    return (
        f"registration {spell_duration(phones.registration_timeout)} for the whole attempt, other "
        f"requests {spell_duration(phones.transaction_timeout)} (UE value of TS 24.229: 128 s a "
        f"transaction); drain of a step at most {spell_duration(profile.generator.drain)}"
    )


def _hss(result: RunResult) -> str:
    if result.hss is None:
        return "Not simulated, or it did not live to report"
    mean = spell_time(account.hss_response_time(result.hss).mean)
    settings = result.profile.simulators.hss
    errors = settings.error_share if settings else 0.0
    failing = f"; {spell_share(errors)} of requests refused on purpose" if errors else ""
    return f"Simulated, over Cx, on the load generator: {mean} mean response time{failing}"
