"""A host with a core of its own to aim at, in a network namespace: runs a command there.

argv: the profile of the core, then the command. The core listens at 192.0.2.10 and expects its HSS
at 192.0.2.20, which is the namespace's own address: the run under test starts the HSS there.
"""

from __future__ import annotations

import subprocess
import sys

from imsbench.host import links
from imsbench.host.namespace import enter_new_network_namespace

PCSCF, HSS = "192.0.2.10", "192.0.2.20"


def main() -> int:
    """Run the command beside a running core; its exit code."""
    profile, *command = sys.argv[1:]
    enter_new_network_namespace()
    for address in (PCSCF, HSS):
        links.configure_link("lo", address, 32)
    links.set_sysctl("net/ipv4/conf/all/rp_filter", 1)  # as many distributions have it
    core = [sys.executable, "-m", "imsbench", "core", profile, "--listen", PCSCF, "--hss", HSS]
    with subprocess.Popen(core) as process:
        try:
            return subprocess.run(command, check=False, timeout=60).returncode
        finally:
            process.terminate()


if __name__ == "__main__":
    sys.exit(main())
