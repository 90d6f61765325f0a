"""ESP packets against bytes made by hand (RFC 4303 layout, RFC 2404/2403 ICVs, RFC 3602/2451 blocks)
and against the published packets of aes-gcm and aes-gmac (draft-mcgrew-gcm-test-01)."""

from __future__ import annotations

import hashlib
import hmac

import pytest
from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import strategies as st

from imsbench.protocol.esp import (
    MAX_SEQUENCE,
    REPLAY_WINDOW,
    BadIcv,
    BadPadding,
    EspError,
    EspIn,
    EspKeys,
    EspOut,
    Replayed,
    SequenceExhausted,
    Truncated,
)
from imsbench.protocol.secagree import MECHANISMS, esp_keys, integrity_key

IK = bytes.fromhex("f769bcd751044604127672711c6d3441")  # TS 35.207 test set 1
CK = bytes.fromhex("b40ba9a3c58b2a05bbf0d987b21bf8cb")
IV = bytes(range(0xA0, 0xB0))
SPI = 0x01020304
WITH_HMAC = [(alg, ealg) for alg, ealg in MECHANISMS if alg.startswith("hmac-")]
COMBINED = [mechanism for mechanism in MECHANISMS if mechanism not in WITH_HMAC]
IV_SIZES = {"aes-cbc": 16, "des-ede3-cbc": 8}


def keys(alg: str = "hmac-sha-1-96", ealg: str = "null") -> EspKeys:
    return EspKeys(alg, ealg, *esp_keys(alg, ealg, CK, IK))


def iv(ealg: str) -> bytes:
    return IV[: IV_SIZES.get(ealg, 0)]


def icv(alg: str, body: bytes) -> bytes:
    """By Python's own hmac, not by the module under test."""
    name = {"hmac-sha-1-96": "sha1", "hmac-md5-96": "md5"}[alg]
    return hmac.digest(integrity_key(alg, IK), body, name)[:12]


def test_a_null_packet_byte_by_byte() -> None:
    """Five bytes of payload need one byte of padding to end on four (RFC 4303 §2.4)."""
    body = bytes.fromhex("01020304 00000001") + b"hello" + bytes.fromhex("01 01 06")
    key = IK + bytes(4)  # TS 33.203 annex I
    inner = hashlib.sha1(bytes(b ^ 0x36 for b in key.ljust(64, b"\0")) + body).digest()
    outer = hashlib.sha1(bytes(b ^ 0x5C for b in key.ljust(64, b"\0")) + inner).digest()
    packet = EspOut(SPI, keys()).seal(6, b"hello")
    assert packet == body + outer[:12]
    assert packet.hex() == "010203040000000168656c6c6f010106" + outer[:12].hex()


def test_an_encrypted_packet_byte_by_byte() -> None:
    """Nine bytes of padding make five bytes of payload one block (RFC 3602 §2.4)."""
    plain = b"hello" + bytes(range(1, 10)) + bytes([9, 17])
    encryptor = Cipher(algorithms.AES(CK), modes.ECB()).encryptor()
    block = encryptor.update(bytes(p ^ v for p, v in zip(plain, IV, strict=True)))
    body = bytes.fromhex("01020304 00000001") + IV + block
    packet = EspOut(SPI, keys("hmac-md5-96", "aes-cbc")).seal(17, b"hello", IV)
    assert packet == body + icv("hmac-md5-96", body)


def test_a_triple_des_packet_byte_by_byte() -> None:
    """One byte of padding makes five bytes of payload one block of eight (RFC 2451 §2)."""
    plain = b"hello" + bytes([1, 1, 6])
    encryptor = Cipher(TripleDES(CK + CK[:8]), modes.ECB()).encryptor()
    block = encryptor.update(bytes(p ^ v for p, v in zip(plain, IV, strict=False)))
    body = bytes.fromhex("01020304 00000001") + IV[:8] + block
    packet = EspOut(SPI, keys("hmac-sha-1-96", "des-ede3-cbc")).seal(6, b"hello", IV[:8])
    assert packet == body + icv("hmac-sha-1-96", body)


def test_a_gcm_packet_byte_by_byte() -> None:
    """SPI and number are the IV too; they alone are covered in clear (RFC 4106 §3, §5)."""
    key = esp_keys("null", "aes-gcm", CK, IK)[1]
    header = bytes.fromhex("01020304 00000001")
    sealed = AESGCM(CK).encrypt(key[16:] + header, b"hello" + bytes([1, 1, 6]), header)
    assert EspOut(SPI, keys("null", "aes-gcm")).seal(6, b"hello") == header + header + sealed


def test_a_gmac_packet_byte_by_byte() -> None:
    """All is in clear, and all is covered, the IV too (RFC 4543 §3.3)."""
    key = esp_keys("aes-gmac", "null", CK, IK)[0]
    header = bytes.fromhex("01020304 00000001")
    body = header + header + b"hello" + bytes([1, 1, 6])
    tag = AESGCM(IK).encrypt(key[16:] + header, b"", body)
    assert EspOut(SPI, keys("aes-gmac", "null")).seal(6, b"hello") == body + tag


def test_a_published_gcm_packet_is_opened() -> None:
    key = bytes.fromhex("feffe9928665731c6d6a8f9467308308 cafebabe")
    packet = bytes.fromhex(
        "0000a5f8 0000000a facedbad decaf888 deb22cd9 b07c72c1 6e3a65be eb8df304 a5a5897d 33ae530f"
        "1ba76d5d 114d2a5c 3de81827 c10e9a4f 51330d0e ec416642 cfbb85a5 b47e48a4 ec3b9ba9 5d918bd1"
        "83b70d3a a8bc6ee4 c309e9d8 5a41ad4a"
    )
    into = EspIn(0xA5F8, EspKeys("null", "aes-gcm", b"", key))
    assert into.open(packet) == (
        1,
        bytes.fromhex(
            "4500003e 698f0000 80114dcc c0a80102 c0a80101 0a980035 002a2343 b2d00100 00010000 00000000"
            "03736970 09637962 65726369 74790264 6b000001 0001"
        ),
    )
    assert into.highest == 10


def test_a_published_gmac_packet_is_opened() -> None:
    key = bytes.fromhex("4c80cdefbb5d10da906ac73c3613a634 22433c64")
    plain = bytes.fromhex(
        "45000030 da3a0000 8001df3b c0a80005 c0a80001 0800c6cd 02000700 61626364 65666768 696a6b6c"
        "6d6e6f70 71727374 01020201"
    )
    packet = bytes.fromhex("00004321 00000007 00000000 00000000") + plain
    packet += bytes.fromhex("f2a9a836 e155106a a8dcd618 e4099aaa")
    assert EspIn(0x4321, EspKeys("aes-gmac", "null", key, b"")).open(packet) == (1, plain[:-4])


@pytest.mark.parametrize(("alg", "ealg"), COMBINED)
def test_no_two_packets_of_a_set_have_one_nonce(alg: str, ealg: str) -> None:
    """The four SAs share key and salt (TS 33.203 annex I); a repeated IV would end GCM."""
    shared = keys(alg, ealg)
    sas = [EspOut(SPI + n, shared) for n in range(4)]
    ivs = {sa.seal(6, b"segment")[8:16] for sa in sas for _ in range(5)}
    assert len(ivs) == 20


@pytest.mark.parametrize("size", range(9))
def test_null_padding_aligns_to_four(size: int) -> None:
    packet = EspOut(SPI, keys()).seal(6, bytes(size))
    pad = packet[-14]
    assert len(packet) % 4 == 0
    assert packet[8 + size : -14] == bytes(range(1, pad + 1))
    assert 0 <= pad < 4


@pytest.mark.parametrize(("alg", "ealg"), WITH_HMAC)
def test_every_packet_has_its_number_and_icv(alg: str, ealg: str) -> None:
    out = EspOut(SPI, keys(alg, ealg))
    for number in (1, 2, 3):
        packet = out.seal(6, b"segment", iv(ealg))
        assert packet[:8] == SPI.to_bytes(4, "big") + number.to_bytes(4, "big")
        assert packet[-12:] == icv(alg, packet[:-12])


@pytest.mark.parametrize(("alg", "ealg"), MECHANISMS)
@given(
    segments=st.lists(st.tuples(st.integers(0, 255), st.binary(max_size=1500)), max_size=5),
    vector=st.binary(min_size=16, max_size=16),
)
def test_what_is_sealed_is_opened(
    alg: str, ealg: str, segments: list[tuple[int, bytes]], vector: bytes
) -> None:
    out, into = EspOut(SPI, keys(alg, ealg)), EspIn(SPI, keys(alg, ealg))
    for next_header, payload in segments:
        packet = out.seal(next_header, payload, vector[: IV_SIZES.get(ealg, 0)])
        assert into.open(packet) == (next_header, payload)


@given(st.data())
def test_any_changed_bit_is_noticed(data: st.DataObject) -> None:
    alg, ealg = data.draw(st.sampled_from(MECHANISMS))
    packet = bytearray(EspOut(SPI, keys(alg, ealg)).seal(6, b"segment", iv(ealg)))
    bit = data.draw(st.integers(0, 8 * len(packet) - 1))
    packet[bit // 8] ^= 1 << bit % 8
    into = EspIn(SPI, keys(alg, ealg))
    with pytest.raises((BadIcv, Replayed)):  # number 0 was never sent
        into.open(bytes(packet))
    assert into.highest == 0, "a false packet must not move the window"


@pytest.mark.parametrize(("alg", "ealg"), MECHANISMS)
@given(packet=st.binary(max_size=200))
def test_no_bytes_open_with_anything_but_an_esp_error(alg: str, ealg: str, packet: bytes) -> None:
    with pytest.raises(EspError):
        EspIn(SPI, keys(alg, ealg)).open(packet)


@pytest.mark.parametrize(("alg", "ealg"), MECHANISMS)
def test_other_keys_are_a_bad_icv(alg: str, ealg: str) -> None:
    other = EspKeys(alg, ealg, *esp_keys(alg, ealg, bytes(16), bytes(16)))
    with pytest.raises(BadIcv):
        EspIn(SPI, keys(alg, ealg)).open(EspOut(SPI, other).seal(6, b"segment", iv(ealg)))


@pytest.mark.parametrize(("alg", "ealg"), COMBINED)
def test_another_salt_is_a_bad_icv(alg: str, ealg: str) -> None:
    integrity, cipher = esp_keys(alg, ealg, CK, IK)
    salted = [key and key[:-1] + bytes([key[-1] ^ 1]) for key in (integrity, cipher)]
    packet = EspOut(SPI, EspKeys(alg, ealg, *salted)).seal(6, b"segment")
    with pytest.raises(BadIcv):
        EspIn(SPI, keys(alg, ealg)).open(packet)


@pytest.mark.parametrize("size", range(22))
def test_short_packets_are_truncated(size: int) -> None:
    with pytest.raises(Truncated):
        EspIn(SPI, keys()).open(EspOut(SPI, keys()).seal(6, b"segment")[:size])


@pytest.mark.parametrize(("alg", "ealg"), COMBINED)
@pytest.mark.parametrize("size", [0, 15, 16, 31, 33])
def test_short_packets_of_combined_modes_are_truncated(alg: str, ealg: str, size: int) -> None:
    packet = EspOut(SPI, keys(alg, ealg)).seal(6, b"segment")
    with pytest.raises(Truncated):
        EspIn(SPI, keys(alg, ealg)).open(packet[:size])


@pytest.mark.parametrize("blocks", [b"", bytes(8), bytes(15), bytes(17)])
def test_parts_of_aes_blocks_are_truncated(blocks: bytes) -> None:
    body = SPI.to_bytes(4, "big") + b"\0\0\0\x01" + IV + blocks
    with pytest.raises(Truncated):
        EspIn(SPI, keys(ealg="aes-cbc")).open(body + icv("hmac-sha-1-96", body))


@pytest.mark.parametrize("blocks", [b"", bytes(7), bytes(12)])
def test_parts_of_triple_des_blocks_are_truncated(blocks: bytes) -> None:
    body = SPI.to_bytes(4, "big") + b"\0\0\0\x01" + IV[:8] + blocks
    with pytest.raises(Truncated):
        EspIn(SPI, keys(ealg="des-ede3-cbc")).open(body + icv("hmac-sha-1-96", body))


@pytest.mark.parametrize(
    "trailer",
    [b"\x02\x01\x02\x06", b"\x00\x00\x02\x06", b"\x09\x06", b"\xff\x06"],
    ids=["order", "zeros", "longer than the packet", "255"],
)
def test_other_padding_is_bad(trailer: bytes) -> None:
    body = SPI.to_bytes(4, "big") + b"\0\0\0\x01" + b"data" + trailer
    with pytest.raises(BadPadding):
        EspIn(SPI, keys()).open(body + icv("hmac-sha-1-96", body))


@pytest.mark.parametrize("pad", [0, 4, 100, 255])
def test_a_sender_may_pad_more_than_it_must(pad: int) -> None:
    """RFC 4303 §2.4: up to 255 bytes."""
    body = SPI.to_bytes(4, "big") + b"\0\0\0\x01" + b"data" + bytes(range(1, pad + 1))
    body += bytes([pad, 6])
    into = EspIn(SPI, keys())
    assert into.open(body + icv("hmac-sha-1-96", body)) == (6, b"data")


# The replay window (RFC 4303 §3.4.3)


def numbered(*numbers: int) -> list[bytes]:
    packets = []
    for number in numbers:
        out = EspOut(SPI, keys())
        out.sequence = number - 1
        packets.append(out.seal(6, number.to_bytes(4, "big")))
    return packets


def accepted(*numbers: int) -> list[bool]:
    into = EspIn(SPI, keys())
    result = []
    for packet in numbered(*numbers):
        try:
            into.open(packet)
        except Replayed:
            result.append(False)
        else:
            result.append(True)
    return result


def test_a_packet_is_taken_once() -> None:
    assert accepted(1, 1, 2, 2, 1) == [True, False, True, False, False]


def test_late_packets_are_taken_within_the_window() -> None:
    edge = 100 - REPLAY_WINDOW + 1
    assert accepted(100, edge, edge - 1, 99, 99) == [True, True, False, True, False]


@pytest.mark.parametrize("jump", [1, 63, 64, 65, 1000, MAX_SEQUENCE - 1])
def test_jumps_forget_what_leaves_the_window(jump: int) -> None:
    within = jump < REPLAY_WINDOW
    assert accepted(1, 1 + jump, 1, jump, jump) == (
        [True, True, False, jump > 1, False] if jump > 1 else [True, True, False, False, False]
    )
    assert accepted(1 + jump, 1)[1] is within


@given(st.lists(st.integers(1, 300), max_size=80))
def test_the_window_is_the_set_of_numbers_seen(numbers: list[int]) -> None:
    seen: set[int] = set()
    expected = []
    for number in numbers:
        fresh = number not in seen and number > max(seen, default=0) - REPLAY_WINDOW
        expected.append(fresh)
        if fresh:
            seen.add(number)
    assert accepted(*numbers) == expected


def test_number_zero_is_never_right() -> None:
    packet = numbered(1)[0]
    body = packet[:4] + bytes(4) + packet[8:-12]
    with pytest.raises(Replayed):
        EspIn(SPI, keys()).open(body + icv("hmac-sha-1-96", body))


def test_the_number_does_not_cycle() -> None:
    """RFC 4303 §3.3.3."""
    out = EspOut(SPI, keys())
    out.sequence = MAX_SEQUENCE - 1
    assert out.seal(6, b"last")[4:8] == b"\xff\xff\xff\xff"
    for _ in range(2):
        with pytest.raises(SequenceExhausted):
            out.seal(6, b"one too many")


# Keys


@pytest.mark.parametrize(
    ("alg", "ealg", "integrity", "cipher", "text"),
    [
        ("hmac-sha-256", "null", bytes(20), b"", "unknown integrity algorithm"),
        ("hmac-sha-1-96", "aes-ctr", bytes(20), b"", "unknown encryption algorithm"),
        ("hmac-sha-1-96", "aes-gcm", bytes(20), bytes(20), "does not go with ealg aes-gcm"),
        ("aes-gmac", "aes-cbc", bytes(20), bytes(16), "alg aes-gmac does not go with"),
        ("null", "null", b"", b"", "alg null does not go with ealg null"),
        ("null", "aes-gcm", b"", bytes(16), "aes-gcm takes a key of 20 bytes, not 16"),
        ("aes-gmac", "null", bytes(16), b"", "aes-gmac takes a key of 20 bytes, not 16"),
        ("hmac-md5-96", "des-ede3-cbc", bytes(16), bytes(16), "takes a key of 24 bytes"),
        ("hmac-sha-1-96", "null", bytes(16), b"", "takes a key of 20 bytes"),
        ("hmac-md5-96", "null", bytes(20), b"", "takes a key of 16 bytes"),
        ("hmac-md5-96", "aes-cbc", bytes(16), b"", "aes-cbc takes a key of 16 bytes, not 0"),
        ("hmac-md5-96", "null", bytes(16), bytes(16), "null takes a key of 0 bytes, not 16"),
    ],
)
def test_keys_that_do_not_fit_are_refused(
    alg: str, ealg: str, integrity: bytes, cipher: bytes, text: str
) -> None:
    with pytest.raises(ValueError, match=text):
        EspKeys(alg, ealg, integrity, cipher)


@pytest.mark.parametrize("vector", [b"", bytes(15), bytes(17)])
def test_aes_cbc_needs_an_iv_of_a_block(vector: bytes) -> None:
    with pytest.raises(ValueError, match="IV of 16 bytes"):
        EspOut(SPI, keys(ealg="aes-cbc")).seal(6, b"segment", vector)


@pytest.mark.parametrize(("alg", "ealg"), MECHANISMS)
def test_keys_tell_the_iv_they_need(alg: str, ealg: str) -> None:
    assert keys(alg, ealg).iv_size == IV_SIZES.get(ealg, 0)
