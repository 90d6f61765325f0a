"""ESP in transport mode (RFC 4303), with the algorithms of the IMS security agreement.

A packet of one SA; the ICV stands over all before it:

    SPI 4 | sequence number 4 | IV | payload | padding 1, 2, 3 … | pad length 1 | next header 1 | ICV

    alg              ealg           IV   ICV
    hmac-sha-1-96    null            -    12    RFC 2404
    hmac-md5-96      null            -    12    RFC 2403
    (either)         aes-cbc        16    12    RFC 3602: payload to next header is encrypted
    (either)         des-ede3-cbc    8    12    RFC 2451: the same
    null             aes-gcm         8    16    RFC 4106: the same, and the ICV comes with it
    aes-gmac         null            8    16    RFC 4543: nothing is encrypted, the ICV is GCM's

The payload is a whole TCP or UDP segment; what stands before the ESP header (the IP header) is the
caller's. Sequence numbers have 32 bits: an SA of TS 33.203 has no extended ones. Anti-replay is on
(TS 33.203 §6.3).

The four SAs of a set share their keys, and the salt of aes-gcm and aes-gmac (TS 33.203 §7.1, annex I).
So an IV that merely counts would come four times, which is the end of GCM (RFC 4106 §3.1). The IV is
SPI and sequence number: no two packets of a set have both in common, as the SPIs of both sides differ
(TS 33.203 §7.2).

Speed shapes this module: HMAC is two copied hash contexts, in which the padded key is hashed already
(RFC 2104 §4), and the four SAs of a set share them.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from typing import ClassVar

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives.ciphers import Cipher, CipherAlgorithm, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.ciphers.algorithms import AES

from imsbench.protocol.secagree import MECHANISMS

HEADER_SIZE = 8
"""Bytes of SPI and sequence number."""
ICV_SIZE = 12
"""Bytes of the integrity check value of the HMACs (96 bits)."""
GCM_IV_SIZE = 8
"""Bytes of the IV of aes-gcm and aes-gmac (RFC 4106 §3.1, RFC 4543 §3.1)."""
GCM_ICV_SIZE = 16
"""Bytes of their integrity check value (RFC 4106 §6, RFC 4543 §3.4)."""
REPLAY_WINDOW = 64
"""Packets that may come late (RFC 4303 §3.4.3: the default)."""
MAX_SEQUENCE = 2**32 - 1

_HASHES = {"hmac-sha-1-96": hashlib.sha1, "hmac-md5-96": hashlib.md5}
_INTEGRITY_KEYS = {"hmac-sha-1-96": 20, "hmac-md5-96": 16, "aes-gmac": 20, "null": 0}
_CIPHER_KEYS = {"null": 0, "aes-cbc": 16, "des-ede3-cbc": 24, "aes-gcm": 20}
_SALT_SIZE = 4  # RFC 4106 §8.1, RFC 4543 §5.2: the last bytes of the keying material
_GCM_START = HEADER_SIZE + GCM_IV_SIZE
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


class CbcCipher:
    """A block cipher in CBC mode, its IV in front of the blocks (RFC 3602 §3, RFC 2451 §2)."""

    __slots__ = ("_algorithm", "_name", "block")

    def __init__(self, name: str, algorithm: CipherAlgorithm, block: int) -> None:
        self._name = name
        self._algorithm = algorithm
        self.block = block
        """Bytes of a block, and of the IV."""

    def encrypt(self, next_header: int, payload: bytes, iv: bytes) -> bytes:
        """IV and blocks; ValueError for an IV that is no block."""
        if len(iv) != self.block:
            raise ValueError(f"{self._name} takes an IV of {self.block} bytes, not {len(iv)}")
        pad = -(len(payload) + 2) % self.block
        plain = payload + _PADDING[:pad] + _BYTE[pad] + _BYTE[next_header]
        return iv + Cipher(self._algorithm, modes.CBC(iv)).encryptor().update(plain)

    def decrypt(self, data: bytes) -> bytes:
        """Payload to next header; Truncated unless IV and whole blocks are given."""
        block = self.block
        size = len(data) - block
        if size < block or size % block:
            raise Truncated(f"{size} bytes are no {self._name} blocks")
        return Cipher(self._algorithm, modes.CBC(data[:block])).decryptor().update(data[block:])


class Gcm:
    """aes-gcm: encryption and ICV in one, over 4-byte words (RFC 4106)."""

    __slots__ = ("_aead", "_salt")

    def __init__(self, key: bytes) -> None:
        """key: 16 bytes and the salt's 4 (RFC 4106 §8.1)."""
        self._aead = AESGCM(key[:-_SALT_SIZE])
        self._salt = key[-_SALT_SIZE:]

    def seal(self, header: bytes, plain: bytes) -> bytes:
        """The packet around payload to next header; the IV repeats SPI and sequence number."""
        return header + header + self._aead.encrypt(self._salt + header, plain, header)

    def open(self, packet: bytes) -> bytes:
        """Payload to next header; InvalidTag."""
        nonce = self._salt + packet[HEADER_SIZE:_GCM_START]
        return self._aead.decrypt(nonce, packet[_GCM_START:], packet[:HEADER_SIZE])


class Gmac:
    """aes-gmac: the ICV of aes-gcm over all that stands before it, nothing encrypted (RFC 4543)."""

    __slots__ = ("_aead", "_salt")

    def __init__(self, key: bytes) -> None:
        """key: 16 bytes and the salt's 4 (RFC 4543 §5.2)."""
        self._aead = AESGCM(key[:-_SALT_SIZE])
        self._salt = key[-_SALT_SIZE:]

    def seal(self, header: bytes, plain: bytes) -> bytes:
        """The packet around payload to next header; the IV repeats SPI and sequence number."""
        body = header + header + plain
        return body + self._aead.encrypt(self._salt + header, b"", body)

    def open(self, packet: bytes) -> bytes:
        """Payload to next header; InvalidTag."""
        body, icv = packet[:-GCM_ICV_SIZE], packet[-GCM_ICV_SIZE:]
        self._aead.decrypt(self._salt + packet[HEADER_SIZE:_GCM_START], icv, body)
        return body[_GCM_START:]


class EspKeys:
    """Algorithms and keys of an SA set, made ready; its four SAs share one (TS 33.203 §7.1)."""

    __slots__ = ("_inner", "_outer", "cipher", "combined", "iv_size", "least", "plain")

    def __init__(self, alg: str, ealg: str, integrity_key: bytes, cipher_key: bytes) -> None:
        """Keys as ``secagree.esp_keys`` makes them.

        ValueError for unknown algorithms, for such as do not go together, and for a key of the wrong
        size (TS 33.203 annex I).
        """
        _check_keys(alg, ealg, integrity_key, cipher_key)
        self.cipher: CbcCipher | None = None
        """Encrypts, where the ICV is an HMAC."""
        self.combined: Gcm | Gmac | None = None
        """Does it all, where there is no HMAC."""
        match alg, ealg:
            case "null", _:
                self.combined = Gcm(cipher_key)
            case "aes-gmac", _:
                self.combined = Gmac(integrity_key)
            case _, "aes-cbc":
                self.cipher = CbcCipher(ealg, AES(cipher_key), 16)
            case _, "des-ede3-cbc":
                self.cipher = CbcCipher(ealg, TripleDES(cipher_key), 8)
        self.plain = self.cipher is None and self.combined is None
        """Whether it is an HMAC and nothing else."""
        self.iv_size = self.cipher.block if self.cipher is not None else 0
        """Bytes of the unpredictable IV that ``seal`` is to be handed; 0: none."""
        self.least = (_GCM_START + GCM_ICV_SIZE if self.combined else HEADER_SIZE + ICV_SIZE) + 2
        """Bytes of the smallest packet: with pad length and next header."""
        if self.combined is None:
            key = integrity_key.ljust(_HASH_BLOCK, b"\0")
            self._inner = _HASHES[alg](key.translate(_IPAD), usedforsecurity=False)
            self._outer = _HASHES[alg](key.translate(_OPAD), usedforsecurity=False)

    def icv(self, body: bytes) -> bytes:
        """The HMAC of a packet up to here (RFC 2404 §3, RFC 2403 §3)."""
        inner = self._inner.copy()
        inner.update(body)
        outer = self._outer.copy()
        outer.update(inner.digest())
        return outer.digest()[:ICV_SIZE]


def _check_keys(alg: str, ealg: str, integrity_key: bytes, cipher_key: bytes) -> None:
    if alg not in _INTEGRITY_KEYS:
        raise ValueError(f"unknown integrity algorithm {alg!r}")
    if ealg not in _CIPHER_KEYS:
        raise ValueError(f"unknown encryption algorithm {ealg!r}")
    if (alg, ealg) not in MECHANISMS:
        raise ValueError(f"alg {alg} does not go with ealg {ealg} (TS 33.203 annex H)")
    for name, size, key in (
        (alg, _INTEGRITY_KEYS[alg], integrity_key),
        (ealg, _CIPHER_KEYS[ealg], cipher_key),
    ):
        if len(key) != size:
            raise ValueError(f"{name} takes a key of {size} bytes, not {len(key)}")


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
        """One ESP packet around a transport segment; ``iv``: ``keys.iv_size`` unpredictable bytes.

        SequenceExhausted at the end of the SA; ValueError for an IV of the wrong size.
        """
        self.sequence = sequence = self.sequence + 1
        if sequence > MAX_SEQUENCE:
            self.sequence = MAX_SEQUENCE
            raise SequenceExhausted(f"SA {self.spi:#010x} has sent all its packets")
        # RFC 4303 §2.4: pad length and next header end on a 4-byte boundary
        if self.keys.plain:
            body = (
                _HEADER.pack(self.spi, sequence)
                + payload
                + _NULL_TRAILER[len(payload) & 3]
                + _BYTE[next_header]
            )
            return body + self._icv(body)
        header = _HEADER.pack(self.spi, sequence)
        if self.keys.combined is not None:
            trailer = _NULL_TRAILER[len(payload) & 3] + _BYTE[next_header]
            return self.keys.combined.seal(header, payload + trailer)
        assert self.keys.cipher is not None
        body = header + self.keys.cipher.encrypt(next_header, payload, iv)
        return body + self._icv(body)


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
        if size < self.keys.least:
            raise Truncated(f"{size} bytes are no ESP packet")
        (sequence,) = _SEQUENCE.unpack_from(packet, 4)
        late = self.highest - sequence
        if late >= 0 and (late >= REPLAY_WINDOW or self._seen >> late & 1):
            raise Replayed(f"SA {self.spi:#010x}: number {sequence} after {self.highest}")
        if self.keys.combined is None:
            body = packet[:-ICV_SIZE]
            if not hmac.compare_digest(self._icv(body), packet[-ICV_SIZE:]):
                raise BadIcv(f"SA {self.spi:#010x}: number {sequence}")
            plain = body[HEADER_SIZE:]
            if not self.keys.plain:
                plain = self._decrypted(plain)
        else:
            plain = self._opened(packet, sequence)
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

    def _decrypted(self, data: bytes) -> bytes:
        assert self.keys.cipher is not None
        try:
            return self.keys.cipher.decrypt(data)
        except Truncated as error:
            raise Truncated(f"SA {self.spi:#010x}: {error}") from None

    def _opened(self, packet: bytes, sequence: int) -> bytes:
        assert self.keys.combined is not None
        try:
            return self.keys.combined.open(packet)
        except InvalidTag:
            raise BadIcv(f"SA {self.spi:#010x}: number {sequence}") from None
