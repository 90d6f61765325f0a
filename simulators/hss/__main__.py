"""The HSS process: ``imsbench hss``, under a coordinator or alone (see simulators.process).

Beside ``stop`` it takes ``rtr {n, reason}``, ``ppr {n}`` and ``set_sqn {n, sqn}``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from imsbench.subscriber import Population
from simulators.hss.node import HssNode
from simulators.hss.procedures import Procedures
from simulators.hss.userdata import FilterCriteria
from simulators.node import Injection
from simulators.process import Role, config_of, serve


def node_from_config(config: Mapping[str, Any]) -> HssNode:
    """The HSS of a ``config`` message; KeyError, TypeError or ValueError if it is not of its form."""
    people = dict(config["population"])
    for key in ("k", "op", "opc"):
        people[key] = bytes.fromhex(people[key]) if people.get(key) else None
    seed = int(config.get("seed", 1))
    criteria = [FilterCriteria.from_config(one) for one in config.get("filter_criteria", ())]
    return HssNode(
        Procedures(Population(**people), seed=seed, filter_criteria=criteria),
        origin_host=config["origin_host"],
        origin_realm=config["origin_realm"],
        injection=Injection.from_config(config),
        seed=seed,
    )


def config_from_profile(profile: Any) -> dict[str, Any]:
    """The ``config`` message that belongs to a profile, for an HSS on the host itself."""
    from imsbench.profile import Hss

    people = profile.subscribers.model_dump()
    people |= {"seed": profile.seed, "domain": people["domain"].lower()}
    hss = profile.simulators.hss or Hss()
    return config_of("HSS", hss, profile) | {
        "population": people,
        "filter_criteria": [one.model_dump(mode="json") for one in hss.filter_criteria],
    }


def main() -> int:
    """Serve whoever started us."""
    return serve(Role("HSS", "Cx", "simulators.hss", node_from_config, config_from_profile))


if __name__ == "__main__":
    sys.exit(main())
