"""Links on the host: marked, given back, taken over from a run that was killed, never a live one's."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import pytest

from imsbench.host import links
from imsbench.run import network, topology
from imsbench.run.exits import HOST_LACKS, RunRefused
from tests.host import hosts
from tests.host.test_namespace import link_names

pytestmark = pytest.mark.net

PLAN = topology.external(4, 1)
SLEEP = [sys.executable, "-c", "input()"]


@contextmanager
def somebody() -> Iterator[int]:
    """The process id of another process."""
    with subprocess.Popen(SLEEP, stdin=subprocess.PIPE) as process:
        yield process.pid
        process.kill()


@pytest.fixture
def pair() -> Iterator[tuple[hosts.Host, hosts.Host]]:
    """A host, and the namespace of a worker."""
    for made in hosts.hosts(count=2):
        yield made[0], made[1]


def lay(worker: int, pid: int = 0) -> None:
    """In a host: lay the links, as the process ``pid`` if one is given."""
    with mock.patch.object(os, "getpid", return_value=pid or os.getpid()):
        network.lay(PLAN, {"worker-0": worker})


def refused(worker: int) -> str:
    """In a host: the text of the refusal to lay the links."""
    with pytest.raises(RunRefused) as caught:
        network.lay(PLAN, {"worker-0": worker})
    assert caught.value.exit_code == HOST_LACKS
    return str(caught.value)


def test_a_runs_link_goes_with_the_run(pair: tuple[hosts.Host, hosts.Host]) -> None:
    host, worker = pair
    for _ in range(2):
        host.do(lay, worker.pid)
        assert host.do(link_names) == ["imsb0", "lo"]
        assert worker.do(link_names) == ["ims0", "lo"]
        host.do(network.clear, PLAN)
        assert host.do(link_names) == worker.do(link_names) == ["lo"]


def test_the_link_of_a_killed_run_is_taken_over(pair: tuple[hosts.Host, hosts.Host]) -> None:
    host, worker = pair
    with somebody() as pid:
        host.do(lay, worker.pid, pid)
    host.do(lay, worker.pid)  # its far end is still in that worker's namespace
    assert host.do(links.link_alias, "imsb0").startswith(f"imsbench run, process {host.pid} ")


def test_the_link_of_a_live_run_is_left_alone(pair: tuple[hosts.Host, hosts.Host]) -> None:
    host, worker = pair
    with somebody() as pid:
        host.do(lay, worker.pid, pid)
        assert f"another run against an external target (process {pid})" in host.do(
            refused, worker.pid
        )
        host.do(network.clear, PLAN)  # what the refused run does in the end
        assert host.do(link_names) == ["imsb0", "lo"]


@pytest.mark.parametrize("mark", ["", "imsbench run, process 7 started at 1 in pid:[1]", "uplink"])
def test_a_link_of_nobody_knows_whom_is_left_alone(
    pair: tuple[hosts.Host, hosts.Host], mark: str
) -> None:
    host, worker = pair
    host.do(links.create_veth, "imsb0", "other")
    if mark:
        host.do(links.set_link_alias, "imsb0", mark)
    text = host.do(refused, worker.pid)
    assert "ip link delete imsb0" in text
    assert mark in text
    assert host.do(link_names) == ["imsb0", "lo", "other"]


def test_a_pair_that_was_never_moved_is_taken_over(pair: tuple[hosts.Host, hosts.Host]) -> None:
    host, worker = pair
    host.do(links.create_veth, "imsb0", "ims0")
    host.do(lay, worker.pid)
    assert host.do(link_names) == ["imsb0", "lo"]
