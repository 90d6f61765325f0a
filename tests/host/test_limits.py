"""The arithmetic of the preflight, against hosts that are made up."""

from __future__ import annotations

import resource
import subprocess
import sys
from dataclasses import replace

import pytest

from imsbench.host import limits
from imsbench.host.limits import HostState, Needs, check, refusal

ROOMY = HostState(open_files=1_000_000, memory_bytes=64 << 30)
NEEDS = Needs(phones=10_000, workers=2, other_ports=(6101, 5060))


def broken(needs: Needs, host: HostState) -> list[str]:
    return [finding.what for finding in check(needs, host) if not finding.ok]


def test_a_roomy_host_is_not_refused() -> None:
    assert broken(NEEDS, ROOMY) == []
    assert refusal(check(NEEDS, ROOMY)) == ""


@pytest.mark.parametrize(("open_files", "enough"), [(20_064, True), (20_063, False)])
def test_the_embedded_core_holds_every_connection(open_files: int, enough: bool) -> None:
    """10,000 phones * 2 connections + 64."""
    host = replace(ROOMY, open_files=open_files)
    assert broken(NEEDS, host) == ([] if enough else ["open files of the embedded core"])


@pytest.mark.parametrize(("open_files", "enough"), [(10_064, True), (10_063, False)])
def test_a_worker_holds_its_share(open_files: int, enough: bool) -> None:
    """5,000 phones * 2 connections + 64; the core is elsewhere."""
    host = replace(ROOMY, open_files=open_files)
    needs = replace(NEEDS, embedded=False)
    assert broken(needs, host) == ([] if enough else ["open files of a worker"])


def test_the_advice_says_how_many_workers_would_do() -> None:
    needs = replace(NEEDS, embedded=False, workers=1)
    text = refusal(check(needs, replace(ROOMY, open_files=5_000)))
    assert "ulimit -Hn 20064" in text
    assert "or run 5 workers" in text  # (5,000 - 64) / 2 = 2,468 phones each


def test_addresses_end_with_the_slice() -> None:
    assert broken(replace(NEEDS, phones=2 * 32_766), ROOMY) == []
    over = replace(NEEDS, phones=2 * 32_766 + 1)
    assert broken(over, ROOMY) == ["addresses of a worker's phones"]
    assert broken(replace(over, ip_version=6), ROOMY) == []


@pytest.mark.parametrize(
    ("period_s", "count", "enough"),
    [(0.0, 1, True), (60.0, 3, True), (60.0, 2, False), (1.0, 62, True), (1.0, 61, False)],
)
def test_the_ring_outlasts_time_wait(period_s: float, count: int, enough: bool) -> None:
    needs = replace(NEEDS, shortest_period_s=period_s, port_uc_count=count)
    assert broken(needs, ROOMY) == ([] if enough else ["protected client ports of a phone"])


@pytest.mark.parametrize(
    ("first", "other", "enough"),
    [(65_472, 5060, True), (65_473, 5060, False), (20_000, 20_063, False), (20_000, 20_064, True)],
)
def test_the_ring_ends_with_the_ports_and_holds_no_other(
    first: int, other: int, enough: bool
) -> None:
    needs = replace(NEEDS, port_uc_first=first, other_ports=(other,))
    assert broken(needs, ROOMY) == ([] if enough else [f"port numbers from {first}"])


def test_memory_counts_both_ends_where_the_target_is_here() -> None:
    """150 + 2 * 60 MiB + 10,000 * (4 + 4 * 4 + 8) KiB = 544 MiB; elsewhere 10,000 * 12 KiB."""
    assert broken(NEEDS, replace(ROOMY, memory_bytes=544 << 20)) == []
    assert broken(NEEDS, replace(ROOMY, memory_bytes=543 << 20)) == ["memory (MiB)"]
    away = replace(NEEDS, embedded=False)
    assert broken(away, replace(ROOMY, memory_bytes=388 << 20)) == []
    assert broken(away, replace(ROOMY, memory_bytes=387 << 20)) == ["memory (MiB)"]


def test_one_refusal_lists_everything() -> None:
    host = HostState(open_files=1024, memory_bytes=1 << 20, refused=("  TUN device: no",))
    needs = replace(NEEDS, phones=70_000, shortest_period_s=0.1, other_ports=(20_001,))
    text = refusal(check(needs, host))
    for expected in (
        "open files of a worker",
        "open files of the embedded core",
        "addresses of a worker's phones",
        "protected client ports",
        "ports [20001] lie in the ring",
        "memory (MiB)",
        "TUN device: no",
    ):
        assert expected in text


def test_the_soft_limit_of_open_files_is_raised() -> None:
    """In a child: the limit of this process is not the test's."""
    program = (
        "import resource\n"
        "from imsbench.host.limits import raise_open_files\n"
        "soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (100, hard))\n"
        "assert raise_open_files() == hard\n"
        "assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.net
def test_this_host_is_read() -> None:
    host = limits.read_host(replace(NEEDS, tun=False))
    assert host.open_files == resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    assert host.memory_bytes > 1 << 20
    assert host.refused == ()


def test_the_ring_need_not_hold_more_than_the_load_renews() -> None:
    needs = replace(NEEDS, shortest_period_s=0.01, renewals=62)
    assert broken(needs, ROOMY) == []
    assert broken(replace(needs, renewals=63), ROOMY) == ["protected client ports of a phone"]


@pytest.mark.parametrize(
    ("first", "renewals", "advice"),
    [
        (20_000, 4_094, "raise phones.port_uc_count to 4096"),
        (
            20_000,
            4_095,
            "can be 4,096 at most, from 20000: let each phone register anew only every",
        ),
        (
            65_000,
            600,
            "can be 536 at most, from 65000: let each phone register anew only every 112 ms",
        ),
    ],
)
def test_no_larger_ring_is_advised_than_there_can_be(
    first: int, renewals: int, advice: str
) -> None:
    needs = replace(NEEDS, shortest_period_s=0.01, renewals=renewals, port_uc_first=first)
    assert advice in refusal(check(needs, ROOMY))


def test_what_is_not_counted_is_said_in_words() -> None:
    refused = replace(ROOMY, refused=("  TUN device: no",))
    lines = [str(check(NEEDS, host)[-1]) for host in (ROOMY, refused)]
    assert lines[0] == (
        "privileges: granted (network namespace, veth, raw socket, and a TUN device for ESP in user "
        "space)"
    )
    assert lines[1].startswith("privileges: refused (")
    assert "TUN" not in str(check(replace(NEEDS, tun=False), ROOMY)[-1])
