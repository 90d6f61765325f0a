"""Arguments that several commands have: the profile, its target, what is captured."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from imsbench.profile import Profile, load_profile
from imsbench.run import derive, execute, exits
from imsbench.run.capture import DEFAULT_PHONES, CaptureOrder
from imsbench.run.exits import RunRefused

DEMO = "quickstart"
"""The profile of the demo, and of one phone where none is given."""
Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""What a command is added to; argparse has no public name for it."""


def add_profile(
    command: argparse.ArgumentParser,
    function: Callable[[argparse.Namespace], int],
    *,
    required: bool,
) -> None:
    """The profile of a command, and the target that may stand for its own."""
    text = "a YAML file, or the name of a shipped one"
    if required:
        command.add_argument("profile", metavar="PROFILE", help=text)
    else:
        command.add_argument("profile", metavar="PROFILE", help=text, nargs="?", default=DEMO)
    command.add_argument(
        "--target",
        metavar="T",
        help="instead of the profile's target: embedded, null, lab, or ADDRESS:PORT of a P-CSCF",
    )
    command.set_defaults(command=function)


def add_out(command: argparse.ArgumentParser) -> None:
    """Where results go."""
    command.add_argument(
        "--out", metavar="DIR", type=Path, default=Path("results"), help="default: results/"
    )


def add_pcap(command: argparse.ArgumentParser) -> None:
    """The file of a capture."""
    command.add_argument(
        "--pcap",
        metavar="FILE",
        type=Path,
        help="capture phones' packets on the outer link, pcapng; their ESP keys in FILE.esp_sa",
    )


def capture(arguments: argparse.Namespace) -> CaptureOrder | None:
    """The capture that is wanted; RunRefused where a number of phones comes without a file."""
    if arguments.pcap is None:
        if arguments.pcap_phones is not None:
            raise RunRefused("--pcap-phones goes with --pcap FILE", exits.USAGE)
        return None
    phones = DEFAULT_PHONES if arguments.pcap_phones is None else arguments.pcap_phones
    return CaptureOrder(arguments.pcap, phones)


def positive(text: str) -> int:
    """A whole number from 1; ValueError, which argparse turns into its usage error."""
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def load(arguments: argparse.Namespace) -> Profile:
    """The profile, checked with its thresholds, against the target of the arguments."""
    profile = load_profile(arguments.profile, execute.threshold_problem)
    return derive.with_target(profile, arguments.target) if arguments.target else profile
