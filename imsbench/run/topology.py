"""Who has which addresses and links in a run: pure arithmetic, nothing is touched here.

Embedded target: the core stands in the middle, one veth pair to each simulator and each worker.

    worker-0 (phones 198.18.0.0/17)   ── ims0 ── w0 ─┐      ┌─ hss0 ── core0 ── hss (198.19.0.20)
                                                     core ──┤
    worker-1 (phones 198.18.128.0/17) ── ims0 ── w1 ─┘      └─ pcrf0 ── core0 ── pcrf (198.19.0.30)

The core is 198.19.0.10.

External target: each worker has a veth pair to the host's namespace (``imsb0`` …), which forwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from imsbench.host import addresses

CORE = "core"
HSS = "hss"
PCRF = "pcrf"
HOST = "host"
"""Owner of a link's end in the coordinator's own namespace."""

WORKER_LINK = "ims0"
"""A worker's end of its link."""

LAB_LINK = "imslab0"
"""The host's end of the link to a lab that stands by itself."""

DIAMETER_PORT = 3868
SIP_PORT = 5060
_HSS_LINK = 0
_PCRF_LINK = 1
_FIRST_WORKER_LINK = 2
_HOST_LINK = 63
"""Apart from the links that runs against a standing lab have on the host."""


def worker_name(worker: int) -> str:
    """The name of worker k."""
    return f"worker-{worker}"


@dataclass(frozen=True, slots=True)
class LinkEnd:
    """One end of a veth pair."""

    owner: str
    """The child it is moved to, or HOST."""
    name: str
    """Its name there."""
    address: str
    """Its address."""
    prefix: int
    """Length of the link's prefix."""

    def as_config(self) -> dict[str, Any]:
        """As a child's configuration names it."""
        return {"name": self.name, "address": self.address, "prefix": self.prefix}


@dataclass(frozen=True, slots=True)
class Node:
    """What one child, or the host, configures in its namespace."""

    links: list[LinkEnd] = field(default_factory=list)
    """Its ends of veth pairs."""
    addresses: list[str] = field(default_factory=list)
    """Addresses of its own, put on lo."""
    routes: list[tuple[str, str]] = field(default_factory=list)
    """(prefix, via)."""

    def as_config(self) -> dict[str, Any]:
        """The part of a child's configuration that this is."""
        return {
            "links": [link.as_config() for link in self.links],
            "addresses": list(self.addresses),
            "routes": [list(route) for route in self.routes],
        }


@dataclass(frozen=True, slots=True)
class Topology:
    """All nodes and veth pairs of a run."""

    ip_version: int
    """4 or 6."""
    nodes: dict[str, Node]
    """By name."""
    pairs: list[tuple[LinkEnd, LinkEnd]]
    """The veth pairs."""
    phone_prefixes: list[str]
    """Each worker's slice of the phones' prefix."""


def embedded(
    ip_version: int, workers: int, *, hss: bool, pcrf: bool, core: Sequence[str] = ()
) -> Topology:
    """The topology of a target that the run starts, with these simulators; the null target has none.

    core: the addresses of the core, where it has others than the reference core.
    """
    nodes = {CORE: Node(addresses=[*core] or [addresses.pcscf_address(ip_version)])}
    topology = Topology(ip_version, nodes, [], [])
    if hss:
        _add_simulator(topology, _HSS_LINK, HSS, addresses.hss_address(ip_version))
    if pcrf:
        _add_simulator(topology, _PCRF_LINK, PCRF, addresses.pcrf_address(ip_version))
    for worker in range(workers):
        core_end = _add_worker(topology, worker, workers, (CORE, f"w{worker}"))
        nodes[worker_name(worker)].routes.append(
            (addresses.core_prefix(ip_version), core_end.address)
        )
    return topology


def standing(ip_version: int, *, hss: bool, pcrf: bool, core: Sequence[str]) -> Topology:
    """The topology of a lab that stands by itself: joined with the host, phones are beyond it."""
    topology = embedded(ip_version, 0, hss=hss, pcrf=pcrf, core=core)
    topology.nodes[HOST] = Node()
    host_end, core_end = _join(topology, _HOST_LINK, (HOST, LAB_LINK), (CORE, "host0"))
    phones = addresses.phone_prefix(ip_version, 0, 1)
    topology.nodes[CORE].routes.append((phones, host_end.address))
    topology.nodes[HOST].routes.append((addresses.core_prefix(ip_version), core_end.address))
    return topology


def external(ip_version: int, workers: int) -> Topology:
    """The topology of an external target: workers behind the host, everything routed through it."""
    topology = Topology(ip_version, {HOST: Node()}, [], [])
    everything = "0.0.0.0/0" if ip_version == 4 else "::/0"
    for worker in range(workers):
        host_end = _add_worker(topology, worker, workers, (HOST, host_link(worker)))
        topology.nodes[worker_name(worker)].routes.append((everything, host_end.address))
    return topology


def host_link(worker: int) -> str:
    """The host's end of the link to a worker of a run against an external target."""
    return f"imsb{worker}"


def _add_simulator(topology: Topology, number: int, name: str, address: str) -> None:
    """A Diameter simulator beside the core, with a link of its own."""
    nodes = topology.nodes
    nodes[name] = Node(addresses=[address])
    core_end, its_end = _join(topology, number, (CORE, f"{name}0"), (name, "core0"))
    nodes[CORE].routes.append((_host_route(address), its_end.address))
    nodes[name].routes.append((addresses.core_prefix(topology.ip_version), core_end.address))


def _add_worker(topology: Topology, worker: int, workers: int, other: tuple[str, str]) -> LinkEnd:
    name = worker_name(worker)
    prefix = addresses.phone_prefix(topology.ip_version, worker, workers)
    topology.nodes[name] = Node()
    topology.phone_prefixes.append(prefix)
    other_end, worker_end = _join(topology, _FIRST_WORKER_LINK + worker, other, (name, WORKER_LINK))
    topology.nodes[other[0]].routes.append((prefix, worker_end.address))
    return other_end


def _join(
    topology: Topology, number: int, first: tuple[str, str], second: tuple[str, str]
) -> tuple[LinkEnd, LinkEnd]:
    low, high, prefix = addresses.link_addresses(topology.ip_version, number)
    ends = LinkEnd(*first, low, prefix), LinkEnd(*second, high, prefix)
    for end in ends:
        topology.nodes[end.owner].links.append(end)
    topology.pairs.append(ends)
    return ends


def _host_route(address: str) -> str:
    return f"{address}/{128 if ':' in address else 32}"
