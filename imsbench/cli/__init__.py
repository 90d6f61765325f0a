"""The command line: arguments, progress, exit codes. The only room that prints.

Results go to standard output, progress to standard error. Exit codes are in ``run/exits``. Each group
of commands is a module here, whose ``add`` adds them.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Callable, Sequence

import imsbench
from imsbench.cli import calibrate, lab, load, onephone, other, report, search, show
from imsbench.cli.output import complain, drop_output
from imsbench.profile import ProfileError
from imsbench.run import exits
from imsbench.run.exits import RunRefused

_EPILOG = """\
exit codes: 0 every threshold kept; 1 a threshold broken, or the target never there; 2 usage or
profile error; 3 the generator was not able to vouch for the run; 4 the target died; 5 the host lacks
something; 70 a defect of imsbench; 130 interrupted. The gravest wins (70, 130, 5, 4, 3, 1).
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments and arguments[0] in other.SIMULATORS:
        return other.simulator(arguments[0], arguments[1:])
    chosen = _parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], int] = chosen.command
    try:
        return command(chosen)
    except ProfileError as error:
        complain(str(error))
        return exits.USAGE
    except RunRefused as refusal:
        complain(str(refusal))
        return refusal.exit_code
    except KeyboardInterrupt:
        return exits.INTERRUPTED
    except BrokenPipeError:  # the reader of our output has gone: nobody is left to tell
        drop_output()
        return exits.KEPT
    except Exception:
        traceback.print_exc()
        complain("this is a defect of imsbench: please report it with the lines above")
        return exits.DEFECT


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="imsbench",
        description="Capacity benchmark for IMS cores: plays the phones, the HSS and the PCRF around a core.",
        epilog=_EPILOG,
    )
    parser.add_argument("--version", action="version", version=f"imsbench {imsbench.__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for group in (load, search, onephone, lab, calibrate, report, show, other):
        group.add(commands)
    return parser
