"""Digest AKA: the Authorization a phone answers a 401 with (RFC 3310, RFC 2617, TS 24.229 §5.1.1.5).

Rules of this module:

* The password is the binary RES, whatever bytes it holds; with AUTS it is empty (RFC 3310 §3.3,
  §3.4). Text around it is hashed as UTF-8.
* A quoted value keeps its backslashes: unq() of RFC 2617 §3.2.2.1 takes the quotes away and nothing
  else, so both ends hash the same, and realm, nonce and opaque go back byte for byte.
* cnonces are handed in.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

ALGORITHM = "AKAv1-MD5"

_TOKEN = r"[A-Za-z0-9\-.!%*_+`'~]+"
_SCHEME = re.compile(rf"\s*({_TOKEN})(?:\s+(?={_TOKEN}\s*=)|\s*$)")
_PARAMETER = re.compile(
    rf'\s*({_TOKEN})\s*=\s*(?:"([^"\\]*(?:\\.[^"\\]*)*)"|([^\s,"\\]*))\s*(?:,[\s,]*|$)', re.DOTALL
)
_KNOWN_QOPS = frozenset(("auth", "auth-int"))
# RFC 3261 §25.1: these are tokens on the wire, every other value is a quoted-string.
_UNQUOTED = frozenset(("algorithm", "nc", "stale"))


@dataclass(frozen=True, slots=True)
class Challenge:
    """A WWW-Authenticate that a phone can answer (RFC 3310 §3.2)."""

    realm: str
    """Realm, as written."""
    nonce: str
    """base64 of RAND || AUTN || server data."""
    algorithm: str
    """As written; AKAv1-MD5 in any case of letters."""
    qop: tuple[str, ...]
    """Qualities of protection offered, in lower case; empty where there is none."""
    opaque: str
    """To be sent back unchanged; empty where there is none."""


def parse_digest(value: str) -> dict[str, str]:
    """Scheme and parameters of one challenge or credentials (RFC 2617 §1.2, RFC 3261 §25.1).

    Names in lower case, quotes taken off, the scheme as written under "scheme". ValueError if the
    value is not of that form, names a parameter twice, or holds several challenges.
    """
    challenges = _parse_list(value)
    if len(challenges) != 1:
        raise ValueError(f"{len(challenges)} challenges in one value: {value[:80]!r}")
    return challenges[0]


def serialize_digest(fields: Mapping[str, str]) -> str:
    """The header value of parse_digest's fields, in their order (RFC 2617 §3.2.1, §3.2.2).

    qop is a list in quotes in a challenge, and one token in credentials, which have a response.
    """
    unquoted = _UNQUOTED | {"qop"} if "response" in fields else _UNQUOTED
    return f"{fields['scheme']} " + ",".join(
        f"{name}={value}"
        if name in unquoted and re.fullmatch(_TOKEN, value)
        else f'{name}="{value}"'
        for name, value in fields.items()
        if name != "scheme"
    )


def parse_challenge(values: Sequence[str]) -> Challenge:
    """The AKAv1-MD5 challenge among the WWW-Authenticate values of a 401 (RFC 3310 §3.2).

    A value may hold several challenges, and one that cannot be read does not hide the others.
    ValueError, naming what was offered instead, if none can be answered.
    """
    offered: list[str] = []
    for value in values:
        try:
            challenges = _parse_list(value)
        except ValueError as error:
            offered.append(str(error))
            continue
        for fields in challenges:
            algorithm = fields.get("algorithm", "MD5")
            qop = tuple(re.findall(_TOKEN, fields.get("qop", "").lower()))
            if fields["scheme"].lower() != "digest":
                offered.append(fields["scheme"])
            elif algorithm.lower() != "akav1-md5":
                offered.append(f"Digest {algorithm}")
            elif not fields.get("realm") or not fields.get("nonce"):
                offered.append(f"Digest {algorithm} without realm or nonce")
            elif qop and not _KNOWN_QOPS.intersection(qop):
                offered.append(f"Digest {algorithm} with qop {' '.join(qop)[:80]}")
            else:
                return Challenge(
                    realm=fields["realm"],
                    nonce=fields["nonce"],
                    algorithm=algorithm,
                    qop=qop,
                    opaque=fields.get("opaque", ""),
                )
    raise ValueError(f"no {ALGORITHM} challenge; offered: {', '.join(offered) or 'nothing'}")


def serialize_challenge(challenge: Challenge) -> str:
    """The WWW-Authenticate value of a challenge (RFC 3310 §3.2)."""
    fields = {
        "scheme": "Digest",
        "realm": challenge.realm,
        "nonce": challenge.nonce,
        "algorithm": challenge.algorithm,
    }
    if challenge.qop:
        fields["qop"] = ",".join(challenge.qop)
    if challenge.opaque:
        fields["opaque"] = challenge.opaque
    return serialize_digest(fields)


def digest_response(
    username: str,
    realm: str,
    password: bytes,
    method: str,
    uri: str,
    nonce: str,
    *,
    qop: str = "",
    nc: str = "",
    cnonce: str = "",
    body: bytes = b"",
) -> str:
    """The response, 32 hex digits (RFC 2617 §3.2.2, RFC 3310 §3.3).

    ``password`` is RES, or empty beside AUTS. qop "" is RFC 2069's form; "auth-int" covers
    ``body``; any other than these and "auth" is a ValueError.
    """
    ha1 = _md5(f"{username}:{realm}:".encode() + password)
    a2 = f"{method}:{uri}"
    if qop == "auth-int":
        a2 = f"{a2}:{_md5(body)}"
    elif qop not in ("", "auth"):
        raise ValueError(f"unknown qop {qop!r}")
    middle = f"{nonce}:{nc}:{cnonce}:{qop}" if qop else nonce
    return _md5(f"{ha1}:{middle}:{_md5(a2.encode())}".encode())


def check_response(
    fields: Mapping[str, str], password: bytes, method: str, body: bytes = b""
) -> bool:
    """Whether credentials (parse_digest) prove this password, at the S-CSCF (RFC 2617 §3.2.2).

    Missing parameters and an unknown qop prove nothing: False. Nonce and uri are the caller's to check.
    """
    get = fields.get
    try:
        expected = digest_response(
            get("username", ""), get("realm", ""), password, method, get("uri", ""), get("nonce", ""),
            qop=get("qop", "").lower(), nc=get("nc", ""), cnonce=get("cnonce", ""), body=body,
        )  # fmt: skip
    except ValueError:
        return False
    return get("response", "").lower() == expected


def initial_authorization(username: str, realm: str, uri: str) -> str:
    """The Authorization of an initial REGISTER: it names the IMPI (TS 24.229 §5.1.1.2.2)."""
    return f'Digest username="{username}",realm="{realm}",uri="{uri}",nonce="",response=""'


def answer_authorization(
    challenge: Challenge,
    username: str,
    uri: str,
    method: str,
    res: bytes,
    *,
    cnonce: str,
    nc: int = 1,
    body: bytes = b"",
) -> str:
    """The Authorization that answers a challenge with RES (RFC 3310 §3.3, TS 24.229 §5.1.1.5.1).

    ValueError if the challenge offers qop, but neither auth nor auth-int.
    """
    return _answer(challenge, username, uri, method, res, cnonce, nc, body)


def auts_authorization(
    challenge: Challenge,
    username: str,
    uri: str,
    method: str,
    auts: bytes,
    *,
    cnonce: str,
    nc: int = 1,
    body: bytes = b"",
) -> str:
    """The Authorization that asks for resynchronisation: the password is empty (RFC 3310 §3.4).

    ``auts`` is the 14 bytes of SyncFailure. ValueError as for answer_authorization.
    """
    answer = _answer(challenge, username, uri, method, b"", cnonce, nc, body)
    return f'{answer},auts="{base64.b64encode(auts).decode()}"'


def mac_failure_authorization(challenge: Challenge, username: str, uri: str) -> str:
    """The Authorization that refuses a network: empty response, no AUTS (TS 24.229 §5.1.1.5.3)."""
    return f'{_prefix(challenge, username, uri)},response="",algorithm={challenge.algorithm}'


def refresh_authorization(username: str, realm: str, uri: str, nonce: str, response: str) -> str:
    """The Authorization of a re-REGISTER: last nonce, last response (TS 24.229 §5.1.1.4.1)."""
    return (
        f'Digest username="{username}",realm="{realm}",uri="{uri}",'
        f'nonce="{nonce}",response="{response}",algorithm={ALGORITHM}'
    )


def _answer(
    challenge: Challenge,
    username: str,
    uri: str,
    method: str,
    password: bytes,
    cnonce: str,
    nc: int,
    body: bytes,
) -> str:
    qop = _chosen_qop(challenge)
    count = f"{nc:08x}"
    response = digest_response(
        username, challenge.realm, password, method, uri, challenge.nonce,
        qop=qop, nc=count, cnonce=cnonce, body=body,
    )  # fmt: skip
    text = (
        f'{_prefix(challenge, username, uri)},response="{response}",algorithm={challenge.algorithm}'
    )
    if qop:
        text += f',qop={qop},nc={count},cnonce="{cnonce}"'
    return text


def _prefix(challenge: Challenge, username: str, uri: str) -> str:
    opaque = f',opaque="{challenge.opaque}"' if challenge.opaque else ""
    return (
        f'Digest username="{username}",realm="{challenge.realm}",uri="{uri}",'
        f'nonce="{challenge.nonce}"{opaque}'
    )


def _chosen_qop(challenge: Challenge) -> str:
    for qop in ("auth", "auth-int"):
        if qop in challenge.qop:
            return qop
    if challenge.qop:
        raise ValueError(f"no known qop among {', '.join(challenge.qop)}")
    return ""


def _parse_list(value: str) -> list[dict[str, str]]:
    """The challenges of a header value: each starts with its scheme (RFC 7235 §4.1)."""
    found: list[dict[str, str]] = []
    at, end = 0, len(value)
    while at < end:
        parameter = _PARAMETER.match(value, at)
        if not parameter:
            scheme = _SCHEME.match(value, at)
            if not scheme:
                raise ValueError(f"unreadable: {value[:80]!r}")
            found.append({"scheme": scheme[1]})
            at = scheme.end()
            continue
        if not found:
            raise ValueError(f"no scheme: {value[:80]!r}")
        name, quoted, token = parameter.groups()
        name = name.lower()
        if name in found[-1]:
            raise ValueError(f"{name} given twice: {value[:80]!r}")
        found[-1][name] = token if quoted is None else quoted
        at = parameter.end()
    if not found:
        raise ValueError("empty")
    return found


def _md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()
