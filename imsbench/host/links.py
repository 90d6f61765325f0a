"""Links, addresses, routes and sysctls of the current network namespace: pyroute2, typed and thin.

Synchronous netlink, for the time before a loop starts: inside a running asyncio loop pyroute2's
synchronous API raises. Each call opens and closes its own netlink socket.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

IPV6_FREEBIND = 78
"""IPv6 socket option (linux/in6.h) without a name in Python: bind an address that only AnyIP gives."""

_IFA_F_NODAD = 0x02  # linux/if_addr.h: no duplicate address detection, the address serves at once
_RTN_LOCAL = 2  # linux/rtnetlink.h
_TABLE_LOCAL = 255
_SCOPE_HOST = 254
_PROC_SYS = Path("/proc/sys")
_RESERVED = "net/ipv4/ip_local_reserved_ports"

Range = tuple[int, int]
"""First and last port."""


class LinkError(Exception):
    """The kernel refused a link, an address, a route or a sysctl; the text says which and why."""


@contextmanager
def _netlink(what: str) -> Iterator[Any]:
    try:
        with IPRoute() as netlink:
            yield netlink
    except NetlinkError as error:
        raise LinkError(f"{what}: {error.args[1] if len(error.args) > 1 else error}") from error


def _index(netlink: Any, name: str) -> int:
    found = netlink.link_lookup(ifname=name)
    if not found:
        raise LinkError(f"no link {name} in this network namespace")
    return int(found[0])


def create_veth(name_a: str, name_b: str) -> None:
    """A pair of virtual Ethernet links, both in this namespace and down."""
    with _netlink(f"veth {name_a}, {name_b}") as netlink:
        netlink.link("add", ifname=name_a, kind="veth", peer={"ifname": name_b})


def create_tap(name: str) -> None:
    """A TAP device that stays though no process has opened it, down; it ends with its namespace."""
    with _netlink(f"TAP device {name}") as netlink:
        netlink.link("add", ifname=name, kind="tuntap", mode="tap")


def delete_link(name: str) -> None:
    """Delete a link; of a veth pair both ends go, wherever the other one is."""
    with _netlink(f"delete link {name}") as netlink:
        netlink.link("del", index=_index(netlink, name))


def link_exists(name: str) -> bool:
    """Whether this network namespace has a link of this name."""
    with _netlink(f"link {name}") as netlink:
        return bool(netlink.link_lookup(ifname=name))


def link_alias(name: str) -> str:
    """The text that somebody gave to a link (ip-link(8): alias), "" if nobody did."""
    with _netlink(f"alias of link {name}") as netlink:
        (link,) = netlink.get_links(_index(netlink, name))
        return str(link.get_attr("IFLA_IFALIAS") or "")


def set_link_alias(name: str, text: str) -> None:
    """Give a link a text that stays with it, up to 255 bytes."""
    with _netlink(f"alias of link {name}") as netlink:
        netlink.link("set", index=_index(netlink, name), ifalias=text)


def move_link(name: str, pid: int) -> None:
    """Move a link into the network namespace of a process; it loses its addresses on the way."""
    with _netlink(f"link {name} into the namespace of process {pid}") as netlink:
        netlink.link("set", index=_index(netlink, name), net_ns_pid=pid)


def set_up(name: str, *, mtu: int = 0, queue_length: int = 0) -> None:
    """Set a link up, with its MTU (bytes) and queue length (packets) where given."""
    settings = {"state": "up"} | ({"mtu": mtu} if mtu else {})
    if queue_length:
        settings["txqlen"] = queue_length
    with _netlink(f"link {name} up") as netlink:
        netlink.link("set", index=_index(netlink, name), **settings)


def configure_link(name: str, address: str, prefix: int, *, mtu: int = 0) -> None:
    """Give a link its address (prefix length in bits) and set it up; loopback takes it too.

    IPv6 without duplicate address detection: neighbours of phones are asked from the link-local
    address, which would else be tentative for the first second or two.
    """
    if ":" in address:
        set_sysctl(f"net/ipv6/conf/{name}/accept_dad", 0)
    with _netlink(f"address {address}/{prefix} on {name}") as netlink:
        index = _index(netlink, name)
        flags = {"flags": _IFA_F_NODAD} if ":" in address else {}
        netlink.addr("add", index=index, address=address, prefixlen=prefix, **flags)
    set_up(name, mtu=mtu)


def delete_address(name: str, address: str, prefix: int) -> None:
    """Take an address from a link."""
    with _netlink(f"address {address}/{prefix} from {name}") as netlink:
        netlink.addr("del", index=_index(netlink, name), address=address, prefixlen=prefix)


def add_route(
    prefix: str, *, via: str = "", dev: str = "", metric: int = 0, table: int = 0
) -> None:
    """A route to a prefix ("198.19.0.0/24", "::/0") through a gateway, a link, or both."""
    network = ipaddress.ip_network(prefix)
    with _netlink(f"route to {prefix} {via or dev}") as netlink:
        route: dict[str, Any] = {"dst": str(network), "family": _family(network.version)}
        if via:
            route["gateway"] = via
        if dev:
            route["oif"] = _index(netlink, dev)
        if metric:
            route["priority"] = metric
        if table:
            route["table"] = table
        netlink.route("add", **route)


def add_local_prefix(prefix: str) -> None:
    """AnyIP: every address of the prefix is this namespace's own; none is added one by one."""
    network = ipaddress.ip_network(prefix)
    with _netlink(f"local prefix {prefix}") as netlink:
        netlink.route(
            "add",
            dst=str(network),
            family=_family(network.version),
            oif=_index(netlink, "lo"),
            type=_RTN_LOCAL,
            table=_TABLE_LOCAL,
            scope=_SCOPE_HOST if network.version == 4 else 0,
        )


def add_source_port_rule(ip_version: int, first: int, last: int, table: int, priority: int) -> None:
    """Route TCP and UDP segments that leave from a port range by a table of their own."""
    with _netlink(f"rule for source ports {first}-{last}") as netlink:
        netlink.rule(
            "add",
            family=_family(ip_version),
            sport_range=f"{first}:{last}",
            table=table,
            priority=priority,
        )


def delete_rules(table: int, priority: int) -> None:
    """Take away every rule, of both IP versions, that leads to this table from this priority."""
    for family in (socket.AF_INET, socket.AF_INET6):
        with _netlink(f"rules of priority {priority}") as netlink:
            for rule in netlink.get_rules(family=family):
                leads = rule.get_attr("FRA_TABLE") == table
                if leads and rule.get_attr("FRA_PRIORITY") == priority:
                    netlink.rule("del", family=family, table=table, priority=priority)


def set_sysctl(path: str, value: str | int) -> None:
    """Set a sysctl of this namespace ("net/ipv4/tcp_tw_reuse"); untouched if it has that value."""
    file = _PROC_SYS / path
    try:
        if file.read_text().split() != str(value).split():
            file.write_text(str(value))
    except OSError as error:
        raise LinkError(f"sysctl {path.replace('/', '.')} = {value}: {error.strerror}") from error


def reserve_ports(ranges: Sequence[Range]) -> None:
    """Keep (first, last) port ranges from being given to a connection by chance (ephemeral use).

    Ports that are kept already, by whomever, stay so.
    """
    _set_reserved(_reserved() | _ports(ranges))


def release_ports(ranges: Sequence[Range]) -> None:
    """Let connections have these ports by chance again; the inverse of ``reserve_ports``."""
    _set_reserved(_reserved() - _ports(ranges))


def not_reserved(ranges: Sequence[Range]) -> list[Range]:
    """What of these port ranges is not reserved now."""
    return _ranges(_ports(ranges) - _reserved())


def spell_ranges(ranges: Sequence[Range]) -> str:
    """Port ranges as the kernel writes them: "5063,40000-40127"."""
    return ",".join(f"{first}-{last}" if first < last else f"{first}" for first, last in ranges)


def _reserved() -> set[int]:
    text = (_PROC_SYS / _RESERVED).read_text().strip()
    parts = [part.partition("-") for part in text.split(",") if part]
    return _ports([(int(first), int(last or first)) for first, _, last in parts])


def _set_reserved(ports: set[int]) -> None:
    if ports != _reserved():
        # An empty text would be no list to the kernel; an end of line is one of no ports.
        set_sysctl(_RESERVED, spell_ranges(_ranges(ports)) or "\n")


def _ports(ranges: Sequence[Range]) -> set[int]:
    return {port for first, last in ranges for port in range(first, last + 1)}


def _ranges(ports: set[int]) -> list[Range]:
    """The fewest ranges that are these ports."""
    firsts = sorted(port for port in ports if port - 1 not in ports)
    lasts = sorted(port for port in ports if port + 1 not in ports)
    return list(zip(firsts, lasts, strict=True))


def tune_for_phones() -> None:
    """Sysctls of a namespace with many short connections: ports may be taken again at once."""
    set_sysctl("net/ipv4/tcp_tw_reuse", 1)
    set_sysctl("net/ipv4/ip_local_port_range", "1024\t65535")


def _family(ip_version: int) -> int:
    return socket.AF_INET6 if ip_version == 6 else socket.AF_INET
