"""From an SDP offer and its answer to the service information of Rx (TS 29.213 §6.2, TS 29.214 §4.4).

One Media-Component-Description for each m= line, as one of the two phones has it: "uplink" is what this
phone sends. An AF session has one leg only, so both legs get their own.
"""

from __future__ import annotations

from imsbench.protocol.sdp import Media, Sdp, SdpError, parse_sdp
from simulators.ipfilter import permit
from simulators.rx import (
    FlowStatus,
    FlowUsage,
    MediaComponentDescription,
    MediaSubComponent,
    MediaType,
    codec_data,
)

_KINDS = {
    "audio": MediaType.AUDIO,
    "video": MediaType.VIDEO,
    "application": MediaType.APPLICATION,
    "text": MediaType.TEXT,
    "message": MediaType.MESSAGE,
    "control": MediaType.CONTROL,
    "data": MediaType.DATA,
}
_STATUS = {
    "sendrecv": FlowStatus.ENABLED,
    "sendonly": FlowStatus.ENABLED_UPLINK,
    "recvonly": FlowStatus.ENABLED_DOWNLINK,
    "inactive": FlowStatus.DISABLED,
}
_MIRRORED = {"sendonly": "recvonly", "recvonly": "sendonly"}


def describe(offer: bytes, answer: bytes, *, of_offerer: bool) -> list[MediaComponentDescription]:
    """The media of one phone, the offering or the answering one; SdpError if it cannot be read."""
    asked, given = parse_sdp(offer), parse_sdp(answer)
    if len(asked.media) != len(given.media):
        raise SdpError("the answer has not the streams of the offer")
    own, other = (asked, given) if of_offerer else (given, asked)
    found = []
    for index in range(len(given.media)):
        if not given.media[index].port:  # refused, or taken out (RFC 3264 §6, §8.2)
            found.append(MediaComponentDescription(index + 1, flow_status=FlowStatus.REMOVED))
        else:
            found.append(_component(index, own, other, given.media[index], of_offerer=of_offerer))
    return found


def signalling() -> MediaComponentDescription:
    """The signalling between phone and P-CSCF (TS 29.214 §4.4.5)."""
    flow = MediaSubComponent(flow_number=0, flow_usage=FlowUsage.AF_SIGNALLING)
    return MediaComponentDescription(0, [flow], media_type=MediaType.CONTROL)


def _component(
    index: int, own: Sdp, other: Sdp, answered: Media, *, of_offerer: bool
) -> MediaComponentDescription:
    mine, theirs = own.media[index], other.media[index]
    direction = answered.direction
    if of_offerer:
        direction = _MIRRORED.get(direction, direction)
    role, other_role = ("offer", "answer") if of_offerer else ("answer", "offer")
    return MediaComponentDescription(
        media_component_number=index + 1,
        media_sub_component=_flows(own, mine, other, theirs),
        media_type=_KINDS.get(mine.kind, MediaType.OTHER),
        # b= is what its sender receives at most (RFC 4566 §5.8), so the other one's is the uplink.
        max_requested_bandwidth_ul=_bandwidth(theirs, "AS", 1000),
        max_requested_bandwidth_dl=_bandwidth(mine, "AS", 1000),
        flow_status=_STATUS[direction],
        rs_bandwidth=_bandwidth(mine, "RS", 1),
        rr_bandwidth=_bandwidth(mine, "RR", 1),
        codec_data=[
            codec_data("uplink", role, _lines(mine)),
            codec_data("downlink", other_role, _lines(theirs)),
        ],
    )


def _flows(own: Sdp, mine: Media, other: Sdp, theirs: Media) -> list[MediaSubComponent]:
    """RTP, and RTCP on the next port (RFC 3550 §11), each in both directions."""
    here, there = mine.address or own.address, theirs.address or other.address
    usages = (FlowUsage.NO_INFORMATION, FlowUsage.RTCP)
    return [
        MediaSubComponent(
            flow_number=number + 1,
            flow_description=[
                permit("in", (here, mine.port + number), (there, theirs.port + number)),
                permit("out", (there, theirs.port + number), (here, mine.port + number)),
            ],
            flow_usage=usage,
        )
        for number, usage in enumerate(usages)
    ]


def _bandwidth(media: Media, kind: str, unit: int) -> int | None:
    """A bandwidth in bit/s, None where none is given (RFC 4566 §5.8, RFC 3556)."""
    for value in media.bandwidth:
        name, _, number = value.partition(":")
        if name == kind and number.isascii() and number.isdigit() and len(number) <= 9:
            return int(number) * unit
    return None


def _lines(media: Media) -> str:
    """Its m= section without the address, as Codec-Data wants it (TS 29.214 §5.3.7)."""
    first = f"m={media.kind} {media.port} {media.protocol} {' '.join(media.formats)}"
    bandwidth = [f"b={value}" for value in media.bandwidth]
    return "\n".join([first, *bandwidth, *(f"a={value}" for value in media.attributes)])
