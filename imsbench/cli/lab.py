"""The command lab: a real core that is started beside the phones, for one run or to stand by itself."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import get_args

from imsbench.cli.arguments import Commands, add_out
from imsbench.cli.load import run_profile
from imsbench.cli.output import complain, say
from imsbench.host import addresses
from imsbench.lab import keeper, packages, readiness
from imsbench.lab.settings import Endpoint
from imsbench.profile import Profile, load_profile
from imsbench.profile.lab import Defect, Variant
from imsbench.protocol.address import host_port
from imsbench.run import configs, derive, execute, exits, find, topology
from imsbench.run.display import Display
from imsbench.run.exits import RunRefused

_CORES = ("kamailio",)
_TAIL_LINES = 200


def add(commands: Commands) -> None:
    """Add it to the command line."""
    lab = commands.add_parser(
        "lab",
        help="a real core (Kamailio) started here: run a profile against it, or keep it up",
        description="A real IMS core from this machine's packages, for runs without a core of your own.",
    )
    actions = lab.add_subparsers(title="actions", required=True, metavar="ACTION")
    run = actions.add_parser("run", help="start it, run a profile against it, stop it")
    _add_profile(run)
    add_out(run)
    run.set_defaults(command=_run)
    up = actions.add_parser(
        "up",
        help="start it with HSS and PCRF for the subscribers of a profile, and leave it up",
        description="Keep a core up on this host: aim at it with imsbench register PROFILE --target "
        "198.19.0.10:5060, or with any other tool. Needs root.",
    )
    _add_profile(up)
    up.set_defaults(command=_up)
    for name, function, text in (
        ("down", _down, "end the one that is up"),
        ("status", _status, "whether one is up, and what answers"),
        ("logs", _logs, "the end of its servers' logs, also during a run"),
    ):
        action = actions.add_parser(name, help=text)
        action.add_argument("core", metavar="CORE", nargs="?", choices=_CORES, help="kamailio")
        action.set_defaults(command=function)


def _add_profile(action: argparse.ArgumentParser) -> None:
    action.add_argument("core", metavar="CORE", choices=_CORES, help="kamailio")
    action.add_argument("profile", metavar="PROFILE", help="a YAML file, or a shipped one's name")
    action.add_argument(
        "--variant",
        choices=get_args(Variant),
        default="",
        help="default: as the profile says",
    )
    action.add_argument(
        "--provoke",
        action="append",
        choices=get_args(Defect),
        default=[],
        help="a defect that its configuration else avoids, to see that it is noticed; may be repeated",
    )


def _load(arguments: argparse.Namespace) -> Profile:
    """The profile, against the lab; RunRefused where this machine lacks its packages."""
    profile = load_profile(arguments.profile, execute.threshold_problem)
    profile = derive.with_lab(profile, arguments.core, arguments.variant, arguments.provoke)
    if lacking := packages.advice(packages.missing()):
        raise RunRefused(lacking, exits.HOST_LACKS)
    return derive.with_version(profile, packages.version())


def _run(arguments: argparse.Namespace) -> int:
    return run_profile(_load(arguments), arguments.out)


def _up(arguments: argparse.Namespace) -> int:
    profile = _load(arguments)
    with Display(say) as watch:
        keeper.start(profile, watch)
    address, port = configs.pcscf(profile)
    print(f"{profile.target.title} is up: its P-CSCF serves phones at {address}:{port}.")
    print(f"Try: imsbench register {arguments.profile} --target {address}:{port}")
    return exits.KEPT


def _down(_arguments: argparse.Namespace) -> int:
    found = keeper.find()
    for pid in found:
        keeper.end(pid)
    print("The lab is down." if found else "No lab is up.")
    return exits.KEPT


def _status(_arguments: argparse.Namespace) -> int:
    found = keeper.find()
    if not found:
        print("No lab is up.")
        return exits.BROKEN
    print(f"A lab is up, process {found[0]}.")
    for child in find.running():
        if child.coordinator == found[0]:
            print(f"  {child.name:<6} process {child.pid}")
    where = Endpoint(addresses.pcscf_address(4), topology.SIP_PORT)
    answers = readiness.answers_options(where)
    said = "answers" if answers else "does not answer"
    print(f"  P-CSCF {said} OPTIONS at {host_port(*where)}")
    return exits.KEPT if answers else exits.BROKEN


def _logs(_arguments: argparse.Namespace) -> int:
    cores = [child for child in find.running() if child.name == "core"]
    logs = [path for child in cores for path in keeper.log_files(child.pid)]
    if not logs:
        complain("no core of a lab is running (or none that this user may look at)")
        return exits.BROKEN
    for path in logs:
        for line in _tail(path):
            print(f"{path.stem}: {line}")
    return exits.KEPT


def _tail(path: Path) -> list[str]:
    try:
        return path.read_text(errors="replace").splitlines()[-_TAIL_LINES:]
    except OSError:  # it has ended meanwhile
        return []
