"""NETLINK_XFRM bodies against linux/xfrm.h, laid out here by ctypes as a C compiler would."""

from __future__ import annotations

import ctypes
import itertools
import socket
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imsbench.host import xfrm_messages as messages
from imsbench.host.xfrm_messages import Direction, SaMessages
from imsbench.protocol.secagree import MECHANISMS, Sa

U8, U16, U32, U64 = ctypes.c_uint8, ctypes.c_uint16, ctypes.c_uint32, ctypes.c_uint64
BE16, BE32 = ctypes.c_uint16.__ctype_be__, ctypes.c_uint32.__ctype_be__
INFINITE = 2**64 - 1


class Address(ctypes.Structure):
    _fields_ = (("a6", U32 * 4),)


class Selector(ctypes.Structure):
    _fields_ = (
        ("daddr", Address), ("saddr", Address),
        ("dport", BE16), ("dport_mask", BE16), ("sport", BE16), ("sport_mask", BE16),
        ("family", U16), ("prefixlen_d", U8), ("prefixlen_s", U8), ("proto", U8),
        ("ifindex", ctypes.c_int), ("user", U32),
    )  # fmt: skip


class Id(ctypes.Structure):
    _fields_ = (("daddr", Address), ("spi", BE32), ("proto", U8))


class LifetimeCfg(ctypes.Structure):
    _fields_ = tuple(
        (f"{kind}_{what}", U64)
        for what in ("byte", "packet", "add", "use")
        for kind in ("soft", "hard")
    )


class LifetimeCur(ctypes.Structure):
    _fields_ = (("bytes", U64), ("packets", U64), ("add_time", U64), ("use_time", U64))


class Stats(ctypes.Structure):
    _fields_ = (("replay_window", U32), ("replay", U32), ("integrity_failed", U32))


class UserSa(ctypes.Structure):
    _fields_ = (
        ("sel", Selector), ("id", Id), ("saddr", Address), ("lft", LifetimeCfg),
        ("curlft", LifetimeCur), ("stats", Stats), ("seq", U32), ("reqid", U32),
        ("family", U16), ("mode", U8), ("replay_window", U8), ("flags", U8),
    )  # fmt: skip


class UserSaId(ctypes.Structure):
    _fields_ = (("daddr", Address), ("spi", BE32), ("family", U16), ("proto", U8))


class UserPolicy(ctypes.Structure):
    _fields_ = (
        ("sel", Selector), ("lft", LifetimeCfg), ("curlft", LifetimeCur), ("priority", U32),
        ("index", U32), ("dir", U8), ("action", U8), ("flags", U8), ("share", U8),
    )  # fmt: skip


class UserPolicyId(ctypes.Structure):
    _fields_ = (("sel", Selector), ("index", U32), ("dir", U8))


class UserTemplate(ctypes.Structure):
    _fields_ = (
        ("id", Id), ("family", U16), ("saddr", Address), ("reqid", U32), ("mode", U8),
        ("share", U8), ("optional", U8), ("aalgos", U32), ("ealgos", U32), ("calgos", U32),
    )  # fmt: skip


class AlgoAuth(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char * 64), ("key_len", U32), ("trunc_len", U32))


class Algo(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char * 64), ("key_len", U32))


class ReplayEsn(ctypes.Structure):
    _fields_ = tuple(
        (name, U32) for name in ("bmp_len", "oseq", "seq", "oseq_hi", "seq_hi", "replay_window")
    )


SAS = [
    Sa(0x01020304, "198.18.0.1", 20001, "198.19.0.10", 5063),
    Sa(4096, "2001:2:0:1::1", 20001, "2001:2:0:2::10", 5063),
]
WAYS: list[tuple[Sa, Direction]] = [
    (sa, direction) for sa in SAS for direction in messages.DIRECTIONS
]


def attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Type and value of each attribute; they fill the data."""
    while data:
        size, kind = U16.from_buffer_copy(data).value, U16.from_buffer_copy(data, 2).value
        assert size >= 4
        padded = (size + 3) // 4 * 4
        assert padded <= len(data)
        yield kind, data[4:size]
        data = data[padded:]


def address(text: str) -> bytes:
    family = socket.AF_INET6 if ":" in text else socket.AF_INET
    return socket.inet_pton(family, text).ljust(16, b"\0")


def check_selector(selector: Selector, sa: Sa) -> None:
    assert bytes(selector.daddr) == address(sa.destination)
    assert bytes(selector.saddr) == address(sa.source)
    assert (selector.dport, selector.dport_mask) == (sa.destination_port, 0xFFFF)
    assert (selector.sport, selector.sport_mask) == (sa.source_port, 0xFFFF)
    ipv6 = ":" in sa.source
    assert selector.family == (socket.AF_INET6 if ipv6 else socket.AF_INET)
    assert selector.prefixlen_d == selector.prefixlen_s == (128 if ipv6 else 32)
    assert (selector.proto, selector.ifindex, selector.user) == (0, 0, 0)


def check_lifetime(lifetime: LifetimeCfg, seconds: int) -> None:
    assert {lifetime.soft_byte, lifetime.hard_byte} == {INFINITE}
    assert {lifetime.soft_packet, lifetime.hard_packet} == {INFINITE}
    assert (lifetime.soft_add, lifetime.soft_use) == (0, 0)
    assert (lifetime.hard_add, lifetime.hard_use) == (seconds, seconds)


@pytest.mark.parametrize(("sa", "direction"), WAYS)
def test_a_new_state(sa: Sa, direction: Direction) -> None:
    algorithms = messages.algorithm_attributes("hmac-sha-1-96", "null", bytes(range(20)), b"")
    body = SaMessages(sa, direction).new_state(algorithms)
    state = UserSa.from_buffer_copy(body)
    check_selector(state.sel, sa)
    assert bytes(state.id.daddr) == address(sa.destination)
    assert (state.id.spi, state.id.proto) == (sa.spi, socket.IPPROTO_ESP)
    assert bytes(state.saddr) == address(sa.source)
    check_lifetime(state.lft, 2**32 - 1)
    assert bytes(state.curlft) == bytes(32)
    assert bytes(state.stats) == bytes(12)
    assert state.reqid == {"out": 33203001, "in": 33203002}[direction]
    assert state.family == state.sel.family
    assert (state.mode, state.replay_window, state.flags) == (0, 0, 0)
    found = dict(attributes(body[ctypes.sizeof(UserSa) :]))
    assert set(found) == {20, 2, 23}
    replay = ReplayEsn.from_buffer_copy(found[23])
    assert (replay.bmp_len, replay.replay_window) == (2, 64)
    assert (replay.oseq, replay.seq, replay.oseq_hi, replay.seq_hi) == (0, 0, 0, 0)
    assert found[23][ctypes.sizeof(ReplayEsn) :] == bytes(8)


@pytest.mark.parametrize(
    ("alg", "ealg", "auth", "encryption"),
    [
        ("hmac-sha-1-96", "null", (b"hmac(sha1)", 20), (b"ecb(cipher_null)", 0)),
        ("hmac-md5-96", "aes-cbc", (b"hmac(md5)", 16), (b"cbc(aes)", 16)),
        ("hmac-sha-1-96", "des-ede3-cbc", (b"hmac(sha1)", 20), (b"cbc(des3_ede)", 24)),
    ],
)
def test_integrity_truncated_to_96_bits_and_a_cipher(
    alg: str, ealg: str, auth: tuple[bytes, int], encryption: tuple[bytes, int]
) -> None:
    integrity_key, cipher_key = bytes(range(auth[1])), bytes(range(100, 100 + encryption[1]))
    found = dict(attributes(messages.algorithm_attributes(alg, ealg, integrity_key, cipher_key)))
    assert set(found) == {20, 2}
    trunc = AlgoAuth.from_buffer_copy(found[20])
    assert (trunc.name, trunc.key_len, trunc.trunc_len) == (auth[0], 8 * auth[1], 96)
    assert found[20][ctypes.sizeof(AlgoAuth) :] == integrity_key
    crypt = Algo.from_buffer_copy(found[2])
    assert (crypt.name, crypt.key_len) == (encryption[0], 8 * encryption[1])
    assert found[2][ctypes.sizeof(Algo) :] == cipher_key


@pytest.mark.parametrize(
    ("alg", "ealg", "name"),
    [("null", "aes-gcm", b"rfc4106(gcm(aes))"), ("aes-gmac", "null", b"rfc4543(gcm(aes))")],
)
def test_integrity_and_encryption_in_one(alg: str, ealg: str, name: bytes) -> None:
    key = bytes(range(20))
    keys = (key, b"") if ealg == "null" else (b"", key)
    ((kind, value),) = attributes(messages.algorithm_attributes(alg, ealg, *keys))
    assert kind == 18
    aead = AlgoAuth.from_buffer_copy(value)
    assert (aead.name, aead.key_len, aead.trunc_len) == (name, 160, 128)
    assert value[ctypes.sizeof(AlgoAuth) :] == key


def test_every_mechanism_of_the_agreement_is_known() -> None:
    for alg, ealg in MECHANISMS:
        assert messages.algorithm_attributes(alg, ealg, b"", b"")


@pytest.mark.parametrize(("alg", "ealg"), [("hmac-sha-1-96", "rot13"), ("crc", "null")])
def test_an_unknown_algorithm_is_named(alg: str, ealg: str) -> None:
    with pytest.raises(messages.UnsupportedAlgorithmError, match=f"alg={alg} with ealg={ealg}"):
        messages.algorithm_attributes(alg, ealg, bytes(20), b"")


@pytest.mark.parametrize(("sa", "direction"), WAYS)
def test_a_new_policy(sa: Sa, direction: Direction) -> None:
    body = SaMessages(sa, direction).new_policy()
    policy = UserPolicy.from_buffer_copy(body)
    check_selector(policy.sel, sa)
    check_lifetime(policy.lft, 0)
    assert (policy.priority, policy.index) == (33203, 0)
    assert policy.dir == {"in": 0, "out": 1}[direction]
    assert (policy.action, policy.flags, policy.share) == (0, 0, 0)
    ((kind, value),) = attributes(body[ctypes.sizeof(UserPolicy) :])
    assert kind == 5
    assert len(value) == ctypes.sizeof(UserTemplate)
    template = UserTemplate.from_buffer_copy(value)
    assert bytes(template.id.daddr) == address(sa.destination)
    assert (template.id.spi, template.id.proto) == (sa.spi, socket.IPPROTO_ESP)
    assert template.family == policy.sel.family
    assert bytes(template.saddr) == address(sa.source)
    assert template.reqid == {"out": 33203001, "in": 33203002}[direction]
    assert (template.mode, template.share, template.optional) == (0, 0, 0)
    assert {template.aalgos, template.ealgos, template.calgos} == {2**32 - 1}


@pytest.mark.parametrize(("sa", "direction"), WAYS)
def test_ids(sa: Sa, direction: Direction) -> None:
    made = SaMessages(sa, direction)
    assert len(made.state_id()) == ctypes.sizeof(UserSaId)
    state = UserSaId.from_buffer_copy(made.state_id())
    assert bytes(state.daddr) == address(sa.destination)
    assert (state.spi, state.proto) == (sa.spi, socket.IPPROTO_ESP)
    assert state.family == (socket.AF_INET6 if ":" in sa.source else socket.AF_INET)
    assert len(made.policy_id()) == ctypes.sizeof(UserPolicyId)
    policy = UserPolicyId.from_buffer_copy(made.policy_id())
    check_selector(policy.sel, sa)
    assert (policy.index, policy.dir) == (0, {"in": 0, "out": 1}[direction])


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("direction", ["in", "out"])
def test_a_guard_blocks_local_ports_of_anybody(version: int, direction: Direction) -> None:
    body = messages.new_guard(version, direction, 20032, 0xFFE0)
    assert len(body) == ctypes.sizeof(UserPolicy)
    policy = UserPolicy.from_buffer_copy(body)
    assert bytes(policy.sel.daddr) == bytes(policy.sel.saddr) == bytes(16)
    assert policy.sel.prefixlen_d == policy.sel.prefixlen_s == 0
    assert policy.sel.family == (socket.AF_INET6 if version == 6 else socket.AF_INET)
    assert policy.sel.proto == 0
    there = (policy.sel.dport, policy.sel.dport_mask)
    here = (policy.sel.sport, policy.sel.sport_mask)
    assert (there, here) == (
        ((20032, 0xFFE0), (0, 0)) if direction == "in" else ((0, 0), (20032, 0xFFE0))
    )
    assert policy.dir == {"in": 0, "out": 1}[direction]
    assert (policy.action, policy.priority) == (1, 33204)


def test_port_masks_of_a_ring() -> None:
    assert messages.port_masks([(20000, 20063)]) == [(20000, 0xFFE0), (20032, 0xFFE0)]
    assert messages.port_masks([(6101, 6101), (6101, 6101)]) == [(6101, 0xFFFF)]
    assert messages.port_masks([(0, 65535)]) == [(0, 0)]


RANGES = st.lists(
    st.tuples(st.integers(1, 2000), st.integers(0, 300)).map(lambda pair: (pair[0], sum(pair))),
    max_size=4,
)


@given(RANGES)
def test_port_masks_cover_the_ranges_and_nothing_else(ranges: list[tuple[int, int]]) -> None:
    wanted = set(itertools.chain.from_iterable(range(a, b + 1) for a, b in ranges))
    masks = messages.port_masks(ranges)
    covered = [p for p in range(4096) for port, mask in masks if p & mask == port]
    assert sorted(wanted) == covered


@pytest.mark.parametrize(("sa", "direction"), WAYS)
def test_own_objects_are_told_from_others(sa: Sa, direction: Direction) -> None:
    made = SaMessages(sa, direction)
    version, other = (6, 4) if ":" in sa.source else (4, 6)
    algorithms = messages.algorithm_attributes("hmac-md5-96", "null", bytes(16), b"")
    body = made.new_state(algorithms)
    assert messages.own_state(body, version) == made.state_id()
    assert messages.own_state(body, other) is None
    assert messages.own_policy(made.new_policy(), version) == made.policy_id()
    assert messages.own_policy(made.new_policy(), other) is None
    foreign = UserSa.from_buffer_copy(body)
    foreign.reqid = 1
    assert messages.own_state(bytes(foreign), version) is None
    policy = made.new_policy()
    size = ctypes.sizeof(UserPolicy)
    assert messages.own_policy(policy[:size], version) is None  # no template, so no reqid
    theirs = UserPolicy.from_buffer_copy(policy)
    theirs.priority = 2080
    assert messages.own_policy(bytes(theirs) + policy[size:], version) is None


def test_a_guard_is_swept_but_not_anybodys_block() -> None:
    guard = messages.new_guard(4, "in", 6101, 0xFFFF)
    found = messages.own_policy(guard, 4)
    assert found is not None
    assert UserPolicyId.from_buffer_copy(found).sel.dport == 6101
    theirs = UserPolicy.from_buffer_copy(guard)
    theirs.priority = 1
    assert messages.own_policy(bytes(theirs), 4) is None


@pytest.mark.parametrize(("sa", "direction"), WAYS)
def test_use_is_read_from_a_state(sa: Sa, direction: Direction) -> None:
    version = 6 if ":" in sa.source else 4
    algorithms = messages.algorithm_attributes("hmac-md5-96", "null", bytes(16), b"")
    body = SaMessages(sa, direction).new_state(algorithms)
    state = UserSa.from_buffer_copy(body)
    state.curlft.bytes, state.curlft.packets = 2**40, 1234
    use = messages.read_use(bytes(state), version)
    assert use == messages.Use(direction, 1234, 2**40)
    state.reqid = 5
    assert messages.read_use(bytes(state), version) is None
