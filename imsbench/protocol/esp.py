"""ESP in transport mode (RFC 4303), with the algorithms of the IMS security agreement.

A packet of one SA, integrity over all that stands before the ICV:

    SPI 4 | sequence number 4 | IV (aes-cbc: 16) | payload | padding 1, 2, 3 … | pad length 1 |
    next header 1 | ICV 12

The payload is a whole TCP or UDP segment; what stands before the ESP header (the IP header) is the
caller's. hmac-sha-1-96 is RFC 2404, hmac-md5-96 RFC 2403, aes-cbc RFC 3602, null RFC 2410. Sequence
numbers have 32 bits: an SA of TS 33.203 has no extended ones. Anti-replay is on (TS 33.203 §6.3).

Speed shapes this module: HMAC is two copied hash contexts, in which the padded key is hashed already
(RFC 2104 §4), and the four SAs of a set share them, since they share their keys (TS 33.203 §7.1).
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from typing import ClassVar

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

HEADER_SIZE = 8
"""Bytes of SPI and sequence number."""
ICV_SIZE = 12
"""Bytes of the integrity check value of both algorithms (96 bits)."""
AES_BLOCK = 16
"""Bytes of an aes-cbc block, and of its IV."""
REPLAY_WINDOW = 64
"""Packets that may come late (RFC 4303 §3.4.3: the default)."""
MAX_SEQUENCE = 2**32 - 1

_HASHES = {"hmac-sha-1-96": (hashlib.sha1, 20), "hmac-md5-96": (hashlib.md5, 16)}
_IPAD = bytes(byte ^ 0x36 for byte in range(256))
_OPAD = bytes(byte ^ 0x5C for byte in range(256))
_HASH_BLOCK = 64
_HEADER = struct.Struct("!II")
_SEQUENCE = struct.Struct("!I")
_PADDING = bytes(range(1, 256))  # RFC 4303 §2.4: 1, 2, 3, …
_BYTE = [bytes([value]) for value in range(256)]
_NULL_TRAILER = [_PADDING[:pad] + _BYTE[pad] for pad in (2, 1, 0, 3)]  # by payload size mod 4
_WINDOW_MASK = (1 << REPLAY_WINDOW) - 1


class EspError(ValueError):
    """A packet that an SA does not take, or cannot send."""

    counter: ClassVar[str] = "esp_error"
    """Name under which such a packet is counted."""


class BadIcv(EspError):
    """The integrity check failed: other keys, or bytes changed on the way (RFC 4303 §3.4.4)."""

    counter = "bad_icv"


class Replayed(EspError):
    """Its sequence number came before, or is left of the window (RFC 4303 §3.4.3)."""

    counter = "replayed"


class Truncated(EspError):
    """Too short, or its encrypted part is no whole number of blocks (RFC 4303 §2)."""

    counter = "truncated"


class BadPadding(EspError):
    """Padding other than 1, 2, 3 … or longer than the packet (RFC 4303 §2.4)."""

    counter = "bad_padding"


class SequenceExhausted(EspError):
    """All 2^32 - 1 packets of the SA are sent; the number must not cycle (RFC 4303 §3.3.3)."""

    counter = "sequence_exhausted"


class EspKeys:
    """Algorithms and keys of an SA set, made ready; its four SAs share one (TS 33.203 §7.1)."""

    __slots__ = ("_aes", "_inner", "_outer", "encrypted")

    def __init__(self, alg: str, ealg: str, integrity_key: bytes, cipher_key: bytes) -> None:
        """ValueError for an unknown algorithm or a key of the wrong size (TS 33.203 annex I)."""
        if alg not in _HASHES:
            raise ValueError(f"unknown integrity algorithm {alg!r}")
        new, size = _HASHES[alg]
        if len(integrity_key) != size:
            raise ValueError(f"{alg} takes a key of {size} bytes, not {len(integrity_key)}")
        if ealg not in ("null", "aes-cbc"):
            raise ValueError(f"unknown encryption algorithm {ealg!r}")
        if len(cipher_key) != (AES_BLOCK if ealg == "aes-cbc" else 0):
            raise ValueError(f"{ealg} does not take a key of {len(cipher_key)} bytes")
        key = integrity_key.ljust(_HASH_BLOCK, b"\0")
        self._inner = new(key.translate(_IPAD), usedforsecurity=False)
        self._outer = new(key.translate(_OPAD), usedforsecurity=False)
        self.encrypted = ealg == "aes-cbc"
        """Whether an IV is needed."""
        self._aes = algorithms.AES(cipher_key) if self.encrypted else None

    def icv(self, body: bytes) -> bytes:
        """The integrity check value of a packet up to here (RFC 2404 §3, RFC 2403 §3)."""
        inner = self._inner.copy()
        inner.update(body)
        outer = self._outer.copy()
        outer.update(inner.digest())
        return outer.digest()[:ICV_SIZE]

    def encrypt(self, plain: bytes, iv: bytes) -> bytes:
        """Whole blocks under aes-cbc (RFC 3602 §3)."""
        assert self._aes is not None
        return Cipher(self._aes, modes.CBC(iv)).encryptor().update(plain)

    def decrypt(self, cipher: bytes, iv: bytes) -> bytes:
        """Whole blocks under aes-cbc (RFC 3602 §3)."""
        assert self._aes is not None
        return Cipher(self._aes, modes.CBC(iv)).decryptor().update(cipher)


class EspOut:
    """The sending end of one SA."""

    __slots__ = ("_icv", "keys", "sequence", "spi")

    def __init__(self, spi: int, keys: EspKeys) -> None:
        self.spi = spi
        """SPI, chosen by the receiver."""
        self.keys = keys
        """Algorithms and keys."""
        self.sequence = 0
        """Number of the packet sent last; the first is 1 (RFC 4303 §2.2)."""
        self._icv = keys.icv

    def seal(self, next_header: int, payload: bytes, iv: bytes = b"") -> bytes:
        """One ESP packet around a transport segment; ``iv`` (16 unpredictable bytes) for aes-cbc only.

        SequenceExhausted at the end of the SA; ValueError for an IV of the wrong size.
        """
        self.sequence = sequence = self.sequence + 1
        if sequence > MAX_SEQUENCE:
            self.sequence = MAX_SEQUENCE
            raise SequenceExhausted(f"SA {self.spi:#010x} has sent all its packets")
        if self.keys.encrypted:
            body = self._encrypted(sequence, next_header, payload, iv)
        else:
            # RFC 4303 §2.4: pad length and next header end on a 4-byte boundary
            body = (
                _HEADER.pack(self.spi, sequence)
                + payload
                + _NULL_TRAILER[len(payload) & 3]
                + _BYTE[next_header]
            )
        return body + self._icv(body)

    def _encrypted(self, sequence: int, next_header: int, payload: bytes, iv: bytes) -> bytes:
        if len(iv) != AES_BLOCK:
            raise ValueError(f"aes-cbc takes an IV of {AES_BLOCK} bytes, not {len(iv)}")
        pad = -(len(payload) + 2) % AES_BLOCK
        plain = payload + _PADDING[:pad] + _BYTE[pad] + _BYTE[next_header]
        return _HEADER.pack(self.spi, sequence) + iv + self.keys.encrypt(plain, iv)


class EspIn:
    """The receiving end of one SA. The caller has found it by the packet's SPI."""

    __slots__ = ("_icv", "_seen", "highest", "keys", "spi")

    def __init__(self, spi: int, keys: EspKeys) -> None:
        self.spi = spi
        """SPI, chosen by this end."""
        self.keys = keys
        """Algorithms and keys."""
        self.highest = 0
        """Highest sequence number received and verified: the right edge of the window."""
        self._seen = 1  # bit d: number highest - d has come; number 0 is never sent
        self._icv = keys.icv

    def open(self, packet: bytes) -> tuple[int, bytes]:
        """The next header and the transport segment of an ESP packet.

        EspError (Truncated, Replayed, BadIcv, BadPadding) leaves the window as it was, except
        BadPadding, whose packet is authentic (RFC 4303 §3.4.3: after the ICV the window moves).
        """
        size = len(packet)
        if size < HEADER_SIZE + 2 + ICV_SIZE:
            raise Truncated(f"{size} bytes are no ESP packet")
        (sequence,) = _SEQUENCE.unpack_from(packet, 4)
        late = self.highest - sequence
        if late >= 0 and (late >= REPLAY_WINDOW or self._seen >> late & 1):
            raise Replayed(f"SA {self.spi:#010x}: number {sequence} after {self.highest}")
        body = packet[:-ICV_SIZE]
        if not hmac.compare_digest(self._icv(body), packet[-ICV_SIZE:]):
            raise BadIcv(f"SA {self.spi:#010x}: number {sequence}")
        plain = self._decrypted(body) if self.keys.encrypted else body[HEADER_SIZE:]
        if late >= 0:
            self._seen |= 1 << late
        else:
            self.highest = sequence
            self._seen = (self._seen << -late | 1) & _WINDOW_MASK if late > -REPLAY_WINDOW else 1
        pad = plain[-2]
        end = len(plain) - 2 - pad
        if end < 0 or (pad and plain[end:-2] != _PADDING[:pad]):
            raise BadPadding(f"SA {self.spi:#010x}: number {sequence}, pad length {pad}")
        return plain[-1], plain[:end]

    def _decrypted(self, body: bytes) -> bytes:
        size = len(body) - HEADER_SIZE - AES_BLOCK
        if size < AES_BLOCK or size % AES_BLOCK:
            raise Truncated(f"SA {self.spi:#010x}: {size} bytes are no aes-cbc blocks")
        start = HEADER_SIZE + AES_BLOCK
        return self.keys.decrypt(body[start:], body[HEADER_SIZE:start])
