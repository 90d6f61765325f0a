"""Rx requests as a P-CSCF sends them: of a registration, and of a call leg."""

from __future__ import annotations

from typing import Any

from simulators.ipfilter import permit
from simulators.rx import (
    AaRequest,
    FlowStatus,
    FlowUsage,
    MediaComponentDescription,
    MediaSubComponent,
    MediaType,
    SessionTerminationRequest,
    SpecificAction,
    SubscriptionId,
    SubscriptionIdType,
    TerminationCause,
    codec_data,
    framed,
)

PHONE, OTHER = "198.18.0.7", "198.18.0.8"
LOSS = int(SpecificAction.INDICATION_OF_LOSS_OF_BEARER)
RELEASE = int(SpecificAction.INDICATION_OF_RELEASE_OF_BEARER)
ALLOCATED = int(SpecificAction.INDICATION_OF_SUCCESSFUL_RESOURCES_ALLOCATION)
ACCESS = int(SpecificAction.ACCESS_NETWORK_INFO_REPORT)
SDP = "m=audio 5000 RTP/AVP 97\nb=AS:49\na=rtpmap:97 AMR-WB/16000/1"


def filters(phone: str = PHONE, other: str = OTHER, shift: int = 0) -> list[bytes]:
    """Both directions of one flow."""
    ours, theirs = (phone, 5000 + shift), (other, 4000 + shift)
    return [permit("out", theirs, ours), permit("in", ours, theirs)]


def audio(number: int = 1, phone: str = PHONE, other: str = OTHER) -> MediaComponentDescription:
    """The medium of a call: RTP and RTCP."""
    return MediaComponentDescription(
        media_component_number=number,
        media_sub_component=[
            MediaSubComponent(1, filters(phone, other)),
            MediaSubComponent(2, filters(phone, other, 1), flow_usage=FlowUsage.RTCP),
        ],
        media_type=MediaType.AUDIO,
        max_requested_bandwidth_ul=49_000,
        max_requested_bandwidth_dl=49_000,
        flow_status=FlowStatus.ENABLED,
        rs_bandwidth=0,
        rr_bandwidth=2000,
        codec_data=[codec_data("uplink", "offer", SDP), codec_data("downlink", "answer", SDP)],
    )


def signalling() -> MediaComponentDescription:
    """The signalling of a registration."""
    flow = MediaSubComponent(0, flow_usage=FlowUsage.AF_SIGNALLING)
    return MediaComponentDescription(0, [flow], media_type=MediaType.CONTROL)


def aar(*media: MediaComponentDescription, **values: Any) -> AaRequest:
    """An AAR that a PCRF accepts; of a call's audio unless media are given."""
    complete: dict[str, Any] = {
        "session_id": "pcscf.home;1;1",
        "origin_host": b"pcscf.home",
        "origin_realm": b"home",
        "destination_realm": b"home",
        "af_application_identifier": b"IMS Services",
        "media_component_description": list(media) or [audio()],
        "specific_action": [LOSS, RELEASE],
        "subscription_id": [
            SubscriptionId(SubscriptionIdType.END_USER_SIP_URI, "sip:+15550000001@home")
        ],
    }
    return AaRequest(**complete | framed(PHONE) | values)


def termination(session_id: str = "pcscf.home;1;1", **values: Any) -> SessionTerminationRequest:
    """An STR."""
    complete: dict[str, Any] = {
        "session_id": session_id,
        "origin_host": b"pcscf.home",
        "origin_realm": b"home",
        "destination_realm": b"home",
        "termination_cause": TerminationCause.LOGOUT,
    }
    return SessionTerminationRequest(**complete | values)
