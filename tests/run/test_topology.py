"""Addresses, links and routes of a run agree with each other."""

from __future__ import annotations

import ipaddress

import pytest

from imsbench.host.addresses import (
    core_prefix,
    hss_address,
    lab_addresses,
    pcrf_address,
    pcscf_address,
)
from imsbench.run.topology import (
    CORE,
    HOST,
    HSS,
    PCRF,
    Topology,
    embedded,
    external,
    standing,
    worker_name,
)


def assert_sound(topology: Topology) -> None:
    """Link ends share a network of their own; each route's gateway is on a link of the node."""
    seen: set[object] = set()
    for first, second in topology.pairs:
        networks = {
            ipaddress.ip_interface(f"{end.address}/{end.prefix}").network for end in (first, second)
        }
        assert len(networks) == 1
        assert not networks & seen
        seen |= networks
        assert first.address != second.address
    for name, node in topology.nodes.items():
        assert len({link.name for link in node.links}) == len(node.links), name
        for prefix, via in node.routes:
            ipaddress.ip_network(prefix)
            gateway = ipaddress.ip_address(via)
            assert any(
                gateway in ipaddress.ip_interface(f"{link.address}/{link.prefix}").network
                for link in node.links
            ), (name, prefix, via)


@pytest.mark.parametrize("ip_version", [4, 6])
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_the_embedded_core_stands_between_the_simulators_and_the_workers(
    ip_version: int, workers: int
) -> None:
    topology = embedded(ip_version, workers, hss=True, pcrf=True)
    assert_sound(topology)
    assert set(topology.nodes) == {CORE, HSS, PCRF} | {worker_name(k) for k in range(workers)}
    core = topology.nodes[CORE]
    assert core.addresses == [pcscf_address(ip_version)]
    assert [link.name for link in core.links] == [
        "hss0",
        "pcrf0",
        *(f"w{k}" for k in range(workers)),
    ]
    routed = [prefix for prefix, _ in core.routes]
    assert routed[0].startswith(hss_address(ip_version) + "/")
    assert routed[1].startswith(pcrf_address(ip_version) + "/")
    assert routed[2:] == topology.phone_prefixes
    assert len(set(topology.phone_prefixes)) == workers
    for k in range(workers):
        worker = topology.nodes[worker_name(k)]
        assert [link.name for link in worker.links] == ["ims0"]
        assert worker.routes == [(core_prefix(ip_version), core.links[2 + k].address)]


def test_a_null_target_has_no_simulators() -> None:
    topology = embedded(4, 1, hss=False, pcrf=False)
    assert_sound(topology)
    assert set(topology.nodes) == {CORE, "worker-0"}


def test_a_run_without_rx_has_no_pcrf() -> None:
    topology = embedded(4, 1, hss=True, pcrf=False)
    assert_sound(topology)
    assert set(topology.nodes) == {CORE, HSS, "worker-0"}


@pytest.mark.parametrize("ip_version", [4, 6])
def test_an_external_target_is_reached_through_the_host(ip_version: int) -> None:
    topology = external(ip_version, 2)
    assert_sound(topology)
    host = topology.nodes[HOST]
    assert [link.name for link in host.links] == ["imsb0", "imsb1"]
    assert [prefix for prefix, _ in host.routes] == topology.phone_prefixes
    everything = {4: "0.0.0.0/0", 6: "::/0"}[ip_version]
    for k in range(2):
        worker = topology.nodes[worker_name(k)]
        assert worker.routes == [(everything, host.links[k].address)]
    assert all(len(end.name) < 16 for pair in topology.pairs for end in pair)  # IFNAMSIZ


def test_more_workers_than_links_are_refused() -> None:
    with pytest.raises(ValueError, match="64 links"):
        embedded(4, 63, hss=True, pcrf=True)


def test_a_standing_lab_is_joined_with_the_host_where_its_phones_come_from() -> None:
    topology = standing(4, hss=True, pcrf=True, core=lab_addresses(4))
    assert_sound(topology)
    assert topology.nodes[CORE].addresses == ["198.19.0.10", "198.19.0.11", "198.19.0.12"]
    ((prefix, via),) = topology.nodes[HOST].routes
    assert prefix == core_prefix(4)
    assert [link.name for link in topology.nodes[HOST].links] == ["imslab0"]
    (host_end,) = topology.nodes[HOST].links
    assert ("198.18.0.0/16", host_end.address) in topology.nodes[CORE].routes
    assert via != host_end.address


def test_the_links_of_runs_beside_a_standing_lab_have_other_addresses() -> None:
    lab = {link.address for link in standing(4, hss=True, pcrf=True, core=[]).nodes[HOST].links}
    runs = {link.address for link in external(4, 16).nodes[HOST].links}
    assert not lab & runs
