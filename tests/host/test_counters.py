"""What the kernel counts, read from tables made by hand and from this machine's own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from imsbench.host import counters

SNMP = """Ip: Forwarding
Ip: 1
Tcp: InSegs OutSegs RetransSegs InErrs
Tcp: 7 5000 12 0
Udp: InDatagrams RcvbufErrors SndbufErrors
Udp: 54 3 1
UdpLite: InDatagrams RcvbufErrors SndbufErrors
UdpLite: 9 9 9
"""
NETSTAT = """TcpExt: ListenOverflows ListenDrops TCPSynRetrans TCPOther
TcpExt: 2 4 6 8
IpExt: ListenDrops
IpExt: 99
"""
SNMP6 = "Udp6InDatagrams                 \t5\nUdp6RcvbufErrors                \t10\n"


def write(proc: Path) -> None:
    net = proc / "self/net"
    net.mkdir(parents=True)
    (net / "snmp").write_text(SNMP)
    (net / "netstat").write_text(NETSTAT)
    (net / "snmp6").write_text(SNMP6)


def test_drops_and_segments_of_a_namespace(tmp_path: Path) -> None:
    write(tmp_path)
    assert counters.network_counters(tmp_path) == {
        "OutSegs": 5000, "RetransSegs": 12, "RcvbufErrors": 13, "SndbufErrors": 1,
        "ListenDrops": 4, "ListenOverflows": 2, "TCPSynRetrans": 6,
    }  # fmt: skip


def test_a_kernel_without_ipv6(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "self/net/snmp6").unlink()
    assert counters.network_counters(tmp_path)["RcvbufErrors"] == 3


def test_this_kernel_counts_them_all() -> None:
    assert set(counters.network_counters()) == {
        name for tables in counters.NETWORK.values() for names in tables.values() for name in names
    }


def test_cpu_times(tmp_path: Path) -> None:
    #           user nice system idle iowait irq softirq steal guest guest_nice
    (tmp_path / "stat").write_text("cpu  100 10 50 9000 800 5 20 15 40 0\ncpu0 1 1\n")
    hertz = os.sysconf("SC_CLK_TCK")
    times = counters.read_cpu(tmp_path)
    assert times.busy_s == pytest.approx(200 / hertz)
    assert times.steal_s == pytest.approx(15 / hertz)
    assert times.all_s == pytest.approx(10_000 / hertz)


def test_a_kernel_that_does_not_tell_steal_is_an_error_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text("cpu  1 2 3 4\n")
    with pytest.raises(ValueError, match="too few columns"):
        counters.read_cpu(tmp_path)


def test_memory_in_use(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemTotal:  1000 kB\nMemFree: 1 kB\nMemAvailable:  250 kB\n")
    assert counters.memory_share(tmp_path) == 0.75
    (tmp_path / "meminfo").write_text("MemTotal:  1000 kB\n")
    with pytest.raises(ValueError, match="available"):
        counters.memory_share(tmp_path)
    assert 0 < counters.memory_share() < 1
