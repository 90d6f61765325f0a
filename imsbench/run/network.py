"""The network of a run, made for real: the coordinator's namespace, veth pairs, the host's part."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path

from imsbench.host import addresses, links, namespace
from imsbench.profile import Profile
from imsbench.run import configs, exits, topology
from imsbench.run.topology import HOST, Topology

_FORWARDING = {4: "net/ipv4/ip_forward", 6: "net/ipv6/conf/all/forwarding"}


def plan(profile: Profile) -> Topology:
    """The topology of a profile's run; RunRefused if there are more workers than slices."""
    ip_version, workers = profile.phones.ip_version, profile.generator.workers
    try:
        if profile.target.kind == "external":
            return topology.external(ip_version, workers)
        return topology.embedded(
            ip_version, workers, hss=configs.needs_hss(profile), pcrf=configs.needs_pcrf(profile)
        )
    except ValueError as error:
        raise exits.RunRefused(f"generator.workers: {error}", exits.HOST_LACKS) from error


def become_capable(profile: Profile) -> None:
    """Get the privileges of a run, before anything else: the process may be executed again for it.

    Embedded and null targets live in namespaces, which a user namespace can give; an external
    target is reached through the host's own network and needs root. RunRefused names what is
    refused.
    """
    with_tun = configs.needs_tun(profile)
    try:
        if profile.target.kind != "external":
            namespace.reexec_rootless(with_tun=with_tun)
        elif refused := namespace.refused_privileges(with_tun=with_tun):
            raise exits.RunRefused(
                "an external target is reached through this host's own network, which needs root "
                "or these privileges:\n" + "\n".join(refused),
                exits.HOST_LACKS,
            )
    except namespace.HostError as error:
        raise exits.RunRefused(str(error), exits.HOST_LACKS) from error


def enter(profile: Profile) -> None:
    """Leave the host's network for a namespace that dies with this process (not: external target)."""
    if profile.target.kind == "external":
        return
    try:
        namespace.enter_new_network_namespace()
    except namespace.HostError as error:
        raise exits.RunRefused(str(error), exits.HOST_LACKS) from error


def lay(plan: Topology, pids: Mapping[str, int]) -> None:
    """Make the veth pairs and move their ends; RunRefused if the host will not.

    Both ends are made under their final names, one pair after the other: a worker's end has the
    same name in each worker, and is moved before the next is made.
    """
    try:
        for first, second in plan.pairs:
            if HOST not in plan.nodes or not _left_over(first.name, second.name):
                links.create_veth(first.name, second.name)
            for end in (first, second):
                if end.owner != HOST:
                    links.move_link(end.name, pids[end.owner])
        host = plan.nodes.get(HOST)
        if host is not None:
            for link in host.links:
                links.configure_link(link.name, link.address, link.prefix)
            for prefix, via in host.routes:
                links.add_route(prefix, via=via)
    except links.LinkError as error:
        raise exits.RunRefused(
            f"the network of the run cannot be made: {error}", exits.HOST_LACKS
        ) from error


def forwarding_advice(profile: Profile) -> str:
    """What to set so that this host forwards the phones' packets; empty where it does.

    Nothing host-wide is set here: forwarding for all is the administrator's to switch on.
    """
    address, _ = configs.pcscf(profile)
    sysctl = _FORWARDING[profile.phones.ip_version]
    if Path("/proc/sys", sysctl).read_text().strip() != "0" or _is_local(address):
        return ""
    name = sysctl.replace("/", ".")
    return f"{name} is 0: set it with: sysctl -w {name}=1"


def route_advice(profile: Profile) -> str:
    """The route that an external target needs back to the phones, as an ip(8) command."""
    whole = addresses.phone_prefix(profile.phones.ip_version, 0, 1)
    address, port = configs.pcscf(profile)
    source = _source_towards(address, port) or "THIS_HOST"
    return f"ip route add {whole} via {source}"


def _left_over(near: str, far: str) -> bool:
    """Whether a killed run left this pair, to be taken over; RunRefused if a live run has it.

    A pair whose far end is in a worker's namespace vanishes with the worker, so only a pair that
    was not yet moved can be left over: then both ends are here.
    """
    here = [Path("/sys/class/net", name).exists() for name in (near, far)]
    if here == [True, False]:
        raise exits.RunRefused(
            f"link {near} is there: another run against an external target is in progress on this "
            "host; wait for it, or end it",
            exits.HOST_LACKS,
        )
    return all(here)


def _is_local(address: str) -> bool:
    """Whether an address is this host's own: then nothing is forwarded."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
        return True


def _source_towards(address: str, port: int) -> str:
    """This host's address towards another one: a connected datagram socket sends nothing."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((address, port))
        except OSError:
            return ""
        return str(probe.getsockname()[0])
