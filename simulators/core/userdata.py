"""User-Data of the Cx interface: the public identities of a subscription (TS 29.228 annex B, E)."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from xml.etree.ElementTree import ParseError

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import DefusedXMLParser

from imsbench.protocol.reginfo import xml_encoding

_NO_URI = re.compile(r"[^!-~]")  # RFC 3261 §25.1: visible ASCII, all else is escaped


class UserDataError(ValueError):
    """User-Data that is no IMSSubscription, or is hostile."""


@dataclass(frozen=True, slots=True)
class UserData:
    """What the S-CSCF keeps of a subscription."""

    identities: tuple[str, ...]
    """Public identities that are not barred, in their order: the first sip one is the default."""
    barred: tuple[str, ...]
    """Public identities that may be registered, and nothing else (TS 23.228 §5.2.1a)."""


def parse_user_data(data: bytes) -> UserData:
    """Identities of a User-Data document; UserDataError if it cannot be read."""
    parser = DefusedXMLParser(encoding=xml_encoding(data))
    try:
        parser.feed(data)
        root = parser.close()
    except (ParseError, DefusedXmlException) as error:
        raise UserDataError(f"{type(error).__name__}: {error}") from error
    if _local(root.tag) != "IMSSubscription":
        raise UserDataError(f"root element {root.tag!r}")
    found: list[str] = []
    barred: list[str] = []
    for element in root.iter():
        if _local(element.tag) != "PublicIdentity":
            continue
        values = {_local(child.tag): (child.text or "").strip() for child in element}
        identity = values.get("Identity", "")
        if _NO_URI.search(identity):  # it would go into header values as it is
            raise UserDataError(f"no identity: {identity[:80]!r}")
        if identity:
            (barred if values.get("BarringIndication") == "1" else found).append(identity)
    if not found:
        raise UserDataError("no public identity that is not barred")
    # TS 24.229 §5.4.1.2.2F: the first P-Associated-URI is the default, a SIP URI.
    found.sort(key=lambda identity: not identity.startswith("sip:"))
    return UserData(_distinct(found), _distinct(barred))


def _local(tag: str) -> str:
    return tag.rpartition("}")[2]


def _distinct(values: list[str]) -> tuple[str, ...]:
    return tuple(Counter(values))
