"""IPFilterRules (RFC 6733 §4.3.1): what is one, what is none, and that nothing else is ever raised."""

from __future__ import annotations

import contextlib
import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulators.ipfilter import Direction, Endpoint, FilterError, FilterRule, parse_filter, permit


def test_a_filter_of_a_medium() -> None:
    rule = parse_filter(b"permit out 17 from 192.0.2.1 4000 to 198.18.0.7 5000")
    assert rule == FilterRule(
        action="permit",
        direction="out",
        protocol=17,
        source=Endpoint(ipaddress.ip_network("192.0.2.1"), ((4000, 4000),)),
        destination=Endpoint(ipaddress.ip_network("198.18.0.7"), ((5000, 5000),)),
    )
    assert rule.terminal is rule.destination


def test_the_terminal_is_the_source_of_what_comes_in() -> None:
    rule = parse_filter(b"permit in ip from 2001:2:0:1::7 to any")
    assert rule.protocol is None
    assert rule.terminal.network == ipaddress.ip_network("2001:2:0:1::7")
    assert rule.destination == Endpoint(None)


def test_everything_that_the_grammar_has() -> None:
    rule = parse_filter(b"deny in 6 from !10.1.2.3/8 1-5,7 to assigned setup frag")
    assert (rule.action, rule.protocol, rule.options) == ("deny", 6, ("setup", "frag"))
    assert rule.source == Endpoint(ipaddress.ip_network("10.0.0.0/8"), ((1, 5), (7, 7)), True)
    assert rule.destination == Endpoint(None, assigned=True)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "permit out 17 from 192.0.2.1",
        "permit out 17 from to 192.0.2.1 5 6",
        "permit out 17 from 192.0.2.1 5 to",
        "allow out 17 from 192.0.2.1 to 192.0.2.2",
        "permit up 17 from 192.0.2.1 to 192.0.2.2",
        "permit out 256 from 192.0.2.1 to 192.0.2.2",
        "permit out udp from 192.0.2.1 to 192.0.2.2",
        "permit out 17 from 192.0.2.256 to 192.0.2.2",
        "permit out 17 from 192.0.2.1/33 to 192.0.2.2",
        "permit out 17 from 192.0.2.1/255.255.255.0 to 192.0.2.2",
        "permit out 17 from 192.0.2.1 frag to 192.0.2.2",
        "permit out 17 from 192.0.2.1 65536 to 192.0.2.2",
        "permit out 17 from 192.0.2.1 9-3 to 192.0.2.2",
        "permit out 17 from 192.0.2.1 to 2001:db8::1",
        "permit out 17 from fe80::1%eth0 to 2001:db8::1",
        "permit out 17 from 192.0.2.1 to 192.0.2.2 " + "frag " * 200,
        "permit out 17 from 192.0.2.1 to 192.0.2.\u00b2",
    ],
)
def test_what_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(FilterError):
        parse_filter(text.encode())


@given(
    st.binary(max_size=80) | st.from_regex(r"permit (in|out) \S+ from \S+ .*to \S+").map(str.encode)
)
def test_nothing_else_is_raised(data: bytes) -> None:
    with contextlib.suppress(FilterError):
        parse_filter(data)


ADDRESSES = st.tuples(st.ip_addresses(v=4), st.ip_addresses(v=4)) | st.tuples(
    st.ip_addresses(v=6), st.ip_addresses(v=6)
)


@given(ADDRESSES, st.integers(0, 65535), st.integers(0, 65535), st.sampled_from(["in", "out"]))
def test_what_is_written_is_read(
    ends: tuple[ipaddress.IPv4Address, ipaddress.IPv4Address], low: int, high: int, way: str
) -> None:
    direction: Direction = "in" if way == "in" else "out"
    rule = parse_filter(permit(direction, (str(ends[0]), low), (str(ends[1]), high)))
    assert (rule.direction, rule.protocol) == (way, 17)
    assert rule.source == Endpoint(ipaddress.ip_network(ends[0]), ((low, low),))
    assert rule.destination == Endpoint(ipaddress.ip_network(ends[1]), ((high, high),))
