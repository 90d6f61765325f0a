"""Diameter AVPs (RFC 6733 §4): python-diameter's definitions, compiled and checked.

A message or group is a class with an ``avp_def`` of ``AvpGenDef`` rows, as python-diameter defines its own;
type and M bit of each AVP come from the library's dictionary. The library's own coder is not used on the
wire, for two reasons: its decoder takes an AVP length below 8 for an empty AVP and an undecodable value for
None, where RFC 6733 §7.1.5 wants 5014 and 5004; and it costs several times as much. Here each class is
compiled once into a table of fields, and reading checks as it goes. What is written is byte for byte what
the library writes (a test holds the two together).

    read_avps(target, data)    bytes -> attributes of a message or group; BadMessage says what is wrong
    write_avps(source)         attributes -> bytes; EncodeError if a value does not fit its AVP
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, ClassVar

from diameter.message.avp import (
    Avp,
    AvpAddress,
    AvpGrouped,
    AvpInteger32,
    AvpUnsigned32,
    AvpUtf8String,
)
from diameter.message.avp.avp import get_avp_dictionary_entry
from diameter.message.avp.generator import AvpGenDef

from simulators.framing import HEADER_LENGTH

_VENDOR, _MANDATORY, _RESERVED = 0x80000000, 0x40000000, 0x1F000000
_LENGTH = 0x00FFFFFF

_AVP = struct.Struct(">II")
_AVP_VENDOR = struct.Struct(">III")
_U32 = struct.Struct(">I")
_PADDING = (b"", b"\0\0\0", b"\0\0", b"\0")  # by length & 3


class Result(IntEnum):
    """Result-Code values of the base protocol (RFC 6733 §7.1)."""

    SUCCESS = 2001
    LIMITED_SUCCESS = 2002
    COMMAND_UNSUPPORTED = 3001
    UNABLE_TO_DELIVER = 3002
    REALM_NOT_SERVED = 3003
    TOO_BUSY = 3004
    LOOP_DETECTED = 3005
    APPLICATION_UNSUPPORTED = 3007
    INVALID_HDR_BITS = 3008
    INVALID_AVP_BITS = 3009
    UNKNOWN_PEER = 3010
    AVP_UNSUPPORTED = 5001
    UNKNOWN_SESSION_ID = 5002
    AUTHORIZATION_REJECTED = 5003
    INVALID_AVP_VALUE = 5004
    MISSING_AVP = 5005
    AVP_NOT_ALLOWED = 5008
    AVP_OCCURS_TOO_MANY_TIMES = 5009
    NO_COMMON_APPLICATION = 5010
    UNSUPPORTED_VERSION = 5011
    UNABLE_TO_COMPLY = 5012
    INVALID_AVP_LENGTH = 5014
    INVALID_MESSAGE_LENGTH = 5015


class EncodeError(ValueError):
    """A value does not fit the AVP it was given to; the text names both."""


class BadMessage(Exception):
    """A message that cannot be served: what RFC 6733 §7.1 answers to it."""

    def __init__(self, result: Result, text: str, failed: Avp | None = None) -> None:
        super().__init__(text)
        self.result = result
        """The Result-Code of the answer."""
        self.failed = failed
        """The offending AVP (RFC 6733 §7.5), if there is one."""


def session_id_of(data: bytes) -> str | None:
    """The Session-Id of a message that may be broken behind it: the first AVP (RFC 6733 §8.8)."""
    if len(data) < HEADER_LENGTH + 8:
        return None
    code, word = _AVP.unpack_from(data, HEADER_LENGTH)
    stop = HEADER_LENGTH + (word & _LENGTH)
    if code != 263 or word & _VENDOR or not HEADER_LENGTH + 8 <= stop <= len(data):
        return None
    try:
        return data[HEADER_LENGTH + 8 : stop].decode()
    except UnicodeDecodeError:
        return None


class Group:
    """Base of grouped AVPs: dataclasses whose fields are the AVPs inside."""

    __slots__ = ()
    avp_def: ClassVar[tuple[AvpGenDef, ...]] = ()
    """The AVPs inside, in the order they are written."""
    repeated: ClassVar[frozenset[str]] = frozenset()
    """Attributes that are lists."""
    enums: ClassVar[Mapping[str, type[IntEnum]]] = {}
    """Attributes with an enumeration of their own."""


@dataclass(slots=True)
class FailedAvp(Group):
    """Failed-AVP (279): the AVPs that a request was refused for (RFC 6733 §7.5)."""

    additional_avps: list[Avp] = field(default_factory=list)
    """The AVPs themselves."""


@dataclass(slots=True)
class _Field:
    """One row of an ``avp_def``, compiled."""

    attr: str
    code: int
    vendor: int
    flags: int
    required: bool
    repeated: bool
    read: Callable[[bytes], Any]
    """Payload -> value; struct.error, ValueError or BadMessage if it is none."""
    write: Callable[[Any], bytes]
    """Value -> the whole AVP, padded."""
    shortest: bytes
    """The smallest payload there is, for the Failed-AVP of a missing AVP."""

    def avp(self, payload: bytes) -> Avp:
        """This AVP with the payload given, for a Failed-AVP."""
        return Avp(self.code, self.vendor, payload, self.flags)


@dataclass(slots=True)
class _Table:
    """A class's fields: in writing order, by (vendor << 32 | code), and those it cannot do without."""

    writers: list[tuple[str, bool, Callable[[Any], bytes]]]
    by_key: dict[int, _Field]
    required: list[_Field]


_tables: dict[type, _Table] = {}


def _table_of(cls: type) -> _Table:
    """The compiled form of a class, made at its first use."""
    if (table := _tables.get(cls)) is None:
        fields = [_compile(row, cls) for row in cls.avp_def]  # type: ignore[attr-defined]  # Group or message
        table = _tables[cls] = _Table(
            writers=[(f.attr, f.repeated, f.write) for f in fields],
            by_key={f.vendor << 32 | f.code: f for f in fields},
            required=[f for f in fields if f.required],
        )
    return table


def _compile(row: AvpGenDef, cls: Any) -> _Field:
    entry = get_avp_dictionary_entry(row.avp_code, row.vendor_id)
    if entry is None:
        raise LookupError(f"AVP {row.avp_code} of vendor {row.vendor_id} is not in the dictionary")
    mandatory = entry.get("mandatory") if row.is_mandatory is None else row.is_mandatory
    flags = (_VENDOR >> 24 if row.vendor_id else 0) | (_MANDATORY >> 24 if mandatory else 0)
    read, pack, shortest = _coder(entry["type"], row, cls.enums.get(row.attr_name))
    return _Field(
        attr=row.attr_name,
        code=row.avp_code,
        vendor=row.vendor_id,
        flags=flags,
        required=row.is_required,
        repeated=row.attr_name in cls.repeated,
        read=read,
        write=_writer(row, flags, pack),
        shortest=shortest,
    )


Coder = tuple[Callable[[bytes], Any], Callable[[Any], bytes], bytes]


def _coder(avp_type: type, row: AvpGenDef, enum: type[IntEnum] | None) -> Coder:
    """How a payload of this type is read and written, and the smallest there is."""
    if issubclass(avp_type, AvpGrouped):
        return _group_coder(row)
    if issubclass(avp_type, AvpUtf8String):
        return _read_utf8, str.encode, b""
    if issubclass(avp_type, AvpAddress):
        return _read_address, _write_address, bytes(6)
    if issubclass(avp_type, (AvpInteger32, AvpUnsigned32)):
        number = struct.Struct(">i" if issubclass(avp_type, AvpInteger32) else ">I")
        if enum is not None:
            return (lambda payload: enum(number.unpack(payload)[0])), number.pack, bytes(4)
        return (lambda payload: number.unpack(payload)[0]), number.pack, bytes(4)
    return bytes, _write_octets, b""


def _read_utf8(payload: bytes) -> str:
    return payload.decode()


def _write_octets(value: bytes) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError("not bytes")
    return value


def _read_address(payload: bytes) -> str:
    """Address (RFC 6733 §4.3.1): two octets of family, 1 for IPv4 and 2 for IPv6."""
    family, octets = payload[:2], payload[2:]
    if (family, len(octets)) not in ((b"\0\1", 4), (b"\0\2", 16)):
        raise ValueError("not an IPv4 or IPv6 address")
    return str(ipaddress.ip_address(octets))


def _write_address(value: str) -> bytes:
    address = ipaddress.ip_address(value)
    return (b"\0\1" if address.version == 4 else b"\0\2") + address.packed


def _group_coder(row: AvpGenDef) -> Coder:
    group = row.type_class

    if group is FailedAvp:
        return _read_failed, _write_failed, b""
    if group is None:
        raise LookupError(f"grouped AVP {row.avp_code} has no class of its own")

    def read(payload: bytes) -> Any:
        value = group()
        read_avps(value, payload)
        return value

    return read, write_avps, b""


def _read_failed(payload: bytes) -> FailedAvp:
    """Any AVPs, as they are; what is not even an AVP is left out, it comes from a broken message."""
    avps = []
    position = 0
    while len(payload) - position >= 8:
        code, word = _AVP.unpack_from(payload, position)
        start = position + (12 if word & _VENDOR else 8)
        stop = position + (word & _LENGTH)
        if not start <= stop <= len(payload):
            break
        vendor = _U32.unpack_from(payload, position + 8)[0] if word & _VENDOR else 0
        avps.append(Avp(code, vendor, payload[start:stop], word >> 24))
        position = stop + (-stop & 3)
    return FailedAvp(avps)


def _write_failed(value: FailedAvp) -> bytes:
    return b"".join(avp.as_bytes() for avp in value.additional_avps)


def _writer(row: AvpGenDef, flags: int, pack: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    code, vendor, word = row.avp_code, row.vendor_id, flags << 24
    header = 12 if vendor else 8

    def write(value: Any) -> bytes:
        try:
            payload = pack(value)
        except EncodeError:
            raise
        except (struct.error, TypeError, ValueError, AttributeError) as error:
            raise EncodeError(f"{row.attr_name} = {value!r}: {error}") from error
        length = header + len(payload)
        if vendor:
            return _AVP_VENDOR.pack(code, word | length, vendor) + payload + _PADDING[length & 3]
        return _AVP.pack(code, word | length) + payload + _PADDING[length & 3]

    return write


def write_avps(source: Any) -> bytes:
    """The AVPs of a message or group, from its attributes; EncodeError if a value does not fit."""
    parts = []
    for attr, repeated, write in _table_of(type(source)).writers:
        value = getattr(source, attr)
        if value is None:
            continue
        if repeated:
            parts.extend([write(item) for item in value])
        else:
            parts.append(write(value))
    return b"".join(parts)


def read_avps(target: Any, data: bytes, position: int = 0) -> None:
    """Read AVPs into the attributes of a message or group.

    BadMessage for the first fault (RFC 6733 §7.1.3, §7.1.5): 3009 flag bits, 5001 unknown AVP with the
    M bit, 5004 value, 5005 missing, 5009 too many, 5014 length.
    """
    table = _table_of(type(target))
    fields, end = table.by_key, len(data)
    while position < end:
        if end - position < 8:
            raise _bad_length(data[position:].ljust(8, b"\0"))
        code, word = _AVP.unpack_from(data, position)
        vendor, start = 0, position + 8
        stop = position + (word & _LENGTH)
        if word & _VENDOR:
            start += 4
            if start <= end:
                vendor = _U32.unpack_from(data, start - 4)[0]
        if not start <= stop <= end:
            raise _bad_length(data[position:start])
        if word & _RESERVED or (word & _VENDOR and not vendor):
            raise _bad_bits(data, position, start, stop)
        found = fields.get(vendor << 32 | code)
        if found is not None:
            _assign(target, found, data[start:stop])
        elif word & _MANDATORY and get_avp_dictionary_entry(code, vendor) is None:
            failed = Avp(code, vendor, data[start:stop], word >> 24)
            raise BadMessage(Result.AVP_UNSUPPORTED, f"unknown AVP {code}", failed)
        position = stop + (-stop & 3)
    for needed in table.required:
        if getattr(target, needed.attr) in (None, []):
            text = f"{needed.attr} is missing"
            raise BadMessage(Result.MISSING_AVP, text, needed.avp(needed.shortest))


def _assign(target: Any, found: _Field, payload: bytes) -> None:
    """Decode one AVP into its attribute."""
    try:
        value = found.read(payload)
    except BadMessage as error:  # inside a group: the hierarchy is kept, §7.5
        if error.failed is not None:
            error.failed = found.avp(error.failed.as_bytes())
        raise
    except struct.error:
        text = f"{found.attr} has {len(payload)} octets"
        raise BadMessage(
            Result.INVALID_AVP_LENGTH, text, found.avp(payload.ljust(4, b"\0")[:4])
        ) from None
    except ValueError as error:
        text = f"{found.attr}: {error}"
        raise BadMessage(Result.INVALID_AVP_VALUE, text, found.avp(payload)) from None
    if found.repeated:
        getattr(target, found.attr).append(value)
    elif getattr(target, found.attr) is None:
        setattr(target, found.attr, value)
    else:
        text = f"{found.attr} occurs more than once"
        raise BadMessage(Result.AVP_OCCURS_TOO_MANY_TIMES, text, found.avp(payload))


def _bad_length(head: bytes) -> BadMessage:
    """5014: the offending header, with an empty payload (RFC 6733 §7.1.5)."""
    code, word = _AVP.unpack_from(head)
    vendor = _U32.unpack_from(head, 8)[0] if len(head) >= 12 else 0
    text = f"AVP {code} has length {word & _LENGTH}"
    flags = word >> 24 & ~(0x80 if not vendor else 0)
    return BadMessage(Result.INVALID_AVP_LENGTH, text, Avp(code, vendor, b"", flags))


def _bad_bits(data: bytes, position: int, start: int, stop: int) -> BadMessage:
    """3009: reserved flag bits, or a vendor bit with vendor 0 (RFC 6733 §4.1)."""
    code, word = _AVP.unpack_from(data, position)
    vendor = _U32.unpack_from(data, position + 8)[0] if word & _VENDOR else 0
    failed = Avp(code, vendor, data[start:stop], word >> 24 & 0xE0)
    return BadMessage(Result.INVALID_AVP_BITS, f"AVP {code} has flags {word >> 24:#x}", failed)
