"""The kernel backend on a kernel with ESP: what ``ip xfrm`` sees, what is counted, what is left."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from imsbench.host.backend import BackendError
from imsbench.host.xfrm import kernel_has_esp
from imsbench.protocol.secagree import MECHANISMS, SaSet
from tests.host import hosts
from tests.host.pairs import PHONE_PORTS, PORT_PC, PORT_UC, PORT_US, Pair, hang_up, pairs, ping
from tests.lab import wire

pytestmark = pytest.mark.kernel_esp

KERNEL = partial(hosts.start_backend, mode="kernel")


@pytest.fixture(scope="module", params=[4, 6], ids=["ipv4", "ipv6"])
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    yield from pairs(request.param, KERNEL, KERNEL)


# -- run in the child


def ip(*arguments: str) -> str:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def states() -> dict[int, str]:
    """What ``ip -s xfrm state`` says, on one line, by SPI."""
    parts = ("\n" + ip("-s", "xfrm", "state")).split("\nsrc ")[1:]
    lines = [" ".join(part.split()) for part in parts]
    return {int(re.findall(r"spi \S+\((\d+)\)", line)[0]): line for line in lines}


def policy_count() -> int:
    return ip("xfrm", "policy").count("ptype main")


def install_error(sas: SaSet) -> str:
    try:
        hosts.STATE.esp.install(sas)
    except BackendError as error:
        return str(error)
    return ""


def die_with_leftovers(version: int, sas: SaSet) -> int:
    """A backend whose process is killed with a set installed; its exit status."""
    code = (
        "import os, signal; from imsbench.host.xfrm import KernelEsp; "
        "from imsbench.protocol.secagree import SaSet; "
        f"b = KernelEsp('phone', {version}, protected_ports={PHONE_PORTS!r}); "
        f"b.install({sas!r}); os.kill(os.getpid(), signal.SIGKILL)"
    )
    return subprocess.run([sys.executable, "-c", code], env=dict(os.environ)).returncode


def restart(version: int) -> None:
    hosts.STATE.esp.close()
    hosts.STATE.backend = None
    assert states() == {}
    KERNEL("phone", version, PHONE_PORTS)


def send_datagram(source: tuple[str, int], to: tuple[str, int]) -> None:
    family = socket.AF_INET6 if ":" in source[0] else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        sock.bind(source)
        sock.sendto(b"datagram", to)


# -- the tests


def test_the_kernel_has_esp(pair: Pair) -> None:
    assert pair.phone.do(kernel_has_esp, pair.version)
    assert pair.phone.do(states) == {}


@pytest.mark.parametrize(("alg", "ealg"), MECHANISMS)
def test_states_as_ip_xfrm_sees_them(pair: Pair, alg: str, ealg: str) -> None:
    sas = pair.sas(alg, ealg)
    pair.phone.do(hosts.install, sas)
    found = pair.phone.do(states)
    assert set(found) == {sas.spi_uc, sas.spi_us, sas.spi_pc, sas.spi_ps}
    bits = 128 if pair.version == 6 else 32
    ways = ((33203001, sas.sas_from("phone")), (33203002, sas.sas_to("phone")))
    for sa, reqid in [(sa, reqid) for reqid, both in ways for sa in both]:
        line = found[sa.spi]
        assert f"{sa.source} dst {sa.destination} proto esp" in line
        assert f"reqid {reqid}(" in line
        assert "mode transport" in line
        assert "replay_window 64" in line
        assert f"sel src {sa.source}/{bits} dst {sa.destination}/{bits}" in line
        assert f"sport {sa.source_port} dport {sa.destination_port}" in line
        assert "expire add: soft 0(sec), hard 4294967295(sec)" in line
        key = (sas.integrity_key or sas.cipher_key).hex()
        assert f"0x{key}" in line
        if alg.startswith("hmac"):
            assert re.search(rf"auth-trunc hmac\((sha1|md5)\) 0x{key} \(\d+ bits\) 96", line)
        else:
            assert re.search(rf"aead rfc\d+\(gcm\(aes\)\) 0x{key} \(160 bits\) 128", line)
        if sas.cipher_key:
            assert f"0x{sas.cipher_key.hex()}" in line
    pair.phone.do(hosts.remove, sas)
    assert pair.phone.do(states) == {}


def test_a_taken_spi_is_refused_and_its_owner_stays(pair: Pair) -> None:
    sas = pair.sas()
    pair.install(sas)
    policies = pair.phone.do(policy_count)
    new = replace(sas, port_uc=PORT_UC + 1, port_pc=PORT_PC + 1, spi_uc=9001, spi_pc=9003)
    text = pair.phone.do(install_error, new)
    assert text == f"an SA with SPI {sas.spi_ps} to {sas.pcscf_address} exists"
    same_ports = replace(sas, spi_uc=9001, spi_us=9002, spi_pc=9003, spi_ps=9004)
    text = pair.phone.do(install_error, same_ports)
    assert text.startswith(f"a policy from {sas.phone_address} port {PORT_UC} to")
    assert text.endswith("exists")
    assert set(pair.phone.do(states)) == {sas.spi_uc, sas.spi_us, sas.spi_pc, sas.spi_ps}
    assert pair.phone.do(policy_count) == policies
    pair.phone.do(hosts.remove, new)
    pair.phone.do(hosts.remove, same_ports)
    ping(pair, sas)
    hang_up(pair)
    pair.remove(sas)


def test_packets_are_counted_and_stay_counted(pair: Pair) -> None:
    before = {host: host.do(hosts.counters) for host in (pair.phone, pair.pcscf)}
    sas = pair.sas()
    pair.install(sas)
    ping(pair, sas)
    hang_up(pair)
    time.sleep(0.2)
    for host in (pair.phone, pair.pcscf):
        live = host.do(hosts.counters)
        used = {
            spi: tuple(map(int, re.findall(r"(\d+)\(bytes\), (\d+)\(packets\)", line)[0]))
            for spi, line in host.do(states).items()
        }
        into = {sas.spi_uc, sas.spi_us} if host is pair.phone else {sas.spi_pc, sas.spi_ps}
        for way, spis in (("in", into), ("out", set(used) - into)):
            packets = live[f"packets_{way}"] - before[host][f"packets_{way}"]
            assert packets == sum(used[spi][1] for spi in spis) > 6
            carried = live[f"bytes_{way}"] - before[host][f"bytes_{way}"]
            assert carried == sum(used[spi][0] for spi in spis) > 24_000
        assert live["sas"] == 4
        host.do(hosts.remove, sas)
        after = host.do(hosts.counters)
        # A retransmission meanwhile has no SA to go by: that is counted elsewhere.
        assert after == live | {"sas": 0, "no_sa_out": after["no_sa_out"]}


def test_what_comes_in_clear_is_counted_with_and_without_a_set(pair: Pair) -> None:
    sas = pair.sas()
    for installed in (False, True):
        if installed:
            pair.phone.do(hosts.install, sas)
        packet = wire.syn(sas.pcscf_address, PORT_PC, sas.phone_address, PORT_US)
        before = pair.phone.do(hosts.counters)["clear_in"]
        pair.pcscf.do(hosts.take_frames)
        pair.pcscf.do(hosts.inject, pair.version, packet, sas.phone_address)
        time.sleep(0.1)
        assert pair.phone.do(hosts.counters)["clear_in"] == before + 1
        assert pair.phone.do(hosts.accept, "us", "taken", 0.1) is None
    pair.phone.do(hosts.remove, sas)


def test_the_sa_of_another_flow_does_not_carry(pair: Pair) -> None:
    """A datagram to port_us under spi_uc: integrity is right, the selector is not."""
    sas = pair.sas()
    crossed = replace(sas, spi_uc=sas.spi_us, spi_us=sas.spi_uc)
    pair.phone.do(hosts.install, sas)
    pair.pcscf.do(hosts.install, crossed)
    before = pair.phone.do(hosts.counters)["wrong_port"]
    client, server = (sas.pcscf_address, PORT_PC), (sas.phone_address, PORT_US)
    pair.pcscf.do(send_datagram, client, server)
    time.sleep(0.1)
    assert pair.phone.do(hosts.counters)["wrong_port"] == before + 1
    pair.phone.do(hosts.remove, sas)
    pair.pcscf.do(hosts.remove, crossed)


def test_nothing_leaves_in_clear_when_the_sas_are_gone(pair: Pair) -> None:
    sas = pair.sas()
    pair.install(sas)
    ping(pair, sas)
    time.sleep(0.1)
    pair.pcscf.do(hosts.take_frames)
    pair.phone.do(hosts.remove, sas)
    before = pair.phone.do(hosts.counters)
    pair.phone.do(hosts.send, "uc", b"late")
    pair.pcscf.do(hosts.send, "pc", b"late, too")  # under an SA that is gone at the phone
    time.sleep(0.3)
    pair.phone.do(hosts.close, "uc")
    pair.phone.do(hosts.abort, "us-pc")
    time.sleep(0.1)
    packets = wire.parse_all(pair.pcscf.do(hosts.take_frames))
    sources = [p for p in packets if p.source == sas.phone_address]
    assert sources == []
    after = pair.phone.do(hosts.counters)
    assert after["no_sa_out"] > before["no_sa_out"]
    assert after["unknown_spi"] > before["unknown_spi"]
    pair.pcscf.do(hosts.close, "pc", "ps-uc")
    pair.pcscf.do(hosts.remove, sas)


def test_close_takes_everything_away(pair: Pair) -> None:
    pair.phone.do(hosts.install, pair.sas())
    pair.phone.do(restart, pair.version)


def test_states_of_a_killed_process_are_swept(pair: Pair) -> None:
    sas: Any = pair.sas()
    foreign = (
        "xfrm", "state", "add", "src", sas.phone_address, "dst", sas.pcscf_address, "proto", "esp",
        "spi", "77", "mode", "transport", "reqid", "5", "auth-trunc", "hmac(sha1)", f"0x{bytes(20).hex()}",
        "96", "enc", "ecb(cipher_null)", "",
    )  # fmt: skip
    pair.phone.do(kill_and_sweep, pair.version, sas, foreign)


def kill_and_sweep(version: int, sas: SaSet, foreign: tuple[str, ...]) -> None:
    hosts.STATE.esp.close()
    assert die_with_leftovers(version, sas) == -signal.SIGKILL
    assert len(states()) == 4
    ip(*foreign)
    KERNEL("phone", version, PHONE_PORTS)
    assert set(states()) == {77}
    ip("xfrm", "state", "flush")
