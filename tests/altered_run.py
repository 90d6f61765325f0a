"""A run in which something is wrong on purpose: ``altered_run.py ALTERATION PROFILE OUT``.

Exit code and result are those of the run; what is altered is between the processes, where no profile
reaches: keys that differ between phones and HSS, sequence numbers that the HSS has forgotten, a core
that connects to the phones in clear, a core that changes what it relays (altered_core.py).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

from imsbench.profile import load_profile
from imsbench.run import configs, execute, topology
from imsbench.run.find import running
from imsbench.run.launch import Modules
from imsbench.run.load import Load

PHONE_PORT = 6101


def children() -> dict[str, int]:
    """Process ids of this run's own children, by name; other runs may be in progress."""
    return {child.name: child.pid for child in running() if child.coordinator == os.getpid()}


def wrong_keys() -> Any:
    """The HSS derives its keys from another seed."""
    config_of = configs.hss_config

    def altered(*arguments: Any) -> dict[str, Any]:
        config = config_of(*arguments)
        config["population"]["seed"] += 1
        return config

    return mock.patch.object(configs, "hss_config", altered)


def before_each_step(act: Any) -> Any:
    """act(load, step index) is called before each step of the load."""
    drive = Load._drive

    def altered(self: Load, record: Any, **keywords: Any) -> None:
        act(self, record.step.index)
        drive(self, record, **keywords)

    return mock.patch.object(Load, "_drive", altered)


def forget_sqn(load: Load, step: int) -> None:
    """Before the second step the HSS is back before the first sequence number of every subscriber."""
    if step == 1:
        for n in range(load._profile.subscribers.count):
            load._crew.send(topology.HSS, "set_sqn", n=n, sqn=0)


def connect_in_clear(_load: Load, step: int) -> None:
    """Before the second step somebody at the core connects to phones' port_us outside the SAs."""
    if step != 1:
        return
    pid = children()[topology.CORE]
    code = (
        "import socket\n"
        "for n in range(1, 4):\n"
        "    try:\n"
        f"        s = socket.create_connection((f'198.18.0.{{n}}', {PHONE_PORT}), 2)\n"
        "        assert s.recv(10) == b'', 'it was served'\n"
        "    except ConnectionResetError:\n"
        "        pass\n"
    )
    command = ["nsenter", f"--net=/proc/{pid}/ns/net", sys.executable, "-c", code]
    subprocess.run(command, check=True, timeout=20)


def capture(out: Path) -> Any:
    """tcpdump watches the core's links: phones.pcap, hss.pcap, pcrf.pcap.

    One thing is altered: phones' clear connections get their own ports out of the P-CSCF's ring of
    protected ones only, as chance would give them now and then.
    """

    def start(_load: Load, step: int) -> None:
        if step:
            return
        pids = children()
        last = configs.PORT_PC_FIRST + configs.PORT_PC_COUNT - 1
        ports = f"echo {configs.PORT_PC_FIRST} {last} > /proc/sys/net/ipv4/ip_local_port_range"
        worker = f"--net=/proc/{pids[topology.worker_name(0)]}/ns/net"
        subprocess.run(["nsenter", worker, "sh", "-c", ports], check=True, timeout=20)
        links = (("w0", "phones.pcap"), ("hss0", "hss.pcap"), ("pcrf0", "pcrf.pcap"))
        for link, file in links:
            enter = ["nsenter", f"--net=/proc/{pids[topology.CORE]}/ns/net"]
            dump = ["tcpdump", "-i", link, "--immediate-mode", "-U", "-B", "16384", "-Z", "root"]
            dump += ["-w", str(out / file)]
            process = subprocess.Popen([*enter, *dump], stderr=subprocess.PIPE)
            assert process.stderr is not None
            assert b"listening" in process.stderr.readline()
            DUMPS.append(process)

    return before_each_step(start)


DUMPS: list[subprocess.Popen[bytes]] = []
ALTERATIONS: dict[str, Callable[[Path], Any]] = {
    "wrong-keys": lambda _out: wrong_keys(),
    "forgotten-sqn": lambda _out: before_each_step(forget_sqn),
    "clear-connection": lambda _out: before_each_step(connect_in_clear),
    "captured": capture,
    **{f"relayed-{what}": lambda _out: nullcontext() for what in ("identity", "offer", "answer")},
}


def main() -> int:
    """Run it; the run's exit code."""
    alteration, profile, folder = sys.argv[1:]
    out = Path(folder)
    modules = Modules()
    if alteration.startswith("relayed-"):
        os.environ["IMSBENCH_ALTERED_CORE"] = alteration.removeprefix("relayed-")
        modules = Modules(core="tests.altered_core")
    with ALTERATIONS[alteration](out):
        try:
            loaded = load_profile(profile)
            return execute.execute(loaded, lambda _event: None, out, modules=modules).exit_code
        finally:
            for dump in DUMPS:
                dump.terminate()
                dump.wait(10)


if __name__ == "__main__":
    sys.exit(main())
