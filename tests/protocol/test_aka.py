"""Milenage against the published sets, and AKA between the two ends that run it."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import pytest

from imsbench.protocol.aka import (
    MacFailure,
    Milenage,
    SqnWindow,
    SyncFailure,
    check_auts,
    generate_vector,
    make_nonce,
    opc,
    run_aka,
    split_nonce,
)

DATA = Path(__file__).parent.parent / "data" / "milenage.txt"


@dataclass(frozen=True)
class Published:
    """One line of the published test data."""

    number: int
    k: bytes
    rand: bytes
    sqn: int
    amf: bytes
    op: bytes
    opc: bytes
    outputs: tuple[bytes, ...]


def _published() -> list[Published]:
    sets = []
    for line in DATA.read_text().splitlines():
        if line.startswith("#"):
            continue
        given, _, expected = line.partition(" | ")
        number, *fields = given.split()
        k, rand, sqn, amf, op_, opc_ = map(bytes.fromhex, fields)
        outputs = tuple(map(bytes.fromhex, expected.split()))
        sets.append(Published(int(number), k, rand, int.from_bytes(sqn), amf, op_, opc_, outputs))
    return sets


SETS = _published()
SET_1 = SETS[0]
MILENAGE_1 = Milenage(SET_1.k, opc=SET_1.opc)
AUTN_1 = bytes.fromhex("55f328b43577b9b94a9ffac354dfafb3")
AUTS_1 = bytes.fromhex("ba853f3c123ccf44e93596e355c6")


def test_all_twenty_sets_are_read() -> None:
    assert [published.number for published in SETS] == list(range(1, 21))


@pytest.mark.parametrize("published", SETS, ids=lambda p: f"set {p.number}")
def test_published_set(published: Published) -> None:
    assert opc(published.k, published.op) == published.opc
    for milenage in (
        Milenage(published.k, op=published.op),
        Milenage(published.k, opc=published.opc),
    ):
        res, ck, ik, ak = milenage.f2345(published.rand)
        got = (
            milenage.f1(published.rand, published.sqn, published.amf),
            milenage.f1_star(published.rand, published.sqn, published.amf),
            res,
            ck,
            ik,
            ak,
            milenage.f5_star(published.rand),
        )
        assert got == published.outputs
        assert milenage.opc == published.opc


@pytest.mark.parametrize("published", SETS, ids=lambda p: f"set {p.number}")
def test_both_ends_agree_on_published_set(published: Published) -> None:
    milenage = Milenage(published.k, op=published.op)
    vector = generate_vector(milenage, published.rand, published.sqn, published.amf)
    mac_a, _, res, ck, ik, ak, _ = published.outputs
    concealed = (published.sqn ^ int.from_bytes(ak)).to_bytes(6)
    assert vector.autn == concealed + published.amf + mac_a
    assert (vector.rand, vector.xres, vector.ck, vector.ik) == (published.rand, res, ck, ik)
    result = run_aka(milenage, vector.rand, vector.autn, SqnWindow())
    assert (result.res, result.ck, result.ik, result.sqn) == (res, ck, ik, published.sqn)


def test_golden_autn_nonce_and_auts() -> None:
    vector = generate_vector(MILENAGE_1, SET_1.rand, SET_1.sqn, SET_1.amf)
    assert vector.autn == AUTN_1
    nonce = make_nonce(vector.rand, vector.autn)
    assert nonce == "I1U8vpY3qJ0hiuZNrke/NVXzKLQ1d7m5Sp/6w1Tfr7M="
    assert split_nonce(nonce) == (SET_1.rand, AUTN_1)
    with pytest.raises(SyncFailure) as failure:
        run_aka(MILENAGE_1, SET_1.rand, AUTN_1, SqnWindow(highest=SET_1.sqn))
    assert failure.value.auts == AUTS_1
    assert check_auts(MILENAGE_1, SET_1.rand, AUTS_1) == SET_1.sqn


def test_golden_autn_with_separation_bit() -> None:
    vector = generate_vector(MILENAGE_1, SET_1.rand, SET_1.sqn, b"\x80\x00")
    assert vector.autn.hex() == "55f328b43577800059bcea576837152b"


@pytest.mark.parametrize("byte", range(16))
def test_every_changed_byte_of_autn_is_a_mac_failure(byte: int) -> None:
    autn = bytearray(AUTN_1)
    autn[byte] ^= 1
    window = SqnWindow()
    with pytest.raises(MacFailure):
        run_aka(MILENAGE_1, SET_1.rand, bytes(autn), window)
    assert window.highest == 0  # a forgery moves nothing


def test_wrong_key_or_operator_is_a_mac_failure() -> None:
    for other in (
        Milenage(bytes(16), opc=SET_1.opc),
        Milenage(SET_1.k, opc=bytes(16)),
        Milenage(SET_1.k, op=SET_1.opc),
    ):
        with pytest.raises(MacFailure):
            run_aka(other, SET_1.rand, AUTN_1, SqnWindow())
        with pytest.raises(MacFailure):
            check_auts(other, SET_1.rand, AUTS_1)


@pytest.mark.parametrize("byte", range(14))
def test_every_changed_byte_of_auts_is_a_mac_failure(byte: int) -> None:
    auts = bytearray(AUTS_1)
    auts[byte] ^= 0x80
    with pytest.raises(MacFailure):
        check_auts(MILENAGE_1, SET_1.rand, bytes(auts))


def test_resynchronisation_ends_in_success() -> None:
    """TS 33.102 §6.3.5: the HSS takes SQN_MS over and its next vector is fresh."""
    ahead = 5000 << 5 | 7
    window = SqnWindow(highest=ahead)
    stale = generate_vector(MILENAGE_1, bytes(16), 12 << 5, b"\x80\x00")
    with pytest.raises(SyncFailure) as failure:
        run_aka(MILENAGE_1, stale.rand, stale.autn, window)
    sqn_ms = check_auts(MILENAGE_1, stale.rand, failure.value.auts)
    assert sqn_ms == ahead
    fresh = generate_vector(MILENAGE_1, bytes(range(16)), sqn_ms + 32, b"\x80\x00")
    result = run_aka(MILENAGE_1, fresh.rand, fresh.autn, window)
    assert (result.res, result.sqn, window.highest) == (fresh.xres, ahead + 32, ahead + 32)


def test_replayed_challenge_is_a_sync_failure() -> None:
    window = SqnWindow()
    run_aka(MILENAGE_1, SET_1.rand, AUTN_1, window)
    with pytest.raises(SyncFailure):
        run_aka(MILENAGE_1, SET_1.rand, AUTN_1, window)


def test_thousands_of_random_challenges_agree() -> None:
    """HSS and phone compute the same whatever K, RAND and SQN; RES holds 0x00 at every place."""
    source = random.Random(35208)
    zeros: set[int] = set()
    for _ in range(4000):
        milenage = Milenage(source.randbytes(16), op=source.randbytes(16))
        rand, sqn = source.randbytes(16), source.getrandbits(48) | 32
        vector = generate_vector(milenage, rand, sqn, source.randbytes(2))
        assert split_nonce(make_nonce(vector.rand, vector.autn)) == (rand, vector.autn)
        result = run_aka(milenage, rand, vector.autn, SqnWindow())
        assert (result.res, result.ck, result.ik, result.sqn) == (
            vector.xres, vector.ck, vector.ik, sqn,
        )  # fmt: skip
        with pytest.raises(SyncFailure) as failure:
            run_aka(milenage, rand, vector.autn, SqnWindow(highest=sqn))
        assert check_auts(milenage, rand, failure.value.auts) == sqn
        zeros.update(place for place, byte in enumerate(result.res) if not byte)
    assert zeros == set(range(8))


def test_window_orders_seq_within_each_ind() -> None:
    """TS 33.102 annex C.2.2: late vectors are fresh if their IND has not seen their SEQ."""
    window = SqnWindow()
    assert window.accept(10 << 5 | 1)
    assert not window.accept(10 << 5 | 1)
    assert window.accept(9 << 5 | 2)  # behind, but IND 2 has seen nothing
    assert not window.accept(9 << 5 | 1)
    assert not window.accept(9 << 5 | 2)
    assert window.accept(11 << 5 | 2)
    assert window.highest == 11 << 5 | 2


def test_window_keeps_highest_when_a_late_vector_is_accepted() -> None:
    window = SqnWindow()
    assert window.accept(10 << 5)
    assert window.accept(3 << 5 | 4)
    assert window.highest == 10 << 5


def test_new_window_refuses_seq_zero_and_takes_any_other() -> None:
    assert not SqnWindow().accept(31)
    assert SqnWindow().accept(32)
    assert SqnWindow().accept(2**48 - 1)


def test_window_refuses_arbitrary_jumps() -> None:
    """TS 33.102 annex C.2.1: an increase of at most delta."""
    window = SqnWindow(highest=1 << 5)
    assert not window.accept(SqnWindow.MAX_JUMP + 2 << 5)
    assert window.highest == 1 << 5
    assert window.accept(SqnWindow.MAX_JUMP + 1 << 5)


def test_window_given_its_highest_has_it_for_every_ind() -> None:
    window = SqnWindow(highest=100 << 5 | 3)
    for ind in range(32):
        assert not window.accept(100 << 5 | ind)
    assert window.accept(101 << 5 | 30)
    assert not window.accept(100 << 5 | 4)


@pytest.mark.parametrize("ind_bits", [0, 1, 4, 8])
def test_window_of_other_ind_lengths(ind_bits: int) -> None:
    window = SqnWindow(ind_bits)
    for ind in range(1 << ind_bits):
        assert window.accept(5 << ind_bits | ind)
        assert not window.accept(5 << ind_bits | ind)


def test_server_data_behind_autn_is_left() -> None:
    """RFC 3310 §3.2: the nonce may carry server data."""
    assert split_nonce("I1U8vpY3qJ0hiuZNrke/NVXzKLQ1d7m5Sp/6w1Tfr7MAAQID") == (SET_1.rand, AUTN_1)


@pytest.mark.parametrize(
    "nonce",
    ["", "!!!!", "I1U8", "I1U8vpY3qJ0hiuZNrke/NVXzKLQ1d7m5Sp/6w1Tfr7M", "é" * 44, "A" * 40],
)
def test_bad_nonce(nonce: str) -> None:
    with pytest.raises(ValueError, match="nonce"):
        split_nonce(nonce)


def test_wrong_lengths_are_refused() -> None:
    key = bytes(16)
    with pytest.raises(ValueError, match="K has 15"):
        Milenage(bytes(15), opc=key)
    with pytest.raises(ValueError, match="K has 32"):
        Milenage(bytes(32), opc=key)
    with pytest.raises(ValueError, match="OPc has 8"):
        Milenage(key, opc=bytes(8))
    with pytest.raises(ValueError, match="OP has 17"):
        Milenage(key, op=bytes(17))
    with pytest.raises(ValueError, match="OP or OPc"):
        Milenage(key)
    with pytest.raises(ValueError, match="OP or OPc"):
        Milenage(key, op=key, opc=key)
    with pytest.raises(ValueError, match="RAND has 15"):
        MILENAGE_1.f2345(bytes(15))
    with pytest.raises(ValueError, match="AMF has 3"):
        MILENAGE_1.f1(key, 0, bytes(3))
    with pytest.raises(ValueError, match="48 bits"):
        generate_vector(MILENAGE_1, key, 2**48, bytes(2))
    with pytest.raises(ValueError, match="48 bits"):
        MILENAGE_1.f1_star(key, -1, bytes(2))
    with pytest.raises(ValueError, match="AUTN has 14"):
        run_aka(MILENAGE_1, key, bytes(14), SqnWindow())
    with pytest.raises(ValueError, match="AUTS has 13"):
        check_auts(MILENAGE_1, key, bytes(13))
    with pytest.raises(ValueError, match="AUTN has 1"):
        make_nonce(key, b"1")
