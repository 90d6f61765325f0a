"""The HSS process: under a coordinator or alone.

Under a coordinator (file descriptor 3, see imsbench.host.control): config, ready, tick once a second,
result. Beside ``stop`` it takes ``rtr {n, reason}``, ``ppr {n}`` and ``set_sqn {n, sqn}``.
Alone: ``imsbench hss PROFILE --listen ADDRESS:PORT`` serves the subscribers of a profile until
SIGINT or SIGTERM, and logs what it served.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from imsbench.distribution import Distribution
from imsbench.host.control import ControlChannel, child_channel, die_with_parent
from imsbench.protocol.address import split_host_port
from imsbench.subscriber import Population
from simulators import byhand
from simulators.cx import ReasonCode
from simulators.hss.node import HssNode, Injection
from simulators.hss.procedures import Procedures
from simulators.hss.userdata import FilterCriteria
from simulators.lag import LoopLag
from simulators.peer import PeerError

DIAMETER_PORT = 3868
EXIT_HOST = 5
TICK_S = 1.0

log = logging.getLogger("simulators.hss")


def node_from_config(config: Mapping[str, Any]) -> HssNode:
    """The HSS of a ``config`` message; KeyError, TypeError or ValueError if it is not of its form."""
    people = dict(config["population"])
    for key in ("k", "op", "opc"):
        people[key] = bytes.fromhex(people[key]) if people.get(key) else None
    seed = int(config.get("seed", 1))
    criteria = [FilterCriteria.from_config(one) for one in config.get("filter_criteria", ())]
    procedures = Procedures(Population(**people), seed=seed, filter_criteria=criteria)
    injection = Injection(
        latency=Distribution(**config["response_time"]),
        error_share=float(config["error_share"]),
        error_result=int(config["error_result"]),
    )
    return HssNode(
        procedures,
        origin_host=config["origin_host"],
        origin_realm=config["origin_realm"],
        injection=injection,
        seed=seed,
    )


class Control:
    """Serves the control channel while the HSS serves Cx."""

    def __init__(self, node: HssNode, channel: ControlChannel) -> None:
        self.stopped = asyncio.Event()
        """Set by ``stop``, or by the end of the channel."""
        self._node = node
        self._channel = channel
        self._lag = LoopLag()
        channel.setblocking(False)
        asyncio.get_running_loop().add_reader(channel.fileno(), self._on_readable)

    async def run(self) -> None:
        """Tick until told to stop; then say what was measured."""
        while not self.stopped.is_set():
            self._channel.send(
                "tick",
                counts=self._counts(),
                cpu_s=time.process_time(),
                stalls=self._lag.take_stalls(),
            )
            try:
                await asyncio.wait_for(self.stopped.wait(), TICK_S)
            except TimeoutError:
                continue
        asyncio.get_running_loop().remove_reader(self._channel.fileno())
        await self._node.peer.close()
        self._lag.close()
        self._channel.send(
            "result",
            cpu_s=time.process_time(),
            stalls=self._lag.take_stalls(),
            loop_lag=self._lag.histogram.to_json(),
            **self._node.to_json(),
        )

    def _counts(self) -> dict[str, int]:
        counts = {name: stats.count for name, stats in self._node.commands.items()}
        return counts | {
            "registered": self._node.procedures.store.registered,
            "connections": len(self._node.peer.connections),
        }

    def _on_readable(self) -> None:
        for message in self._channel.receive():
            try:
                self._on_message(message)
            except (IndexError, KeyError, TypeError, ValueError) as error:
                self._node.peer.counters["bad_control_messages"] += 1
                log.error("control message %r: %r", message, error)
        if self._channel.closed:
            self.stopped.set()

    def _on_message(self, message: Mapping[str, Any]) -> None:
        node = self._node
        match message["type"]:
            case "stop":
                self.stopped.set()
            case "rtr":
                reason = ReasonCode(message.get("reason", ReasonCode.PERMANENT_TERMINATION))
                node.peer.run(self._push("RTR", node.send_rtr(int(message["n"]), reason)))
            case "ppr":
                node.peer.run(self._push("PPR", node.send_ppr(int(message["n"]))))
            case "set_sqn":
                node.procedures.store.set_sqn(int(message["n"]), int(message["sqn"]))
            case other:
                raise ValueError(f"unknown type {other!r}")

    async def _push(self, name: str, work: Any) -> None:
        """Send an RTR or PPR; a failure is counted, and the HSS goes on."""
        try:
            await work
        except (LookupError, PeerError) as error:
            self._node.peer.counters[f"{name.lower()}_failed"] += 1
            log.error("%s: %s", name, error)


def prepare_namespace(config: Mapping[str, Any]) -> None:
    """Links, addresses and routes of our own network namespace."""
    from imsbench.host import links

    for link in config["links"]:
        links.configure_link(link["name"], link["address"], link["prefix"])
    if config["addresses"]:
        links.set_up("lo")
    for address in config["addresses"]:
        links.configure_link("lo", address, 128 if ":" in address else 32)
    for prefix, via in config["routes"]:
        links.add_route(prefix, via=via)


def serve_coordinator(channel: ControlChannel) -> int:
    """Be the child of a coordinator; the exit code."""
    from imsbench.host.links import LinkError
    from imsbench.host.namespace import HostError, enter_new_network_namespace

    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the coordinator decides when a run ends
    try:
        if os.environ.get("IMSBENCH_NAMESPACE") == "new":
            enter_new_network_namespace()
            channel.send("namespace", pid=os.getpid())
        config = channel.wait("config")
        prepare_namespace(config)
        asyncio.run(_serve_channel(channel, config))
    except (HostError, LinkError, OSError) as error:
        channel.send("error", text=f"HSS: {error}", exit=EXIT_HOST)
        return EXIT_HOST
    except EOFError:
        return 0
    return 0


async def _serve_channel(channel: ControlChannel, config: Mapping[str, Any]) -> None:
    node = node_from_config(config)
    host, port = config["listen"]
    await node.peer.listen(host, port)
    _settle()
    control = Control(node, channel)
    channel.send("ready")
    await control.run()


def serve_alone(arguments: Sequence[str]) -> int:
    """Serve the subscribers of a profile until interrupted; the exit code."""
    from imsbench.profile import ProfileError, load_profile

    parser = argparse.ArgumentParser(
        prog="imsbench hss",
        description="The HSS simulator alone (Diameter Cx over TCP), for the subscribers of a profile, "
        "until it is interrupted. It changes nothing on the host.",
    )
    parser.add_argument(
        "profile", help="YAML, or a shipped one's name: subscribers, simulators.hss"
    )
    parser.add_argument(
        "--listen",
        type=byhand.endpoint(DIAMETER_PORT),
        metavar="ADDRESS[:PORT]",
        help=f"default: the profile's simulators.hss.listen, or 127.0.0.1:{DIAMETER_PORT}",
    )
    options = parser.parse_args(arguments)
    byhand.log_to_stderr("imsbench hss")
    try:
        profile = load_profile(options.profile)
        config = config_from_profile(profile)
        if options.listen:
            config["listen"] = options.listen
    except (ProfileError, ValueError) as error:
        log.error("%s", error)
        return 2
    try:
        asyncio.run(_serve_until_signal(config))
    except OSError as error:
        log.error("%s", byhand.error_in_words(error))
        return EXIT_HOST
    return 0


def config_from_profile(profile: Any) -> dict[str, Any]:
    """The ``config`` message that belongs to a profile, for an HSS on the host itself."""
    from imsbench.profile import Hss

    hss = profile.simulators.hss or Hss()
    people = profile.subscribers.model_dump()
    people |= {"seed": profile.seed, "domain": people["domain"].lower()}
    domain = Population(**people | {"k": None, "op": None, "opc": None}).home_domain
    return {
        "population": people,
        "listen": split_host_port(hss.listen) if hss.listen else ("127.0.0.1", DIAMETER_PORT),
        "origin_host": f"hss.{domain}",
        "origin_realm": domain,
        "response_time": {
            "kind": hss.response_time.kind,
            "mean_s": hss.response_time.mean,
            "sigma": hss.response_time.sigma,
        },
        "error_share": hss.error_share,
        "error_result": hss.error_result,
        "seed": profile.seed,
    }


async def _serve_until_signal(config: Mapping[str, Any]) -> None:
    node = node_from_config(config)
    host, port = config["listen"]
    address = await node.peer.listen(host, port or DIAMETER_PORT)
    _settle()
    log.info(
        "HSS %s serves %d subscribers of %s at %s:%d",
        config["origin_host"],
        node.procedures.population.count,
        config["origin_realm"],
        *address,
    )
    stopped = asyncio.Event()
    for number in byhand.STOP_SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    await stopped.wait()
    await node.peer.close()
    for name, stats in node.commands.items():
        results = byhand.counts_in_words(stats.results)
        log.info("%s: %d answered (by result: %s)", name, stats.count, results)


def _settle() -> None:
    """Take what stands now out of the garbage collector: a full pass would show as response time."""
    gc.collect()
    gc.freeze()


def main() -> int:
    """Serve whoever started us."""
    channel = child_channel()
    if channel is not None:
        return serve_coordinator(channel)
    return serve_alone(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
