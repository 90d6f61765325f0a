"""The command report: results rendered again, in full or as a publication."""

from __future__ import annotations

import argparse
from pathlib import Path

from imsbench.cli.arguments import Commands
from imsbench.cli.output import put
from imsbench.run import execute


def add(commands: Commands) -> None:
    """Add it to the command line."""
    report = commands.add_parser(
        "report",
        help="the Markdown report of results, rendered again; --publish: only the published tables",
        description="Render the report of each result.json (or its folder) to standard output.",
    )
    report.add_argument("results", metavar="RESULT", type=Path, nargs="+")
    report.add_argument(
        "--publish",
        action="store_true",
        help="the tables in published form; refused (exit 3) for what may not be published",
    )
    report.set_defaults(command=_report)


def _report(arguments: argparse.Namespace) -> int:
    render = execute.published if arguments.publish else execute.render
    return put("".join([render(path) for path in arguments.results]))
