"""The command that finds a target's capacity: search."""

from __future__ import annotations

import argparse
from typing import get_args

from imsbench.cli.arguments import Commands, add_out, add_profile, load
from imsbench.cli.output import finish, say
from imsbench.profile import SearchProcedure
from imsbench.run import network, preflight
from imsbench.run.display import Display
from imsbench.search import execute
from imsbench.search.methods import METHODS


def add(commands: Commands) -> None:
    """Add it to the command line."""
    search = commands.add_parser(
        "search",
        help="capacity: the highest load whose failures stay within the objective, confirmed",
        description="Find the highest load at which attempts that fail, or take too long, stay within "
        "the objective of the profile (its section search), confirm it, and see what an overload leaves.",
        epilog="exit codes: 0 found and confirmed; 1 not; 3 the generator, or the number of phones, is "
        "the limit; the others as everywhere",
    )
    add_profile(search, _search, required=True)
    search.add_argument(
        "--procedure", choices=get_args(SearchProcedure), default="registration",
        help="what the target is loaded with (default: registration)",
    )  # fmt: skip
    search.add_argument(
        "--method", choices=list(METHODS), default="stepped",
        help="stepped, after ETSI TS 186 008 (default); the search of RFC 7502 §4.10; bisection",
    )  # fmt: skip
    add_out(search)


def _search(arguments: argparse.Namespace) -> int:
    plan = execute.prepare(load(arguments), arguments.procedure, arguments.method)
    network.become_capable(plan.profile)
    preflight.refuse_if_lacking(plan.for_host)
    for line in execute.announce(plan):
        say(line)
    with Display(say) as watch:
        finished = execute.execute(plan, watch, arguments.out)
    return finish(finished)
