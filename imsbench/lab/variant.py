"""Where the servers of a core run: the seam between one core and the machines it can be on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from imsbench.lab.host import HostCore
from imsbench.lab.umlcore import UmlCore


class Core(Protocol):
    """A core that was started; every variant makes one."""

    def problem(self) -> str:
        """What has ended it, with its log's own words; "" while it runs. Called several times a second."""

    def pids(self) -> list[int]:
        """First processes of its servers as this machine numbers them: their trees are measured."""

    def tick(self) -> Mapping[str, Any]:
        """Called once a second; what it returns goes into the child's tick (counts of its own)."""

    def log(self) -> str:
        """The end of what its servers wrote, each line with the server's name."""

    def stop(self) -> None:
        """End it; nothing is left behind. May be called of one that has ended."""


Starter = Callable[[Mapping[str, Any]], Core]
"""Starts a core from the ``config`` message of its child process, in the child's network namespace,
whose links, addresses and routes are there; returns when it serves, raises LabError or OSError if it
does not."""

VARIANTS: dict[str, Starter] = {
    "host": HostCore.start,
    "hosts": HostCore.start_protected,
    "uml": UmlCore.start,
}
"""By the profile's ``target.lab.variant``."""
