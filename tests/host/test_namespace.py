"""Namespaces: one's own, another's, and without root."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from imsbench.host import links, namespace
from tests.host import hosts

NOBODY = 65534
SOURCES = Path(__file__).parents[2]

TRY = (
    "import os, sys\n"
    "from imsbench.host import namespace\n"
    "from imsbench.host.userspace import UserspaceEsp\n"
    "with_tun = sys.argv[1] == 'tun'\n"
    "try:\n"
    "    namespace.reexec_rootless(with_tun=with_tun)\n"
    "except namespace.HostError as error:\n"
    "    sys.exit(str(error))\n"
    "namespace.enter_new_network_namespace()\n"
    "if with_tun:\n"
    "    esp = UserspaceEsp('phone', 4)\n"
    "    assert esp.counters()['raw_buffer'] > 0\n"
    "    esp.close()\n"
    "print('ran as', os.getuid(), sys.argv[1:], os.environ.get(namespace.ROOTLESS_MARK))\n"
)


def net_of(pid: str = "self") -> str:
    return os.readlink(f"/proc/{pid}/ns/net")


def link_names() -> list[str]:
    lines = Path("/proc/thread-self/net/dev").read_text().splitlines()[2:]
    return sorted(line.partition(":")[0].strip() for line in lines)


@pytest.mark.net
def test_a_new_namespace_is_empty_and_leaves_the_old_alone() -> None:
    before = net_of(), link_names()
    for (host,) in hosts.hosts(count=1):
        assert host.do(net_of) != before[0]
        assert host.do(link_names) == ["lo"]
        host.do(links.create_veth, "a0", "b0")
        assert host.do(link_names) == ["a0", "b0", "lo"]
        assert (net_of(), link_names()) == before


@pytest.mark.net
def test_another_process_namespace_can_be_joined() -> None:
    for first, second in hosts.hosts(count=2):
        second.do(namespace.enter_network_namespace_of, first.pid)
        assert second.do(net_of) == first.do(net_of)
        with pytest.raises(AssertionError, match="HostError: no network namespace of process 0"):
            second.do(namespace.enter_network_namespace_of, 0)


@pytest.mark.net
def test_trying_privileges_leaves_nothing_behind() -> None:
    before = net_of(), link_names()
    assert namespace.refused_privileges(with_tun=False) == []
    assert namespace.have_net_admin()
    assert (net_of(), link_names()) == before


# Without root: as nobody, with the interpreter bound to where nobody may run it


@pytest.fixture
def workshop() -> Iterator[Path]:
    if os.geteuid() != 0 or shutil.which("setpriv") is None or shutil.which("unshare") is None:
        pytest.skip("becoming nobody takes root, setpriv and unshare (util-linux)")
    folder = Path(tempfile.mkdtemp(prefix="imsbench-rootless-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def run_as_nobody(workshop: Path, tun_mode: str, *arguments: str) -> tuple[int, str]:
    """The trial in a mount namespace in which /dev/net/tun has this mode; exit code and output."""
    for name in ("python", "sources", "packages", "dev"):
        (workshop / name).mkdir()
    (workshop / "try.py").write_text(TRY)
    binary = Path(sys.executable).resolve().relative_to(Path(sys.base_prefix).resolve())
    script = f"""set -e
    mount --make-rprivate /
    mount --bind {Path(sys.base_prefix).resolve()} {workshop}/python
    mount --bind {SOURCES} {workshop}/sources
    mount --bind {sysconfig.get_path("purelib")} {workshop}/packages
    mount -t tmpfs none {workshop}/dev
    mknod -m {tun_mode} {workshop}/dev/tun c 10 200
    mount --bind {workshop}/dev/tun /dev/net/tun
    exec setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups \\
        env -i LD_LIBRARY_PATH={workshop}/python/lib PYTHONPATH={workshop}/sources:{workshop}/packages \\
        PYTHONDONTWRITEBYTECODE=1 \\
        {workshop}/python/{binary} {workshop}/try.py {" ".join(arguments)}
    """
    done = subprocess.run(
        ["unshare", "-m", "bash", "-c", script], capture_output=True, text=True, timeout=30
    )
    return done.returncode, done.stdout + done.stderr


def skip_if_refused(output: str) -> None:
    if "a user namespace" in output and "TUN" not in output:
        pytest.skip(f"this kernel gives nobody a user namespace: {output.strip()}")


@pytest.mark.net
@pytest.mark.tun
@pytest.mark.parametrize(("tun_mode", "wanted"), [("666", "tun"), ("600", "no-tun")])
def test_nobody_gets_a_network_of_its_own(workshop: Path, tun_mode: str, wanted: str) -> None:
    code, output = run_as_nobody(workshop, tun_mode, wanted, "--flag")
    skip_if_refused(output)
    assert code == 0, output
    assert output == f"ran as 0 ['{wanted}', '--flag'] 1\n"


@pytest.mark.net
@pytest.mark.tun
def test_the_refused_privilege_is_named(workshop: Path) -> None:
    code, output = run_as_nobody(workshop, "600", "tun")
    skip_if_refused(output)
    assert code == 1
    assert "TUN device: /dev/net/tun: Permission denied" in output
    assert "chmod 0666" in output
    assert "CAP_NET_RAW" not in output
