"""AVPs of Rx (TS 29.214): enumerations, result codes, groups, and the addresses of RFC 7155."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, ClassVar

from diameter.message.avp.generator import AvpGenDef

from simulators.base import VENDOR_3GPP
from simulators.codec import Group

APPLICATION_RX = 16777236


class Command(IntEnum):
    """Command codes (RFC 6733 §8, RFC 7155 §3.1), which Rx takes over."""

    RE_AUTH = 258
    AA = 265
    ABORT_SESSION = 274
    SESSION_TERMINATION = 275


class RxResult(IntEnum):
    """Experimental-Result-Code of vendor 10415 (TS 29.214)."""

    REQUESTED_SERVICE_TEMPORARILY_NOT_AUTHORIZED = 4261
    INVALID_SERVICE_INFORMATION = 5061
    FILTER_RESTRICTIONS = 5062
    REQUESTED_SERVICE_NOT_AUTHORIZED = 5063
    DUPLICATED_AF_SESSION = 5064
    IP_CAN_SESSION_NOT_AVAILABLE = 5065
    UNAUTHORIZED_NON_EMERGENCY_SESSION = 5066
    UNAUTHORIZED_SPONSORED_DATA_CONNECTIVITY = 5067
    TEMPORARY_NETWORK_FAILURE = 5068


class AbortCause(IntEnum):
    """Abort-Cause (500): why the PCRF ends a session, or tells that its bearer is gone."""

    BEARER_RELEASED = 0
    INSUFFICIENT_SERVER_RESOURCES = 1
    INSUFFICIENT_BEARER_RESOURCES = 2
    PS_TO_CS_HANDOVER = 3
    SPONSORED_DATA_CONNECTIVITY_DISALLOWED = 4


class SpecificAction(IntEnum):
    """Specific-Action (513): what an AF subscribes to, and what a RAR reports. 0 and 5 are void."""

    CHARGING_CORRELATION_EXCHANGE = 1
    INDICATION_OF_LOSS_OF_BEARER = 2
    INDICATION_OF_RECOVERY_OF_BEARER = 3
    INDICATION_OF_RELEASE_OF_BEARER = 4
    IP_CAN_CHANGE = 6
    INDICATION_OF_OUT_OF_CREDIT = 7
    INDICATION_OF_SUCCESSFUL_RESOURCES_ALLOCATION = 8
    INDICATION_OF_FAILED_RESOURCES_ALLOCATION = 9
    INDICATION_OF_LIMITED_PCC_DEPLOYMENT = 10
    USAGE_REPORT = 11
    ACCESS_NETWORK_INFO_REPORT = 12


class FlowStatus(IntEnum):
    """Flow-Status (511)."""

    ENABLED_UPLINK = 0
    ENABLED_DOWNLINK = 1
    ENABLED = 2
    DISABLED = 3
    REMOVED = 4


class FlowUsage(IntEnum):
    """Flow-Usage (512)."""

    NO_INFORMATION = 0
    RTCP = 1
    AF_SIGNALLING = 2


class MediaType(IntEnum):
    """Media-Type (520)."""

    AUDIO = 0
    VIDEO = 1
    DATA = 2
    APPLICATION = 3
    CONTROL = 4
    TEXT = 5
    MESSAGE = 6
    OTHER = -1
    """0xFFFFFFFF on the wire: an Enumerated is signed (RFC 6733 §4.3.1)."""


class ServiceInfoStatus(IntEnum):
    """Service-Info-Status (527)."""

    FINAL = 0
    PRELIMINARY = 1


class RxRequestType(IntEnum):
    """Rx-Request-Type (533)."""

    INITIAL_REQUEST = 0
    UPDATE_REQUEST = 1
    PCSCF_RESTORATION = 2


class SubscriptionIdType(IntEnum):
    """Subscription-Id-Type (450, RFC 8506 §8.47)."""

    END_USER_E164 = 0
    END_USER_IMSI = 1
    END_USER_SIP_URI = 2
    END_USER_NAI = 3
    END_USER_PRIVATE = 4


class TerminationCause(IntEnum):
    """Termination-Cause (295, RFC 3588 §8.15; RFC 6733 leaves the numbers to IANA)."""

    LOGOUT = 1
    SERVICE_NOT_PROVIDED = 2
    BAD_ANSWER = 3
    ADMINISTRATIVE = 4
    LINK_BROKEN = 5
    AUTH_EXPIRED = 6
    USER_MOVED = 7
    SESSION_TIMEOUT = 8


IP_CAN_3GPP_EPS = 5
"""IP-CAN-Type (1027) of LTE."""
RAT_EUTRAN = 1004
"""RAT-Type (1032) of LTE."""


def rx_row(attr: str, code: int, **options: Any) -> AvpGenDef:
    """A row for an AVP of vendor 10415."""
    return AvpGenDef(attr, code, VENDOR_3GPP, **options)


@dataclass(slots=True)
class MediaSubComponent(Group):
    """Media-Sub-Component (519): one IP flow, as a filter for each direction."""

    flow_number: int | None = None
    """Counted within its media component."""
    flow_description: list[bytes] = field(default_factory=list)
    """IPFilterRules (simulators.ipfilter), one for each direction."""
    flow_status: FlowStatus | None = None
    flow_usage: FlowUsage | None = None
    max_requested_bandwidth_ul: int | None = None
    """Bit/s; this and the next are given here only where they differ from the component's."""
    max_requested_bandwidth_dl: int | None = None

    repeated = frozenset({"flow_description"})
    enums: ClassVar[Mapping[str, type[IntEnum]]] = {
        "flow_status": FlowStatus,
        "flow_usage": FlowUsage,
    }
    avp_def = (
        rx_row("flow_number", 509, is_required=True),
        rx_row("flow_description", 507),
        rx_row("flow_status", 511),
        rx_row("flow_usage", 512),
        rx_row("max_requested_bandwidth_ul", 516),
        rx_row("max_requested_bandwidth_dl", 515),
    )


@dataclass(slots=True)
class MediaComponentDescription(Group):
    """Media-Component-Description (517): one m= line of the session, or 0 for its signalling."""

    media_component_number: int | None = None
    """Position of the m= line, from 1; 0: the signalling between phone and P-CSCF."""
    media_sub_component: list[MediaSubComponent] = field(default_factory=list)
    af_application_identifier: bytes | None = None
    media_type: MediaType | None = None
    max_requested_bandwidth_ul: int | None = None
    """Bit/s, phone to network."""
    max_requested_bandwidth_dl: int | None = None
    """Bit/s, network to phone."""
    flow_status: FlowStatus | None = None
    reservation_priority: int | None = None
    rs_bandwidth: int | None = None
    """Bit/s of RTCP senders (RFC 3556)."""
    rr_bandwidth: int | None = None
    """Bit/s of RTCP receivers (RFC 3556)."""
    codec_data: list[str] = field(default_factory=list)
    """"uplink" or "downlink", "offer" or "answer", then SDP lines: see codec_data()."""

    repeated = frozenset({"media_sub_component", "codec_data"})
    enums: ClassVar[Mapping[str, type[IntEnum]]] = {
        "media_type": MediaType,
        "flow_status": FlowStatus,
    }
    avp_def = (
        rx_row("media_component_number", 518, is_required=True),
        rx_row("media_sub_component", 519, type_class=MediaSubComponent),
        rx_row("af_application_identifier", 504),
        rx_row("media_type", 520),
        rx_row("max_requested_bandwidth_ul", 516),
        rx_row("max_requested_bandwidth_dl", 515),
        rx_row("flow_status", 511),
        AvpGenDef("reservation_priority", 458, 13019),
        rx_row("rs_bandwidth", 522),
        rx_row("rr_bandwidth", 521),
        rx_row("codec_data", 524),
    )


@dataclass(slots=True)
class Flows(Group):
    """Flows (510): flows of one media component; without flow numbers all of them."""

    media_component_number: int | None = None
    flow_number: list[int] = field(default_factory=list)

    repeated = frozenset({"flow_number"})
    avp_def = (
        rx_row("media_component_number", 518, is_required=True),
        rx_row("flow_number", 509),
    )


@dataclass(slots=True)
class AccessNetworkChargingIdentifier(Group):
    """Access-Network-Charging-Identifier (502): the access network's name of a charging record."""

    access_network_charging_identifier_value: bytes | None = None
    flows: list[Flows] = field(default_factory=list)

    repeated = frozenset({"flows"})
    avp_def = (
        rx_row("access_network_charging_identifier_value", 503, is_required=True),
        rx_row("flows", 510, type_class=Flows),
    )


@dataclass(slots=True)
class SubscriptionId(Group):
    """Subscription-Id (443, RFC 8506 §8.46): whose session it is."""

    subscription_id_type: SubscriptionIdType | None = None
    subscription_id_data: str | None = None

    enums: ClassVar[Mapping[str, type[IntEnum]]] = {"subscription_id_type": SubscriptionIdType}
    avp_def = (
        AvpGenDef("subscription_id_type", 450, is_required=True),
        AvpGenDef("subscription_id_data", 444, is_required=True),
    )


def codec_data(direction: str, role: str, sdp_lines: str) -> str:
    """A Codec-Data: direction "uplink" or "downlink", role "offer" or "answer", lines of the SDP."""
    return f"{direction}\n{role}\n" + "\n".join(sdp_lines.splitlines()) + "\n"


def framed(address: str) -> dict[str, Any]:
    """The attribute that names a phone by its address: Framed-IP-Address or Framed-IPv6-Prefix.

    ``AaRequest(**framed("2001:2:0:1::7"))``. An IPv6 address is its whole prefix, of 128 bits, since the
    phones of a worker share one of 64. ValueError if it is not an address.
    """
    one = ipaddress.ip_address(address)
    if one.version == 4:
        return {"framed_ip_address": one.packed}
    return {"framed_ipv6_prefix": bytes((0, 128)) + one.packed}


def read_framed(
    framed_ip_address: bytes | None, framed_ipv6_prefix: bytes | None
) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    """Where the phone is; None if neither is given, ValueError if it is no address or no prefix."""
    if framed_ip_address is not None:
        return ipaddress.IPv4Network(framed_ip_address)
    if framed_ipv6_prefix is None:
        return None
    # RFC 3162 §2.3: an octet of zeros, the length in bits, and as much of the prefix as there is
    if not 2 <= len(framed_ipv6_prefix) <= 18 or framed_ipv6_prefix[0]:
        raise ValueError("not a Framed-IPv6-Prefix")
    prefix = ipaddress.IPv6Address(framed_ipv6_prefix[2:].ljust(16, b"\0"))
    return ipaddress.ip_network((prefix, framed_ipv6_prefix[1]), strict=False)
