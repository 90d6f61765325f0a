"""Who has which address where the target is embedded: the benchmark ranges, inside namespaces.

RFC 2544 gives 198.18.0.0/15, RFC 5180 gives 2001:2::/48 to benchmarks; they collide with nobody's
network. Phones have 198.18.0.0/16 or 2001:2:0:1::/64, split between the workers; servers
198.19.0.0/24 or 2001:2:0:2::/64; links between namespaces /30s of 198.19.255.0/24 or
2001:2:0:ff:<link>::/126.
"""

from __future__ import annotations

import ipaddress
from typing import NamedTuple

IpNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

_PHONES: dict[int, IpNetwork] = {
    4: ipaddress.IPv4Network("198.18.0.0/16"),
    6: ipaddress.IPv6Network("2001:2:0:1::/64"),
}
_SERVERS = {4: "198.19.0.0/24", 6: "2001:2:0:2::/64"}
_PCSCF = {4: "198.19.0.10", 6: "2001:2:0:2::10"}
_HSS = {4: "198.19.0.20", 6: "2001:2:0:2::20"}
_PCRF = {4: "198.19.0.30", 6: "2001:2:0:2::30"}

_MAX_LINKS = 64  # /30s in a /24


def core_prefix(ip_version: int) -> str:
    """Prefix of the core, the HSS and the PCRF, in text form."""
    return _SERVERS[ip_version]


def pcscf_address(ip_version: int) -> str:
    """Address of the embedded P-CSCF."""
    return _PCSCF[ip_version]


def lab_addresses(ip_version: int) -> list[str]:
    """Addresses of the P-CSCF, I-CSCF and S-CSCF of a lab's core."""
    first = ipaddress.ip_address(_PCSCF[ip_version])
    return [str(first + number) for number in range(3)]


def hss_address(ip_version: int) -> str:
    """Address of the HSS simulator."""
    return _HSS[ip_version]


def pcrf_address(ip_version: int) -> str:
    """Address of the PCRF simulator."""
    return _PCRF[ip_version]


class LinkAddresses(NamedTuple):
    """Both ends of one link between two namespaces."""

    near: str
    """Address of the end nearer to the core."""
    far: str
    """Address of the other end."""
    prefix: int
    """Prefix length in bits."""


def link_addresses(ip_version: int, number: int) -> LinkAddresses:
    """The addresses of link ``number`` (0 … 63); ValueError beyond."""
    if not 0 <= number < _MAX_LINKS:
        raise ValueError(f"link {number}: there are {_MAX_LINKS} links")
    if ip_version == 6:
        return LinkAddresses(f"2001:2:0:ff:{number:x}::1", f"2001:2:0:ff:{number:x}::2", 126)
    first = 4 * number
    return LinkAddresses(f"198.19.255.{first + 1}", f"198.19.255.{first + 2}", 30)


def phone_network(ip_version: int, worker: int, workers: int) -> IpNetwork:
    """The slice of worker ``worker`` of ``workers``: equal powers of two; ValueError if none."""
    if not 0 <= worker < workers:
        raise ValueError(f"worker {worker} of {workers}")
    whole = _PHONES[ip_version]
    length = whole.prefixlen + (workers - 1).bit_length()
    size = 1 << (whole.max_prefixlen - length)
    if size < 4:
        raise ValueError(f"{workers} workers: {whole} cannot be split so often")
    first = int(whole.network_address) + worker * size
    if ip_version == 6:
        return ipaddress.IPv6Network((first, length))
    return ipaddress.IPv4Network((first, length))


def phone_prefix(ip_version: int, worker: int, workers: int) -> str:
    """As phone_network, in text form: "198.18.64.0/18"."""
    return str(phone_network(ip_version, worker, workers))


def phone_capacity(ip_version: int, workers: int) -> int:
    """How many phones one worker's slice holds: all but its first and last address."""
    return phone_network(ip_version, 0, workers).num_addresses - 2


def phone_address(ip_version: int, worker: int, workers: int, index: int) -> str:
    """Address of phone ``index`` (0, 1, …) of a worker; ValueError where the slice is used up."""
    network = phone_network(ip_version, worker, workers)
    if not 0 <= index < network.num_addresses - 2:
        raise ValueError(f"phone {index}: {network} holds {network.num_addresses - 2}")
    return str(network.network_address + index + 1)
