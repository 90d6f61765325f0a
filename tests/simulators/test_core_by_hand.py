"""`imsbench core` and `imsbench hss` as a user starts them: what they say, and what they leave behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from imsbench.host import handback, links
from imsbench.host.namespace import have_net_admin
from tests.host import hosts

ROOT = Path(__file__).resolve().parents[2]
PCSCF = "192.0.2.10"
IN_NAMESPACE = [
    pytest.mark.net,
    pytest.mark.tun,
    pytest.mark.skipif(not have_net_admin(), reason="needs CAP_NET_ADMIN"),
]
SYSCTLS = ("net/ipv4/ip_local_reserved_ports", "net/ipv4/conf/all/rp_filter")


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "imsbench", *arguments]


def said(*arguments: str) -> tuple[int, str]:
    """Exit code and standard error of a command that ends by itself."""
    done = subprocess.run(
        command(*arguments), cwd=ROOT, capture_output=True, text=True, timeout=30, check=False
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("name", ["core", "hss", "pcrf"])
def test_help_and_errors_speak_to_the_user(name: str) -> None:
    done = subprocess.run(
        command(name, "--help"), cwd=ROOT, capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout.startswith(f"usage: imsbench {name} ")
    assert not re.search(r"simulators\.(core|hss) |coordinator|python -m", done.stdout)
    code, text = said(name, "nope.yaml", "--listen", "127.0.0.1")
    assert code == 2
    assert text == f"imsbench {name}: nope.yaml: cannot be read: No such file or directory\n"
    code, text = said(name, "quickstart", "--listen", "foo")
    assert code == 2
    assert "'foo' is no IP address with or without a port, as 192.0.2.1" in text


@pytest.mark.parametrize("name", ["core", "hss", "pcrf"])
def test_an_address_of_another_host_is_told_in_words(name: str, tmp_path: Path) -> None:
    profile = tmp_path / "clear.yaml"
    profile.write_text(
        "name: clear\nsubscribers: {count: 1}\nphones: {ipsec: off}\n"
        "phases: [{fill: {rate: 1, to: 1}}]\n"
    )
    code, text = said(name, str(profile), "--listen", "192.0.2.99")
    assert code == 5
    assert text.startswith(f"imsbench {name}: ")
    assert "192.0.2.99" in text
    assert "annot assign requested address" in text
    assert "Errno" not in text


@pytest.fixture
def host() -> Iterator[hosts.Host]:
    """A host of somebody's who filters by the reverse path and has reserved a port of the ring."""
    for (host,) in hosts.hosts(count=1):
        host.do(links.configure_link, "lo", PCSCF, 32)
        host.do(links.set_sysctl, SYSCTLS[0], "9000-9010,40005")
        host.do(links.set_sysctl, SYSCTLS[1], 1)
        yield host
        assert host.do(state)[1] == []


def state() -> tuple[list[str], list[str]]:
    """Sysctls and rules of the namespace; records of reservations in it."""
    text = [(Path("/proc/sys") / name).read_text().strip() for name in SYSCTLS]
    with links._netlink("rules") as netlink:
        text += [str(rule["attrs"]) for rule in netlink.get_rules()]
    records = handback.RECORDS.glob(f"ports-{handback._namespace()}-*")
    return text, [record.name for record in records]


@contextmanager
def core(host: hosts.Host, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A core in the host's namespace, once it serves or waits."""
    enter = ["nsenter", f"--net=/proc/{host.pid}/ns/net"]
    with subprocess.Popen(
        [*enter, *command("core", "quickstart", "--listen", PCSCF, *arguments)],
        cwd=ROOT, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        try:
            for line in process.stderr:
                if "waiting for the HSS" in line or "null target at" in line:
                    break
            yield process
        finally:
            process.kill()


class TestLeavesNothing:
    """Each way in which a core can end."""

    pytestmark = IN_NAMESPACE

    @pytest.mark.parametrize("kind", [(), ("--null",)])
    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
    def test_after_a_signal(
        self, host: hosts.Host, kind: tuple[str, ...], number: signal.Signals
    ) -> None:
        before = host.do(state)
        with core(host, *kind) as process:
            during, records = host.do(state)
            assert during[:2] == ["5063,9000-9010,40000-40127", "1"]
            assert len(during) > len(before[0])
            assert len(records) == 1
            process.send_signal(number)
            assert process.wait(10) == 0
        assert host.do(state) == before

    def test_after_sigkill_the_next_start_sweeps(self, host: hosts.Host) -> None:
        before = host.do(state)
        with core(host) as process:
            process.kill()
        assert host.do(state) != before
        with core(host) as process:  # the same rules again are no error
            process.terminate()
            assert process.wait(10) == 0
        assert host.do(state) == before

    def test_after_a_failed_start(self, host: hosts.Host) -> None:
        before = host.do(state)
        enter = ["nsenter", f"--net=/proc/{host.pid}/ns/net"]
        arguments = ("core", "quickstart", "--listen", "192.0.2.99")
        done = subprocess.run(
            [*enter, *command(*arguments)],
            cwd=ROOT, capture_output=True, text=True, timeout=30, check=False,
        )  # fmt: skip
        assert done.returncode == 5
        assert "this network namespace is changed until the end: device esp0" in done.stderr
        assert "5063,40000-40004,40006-40127 added until the end" in done.stderr
        assert host.do(state) == before

    def test_a_second_core_leaves_the_first_alone(self, host: hosts.Host) -> None:
        with core(host) as first:
            during = host.do(state)
            with core(host) as second:
                assert second.wait(10) == 5
            assert host.do(state) == during
            first.terminate()
            assert first.wait(10) == 0


def test_a_reservation_that_cannot_be_recorded_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(handback, "RECORDS", tmp_path / "file" / "records")
    told: list[str] = []
    assert handback._write_record([(5063, 5063)], told.append) is None
    assert "SIGKILL" in told[0]


def test_a_record_of_a_living_process_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handback, "RECORDS", tmp_path)
    released: list[object] = []
    monkeypatch.setattr(links, "release_ports", released.append)
    record = handback._write_record([(5063, 5063)], lambda _text: None)
    assert record == tmp_path / f"ports-{handback._namespace()}-{os.getpid()}.json"
    handback._sweep()
    assert record.exists()
    record.write_text(record.read_text().replace("started at ", "started at 1"))
    handback._sweep()
    assert released == [[(5063, 5063)]]
    assert not record.exists()
