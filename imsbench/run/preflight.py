"""Before a load: what it needs of this host, with the arithmetic, and what the host lacks."""

from __future__ import annotations

from imsbench.host import limits
from imsbench.profile import Profile, Step
from imsbench.run import configs, network
from imsbench.run.exits import HOST_LACKS, RunRefused

PROCEDURE_S = 0.010
"""Least time that a phone's de-registration and registration take, against the fastest target."""


def needs(profile: Profile) -> limits.Needs:
    """What the profile's load asks of this host."""
    phones = profile.phones
    protected = phones.ipsec != "off"
    return limits.Needs(
        phones=max(step.registered for step in profile.steps()),
        workers=profile.generator.workers,
        ip_version=phones.ip_version,
        connections_per_phone=_sockets_per_phone(profile),
        addresses_per_phone=_addresses_per_phone(profile),
        embedded=profile.target.kind in ("embedded", "null"),
        tun=configs.needs_tun(profile),
        port_uc_first=phones.port_uc_first,
        port_uc_count=phones.port_uc_count,
        other_ports=(phones.port_us, phones.clear_port) if protected else (),
        shortest_period_s=_shortest_period_s(profile) if protected else 0.0,
        renewals=_renewals(profile),
    )


def findings(profile: Profile) -> list[limits.Finding]:
    """Every need of the profile's load, met or not."""
    asked = needs(profile)
    found = limits.check(asked, limits.read_host(asked))
    if profile.target.kind == "external":
        lacking = network.forwarding_advice(profile)
        found.append(
            limits.Finding(
                what="forwarding",
                needed=1,
                available=0 if lacking else 1,
                arithmetic=f"from the phones to {configs.pcscf(profile)[0]}",
                advice=lacking,
                words=("on", "off"),
            )
        )
    return found


def refuse_if_lacking(profile: Profile) -> None:
    """RunRefused with everything that this host lacks for the profile's load."""
    if text := limits.refusal(findings(profile)):
        raise RunRefused(text, HOST_LACKS)


def _sockets_per_phone(profile: Profile) -> int:
    """Protected: one connection each way (TS 33.203 §7.1). In clear all goes over the phone's own one."""
    connections = 2 if profile.phones.ipsec != "off" else 1
    if profile.phones.transport == "tcp":
        return connections
    # UDP sockets likewise, and connections both ways for what is too large for them.
    return connections + 2


def _shortest_period_s(profile: Profile) -> float:
    """Least time between two new SA sets of one phone, on average over the phones; 0: never again."""
    periods = [
        # A phone under way is passed over: no rate has it register faster than it can.
        max(step.registered / rate, PROCEDURE_S)
        for step in _parts(profile)
        if (rate := _renewal_rate(step))
    ]
    if profile.target.reauthenticate:
        periods.append(min(profile.target.expires, profile.phones.expires) / 2)
    return min(periods, default=0.0)


def _renewals(profile: Profile) -> int | None:
    """How often the load has one phone register anew; None where refreshes do so too.

    A storm holds no ports: what is lost, or given up after a failure, is not closed in order.
    """
    if profile.target.reauthenticate:
        return None
    return sum(
        -(-step.registrations // step.registered)
        for step in _parts(profile)
        if step.kind in ("cycle", "mix")
    )


def _parts(profile: Profile) -> list[Step]:
    """Every step, and what runs beside calls."""
    steps = list(profile.steps())
    return steps + [step.beside for step in steps if step.beside is not None]


def _renewal_rate(step: Step) -> float:
    """Registrations of a cycle or a mix per second, where they are most frequent."""
    if step.kind == "cycle":
        return max((rate for _at, rate in step.points), default=step.rate)
    if step.kind != "mix":
        return 0.0
    return sum(
        max((rate for _at, rate in offer.pace.points), default=offer.pace.rate)
        for offer in step.offers
        if offer.registrations
    )


def _addresses_per_phone(profile: Profile) -> int:
    """Two where phones re-attach."""
    return 2 if any(step.moves for step in profile.steps()) else 1
