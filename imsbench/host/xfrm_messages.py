"""NETLINK_XFRM messages for SAs and policies of TS 33.203, packed by hand (linux/xfrm.h).

A body is what follows the netlink header; ``netlink`` adds that. The kernel's numbers are in the
host's byte order, addresses, ports and SPIs in the network's. What is the same for every SA of a
kind is packed once.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from imsbench.protocol.secagree import Sa

NEW_STATE = 0x10
DELETE_STATE = 0x11
GET_STATE = 0x12
NEW_POLICY = 0x13
DELETE_POLICY = 0x14
GET_POLICY = 0x15

REQID_OUT = 33_203_001
"""Mark of an SA that this host sends in, shown by ``ip xfrm state``."""
REQID_IN = 33_203_002
"""Mark of an SA that this host receives in."""
SA_PRIORITY = 33_203
"""Priority of a policy that sends a flow into its SA; a smaller number goes first."""
GUARD_PRIORITY = 33_204
"""Priority of a policy that blocks a protected port: right behind those of the SAs."""
REPLAY_WINDOW = 64
"""Packets: the default of RFC 4303 §3.4.3; anti-replay is on in all SAs (TS 33.203 §6.3)."""
LIFETIME_S = 2**32 - 1
"""Hard lifetime of an SA at the IP layer, seconds (TS 33.203 §7.1): SIP ends it long before."""

Direction = Literal["in", "out"]
DIRECTIONS: dict[Direction, int] = {"in": 0, "out": 1}
"""Directions of a policy and their numbers."""
_FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}
_MARKS = (REQID_OUT, REQID_IN)

_ESP = 50
_ALLOW, _BLOCK = 0, 1
_TRANSPORT_MODE = 0
_NO_LIMIT = 2**64 - 1
_EXACT = 0xFFFF

_ATTR_CRYPT = 2
_ATTR_TEMPLATE = 5
_ATTR_AEAD = 18
_ATTR_AUTH_TRUNC = 20
_ATTR_REPLAY_ESN = 23

_ATTRIBUTE = struct.Struct("=HH")
_PORTS = struct.Struct("!HHHH")
_SPI = struct.Struct("!I")
_SELECTOR = "16s16s8sHBBB3xii"  # destination, source, ports, family, prefixes, protocol, link, user
_ANY_SELECTOR = struct.Struct(f"={_SELECTOR}")
_STATE = struct.Struct(f"={_SELECTOR}16s4sB3x16s64s32x12x4xIHBBB7x")
_STATE_ID = struct.Struct("=16s4sHBx")
_POLICY = struct.Struct(f"={_SELECTOR}64s32xIIBBBB4x")
_POLICY_ID = struct.Struct(f"={_SELECTOR}IB3x")
_TEMPLATE = struct.Struct("=16s4sB3xH2x16sIBBBxIII")
_AUTH = struct.Struct("=64sII")
_CRYPT = struct.Struct("=64sI")
_REPLAY_ESN = struct.Struct("=IIIIII8s")

_STATE_NAME = struct.Struct("=16s4sB")  # destination, SPI, protocol
_STATE_NAME_AT = 56
_STATE_USE = struct.Struct("=QQ")  # bytes, packets
_STATE_USE_AT = 160
_STATE_MARK = struct.Struct("=IH")  # reqid, family
_STATE_MARK_AT = 208
_POLICY_MARK = struct.Struct("=IIBB")  # priority, index, direction, action
_POLICY_MARK_AT = 152
_TEMPLATE_REQID = struct.Struct("=I")
_TEMPLATE_REQID_AT = 48

_LIFETIME = struct.pack(
    "=8Q", _NO_LIMIT, _NO_LIMIT, _NO_LIMIT, _NO_LIMIT, 0, LIFETIME_S, 0, LIFETIME_S
)
_FOREVER = struct.pack("=8Q", _NO_LIMIT, _NO_LIMIT, _NO_LIMIT, _NO_LIMIT, 0, 0, 0, 0)


class UnsupportedAlgorithmError(Exception):
    """This backend does not know an algorithm of the agreement; the text names it."""


@dataclass(frozen=True, slots=True)
class Algorithm:
    """How the kernel calls an algorithm of TS 33.203 annex H."""

    kernel_name: str
    """Name in /proc/crypto."""
    icv_bits: int = 0
    """Length of the integrity check value on the wire, bits; 0 for a plain cipher."""


INTEGRITY = {
    "hmac-sha-1-96": Algorithm("hmac(sha1)", 96),
    "hmac-md5-96": Algorithm("hmac(md5)", 96),
}
"""alg → the kernel's integrity algorithm, keyed by SaSet.integrity_key."""
ENCRYPTION = {
    "null": Algorithm("ecb(cipher_null)"),
    "aes-cbc": Algorithm("cbc(aes)"),
    "des-ede3-cbc": Algorithm("cbc(des3_ede)"),
}
"""ealg → the kernel's cipher, keyed by SaSet.cipher_key."""
COMBINED = {
    ("null", "aes-gcm"): Algorithm("rfc4106(gcm(aes))", 128),
    ("aes-gmac", "null"): Algorithm("rfc4543(gcm(aes))", 128),
}
"""(alg, ealg) → one algorithm for both (RFC 4106, RFC 4543), keyed by whichever key the set has:
16 bytes and a salt of 4."""


def _attribute(kind: int, value: bytes) -> bytes:
    padding = bytes(-len(value) % 4)
    return _ATTRIBUTE.pack(_ATTRIBUTE.size + len(value), kind) + value + padding


_REPLAY = _attribute(
    _ATTR_REPLAY_ESN,
    # a bitmap longer than the 32 packets of the old field; extended numbers (ESN) stay off
    _REPLAY_ESN.pack(REPLAY_WINDOW // 32, 0, 0, 0, 0, REPLAY_WINDOW, bytes(REPLAY_WINDOW // 8)),
)


def algorithm_attributes(alg: str, ealg: str, integrity_key: bytes, cipher_key: bytes) -> bytes:
    """The attributes of an SA that name its algorithms and give their keys (RFC 4303 §3.2)."""
    combined = COMBINED.get((alg, ealg))
    if combined is not None:
        name, key = combined.kernel_name.encode(), integrity_key + cipher_key
        return _attribute(_ATTR_AEAD, _AUTH.pack(name, len(key) * 8, combined.icv_bits) + key)
    integrity, encryption = INTEGRITY.get(alg), ENCRYPTION.get(ealg)
    if integrity is None or encryption is None:
        raise UnsupportedAlgorithmError(f"ipsec: kernel does not know alg={alg} with ealg={ealg}")
    name, bits = integrity.kernel_name.encode(), len(integrity_key) * 8
    auth = _AUTH.pack(name, bits, integrity.icv_bits) + integrity_key
    crypt = _CRYPT.pack(encryption.kernel_name.encode(), len(cipher_key) * 8) + cipher_key
    return _attribute(_ATTR_AUTH_TRUNC, auth) + _attribute(_ATTR_CRYPT, crypt)


class SaMessages:
    """The bodies that install, read and delete one SA and its policy, in one direction."""

    __slots__ = (
        "_destination", "_direction", "_family", "_fields", "_reqid", "_source", "_spi",
    )  # fmt: skip

    def __init__(self, sa: Sa, direction: Direction) -> None:
        self._source, self._destination = packed(sa.source), packed(sa.destination)
        self._spi = _SPI.pack(sa.spi)
        self._direction = DIRECTIONS[direction]
        self._reqid = REQID_OUT if direction == "out" else REQID_IN
        ipv6 = ":" in sa.source
        self._family = family = socket.AF_INET6 if ipv6 else socket.AF_INET
        bits = 128 if ipv6 else 32
        ports = _PORTS.pack(sa.destination_port, _EXACT, sa.source_port, _EXACT)
        # any protocol: UDP and TCP share the SA (TS 33.203 §7.1)
        self._fields = (self._destination, self._source, ports, family, bits, bits, 0, 0, 0)

    def new_state(self, algorithms: bytes) -> bytes:
        """The SA; ``algorithms`` are the algorithm_attributes of its set."""
        state = _STATE.pack(
            *self._fields,
            self._destination, self._spi, _ESP,
            self._source, _LIFETIME,
            self._reqid, self._family, _TRANSPORT_MODE, 0, 0,
        )  # fmt: skip
        return state + algorithms + _REPLAY

    def state_id(self) -> bytes:
        """The SA's name, to read or to delete it."""
        return _STATE_ID.pack(self._destination, self._spi, self._family, _ESP)

    def new_policy(self) -> bytes:
        """The policy: this flow in this SA only, in clear never."""
        policy = _POLICY.pack(
            *self._fields, _FOREVER, SA_PRIORITY, 0, self._direction, _ALLOW, 0, 0
        )
        template = _TEMPLATE.pack(
            self._destination, self._spi, _ESP, self._family, self._source, self._reqid,
            _TRANSPORT_MODE, 0, 0, 2**32 - 1, 2**32 - 1, 2**32 - 1,
        )  # fmt: skip
        return policy + _attribute(_ATTR_TEMPLATE, template)

    def policy_id(self) -> bytes:
        """The policy's name, to delete it."""
        return _POLICY_ID.pack(*self._fields, 0, self._direction)


def new_guard(ip_version: int, direction: Direction, port: int, mask: int) -> bytes:
    """A policy that blocks what leaves from (out) or comes to (in) the local ports of a mask."""
    return _POLICY.pack(
        *_guarded(ip_version, direction, port, mask),
        _FOREVER, GUARD_PRIORITY, 0, DIRECTIONS[direction], _BLOCK, 0, 0,
    )  # fmt: skip


def _guarded(ip_version: int, direction: Direction, port: int, mask: int) -> tuple[Any, ...]:
    """The selector's fields: these local ports, whoever is at the other end."""
    ports = (port, mask, 0, 0) if direction == "in" else (0, 0, port, mask)
    family = _FAMILIES[ip_version]
    return (bytes(16), bytes(16), _PORTS.pack(*ports), family, 0, 0, 0, 0, 0)


def port_masks(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The fewest (port, mask) pairs that cover (first, last) ranges, overlaps taken once."""
    wanted = {port for first, last in ranges for port in range(first, last + 1)}
    found: list[tuple[int, int]] = []
    covered = 0
    for port in sorted(wanted):
        if port < covered:
            continue
        size = 1
        while port % (2 * size) == 0 and wanted.issuperset(range(port, port + 2 * size)):
            size *= 2
        found.append((port, 0x10000 - size))
        covered = port + size
    return found


class Use(NamedTuple):
    """What an SA has carried, as the kernel counts it."""

    way: Direction
    """Whether this host sends or receives in it."""
    packets: int
    bytes: int
    """Of what is inside ESP, with the IP header on the way out and without it on the way in."""


def read_use(state: bytes, ip_version: int) -> Use | None:
    """What a state has carried; None if it does not bear this program's mark."""
    reqid, family = _STATE_MARK.unpack_from(state, _STATE_MARK_AT)
    if reqid not in _MARKS or family != _FAMILIES[ip_version]:
        return None
    carried, packets = _STATE_USE.unpack_from(state, _STATE_USE_AT)
    return Use("out" if reqid == REQID_OUT else "in", packets, carried)


def own_state(state: bytes, ip_version: int) -> bytes | None:
    """The id of a state that bears this program's mark; None for another's."""
    destination, spi, protocol = _STATE_NAME.unpack_from(state, _STATE_NAME_AT)
    reqid, family = _STATE_MARK.unpack_from(state, _STATE_MARK_AT)
    if reqid not in _MARKS or family != _FAMILIES[ip_version]:
        return None
    return _STATE_ID.pack(destination, spi, family, protocol)


def own_policy(policy: bytes, ip_version: int) -> bytes | None:
    """The id of a policy that bears this program's mark; None for another's."""
    fields = _ANY_SELECTOR.unpack_from(policy)
    priority, index, direction, action = _POLICY_MARK.unpack_from(policy, _POLICY_MARK_AT)
    guard = priority == GUARD_PRIORITY and action == _BLOCK
    sends = priority == SA_PRIORITY and _template_reqid(policy) in _MARKS
    if not (guard or sends) or fields[3] != _FAMILIES[ip_version]:
        return None
    return _POLICY_ID.pack(*fields, index, direction)


def _template_reqid(policy: bytes) -> int:
    at = _POLICY.size
    while at + _ATTRIBUTE.size <= len(policy):
        size, kind = _ATTRIBUTE.unpack_from(policy, at)
        if kind == _ATTR_TEMPLATE:
            return int(_TEMPLATE_REQID.unpack_from(policy, at + _TEMPLATE_REQID_AT)[0])
        at += max(size + 3 & ~3, _ATTRIBUTE.size)
    return 0


def packed(address: str) -> bytes:
    """An address as the kernel's structures hold it: 16 bytes, IPv4 in the first four."""
    if ":" in address:
        return socket.inet_pton(socket.AF_INET6, address)
    return socket.inet_pton(socket.AF_INET, address) + bytes(12)
