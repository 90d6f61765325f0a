"""IPFilterRule (RFC 6733 §4.3.1): the filters that Flow-Description carries.

parse_filter(b"permit out 17 from 192.0.2.1 4000 to 198.18.0.7 5000")   text -> FilterRule; FilterError
permit("out", ("192.0.2.1", 4000), ("198.18.0.7", 5000))                the text of that rule
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Action = Literal["permit", "deny"]
Direction = Literal["in", "out"]

UDP = 17

_PORTS = re.compile(r"[0-9]{1,5}(?:-[0-9]{1,5})?(?:,[0-9]{1,5}(?:-[0-9]{1,5})?)*\Z")
_ADDRESS = re.compile(r"[0-9A-Fa-f.:]+(?:/[0-9]{1,3})?\Z")
_PROTOCOL = re.compile(r"[0-9]{1,3}\Z")
_LONGEST = 1000
"""Octets; a rule that says something useful has a tenth of it."""

_REMEMBERED = 4096
"""Rules kept as read: every change of a session brings the same ones again."""


class FilterError(ValueError):
    """A text is no IPFilterRule; the message says why."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One end of the packets that a rule means."""

    network: Network | None
    """Addresses; None: any, or those assigned."""
    ports: tuple[tuple[int, int], ...] = ()
    """Ranges, both ends included; empty: all ports."""
    inverted: bool = False
    """Whether all other addresses are meant ("!")."""
    assigned: bool = False
    """Whether the addresses assigned to the terminal are meant."""


@dataclass(frozen=True, slots=True)
class FilterRule:
    """A rule, read."""

    action: Action
    """What happens to the packets."""
    direction: Direction
    """"in" from the terminal, "out" to it."""
    protocol: int | None
    """IP protocol; None: any ("ip")."""
    source: Endpoint
    """Where the packets come from."""
    destination: Endpoint
    """Where they go."""
    options: tuple[str, ...] = ()
    """Words after the destination: "frag", "setup", …"""

    @property
    def terminal(self) -> Endpoint:
        """The end that is the terminal's."""
        return self.destination if self.direction == "out" else self.source


def permit(
    direction: Direction, source: tuple[str, int], destination: tuple[str, int], protocol: int = UDP
) -> bytes:
    """A rule for packets between two addresses and ports, as a Flow-Description."""
    (source_host, source_port), (host, port) = source, destination
    text = f"permit {direction} {protocol} from {source_host} {source_port} to {host} {port}"
    return text.encode("ascii")


@lru_cache(maxsize=_REMEMBERED)
def parse_filter(data: bytes) -> FilterRule:
    """Read a rule; FilterError if it is none."""
    if len(data) > _LONGEST or not data.isascii():
        raise FilterError("too long, or not ASCII")
    words = data.decode().split()
    if len(words) < 7 or words[3] != "from" or "to" not in words:
        raise FilterError(f"not an IPFilterRule: {data!r}")
    action, direction, protocol = words[:3]
    if action not in ("permit", "deny") or direction not in ("in", "out"):
        raise FilterError(f"{action} {direction}: neither permit nor deny, in nor out")
    middle = words.index("to")
    source, left = _parse_endpoint(words[4:middle])
    if left:
        raise FilterError(f"{left[0]!r} after the source")
    destination, options = _parse_endpoint(words[middle + 1 :])
    networks = {one.network.version for one in (source, destination) if one.network is not None}
    if len(networks) > 1:
        raise FilterError("one end is IPv4, the other IPv6")
    return FilterRule(
        action="permit" if action == "permit" else "deny",
        direction="in" if direction == "in" else "out",
        protocol=_parse_protocol(protocol),
        source=source,
        destination=destination,
        options=tuple(options),
    )


def _parse_protocol(word: str) -> int | None:
    if word == "ip":
        return None
    if not _PROTOCOL.match(word) or int(word) > 255:
        raise FilterError(f"{word!r} is no IP protocol")
    return int(word)


def _parse_endpoint(words: list[str]) -> tuple[Endpoint, list[str]]:
    """Address and ports, and the words that are left."""
    if not words:
        raise FilterError("an address is missing")
    word = words[0]
    inverted = word.startswith("!")
    text = word.removeprefix("!")
    network = None if text in ("any", "assigned") else _parse_network(text)
    ports: tuple[tuple[int, int], ...] = ()
    left = words[1:]
    if left and _PORTS.match(left[0]):
        ports = tuple(_parse_range(one) for one in left[0].split(","))
        left = left[1:]
    return Endpoint(network, ports, inverted, text == "assigned"), left


def _parse_network(text: str) -> Network:
    if not _ADDRESS.match(text):
        raise FilterError(f"{text!r} is no address")
    try:
        # "ipno/bits" may have bits set behind the mask: they do not count
        return ipaddress.ip_network(text, strict=False)
    except ValueError as error:
        raise FilterError(str(error)) from None


def _parse_range(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    low, high = int(first), int(last or first)
    if not low <= high <= 65535:
        raise FilterError(f"{text!r} is no range of ports")
    return low, high
