"""A REGISTER as the CSCFs read it (RFC 3261 §10.3, TS 24.229 §5.2.2, §5.4.1)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from imsbench.protocol.address import canonical_identity, parse_name_addr, parse_uri
from imsbench.protocol.digest import parse_digest
from imsbench.protocol.sip import Request

DEFAULT_EXPIRES_S = 3600  # RFC 3261 §10.2.1.1 leaves it to the registrar
_EXPIRES = re.compile(r'\s*;\s*expires\s*=\s*"?(\d{1,10})"?', re.IGNORECASE)


@dataclass(slots=True)
class Register:
    """The values of one REGISTER that decide what becomes of it."""

    request: Request
    """The message itself."""
    impi: str
    """Private identity: of the Authorization, else derived from the public one."""
    impu: str
    """Public identity to register: the To URI, in its canonical form."""
    authorization: dict[str, str]
    """Parameters of the Authorization header; empty where there is none."""
    contact: str
    """The Contact value as sent, without its expires parameter; empty for "*" or none."""
    contact_uri: str
    """URI of the Contact; empty where there is none."""
    expires_s: int
    """Expiry asked for, seconds; 0: de-register."""


def parse_register(request: Request) -> Register:
    """Read a REGISTER; ValueError says what is wrong with it (answered 400)."""
    impu = canonical_identity(parse_name_addr(request.get("to") or "").uri)
    authorization: dict[str, str] = {}
    value = request.get("authorization")
    if value is not None:
        authorization = parse_digest(value)
    # TS 24.229 §5.4.1.2.1A: without Authorization the private identity comes from the public one.
    impi = authorization.get("username") or impu.partition(":")[2]
    expires = request.get("expires")
    contact, contact_uri = "", ""
    contacts = request.values("contact")
    if len(contacts) > 1:
        raise ValueError("several contacts")  # TS 24.229 §5.1.1.2: one per registration
    if contacts and contacts[0] != "*":
        contact_uri = parse_name_addr(contacts[0]).uri
        parse_uri(contact_uri)
        tail = contacts[0].rfind(">") + 1
        found = _EXPIRES.search(contacts[0], tail)
        expires = found[1] if found else expires
        contact = contacts[0][:tail] + _EXPIRES.sub("", contacts[0][tail:])
        if not tail:
            contact = f"<{contact_uri}>"
    elif contacts and expires != "0":
        raise ValueError('Contact "*" without Expires 0')  # RFC 3261 §10.3 step 6
    return Register(request, impi, impu, authorization, contact, contact_uri, _seconds(expires))


def _seconds(text: str | None) -> int:
    if text is None:
        return DEFAULT_EXPIRES_S
    # RFC 3261 §20.19: a malformed value counts as the default.
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 10 else DEFAULT_EXPIRES_S
