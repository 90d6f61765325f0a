"""Cx between I-/S-CSCF and HSS (TS 29.228, TS 29.229): commands, enumerations, result codes.

python-diameter 0.9 defines MAR and MAA with the AVPs of RFC 4740 (376, 377); TS 29.229 uses its own 612 and
608 of vendor 10415. So all Cx commands are defined here and override the library's.

    CX                                       the application, for a Peer
    UserAuthorizationRequest(user_name=…)    UAR; .answer(…) is its UAA; likewise MAR, SAR, LIR, RTR, PPR
    experimental(CxResult.USER_UNKNOWN)      the Experimental-Result of an answer
    succeeded(answer)                        whether an answer says yes
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, ClassVar

from diameter.message import MessageHeader
from diameter.message.avp import Avp
from diameter.message.avp.generator import AvpGenDef

from simulators.base import (
    FAULT,
    NO_STATE_MAINTAINED,
    ORIGIN,
    ROUTE,
    VENDOR_3GPP,
    DiameterMessage,
    ExperimentalResult,
    ProxyInfo,
    VendorSpecificApplicationId,
    application,
    experimental,
    succeeded,
)
from simulators.cxavps import (
    AKA_SCHEME,
    APPLICATION_CX,
    UNKNOWN_SCHEME,
    AssociatedIdentities,
    ChargingInformation,
    Command,
    CxResult,
    DeregistrationReason,
    OriginatingRequest,
    ReasonCode,
    ServerAssignmentType,
    ServerCapabilities,
    SipAuthDataItem,
    SupportedFeatures,
    UserAuthorizationType,
    UserDataAlreadyAvailable,
    cx_row,
)

__all__ = [
    "AKA_SCHEME",
    "APPLICATION_CX",
    "CX",
    "UNKNOWN_SCHEME",
    "AssociatedIdentities",
    "ChargingInformation",
    "Command",
    "CxAnswer",
    "CxMessage",
    "CxRequest",
    "CxResult",
    "DeregistrationReason",
    "LocationInfoAnswer",
    "LocationInfoRequest",
    "MultimediaAuthAnswer",
    "MultimediaAuthRequest",
    "OriginatingRequest",
    "PushProfileAnswer",
    "PushProfileRequest",
    "ReasonCode",
    "RegistrationTerminationAnswer",
    "RegistrationTerminationRequest",
    "ServerAssignmentAnswer",
    "ServerAssignmentRequest",
    "ServerAssignmentType",
    "ServerCapabilities",
    "SipAuthDataItem",
    "SupportedFeatures",
    "UserAuthorizationAnswer",
    "UserAuthorizationRequest",
    "UserAuthorizationType",
    "UserDataAlreadyAvailable",
    "experimental",
    "succeeded",
]

_SUPPORTED_FEATURES = cx_row(
    "supported_features", 628, is_mandatory=False, type_class=SupportedFeatures
)
_HEAD = (
    AvpGenDef("session_id", 263, is_required=True),
    AvpGenDef(
        "vendor_specific_application_id",
        260,
        is_required=True,
        type_class=VendorSpecificApplicationId,
    ),
)
_REQUEST_HEAD = (
    *_HEAD,
    AvpGenDef("auth_session_state", 277, is_required=True),
    *ORIGIN,
    AvpGenDef("destination_host", 293),
    AvpGenDef("destination_realm", 283, is_required=True),
    _SUPPORTED_FEATURES,
)
_ANSWER_HEAD = (
    *_HEAD,
    AvpGenDef("result_code", 268),
    AvpGenDef("experimental_result", 297, type_class=ExperimentalResult),
    AvpGenDef("auth_session_state", 277, is_required=True),
    *ORIGIN,
    _SUPPORTED_FEATURES,
)
_ANSWER_TAIL = (*FAULT, *ROUTE)
_LISTS = frozenset({"supported_features", "proxy_info", "route_record"})
_USER_NAME = AvpGenDef("user_name", 1)
_USER_NAME_REQUIRED = AvpGenDef("user_name", 1, is_required=True)
_PUBLIC_IDENTITY = cx_row("public_identity", 601)
_PUBLIC_IDENTITY_REQUIRED = cx_row("public_identity", 601, is_required=True)
_SERVER_NAME = cx_row("server_name", 602)
_SERVER_NAME_REQUIRED = cx_row("server_name", 602, is_required=True)
_SERVER_CAPABILITIES = cx_row("server_capabilities", 603, type_class=ServerCapabilities)
_USER_DATA = cx_row("user_data", 606)
_CHARGING_INFORMATION = cx_row("charging_information", 618, type_class=ChargingInformation)
_AUTH_DATA_ITEM = cx_row("sip_auth_data_item", 612, type_class=SipAuthDataItem)
_ASSOCIATED_IDENTITIES = cx_row(
    "associated_identities", 632, is_mandatory=False, type_class=AssociatedIdentities
)
_CX_ID = VendorSpecificApplicationId(vendor_id=VENDOR_3GPP, auth_application_id=APPLICATION_CX)


class CxMessage(DiameterMessage):
    """What all Cx messages carry (TS 29.229 §6.1): the application and "no state maintained"."""

    application = APPLICATION_CX
    proxiable = True
    vendor_specific_application_id: VendorSpecificApplicationId | None
    auth_session_state: int | None
    supported_features: list[SupportedFeatures]
    proxy_info: list[ProxyInfo]
    route_record: list[bytes]

    def __init__(
        self, header: MessageHeader | None = None, avps: list[Avp] | None = None, **values: Any
    ) -> None:
        super().__init__(header, avps, **values)
        if not self.header.length_header:  # made here, not read from the network
            self.vendor_specific_application_id = _CX_ID
            self.auth_session_state = NO_STATE_MAINTAINED


class CxRequest(CxMessage):
    """A Cx request."""

    is_request = True
    repeated = _LISTS


class CxAnswer(CxMessage):
    """A Cx answer: Result-Code or Experimental-Result, never both (TS 29.229 §6.2)."""

    repeated = _LISTS | {"failed_avp"}


class UserAuthorizationRequest(CxRequest):
    """UAR (TS 29.229 §6.1.1): may this identity register, and at which S-CSCF."""

    code = Command.USER_AUTHORIZATION
    user_name: str | None
    public_identity: str | None
    visited_network_identifier: bytes | None
    user_authorization_type: UserAuthorizationType | None
    uar_flags: int | None
    enums: ClassVar[Mapping[str, type[IntEnum]]] = {
        "user_authorization_type": UserAuthorizationType
    }
    avp_def = (
        *_REQUEST_HEAD,
        _USER_NAME_REQUIRED,
        _PUBLIC_IDENTITY_REQUIRED,
        cx_row("visited_network_identifier", 600, is_required=True),
        cx_row("user_authorization_type", 623),
        cx_row("uar_flags", 637, is_mandatory=False),
        *ROUTE,
    )


class UserAuthorizationAnswer(CxAnswer):
    """UAA (TS 29.229 §6.1.2)."""

    code = Command.USER_AUTHORIZATION
    server_name: str | None
    server_capabilities: ServerCapabilities | None
    avp_def = (*_ANSWER_HEAD, _SERVER_NAME, _SERVER_CAPABILITIES, *_ANSWER_TAIL)


class ServerAssignmentRequest(CxRequest):
    """SAR (TS 29.229 §6.1.3): the S-CSCF takes, keeps or gives up a subscriber."""

    code = Command.SERVER_ASSIGNMENT
    user_name: str | None
    public_identity: list[str]
    server_name: str | None
    server_assignment_type: ServerAssignmentType | None
    user_data_already_available: UserDataAlreadyAvailable | None
    repeated = _LISTS | {"public_identity"}
    enums: ClassVar[Mapping[str, type[IntEnum]]] = {
        "server_assignment_type": ServerAssignmentType,
        "user_data_already_available": UserDataAlreadyAvailable,
    }
    avp_def = (
        *_REQUEST_HEAD,
        _USER_NAME,
        _PUBLIC_IDENTITY,
        _SERVER_NAME_REQUIRED,
        cx_row("server_assignment_type", 614, is_required=True),
        cx_row("user_data_already_available", 624, is_required=True),
        *ROUTE,
    )


class ServerAssignmentAnswer(CxAnswer):
    """SAA (TS 29.229 §6.1.4)."""

    code = Command.SERVER_ASSIGNMENT
    user_name: str | None
    user_data: bytes | None
    charging_information: ChargingInformation | None
    associated_identities: AssociatedIdentities | None
    server_name: str | None
    avp_def = (
        *_ANSWER_HEAD,
        _USER_NAME,
        _USER_DATA,
        _CHARGING_INFORMATION,
        _ASSOCIATED_IDENTITIES,
        _SERVER_NAME,
        *_ANSWER_TAIL,
    )


class LocationInfoRequest(CxRequest):
    """LIR (TS 29.229 §6.1.5): which S-CSCF serves this identity."""

    code = Command.LOCATION_INFO
    public_identity: str | None
    originating_request: OriginatingRequest | None
    user_authorization_type: UserAuthorizationType | None
    enums: ClassVar[Mapping[str, type[IntEnum]]] = {
        "originating_request": OriginatingRequest,
        "user_authorization_type": UserAuthorizationType,
    }
    avp_def = (
        *_REQUEST_HEAD,
        cx_row("originating_request", 633),
        _PUBLIC_IDENTITY_REQUIRED,
        cx_row("user_authorization_type", 623),
        *ROUTE,
    )


class LocationInfoAnswer(CxAnswer):
    """LIA (TS 29.229 §6.1.6)."""

    code = Command.LOCATION_INFO
    server_name: str | None
    server_capabilities: ServerCapabilities | None
    avp_def = (*_ANSWER_HEAD, _SERVER_NAME, _SERVER_CAPABILITIES, *_ANSWER_TAIL)


class MultimediaAuthRequest(CxRequest):
    """MAR (TS 29.229 §6.1.7): vectors, please."""

    code = Command.MULTIMEDIA_AUTH
    user_name: str | None
    public_identity: str | None
    sip_auth_data_item: SipAuthDataItem | None
    sip_number_auth_items: int | None
    server_name: str | None
    avp_def = (
        *_REQUEST_HEAD,
        _USER_NAME_REQUIRED,
        _PUBLIC_IDENTITY_REQUIRED,
        _AUTH_DATA_ITEM._replace(is_required=True),
        cx_row("sip_number_auth_items", 607, is_required=True),
        _SERVER_NAME_REQUIRED,
        *ROUTE,
    )


class MultimediaAuthAnswer(CxAnswer):
    """MAA (TS 29.229 §6.1.8)."""

    code = Command.MULTIMEDIA_AUTH
    user_name: str | None
    public_identity: str | None
    sip_number_auth_items: int | None
    sip_auth_data_item: list[SipAuthDataItem]
    repeated = _LISTS | {"failed_avp", "sip_auth_data_item"}
    avp_def = (
        *_ANSWER_HEAD,
        _USER_NAME,
        _PUBLIC_IDENTITY,
        cx_row("sip_number_auth_items", 607),
        _AUTH_DATA_ITEM,
        *_ANSWER_TAIL,
    )


class RegistrationTerminationRequest(CxRequest):
    """RTR (TS 29.229 §6.1.9): the HSS ends a registration."""

    code = Command.REGISTRATION_TERMINATION
    user_name: str | None
    associated_identities: AssociatedIdentities | None
    public_identity: list[str]
    deregistration_reason: DeregistrationReason | None
    rtr_flags: int | None
    repeated = _LISTS | {"public_identity"}
    avp_def = (
        *_REQUEST_HEAD,
        _USER_NAME_REQUIRED,
        _ASSOCIATED_IDENTITIES,
        _PUBLIC_IDENTITY,
        cx_row("deregistration_reason", 615, is_required=True, type_class=DeregistrationReason),
        cx_row("rtr_flags", 659, is_mandatory=False),
        *ROUTE,
    )


class RegistrationTerminationAnswer(CxAnswer):
    """RTA (TS 29.229 §6.1.10)."""

    code = Command.REGISTRATION_TERMINATION
    associated_identities: AssociatedIdentities | None
    avp_def = (*_ANSWER_HEAD, _ASSOCIATED_IDENTITIES, *_ANSWER_TAIL)


class PushProfileRequest(CxRequest):
    """PPR (TS 29.229 §6.1.11): the HSS replaces profile data."""

    code = Command.PUSH_PROFILE
    user_name: str | None
    user_data: bytes | None
    charging_information: ChargingInformation | None
    sip_auth_data_item: SipAuthDataItem | None
    avp_def = (
        *_REQUEST_HEAD,
        _USER_NAME_REQUIRED,
        _USER_DATA,
        _CHARGING_INFORMATION,
        _AUTH_DATA_ITEM,
        *ROUTE,
    )


class PushProfileAnswer(CxAnswer):
    """PPA (TS 29.229 §6.1.12)."""

    code = Command.PUSH_PROFILE
    avp_def = (*_ANSWER_HEAD, *_ANSWER_TAIL)


CX = application(
    "Cx",
    APPLICATION_CX,
    VENDOR_3GPP,
    (UserAuthorizationRequest, UserAuthorizationAnswer),
    (ServerAssignmentRequest, ServerAssignmentAnswer),
    (LocationInfoRequest, LocationInfoAnswer),
    (MultimediaAuthRequest, MultimediaAuthAnswer),
    (RegistrationTerminationRequest, RegistrationTerminationAnswer),
    (PushProfileRequest, PushProfileAnswer),
)
"""The Cx application: hand it to a Peer."""
