"""The network namespace of a child process, as whoever started it wants it (see run.coordinator)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from imsbench.host import links
from imsbench.host.control import ControlChannel
from imsbench.host.namespace import enter_new_network_namespace


def enter_own_namespace(channel: ControlChannel) -> None:
    """Leave for a namespace of its own, where the child was told to, and say so; HostError if refused."""
    if os.environ.get("IMSBENCH_NAMESPACE") == "new":
        enter_new_network_namespace()
        channel.send("namespace", pid=os.getpid())


def prepare_namespace(config: Mapping[str, Any]) -> None:
    """Links, addresses and routes out of a ``config`` message; LinkError, OSError."""
    for link in config.get("links", ()):
        links.configure_link(link["name"], link["address"], link["prefix"])
    for address in config.get("addresses", ()):
        links.configure_link("lo", address, 128 if ":" in address else 32)
    for prefix, via in config.get("routes", ()):
        links.add_route(prefix, via=via)
