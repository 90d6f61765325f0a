"""Addresses in SIP: URIs, name-addr values, Via, IP literals (RFC 3261 §19.1, §20.10, §20.42)."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field

from imsbench.protocol.secagree import split_list

_VISUAL_SEPARATORS = str.maketrans("", "", "-.()")  # RFC 3966 §3
_NO_URI = re.compile(r"[^!-~]")  # RFC 3261 §25.1: URIs are visible ASCII, all else is escaped


@dataclass(slots=True)
class SipUri:
    """A sip, sips or tel URI, cut into its parts; values are kept as written."""

    scheme: str
    """Lower case."""
    user: str
    """User part without password; of a tel URI the number."""
    host: str
    """Host or IP literal without brackets; empty for tel."""
    port: int
    """0 where none is given."""
    parameters: dict[str, str] = field(default_factory=dict)
    """URI parameters, names in lower case; a flag has the value ""."""


@dataclass(slots=True)
class NameAddr:
    """A From, To, Contact, Route, Path … value: URI and header parameters (RFC 3261 §20.10)."""

    uri: str
    """The URI as written."""
    display: str
    """Display name without quotes."""
    parameters: dict[str, str]
    """Header parameters, names in lower case, values unquoted; a flag has the value ""."""


def parse_parameters(text: str) -> dict[str, str]:
    """ ";a=1;b" as a dict, names in lower case, quoted values unquoted (RFC 3261 §25.1)."""
    found: dict[str, str] = {}
    for part in _split_semicolons(text):
        name, _, value = part.partition("=")
        name = name.strip().lower()
        if name:
            found.setdefault(name, unquote(value.strip()))
    return found


def unquote(value: str) -> str:
    """A quoted-string's content, or the value itself (RFC 3261 §25.1)."""
    if len(value) >= 2 and value[0] == '"' == value[-1]:
        inner = value[1:-1]
        if "\\" not in inner:
            return inner
        out, i = [], 0
        while i < len(inner):
            if inner[i] == "\\" and i + 1 < len(inner):
                i += 1
            out.append(inner[i])
            i += 1
        return "".join(out)
    return value


def parse_uri(text: str) -> SipUri:
    """A sip, sips or tel URI (RFC 3261 §19.1.1, RFC 3966); ValueError if it is none."""
    if _NO_URI.search(text):
        raise ValueError(f"blank, control or non-ASCII character in a URI: {text[:80]!r}")
    scheme, colon, rest = text.partition(":")
    scheme = scheme.lower()
    if not colon or scheme not in ("sip", "sips", "tel"):
        raise ValueError(f"not a SIP or tel URI: {text[:80]!r}")
    if scheme == "tel":
        number, _, tail = rest.partition(";")
        return SipUri(scheme, number, "", 0, parse_parameters(tail))
    before, at, after = rest.rpartition("@")
    user = before.partition(":")[0] if at else ""
    # Only behind the @ does "?" open the headers: a user part may hold one (RFC 3261 §25.1).
    host_part, _, tail = after.partition("?")[0].partition(";")
    host, port = split_host_port(host_part)
    if not host:
        raise ValueError(f"URI without a host: {text[:80]!r}")
    return SipUri(scheme, user, host, port, parse_parameters(tail))


def canonical_identity(uri: str) -> str:
    """A public identity for comparison: ValueError if it is no SIP or tel URI.

    Without parameters and port, host in lower case (RFC 3261 §10.3 step 5, §19.1.4); a telephone number
    without visual separators (RFC 3966 §3, §4), also as the user part of a URI with user=phone.
    """
    parsed = parse_uri(uri)
    user = parsed.user
    if parsed.scheme == "tel":
        return f"tel:{user.translate(_VISUAL_SEPARATORS)}"
    if parsed.parameters.get("user", "").lower() == "phone" and user.startswith("+"):
        user = user.translate(_VISUAL_SEPARATORS)
    host = f"[{parsed.host}]" if ":" in parsed.host else parsed.host.lower()
    return f"{parsed.scheme}:{user}@{host}" if user else f"{parsed.scheme}:{host}"


def canonical_or_same(identity: str) -> str:
    """As canonical_identity (RFC 3261 §19.1.4); a wildcarded or otherwise odd one stays as written."""
    try:
        return canonical_identity(identity)
    except ValueError:
        return identity


def parse_name_addr(value: str) -> NameAddr:
    """A name-addr or addr-spec with parameters (RFC 3261 §20.10); ValueError if it has no URI."""
    left = _find_bracket(value)
    if left >= 0:
        right = value.find(">", left)
        if right < 0:
            raise ValueError(f"unclosed <: {value[:80]!r}")
        uri = value[left + 1 : right].strip()
        display = unquote(value[:left].strip())
        tail = value[right + 1 :]
    else:
        # Without brackets, parameters belong to the header (RFC 3261 §20.10).
        uri, _, tail = value.partition(";")
        uri, display = uri.strip(), ""
        if "?" in uri:  # RFC 3261 §20.10: only in brackets can a URI have headers
            raise ValueError(f"URI with headers outside of <>: {value[:80]!r}")
    if ":" not in uri:
        raise ValueError(f"no URI: {value[:80]!r}")
    return NameAddr(uri, display, parse_parameters(tail))


def parse_name_addrs(values: list[str]) -> list[NameAddr]:
    """All entries of values that may hold lists (RFC 3261 §7.3.1); ValueError on the first bad one."""
    return [parse_name_addr(entry) for value in values for entry in split_list(value)]


def split_host_port(text: str) -> tuple[str, int]:
    """ "host:port" or "[v6]:port" (RFC 3261 §25.1 hostport); port 0 if absent, ValueError if bad."""
    text = text.strip()
    if text.startswith("["):
        host, bracket, tail = text[1:].partition("]")
        if not bracket:
            raise ValueError(f"unclosed [: {text[:80]!r}")
        if tail and not tail.startswith(":"):
            raise ValueError(f"bad port: {text[:80]!r}")
        port_text = tail[1:]
    else:
        host, _, port_text = text.partition(":")
    if not port_text:
        return host.strip(), 0
    port_text = port_text.strip()
    if not port_text.isascii() or not port_text.isdigit() or len(port_text) > 5:
        raise ValueError(f"bad port: {text[:80]!r}")
    port = int(port_text)
    if port > 65535:
        raise ValueError(f"bad port: {text[:80]!r}")
    return host.strip(), port


def host_port(address: str, port: int = 0) -> str:
    """hostport as the grammar wants it (RFC 3261 §25.1): an IPv6 literal in brackets."""
    host = f"[{address}]" if ":" in address else address
    return f"{host}:{port}" if port else host


def same_address(one: str, other: str) -> bool:
    """Whether two IP literals are the same address (RFC 5952 §2: many texts, one IPv6 address)."""
    if one == other:
        return True
    try:
        return ipaddress.ip_address(one.strip("[]")) == ipaddress.ip_address(other.strip("[]"))
    except ValueError:
        return False


def _find_bracket(value: str) -> int:
    """Index of the "<" that opens the URI: not one inside a quoted display name."""
    i, quoted = 0, False
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
            return i
        i += 1
    return -1


def _split_semicolons(text: str) -> list[str]:
    if '"' not in text:
        return text.split(";")
    parts, start, quoted, i = [], 0, False, 0
    while i < len(text):
        c = text[i]
        if quoted and c == "\\":
            i += 1
        elif c == '"':
            quoted = not quoted
        elif c == ";" and not quoted:
            parts.append(text[start:i])
            start = i + 1
        i += 1
    parts.append(text[start:])
    return parts
