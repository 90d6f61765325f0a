"""Variant ``uml``: the P-CSCF inside user-mode Linux, whose kernel has ESP; the other two beside it.

    phones ── veth ── network namespace of the core ── tap0 ══ vec0 ── guest: P-CSCF
                      I-CSCF, S-CSCF                          kernel ESP, user-mode Linux

The namespace forwards between the phones, the simulators and the guest. The P-CSCF's log comes out of
the guest as its command's output, and lies beside the others; what its processes and its kernel use
comes as its readings.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from imsbench.host import addresses, links
from imsbench.host.namespace import HostError
from imsbench.lab import configs, packages, processes, readiness, uml
from imsbench.lab.host import HostCore, prepare
from imsbench.lab.logs import LogFile
from imsbench.lab.settings import LabError, LabSettings
from imsbench.run.process import own_environment

START_S = 240.0
"""How long the guest may take to serve: 100 sets of associations are 200 processes to it, or more."""

_SETTLE_S = 30.0
"""How long it is waited for until it idles: a machine that is busy itself may never let it."""
_IDLE_SHARE = 0.3
"""Of its one CPU: below, it idles …"""
_IDLE_OVER_S = 1.5
"""… over this time."""
_LOOK_S = 0.2
_TAP = "tap0"
_LINK = 62
"""Number of the link between the namespace and the guest; the last is a standing lab's own."""
_BESIDE = ("scscf", "icscf")
"""The servers that stay on this machine's kernel."""
_RUNTIME = "/run/kamailio"
_FILES = 65_536
"""Descriptors of each of its processes: it holds every phone's connections."""
_GROUPS = "/run/cgroup"
_GROUP = f"{_GROUPS}/core"
"""Its control group: what its processes use together."""
_GROUPED = (
    f"mkdir {_GROUPS} && mount -t cgroup2 none {_GROUPS} && "
    f"echo +memory > {_GROUPS}/cgroup.subtree_control && mkdir {_GROUP}"
)
_CONFINED = (
    f"echo $$ > {_GROUP}/cgroup.procs && "
    f'mount -t tmpfs tmpfs /tmp && ulimit -n {_FILES} && exec "$@"'
)
"""It has a /tmp of its own, as its Diameter stack makes pipes there."""
_QUEUE_LENGTH = 5_000
"""Packets that may wait for the guest, which has one CPU for everything."""
_KEPT_BYTES = 1 << 18
"""Of readings that are not whole yet."""


_ADD_STATE = ("ip", "xfrm", "state", "add")
_INTEGRITY = (("hmac(sha1)", f"0x{bytes(20).hex()}"), ("hmac(md5)", f"0x{bytes(16).hex()}"))
_CIPHERS = (("ecb(cipher_null)", ""), ("cbc(aes)", f"0x{bytes(16).hex()}"))
"""What Kamailio's P-CSCF takes, with keys of the right length."""


class UmlCore:
    """The guest and the two servers beside it, all of which end with this process."""

    def __init__(self, lab: LabSettings) -> None:
        """Start all; OSError or LabError if something does not start, and nothing is left then."""
        self._log = LogFile(Path(lab.folder), "pcscf")
        self._unread = b""
        self._usage: dict[str, Any] | None = None
        self._guest: uml.Guest | None = None
        self._beside = HostCore(lab, _BESIDE)
        try:
            join(lab)
            folder = Path(lab.folder, "guest")
            folder.mkdir()
            inside = replace(lab, folder=uml.JOB)
            configs.write(inside, folder)
            self._guest = uml.Guest(_job(inside), folder, tap=_TAP)
            readiness.wait_for("P-CSCF", lab.pcscf, START_S, self._check)
            self._settle()
        except uml.UmlError as error:
            self.stop()
            raise HostError(f"user-mode Linux: {error}") from error
        except BaseException:
            self.stop()
            raise

    @classmethod
    def start(cls, config: Mapping[str, Any]) -> UmlCore:
        """The core of a child's configuration; HostError where the machine lacks something."""
        return cls(prepare(config, [*packages.missing(), *uml.missing_packages()]))

    def problem(self) -> str:
        """What has ended a server or the guest; "" while all run. What the guest wrote is taken here."""
        if self._guest is None:
            return ""
        self._take(self._guest)
        if text := self._beside.problem():
            return text
        if self._guest.is_running():
            return ""
        end = self._guest.result()
        if end is None:
            return f"the P-CSCF's guest died: {_last_line(self._guest.console())}"
        words = processes.last_words(self._log.tail())
        return f"the P-CSCF ended with exit status {end.returncode} in its guest: {words}"

    def pids(self) -> list[int]:
        """First processes of the servers beside the guest; those inside are in its readings."""
        return self._beside.pids()

    def tick(self) -> Mapping[str, Any]:
        """The last reading of what the guest uses (``imsbench.lab.readings``)."""
        self._beside.tick()
        self._log.trim()
        return {} if self._usage is None else {"usage": self._usage}

    def log(self) -> str:
        """The end of all logs."""
        own = self._log.tail().splitlines()
        return "\n".join([self._beside.log(), *(f"pcscf: {line}" for line in own)])

    def stop(self) -> None:
        """End all."""
        if self._guest is not None:
            self._guest.end()
            self._guest = None
        self._beside.stop()

    def _check(self) -> None:
        if text := self.problem():
            raise LabError(text)

    def _settle(self) -> None:
        """Wait until the guest idles: it goes on starting processes when it answers already."""
        before = self._usage
        deadline = time.monotonic() + _SETTLE_S
        while time.monotonic() < deadline:
            time.sleep(_LOOK_S)
            self._check()
            now = self._usage
            if now is None or before is None or now["at"] - before["at"] < _IDLE_OVER_S:
                before = before or now
                continue
            if now["busy_s"] - before["busy_s"] < _IDLE_SHARE * (now["at"] - before["at"]):
                return
            before = now

    def _take(self, guest: uml.Guest) -> None:
        if written := _read(guest.output):
            self._log.append(written)
        *whole, rest = (self._unread + _read(guest.readings)).split(b"\n")
        self._unread = rest[-_KEPT_BYTES:]
        for line in whole[-1:]:
            with suppress(ValueError):  # cut short, as nobody read for long
                self._usage = json.loads(line)


def join(lab: LabSettings) -> None:
    """The namespace's part of the link to the guest; it forwards what is not its own."""
    near, far, prefix = addresses.link_addresses(4, _LINK)
    links.create_tap(_TAP)
    links.configure_link(_TAP, near, prefix)
    links.set_up(_TAP, queue_length=_QUEUE_LENGTH)
    links.delete_address("lo", lab.pcscf.address, 32)
    links.add_route(f"{lab.pcscf.address}/32", via=far)
    links.set_sysctl("net/ipv4/ip_forward", 1)


def _job(lab: LabSettings) -> uml.Job:
    """The P-CSCF of these settings, whose folder is the job's."""
    near, far, prefix = addresses.link_addresses(4, _LINK)
    kamailio = processes.command_line("pcscf", lab, lab.folder, _RUNTIME)
    return uml.Job(
        command=["unshare", "--mount", "--", "sh", "-c", _CONFINED, "sh", *kamailio],
        environment=own_environment()
        | {"PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin", "PYTHONDONTWRITEBYTECODE": "1"},
        prepare=[
            ["ip", "link", "set", "lo", "up"],
            ["ip", "address", "add", f"{lab.pcscf.address}/32", "dev", "lo"],
            ["ip", "address", "add", f"{far}/{prefix}", "dev", "vec0"],
            ["ip", "link", "set", "vec0", "up", "txqueuelen", str(_QUEUE_LENGTH)],
            ["ip", "route", "add", "default", "via", near, "src", lab.pcscf.address],
            ["mkdir", _RUNTIME],
            ["sh", "-c", _GROUPED],
            *_crypto(),
        ],
        readings=[sys.executable, "-P", "-m", "imsbench.lab.readings", _GROUP],
    )


def _crypto() -> list[list[str]]:
    """Commands that make a guest's kernel look for the algorithms of associations now.

    It starts a process for each one that it looks for: else the first phones wait seconds for that.
    """
    ends = ["src", "192.0.2.1", "dst", "192.0.2.2", "proto", "esp", "spi"]
    kinds = enumerate(itertools.product(_INTEGRITY, _CIPHERS), 256)
    commands = [
        [
            *_ADD_STATE,
            *ends,
            str(spi),
            "mode",
            "transport",
            "auth-trunc",
            *auth,
            "96",
            "enc",
            *cipher,
        ]
        for spi, (auth, cipher) in kinds
    ]
    return [*commands, ["ip", "xfrm", "state", "flush"]]


def _read(descriptor: int) -> bytes:
    """What is there to be read."""
    parts: list[bytes] = []
    with suppress(BlockingIOError):
        while part := os.read(descriptor, 1 << 16):
            parts.append(part)
    return b"".join(parts)


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it wrote nothing"])[-1]
