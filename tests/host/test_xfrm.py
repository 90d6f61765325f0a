"""The kernel backend as far as a kernel without ESP goes: guards, sweeping, refusals and their names."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from imsbench.host import links, xfrm
from imsbench.host import xfrm_messages as messages
from imsbench.host.backend import BackendError
from imsbench.host.netlink import NETLINK_XFRM, Answers, NetlinkSocket, Refusal, Request
from imsbench.host.xfrm import KernelEsp, esp_refusal, kernel_has_esp
from imsbench.protocol.secagree import Sa, SaSet
from tests.host import hosts
from tests.host.hosts import Host
from tests.lab import wire

PORT_UC, PORT_US, PORT_PC, PORT_PS, PORT_CLEAR = 20000, 6101, 40000, 5063, 5060
PORTS = ((PORT_UC, PORT_UC + 63), (PORT_US, PORT_US))
ENDS = {4: ("198.18.0.1", "198.18.0.2", 30), 6: ("2001:2:0:1::1", "2001:2:0:1::2", 64)}


def sas_of(version: int) -> SaSet:
    phone, pcscf, _ = ENDS[version]
    return SaSet(
        phone_address=phone,
        pcscf_address=pcscf,
        port_uc=PORT_UC,
        port_us=PORT_US,
        port_pc=PORT_PC,
        port_ps=PORT_PS,
        spi_uc=1001,
        spi_us=1002,
        spi_pc=1003,
        spi_ps=1004,
        alg="hmac-sha-1-96",
        ealg="null",
        integrity_key=bytes(range(20)),
        cipher_key=b"",
    )


# -- run in the child


def start(version: int, ports: Sequence[tuple[int, int]] = PORTS) -> None:
    hosts.STATE.backend = KernelEsp("phone", version, protected_ports=ports)


def stop() -> None:
    hosts.STATE.esp.close()
    hosts.STATE.backend = None


def start_over() -> None:
    """As a new namespace: no backend, no sockets, no policies."""
    if hosts.STATE.backend is not None:
        stop()
    hosts.close(*hosts.STATE.sockets)
    ip("xfrm", "policy", "flush")


def started_again(version: int) -> str:
    """Why no second backend starts in this namespace."""
    try:
        KernelEsp("pcscf", version).close()
    except BackendError as error:
        return str(error)
    return ""


def ip(*arguments: str) -> str:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def policies(version: int) -> set[str]:
    """What ``ip xfrm policy`` says, one line for each."""
    text = ip(f"-{version}", "xfrm", "policy")
    return {" ".join(part.split()) for part in ("\n" + text).split("\nsrc ") if part.strip()}


def take_policies(version: int) -> dict[int, str]:
    """The exact policies of a set, without its states."""
    made = [messages.SaMessages(sa, "out") for sa in sas_of(version).sas_from("phone")]
    made += [messages.SaMessages(sa, "in") for sa in sas_of(version).sas_to("phone")]
    netlink = NetlinkSocket(NETLINK_XFRM)
    answers = netlink.transact([(messages.NEW_POLICY, m.new_policy()) for m in made])
    netlink.close()
    return {place: str(refusal) for place, refusal in answers.refusals.items()}


def send_datagram(version: int, port: int, to: tuple[str, int]) -> str:
    """ "sent", or the error's name."""
    with socket.socket(
        socket.AF_INET6 if version == 6 else socket.AF_INET, socket.SOCK_DGRAM
    ) as sock:
        sock.bind((ENDS[version][0], port))
        try:
            sock.sendto(b"datagram", to)
        except OSError as error:
            return errno.errorcode[error.errno or 0]
    return "sent"


def die_with_leftovers(version: int) -> int:
    """A backend whose process is killed; its exit status."""
    code = (
        "import os, signal; from imsbench.host.xfrm import KernelEsp; "
        f"b = KernelEsp('phone', {version}, protected_ports={PORTS!r}); "
        "from tests.host.test_xfrm import take_policies; "
        f"assert not take_policies({version}); os.kill(os.getpid(), signal.SIGKILL)"
    )
    root = Path(__file__).parent.parent.parent
    environment = os.environ | {"PYTHONPATH": str(root)}
    return subprocess.run([sys.executable, "-c", code], env=environment).returncode


def install_error(version: int) -> str:
    try:
        hosts.STATE.esp.install(sas_of(version))
    except BackendError as error:
        return str(error)
    return ""


def reserved_ports() -> str:
    return Path("/proc/sys/net/ipv4/ip_local_reserved_ports").read_text().strip()


# -- the tests


@dataclass
class Lan:
    """A phone's host, guarded, and another."""

    version: int
    phone: Host
    other: Host

    def counters(self) -> dict[str, int]:
        found: dict[str, int] = self.phone.do(hosts.counters)
        return found

    def clear_frames(self) -> list[wire.Packet]:
        """TCP and UDP on the link since the last call."""
        time.sleep(0.1)
        packets = wire.parse_all(self.other.do(hosts.take_frames))
        return [packet for packet in packets if packet.protocol in (wire.TCP, wire.UDP)]


@pytest.fixture(scope="module", params=[4, 6], ids=["ipv4", "ipv6"])
def wired(request: pytest.FixtureRequest) -> Iterator[Lan]:
    version: int = request.param
    ours, theirs, prefix = ENDS[version]
    for phone, other in hosts.hosts(count=2):
        hosts.join(phone, "ims0", other, "w0")
        phone.do(links.configure_link, "ims0", ours, prefix)
        other.do(links.configure_link, "w0", theirs, prefix)
        other.do(hosts.start_sniffer, "w0")
        yield Lan(version, phone, other)


@pytest.fixture
def lan(wired: Lan) -> Iterator[Lan]:
    yield wired
    wired.phone.do(start_over)
    wired.other.do(start_over)


def guards(version: int) -> set[str]:
    anybody = "::/0 dst ::/0" if version == 6 else "0.0.0.0/0 dst 0.0.0.0/0"
    tail = "action block priority 33204 ptype main"
    return {
        f"{anybody} {side} {port} dir {way} {tail}"
        for side, way in (("sport", "out"), ("dport", "in"))
        for port in (20000, 20032, 6101)
    }


@pytest.mark.net
def test_guards_as_ip_xfrm_sees_them(lan: Lan) -> None:
    lan.phone.do(start, lan.version)
    assert lan.phone.do(policies, lan.version) == guards(lan.version)
    assert lan.phone.do(reserved_ports) == "6101,20000-20063"
    lan.phone.do(stop)
    assert lan.phone.do(policies, lan.version) == set()


@pytest.mark.net
def test_exact_policies_as_ip_xfrm_sees_them(lan: Lan) -> None:
    ours, theirs, _ = ENDS[lan.version]
    bits = 128 if lan.version == 6 else 32
    assert lan.phone.do(take_policies, lan.version) == {}

    def line(source: str, to: str, ports: str, way: str, spi: int, reqid: int) -> str:
        return (
            f"{source}/{bits} dst {to}/{bits} {ports} dir {way} priority 33203 ptype main "
            f"tmpl src {source} dst {to} proto esp spi {spi:#010x} reqid {reqid} mode transport"
        )

    assert lan.phone.do(policies, lan.version) == {
        line(ours, theirs, "sport 20000 dport 5063", "out", 1004, 33203001),
        line(ours, theirs, "sport 6101 dport 40000", "out", 1003, 33203001),
        line(theirs, ours, "sport 5063 dport 20000", "in", 1001, 33203002),
        line(theirs, ours, "sport 40000 dport 6101", "in", 1002, 33203002),
    }
    assert set(lan.phone.do(take_policies, lan.version)) == {0, 1, 2, 3}  # they exist


@pytest.mark.net
@pytest.mark.parametrize("with_set", [False, True], ids=["no-set", "set"])
def test_a_clear_syn_to_a_protected_port_is_dropped_and_counted(lan: Lan, with_set: bool) -> None:
    ours, theirs, _ = ENDS[lan.version]
    lan.phone.do(start, lan.version)
    if with_set:
        lan.phone.do(take_policies, lan.version)
    lan.phone.do(hosts.listen, "us", lan.version, "", ours, PORT_US)
    lan.clear_frames()
    for port in (PORT_US, PORT_UC, PORT_UC + 63):  # with a listener and without
        before = lan.counters()["clear_in"]
        packet = wire.syn(theirs, PORT_PC, ours, port)
        lan.other.do(hosts.inject, lan.version, packet, ours)
        assert [packet.ports for packet in lan.clear_frames()] == [(PORT_PC, port)]  # no answer
        assert lan.counters()["clear_in"] == before + 1
    assert lan.phone.do(hosts.accept, "us", "taken", 0.1) is None


@pytest.mark.net
def test_other_ports_are_as_free_as_ever(lan: Lan) -> None:
    ours, theirs, _ = ENDS[lan.version]
    lan.phone.do(start, lan.version)
    lan.phone.do(hosts.listen, "up", lan.version, "", ours, PORT_CLEAR)
    lan.other.do(hosts.listen, "ps", lan.version, "", theirs, PORT_CLEAR)
    there, here = (theirs, PORT_UC), (ours, PORT_CLEAR)  # a protected port of ours, at their end
    assert lan.other.do(hosts.connect, "a", lan.version, "", there, here) == "connected"
    to = (theirs, PORT_CLEAR)
    assert lan.phone.do(hosts.connect, "b", lan.version, "", (ours, 0), to) == "connected"
    assert lan.counters()["clear_in"] == lan.counters()["no_sa_out"] == 0


@pytest.mark.net
@pytest.mark.parametrize("with_set", [False, True], ids=["no-set", "set"])
def test_nothing_leaves_from_a_protected_port_in_clear(lan: Lan, with_set: bool) -> None:
    ours, theirs, _ = ENDS[lan.version]
    lan.phone.do(start, lan.version)
    if with_set:  # policies whose states are not there
        lan.phone.do(take_policies, lan.version)
    lan.other.do(hosts.listen, "ps", lan.version, "", theirs, PORT_PS)
    lan.clear_frames()
    for port, to in ((PORT_UC, (theirs, PORT_PS)), (PORT_US, (theirs, PORT_PC))):
        before = lan.counters()["no_sa_out"]
        # without a policy of its own it is refused, with one it waits for an SA and is lost
        answer = "sent" if with_set else "EPERM"
        assert lan.phone.do(send_datagram, lan.version, port, to) == answer
        assert lan.counters()["no_sa_out"] == before + 1
    answer = lan.phone.do(hosts.connect, "uc", lan.version, "", (ours, PORT_UC), (theirs, PORT_PS))
    assert answer != "connected"
    assert lan.clear_frames() == []


@pytest.mark.net
def test_a_connection_that_lost_its_sas_ends_in_silence(lan: Lan) -> None:
    """Here it never had any: it stands before the guards do."""
    ours, theirs, _ = ENDS[lan.version]
    lan.other.do(hosts.listen, "ps", lan.version, "", theirs, PORT_PS)
    client, server = (ours, PORT_UC), (theirs, PORT_PS)
    assert lan.phone.do(hosts.connect, "uc", lan.version, "", client, server) == "connected"
    assert lan.other.do(hosts.accept, "ps", "ps-uc") == client
    lan.phone.do(start, lan.version)
    lan.clear_frames()
    lan.phone.do(hosts.send, "uc", b"REGISTER")
    lan.phone.do(hosts.close, "uc")
    assert lan.clear_frames() == []
    assert lan.counters()["no_sa_out"] > 0
    lan.other.do(hosts.send, "ps-uc", b"200 OK")
    assert {packet.source for packet in lan.clear_frames()} == {theirs}
    assert lan.counters()["clear_in"] > 0


@pytest.mark.net
def test_leftovers_of_a_killed_process_are_swept_and_nothing_else(lan: Lan) -> None:
    version = lan.version
    prefix = "2001:db8::/64" if version == 6 else "192.0.2.0/24"
    theirs = ("dir", "out", "priority", "33204")
    lan.phone.do(ip, "xfrm", "policy", "add", "src", prefix, "dst", prefix, *theirs)
    foreign = lan.phone.do(policies, version)
    assert lan.phone.do(die_with_leftovers, version) == -signal.SIGKILL
    assert len(lan.phone.do(policies, version)) == 1 + 6 + 4
    lan.phone.do(start, version)
    assert lan.phone.do(policies, version) == foreign | guards(version)
    lan.phone.do(stop)
    assert lan.phone.do(policies, version) == foreign


@pytest.mark.net
def test_one_backend_in_a_namespace(lan: Lan) -> None:
    lan.phone.do(start, lan.version)
    other_version = 4 if lan.version == 6 else 6
    assert "another process carries" in lan.phone.do(started_again, lan.version)
    assert lan.phone.do(started_again, other_version) == ""
    assert lan.phone.do(policies, lan.version) == guards(lan.version)
    lan.phone.do(stop)
    assert lan.phone.do(started_again, lan.version) == ""


@pytest.mark.net
def test_without_esp_a_set_is_refused_by_name_and_leaves_nothing(lan: Lan) -> None:
    if lan.phone.do(kernel_has_esp, lan.version):
        pytest.skip("this kernel has ESP")
    lan.phone.do(start, lan.version)
    module = "esp6" if lan.version == 6 else "esp4"
    for text in (lan.phone.do(install_error, lan.version), lan.phone.do(esp_refusal, lan.version)):
        assert f"no ESP for IPv{lan.version}" in text
        assert f"modprobe {module}" in text
        assert "ipsec: userspace" in text
    assert lan.phone.do(policies, lan.version) == guards(lan.version)
    assert lan.counters()["sas"] == 0


# -- what the kernel may say, said by a stand-in


class Kernel:
    """A netlink socket whose kernel refuses some requests of the first batch."""

    def __init__(self, refusals: dict[int, int]) -> None:
        self.refusals = {place: Refusal(number, "why") for place, number in refusals.items()}
        self.batches: list[list[Request]] = []

    def __call__(self, family: int) -> Kernel:
        return self

    def dump(self, kind: int) -> Iterator[bytes]:
        return iter(())

    def transact(self, requests: Sequence[Request]) -> Answers:
        self.batches.append(list(requests))
        return Answers(self.refusals if len(self.batches) == 1 else {})

    def close(self) -> None:
        pass


def backend_on(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> KernelEsp:
    monkeypatch.setattr(xfrm, "NetlinkSocket", kernel)
    monkeypatch.setattr(xfrm, "_lock_namespace", lambda version: kernel)
    monkeypatch.setattr(xfrm, "_read_statistics", dict)
    return KernelEsp("phone", 4)


@pytest.mark.parametrize(
    ("place", "number", "text"),
    [
        (0, errno.EEXIST, "an SA with SPI 1004 to 198.18.0.2 exists"),
        (3, errno.EEXIST, "an SA with SPI 1001 to 198.18.0.1 exists"),
        (4, errno.EEXIST, "a policy from 198.18.0.1 port 20000 to 198.18.0.2 port 5063 exists"),
        (6, errno.EINVAL, "does not take a policy from 198.18.0.2 port 40000"),
        (0, errno.EPROTONOSUPPORT, r"no ESP for IPv4 \(Protocol not supported \(why\)\).*esp4"),
        (0, errno.ENOENT, "modprobe esp4"),
        (1, errno.ENOSYS, "an algorithm of hmac-sha-1-96 with null"),
        (0, errno.EPERM, "CAP_NET_ADMIN"),
        (2, errno.EINVAL, r"does not take an SA: Invalid argument \(why\)"),
    ],
)
def test_a_refusal_is_named_and_the_rest_taken_back(
    place: int, number: int, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = Kernel({place: number})
    backend = backend_on(kernel, monkeypatch)
    with pytest.raises(BackendError, match=text):
        backend.install(sas_of(4))
    sent, undone = kernel.batches
    assert [kind for kind, _ in sent] == [messages.NEW_STATE] * 4 + [messages.NEW_POLICY] * 4
    made = [messages.SaMessages(sa, "out") for sa in sas_of(4).sas_from("phone")]
    made += [messages.SaMessages(sa, "in") for sa in sas_of(4).sas_to("phone")]
    expected = [(messages.DELETE_POLICY, m.policy_id()) for m in made]
    expected += [(messages.DELETE_STATE, m.state_id()) for m in made]
    del expected[(place + 4) % 8]  # what was refused exists for somebody else
    assert undone == expected
    backend.remove(sas_of(4))  # not there: not the kernel's business
    assert len(kernel.batches) == 2


def test_a_set_goes_policies_first(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel({})
    backend = backend_on(kernel, monkeypatch)
    backend.install(sas_of(4))
    assert backend.counters()["sas"] == 4
    backend.remove(sas_of(4))
    assert [kind for kind, _ in kernel.batches[1]] == (
        [messages.DELETE_POLICY] * 4 + [messages.GET_STATE] * 4 + [messages.DELETE_STATE] * 4
    )
    assert backend.counters()["sas"] == 0


def test_an_algorithm_the_backend_does_not_know_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel({})
    backend = backend_on(kernel, monkeypatch)
    sas = sas_of(4)
    sas.ealg = "rot13"
    with pytest.raises(BackendError, match="alg=hmac-sha-1-96 with ealg=rot13"):
        backend.install(sas)
    assert kernel.batches == []


def test_statistics_have_the_names_of_user_space_where_they_mean_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = {
        "XfrmInNoStates": 1, "XfrmInStateProtoError": 2, "XfrmInStateSeqError": 3,
        "XfrmInStateMismatch": 4, "XfrmInTmplMismatch": 10, "XfrmInNoPols": 20,
        "XfrmInPolBlock": 30, "XfrmOutPolBlock": 5, "XfrmOutNoStates": 6, "XfrmInError": 7,
        "XfrmFwdHdrError": 0,
    }  # fmt: skip
    backend = backend_on(Kernel({}), monkeypatch)
    monkeypatch.setattr(xfrm, "_read_statistics", lambda: said)
    counters: dict[str, Any] = backend.counters()
    assert {name: count for name, count in counters.items() if count} == {
        "unknown_spi": 1, "bad_icv": 2, "replayed": 3, "wrong_port": 4, "clear_in": 60,
        "no_sa_out": 11, "XfrmInError": 7,
    }  # fmt: skip


def test_a_kernel_that_does_not_count_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xfrm, "_STATISTICS", Path("/proc/thread-self/net/none"))
    with pytest.raises(BackendError, match="CONFIG_XFRM_STATISTICS"):
        KernelEsp("phone", 4)


def test_a_kernel_without_xfrm_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(family: int) -> NetlinkSocket:
        raise OSError(errno.EPROTONOSUPPORT, os.strerror(errno.EPROTONOSUPPORT))

    monkeypatch.setattr(xfrm, "NetlinkSocket", refuse)
    assert "load xfrm_user" in esp_refusal(4)
    assert not kernel_has_esp(6)


def test_the_probe_takes_its_sa_away(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel({})
    monkeypatch.setattr(xfrm, "NetlinkSocket", kernel)
    assert esp_refusal(4) == ""
    ((created, deleted),) = kernel.batches
    probe = messages.SaMessages(Sa(0x494D, "192.0.2.1", 1, "192.0.2.2", 1), "out")
    assert created[0] == messages.NEW_STATE
    assert deleted == (messages.DELETE_STATE, probe.state_id())
