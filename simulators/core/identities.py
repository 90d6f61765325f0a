"""Who calls and who is called: asserted identities and called identities (RFC 3325, TS 24.229)."""

from __future__ import annotations

from collections.abc import Sequence

from imsbench.protocol.address import (
    canonical_identity,
    canonical_or_same,
    parse_name_addrs,
    parse_uri,
)
from imsbench.protocol.sip import Header, Request


def asserted(request: Request, associated: Sequence[str]) -> list[Header]:
    """P-Asserted-Identity of a request of a phone with these registered identities.

    The preferred one where it is registered, else the default (TS 24.229 §5.2.6.3); beside a SIP URI
    the tel URI of the same number, and the other way round (TS 24.229 §5.4.3.2).
    """
    chosen = associated[0]
    known = {canonical_or_same(identity): identity for identity in associated}
    try:
        preferred = [
            canonical_identity(entry.uri) for entry in parse_name_addrs(_preferred(request))
        ]
    except ValueError:  # no identity at all is no preference
        preferred = []
    for identity in preferred:
        if identity in known:
            chosen = known[identity]
            break
    return _with_alias(chosen, associated)


def asserted_callee(called: str, associated: Sequence[str]) -> list[Header]:
    """P-Asserted-Identity of the called phone's responses: who was called (TS 24.229 §5.2.6.4.4)."""
    return _with_alias(called if called in associated else associated[0], associated)


def called_identity(uri: str) -> str:
    """The public identity that a Request-URI calls; ValueError if it is no SIP or tel URI.

    ``tel:`` without visual separators (RFC 3966 §3); a SIP URI with user=phone and a global number is
    that number (TS 24.229 §5.3.2.1); else the SIP URI without parameters.
    """
    parsed = parse_uri(uri)
    if parsed.parameters.get("user", "").lower() == "phone" and parsed.user.startswith("+"):
        return canonical_identity(f"tel:{parsed.user.partition(';')[0]}")
    return canonical_identity(uri)


def _preferred(request: Request) -> list[str]:
    return request.get_all("p-preferred-identity")


def _with_alias(chosen: str, associated: Sequence[str]) -> list[Header]:
    number = _number(chosen)
    listed = [chosen]
    if number:
        listed += [one for one in associated if one != chosen and _number(one) == number]
    return [("p-asserted-identity", f"<{identity}>") for identity in listed]


def _number(identity: str) -> str:
    """The global number of an identity, or ""."""
    user = identity.partition(":")[2].partition("@")[0]
    return user if user.startswith("+") else ""
