"""Diameter base protocol (RFC 6733): the message base class and the commands every peer speaks.

UserAuthorizationRequest(user_name=…)   a message: AVPs are attributes named after them
decode(data, header, cls)               bytes -> message; BadMessage carries result and Failed-AVP
message.as_bytes()                      message -> bytes; EncodeError if a value does not fit
request.answer(result_code=…)           the answer that belongs to a request
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar, TypeVar

from diameter.message import DefinedMessage, MessageHeader
from diameter.message.avp import Avp
from diameter.message.avp.generator import AvpGenDef
from diameter.message.commands import register

from simulators.codec import BadMessage, FailedAvp, Group, read_avps, write_avps
from simulators.framing import HEADER_LENGTH, serialize_header

VENDOR_3GPP = 10415
VENDOR_ETSI = 13019

RELAY = 0xFFFFFFFF
"""Application id of a relay (RFC 6733 §11.3)."""

FLAG_REQUEST, FLAG_PROXIABLE, FLAG_ERROR, FLAG_RETRANSMIT = 0x80, 0x40, 0x20, 0x10
"""Command flags of the header (RFC 6733 §3)."""

NO_STATE_MAINTAINED = 1
"""Auth-Session-State (RFC 6733 §8.11): the server keeps no session."""


class DisconnectCause(IntEnum):
    """Disconnect-Cause (RFC 6733 §5.4.3)."""

    REBOOTING = 0
    BUSY = 1
    DO_NOT_WANT_TO_TALK_TO_YOU = 2


class DiameterMessage(DefinedMessage):  # type: ignore[misc]  # the library has no types
    """Base of all commands; a concrete class gives code, is_request and avp_def."""

    code: int = 0
    """Command code."""
    name: str = "Diameter"
    """Name of the command, for people."""
    application: ClassVar[int] = 0
    """Application id of the header (RFC 6733 §2.4)."""
    is_request: ClassVar[bool] = False
    """Whether the R bit is set."""
    proxiable: ClassVar[bool] = False
    """Whether the P bit is set."""
    avp_def: tuple[AvpGenDef, ...] = ()
    """The AVPs, in the order they are written."""
    repeated: ClassVar[frozenset[str]] = frozenset()
    """Attributes that are lists."""
    enums: ClassVar[Mapping[str, type[IntEnum]]] = {}
    """Attributes with an enumeration of their own."""
    answer_class: ClassVar[type[DiameterMessage]]
    """Of a request: the class of its answer."""
    carries_session: ClassVar[bool] = False
    """Whether it has a Session-Id (base commands have none)."""

    session_id: str | None = None
    origin_host: bytes | None = None
    origin_realm: bytes | None = None
    destination_host: bytes | None = None
    destination_realm: bytes | None = None
    result_code: int | None = None
    experimental_result: ExperimentalResult | None = None
    error_message: str | None = None
    failed_avp: list[FailedAvp]
    _avps: list[Avp]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for row in cls.avp_def:
            if row.attr_name not in cls.__dict__:
                # absent is None without the library's __getattr__, which searches the rows
                setattr(cls, row.attr_name, None)
        cls.carries_session = any(row.attr_name == "session_id" for row in cls.avp_def)

    def __init__(
        self, header: MessageHeader | None = None, avps: list[Avp] | None = None, **values: Any
    ) -> None:
        attributes = self.__dict__
        for name in self.repeated:
            attributes[name] = []
        attributes.update(values)
        super().__init__(header, avps)

    def __post_init__(self) -> None:
        super().__post_init__()
        header = self.header
        if not header.length_header:  # made here, not read from the network
            header.command_code = self.code
            header.application_id = self.application
            header.command_flags |= (FLAG_REQUEST if self.is_request else 0) | (
                FLAG_PROXIABLE if self.proxiable else 0
            )
        if self._avps:  # the library's decoder made it
            avps, self._avps = self._avps, []
            read_avps(self, b"".join(avp.as_bytes() for avp in avps))

    def as_bytes(self) -> bytes:
        """The message as it is sent; EncodeError if a value does not fit its AVP."""
        body = write_avps(self)
        return serialize_header(self.header, len(body)) + body

    def answer(self, **values: Any) -> DiameterMessage:
        """The answer to this request: same identifiers, Session-Id and Proxy-Info (RFC 6733 §6.2)."""
        message = self.answer_class(**values)
        asked, header = self.header, message.header
        header.command_code = asked.command_code
        header.application_id = asked.application_id
        header.command_flags = asked.command_flags & FLAG_PROXIABLE
        header.hop_by_hop_identifier = asked.hop_by_hop_identifier
        header.end_to_end_identifier = asked.end_to_end_identifier
        own = self.__dict__
        if (session_id := own.get("session_id")) is not None:
            message.session_id = session_id
        if proxy_info := own.get("proxy_info"):
            message.__dict__["proxy_info"] = proxy_info
        return message

    @property
    def outcome(self) -> str:
        """An answer's result as one word: "2001", or "exp. 2002" for an Experimental-Result."""
        if self.result_code is not None:
            return str(int(self.result_code))
        if self.experimental_result is not None:
            return f"exp. {self.experimental_result.experimental_result_code}"
        return "none"


M = TypeVar("M", bound=DiameterMessage)


def decode(data: bytes, header: MessageHeader, cls: type[M]) -> M:
    """Read a message of this class; BadMessage says what is wrong with it."""
    message = cls(header)
    read_avps(message, data, HEADER_LENGTH)
    return message


@dataclass(frozen=True, slots=True)
class Application:
    """A Diameter application: what a peer advertises and which commands it can read."""

    name: str
    """For people: "Cx"."""
    id: int
    """Application id of its messages (RFC 6733 §2.4)."""
    vendor: int
    """Vendor of the Vendor-Specific-Application-Id."""
    requests: Mapping[int, type[DiameterMessage]]
    """Command code -> request class; its answer class hangs on it."""


def application(name: str, id_: int, vendor: int, *pairs: Any) -> Application:
    """Join requests and answers into an application, known to the library's decoder too."""
    for request, answer in pairs:
        register_command(request, answer)
    return Application(name, id_, vendor, {request.code: request for request, _ in pairs})


def register_command(request: type[DiameterMessage], answer: type[DiameterMessage]) -> None:
    """Join a request and its answer, and make the library's own decoder return them."""
    request.answer_class = answer

    def type_factory(cls: type, header: MessageHeader) -> type[DiameterMessage]:
        return request if header.is_request else answer

    for cls in (request, answer):
        cls.name = re.sub("(?<=[a-z])(?=[A-Z])", "-", cls.__name__)
    name = request.name.removesuffix("-Request")
    attributes = {
        "code": request.code,
        "name": name,
        "type_factory": classmethod(type_factory),
    }
    register(type(name, (DefinedMessage,), attributes))


@dataclass(slots=True)
class VendorSpecificApplicationId(Group):
    """Vendor-Specific-Application-Id (260)."""

    vendor_id: int | None = None
    auth_application_id: int | None = None
    acct_application_id: int | None = None

    avp_def = (
        AvpGenDef("vendor_id", 266, is_required=True),
        AvpGenDef("auth_application_id", 258),
        AvpGenDef("acct_application_id", 259),
    )


@dataclass(slots=True)
class ExperimentalResult(Group):
    """Experimental-Result (297): a result code of a vendor's own."""

    vendor_id: int | None = None
    experimental_result_code: int | None = None

    avp_def = (
        AvpGenDef("vendor_id", 266, is_required=True),
        AvpGenDef("experimental_result_code", 298, is_required=True),
    )


@dataclass(slots=True)
class ProxyInfo(Group):
    """Proxy-Info (284): state of a proxy on the way, returned unchanged (RFC 6733 §6.7.2)."""

    proxy_host: bytes | None = None
    proxy_state: bytes | None = None

    avp_def = (
        AvpGenDef("proxy_host", 280, is_required=True),
        AvpGenDef("proxy_state", 33, is_required=True),
    )


ORIGIN = (
    AvpGenDef("origin_host", 264, is_required=True),
    AvpGenDef("origin_realm", 296, is_required=True),
)
FAULT = (
    AvpGenDef("error_message", 281, is_mandatory=False),
    AvpGenDef("failed_avp", 279, type_class=FailedAvp),
)
ROUTE = (
    AvpGenDef("proxy_info", 284, type_class=ProxyInfo),
    AvpGenDef("route_record", 282),
)
_CAPABILITIES = (
    # required (RFC 6733 §5.3.1), but of no use here: who leaves it out is served, and counted
    AvpGenDef("host_ip_address", 257),
    AvpGenDef("vendor_id", 266, is_required=True),
    AvpGenDef("product_name", 269, is_required=True, is_mandatory=False),
    AvpGenDef("origin_state_id", 278),
    AvpGenDef("supported_vendor_id", 265),
    AvpGenDef("auth_application_id", 258),
    AvpGenDef("inband_security_id", 299),
    AvpGenDef("acct_application_id", 259),
    AvpGenDef("vendor_specific_application_id", 260, type_class=VendorSpecificApplicationId),
    AvpGenDef("firmware_revision", 267, is_mandatory=False),
)
_CAPABILITY_LISTS = frozenset(
    {
        "host_ip_address",
        "supported_vendor_id",
        "auth_application_id",
        "inband_security_id",
        "acct_application_id",
        "vendor_specific_application_id",
    }
)


class Capabilities(DiameterMessage):
    """What CER and CEA share (RFC 6733 §5.3)."""

    code = 257
    host_ip_address: list[str]
    vendor_id: int | None
    product_name: str | None
    supported_vendor_id: list[int]
    auth_application_id: list[int]
    acct_application_id: list[int]
    vendor_specific_application_id: list[VendorSpecificApplicationId]

    def applications(self) -> set[int]:
        """The application ids that the sender supports."""
        ids = {*self.auth_application_id, *self.acct_application_id}
        for one in self.vendor_specific_application_id:
            ids |= {one.auth_application_id or 0, one.acct_application_id or 0}
        return ids - {0}

    @property
    def relays(self) -> bool:
        """Whether the sender passes on messages of any application (RFC 6733 §2.4)."""
        return RELAY in self.applications()


class CapabilitiesExchangeRequest(Capabilities):
    """CER (RFC 6733 §5.3.1)."""

    is_request = True
    repeated = _CAPABILITY_LISTS
    avp_def = (*ORIGIN, *_CAPABILITIES)


class CapabilitiesExchangeAnswer(Capabilities):
    """CEA (RFC 6733 §5.3.2)."""

    repeated = _CAPABILITY_LISTS | {"failed_avp"}
    avp_def = (AvpGenDef("result_code", 268, is_required=True), *ORIGIN, *_CAPABILITIES, *FAULT)


class DeviceWatchdogRequest(DiameterMessage):
    """DWR (RFC 6733 §5.5.1)."""

    code = 280
    is_request = True
    avp_def = (*ORIGIN, AvpGenDef("origin_state_id", 278))


class DeviceWatchdogAnswer(DiameterMessage):
    """DWA (RFC 6733 §5.5.2)."""

    code = 280
    repeated = frozenset({"failed_avp"})
    avp_def = (
        AvpGenDef("result_code", 268, is_required=True),
        *ORIGIN,
        *FAULT,
        AvpGenDef("origin_state_id", 278),
    )


class DisconnectPeerRequest(DiameterMessage):
    """DPR (RFC 6733 §5.4.1)."""

    code = 282
    is_request = True
    enums: ClassVar[Mapping[str, type[IntEnum]]] = {"disconnect_cause": DisconnectCause}
    disconnect_cause: DisconnectCause | None
    avp_def = (*ORIGIN, AvpGenDef("disconnect_cause", 273, is_required=True))


class DisconnectPeerAnswer(DiameterMessage):
    """DPA (RFC 6733 §5.4.2)."""

    code = 282
    repeated = frozenset({"failed_avp"})
    avp_def = (AvpGenDef("result_code", 268, is_required=True), *ORIGIN, *FAULT)


class ErrorAnswer(DiameterMessage):
    """Any command refused: the grammar of RFC 6733 §7.2, with or without the E bit."""

    repeated = frozenset({"failed_avp", "proxy_info"})
    avp_def = (
        AvpGenDef("session_id", 263),
        *ORIGIN,
        AvpGenDef("result_code", 268, is_required=True),
        *FAULT,
        AvpGenDef("proxy_info", 284, type_class=ProxyInfo),
    )


def refusal(
    asked: MessageHeader, request: type[DiameterMessage] | None, error: BadMessage, **values: Any
) -> DiameterMessage:
    """The answer to a request that cannot be served (RFC 6733 §7); ``request`` is its class, if known."""
    values |= {"result_code": error.result, "error_message": str(error)}
    if error.failed is not None:
        values["failed_avp"] = [FailedAvp([error.failed])]
    protocol_error = 3000 <= error.result < 4000
    # §7.2: the E bit goes with 3xxx alone and with a grammar of its own; without it the command's holds
    cls = ErrorAnswer if request is None or protocol_error else request.answer_class
    answer = cls(**values)
    header = answer.header
    header.command_code = asked.command_code
    header.application_id = asked.application_id
    header.command_flags = asked.command_flags & FLAG_PROXIABLE
    header.is_error = protocol_error
    header.hop_by_hop_identifier = asked.hop_by_hop_identifier
    header.end_to_end_identifier = asked.end_to_end_identifier
    return answer


def experimental(result: int) -> ExperimentalResult:
    """The Experimental-Result of an answer: a result code of 3GPP's (TS 29.229 §6.2, TS 29.214)."""
    return ExperimentalResult(vendor_id=VENDOR_3GPP, experimental_result_code=result)


def succeeded(answer: DiameterMessage) -> bool:
    """Whether an answer says yes: a code 2xxx, of either kind (RFC 6733 §7.1.2)."""
    code = answer.result_code
    if code is None and answer.experimental_result is not None:
        code = answer.experimental_result.experimental_result_code
    return code is not None and 2000 <= code < 3000


BASE = application(
    "base",
    0,
    0,
    (CapabilitiesExchangeRequest, CapabilitiesExchangeAnswer),
    (DeviceWatchdogRequest, DeviceWatchdogAnswer),
    (DisconnectPeerRequest, DisconnectPeerAnswer),
)
"""The base protocol's own commands, with application id 0."""
