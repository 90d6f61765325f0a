"""User-space ESP between two namespaces: a phone's and a P-CSCF's."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

import pytest

from imsbench.host import addresses
from imsbench.protocol.esp import EspKeys, EspOut
from imsbench.protocol.secagree import MECHANISMS
from tests.host import hosts
from tests.host.pairs import (
    PORT_PC,
    PORT_PS,
    PORT_UC,
    PORT_US,
    Pair,
    grown,
    hang_up,
    pairs,
    ping,
    protocols,
    segment,
    wrapped,
)

pytestmark = [pytest.mark.net, pytest.mark.tun]

_EVERYBODY = {4: "0.0.0.0", 6: "::"}


@pytest.fixture(scope="module", params=[4, 6], ids=["ipv4", "ipv6"])
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    for pair in pairs(request.param, hosts.start_backend, hosts.start_backend):
        pair.phone.do(
            hosts.listen, "us-clear", pair.version, "ims0", _EVERYBODY[pair.version], PORT_US
        )
        pair.pcscf.do(hosts.listen, "ps-clear", pair.version, "w0", pair.pcscf_address, PORT_PS)
        yield pair


@pytest.mark.parametrize(("alg", "ealg"), MECHANISMS)
def test_four_sas_carry_tcp_both_ways_and_nothing_in_clear(pair: Pair, alg: str, ealg: str) -> None:
    sas = pair.sas(alg, ealg)
    pair.install(sas)
    pair.pcscf.do(hosts.take_frames)

    def act() -> None:
        ping(pair, sas)
        hang_up(pair)

    rise = grown(pair.phone, act)
    assert set(rise) == {"packets_out", "bytes_out", "packets_in", "bytes_in"}
    assert rise["bytes_out"] > 32_000
    assert rise["bytes_in"] > 24_000
    assert protocols(pair.pcscf.do(hosts.take_frames), sas.phone_address) == {50}
    pair.remove(sas)


def test_clear_segments_do_not_reach_protected_listeners(pair: Pair) -> None:
    sas = pair.sas()
    pair.install(sas)
    version, phone, pcscf = pair.version, pair.phone, pair.pcscf
    to = (sas.phone_address, PORT_US)
    source = (sas.pcscf_address, PORT_PC + 1)

    def dial() -> None:
        assert pcscf.do(hosts.connect, "clear", version, "w0", source, to) == "connected"

    assert grown(phone, dial) == {"clear_in": 2}  # its SYN and its ACK
    assert phone.do(hosts.accept, "us", "taken", 0.2) is None
    assert phone.do(hosts.accept, "us-clear", "counted") == source
    to, source = (sas.pcscf_address, PORT_PS), (sas.phone_address, 30000)
    assert phone.do(hosts.connect, "clear", version, "ims0", source, to) == "connected"
    assert pcscf.do(hosts.accept, "ps", "taken", 0.2) is None
    assert pcscf.do(hosts.accept, "ps-clear", "counted") == source
    phone.do(hosts.abort, "clear", "counted")
    pcscf.do(hosts.abort, "clear", "counted")
    pair.remove(sas)


def test_a_response_in_clear_to_a_protected_port_is_counted(pair: Pair) -> None:
    """A P-CSCF that deletes its SAs before it answers the last request inside them."""
    sas = pair.sas()
    pair.install(sas)
    for port, payload, rise in (
        (PORT_UC + 7, b"SIP/2.0 200 OK", {"clear_in": 1, "clear_responses_in": 1}),
        (PORT_US, b"OPTIONS sip:a SIP/2.0", {"clear_in": 1}),
        (PORT_UC + 63, b"", {"clear_in": 1}),
        (PORT_UC + 64, b"SIP/2.0 200 OK", {}),
        (PORT_UC - 1, b"SIP/2.0 200 OK", {}),
    ):
        ports = PORT_PS.to_bytes(2, "big") + port.to_bytes(2, "big")
        tcp = ports + bytes(8) + b"\x50\x18\xff\xff\0\0\0\0" + payload
        packet = bytearray(wrapped(pair, sas, tcp))
        packet[6 if pair.version == 6 else 9] = 6
        inject = partial(hosts.inject, pair.version, bytes(packet), sas.phone_address)
        assert grown(pair.phone, partial(pair.pcscf.do, inject), settle_s=0.05) == rise, port
    pair.remove(sas)


def test_without_clear_listener_a_clear_syn_is_refused(pair: Pair) -> None:
    pair.phone.do(hosts.listen, "alone", pair.version, "esp0", _EVERYBODY[pair.version], 6199)
    to = (addresses.phone_address(pair.version, 0, 1, 0), 6199)
    source = (pair.pcscf_address, PORT_PC + 2)
    answer = pair.pcscf.do(hosts.connect, "clear", pair.version, "w0", source, to)
    assert answer == "ConnectionRefusedError"
    pair.phone.do(hosts.close, "alone")


def test_without_sas_a_protected_socket_sends_nothing(pair: Pair) -> None:
    sas = pair.sas()
    pair.install(sas)
    ping(pair, sas)
    pair.remove(sas)
    time.sleep(0.3)  # what was under way when they went
    pair.pcscf.do(hosts.take_frames)
    rise = grown(pair.phone, lambda: pair.phone.do(hosts.send, "uc", b"late"), settle_s=0.4)
    assert set(rise) == {"no_sa_out"}
    assert protocols(pair.pcscf.do(hosts.take_frames), sas.phone_address) == set()
    pair.phone.do(hosts.abort, "uc", "us-pc")
    pair.pcscf.do(hosts.abort, "pc", "ps-uc")


def test_a_reset_without_socket_stays_protected(pair: Pair) -> None:
    """A segment for nobody, inside the SA: the kernel's RST may not take the main route."""
    sas = pair.sas()
    sas.port_us = PORT_US + 1  # where nobody listens
    pair.install(sas)
    pair.pcscf.do(hosts.take_frames)
    source, to = (sas.pcscf_address, PORT_PC), (sas.phone_address, sas.port_us)
    outcome = pair.pcscf.do(hosts.connect, "nobody", pair.version, "esp0", source, to)
    assert outcome == "ConnectionRefusedError"  # the RST came back, through the SA
    assert protocols(pair.pcscf.do(hosts.take_frames), sas.phone_address) == {50}
    pair.remove(sas)


def test_what_an_sa_does_not_take_is_counted_by_its_reason(pair: Pair) -> None:
    sas = pair.sas()
    pair.phone.do(hosts.install, sas)
    keys = EspKeys(sas.alg, sas.ealg, sas.integrity_key, sas.cipher_key)
    esp = EspOut(sas.spi_us, keys)
    right = segment(PORT_PC, PORT_US)
    good = esp.seal(17, right)
    changed = bytearray(esp.seal(17, right))
    changed[-1] ^= 1
    other_source = str(addresses.link_addresses(pair.version, 0).near)
    body = sas.spi_us.to_bytes(4, "big") + b"\0\0\0\x0b" + right + b"\x09\x09\x02\x11"
    cases = [
        ("packets_in", wrapped(pair, sas, good)),
        ("replayed", wrapped(pair, sas, good)),
        ("bad_icv", wrapped(pair, sas, bytes(changed))),
        ("unknown_spi", wrapped(pair, sas, b"\0\0\1\0" + good[4:])),
        ("truncated", wrapped(pair, sas, good[:16])),
        ("wrong_address", wrapped(pair, sas, esp.seal(17, right), other_source)),
        ("wrong_port", wrapped(pair, sas, esp.seal(17, segment(PORT_PC, PORT_UC)))),
        ("bad_padding", wrapped(pair, sas, body + keys.icv(body))),
    ]
    for counter, packet in cases:
        inject = partial(hosts.inject, pair.version, packet, sas.phone_address)
        rise = grown(pair.phone, partial(pair.pcscf.do, inject), settle_s=0.05)
        rise.pop("bytes_in", None)
        # the good one is answered by "port unreachable", which is no segment of the SA
        rise.pop("other_out", None)
        assert rise == {counter: 1}, counter
    pair.phone.do(hosts.remove, sas)


def test_a_taken_spi_or_port_pair_is_refused(pair: Pair) -> None:
    sas = pair.sas()
    pair.phone.do(hosts.install, sas)
    with pytest.raises(AssertionError, match=r"BackendError: an SA from .* port 20000"):
        pair.phone.do(hosts.install, sas)
    other = pair.sas()
    other.spi_uc = sas.spi_us
    with pytest.raises(AssertionError, match=f"BackendError: an SA with SPI {sas.spi_us} "):
        pair.phone.do(hosts.install, other)
    assert pair.phone.do(hosts.counters)["sas"] == 4, "a refused set leaves nothing behind"
    pair.phone.do(hosts.remove, other)
    assert pair.phone.do(hosts.counters)["sas"] == 4, "another set's SAs stay"
    pair.phone.do(hosts.remove, sas)
    pair.phone.do(hosts.remove, sas)
    assert pair.phone.do(hosts.counters)["sas"] == 0


def test_two_sets_stand_side_by_side(pair: Pair) -> None:
    """Re-registration: port_us and port_ps stay, the rest is new (TS 33.203 §7.4)."""
    old, new = pair.sas(), pair.sas()
    new.phone_address = old.phone_address
    new.port_uc, new.port_pc = PORT_UC + 1, PORT_PC + 1
    pair.install(old)
    pair.install(new)
    ping(pair, old)
    pair.remove(new)
    pair.phone.do(hosts.send, "uc", b"still")
    assert pair.pcscf.do(hosts.receive, "ps-uc", 5) == b"still"
    hang_up(pair)
    pair.remove(old)
