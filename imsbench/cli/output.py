"""What commands print: results to standard output, all else to standard error."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import TextIO

from rich.console import Console
from rich.markdown import Markdown

from imsbench.run import execute, exits


def print_markdown(text: str) -> None:
    """To a terminal as it reads best, else as it is."""
    console = Console()
    if console.is_terminal:
        console.print(Markdown(text))
    else:
        print(text)


def drop_output() -> None:
    """Let the interpreter's last flush of standard output go nowhere instead of failing."""
    _drop(sys.stdout)


def _drop(stream: TextIO) -> None:
    with suppress(OSError, ValueError):  # a stream without a descriptor
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def put(text: str | Iterable[str]) -> int:
    """What a command was asked for, to standard output; the exit code. BrokenPipeError passes."""
    try:
        sys.stdout.writelines([text] if isinstance(text, str) else text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        return output_lost(error)
    return exits.KEPT


def output_lost(error: OSError) -> int:
    """Say that standard output took no more (a full disk behind it); the exit code for it."""
    drop_output()
    complain(f"standard output could not be written: {error.strerror}")
    return exits.HOST_LACKS


def say(text: str) -> None:
    """Progress and remarks, a line each; lost where standard error takes no more: the run goes on."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        _drop(sys.stderr)


def complain(text: str) -> None:
    """What went wrong, under the program's name."""
    say(f"imsbench: {text}")


def finish(finished: execute.Finished) -> int:
    """Print the report and the verdict of what is over; the exit code."""
    stored = finished.stored
    for problem in stored.problems:
        complain(problem)
    lines = [*finished.verdict, *finished.captures]
    if stored.files:
        lines.append(f"Result: {', '.join(map(str, stored.files))}")
    try:
        if stored.report:
            print_markdown(stored.report)
        print("\n".join(lines), flush=True)
    except BrokenPipeError:  # the reader has seen enough; the run's own exit code stands
        drop_output()
    except OSError as error:
        return exits.gravest((finished.exit_code, output_lost(error)))
    return finished.exit_code
