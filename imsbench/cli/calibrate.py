"""The command that measures known truths: calibrate."""

from __future__ import annotations

import argparse
from pathlib import Path

from imsbench.calibrate import cases, table
from imsbench.calibrate.calibration import Done, calibrate, exit_code
from imsbench.cli.arguments import Commands
from imsbench.cli.output import complain, print_markdown, say
from imsbench.run import exits, network, preflight
from imsbench.run.display import Display
from imsbench.run.exits import RunRefused


def add(commands: Commands) -> None:
    """Add it to the command line."""
    command = commands.add_parser(
        "calibrate",
        help="known truths through the whole chain: truth, measured, error",
        description="Inject known delays, losses, errors and stalls into the reference core, the HSS and "
        "the PCRF, run a load against them, and compare what the result says with what was injected. It "
        "takes minutes, and wants a machine with nothing else to do.",
        epilog="exit code 1: a row is wrong; 3: the generator could not vouch for a case",
    )
    command.add_argument("--short", action="store_true", help="a few cases, in a minute")
    command.add_argument(
        "--out", metavar="FILE", type=Path, help="write the table there too, as Markdown"
    )
    command.set_defaults(command=_calibrate)


def _calibrate(arguments: argparse.Namespace) -> int:
    chosen = cases.cases(cases.SHORT if arguments.short else cases.FULL)
    network.become_capable(chosen[0].profile)
    preflight.refuse_if_lacking(chosen[0].profile)
    if arguments.out is not None:
        _write(arguments.out, "")  # before the load, not after it
    network.enter(chosen[0].profile)
    done: list[Done] = []
    with Display(say) as watch:
        for one in calibrate(chosen, watch):
            done.append(one)
            right = sum(row.ok for row in one.rows)
            say(f"{one.case.title}: {right} of {len(one.rows)} rows right")
    text = table.render(done, done[-1].hosts)
    print_markdown(text)
    if arguments.out is not None:
        _write(arguments.out, text)
    code = exit_code(done)
    if code != exits.KEPT:
        complain(table.summary(done))
    return code


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError as error:
        raise RunRefused(
            f"{path}: cannot be written: {error.strerror}", exits.HOST_LACKS
        ) from error
