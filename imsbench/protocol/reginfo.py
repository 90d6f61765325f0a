"""Registration information: the body of a reg-event NOTIFY (RFC 3680 §5, TS 24.229 §5.4.2.1.2).

The document comes from the network, so it is read with a parser that refuses DTDs and entities,
and within bounds of size and depth; elements and attributes that RFC 3680 does not know are passed
over, whatever their namespace (RFC 3680 §5.1). No tree is built: elements are taken as they come.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from xml.etree.ElementTree import ParseError
from xml.sax.saxutils import escape, quoteattr

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import DefusedXMLParser

NAMESPACE = "urn:ietf:params:xml:ns:reginfo"
CONTENT_TYPE = "application/reginfo+xml"

EVENTS = frozenset(
    (
        "registered", "created", "refreshed", "shortened", "expired", "deactivated", "probation",
        "unregistered", "rejected",
    )
)  # fmt: skip
"""Why a contact is in its state (RFC 3680 §5.3.3)."""

MAX_BYTES = 262_144
MAX_DEPTH = 16

_LINE_END = {"\r": "&#13;"}  # as it stands, a CR is read as LF (XML 1.0 §2.11)

_REGINFO = f"{{{NAMESPACE}}}reginfo"
_REGISTRATION = f"{{{NAMESPACE}}}registration"
_CONTACT = f"{{{NAMESPACE}}}contact"
_URI = f"{{{NAMESPACE}}}uri"


class ReginfoError(ValueError):
    """A document that is no reginfo, or one that no honest notifier writes; the text says why."""


@dataclass(slots=True)
class Contact:
    """One contact of a registration (RFC 3680 §5.3.3)."""

    id: str
    """Unique within the document's life."""
    state: str
    """active, terminated."""
    event: str
    """One of EVENTS, or a word that a later specification adds."""
    uri: str
    """The contact's URI."""
    expires: int | None = None
    """Seconds to the expiry; None where none is given."""


@dataclass(slots=True)
class Registration:
    """What became of one public identity (RFC 3680 §5.3.2)."""

    aor: str
    """The public identity."""
    id: str
    """Unique within the document's life."""
    state: str
    """init, active, terminated."""
    contacts: list[Contact] = field(default_factory=list)
    """Its contacts, in their order."""


@dataclass(slots=True)
class Reginfo:
    """One document (RFC 3680 §5.3.1)."""

    version: int
    """Counts the documents of one subscription, from 0."""
    state: str
    """full, partial."""
    registrations: list[Registration] = field(default_factory=list)
    """Its registrations, in their order."""


def parse_reginfo(data: bytes) -> Reginfo:
    """The document of a NOTIFY body (RFC 3680 §5).

    ReginfoError if it is not XML, not reginfo, lacks a mandatory attribute, is larger than 256 KiB
    or deeper than 16 elements, or has a DTD or entities.
    """
    if len(data) > MAX_BYTES:
        raise ReginfoError(f"{len(data)} bytes, more than {MAX_BYTES}")
    builder = _Builder()
    parser = DefusedXMLParser(target=builder, encoding=xml_encoding(data), forbid_dtd=True)
    try:
        parser.feed(data)
        parser.close()
    except ParseError as error:
        raise ReginfoError(f"not well-formed: {error}") from error
    except DefusedXmlException as error:
        raise ReginfoError(f"forbidden: {type(error).__name__}") from error
    if builder.reginfo is None:
        raise ReginfoError("no reginfo element")
    return builder.reginfo


def xml_encoding(data: bytes) -> str:
    """The encoding to read a document in: UTF-16 if its byte order mark says so, else UTF-8 (RFC 7303 §3).

    What its declaration names is left: Python would look for a codec of that name, import what it
    finds, and remember for good what it did not.
    """
    return "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"


def serialize_reginfo(reginfo: Reginfo) -> bytes:
    """The document's bytes, UTF-8 (RFC 3680 §5)."""
    out = [
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<reginfo xmlns="{NAMESPACE}" version="{reginfo.version}" state={quoteattr(reginfo.state)}>'
    ]
    for registration in reginfo.registrations:
        out.append(
            f"<registration aor={quoteattr(registration.aor)} id={quoteattr(registration.id)} "
            f"state={quoteattr(registration.state)}>"
        )
        for contact in registration.contacts:
            expires = "" if contact.expires is None else f' expires="{contact.expires}"'
            out.append(
                f"<contact id={quoteattr(contact.id)} state={quoteattr(contact.state)} "
                f"event={quoteattr(contact.event)}{expires}>"
                f"<uri>{escape(contact.uri, _LINE_END)}</uri></contact>"
            )
        out.append("</registration>")
    out.append("</reginfo>\n")
    return "".join(out).encode()


class _Builder:
    """The parser's target: fills a Reginfo as elements open and close."""

    __slots__ = ("_contact", "_path", "_text", "reginfo")

    def __init__(self) -> None:
        self.reginfo: Reginfo | None = None
        self._path: list[str] = []
        self._contact: Contact | None = None
        self._text: list[str] = []

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        path = self._path
        path.append(tag)
        if len(path) > MAX_DEPTH:
            raise ReginfoError(f"deeper than {MAX_DEPTH} elements")
        if self.reginfo is None:
            self.reginfo = _start_reginfo(tag, attributes)
        elif path == _REGISTRATION_PATH:
            self.reginfo.registrations.append(_start_registration(attributes))
        elif path == _CONTACT_PATH:
            self._contact = _start_contact(attributes)
            self.reginfo.registrations[-1].contacts.append(self._contact)
        elif path == _URI_PATH:
            self._text = []

    def data(self, text: str) -> None:
        if self._path == _URI_PATH:
            self._text.append(text)

    def end(self, tag: str) -> None:
        contact = self._contact
        if contact is not None:
            if self._path == _URI_PATH:
                contact.uri = "".join(self._text).strip()
            elif self._path == _CONTACT_PATH and not contact.uri:
                raise ReginfoError("contact without uri")
        self._path.pop()

    def close(self) -> None:
        """Part of the target's protocol; the document is in ``reginfo``."""


_REGISTRATION_PATH = [_REGINFO, _REGISTRATION]
_CONTACT_PATH = [*_REGISTRATION_PATH, _CONTACT]
_URI_PATH = [*_CONTACT_PATH, _URI]


def _start_reginfo(tag: str, attributes: dict[str, str]) -> Reginfo:
    if tag != _REGINFO:
        raise ReginfoError(f"root element {tag[:80]!r}, not reginfo")
    version = _number(_attribute(attributes, "reginfo", "version"), "version")
    return Reginfo(version, _one_of(attributes, "reginfo", ("full", "partial")))


def _start_registration(attributes: dict[str, str]) -> Registration:
    return Registration(
        aor=_attribute(attributes, "registration", "aor"),
        id=_attribute(attributes, "registration", "id"),
        state=_one_of(attributes, "registration", ("init", "active", "terminated")),
    )


def _start_contact(attributes: dict[str, str]) -> Contact:
    expires = attributes.get("expires")
    return Contact(
        id=_attribute(attributes, "contact", "id"),
        state=_one_of(attributes, "contact", ("active", "terminated")),
        event=_attribute(attributes, "contact", "event"),
        uri="",
        expires=None if expires is None else _number(expires, "expires"),
    )


def _attribute(attributes: dict[str, str], element: str, name: str) -> str:
    value = attributes.get(name)
    if not value:
        raise ReginfoError(f"{element} without {name}")
    return value


def _one_of(attributes: dict[str, str], element: str, states: tuple[str, ...]) -> str:
    state = _attribute(attributes, element, "state")
    if state not in states:
        raise ReginfoError(f"{element} state {state[:80]!r} is none of {', '.join(states)}")
    return state


def _number(text: str, name: str) -> int:
    text = text.strip()
    if not text.isascii() or not text.isdigit() or len(text) > 10:
        raise ReginfoError(f"{name} is not a number: {text[:80]!r}")
    return int(text)
