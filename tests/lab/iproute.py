"""A kernel's end of SA sets made by ``ip xfrm``: the other opinion on what kernel and key format take.

Written after ip-xfrm(8) alone, so that a mistake of the netlink backend's, or of user-space ESP, does
not agree with itself. Selectors name TCP: iproute2 wants a protocol beside ports.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from imsbench.host.backend import AddReader, BackendError, Side
from imsbench.protocol.secagree import Sa, SaSet
from tests.host import hosts

_AUTH = {"hmac-sha-1-96": "hmac(sha1)", "hmac-md5-96": "hmac(md5)"}
_ENC = {"null": "ecb(cipher_null)", "aes-cbc": "cbc(aes)", "des-ede3-cbc": "cbc(des3_ede)"}
_AEAD = {"aes-gmac": "rfc4543(gcm(aes))", "aes-gcm": "rfc4106(gcm(aes))"}


class IpRoute:
    """SaBackend by ``ip -batch``."""

    name = "ip xfrm"
    device = ""

    def __init__(self, side: Side) -> None:
        self._side = side

    def attach(self, add_reader: AddReader) -> None:
        """The kernel carries it."""

    def install(self, sas: SaSet) -> None:
        """States, then policies."""
        pairs = self._pairs(sas)
        _batch([_state(sas, sa) for sa, _ in pairs] + [_policy(sa, way) for sa, way in pairs])

    def remove(self, sas: SaSet) -> None:
        """Policies, then states."""
        pairs = self._pairs(sas)
        _batch(
            [f"xfrm policy delete {_selector(sa)} dir {way}" for sa, way in pairs]
            + [f"xfrm state delete {_identity(sa)}" for sa, _ in pairs]
        )

    def counters(self) -> dict[str, int]:
        """Nothing of its own: see ``xfrm_errors``."""
        return {}

    def close(self) -> None:
        """What is left goes with the namespace."""

    def _pairs(self, sas: SaSet) -> list[tuple[Sa, str]]:
        out, into = sas.sas_from(self._side), sas.sas_to(self._side)
        return [*((sa, "out") for sa in out), *((sa, "in") for sa in into)]


def start(side: Side, ip_version: int, protected_ports: object = ()) -> str:
    """Make it the backend of this host (see ``hosts.start_backend``)."""
    hosts.STATE.backend = IpRoute(side)
    return ""


def xfrm_errors() -> dict[str, int]:
    """What the kernel of this namespace refused so far, by its own names; zeroes left out."""
    lines = Path("/proc/net/xfrm_stat").read_text().splitlines()
    counts = {name: int(count) for name, count in map(str.split, lines)}
    return {name: count for name, count in counts.items() if count}


def _identity(sa: Sa) -> str:
    return f"src {sa.source} dst {sa.destination} proto esp spi {sa.spi}"


def _selector(sa: Sa) -> str:
    bits = 128 if ":" in sa.source else 32
    return (
        f"src {sa.source}/{bits} dst {sa.destination}/{bits} proto tcp "
        f"sport {sa.source_port} dport {sa.destination_port}"
    )


def _state(sas: SaSet, sa: Sa) -> str:
    combined = _AEAD.get(sas.alg) or _AEAD.get(sas.ealg)
    cipher_key = f"0x{sas.cipher_key.hex()}" if sas.cipher_key else '""'
    if combined is not None:
        keys = f"aead {combined} 0x{(sas.integrity_key + sas.cipher_key).hex()} 128"
    else:
        keys = (
            f"auth-trunc {_AUTH[sas.alg]} 0x{sas.integrity_key.hex()} 96 "
            f"enc {_ENC[sas.ealg]} {cipher_key}"
        )
    return (
        f"xfrm state add {_identity(sa)} mode transport reqid {sa.spi} replay-window 32 "
        f"{keys} sel {_selector(sa)}"
    )


def _policy(sa: Sa, way: str) -> str:
    return (
        f"xfrm policy add {_selector(sa)} dir {way} "
        f"tmpl src {sa.source} dst {sa.destination} proto esp reqid {sa.spi} mode transport"
    )


def _batch(lines: Sequence[str]) -> None:
    done = subprocess.run(
        ["ip", "-batch", "-"], input="\n".join(lines), capture_output=True, text=True
    )
    if done.returncode:
        raise BackendError(f"ip xfrm: {done.stderr.strip()}")
