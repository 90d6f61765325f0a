"""The benchmark ranges, shared out."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imsbench.host import addresses


@pytest.mark.parametrize(
    ("ip_version", "worker", "workers", "prefix"),
    [
        (4, 0, 1, "198.18.0.0/16"),
        (4, 1, 2, "198.18.128.0/17"),
        (4, 2, 3, "198.18.128.0/18"),
        (4, 3, 4, "198.18.192.0/18"),
        (4, 4, 5, "198.18.128.0/19"),
        (6, 0, 1, "2001:2:0:1::/64"),
        (6, 1, 2, "2001:2:0:1:8000::/65"),
    ],
)
def test_workers_have_equal_slices(ip_version: int, worker: int, workers: int, prefix: str) -> None:
    assert addresses.phone_prefix(ip_version, worker, workers) == prefix


@given(st.sampled_from([4, 6]), st.integers(1, 64), st.data())
def test_a_phone_lives_in_the_slice_of_its_worker_only(
    ip_version: int, workers: int, data: st.DataObject
) -> None:
    worker = data.draw(st.integers(0, workers - 1))
    index = data.draw(st.integers(0, addresses.phone_capacity(ip_version, workers) - 1))
    address = ipaddress.ip_address(addresses.phone_address(ip_version, worker, workers, index))
    homes = [
        number
        for number in range(workers)
        if address in addresses.phone_network(ip_version, number, workers)
    ]
    assert homes == [worker]


def test_phones_have_all_but_the_first_and_the_last_address() -> None:
    assert addresses.phone_capacity(4, 1) == 65_534
    assert addresses.phone_address(4, 0, 1, 0) == "198.18.0.1"
    assert addresses.phone_address(4, 0, 1, 65_533) == "198.18.255.254"
    with pytest.raises(ValueError, match="holds 65534"):
        addresses.phone_address(4, 0, 1, 65_534)
    assert addresses.phone_address(6, 0, 1, 0) == "2001:2:0:1::1"


@pytest.mark.parametrize(("worker", "workers"), [(1, 1), (-1, 2), (0, 0)])
def test_there_is_no_worker_beyond_the_last(worker: int, workers: int) -> None:
    with pytest.raises(ValueError, match=f"worker {worker} of {workers}"):
        addresses.phone_prefix(4, worker, workers)


def test_a_range_is_not_split_without_end() -> None:
    with pytest.raises(ValueError, match="cannot be split"):
        addresses.phone_prefix(4, 0, 2**15)


@pytest.mark.parametrize("ip_version", [4, 6])
def test_links_do_not_overlap_each_other_or_anybody(ip_version: int) -> None:
    taken = [
        addresses.phone_network(ip_version, 0, 1),
        ipaddress.ip_network(addresses.core_prefix(ip_version)),
    ]
    for number in range(64):
        low, high, prefix = addresses.link_addresses(ip_version, number)
        network = ipaddress.ip_network(f"{low}/{prefix}", strict=False)
        assert ipaddress.ip_address(high) in network
        assert low != high
        assert not any(network.overlaps(other) for other in taken if other.version == ip_version)
        taken.append(network)
    with pytest.raises(ValueError, match="64 links"):
        addresses.link_addresses(ip_version, 64)


@pytest.mark.parametrize("ip_version", [4, 6])
def test_servers_live_in_the_core_prefix(ip_version: int) -> None:
    network = ipaddress.ip_network(addresses.core_prefix(ip_version))
    servers = {addresses.pcscf_address(ip_version), addresses.hss_address(ip_version)}
    assert len(servers) == 2
    assert all(ipaddress.ip_address(server) in network for server in servers)
