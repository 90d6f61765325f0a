"""``python -m simulators.core``: the reference core, or the null target, as a process of its own.

Started by a coordinator it is configured over the control channel (imsbench.host.control); by hand with

    python -m simulators.core PROFILE --listen ADDRESS [--hss ADDRESS:PORT] [--pcrf ADDRESS:PORT] [--null]
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
from typing import Any

from imsbench.host import links
from imsbench.host.backend import BackendError, SaBackend
from imsbench.host.control import ControlChannel, child_channel, die_with_parent
from imsbench.host.namespace import HostError, enter_new_network_namespace
from imsbench.protocol.address import split_host_port
from simulators.connection import PeerError
from simulators.core.null import serve
from simulators.core.nullphone import NullSettings, population_of
from simulators.core.service import ReferenceCore, protected_backend
from simulators.core.settings import CoreSettings

EXIT_USAGE, EXIT_HOST, EXIT_DEFECT = 2, 5, 70
TICK_S = 1.0

_LOG = logging.getLogger("simulators.core")


def main() -> int:
    """Run until told to stop; the exit code is imsbench's (5: the host lacks something)."""
    channel = child_channel()
    level = logging.INFO if channel is None else logging.WARNING
    logging.basicConfig(level=level, format="core: %(message)s")
    try:
        if channel is None:
            return _run_by_hand(sys.argv[1:])
        die_with_parent()
        return _run_as_child(channel)
    except (OSError, BackendError, HostError, links.LinkError, PeerError) as error:
        return _failed(channel, error, EXIT_HOST)
    except (ValueError, KeyError, TypeError) as error:
        return _failed(channel, error, EXIT_USAGE if channel is None else EXIT_DEFECT)


def _failed(channel: ControlChannel | None, error: Exception, code: int) -> int:
    text = f"{type(error).__name__}: {error}"
    if channel is not None:
        channel.send("error", text=f"core: {text}", exit=code)
    _LOG.error("%s", text, exc_info=code == EXIT_DEFECT)
    return code


def _run_as_child(channel: ControlChannel) -> int:
    if os.environ.get("IMSBENCH_NAMESPACE") == "new":
        enter_new_network_namespace()
        channel.send("namespace", pid=os.getpid())
    config = channel.wait("config")
    _prepare_host(config)
    if config.get("null"):
        serve(NullSettings.from_config(config), channel)
    else:
        _run_core(CoreSettings.from_config(config), channel)
    return 0


def _prepare_host(config: dict[str, Any]) -> None:
    """Links, addresses and routes of the namespace this process is in."""
    for link in config.get("links", ()):
        links.configure_link(link["name"], link["address"], link["prefix"])
    for address in config.get("addresses", ()):
        links.configure_link("lo", address, 128 if ":" in address else 32)
    for prefix, via in config.get("routes", ()):
        links.add_route(prefix, via=via)


def _run_by_hand(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m simulators.core", description=__doc__)
    parser.add_argument("profile", help="profile (YAML): subscribers, IPsec, expiry")
    parser.add_argument("--listen", required=True, help="ADDRESS[:PORT] of the P-CSCF")
    parser.add_argument("--hss", default="127.0.0.1:3868", help="ADDRESS:PORT of the HSS")
    parser.add_argument("--pcrf", default="", help="ADDRESS:PORT of the PCRF; without it no Rx")
    parser.add_argument("--null", action="store_true", help="the null target, without a HSS")
    options = parser.parse_args(arguments)
    config = _config_of(options.profile)
    host, port = _split(options.listen, 5060)
    config["listen"] = [host, port]
    config["hss"] = list(_split(options.hss, 3868))
    config["pcrf"] = list(_split(options.pcrf, 3868)) if options.pcrf else None
    config["ip_version"] = 6 if ":" in host else 4
    if options.null:
        serve(NullSettings.from_config(config), None)
    else:
        _run_core(CoreSettings.from_config(config), None)
    return 0


def _split(text: str, default_port: int) -> tuple[str, int]:
    """ADDRESS or ADDRESS:PORT; an IPv6 address needs brackets only beside a port."""
    if text.count(":") > 1 and not text.startswith("["):
        return text, default_port
    host, port = split_host_port(text)
    return host, port or default_port


def _config_of(path: str) -> dict[str, Any]:
    """What the control channel would bring, out of a profile."""
    # Only here: a coordinator sends plain settings instead.
    from imsbench.profile import ProfileError, load_profile

    try:
        profile = load_profile(path)
    except ProfileError as error:
        raise ValueError(str(error)) from error
    population = profile.subscribers.model_dump() | {"seed": profile.seed}
    population["domain"] = population["domain"].lower()
    target = profile.target
    return {
        "domain": population_of(population).home_domain,
        "population": population,
        "ipsec": profile.target_ipsec,
        "algs": [[alg, ealg] for alg, ealg in profile.phones.mechanisms],
        "expires_s": target.expires,
        "min_expires_s": target.min_expires,
        "reauthenticate": target.reauthenticate,
        "loss_share": target.loss_share,
        "delay": {
            "kind": target.delay.kind,
            "mean_s": target.delay.mean,
            "sigma": target.delay.sigma,
        },
        "timers": list(profile.phones.timer_values),
        "seed": profile.seed,
    }


def _run_core(settings: CoreSettings, channel: ControlChannel | None) -> None:
    backend = protected_backend(settings)
    asyncio.run(_serve(settings, backend, channel))


async def _serve(
    settings: CoreSettings, backend: SaBackend | None, channel: ControlChannel | None
) -> None:
    core = ReferenceCore(settings, backend)
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    if channel is not None:
        channel.setblocking(False)
        loop.add_reader(channel.fileno(), _on_control, channel, stopped)
    await core.start()
    gc.collect()
    gc.freeze()  # what stands now is not walked again
    if channel is not None:
        channel.send("ready")
    else:
        _LOG.info("P-CSCF at %s port %s", *core.address)
    while not stopped.is_set():
        try:
            async with asyncio.timeout(TICK_S):
                await stopped.wait()
        except TimeoutError:
            if channel is not None:
                channel.send("tick", counts=core.counts(), cpu_s=time.process_time())
    result = core.result()
    await core.close(keep_backend=channel is not None)
    _LOG.info("%s", result)
    if channel is not None:
        channel.send("result", **result)


def _on_control(channel: ControlChannel, stopped: asyncio.Event) -> None:
    if any(message["type"] == "stop" for message in channel.receive()) or channel.closed:
        stopped.set()


if __name__ == "__main__":
    sys.exit(main())
