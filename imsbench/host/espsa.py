"""Keys of SA sets in the form that Wireshark reads: a line of its table "esp_sa" for each SA.

    "IPv4","198.18.0.1","198.19.0.10","0x00001001","NULL","","HMAC-SHA-1-96 [RFC2404]","0x…"

protocol, source, destination, SPI, encryption, key, authentication, key. The salts of aes-gcm stand
behind the key, as in RFC 4106 §8.1. Wireshark knows no ESP with aes-gmac (RFC 4543): those SAs are
comments, so that nothing is decoded as what it is not.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from imsbench.host.backend import AddReader, SaBackend
from imsbench.host.filewriter import FileWriter
from imsbench.protocol.secagree import SaSet

_AUTHENTICATION = {
    "hmac-sha-1-96": "HMAC-SHA-1-96 [RFC2404]",
    "hmac-md5-96": "HMAC-MD5-96 [RFC2403]",
    "null": "NULL",
}
_ENCRYPTION = {
    "null": "NULL",
    "aes-cbc": "AES-CBC [RFC3602]",
    "des-ede3-cbc": "TripleDES-CBC [RFC2451]",
    "aes-gcm": "AES-GCM with 16 octet ICV [RFC4106]",
}
_QUEUE_BYTES = 1 << 20
_FILE_BYTES = 256 << 20


def esp_sa_lines(sas: SaSet) -> str:
    """The four SAs of a set, each with its line end."""
    protocol = "IPv6" if ":" in sas.phone_address else "IPv4"
    lines = []
    for sa in (*sas.sas_from("phone"), *sas.sas_from("pcscf")):
        start = f'"{protocol}","{sa.source}","{sa.destination}","{sa.spi:#010x}"'
        if sas.alg in _AUTHENTICATION:
            encryption = f'"{_ENCRYPTION[sas.ealg]}","{_hex(sas.cipher_key)}"'
            authentication = f'"{_AUTHENTICATION[sas.alg]}","{_hex(sas.integrity_key)}"'
            lines.append(f"{start},{encryption},{authentication}\n")
        else:
            lines.append(f"# {start}: {sas.alg}, which Wireshark does not know\n")
    return "".join(lines)


def _hex(key: bytes) -> str:
    return f"0x{key.hex()}" if key else ""


class KeyWritingBackend:
    """An SaBackend that writes down the keys of some phones' SAs."""

    def __init__(self, backend: SaBackend, path: Path, phones: Collection[str]) -> None:
        """phones: addresses, text form, of those whose keys are written; OSError for the file."""
        self._backend = backend
        self._phones = frozenset(phones)
        self._writer = FileWriter(
            path, queue_bytes=_QUEUE_BYTES, file_bytes=_FILE_BYTES, private=True
        )
        self._lost = 0
        self.name = backend.name
        """As the backend's."""
        self.device = backend.device
        """As the backend's."""

    def attach(self, add_reader: AddReader) -> None:
        """As the backend's."""
        self._backend.attach(add_reader)

    def install(self, sas: SaSet) -> None:
        """As the backend's; a set that it refuses has carried nothing, so its keys are not written."""
        self._backend.install(sas)
        if sas.phone_address in self._phones and not self._writer.put(esp_sa_lines(sas).encode()):
            self._lost += 1

    def remove(self, sas: SaSet) -> None:
        """As the backend's."""
        self._backend.remove(sas)

    def counters(self) -> dict[str, int]:
        """The backend's, and how many sets' keys could not be written, if any."""
        lost = {"keys_not_written": self._lost} if self._lost else {}
        return self._backend.counters() | lost

    def close(self) -> None:
        """Close the file, then the backend."""
        self._writer.close()
        self._backend.close()
