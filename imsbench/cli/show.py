"""The command show: why attempts of a run failed, and the ladder of each kind of failure."""

from __future__ import annotations

import argparse
from pathlib import Path

from imsbench.cli.arguments import Commands, positive
from imsbench.cli.output import put
from imsbench.run import why


def add(commands: Commands) -> None:
    """Add it to the command line."""
    show = commands.add_parser(
        "show",
        help="why attempts of a run failed: every kind, and with --failure N its first ladder",
        description="List a result's failures by group, procedure, stage and cause; or show one of them.",
    )
    show.add_argument("result", metavar="RESULT", type=Path, help="a result.json, or its folder")
    show.add_argument(
        "--failure", metavar="N", type=positive, help="the first of this kind, message by message"
    )
    show.set_defaults(command=_show)


def _show(arguments: argparse.Namespace) -> int:
    return put("\n".join(why.lines(arguments.result, arguments.failure)) + "\n")
