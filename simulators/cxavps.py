"""AVPs of Cx (TS 29.229 §6.2, §6.3): enumerations, result codes, groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, ClassVar

from diameter.message.avp import AvpUnsigned32
from diameter.message.avp.avp import register as register_avp
from diameter.message.avp.generator import AvpGenDef

from simulators.base import VENDOR_3GPP
from simulators.codec import Group

APPLICATION_CX = 16777216
AKA_SCHEME = "Digest-AKAv1-MD5"
"""SIP-Authentication-Scheme of IMS-AKA (TS 29.229 §6.3.9)."""
UNKNOWN_SCHEME = "Unknown"
"""SIP-Authentication-Scheme of a S-CSCF that leaves the choice to the HSS (as cited by the field)."""


class Command(IntEnum):
    """Command codes (TS 29.229 §6.1)."""

    USER_AUTHORIZATION = 300
    SERVER_ASSIGNMENT = 301
    LOCATION_INFO = 302
    MULTIMEDIA_AUTH = 303
    REGISTRATION_TERMINATION = 304
    PUSH_PROFILE = 305


class CxResult(IntEnum):
    """Experimental-Result-Code of vendor 10415 (TS 29.229 §6.2)."""

    FIRST_REGISTRATION = 2001
    SUBSEQUENT_REGISTRATION = 2002
    UNREGISTERED_SERVICE = 2003
    SUCCESS_SERVER_NAME_NOT_STORED = 2004
    USER_UNKNOWN = 5001
    IDENTITIES_DONT_MATCH = 5002
    IDENTITY_NOT_REGISTERED = 5003
    ROAMING_NOT_ALLOWED = 5004
    IDENTITY_ALREADY_REGISTERED = 5005
    AUTH_SCHEME_NOT_SUPPORTED = 5006
    IN_ASSIGNMENT_TYPE = 5007
    TOO_MUCH_DATA = 5008
    NOT_SUPPORTED_USER_DATA = 5009
    FEATURE_UNSUPPORTED = 5011


class ServerAssignmentType(IntEnum):
    """Server-Assignment-Type (TS 29.229 §6.3.15)."""

    NO_ASSIGNMENT = 0
    REGISTRATION = 1
    RE_REGISTRATION = 2
    UNREGISTERED_USER = 3
    TIMEOUT_DEREGISTRATION = 4
    USER_DEREGISTRATION = 5
    TIMEOUT_DEREGISTRATION_STORE_SERVER_NAME = 6
    USER_DEREGISTRATION_STORE_SERVER_NAME = 7
    ADMINISTRATIVE_DEREGISTRATION = 8
    AUTHENTICATION_FAILURE = 9
    AUTHENTICATION_TIMEOUT = 10
    DEREGISTRATION_TOO_MUCH_DATA = 11


class UserAuthorizationType(IntEnum):
    """User-Authorization-Type (TS 29.229 §6.3.24)."""

    REGISTRATION = 0
    DE_REGISTRATION = 1
    REGISTRATION_AND_CAPABILITIES = 2


class UserDataAlreadyAvailable(IntEnum):
    """User-Data-Already-Available (TS 29.229 §6.3.26)."""

    USER_DATA_NOT_AVAILABLE = 0
    USER_DATA_ALREADY_AVAILABLE = 1


class ReasonCode(IntEnum):
    """Reason-Code of a network-initiated de-registration (TS 29.229 §6.3.17)."""

    PERMANENT_TERMINATION = 0
    NEW_SERVER_ASSIGNED = 1
    SERVER_CHANGE = 2
    REMOVE_S_CSCF = 3


class OriginatingRequest(IntEnum):
    """Originating-Request (TS 29.229 §6.3.34)."""

    ORIGINATING = 0


# RTR-Flags came after the library's dictionary.
register_avp(659, "RTR-Flags", AvpUnsigned32, vendor=VENDOR_3GPP, mandatory=False)


def cx_row(attr: str, code: int, **options: Any) -> AvpGenDef:
    """A row for an AVP of vendor 10415."""
    return AvpGenDef(attr, code, VENDOR_3GPP, **options)


@dataclass(slots=True)
class SipAuthDataItem(Group):
    """SIP-Auth-Data-Item (612, TS 29.229 §6.3.13): one vector, or what is asked for."""

    sip_item_number: int | None = None
    sip_authentication_scheme: str | None = None
    sip_authenticate: bytes | None = None
    """RAND and AUTN, 32 octets, in an answer."""
    sip_authorization: bytes | None = None
    """XRES in an answer; RAND and AUTS, 30 octets, in a request after a resynchronisation."""
    confidentiality_key: bytes | None = None
    integrity_key: bytes | None = None

    avp_def = (
        cx_row("sip_item_number", 613),
        cx_row("sip_authentication_scheme", 608),
        cx_row("sip_authenticate", 609),
        cx_row("sip_authorization", 610),
        cx_row("confidentiality_key", 625),
        cx_row("integrity_key", 626),
    )


@dataclass(slots=True)
class ServerCapabilities(Group):
    """Server-Capabilities (603, TS 29.229 §6.3.4): for the choice of an S-CSCF."""

    mandatory_capability: list[int] = field(default_factory=list)
    optional_capability: list[int] = field(default_factory=list)
    server_name: list[str] = field(default_factory=list)

    repeated = frozenset({"mandatory_capability", "optional_capability", "server_name"})
    avp_def = (
        cx_row("mandatory_capability", 604),
        cx_row("optional_capability", 605),
        cx_row("server_name", 602),
    )


@dataclass(slots=True)
class DeregistrationReason(Group):
    """Deregistration-Reason (615, TS 29.229 §6.3.16)."""

    reason_code: ReasonCode | None = None
    reason_info: str | None = None

    enums: ClassVar[Mapping[str, type[IntEnum]]] = {"reason_code": ReasonCode}
    avp_def = (cx_row("reason_code", 616, is_required=True), cx_row("reason_info", 617))


@dataclass(slots=True)
class ChargingInformation(Group):
    """Charging-Information (618, TS 29.229 §6.3.19): addresses of the charging functions."""

    primary_event_charging_function_name: str | None = None
    secondary_event_charging_function_name: str | None = None
    primary_charging_collection_function_name: str | None = None
    secondary_charging_collection_function_name: str | None = None

    avp_def = (
        cx_row("primary_event_charging_function_name", 619),
        cx_row("secondary_event_charging_function_name", 620),
        cx_row("primary_charging_collection_function_name", 621),
        cx_row("secondary_charging_collection_function_name", 622),
    )


@dataclass(slots=True)
class SupportedFeatures(Group):
    """Supported-Features (628, TS 29.229 §6.3.29)."""

    vendor_id: int | None = None
    feature_list_id: int | None = None
    feature_list: int | None = None

    avp_def = (
        AvpGenDef("vendor_id", 266, is_required=True),
        cx_row("feature_list_id", 629, is_required=True, is_mandatory=False),
        cx_row("feature_list", 630, is_required=True, is_mandatory=False),
    )


@dataclass(slots=True)
class AssociatedIdentities(Group):
    """Associated-Identities (632, TS 29.229 §6.3.33): private identities of the subscription."""

    user_name: list[str] = field(default_factory=list)

    repeated = frozenset({"user_name"})
    avp_def = (AvpGenDef("user_name", 1),)
