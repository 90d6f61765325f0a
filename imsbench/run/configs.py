"""From a profile and a topology to the ``config`` message of each child."""

from __future__ import annotations

import math
from typing import Any

from imsbench.host import addresses, choose
from imsbench.profile import CallFaults, Distribution, Hss, Pcrf, Profile, Step
from imsbench.protocol.address import split_host_port
from imsbench.run.topology import DIAMETER_PORT, HSS, PCRF, SIP_PORT, Node, Topology, worker_name
from imsbench.subscriber import Population

PORT_PS = 5063
"""Protected server port of the embedded P-CSCF."""
PORT_PC_FIRST = 40000
PORT_PC_COUNT = 128
"""The ring of its protected client ports."""
LAB_ICSCF_PORT = 4060
LAB_SCSCF_PORT = 6060
"""Ports of a lab's servers behind the P-CSCF."""
_REPAIR_RATE = 50.0
_HELD_S = 3.0
"""How long a lab's P-CSCF holds the associations of an ended registration."""


def population(profile: Profile) -> Population:
    """The subscribers that phones and HSS compute alike."""
    subscribers = profile.subscribers
    return Population(
        count=subscribers.count,
        seed=profile.seed,
        mcc=subscribers.mcc,
        mnc=subscribers.mnc,
        first_msin=subscribers.first_msin,
        first_msisdn=subscribers.first_msisdn,
        domain=subscribers.domain.lower(),
        k=_key(subscribers.k),
        op=_key(subscribers.op),
        opc=_key(subscribers.opc),
    )


def hss_config(profile: Profile, node: Node) -> dict[str, Any]:
    """What the HSS simulator is told; ``node`` is empty where it serves on the host itself."""
    hss = profile.simulators.hss or Hss()
    domain = population(profile).home_domain
    return node.as_config() | {
        "population": _population_config(profile),
        "listen": _listen(hss, addresses.hss_address(profile.phones.ip_version)),
        "origin_host": f"hss.{domain}",
        "origin_realm": domain,
        "response_time": distribution_config(hss.response_time),
        "error_share": hss.error_share,
        "error_result": hss.error_result,
        "faults": [one.as_config() for one in hss.faults],
        "filter_criteria": [one.model_dump(mode="json") for one in hss.filter_criteria],
        "seed": profile.seed,
    }


def pcrf_config(profile: Profile, node: Node) -> dict[str, Any]:
    """What the PCRF simulator is told; ``node`` is empty where it serves on the host itself."""
    pcrf = profile.simulators.pcrf or Pcrf()
    domain = population(profile).home_domain
    return node.as_config() | {
        "listen": _listen(pcrf, addresses.pcrf_address(profile.phones.ip_version)),
        "origin_host": f"pcrf.{domain}",
        "origin_realm": domain,
        "response_time": distribution_config(pcrf.response_time),
        "error_share": pcrf.error_share,
        "error_result": pcrf.error_result,
        "silence_share": pcrf.silence_share,
        "faults": [one.as_config() for one in pcrf.faults],
        "bearer_setup": distribution_config(pcrf.bearer_setup),
        "seed": profile.seed,
    }


def core_config(profile: Profile, node: Node) -> dict[str, Any]:
    """What the reference core, or the null target, is told."""
    target, phones = profile.target, profile.phones
    domain = population(profile).home_domain
    pcrf = profile.simulators.pcrf or Pcrf()
    return node.as_config() | {
        "population": _population_config(profile),
        "listen": [addresses.pcscf_address(phones.ip_version), SIP_PORT],
        "domain": domain,
        "hss": [addresses.hss_address(phones.ip_version), DIAMETER_PORT],
        "hss_realm": domain,
        "pcrf": (
            [addresses.pcrf_address(phones.ip_version), DIAMETER_PORT]
            if needs_pcrf(profile)
            else None
        ),
        "pcrf_realm": domain,
        # A bearer that takes time is one that somebody waits for.
        "rx_wait_for_bearer": pcrf.bearer_setup.mean > 0,
        "ipsec": profile.target_ipsec,
        "ip_version": phones.ip_version,
        "port_ps": PORT_PS,
        "port_pc_first": PORT_PC_FIRST,
        "port_pc_count": PORT_PC_COUNT,
        "expires_s": target.expires,
        "min_expires_s": target.min_expires,
        "reauthenticate": target.reauthenticate,
        "null": target.kind == "null",
        "delay": distribution_config(target.delay),
        "steady_faults": [one.as_config() for one in target.faults],
        "faults": _faults_config(target.call_faults),
        "rx_grace_s": target.rx_grace,
        "loss_share": target.loss_share,
        "limiter": {
            "registrations_per_s": target.limiter.registrations or 0.0,
            "calls_per_s": target.limiter.calls or 0.0,
            "burst": target.limiter.burst,
        },
        "algs": [[alg, ealg] for alg, ealg in phones.mechanisms],
        "timers": list(phones.timer_values),
        "seed": profile.seed,
    }


def lab_config(profile: Profile, node: Node) -> dict[str, Any]:
    """What ``imsbench.lab.core`` is told: its variant, its part of the network, the core's settings."""
    target, lab, ip_version = profile.target, profile.target.lab, profile.phones.ip_version
    pcscf, icscf, scscf = lab_addresses(profile)
    pcrf = [addresses.pcrf_address(ip_version), DIAMETER_PORT] if needs_pcrf(profile) else None
    return node.as_config() | {
        "variant": lab.variant,
        "ip_version": ip_version,
        "lab": {
            "domain": population(profile).home_domain,
            "pcscf": [pcscf, SIP_PORT],
            "icscf": [icscf, LAB_ICSCF_PORT],
            "scscf": [scscf, LAB_SCSCF_PORT],
            "hss": [addresses.hss_address(ip_version), DIAMETER_PORT],
            "pcrf": pcrf,
            "phone_transport": profile.phones.transport,
            "ipsec": {"entries": _ipsec_entries(profile)}
            if profile.phones.ipsec != "off"
            else None,
            "children": lab.children,
            "tcp_children": lab.tcp_children,
            "shared_memory_mb": lab.shared_memory_mb,
            "expires_s": target.expires,
            "min_expires_s": target.min_expires,
            "tcp_reuse_port": "clear_requests" not in lab.provoke,
            "keep_sas_at_deregistration": "clear_deregistration" not in lab.provoke,
            "await_vector": "second_challenge" not in lab.provoke,
        },
    }


def lab_addresses(profile: Profile) -> list[str]:
    """Addresses of a lab's P-CSCF, I-CSCF and S-CSCF."""
    return addresses.lab_addresses(profile.phones.ip_version)


def worker_config(
    profile: Profile,
    topology: Topology,
    worker: int,
    *,
    keep_ladders: bool,
    deregister: bool = False,
    pcap: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """What worker k is told; ``pcap``: of ``CaptureOrder.config``; the others: of ``Coordinator``."""
    return topology.nodes[worker_name(worker)].as_config() | {
        "profile": profile.model_dump(mode="json"),
        "worker": worker,
        "workers": profile.generator.workers,
        "phone_prefix": topology.phone_prefixes[worker],
        "pcscf": list(pcscf(profile)),
        "keep_ladders": keep_ladders,
        "deregister": deregister,
        "pcap": pcap,
    }


def pcscf(profile: Profile) -> tuple[str, int]:
    """Address and port that phones send their first REGISTER to."""
    if profile.target.pcscf is not None:
        host, port = split_host_port(profile.target.pcscf)
        return host, port or SIP_PORT
    return addresses.pcscf_address(profile.phones.ip_version), SIP_PORT


def repair_rate(profile: Profile) -> float:
    """Initial registrations per second of a repair fill: the rate of the first fill, else 50."""
    return next((step.rate for step in profile.steps() if step.kind == "fill"), _REPAIR_RATE)


def drain_s(profile: Profile, step: Step) -> float:
    """Longest wait after a step's plan for its attempts to end, seconds: calls and storms take time."""
    if step.storm is not None:
        return step.storm.limit + profile.phones.registration_timeout
    calls = step.calls
    if calls is None:
        return profile.generator.drain
    # Set up at the last moment, held, perhaps held and resumed, and then its BYE unanswered.
    longest_s = calls.no_answer + 2 * (calls.ring.longest + calls.hold.longest)
    return profile.generator.drain + longest_s + 2 * profile.phones.transaction_timeout


def needs_hss(profile: Profile) -> bool:
    """Whether this run starts the HSS simulator."""
    return profile.target.kind in ("embedded", "lab") or profile.simulators.hss is not None


def needs_pcrf(profile: Profile) -> bool:
    """Whether this run starts the PCRF simulator."""
    pcrf = profile.simulators.pcrf
    if profile.target.kind in ("embedded", "lab"):
        return pcrf is None or pcrf.enabled
    return pcrf is not None and pcrf.enabled


def simulators_of(profile: Profile) -> list[str]:
    """The simulators that this run starts, in this order, by name."""
    needed = ((HSS, needs_hss(profile)), (PCRF, needs_pcrf(profile)))
    return [name for name, wanted in needed if wanted]


def awaited_connections(profile: Profile) -> dict[str, int]:
    """How many Diameter connections of the core each simulator waits for before the load, by name.

    Ours says itself when it is there. Of an external one the profile knows; a lab's I-CSCF and S-CSCF
    connect to the HSS, its P-CSCF to the PCRF.
    """
    lab = {HSS: 2, PCRF: 1}
    simulators = profile.simulators
    told = {
        HSS: (simulators.hss or Hss()).connections,
        PCRF: (simulators.pcrf or Pcrf()).connections,
    }
    match profile.target.kind:
        case "external":
            return {name: told[name] for name in simulators_of(profile)}
        case "lab":
            return {name: lab[name] for name in simulators_of(profile)}
        case _:
            return {}


def needs_tun(profile: Profile) -> bool:
    """Whether either end that runs here comes down to user-space ESP, and so to a TUN device."""
    modes: set[str] = {profile.phones.ipsec}
    if profile.target.kind != "external":
        modes.add(profile.target_ipsec)
    return any(choose.needs_tun(mode, profile.phones.ip_version) for mode in modes)


def distribution_config(distribution: Distribution) -> dict[str, Any]:
    """A distribution as ``imsbench.distribution.Distribution`` takes it."""
    return {
        "kind": distribution.kind,
        "mean_s": distribution.mean,
        "sigma": distribution.sigma,
    }


def _faults_config(faults: CallFaults) -> dict[str, Any]:
    return {
        "lose_bye_share": faults.lose_bye_share,
        "early_bye_share": faults.early_bye_share,
        "early_bye": distribution_config(faults.early_bye),
        "die_at_call": faults.die_at_call,
    }


def _ipsec_entries(profile: Profile) -> int:
    """Sets of associations of a lab's P-CSCF.

    Those of an ended registration are held for some three seconds; those before a refresh until the
    registration before it has expired, which a profile must say (``ipsec_entries``).
    """
    lab, count = profile.target.lab, profile.subscribers.count
    if "small_pool" in lab.provoke:
        return max(1, count // 2)
    cycled = max((step.rate for step in profile.steps() if step.kind == "cycle"), default=0.0)
    return lab.ipsec_entries or math.ceil(1.25 * count + _HELD_S * cycled)


def _listen(simulator: Hss | Pcrf, address: str) -> list[Any]:
    """Where a simulator listens: where the profile says, else at its address in the run."""
    if simulator.listen is None:
        return [address, DIAMETER_PORT]
    host, port = split_host_port(simulator.listen)
    return [host, port]


def _population_config(profile: Profile) -> dict[str, Any]:
    people = population(profile)
    return {
        "count": people.count,
        "seed": people.seed,
        "mcc": people.mcc,
        "mnc": people.mnc,
        "first_msin": people.first_msin,
        "first_msisdn": people.first_msisdn,
        "domain": people.domain,
        "k": _hex(people.k),
        "op": _hex(people.op),
        "opc": _hex(people.opc),
    }


def _key(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


def _hex(key: bytes | None) -> str | None:
    return None if key is None else key.hex()
