"""SDP offers and answers of a voice call, with preconditions (RFC 4566, RFC 3264, RFC 3312, IR.92).

Attributes are kept as text: what is understood is read from them, everything else stays as it came.
"local" and "remote" of a quality-of-service line are its sender's point of view, so an answer swaps
them (RFC 3312 §5.1, segmented status).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

Direction = Literal["none", "send", "recv", "sendrecv"]
_DIRECTIONS: dict[str, Direction] = {
    "none": "none", "send": "send", "recv": "recv", "sendrecv": "sendrecv",
}  # fmt: skip

_MEDIA_DIRECTIONS = ("sendrecv", "sendonly", "recvonly", "inactive")

MAX_BYTES = 65_536
_AMR = (
    ("116", "AMR-WB/16000/1", "mode-change-capability=2;max-red=220"),
    ("107", "AMR-WB/16000/1", "octet-align=1;mode-change-capability=2;max-red=220"),
    ("118", "AMR/8000/1", "mode-change-capability=2;max-red=220"),
    ("96", "AMR/8000/1", "octet-align=1;mode-change-capability=2;max-red=220"),
    ("111", "telephone-event/16000", "0-15"),
    ("110", "telephone-event/8000", "0-15"),
)
"""Payload type, encoding, format parameters of the offer (RFC 4867, RFC 4733)."""
_BANDWIDTH = ("AS:49", "RS:600", "RR:2000")


class SdpError(ValueError):
    """What should be a session description is none; the text says why."""


@dataclass(slots=True)
class Qos:
    """Status of the resources of one stream (RFC 3312 §4), from its sender's point of view."""

    curr_local: Direction = "none"
    """Reserved at the sender's own access."""
    curr_remote: Direction = "none"
    """Reserved at the receiver's."""
    des_local: str = "mandatory sendrecv"
    """Strength and direction desired at the sender's access."""
    des_remote: str = "optional sendrecv"
    """Strength and direction desired at the receiver's."""
    conf_remote: str = ""
    """Direction whose reservation the sender wants confirmed; empty: none."""

    def lines(self) -> list[str]:
        """Its attribute values, in the order of RFC 3312."""
        lines = [
            f"curr:qos local {self.curr_local}",
            f"curr:qos remote {self.curr_remote}",
            f"des:qos {_strength_first(self.des_local, 'local')}",
            f"des:qos {_strength_first(self.des_remote, 'remote')}",
        ]
        return [*lines, f"conf:qos remote {self.conf_remote}"] if self.conf_remote else lines


@dataclass(slots=True)
class Media:
    """One m= section (RFC 4566 §5.14)."""

    kind: str
    """"audio" …"""
    port: int
    """0: refused."""
    protocol: str
    """"RTP/AVP"."""
    formats: tuple[str, ...]
    """Payload types, most preferred first."""
    bandwidth: list[str] = field(default_factory=list)
    """Values of b= lines."""
    attributes: list[str] = field(default_factory=list)
    """Values of a= lines, in order."""
    address: str = ""
    """Of its own c= line; empty: the session's."""

    @property
    def direction(self) -> str:
        """sendrecv, sendonly, recvonly or inactive (RFC 4566 §6)."""
        return _direction_of(self.attributes) or "sendrecv"

    @property
    def qos(self) -> Qos | None:
        """Its precondition status, or None without any (RFC 3312)."""
        return _read_qos(self.attributes)


@dataclass(slots=True)
class Sdp:
    """One session description."""

    session_id: str
    """Of the o= line."""
    version: int
    """Of the o= line: one more for each new description of a side (RFC 3264 §8)."""
    address: str
    """Of the c= line."""
    media: list[Media]
    """Its streams."""
    attributes: list[str] = field(default_factory=list)
    """Values of a= lines of the session."""
    bandwidth: list[str] = field(default_factory=list)
    """Values of b= lines of the session."""

    @property
    def qos(self) -> Qos | None:
        """Precondition status of the first stream that has one (RFC 3312)."""
        return next((media.qos for media in self.media if media.qos is not None), None)


def parse_sdp(data: bytes) -> Sdp:
    """A session description (RFC 4566 §5); SdpError if it is none, or over 64 KiB."""
    if len(data) > MAX_BYTES:
        raise SdpError("over 64 KiB")
    sdp = Sdp("", 0, "", [])
    text = data.decode("utf-8", "replace").replace("\r\n", "\n")
    lines = [line for line in text.split("\n") if line]
    if not lines or lines[0] != "v=0":
        raise SdpError("does not begin with v=0")
    seen_origin = False
    for line in lines[1:]:
        if line[1:2] != "=":
            raise SdpError(f"not a line of SDP: {line[:40]!r}")
        kind, value = line[0], line[2:]
        if kind == "o":
            sdp.session_id, sdp.version = _parse_origin(value)
            seen_origin = True
        elif kind == "c":
            _take_connection(sdp, value)
        elif kind == "m":
            sdp.media.append(_parse_media(value))
        elif kind == "b":
            (sdp.media[-1].bandwidth if sdp.media else sdp.bandwidth).append(value)
        elif kind == "a":
            (sdp.media[-1].attributes if sdp.media else sdp.attributes).append(value)
    if not seen_origin:
        raise SdpError("no o= line")
    if not sdp.address and not all(media.address for media in sdp.media):
        raise SdpError("no c= line")
    return sdp


def serialize_sdp(sdp: Sdp) -> bytes:
    """The bytes of a description (RFC 4566 §5)."""
    family = "IP6" if ":" in sdp.address else "IP4"
    lines = [
        "v=0",
        f"o=- {sdp.session_id} {sdp.version} IN {family} {sdp.address}",
        "s=-",
        f"c=IN {family} {sdp.address}",
        *(f"b={value}" for value in sdp.bandwidth),
        "t=0 0",
    ]
    lines += [f"a={value}" for value in sdp.attributes]
    for media in sdp.media:
        formats = " ".join(media.formats)
        lines.append(f"m={media.kind} {media.port} {media.protocol} {formats}")
        if media.address:
            own = "IP6" if ":" in media.address else "IP4"
            lines.append(f"c=IN {own} {media.address}")
        lines += [f"b={value}" for value in media.bandwidth]
        lines += [f"a={value}" for value in media.attributes]
    return ("\r\n".join(lines) + "\r\n").encode()


def make_offer(
    address: str, port: int, session_id: str, *, preconditions: bool, direction: str = "sendrecv"
) -> Sdp:
    """The offer of an INVITE (IR.92, standards as of RFC 4867): AMR-WB, AMR, telephone events.

    With preconditions nothing is reserved yet (RFC 3312 §5.1).
    """
    attributes: list[str] = []
    for payload, encoding, parameters in _AMR:
        attributes += [f"rtpmap:{payload} {encoding}", f"fmtp:{payload} {parameters}"]
    attributes += ["ptime:20", "maxptime:240", direction]
    if preconditions:
        attributes += Qos().lines()
    formats = tuple(payload for payload, _, _ in _AMR)
    media = Media("audio", port, "RTP/AVP", formats, list(_BANDWIDTH), attributes)
    return Sdp(session_id, 1, address, [media])


def make_answer(offer: Sdp, address: str, port: int, session_id: str, version: int) -> Sdp:
    """The answer to an offer (RFC 3264 §6): its first codec and the events of that clock.

    Other streams are refused with port 0. The status of resources is swapped: what is mandatory at
    the offerer's access is so here, and its reservation is to be confirmed (RFC 3312 §5.1.2).
    SdpError if no stream is audio.
    """
    inherited = _direction_of(offer.attributes)
    answered = [_answer_media(media, port, inherited) for media in offer.media]
    if not any(media.port for media in answered):
        raise SdpError("no audio stream to answer")
    return Sdp(session_id, version, address, answered)


def answer_within(local: Sdp, offer: Sdp, port: int) -> Sdp:
    """The answer to an offer within a session, where ``local`` was this side's last (RFC 3264 §8).

    As to a first offer, line by line; what was reserved then stays so (RFC 3312 §5.1). SdpError if no
    stream is audio.
    """
    answer = make_answer(offer, local.address, port, local.session_id, local.version)
    asked, qos = offer.qos, None
    if asked is not None and local.qos is not None:
        qos = Qos("sendrecv", asked.curr_local, "mandatory sendrecv", "mandatory sendrecv")
    return with_status(answer, qos)


def with_status(sdp: Sdp, qos: Qos | None, *, direction: str = "") -> Sdp:
    """The next description of the same side: one version more, with this status (RFC 3264 §8)."""
    streams = []
    for media in sdp.media:
        kept = [v for v in media.attributes if not v.startswith(("curr:", "des:", "conf:"))]
        if direction:
            kept = [v for v in kept if v not in _MEDIA_DIRECTIONS]
            kept.append(direction)
        if qos is not None and media.port:
            kept += qos.lines()
        streams.append(
            Media(
                media.kind,
                media.port,
                media.protocol,
                media.formats,
                media.bandwidth,
                kept,
                media.address,
            )
        )
    return replace(sdp, version=sdp.version + 1, media=streams, attributes=list(sdp.attributes))


def narrowed(offer: Sdp, answer: Sdp) -> Sdp:
    """An offer with only those formats that its answer has taken (RFC 3264 §8.3.2); same version."""
    streams = []
    for asked, given in zip(offer.media, answer.media, strict=False):
        dropped = {f for f in asked.formats if f not in given.formats} if given.port else set()
        marks = tuple(f"{what}:{payload} " for payload in dropped for what in ("rtpmap", "fmtp"))
        streams.append(
            Media(
                asked.kind,
                asked.port,
                asked.protocol,
                tuple(payload for payload in asked.formats if payload not in dropped),
                asked.bandwidth,
                [value for value in asked.attributes if not value.startswith(marks)],
                asked.address,
            )
        )
    streams += offer.media[len(streams) :]
    return replace(offer, media=streams)


def fits(offer: Sdp, answer: Sdp) -> str:
    """Why an answer is none to this offer (RFC 3264 §6); "" if it is one."""
    if len(answer.media) != len(offer.media):
        return f"{len(answer.media)} streams for {len(offer.media)} offered"
    for asked, given in zip(offer.media, answer.media, strict=True):
        if given.kind != asked.kind or given.protocol != asked.protocol:
            return f"m={given.kind} {given.protocol} for m={asked.kind} {asked.protocol}"
        if given.port and not set(given.formats) <= set(asked.formats):
            return f"formats {' '.join(given.formats)} were not all offered"
    if not any(media.port for media in answer.media):
        return "every stream is refused"
    return ""


def same_session(sent: Sdp, received: Sdp) -> bool:
    """Whether what arrived is what was sent (RFC 3264 §5): address, ports, formats, bandwidth,
    direction, status.
    """
    return _negotiated(sent) == _negotiated(received)


# private


def _direction_of(attributes: list[str]) -> str:
    """The first direction among these attributes (RFC 4566 §6); empty: none."""
    return next((value for value in attributes if value in _MEDIA_DIRECTIONS), "")


def _negotiated(sdp: Sdp) -> tuple[object, ...]:
    """What both ends must see alike; a direction of the session is that of its streams."""
    streams = [
        (
            media.kind,
            media.port,
            media.formats,
            media.address or sdp.address,
            sorted(media.bandwidth),
            _direction_of(media.attributes) or _direction_of(sdp.attributes) or "sendrecv",
            media.qos,
        )
        for media in sdp.media
    ]
    return sdp.session_id, sdp.version, sorted(sdp.bandwidth), streams


def _parse_origin(value: str) -> tuple[str, int]:
    words = value.split(" ")
    if len(words) != 6:
        raise SdpError(f"bad o= line: {value[:60]!r}")
    version = words[2]
    if not version.isascii() or not version.isdigit() or len(version) > 20:
        raise SdpError(f"bad version in the o= line: {version[:30]!r}")
    if not words[1]:
        raise SdpError(f"no session id in the o= line: {value[:60]!r}")
    return words[1], int(version)


def _take_connection(sdp: Sdp, value: str) -> None:
    words = value.split(" ")
    if len(words) != 3 or words[0] != "IN" or words[1] not in ("IP4", "IP6"):
        raise SdpError(f"bad c= line: {value[:60]!r}")
    address = words[2].partition("/")[0]
    if not address or (words[1] == "IP4" and ":" in address):
        raise SdpError(f"bad address in the c= line: {value[:60]!r}")
    if sdp.media:
        sdp.media[-1].address = address
    else:
        sdp.address = address


def _parse_media(value: str) -> Media:
    words = value.split(" ")
    port = words[1].partition("/")[0] if len(words) > 3 else ""
    formats = tuple(word for word in words[3:] if word)
    if not port.isascii() or not port.isdigit() or len(port) > 5 or int(port) > 65535:
        raise SdpError(f"bad m= line: {value[:60]!r}")
    if not words[0] or not words[2] or not formats:
        raise SdpError(f"m= line without a type, protocol or format: {value[:60]!r}")
    return Media(words[0], int(port), words[2], formats)


def _answer_media(media: Media, port: int, inherited: str) -> Media:
    """inherited: the direction of the session, for a stream without its own (RFC 4566 §6)."""
    if media.kind != "audio" or not media.port:
        return Media(media.kind, 0, media.protocol, media.formats)
    encodings = _encodings(media)
    codec = media.formats[0]
    clock = encodings.get(codec, ("", "8000"))[1]  # a payload type without rtpmap is a static one
    wanted = ("telephone-event", clock)
    events = [payload for payload in media.formats[1:] if encodings.get(payload) == wanted][:1]
    formats = (codec, *events)
    marks = tuple(f"{what}:{payload} " for payload in formats for what in ("rtpmap", "fmtp"))
    attributes = [v for v in media.attributes if v.startswith(marks)]
    attributes += [v for v in media.attributes if v.startswith(("ptime:", "maxptime:"))]
    mirrored = {"sendonly": "recvonly", "recvonly": "sendonly"}
    direction = _direction_of(media.attributes) or inherited or "sendrecv"
    attributes.append(mirrored.get(direction, direction))
    offered = media.qos
    if offered is not None:
        answered = Qos(
            curr_local="none",
            curr_remote=offered.curr_local,
            des_local="mandatory sendrecv",
            des_remote="mandatory sendrecv",
            conf_remote="" if offered.curr_local == "sendrecv" else "sendrecv",
        )
        attributes += answered.lines()
    return Media("audio", port, media.protocol, formats, media.bandwidth, attributes)


def _encodings(media: Media) -> dict[str, tuple[str, str]]:
    """Encoding name and clock rate of each payload type that has them (RFC 4566 §6, rtpmap)."""
    found = {}
    for value in media.attributes:
        if value.startswith("rtpmap:"):
            payload, _, encoding = value[7:].partition(" ")
            name, _, rest = encoding.partition("/")
            found[payload] = name, rest.partition("/")[0]
    return found


def _read_qos(attributes: list[str]) -> Qos | None:
    qos = Qos(des_local="none", des_remote="none")
    found = False
    for value in attributes:
        words = value.split(" ")
        if words[0] == "curr:qos" and len(words) == 3 and words[2] in _DIRECTIONS:
            found = True
            if words[1] == "local":
                qos.curr_local = _DIRECTIONS[words[2]]
            elif words[1] == "remote":
                qos.curr_remote = _DIRECTIONS[words[2]]
        elif words[0] == "des:qos" and len(words) == 4:
            found = True
            if words[2] == "local":
                qos.des_local = f"{words[1]} {words[3]}"
            elif words[2] == "remote":
                qos.des_remote = f"{words[1]} {words[3]}"
        elif words[0] == "conf:qos" and len(words) == 3:
            qos.conf_remote = words[2]
    return qos if found else None


def _strength_first(desired: str, where: str) -> str:
    """ "mandatory sendrecv" at "local" -> "mandatory local sendrecv" (RFC 3312 §4)."""
    strength, _, direction = desired.partition(" ")
    return f"{strength} {where} {direction or 'none'}"
