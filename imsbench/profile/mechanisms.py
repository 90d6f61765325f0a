"""Which integrity algorithm goes with which encryption (TS 33.203 annex H; annex I of older releases)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

Alg = Literal["hmac-sha-1-96", "hmac-md5-96", "aes-gmac", "null"]
"""Integrity algorithms; hmac-md5-96 is in releases before 14 only."""
Ealg = Literal["null", "aes-cbc", "des-ede3-cbc", "aes-gcm"]
"""Encryption algorithms; des-ede3-cbc is in releases before 14 only."""
Mechanism = tuple[Alg, Ealg]
"""What one entry of Security-Client offers."""

_HMACS: tuple[Alg, ...] = ("hmac-sha-1-96", "hmac-md5-96")
_PARTNERS: dict[Ealg, tuple[Alg, ...]] = {
    "null": (*_HMACS, "aes-gmac"),
    "aes-cbc": _HMACS,
    "des-ede3-cbc": _HMACS,
    "aes-gcm": ("null",),
}


def combine(algs: Sequence[Alg], ealgs: Sequence[Ealg]) -> tuple[Mechanism, ...]:
    """Every alg with every ealg that may go with it; the order is theirs, that of algs first."""
    return tuple((alg, ealg) for alg in algs for ealg in ealgs if alg in _PARTNERS[ealg])


def lonely(algs: Sequence[Alg], ealgs: Sequence[Ealg]) -> Iterator[tuple[str, str]]:
    """What cannot be offered, as nothing in the other list may go with it: its place, and why."""
    offered = combine(algs, ealgs)
    for position, alg in enumerate(algs):
        if all(alg != used for used, _ in offered):
            fitting = [ealg for ealg, partners in _PARTNERS.items() if alg in partners]
            text = f"alg {alg} goes only with ealg {_either(fitting)}, not {_either(ealgs)}"
            yield f"algs[{position}]", text
    for position, ealg in enumerate(ealgs):
        if all(ealg != used for _, used in offered):
            text = f"ealg {ealg} goes only with alg {_either(_PARTNERS[ealg])}, not {_either(algs)}"
            yield f"ealgs[{position}]", text


def _either(names: Sequence[str]) -> str:
    return " or ".join(names)


def spell_mechanisms(mechanisms: Sequence[Mechanism]) -> str:
    """In words: "hmac-sha-1-96 or hmac-md5-96, no encryption; or aes-gcm"."""
    texts = []
    hmacs = [mechanism for mechanism in mechanisms if mechanism[0] in _HMACS]
    if hmacs:
        algs = dict.fromkeys(alg for alg, _ in hmacs)
        ealgs = dict.fromkeys(_spell(ealg) for _, ealg in hmacs)
        texts.append(f"{_either([*algs])}, {_either([*ealgs])}")
    for alg, ealg in mechanisms:
        if (alg, ealg) not in hmacs:
            texts.append(ealg if alg == "null" else f"{alg}, {_spell(ealg)}")
    return "; or ".join(texts)


def _spell(ealg: Ealg) -> str:
    return "no encryption" if ealg == "null" else ealg
