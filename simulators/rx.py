"""Rx between P-CSCF and PCRF (TS 29.214): commands, enumerations, result codes.

An AF session is named by its Session-Id: the P-CSCF keeps one per registration (its signalling) and one per
call leg, and gives each message of the session the same one. The PCRF addresses its own requests to the host
that the session's AAR came from.

    RX                                      the application, for a Peer
    AaRequest(media_component_description=[…], specific_action=[…], **framed("198.18.0.1"))
                                            AAR; without a session_id the Peer makes one: a new session
    SessionTerminationRequest(session_id=…, termination_cause=TerminationCause.LOGOUT)
    ReAuthRequest, AbortSessionRequest      the PCRF's own; .answer(…) is the answer of any of them
    experimental(RxResult.…)                the Experimental-Result of an answer
    succeeded(answer)                       whether an answer says yes

python-diameter defines these four command codes for other applications; here they override the library's.
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
    ORIGIN,
    ROUTE,
    VENDOR_3GPP,
    VENDOR_ETSI,
    DiameterMessage,
    ExperimentalResult,
    ProxyInfo,
    VendorSpecificApplicationId,
    application,
    experimental,
    succeeded,
)
from simulators.rxavps import (
    APPLICATION_RX,
    IP_CAN_3GPP_EPS,
    RAT_EUTRAN,
    AbortCause,
    AccessNetworkChargingIdentifier,
    Command,
    Flows,
    FlowStatus,
    FlowUsage,
    MediaComponentDescription,
    MediaSubComponent,
    MediaType,
    RxRequestType,
    RxResult,
    ServiceInfoStatus,
    SpecificAction,
    SubscriptionId,
    SubscriptionIdType,
    TerminationCause,
    codec_data,
    framed,
    read_framed,
    rx_row,
)

__all__ = [
    "APPLICATION_RX",
    "IP_CAN_3GPP_EPS",
    "RAT_EUTRAN",
    "RX",
    "AaAnswer",
    "AaRequest",
    "AbortCause",
    "AbortSessionAnswer",
    "AbortSessionRequest",
    "AccessNetworkChargingIdentifier",
    "Command",
    "FlowStatus",
    "FlowUsage",
    "Flows",
    "MediaComponentDescription",
    "MediaSubComponent",
    "MediaType",
    "ReAuthAnswer",
    "ReAuthRequest",
    "RxAnswer",
    "RxMessage",
    "RxRequest",
    "RxRequestType",
    "RxResult",
    "ServiceInfoStatus",
    "SessionTerminationAnswer",
    "SessionTerminationRequest",
    "SpecificAction",
    "SubscriptionId",
    "SubscriptionIdType",
    "TerminationCause",
    "codec_data",
    "experimental",
    "framed",
    "read_framed",
    "succeeded",
]

_HEAD = (AvpGenDef("session_id", 263, is_required=True),)
_APPLICATION = AvpGenDef("auth_application_id", 258)
_REQUEST_HEAD = (
    *_HEAD,
    _APPLICATION._replace(is_required=True),
    *ORIGIN,
    AvpGenDef("destination_realm", 283, is_required=True),
)
_DESTINATION = AvpGenDef("destination_host", 293)
_REQUEST_TAIL = (
    # not of the grammar, but some P-CSCFs send it
    AvpGenDef("vendor_specific_application_id", 260, type_class=VendorSpecificApplicationId),
    AvpGenDef("origin_state_id", 278),
    *ROUTE,
)
_ANSWER_HEAD = (
    *_HEAD,
    _APPLICATION,
    *ORIGIN,
    AvpGenDef("result_code", 268),
    AvpGenDef("experimental_result", 297, type_class=ExperimentalResult),
)
_ANSWER_TAIL = (*FAULT, AvpGenDef("origin_state_id", 278), *ROUTE)
_LISTS = frozenset({"proxy_info", "route_record"})
_MEDIA = rx_row("media_component_description", 517, type_class=MediaComponentDescription)
_SPECIFIC_ACTION = rx_row("specific_action", 513)
_FLOWS = rx_row("flows", 510, type_class=Flows)
_SUBSCRIPTION_ID = AvpGenDef("subscription_id", 443, type_class=SubscriptionId)
_SERVICE_URN = rx_row("service_urn", 525)
_ABORT_CAUSE = rx_row("abort_cause", 500)
_ACCESS_NETWORK = (
    rx_row("access_network_charging_identifier", 502, type_class=AccessNetworkChargingIdentifier),
    rx_row("access_network_charging_address", 501),
    rx_row("ip_can_type", 1027),
    rx_row("rat_type", 1032),
)
_FRAMED = (AvpGenDef("framed_ip_address", 8), AvpGenDef("framed_ipv6_prefix", 97))


class RxMessage(DiameterMessage):
    """What all Rx messages carry: the application; the session is stateful, so no Auth-Session-State."""

    application = APPLICATION_RX
    proxiable = True
    auth_application_id: int | None
    origin_state_id: int | None
    proxy_info: list[ProxyInfo]
    route_record: list[bytes]

    def __init__(
        self, header: MessageHeader | None = None, avps: list[Avp] | None = None, **values: Any
    ) -> None:
        super().__init__(header, avps, **values)
        if not self.header.length_header:  # made here, not read from the network
            self.auth_application_id = APPLICATION_RX


class RxRequest(RxMessage):
    """A Rx request."""

    is_request = True
    repeated = _LISTS
    vendor_specific_application_id: VendorSpecificApplicationId | None


class RxAnswer(RxMessage):
    """A Rx answer: Result-Code or Experimental-Result, never both."""

    repeated = _LISTS | {"failed_avp"}


class AaRequest(RxRequest):
    """AAR: the P-CSCF opens or changes an AF session."""

    code = Command.AA
    af_application_identifier: bytes | None
    media_component_description: list[MediaComponentDescription]
    service_info_status: ServiceInfoStatus | None
    af_charging_identifier: bytes | None
    sip_forking_indication: int | None
    specific_action: list[int]
    """Numbers, not SpecificAction: void ones are on the air and harm nobody."""
    subscription_id: list[SubscriptionId]
    reservation_priority: int | None
    framed_ip_address: bytes | None
    framed_ipv6_prefix: bytes | None
    called_station_id: str | None
    service_urn: bytes | None
    rx_request_type: RxRequestType | None
    required_access_info: list[int]
    authorization_lifetime: int | None
    auth_grace_period: int | None
    session_timeout: int | None
    repeated = _LISTS | {
        "media_component_description",
        "specific_action",
        "subscription_id",
        "required_access_info",
    }
    enums: ClassVar[Mapping[str, type[IntEnum]]] = {
        "service_info_status": ServiceInfoStatus,
        "rx_request_type": RxRequestType,
    }
    avp_def = (
        *_REQUEST_HEAD,
        _DESTINATION,
        rx_row("af_application_identifier", 504),
        _MEDIA,
        rx_row("service_info_status", 527),
        rx_row("af_charging_identifier", 505),
        rx_row("sip_forking_indication", 523),
        _SPECIFIC_ACTION,
        _SUBSCRIPTION_ID,
        AvpGenDef("reservation_priority", 458, VENDOR_ETSI),
        *_FRAMED,
        AvpGenDef("called_station_id", 30),
        _SERVICE_URN,
        rx_row("rx_request_type", 533),
        rx_row("required_access_info", 536),
        AvpGenDef("authorization_lifetime", 291),
        AvpGenDef("auth_grace_period", 276),
        AvpGenDef("session_timeout", 27),
        *_REQUEST_TAIL,
    )


class AaAnswer(RxAnswer):
    """AAA."""

    code = Command.AA
    access_network_charging_identifier: list[AccessNetworkChargingIdentifier]
    access_network_charging_address: str | None
    ip_can_type: int | None
    rat_type: int | None
    flows: list[Flows]
    authorization_lifetime: int | None
    auth_grace_period: int | None
    session_timeout: int | None
    repeated = _LISTS | {"failed_avp", "access_network_charging_identifier", "flows"}
    avp_def = (
        *_ANSWER_HEAD,
        *_ACCESS_NETWORK,
        _FLOWS,
        AvpGenDef("authorization_lifetime", 291),
        AvpGenDef("auth_grace_period", 276),
        AvpGenDef("session_timeout", 27),
        *_ANSWER_TAIL,
    )


class ReAuthRequest(RxRequest):
    """RAR: the PCRF reports what the AF subscribed to."""

    code = Command.RE_AUTH
    specific_action: list[int]
    flows: list[Flows]
    subscription_id: list[SubscriptionId]
    abort_cause: int | None
    access_network_charging_identifier: list[AccessNetworkChargingIdentifier]
    access_network_charging_address: str | None
    ip_can_type: int | None
    rat_type: int | None
    repeated = _LISTS | {
        "specific_action",
        "flows",
        "subscription_id",
        "access_network_charging_identifier",
    }
    avp_def = (
        *_REQUEST_HEAD,
        _DESTINATION._replace(is_required=True),
        _SPECIFIC_ACTION._replace(is_required=True),
        *_ACCESS_NETWORK,
        _FLOWS,
        _SUBSCRIPTION_ID,
        _ABORT_CAUSE,
        *_REQUEST_TAIL,
    )


class ReAuthAnswer(RxAnswer):
    """RAA."""

    code = Command.RE_AUTH
    media_component_description: list[MediaComponentDescription]
    service_urn: bytes | None
    repeated = _LISTS | {"failed_avp", "media_component_description"}
    avp_def = (*_ANSWER_HEAD, _MEDIA, _SERVICE_URN, *_ANSWER_TAIL)


class SessionTerminationRequest(RxRequest):
    """STR: the P-CSCF ends an AF session."""

    code = Command.SESSION_TERMINATION
    termination_cause: int | None
    """A number, not TerminationCause: IANA goes on registering."""
    avp_def = (
        *_REQUEST_HEAD,
        AvpGenDef("termination_cause", 295, is_required=True),
        _DESTINATION,
        *_REQUEST_TAIL,
    )


class SessionTerminationAnswer(RxAnswer):
    """STA."""

    code = Command.SESSION_TERMINATION
    avp_def = (*_ANSWER_HEAD, *_ANSWER_TAIL)


class AbortSessionRequest(RxRequest):
    """ASR: the PCRF wants an AF session ended; the AF answers, releases the call and sends an STR."""

    code = Command.ABORT_SESSION
    abort_cause: int | None
    avp_def = (
        *_REQUEST_HEAD,
        _DESTINATION._replace(is_required=True),
        _ABORT_CAUSE._replace(is_required=True),
        *_REQUEST_TAIL,
    )


class AbortSessionAnswer(RxAnswer):
    """ASA."""

    code = Command.ABORT_SESSION
    avp_def = (*_ANSWER_HEAD, *_ANSWER_TAIL)


RX = application(
    "Rx",
    APPLICATION_RX,
    VENDOR_3GPP,
    (AaRequest, AaAnswer),
    (ReAuthRequest, ReAuthAnswer),
    (SessionTerminationRequest, SessionTerminationAnswer),
    (AbortSessionRequest, AbortSessionAnswer),
)
"""The Rx application: hand it to a Peer."""
