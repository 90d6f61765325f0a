"""UMTS AKA with Milenage: what the USIM and the HSS compute (TS 33.102 §6.3, TS 35.206).

Rules of this module:

* Pure functions of their arguments. RAND is handed in, and so is the state of the sequence
  numbers (``SqnWindow``); nothing here draws a random number, reads a clock or keeps a subscriber.
* Keys, RAND, AUTN and everything Milenage gives are bytes; SQN is a whole number of 48 bits,
  because it is counted, compared and cut into SEQ and IND. AMF is its two bytes.
* A challenge that the specification lets a USIM refuse raises ``MacFailure`` or ``SyncFailure``;
  a challenge of the wrong length is no challenge at all and raises ``ValueError``.

Theory of operation. The HSS draws RAND, takes the subscriber's next SQN and sends
``AUTN = (SQN xor AK) || AMF || MAC-A``. The USIM computes AK = f5(RAND), uncovers SQN, checks
``MAC-A = f1(SQN, RAND, AMF)``: only who knows K could write it (else MacFailure: another network, or
a wrong K or OP). Then SQN must be fresh (``SqnWindow``). If it is not, the USIM answers
``AUTS = (SQN_MS xor AK*) || MAC-S``, with f1* and f5* and an AMF of zeros (TS 33.102 §6.3.3), and the
HSS goes on from SQN_MS. If it is, RES = f2 proves the USIM, and CK = f3, IK = f4 key the SAs.

Milenage is AES-128 under K around one common block, ``TEMP = E(RAND xor OPc)``; each output is
``E(rotate(TEMP xor OPc, r) xor c) xor OPc`` (TS 35.206 §4.1). AES-ECB has no chaining, so f2 to f5
take one call of three blocks and an AKA run three calls of five blocks in all, on an encryptor
that is made once per object. Blocks are worked on as 128-bit numbers: Python xors and rotates them
without a loop.
"""

from __future__ import annotations

import base64
import binascii
from array import array
from dataclasses import dataclass

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

MAX_SQN = 2**48 - 1
RESYNCHRONISATION_AMF = bytes(2)
"""AMF of MAC-S: all zeros, so that it need not be sent (TS 33.102 §6.3.3)."""

_BLOCK = 2**128 - 1


class AkaError(Exception):
    """A challenge that a USIM refuses (TS 33.102 §6.3.3)."""


class MacFailure(AkaError):
    """MAC-A or MAC-S is not what K gives: the far end does not know this subscriber's key."""


class SyncFailure(AkaError):
    """The network is genuine, its SQN is not fresh; the answer is AUTS (TS 33.102 §6.3.5)."""

    def __init__(self, auts: bytes) -> None:
        super().__init__("SQN out of range")
        self.auts = auts
        """(SQN_MS xor AK*) || MAC-S, 14 bytes."""


class Milenage:
    """f1 … f5* of one subscriber (TS 35.206); K and OPc (or OP) are 16 bytes each.

    ValueError if a key has another length, or unless exactly one of ``op`` and ``opc`` is given.
    The encryptor holds a kilobyte and is made in microseconds: one per attempt, not per phone.
    """

    __slots__ = ("_encrypt", "_opc")

    def __init__(self, k: bytes, *, opc: bytes | None = None, op: bytes | None = None) -> None:
        if len(k) != 16:
            raise ValueError(f"K has {len(k)} bytes, not 16")
        if (op is None) == (opc is None):
            raise ValueError("either OP or OPc is needed, not both")
        # ECB keeps nothing between blocks: one encryptor serves every call.
        self._encrypt = Cipher(algorithms.AES(k), modes.ECB()).encryptor().update
        if opc is None:
            opc = self._cover(_checked(op or b"", 16, "OP"))
        self._opc = int.from_bytes(_checked(opc, 16, "OPc"))

    @property
    def opc(self) -> bytes:
        """OPc: OP encrypted under K, 16 bytes (TS 35.206 §4.1)."""
        return self._opc.to_bytes(16)

    def f1(self, rand: bytes, sqn: int, amf: bytes) -> bytes:
        """MAC-A, 8 bytes: proves the network (TS 35.206 §4.1)."""
        return self._out1(self._temp(rand), sqn, amf)[:8]

    def f1_star(self, rand: bytes, sqn: int, amf: bytes) -> bytes:
        """MAC-S, 8 bytes: proves the USIM in a resynchronisation (TS 35.206 §4.1)."""
        return self._out1(self._temp(rand), sqn, amf)[8:]

    def f2345(self, rand: bytes) -> tuple[bytes, bytes, bytes, bytes]:
        """RES (8 bytes), CK (16), IK (16), AK (6) (TS 35.206 §4.1)."""
        return self._out234(self._temp(rand))

    def f5_star(self, rand: bytes) -> bytes:
        """AK of a resynchronisation, 6 bytes (TS 35.206 §4.1)."""
        return self._out5(self._temp(rand))[:6]

    def _cover(self, op: bytes) -> bytes:
        return (int.from_bytes(self._encrypt(op)) ^ int.from_bytes(op)).to_bytes(16)

    def _temp(self, rand: bytes) -> int:
        block = int.from_bytes(_checked(rand, 16, "RAND")) ^ self._opc
        return int.from_bytes(self._encrypt(block.to_bytes(16)))

    def _out1(self, temp: int, sqn: int, amf: bytes) -> bytes:
        """MAC-A || MAC-S: r1 = 64, c1 = 0; IN1 = SQN || AMF || SQN || AMF rotated is itself."""
        half = _checked_sqn(sqn) << 16 | int.from_bytes(_checked(amf, 2, "AMF"))
        block = temp ^ (half << 64 | half) ^ _rotate(self._opc, 64)
        out = int.from_bytes(self._encrypt(block.to_bytes(16))) ^ self._opc
        return out.to_bytes(16)

    def _out234(self, temp: int) -> tuple[bytes, bytes, bytes, bytes]:
        """RES, CK, IK, AK: r2 = 0, c2 = 1; r3 = 32, c3 = 2; r4 = 64, c4 = 4."""
        opc = self._opc
        base = temp ^ opc
        blocks = (base ^ 1) << 256 | (_rotate(base, 32) ^ 2) << 128 | _rotate(base, 64) ^ 4
        covers = opc << 256 | opc << 128 | opc
        out = (int.from_bytes(self._encrypt(blocks.to_bytes(48))) ^ covers).to_bytes(48)
        return out[8:16], out[16:32], out[32:48], out[:6]

    def _out5(self, temp: int) -> bytes:
        """AK* in the first six bytes: r5 = 96, c5 = 8."""
        block = _rotate(temp ^ self._opc, 96) ^ 8
        return (int.from_bytes(self._encrypt(block.to_bytes(16))) ^ self._opc).to_bytes(16)


def opc(k: bytes, op: bytes) -> bytes:
    """OPc from K and the operator's OP (TS 35.206 §4.1); ValueError unless both are 16 bytes."""
    return Milenage(k, op=op).opc


@dataclass(frozen=True, slots=True)
class Vector:
    """One authentication vector (TS 33.102 §6.3.2)."""

    rand: bytes
    """The challenge, 16 bytes."""
    autn: bytes
    """(SQN xor AK) || AMF || MAC-A, 16 bytes."""
    xres: bytes
    """The RES that the USIM must answer, 8 bytes."""
    ck: bytes
    """Cipher key, 16 bytes."""
    ik: bytes
    """Integrity key, 16 bytes."""


@dataclass(frozen=True, slots=True)
class AkaResult:
    """What an accepted challenge gives the phone (TS 33.102 §6.3.3)."""

    res: bytes
    """The answer, 8 bytes."""
    ck: bytes
    """Cipher key, 16 bytes."""
    ik: bytes
    """Integrity key, 16 bytes."""
    sqn: int
    """The sequence number of the challenge."""


class SqnWindow:
    """The sequence numbers that a USIM has accepted (TS 33.102 annex C.1.1.1, C.2).

    SQN is SEQ || IND; a SEQ is fresh if it is above the last one accepted with the same IND, so
    that vectors may come out of order. A jump of more than ``MAX_JUMP`` is refused (annex C.2.1:
    else one forged number could use the counter up), except from zero: a simulated USIM is new,
    its HSS need not be.
    """

    MAX_JUMP = 2**28
    """Delta of annex C.3, in steps of SEQ."""

    __slots__ = ("_ind_bits", "_seqs", "highest")

    def __init__(self, ind_bits: int = 5, highest: int = 0) -> None:
        self._ind_bits = ind_bits
        # One SEQ per IND, allocated with the first acceptance: most phones wait for theirs.
        self._seqs: array[int] | None = None
        self.highest = highest
        """SQN_MS: the highest SQN accepted; given at the start, it is the last one of every IND."""

    def accept(self, sqn: int) -> bool:
        """Whether this SQN is fresh; if so it is remembered (TS 33.102 annex C.2.1, C.2.2)."""
        bits = self._ind_bits
        seq, ind = sqn >> bits, sqn & (1 << bits) - 1
        seq_ms = self.highest >> bits
        if self.highest and seq - seq_ms > self.MAX_JUMP:
            return False
        if seq <= (seq_ms if self._seqs is None else self._seqs[ind]):
            return False
        if self._seqs is None:
            self._seqs = array("Q", [seq_ms]) * (1 << bits)
        self._seqs[ind] = seq
        self.highest = max(self.highest, sqn)
        return True


def generate_vector(milenage: Milenage, rand: bytes, sqn: int, amf: bytes) -> Vector:
    """The HSS's side of a challenge (TS 33.102 §6.3.2).

    ValueError if SQN is not of 48 bits, or RAND or AMF have a wrong length.
    """
    temp = milenage._temp(rand)
    res, ck, ik, ak = milenage._out234(temp)
    mac_a = milenage._out1(temp, sqn, amf)[:8]
    return Vector(rand, _concealed(sqn, ak) + amf + mac_a, res, ck, ik)


def run_aka(milenage: Milenage, rand: bytes, autn: bytes, window: SqnWindow) -> AkaResult:
    """The USIM's side of a challenge (TS 33.102 §6.3.3).

    MacFailure if AUTN is not from a network that knows K; SyncFailure, with AUTS, if its SQN is not
    fresh in ``window``; ValueError if RAND or AUTN are not 16 bytes. A challenge that is accepted
    moves the window.
    """
    _checked(autn, 16, "AUTN")
    temp = milenage._temp(rand)
    res, ck, ik, ak = milenage._out234(temp)
    sqn = int.from_bytes(autn[:6]) ^ int.from_bytes(ak)
    if milenage._out1(temp, sqn, autn[6:8])[:8] != autn[8:]:
        raise MacFailure("MAC-A differs")
    if not window.accept(sqn):
        raise SyncFailure(_auts(milenage, temp, window.highest))
    return AkaResult(res, ck, ik, sqn)


def check_auts(milenage: Milenage, rand: bytes, auts: bytes) -> int:
    """SQN_MS out of an AUTS, at the HSS (TS 33.102 §6.3.5).

    MacFailure if it does not come from this USIM for this RAND; ValueError unless it is 14 bytes.
    """
    _checked(auts, 14, "AUTS")
    temp = milenage._temp(rand)
    sqn_ms = int.from_bytes(auts[:6]) ^ int.from_bytes(milenage._out5(temp)[:6])
    if milenage._out1(temp, sqn_ms, RESYNCHRONISATION_AMF)[8:] != auts[6:]:
        raise MacFailure("MAC-S differs")
    return sqn_ms


def split_nonce(nonce: str) -> tuple[bytes, bytes]:
    """RAND and AUTN out of a Digest AKA nonce; server data behind them is left (RFC 3310 §3.2).

    ValueError if it is not base64 or too short.
    """
    try:
        data = base64.b64decode(nonce, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"nonce is not base64: {nonce[:80]!r}") from error
    if len(data) < 32:
        raise ValueError(f"nonce has {len(data)} bytes, RAND and AUTN need 32")
    return data[:16], data[16:32]


def make_nonce(rand: bytes, autn: bytes) -> str:
    """The Digest AKA nonce: base64 of RAND || AUTN (RFC 3310 §3.2)."""
    return base64.b64encode(_checked(rand, 16, "RAND") + _checked(autn, 16, "AUTN")).decode()


def _auts(milenage: Milenage, temp: int, sqn_ms: int) -> bytes:
    mac_s = milenage._out1(temp, sqn_ms, RESYNCHRONISATION_AMF)[8:]
    return _concealed(sqn_ms, milenage._out5(temp)[:6]) + mac_s


def _concealed(sqn: int, ak: bytes) -> bytes:
    return (sqn ^ int.from_bytes(ak)).to_bytes(6)


def _rotate(block: int, bits: int) -> int:
    """Towards the most significant bit, as TS 35.206 §3.2 has it."""
    return (block << bits | block >> 128 - bits) & _BLOCK


def _checked(value: bytes, size: int, name: str) -> bytes:
    if len(value) != size:
        raise ValueError(f"{name} has {len(value)} bytes, not {size}")
    return value


def _checked_sqn(sqn: int) -> int:
    if not 0 <= sqn <= MAX_SQN:
        raise ValueError(f"SQN {sqn} is not of 48 bits")
    return sqn
