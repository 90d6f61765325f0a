"""Variant ``uml``: the P-CSCF inside user-mode Linux, whose kernel has ESP; the other two beside it.

    phones ── veth ── network namespace of the core ── tap0 ══ vec0 ── guest: P-CSCF
                      I-CSCF, S-CSCF                          kernel ESP, user-mode Linux

The namespace forwards between the phones, the simulators and the guest. The P-CSCF's log comes out of
the guest as its command's output; what its processes and its kernel use, as ``readings``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from imsbench.host import addresses, links, tun
from imsbench.host.namespace import enter_private_directory
from imsbench.lab import configs, processes, readiness, uml
from imsbench.lab.host import HostCore
from imsbench.lab.settings import LabError, LabSettings
from imsbench.run.process import own_environment

TAP = "tap0"
START_S = 180.0
"""How long the guest may take to serve: it starts some 20 processes a second."""

_INSIDE = ("icscf", "scscf")
"""The servers that stay on this machine's kernel."""
_LINK = 63
"""Number of the link between the namespace and the guest, the last one there is."""
_RUNTIME = "/run/kamailio"
_FILES = 65_536
"""Descriptors of each of its processes."""
_LOG_LIMIT_BYTES = 1 << 20


class UmlCore:
    """The guest and the two servers beside it, all of which end with this process."""

    def __init__(self, lab: LabSettings, folder: Path) -> None:
        """Start all; OSError or LabError if something does not start, and nothing is left then."""
        self._log = b""
        self._readings = b""
        self._usage: dict[str, Any] = {}
        self._beside = HostCore(lab, _INSIDE)
        self._tap = tun.open_tap(TAP)
        self._guest: uml.Guest | None = None
        try:
            join(lab)
            inside = replace(lab, folder=uml.JOB)
            configs.write(inside, folder)
            self._guest = uml.Guest(_job(inside), folder, tap=TAP)
            readiness.wait_for("P-CSCF", lab.pcscf, START_S, self._check)
        except BaseException:
            self.stop()
            raise
