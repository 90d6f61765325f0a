"""Security agreement (RFC 3329, TS 33.203 §7 and annex H) and the four SAs it leads to.

u/p = phone (UE) / P-CSCF, c/s = protected client / server port. The SPI is named by its receiver:

    pair 1   phone port_uc -> P-CSCF port_ps under spi_ps     P-CSCF port_ps -> phone port_uc under spi_uc
    pair 2   P-CSCF port_pc -> phone port_us under spi_us     phone port_us -> P-CSCF port_pc under spi_pc
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

ALGS = ("hmac-sha-1-96", "hmac-md5-96", "aes-gmac", "null")
"""Integrity algorithms known here; hmac-md5-96 is legacy (removed in TS 33.203 Rel-14)."""
EALGS = ("null", "aes-cbc", "des-ede3-cbc", "aes-gcm")
"""Encryption algorithms known here; des-ede3-cbc is legacy (removed in TS 33.203 Rel-14)."""
MECHANISMS = (
    *((alg, ealg) for alg in ALGS[:2] for ealg in EALGS[:3]),
    ("aes-gmac", "null"),
    ("null", "aes-gcm"),
)
"""(alg, ealg) that go together.

aes-gcm brings its own ICV, so alg is null with it and with nothing else (TS 33.203 annex H). ESP knows
aes-gmac only as the combined transform ENCR_NULL_AUTH_AES_GMAC, which leaves no room for encryption
(RFC 4543 §2).
"""

MAX_SPI = 2**32 - 1
MIN_SPI = 256  # RFC 4303 §2.1: 1..255 are reserved, 0 is for local use

_Q_VALUE = re.compile(r"0(\.\d*)?|1(\.0*)?", re.ASCII)  # RFC 3261 §25.1, any number of decimals


class SecurityAgreementError(ValueError):
    """A Security-Client, -Server or -Verify header that cannot be used; the text says why."""


@dataclass(frozen=True, slots=True)
class Mechanism:
    """One ipsec-3gpp entry of a security agreement header (TS 33.203 annex H)."""

    alg: str
    """Integrity algorithm."""
    ealg: str
    """Encryption algorithm; "null" when absent."""
    spi_c: int
    """SPI of the SA that ends at the sender's protected client port."""
    spi_s: int
    """SPI of the SA that ends at the sender's protected server port."""
    port_c: int
    """The sender's protected client port."""
    port_s: int
    """The sender's protected server port."""
    q: float = -1.0
    """Preference, 0..1; negative where none was given."""
    text: str = field(default="", compare=False)
    """The entry as received, for an echo without change."""


def split_list(value: str) -> list[str]:
    """The entries of a comma-separated header value, quotes and brackets respected (RFC 3261 §7.3.1)."""
    if '"' not in value:
        return _split_unquoted(value)
    entries: list[str] = []
    start, quoted, inside, i = 0, False, False, 0
    while i < len(value):
        c = value[i]
        if quoted:
            if c == "\\":
                i += 1
            elif c == '"':
                quoted = False
        elif c == '"':
            quoted = True
        elif c == "<":
            inside = True
        elif c == ">":
            inside = False
        elif c == "," and not inside:
            entries.append(value[start:i].strip())
            start = i + 1
        i += 1
    entries.append(value[start:].strip())
    return [entry for entry in entries if entry]


def _split_unquoted(value: str) -> list[str]:
    if "<" not in value:
        return [entry for part in value.split(",") if (entry := part.strip())]
    entries: list[str] = []
    start = position = 0
    inside = False
    for part in value.split(","):
        position += len(part) + 1
        opened, closed = part.rfind("<"), part.rfind(">")
        if opened != closed:  # there is a bracket; they do not nest
            inside = opened > closed
        if not inside:
            entries.append(value[start : position - 1].strip())
            start = position
    entries.append(value[start:].strip())
    return [entry for entry in entries if entry]


def parse_security(values: Sequence[str]) -> list[Mechanism]:
    """The usable ipsec-3gpp mechanisms of one or several header values, in their order.

    Entries of another mechanism (tls, digest) or of an unknown mode are skipped (RFC 3329 §2.2);
    a broken ipsec-3gpp entry raises SecurityAgreementError. Defaults: prot=esp, mod=trans, ealg=null.
    """
    found = []
    for value in values:
        for entry in split_list(value):
            mechanism = _parse_entry(entry)
            if mechanism is not None:
                found.append(mechanism)
    return found


def serialize_security(mechanisms: Sequence[Mechanism]) -> str:
    """One header value with all mechanisms (TS 33.203 annex H.2); the order is theirs."""
    return ",".join(_serialize_entry(mechanism) for mechanism in mechanisms)


def _parse_entry(entry: str) -> Mechanism | None:
    name, *rest = [part.strip() for part in entry.split(";")]
    if name.lower() != "ipsec-3gpp":
        return None
    parameters: dict[str, str] = {}
    for part in rest:
        key, _, value = part.partition("=")
        parameters[key.strip().lower()] = value.strip().strip('"').lower()
    mode = parameters.get("mod", parameters.get("mode", "trans"))
    if parameters.get("prot", "esp") != "esp" or mode != "trans":
        return None
    if not parameters.get("alg"):
        raise SecurityAgreementError(f"ipsec-3gpp without alg: {entry!r}")
    q_text = parameters.get("q", "")
    if q_text and not _Q_VALUE.fullmatch(q_text):
        raise SecurityAgreementError(f"q is not a number from 0 to 1: {entry!r}")
    return Mechanism(
        alg=parameters["alg"],
        ealg=parameters.get("ealg") or "null",
        spi_c=_number(parameters, "spi-c", MAX_SPI, entry),
        spi_s=_number(parameters, "spi-s", MAX_SPI, entry),
        port_c=_number(parameters, "port-c", 65535, entry),
        port_s=_number(parameters, "port-s", 65535, entry),
        q=float(q_text) if q_text else -1.0,
        text=entry,
    )


def _number(parameters: dict[str, str], key: str, highest: int, entry: str) -> int:
    text = parameters.get(key, "")
    if not text.isascii() or not text.isdigit() or len(text) > 10:
        raise SecurityAgreementError(f"{key} is missing or not a number: {entry!r}")
    value = int(text)
    if not 1 <= value <= highest:
        raise SecurityAgreementError(f"{key}={value} is out of range: {entry!r}")
    return value


def _serialize_entry(mechanism: Mechanism) -> str:
    if mechanism.text:
        return mechanism.text
    q = f"q={mechanism.q:g};" if mechanism.q >= 0 else ""
    return (
        f"ipsec-3gpp;{q}alg={mechanism.alg};prot=esp;mod=trans;ealg={mechanism.ealg};"
        f"spi-c={mechanism.spi_c};spi-s={mechanism.spi_s};"
        f"port-c={mechanism.port_c};port-s={mechanism.port_s}"
    )


def choose(offered: Sequence[Mechanism], supported: Sequence[Mechanism]) -> Mechanism:
    """The most preferred mechanism of Security-Server that we support (RFC 3329 §2.4, TS 33.203 §7.2).

    Highest q first, a missing q counting as 1 (alone it is the only choice), then their order.
    SecurityAgreementError if none fits.
    """
    wanted = {(mechanism.alg, mechanism.ealg) for mechanism in supported}
    fitting = [m for m in offered if (m.alg, m.ealg) in wanted]
    if not fitting:
        theirs = ", ".join(f"{m.alg}/{m.ealg}" for m in offered) or "nothing"
        ours = ", ".join(sorted(f"{alg}/{ealg}" for alg, ealg in wanted))
        raise SecurityAgreementError(f"no common mechanism: offered {theirs}, supported {ours}")
    return max(fitting, key=lambda m: m.q if m.q >= 0 else 1.0)


@dataclass(slots=True)
class Sa:
    """One security association: one direction, one port pair (TS 33.203 §7.1)."""

    spi: int
    """Chosen by the receiver."""
    source: str
    """IP address of the sender, text form."""
    source_port: int
    """Port of the sender."""
    destination: str
    """IP address of the receiver, text form."""
    destination_port: int
    """Port of the receiver."""


@dataclass(slots=True)
class SaSet:
    """The four SAs of one agreement, with the keys that they share (TS 33.203 §7.1, annex I)."""

    phone_address: str
    """IP address of the phone, text form."""
    pcscf_address: str
    """IP address of the P-CSCF, text form."""
    port_uc: int
    """Phone's protected client port."""
    port_us: int
    """Phone's protected server port."""
    port_pc: int
    """P-CSCF's protected client port."""
    port_ps: int
    """P-CSCF's protected server port."""
    spi_uc: int
    """Into the phone's client port."""
    spi_us: int
    """Into the phone's server port."""
    spi_pc: int
    """Into the P-CSCF's client port."""
    spi_ps: int
    """Into the P-CSCF's server port."""
    alg: str
    """Integrity algorithm, of ALGS."""
    ealg: str
    """Encryption algorithm, of EALGS."""
    integrity_key: bytes
    """From IK: 20 bytes for hmac-sha-1-96, 16 for hmac-md5-96, 16 and 4 of salt for aes-gmac."""
    cipher_key: bytes
    """From CK: 16 bytes for aes-cbc, 24 for des-ede3-cbc, 16 and 4 of salt for aes-gcm."""

    def sas_from(self, side: Literal["phone", "pcscf"]) -> tuple[Sa, Sa]:
        """The two SAs in which ``side`` sends, its client port's first."""
        if side == "phone":
            return (
                self._up(self.spi_ps, self.port_uc, self.port_ps),
                self._up(self.spi_pc, self.port_us, self.port_pc),
            )
        return (
            self._down(self.spi_us, self.port_pc, self.port_us),
            self._down(self.spi_uc, self.port_ps, self.port_uc),
        )

    def sas_to(self, side: Literal["phone", "pcscf"]) -> tuple[Sa, Sa]:
        """The two SAs in which ``side`` receives."""
        return self.sas_from("pcscf" if side == "phone" else "phone")

    def _up(self, spi: int, source_port: int, destination_port: int) -> Sa:
        return Sa(spi, self.phone_address, source_port, self.pcscf_address, destination_port)

    def _down(self, spi: int, source_port: int, destination_port: int) -> Sa:
        return Sa(spi, self.pcscf_address, source_port, self.phone_address, destination_port)


def esp_keys(alg: str, ealg: str, ck: bytes, ik: bytes) -> tuple[bytes, bytes]:
    """ESP's integrity key and cipher key (TS 33.203 annex I); a salt stands behind its key.

    That is the keying material of RFC 4106 §8.1 and RFC 4543 §5.2, which kernels and protocol
    analysers take as it is. SecurityAgreementError for algorithms that do not go together.
    """
    if (alg, ealg) not in MECHANISMS:
        raise SecurityAgreementError(f"alg {alg} does not go with ealg {ealg}")
    integrity, cipher = integrity_key(alg, ik), cipher_key(ealg, ck)
    if alg == "aes-gmac":
        integrity += _salt(0x58, b"AES_GMAC_SALT", ck, ik)
    if ealg == "aes-gcm":
        cipher += _salt(0x59, b"AES_GCM_SALT", ck, ik)
    return integrity, cipher


def integrity_key(alg: str, ik: bytes) -> bytes:
    """The integrity key from IK (TS 33.203 annex I), without a salt; sha-1: 32 zero bits appended."""
    match alg:
        case "hmac-sha-1-96":
            return ik + bytes(4)
        case "hmac-md5-96" | "aes-gmac":
            return ik
        case "null":
            return b""
    raise SecurityAgreementError(f"unknown integrity algorithm {alg!r}")


def cipher_key(ealg: str, ck: bytes) -> bytes:
    """The cipher key from CK (TS 33.203 annex I), without a salt.

    des-ede3-cbc, which left annex I in Rel-14: CK and its first 64 bits again.
    """
    match ealg:
        case "aes-cbc" | "aes-gcm":
            return ck
        case "des-ede3-cbc":
            return ck + ck[:8]
        case "null":
            return b""
    raise SecurityAgreementError(f"unknown encryption algorithm {ealg!r}")


def _salt(function_code: int, text: bytes, ck: bytes, ik: bytes) -> bytes:
    """The last 32 bits of KDF(CK || IK, FC || P0 || L0) (TS 33.203 annex I, TS 33.220 annex B.2).

    Neither annex gives an example to check this against, nor does a core with these algorithms.
    """
    parameters = bytes([function_code]) + text + len(text).to_bytes(2, "big")
    return hmac.digest(ck + ik, parameters, hashlib.sha256)[-4:]


def sa_set(
    phone_address: str,
    pcscf_address: str,
    client: Mechanism,
    server: Mechanism,
    ck: bytes,
    ik: bytes,
) -> SaSet:
    """The four SAs of an agreement (TS 33.203 §7.1): ports and SPIs from both sides' mechanisms.

    SecurityAgreementError for algorithms that do not go together.
    """
    integrity, cipher = esp_keys(server.alg, server.ealg, ck, ik)
    return SaSet(
        phone_address=phone_address,
        pcscf_address=pcscf_address,
        port_uc=client.port_c,
        port_us=client.port_s,
        port_pc=server.port_c,
        port_ps=server.port_s,
        spi_uc=client.spi_c,
        spi_us=client.spi_s,
        spi_pc=server.spi_c,
        spi_ps=server.spi_s,
        alg=server.alg,
        ealg=server.ealg,
        integrity_key=integrity,
        cipher_key=cipher,
    )
