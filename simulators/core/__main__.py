"""The reference core, or the null target, as a process of its own.

Started by a coordinator it is configured over the control channel (imsbench.host.control); by hand, as
``imsbench core``, by a profile and options. Then it stands in a network namespace that outlives it, says
what it changes there, and gives it back at its end.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from typing import Any

from imsbench.host import garbage, links
from imsbench.host.backend import BackendError, SaBackend
from imsbench.host.child import enter_own_namespace, prepare_namespace
from imsbench.host.control import ControlChannel, child_channel, die_with_parent
from imsbench.host.handback import given_back
from imsbench.host.namespace import HostError
from imsbench.protocol.address import host_port
from simulators import byhand
from simulators.connection import PeerError
from simulators.core.faults import TICK_S, tick, timed_faults
from simulators.core.null import serve
from simulators.core.nullphone import NullSettings, population_of
from simulators.core.service import ReferenceCore, protected_backend, protected_ports
from simulators.core.settings import CoreSettings
from simulators.faults import TimedFaults

EXIT_USAGE, EXIT_HOST, EXIT_DEFECT = 2, 5, 70

HOST_ERRORS = (OSError, BackendError, HostError, links.LinkError, PeerError)
"""What the host, or the network, refuses; each says what in its text."""
_HELD = {
    "registered": "registered",
    "subscribed": "subscribed",
    "connections": "connections",
    "sas": "security associations",
}

_LOG = logging.getLogger("simulators.core")


def main() -> int:
    """Run until told to stop; the exit code is imsbench's (5: the host lacks something)."""
    channel = child_channel()
    if channel is None:
        byhand.log_to_stderr("imsbench core")
        return _run_by_hand(sys.argv[1:])
    logging.basicConfig(level=logging.WARNING, format="core: %(message)s")
    try:
        die_with_parent()
        _run_as_child(channel)
    except HOST_ERRORS as error:
        return _failed(channel, f"core: {byhand.error_in_words(error)}", EXIT_HOST)
    except (ValueError, KeyError, TypeError) as error:
        return _failed(channel, f"core: {type(error).__name__}: {error}", EXIT_DEFECT)
    return 0


def _failed(channel: ControlChannel, text: str, code: int) -> int:
    channel.send("error", text=text, exit=code)
    _LOG.error("%s", text, exc_info=code == EXIT_DEFECT)
    return code


def _run_as_child(channel: ControlChannel) -> None:
    enter_own_namespace(channel)
    config = channel.wait("config")
    prepare_namespace(config)
    # The backend is left to the namespace, which ends with this process: without SAs, what the kernel
    # still has to send for the connections (a FIN, once more) would leave in clear.
    if config.get("null"):
        null = NullSettings.from_config(config)
        serve(null, protected_backend(null.core), channel)
    else:
        settings = CoreSettings.from_config(config)
        asyncio.run(_serve(settings, protected_backend(settings), channel))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="imsbench core",
        description="The reference core alone, for the subscribers of a profile, until it is interrupted. "
        "It is there to try things out: not a product, and not fast.",
        epilog="With IPsec it changes the network namespace it runs in (the host's, if you start it "
        "there): a device for ESP in user space, rules for its protected ports. It says what, and takes "
        "it back at its end.",
    )
    parser.add_argument("profile", help="YAML, or a shipped one's name: subscribers, IPsec, expiry")
    parser.add_argument(
        "--listen",
        required=True,
        type=byhand.endpoint(5060),
        metavar="ADDRESS[:PORT]",
        help="where the P-CSCF serves phones, on an address of this host (port: 5060)",
    )
    parser.add_argument(
        "--hss",
        default=("127.0.0.1", 3868),
        type=byhand.endpoint(3868),
        metavar="ADDRESS[:PORT]",
        help="its HSS, by Diameter over TCP, waited for (default: 127.0.0.1:3868; see imsbench hss)",
    )
    parser.add_argument(
        "--pcrf",
        type=byhand.endpoint(3868),
        metavar="ADDRESS[:PORT]",
        help="its PCRF, by Diameter over TCP; without it there is no Rx (see imsbench pcrf)",
    )
    parser.add_argument(
        "--null", action="store_true", help="the null target instead, which needs no HSS"
    )
    return parser


def _run_by_hand(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    try:
        config = _config_of(options.profile)
        config["listen"], config["hss"] = options.listen, options.hss
        config["pcrf"] = options.pcrf
        config["ip_version"] = 6 if ":" in options.listen[0] else 4
        null = NullSettings.from_config(config) if options.null else None
        settings = null.core if null is not None else CoreSettings.from_config(config)
    except ValueError as error:
        _LOG.error("%s", error)
        return EXIT_USAGE
    byhand.end_in_order()
    try:
        _serve_by_hand(settings, null)
    except HOST_ERRORS as error:
        _LOG.error("%s", byhand.error_in_words(error))
        return EXIT_HOST
    except KeyboardInterrupt:
        pass  # before it served anything
    except Exception:
        _LOG.exception("this is a defect of imsbench: please report it with these lines")
        return EXIT_DEFECT
    return 0


def _serve_by_hand(settings: CoreSettings, null: NullSettings | None) -> None:
    def serve_with(backend: SaBackend | None) -> None:
        try:
            if null is not None:
                result = serve(null, backend, None)
            else:
                result = asyncio.run(_serve(settings, backend, None))
        finally:
            byhand.end_undisturbed()
        if result:
            _tell(result)

    if settings.ipsec == "off":
        serve_with(None)
        return

    def make() -> SaBackend:
        backend = protected_backend(settings)
        assert backend is not None
        return backend

    with given_back(make, protected_ports(settings), _LOG.info) as backend:
        serve_with(backend)


def _tell(result: dict[str, Any]) -> None:
    """The end of a core started by hand, in words."""
    held = ("registered", "subscribed", "connections", "sas")
    now = ", ".join(f"{result[name]:,} {_HELD[name]}" for name in held if name in result)
    _LOG.info("at the end: %s", now)
    _LOG.info("so far: %s", byhand.counts_in_words(result["counters"]) or "nothing happened")
    gauges = ("raw_buffer", "sas")
    told = {name: n for name, n in result["backend_counters"].items() if name not in gauges}
    esp = byhand.counts_in_words(told)
    if esp:
        _LOG.info("ESP (%s): %s", result["backend"], esp)


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
        "steady_faults": [one.as_config() for one in target.faults],
        "limiter": {
            "registrations_per_s": target.limiter.registrations or 0.0,
            "calls_per_s": target.limiter.calls or 0.0,
            "burst": target.limiter.burst,
        },
        "delay": {
            "kind": target.delay.kind,
            "mean_s": target.delay.mean,
            "sigma": target.delay.sigma,
        },
        "timers": list(profile.phones.timer_values),
        "seed": profile.seed,
    }


async def _serve(
    settings: CoreSettings, backend: SaBackend | None, channel: ControlChannel | None
) -> dict[str, Any]:
    """Serve until told to stop; the result, empty if the core was stopped before it had its HSS."""
    core = ReferenceCore(settings, backend)
    faults = timed_faults(core, channel)
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in byhand.STOP_SIGNALS:
        loop.add_signal_handler(number, stopped.set)
    if channel is not None:
        channel.setblocking(False)
        loop.add_reader(channel.fileno(), _on_control, channel, core, faults, stopped)
    try:
        if not await _start(core, stopped, patient=channel is None):
            return {}
        garbage.settle()
        garbage.keep_young(loop.call_later)
        if channel is not None:
            channel.send("ready")
        await _tick_until(stopped, core, faults, channel)
        result = core.result() | {"timed_faults": faults.to_json()}
    finally:
        await faults.close()
        await core.close(keep_backend=True)
    if channel is not None:
        channel.send("result", **result)
    return result


async def _start(core: ReferenceCore, stopped: asyncio.Event, *, patient: bool) -> bool:
    """Start the core, by hand with a HSS that may come late; False if it was stopped meanwhile."""
    where = host_port(*core.settings.hss)

    def tell(waited_s: float) -> None:
        _LOG.info("waiting for the HSS at %s for %.0f s (imsbench hss starts one)", where, waited_s)

    start = asyncio.create_task(core.start(tell if patient else None))
    stop = asyncio.create_task(stopped.wait())
    await asyncio.wait((start, stop), return_when=asyncio.FIRST_COMPLETED)
    stop.cancel()
    if not start.done():
        start.cancel()
        return False
    await start
    _LOG.info("P-CSCF at %s, HSS at %s", host_port(*core.address), where)
    return True


async def _tick_until(
    stopped: asyncio.Event,
    core: ReferenceCore,
    faults: TimedFaults,
    channel: ControlChannel | None,
) -> None:
    while not stopped.is_set():
        try:
            async with asyncio.timeout(TICK_S):
                await stopped.wait()
        except TimeoutError:
            if channel is not None:
                tick(channel, core, timed_faults=faults.to_json())


def _on_control(
    channel: ControlChannel, core: ReferenceCore, faults: TimedFaults, stopped: asyncio.Event
) -> None:
    for message in channel.receive():
        try:
            if message["type"] == "stop":
                stopped.set()
            elif message["type"] == "forget":
                asyncio.get_running_loop().call_at(float(message["at"]), core.forget)
            elif message["type"] == "fault":
                faults.order(message)
        except (LookupError, TypeError, ValueError) as error:
            core.counters["bad control messages"] += 1
            _LOG.error("control message %r: %r", message, error)
    if channel.closed:
        stopped.set()


if __name__ == "__main__":
    sys.exit(main())
