"""The network of a run, made for real: the coordinator's namespace, veth pairs, the host's part."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from imsbench.host import addresses, links, namespace
from imsbench.host.process import describe_process, is_running, process_id, process_namespace
from imsbench.profile import Profile
from imsbench.run import configs, exits, topology
from imsbench.run.topology import HOST, LinkEnd, Node, Topology

_MARK = "imsbench run, "
_FORWARDING = {4: "net/ipv4/ip_forward", 6: "net/ipv6/conf/all/forwarding"}


def plan(profile: Profile) -> Topology:
    """The topology of a profile's run; RunRefused if there are more workers than slices."""
    ip_version, workers = profile.phones.ip_version, profile.generator.workers
    try:
        if profile.target.kind == "external":
            return topology.external(ip_version, workers)
        return topology.embedded(
            ip_version,
            workers,
            hss=configs.needs_hss(profile),
            pcrf=configs.needs_pcrf(profile),
            core=configs.lab_addresses(profile) if profile.target.kind == "lab" else (),
        )
    except ValueError as error:
        raise exits.RunRefused(f"generator.workers: {error}", exits.HOST_LACKS) from error


def become_capable(profile: Profile) -> None:
    """Get the privileges of a run, before anything else: the process may be executed again for it.

    Embedded and null targets and labs live in namespaces, which a user namespace can give; an external
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
    same name in each worker, and is moved before the next is made. What stays on the host bears a
    mark, to be known again by ``clear`` and by later runs.
    """
    try:
        for first, second in plan.pairs:
            _make_pair(first, second)
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


def clear(plan: Topology) -> None:
    """Take away what ``lay`` left on the host, whatever became of the run; other runs' links stay.

    A link that cannot be deleted is left to the next run, which takes it over.
    """
    host = plan.nodes.get(HOST, Node())
    for link in host.links:
        with suppress(links.LinkError):
            if links.link_exists(link.name) and links.link_alias(link.name) == _mark():
                links.delete_link(link.name)


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


def _make_pair(first: LinkEnd, second: LinkEnd) -> None:
    if first.owner == HOST:
        _take_over(first.name, second.name)
    links.create_veth(first.name, second.name)
    if first.owner == HOST:
        links.set_link_alias(first.name, _mark())


def _take_over(near: str, far: str) -> None:
    """Delete a pair that a killed run left; RunRefused if it is a live run's, or not known.

    The pair outlives its run where the kernel still has connections of the phones to end: they hold
    the worker's namespace, with the far end. A pair without a mark was not even moved there.
    """
    if not links.link_exists(near):
        return
    mark = links.link_alias(near)
    owner = mark.removeprefix(_MARK)
    ours = mark.startswith(_MARK) and owner.endswith(process_namespace())
    if ours and is_running(owner):
        raise exits.RunRefused(
            f"link {near} is there: another run against an external target (process "
            f"{process_id(owner)}) is in progress on this host; wait for it, or end it",
            exits.HOST_LACKS,
        )
    if not ours and (mark or not links.link_exists(far)):
        raise exits.RunRefused(
            f"link {near} is there, and not of a run that can be seen from here "
            f"({mark or 'it bears no mark'}): if nothing needs it, delete it with: "
            f"ip link delete {near}",
            exits.HOST_LACKS,
        )
    links.delete_link(near)


def _mark() -> str:
    """The mark of this run's links."""
    return _MARK + describe_process(os.getpid())


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
