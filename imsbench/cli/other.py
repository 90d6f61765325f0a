"""Commands around a run: subscribers, enter, and the simulators alone."""

from __future__ import annotations

import argparse
import os
import sys

from imsbench.cli.arguments import Commands
from imsbench.cli.output import complain, put, say
from imsbench.profile import load_profile
from imsbench.run import execute, exits, find, process, provision

SIMULATORS = {
    "hss": ("simulators.hss", "the HSS simulator"),
    "pcrf": ("simulators.pcrf", "the PCRF simulator"),
    "core": ("simulators.core", "the reference core"),
}
"""Command, module and title of each."""


def add(commands: Commands) -> None:
    """Add them to the command line."""
    subscribers = commands.add_parser(
        "subscribers",
        help="a profile's subscribers, to provision a core's own HSS",
        description="Print the subscribers, a line each, keys in clear: csv (number, IMPI, IMPUs, MSISDN, "
        "K, and OPc or OP), pyhss (JSON for PyHSS's REST API) or open5gs (JSON for mongoimport). "
        "docs/your-core.md tells how each is loaded.",
    )
    subscribers.add_argument(
        "profile", metavar="PROFILE", help="a YAML file, or the name of a shipped one"
    )
    subscribers.add_argument(
        "--format", choices=sorted(provision.FORMATS), default="csv", help="default: csv"
    )
    subscribers.set_defaults(command=_subscribers)
    _add_enter(commands)
    for name, (_, text) in SIMULATORS.items():
        commands.add_parser(name, help=f"{text} alone; imsbench {name} --help tells its options")


def _add_enter(commands: Commands) -> None:
    enter = commands.add_parser(
        "enter",
        help="a shell in the network namespace of a running worker, core, hss or pcrf",
        description="Open a shell (or run a command) in the namespace of a run in progress.",
        epilog="example: imsbench enter worker-0 tcpdump -ni ims0",
    )
    enter.add_argument(
        "worker",
        metavar="WORKER",
        help="worker-0 (or 0), core, hss, pcrf; a process id of one, or of a run (its worker-0)",
    )
    enter.add_argument("argv", metavar="COMMAND", nargs=argparse.REMAINDER, help="default: $SHELL")
    enter.set_defaults(command=_enter)


def simulator(name: str, arguments: list[str]) -> int:
    """Become the simulator: the same module that a run starts, without a coordinator."""
    sys.stdout.flush()
    command = [sys.executable, "-P", "-m", SIMULATORS[name][0], *arguments]
    os.execve(sys.executable, command, process.own_environment())


def _subscribers(arguments: argparse.Namespace) -> int:
    profile = load_profile(arguments.profile, execute.threshold_problem)
    try:
        lines = provision.subscriber_lines(profile, arguments.format)
    except ValueError as error:
        complain(str(error))
        return exits.USAGE
    return put(lines)


def _enter(arguments: argparse.Namespace) -> int:
    children = find.running()
    found = find.matching(children, arguments.worker)
    if len(found) == 1:
        shell = arguments.argv or [os.environ.get("SHELL", "/bin/sh")]
        command = find.enter_command(found[0], shell)
        sys.stdout.flush()
        try:
            os.execvp(command[0], command)
        except OSError as error:
            complain(f"{command[0]}: {error.strerror}; it is in the package util-linux")
            return exits.HOST_LACKS
    if not children:
        complain("no run is in progress (or none that this user may look at)")
        return exits.USAGE
    what = "several runs have" if found else "no run in progress has"
    complain(f"{what} a child {arguments.worker!r}; name one, or give its process id:")
    for child in found or children:
        say(f"  {child.name:<12} pid {child.pid}, of the run with pid {child.coordinator}")
    return exits.USAGE
