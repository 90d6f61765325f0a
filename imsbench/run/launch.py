"""The children of a run are started, joined by links, told what they are, and waited for.

The simulators come first (HSS, PCRF), then the core, then the workers; each says "ready".
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from imsbench.profile import Profile
from imsbench.protocol.address import host_port
from imsbench.run import configs, network, topology
from imsbench.run.capture import CaptureOrder
from imsbench.run.crew import START_S, Crew
from imsbench.run.events import Stage, Watcher
from imsbench.run.exits import BROKEN, RunRefused

LAB_S = 300.0
"""How long the core of a lab may take to serve: in user-mode Linux it starts slowly."""
CORE_S = 60.0
"""How long a core may take to connect to our HSS."""


@dataclass(frozen=True, slots=True)
class Modules:
    """What each child runs (``python -m``)."""

    worker: str = "imsbench.run.worker"
    """Plays the phones."""
    hss: str = "simulators.hss"
    """The HSS simulator."""
    pcrf: str = "simulators.pcrf"
    """The PCRF simulator."""
    core: str = "simulators.core"
    """The reference core, or the null target."""
    lab: str = "imsbench.lab.core"
    """The core of a lab."""


DEFAULT_MODULES = Modules()


class Launch:
    """The start of one run's children."""

    def __init__(
        self,
        profile: Profile,
        watch: Watcher,
        crew: Crew,
        plan: topology.Topology,
        *,
        simulators: Sequence[str],
        workers: Sequence[str],
        modules: Modules = DEFAULT_MODULES,
        keep_ladders: bool = False,
        deregister: bool = False,
        pcap: CaptureOrder | None = None,
    ) -> None:
        """simulators, workers: names of those that are started; the rest as ``Coordinator`` has it."""
        self._profile = profile
        self._watch = watch
        self._crew = crew
        self._topology = plan
        self._simulators = simulators
        self._workers = workers
        self._modules = modules
        self._keep_ladders = keep_ladders
        self._deregister = deregister
        self._pcap = pcap
        self.core_pids: list[int] = []
        """First processes of the target, once it is ready; they and their descendants are measured."""

    def run(self) -> None:
        """Until all are ready; ChildLost, Interrupted, RunRefused if that cannot be."""
        profile = self._profile
        has_core = profile.target.kind != "external"
        self._watch(Stage(f"starting {self._describe_children()}"))
        own: list[str] = []
        modules = {topology.HSS: self._modules.hss, topology.PCRF: self._modules.pcrf}
        for name in self._simulators:
            self._crew.start(name, modules[name], own_namespace=has_core)
            own += [name] if has_core else []
        if has_core:
            lab = profile.target.kind == "lab"
            self._crew.start(topology.CORE, self._modules.lab if lab else self._modules.core)
            own.append(topology.CORE)
        for name in self._workers:
            self._crew.start(name, self._modules.worker)
        self._crew.wait([*own, *self._workers], "namespace", START_S)
        pids = {name: self._crew.pid(name) for name in [*own, *self._workers]}
        network.lay(self._topology, pids)
        self._configure()

    # private

    def _configure(self) -> None:
        profile, nodes = self._profile, self._topology.nodes
        config_of = {topology.HSS: configs.hss_config, topology.PCRF: configs.pcrf_config}
        for name in self._simulators:
            node = nodes.get(name, topology.Node())
            self._crew.send(name, "config", **config_of[name](profile, node))
        self._crew.wait(self._simulators, "ready", START_S)
        if topology.CORE in nodes:
            self._configure_core(nodes[topology.CORE])
        for number, name in enumerate(self._workers):
            config = configs.worker_config(
                profile,
                self._topology,
                number,
                keep_ladders=self._keep_ladders,
                deregister=self._deregister,
                pcap=self._pcap.config(profile, number) if self._pcap is not None else None,
            )
            self._crew.send(name, "config", **config)
        self._crew.wait(self._workers, "ready", START_S)
        for name, count in configs.awaited_connections(profile).items():
            self._await_core(name, config_of[name](profile, topology.Node())["listen"], count)

    def _configure_core(self, node: topology.Node) -> None:
        lab = self._profile.target.kind == "lab"
        config = (configs.lab_config if lab else configs.core_config)(self._profile, node)
        self._crew.send(topology.CORE, "config", **config)
        ready = self._crew.wait([topology.CORE], "ready", LAB_S if lab else START_S)
        # The child of a lab only watches the processes that are its core.
        self.core_pids = ready[topology.CORE].get("pids", [self._crew.pid(topology.CORE)])

    def _await_core(self, simulator: str, listen: tuple[str, int], count: int) -> None:
        """Wait until the core has connected to a simulator of ours; RunRefused if it does not.

        A core tries again every few seconds only, and without its HSS it refuses every phone.
        """
        address, title = host_port(*listen), simulator.upper()
        began_at = time.monotonic()
        tell_at = 1.0
        while True:
            for name, message in self._crew.receive(0.5):
                if name == simulator and message.get("counts", {}).get("connections", 0) >= count:
                    return
            waited_s = time.monotonic() - began_at
            if waited_s > CORE_S:
                raise RunRefused(
                    f"the core did not connect to the {title} at {address} within {CORE_S:.0f} s: is "
                    f"that the {title} it is told to use, and may it connect to there (Diameter over "
                    f"TCP)? Leave simulators.{simulator} out if it has one of its own",
                    BROKEN,
                )
            if waited_s >= tell_at:
                tell_at += 5.0
                told = f"{waited_s:.0f} of {CORE_S:.0f} s"
                self._watch(Stage(f"waiting for the core to connect to {address} ({told})"))

    def _describe_children(self) -> str:
        count = len(self._workers)
        names = [name.upper() for name in self._simulators]
        if self._profile.target.kind != "external":
            names.append(self._profile.target.title)
        if count:
            names.append(f"{count} worker" + ("s" if count != 1 else ""))
        return ", ".join(names[:-1]) + (" and " if names[:-1] else "") + names[-1]
