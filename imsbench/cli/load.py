"""Commands that put a profile's load on its target: demo, run."""

from __future__ import annotations

import argparse
from pathlib import Path

from imsbench.cli.arguments import (
    DEMO,
    Commands,
    add_out,
    add_pcap,
    add_profile,
    capture,
    load,
    positive,
)
from imsbench.cli.output import finish, say
from imsbench.profile import Profile, load_profile, shipped_profiles
from imsbench.run import execute, exits, network, preflight
from imsbench.run.capture import DEFAULT_PHONES, CaptureOrder
from imsbench.run.display import Display


def add(commands: Commands) -> None:
    """Add them to the command line."""
    demo = commands.add_parser(
        "demo",
        help="embedded core, HSS and PCRF, 200 phones, calls, the tables: about a minute",
        description="Run the quickstart profile against the embedded reference core.",
    )
    add_out(demo)
    demo.set_defaults(command=_demo)
    run = commands.add_parser(
        "run",
        help="run a profile and write its result",
        description="Run the whole load of a profile; result.json and report.md are written.",
        epilog=f"profiles that come with imsbench: {', '.join(shipped_profiles())}",
    )
    add_profile(run, _run, required=True)
    add_out(run)
    add_pcap(run)
    run.add_argument(
        "--pcap-phones",
        metavar="N",
        type=positive,
        help=f"how many phones, the first ones (default: {DEFAULT_PHONES})",
    )


def _demo(arguments: argparse.Namespace) -> int:
    return run_profile(load_profile(DEMO), arguments.out, unvouched=exits.KEPT)


def _run(arguments: argparse.Namespace) -> int:
    return run_profile(load(arguments), arguments.out, pcap=capture(arguments))


def run_profile(
    profile: Profile,
    out: Path,
    *,
    pcap: CaptureOrder | None = None,
    unvouched: int = exits.UNVOUCHED,
) -> int:
    """Run a profile, print its report and verdict; the exit code."""
    network.become_capable(profile)
    preflight.refuse_if_lacking(profile)
    say(profile.describe())
    with Display(say) as watch:
        finished = execute.execute(profile, watch, out, pcap=pcap, unvouched=unvouched)
    return finish(finished)
