"""The filter of captures, run by the rules of classic BPF (linux/filter.h)."""

from __future__ import annotations

import ipaddress
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imsbench.host.packetfilter import address_filter

RANGES = {4: ("198.18.0.9", "198.18.0.12"), 6: ("2001:2:0:1::9", "2001:2:0:1::12")}
FAR = {4: "198.19.0.10", 6: "2001:2:0:2::10"}
ETHERTYPES = {4: 0x0800, 6: 0x86DD}


def run(program: bytes, packet: bytes, ethertype: int) -> bool:
    """Whether the program keeps the packet."""
    code: list[tuple[int, int, int, int]] = [*struct.iter_unpack("=HBBI", program)]
    accumulator = position = 0
    while True:
        kind, true, false, value = code[position]
        position += 1
        if kind == 0x20 and value == 0xFFFFF000:
            accumulator = ethertype
        elif kind == 0x20:
            if value + 4 > len(packet):
                return False
            (accumulator,) = struct.unpack_from("!I", packet, value)
        elif kind == 0x06:
            return value != 0
        else:
            holds = {
                0x15: accumulator == value,
                0x35: accumulator >= value,
                0x25: accumulator > value,
            }
            position += true if holds[kind] else false


def packet(source: str, destination: str) -> bytes:
    ends = ipaddress.ip_address(source).packed + ipaddress.ip_address(destination).packed
    return bytes(12) + ends if len(ends) == 8 else bytes(8) + ends


@pytest.mark.parametrize("version", [4, 6])
@given(offset=st.integers(-20, 20))
def test_both_directions_of_the_range_are_kept(version: int, offset: int) -> None:
    first, last = (ipaddress.ip_address(text) for text in RANGES[version])
    program = address_filter(str(first), str(last))
    address = first + offset
    wanted = int(first) <= int(address) <= int(last)
    for ends in ((str(address), FAR[version]), (FAR[version], str(address))):
        assert run(program, packet(*ends), ETHERTYPES[version]) is wanted


@given(address=st.ip_addresses(v=6))
def test_every_word_of_an_address_counts(address: ipaddress.IPv6Address) -> None:
    program = address_filter(str(address), str(address))
    assert run(program, packet(str(address), FAR[6]), ETHERTYPES[6])
    for bit in range(128):
        other = str(ipaddress.IPv6Address(int(address) ^ 1 << bit))
        assert not run(program, packet(other, FAR[6]), ETHERTYPES[6])


@pytest.mark.parametrize("version", [4, 6])
def test_other_protocols_and_stumps_are_not_kept(version: int) -> None:
    program = address_filter(*RANGES[version])
    whole = packet(RANGES[version][0], FAR[version])
    assert run(program, whole, ETHERTYPES[version])
    assert not run(program, whole, 0x0806)
    assert not run(program, whole, ETHERTYPES[10 - version])
    assert not run(program, whole[:12], ETHERTYPES[version])


@pytest.mark.parametrize(
    ("first", "last"),
    [("198.18.0.2", "198.18.0.1"), ("198.18.0.1", "2001:2::1"), ("2001:2::1", "2001:2::1:0:1")],
)
def test_what_is_no_range_is_refused(first: str, last: str) -> None:
    with pytest.raises(ValueError, match="no range"):
        address_filter(first, last)
