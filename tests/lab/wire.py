"""IP packets as a sniffer sees them, of both versions, without extension headers or options."""

from __future__ import annotations

import ipaddress
import struct
from dataclasses import dataclass

from tests.host.hosts import packed, text

TCP, UDP, ESP = 6, 17, 50


@dataclass(frozen=True, slots=True)
class Packet:
    """What matters of one packet."""

    data: bytes
    """All of it, from the IP header on."""
    protocol: int
    """What follows the IP header."""
    source: str
    """Its source address."""
    destination: str
    """Its destination address."""
    payload: bytes
    """What follows the IP header."""

    @property
    def spi(self) -> int:
        """SPI of an ESP packet."""
        return int.from_bytes(self.payload[:4], "big")

    @property
    def ports(self) -> tuple[int, int]:
        """Source and destination port of a TCP or UDP packet."""
        source, destination = struct.unpack_from("!HH", self.payload)
        return source, destination

    def __str__(self) -> str:
        if self.protocol in (TCP, UDP):
            source, destination = self.ports
            return f"{self.source}:{source} > {self.destination}:{destination} ({self.protocol})"
        return f"{self.source} > {self.destination} ({self.protocol})"


def parse(frame: bytes) -> Packet:
    """The packet of a frame without its link header."""
    if frame[0] >> 4 == 6:
        size = 40 + int.from_bytes(frame[4:6], "big")
        ends = frame[8:24], frame[24:40]
        return Packet(frame[:size], frame[6], text(ends[0]), text(ends[1]), frame[40:size])
    size = int.from_bytes(frame[2:4], "big")
    ends = frame[12:16], frame[16:20]
    return Packet(frame[:size], frame[9], text(ends[0]), text(ends[1]), frame[20:size])


def parse_all(frames: list[bytes]) -> list[Packet]:
    """The IP packets among the frames of a link (there is ARP, too)."""
    return [parse(frame) for frame in frames if frame[0] in (0x45, *range(0x60, 0x70))]


def with_sequence(packet: Packet, sequence: int) -> bytes:
    """An ESP packet whose sequence number was changed on the way: its ICV is wrong."""
    start = len(packet.data) - len(packet.payload) + 4
    return packet.data[:start] + sequence.to_bytes(4, "big") + packet.data[start + 4 :]


def syn(source: str, source_port: int, destination: str, destination_port: int) -> bytes:
    """A TCP connection's first packet, in clear, with its IP header."""
    segment = struct.pack(
        "!HHIIBBHHH", source_port, destination_port, 1, 0, 5 << 4, 0x02, 65535, 0, 0
    )
    ends = packed(source) + packed(destination)
    check = checksum(ends + struct.pack("!II", len(segment), TCP) + segment)
    segment = segment[:16] + struct.pack("!H", check) + segment[18:]
    if ipaddress.ip_address(source).version == 6:
        return b"\x60\0\0\0" + struct.pack("!HBB", len(segment), TCP, 64) + ends + segment
    return b"\x45\0\0\0\0\0\0\0\x40\x06\0\0" + ends + segment  # the kernel fills in the rest


def checksum(data: bytes) -> int:
    """The Internet checksum (RFC 1071) of an even number of bytes."""
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
