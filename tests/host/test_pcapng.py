"""pcapng blocks, read back by the format's own rules."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imsbench.host import pcapng

FILE = pcapng.section_header("imsbench 1.2") + pcapng.interface_description("ims0")
NOW_NS = 1_790_000_000_123_456_789


def blocks(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Type and body of each block; both lengths must agree, and end on four bytes."""
    while data:
        kind, size = struct.unpack_from("=II", data)
        assert size % 4 == 0
        assert struct.unpack_from("=I", data, size - 4) == (size,)
        yield kind, data[8 : size - 4]
        data = data[size:]


def options(data: bytes) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    while True:
        code, size = struct.unpack_from("=HH", data)
        if code == 0:
            assert (size, len(data)) == (0, 4)
            return found
        found[code] = data[4 : 4 + size]
        data = data[4 + size + -size % 4 :]


def test_a_file_begins_with_its_section_and_its_interface() -> None:
    (section, first), (interface, second) = blocks(FILE)
    assert (section, interface) == (0x0A0D0D0A, 1)
    assert struct.unpack_from("=IHHq", first) == (0x1A2B3C4D, 1, 0, -1)
    assert options(first[16:]) == {4: b"imsbench 1.2"}
    assert struct.unpack_from("=HHI", second) == (101, 0, 65535)
    assert options(second[8:]) == {2: b"ims0", 9: b"\x09"}


@given(packet=st.binary(max_size=70), at_ns=st.integers(0, 2**63), more=st.integers(0, 9))
def test_a_packet_is_kept_with_its_time_and_size(packet: bytes, at_ns: int, more: int) -> None:
    data = pcapng.enhanced_packet(at_ns, packet, len(packet) + more, outbound=False)
    ((kind, body),) = blocks(data)
    interface, high, low, kept, size = struct.unpack_from("=IIIII", body)
    assert (kind, interface, high << 32 | low) == (6, 0, at_ns)
    assert (kept, size, body[20 : 20 + kept]) == (len(packet), len(packet) + more, packet)


@pytest.mark.parametrize(("outbound", "flags"), [(False, 1), (True, 2)])
def test_a_packet_tells_its_direction(outbound: bool, flags: int) -> None:
    ((_, body),) = blocks(pcapng.enhanced_packet(NOW_NS, b"12345", 5, outbound=outbound))
    assert options(body[28:]) == {2: struct.pack("=I", flags)}


def test_a_file_ends_with_what_is_missing() -> None:
    ((kind, body),) = blocks(pcapng.interface_statistics(NOW_NS, 2**40, 7))
    assert kind == 5
    assert options(body[12:]) == {4: struct.pack("=Q", 2**40), 5: struct.pack("=Q", 7)}
