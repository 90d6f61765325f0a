"""The process a simulator's node runs in: under a coordinator or alone.

Under a coordinator (file descriptor 3, see imsbench.host.control): config, ready, tick once a second,
measured (what was answered since the last one) for each measure, result; every other message goes to
the node. Alone: ``python -m simulators.… PROFILE --listen ADDR:PORT`` serves until SIGINT or SIGTERM,
and logs what it served.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from imsbench.host import garbage
from imsbench.host.control import ControlChannel, child_channel, die_with_parent
from imsbench.protocol.address import split_host_port
from imsbench.subscriber import Population
from simulators import byhand
from simulators.lag import LoopLag
from simulators.node import Node
from simulators.peer import PeerError

DIAMETER_PORT = 3868
EXIT_USAGE, EXIT_HOST = 2, 5
TICK_S = 1.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Role:
    """What is particular about one simulator's process."""

    name: str
    """For people: "HSS"."""
    interface: str
    """What it speaks: "Cx"."""
    module: str
    """What ``python -m`` takes."""
    node_from_config: Callable[[Mapping[str, Any]], Node]
    """The node of a ``config`` message; KeyError, TypeError or ValueError if it is not of its form."""
    config_from_profile: Callable[[Any], dict[str, Any]]
    """The ``config`` message that belongs to a profile, for a simulator on the host itself."""


def config_of(name: str, settings: Any, profile: Any) -> dict[str, Any]:
    """What the ``config`` messages of all simulators share, for one that serves on the host itself."""
    people = profile.subscribers.model_dump()
    people |= {"seed": profile.seed, "domain": people["domain"].lower()}
    domain = Population(**people | {"k": None, "op": None, "opc": None}).home_domain
    listen = settings.listen
    return {
        "listen": split_host_port(listen) if listen else ("127.0.0.1", DIAMETER_PORT),
        "origin_host": f"{name.lower()}.{domain}",
        "origin_realm": domain,
        "response_time": distribution_config(settings.response_time),
        "error_share": settings.error_share,
        "error_result": settings.error_result,
        "faults": [one.as_config() for one in settings.faults],
        "seed": profile.seed,
    }


def distribution_config(distribution: Any) -> dict[str, Any]:
    """A profile's distribution as a ``config`` message has it."""
    return {
        "kind": distribution.kind,
        "mean_s": distribution.mean,
        "sigma": distribution.sigma,
    }


class Control:
    """Serves the control channel while the node serves Diameter."""

    def __init__(self, node: Node, channel: ControlChannel) -> None:
        self.stopped = asyncio.Event()
        """Set by ``stop``, or by the end of the channel."""
        self._node = node
        self._channel = channel
        self._lag = LoopLag()
        self._faults = node.timed_faults()
        channel.setblocking(False)
        asyncio.get_running_loop().add_reader(channel.fileno(), self._on_readable)

    async def run(self) -> None:
        """Tick until told to stop; then say what was measured."""
        while not self.stopped.is_set():
            self._channel.send(
                "tick",
                counts=self._node.counts() | {"connections": len(self._node.peer.connections)},
                cpu_s=time.process_time(),
                stalls=self._lag.take_stalls(),
                timed_faults=self._faults.to_json(),
            )
            try:
                await asyncio.wait_for(self.stopped.wait(), TICK_S)
            except TimeoutError:
                continue
        asyncio.get_running_loop().remove_reader(self._channel.fileno())
        await self._faults.close()
        await self._node.close()
        self._lag.close()
        self._channel.send(
            "result",
            cpu_s=time.process_time(),
            stalls=self._lag.take_stalls(),
            loop_lag=self._lag.histogram.to_json(),
            timed_faults=self._faults.to_json(),
            **self._node.to_json(),
        )

    def _on_readable(self) -> None:
        for message in self._channel.receive():
            try:
                self._on_message(message)
            except (LookupError, TypeError, ValueError) as error:
                self._node.peer.counters["bad_control_messages"] += 1
                log.error("control message %r: %r", message, error)
        if self._channel.closed:
            self.stopped.set()

    def _on_message(self, message: Mapping[str, Any]) -> None:
        if message["type"] == "stop":
            self.stopped.set()
            return
        if message["type"] == "measure":
            self._channel.send("measured", commands=self._node.take())
            return
        if message["type"] == "fault":
            self._faults.order(message)
            return
        work = self._node.on_control(message)
        if work is not None:
            self._node.peer.run(self._push(message["type"], work))

    async def _push(self, name: str, work: Awaitable[object]) -> None:
        """Send what the message asked for; a failure is counted, and the node goes on."""
        try:
            await work
        except (LookupError, PeerError) as error:
            self._node.peer.counters[f"{name}_failed"] += 1
            log.error("%s: %s", name, error)


def serve(role: Role) -> int:
    """Serve whoever started us; the exit code."""
    channel = child_channel()
    if channel is not None:
        return _serve_coordinator(role, channel)
    return _serve_alone(role, sys.argv[1:])


def _serve_coordinator(role: Role, channel: ControlChannel) -> int:
    from imsbench.host.child import enter_own_namespace, prepare_namespace
    from imsbench.host.links import LinkError
    from imsbench.host.namespace import HostError

    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the coordinator decides when a run ends
    try:
        enter_own_namespace(channel)
        config = channel.wait("config")
        prepare_namespace(config)
        asyncio.run(_serve_channel(role, channel, config))
    except (HostError, LinkError, OSError) as error:
        channel.send("error", text=f"{role.name}: {error}", exit=EXIT_HOST)
        return EXIT_HOST
    except EOFError:
        return 0
    return 0


async def _serve_channel(role: Role, channel: ControlChannel, config: Mapping[str, Any]) -> None:
    node = role.node_from_config(config)
    host, port = config["listen"]
    await node.peer.listen(host, port)
    garbage.settle()
    garbage.keep_young(asyncio.get_running_loop().call_later)
    control = Control(node, channel)
    channel.send("ready")
    await control.run()


def _serve_alone(role: Role, arguments: Sequence[str]) -> int:
    from imsbench.profile import ProfileError, load_profile

    name = role.name.lower()
    parser = argparse.ArgumentParser(
        prog=f"imsbench {name}",
        description=f"The {role.name} simulator alone (Diameter {role.interface} over TCP), for the "
        "subscribers of a profile, until it is interrupted. It changes nothing on the host.",
    )
    parser.add_argument(
        "profile", help=f"YAML, or a shipped one's name: subscribers, simulators.{name}"
    )
    parser.add_argument(
        "--listen",
        type=byhand.endpoint(DIAMETER_PORT),
        metavar="ADDRESS[:PORT]",
        help=f"default: the profile's simulators.{name}.listen, or 127.0.0.1:{DIAMETER_PORT}",
    )
    options = parser.parse_args(arguments)
    byhand.log_to_stderr(f"imsbench {name}")
    try:
        config = role.config_from_profile(load_profile(options.profile))
        if options.listen:
            config["listen"] = options.listen
    except (ProfileError, ValueError) as error:
        log.error("%s", error)
        return EXIT_USAGE
    try:
        asyncio.run(_serve_until_signal(role, config))
    except OSError as error:
        log.error("%s", byhand.error_in_words(error))
        return EXIT_HOST
    return 0


async def _serve_until_signal(role: Role, config: Mapping[str, Any]) -> None:
    node = role.node_from_config(config)
    host, port = config["listen"]
    address = await node.peer.listen(host, port or DIAMETER_PORT)
    garbage.settle()
    garbage.keep_young(asyncio.get_running_loop().call_later)
    identity = config["origin_host"]
    log.info("%s %s serves %s at %s:%d", role.name, identity, node.describe(), *address)
    stopped = asyncio.Event()
    for number in byhand.STOP_SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    await stopped.wait()
    for name, stats in node.commands.items():
        results = byhand.counts_in_words(stats.results)
        log.info("%s: %d answered (by result: %s)", name, stats.count, results)
    for name, value in node.state().items():
        log.info("%s: %s", name, value)
    await node.close()
