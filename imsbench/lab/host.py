"""Variant ``host``: the three servers as processes of this machine, in one network namespace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from imsbench.host.namespace import HostError, enter_private_directory
from imsbench.host.xfrm import esp_refusal
from imsbench.lab import configs, packages, processes, readiness
from imsbench.lab.processes import Server
from imsbench.lab.settings import LabError, LabSettings

START_S = 60.0
"""How long the servers may take to serve: 100 sets of associations are 200 processes, and more."""


class HostCore:
    """The servers, their files and their logs, all of which end with this process."""

    def __init__(self, lab: LabSettings, servers: Sequence[str] = configs.SERVERS) -> None:
        """Start these servers; OSError or LabError if one does not start, and none is left then."""
        self._servers: list[Server] = []
        folder = Path(lab.folder)
        configs.write(lab, folder)
        try:
            for name in servers:
                self._servers.append(Server(name, lab, folder))
            for server in self._servers:
                where = configs.endpoint_of(lab, server.name)
                readiness.wait_for(server.title, where, START_S, self._check)
        except BaseException:
            self.stop()
            raise

    @classmethod
    def start(cls, config: Mapping[str, Any]) -> HostCore:
        """The core of a child's configuration, its files in a folder that only this process sees.

        HostError where the machine lacks packages, or privileges.
        """
        return cls(prepare(config, packages.missing()))

    @classmethod
    def start_protected(cls, config: Mapping[str, Any]) -> HostCore:
        """The same with the ESP of this machine's kernel (variant ``hosts``); HostError if it has none."""
        if refusal := esp_refusal(4):
            raise HostError(
                f"{refusal}. Variant uml of the lab needs no ESP of this machine's kernel"
            )
        return cls.start(config)

    def problem(self) -> str:
        """What has ended a server; "" while all run."""
        return next((text for server in self._servers if (text := server.problem())), "")

    def pids(self) -> list[int]:
        """First process of each server."""
        return [pid for server in self._servers if (pid := server.pid()) is not None]

    def tick(self) -> Mapping[str, Any]:
        """Logs are kept short."""
        for server in self._servers:
            server.log.trim()
        return {}

    def log(self) -> str:
        """The end of all logs."""
        lines = [
            f"{server.name}: {line}"
            for server in self._servers
            for line in server.log.tail().splitlines()
        ]
        return "\n".join(lines)

    def stop(self) -> None:
        """End all servers."""
        processes.stop(self._servers)

    def _check(self) -> None:
        if text := self.problem():
            raise LabError(text)


def prepare(config: Mapping[str, Any], lacking: Sequence[str]) -> LabSettings:
    """A core's settings, and the folder for its files, which only this process sees.

    lacking: packages that this machine has not; HostError for them, and for a pool that is too large.
    """
    if advice := packages.advice(lacking):
        raise HostError(advice)
    lab = replace(LabSettings.from_config(config["lab"]), modules=packages.module_folder())
    if problem := lab.pool_problem():
        raise HostError(problem)
    enter_private_directory(str(Path(lab.folder).parent))
    Path(lab.folder).mkdir()
    return lab
