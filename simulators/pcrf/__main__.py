"""The PCRF process: ``python -m simulators.pcrf``, under a coordinator or alone (see simulators.process).

Beside ``stop`` it takes ``rar {session | n, actions, abort_cause}`` and ``asr {session | n, abort_cause}``:
for the session of this name, or for n media sessions drawn at random, of those that subscribed to it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from imsbench.distribution import Distribution
from simulators.node import Injection
from simulators.pcrf.node import PcrfNode
from simulators.process import Role, config_of, distribution_config, serve


def node_from_config(config: Mapping[str, Any]) -> PcrfNode:
    """The PCRF of a ``config`` message; KeyError, TypeError or ValueError if it is not of its form."""
    return PcrfNode(
        origin_host=config["origin_host"],
        origin_realm=config["origin_realm"],
        bearer_setup=Distribution(**config.get("bearer_setup", {})),
        injection=Injection.from_config(config),
        seed=int(config.get("seed", 1)),
    )


def config_from_profile(profile: Any) -> dict[str, Any]:
    """The ``config`` message that belongs to a profile, for a PCRF on the host itself."""
    from imsbench.profile import Pcrf

    pcrf = profile.simulators.pcrf or Pcrf()
    return config_of("PCRF", pcrf, profile) | {
        "silence_share": pcrf.silence_share,
        "bearer_setup": distribution_config(pcrf.bearer_setup),
    }


def main() -> int:
    """Serve whoever started us."""
    return serve(Role("PCRF", "Rx", "simulators.pcrf", node_from_config, config_from_profile))


if __name__ == "__main__":
    sys.exit(main())
