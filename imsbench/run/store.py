"""A result onto the disk: whole or not at all, its numbers before its report.

What cannot be written is told, never raised: the run is over, and its report can still be shown.
"""

from __future__ import annotations

import os
import traceback
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from imsbench.report import markdown
from imsbench.report.result import RunResult
from imsbench.run.exits import DEFECT, HOST_LACKS, KEPT, gravest


@dataclass(slots=True)
class Stored:
    """What became of a result."""

    report: str = ""
    """The Markdown report; "" if it could not be made."""
    files: list[Path] = field(default_factory=list)
    """What was written."""
    problems: list[str] = field(default_factory=list)
    """What could not be made or written, and why."""
    exit_code: int = KEPT
    """The exit code that the problems ask for."""

    def problem(self, text: str, exit_code: int) -> None:
        """Note what went wrong."""
        self.problems.append(text)
        self.exit_code = gravest((self.exit_code, exit_code))


def store(result: RunResult, folder: Path) -> Stored:
    """Write ``result.json``, then make and write ``report.md``; the folder is made if need be."""
    stored = Stored()
    _write(stored, folder / "result.json", result.to_json())
    try:
        stored.report = markdown.render(result)
    except Exception:  # a defect of the report must not cost the run
        kept = "; result.json is whole" if stored.files else ""
        stored.problem(
            f"the report could not be made, which is a defect of imsbench{kept}:\n"
            + traceback.format_exc().rstrip(),
            DEFECT,
        )
        return stored
    _write(stored, folder / "report.md", stored.report)
    return stored


def _write(stored: Stored, path: Path, text: str) -> None:
    try:
        path.parent.mkdir(exist_ok=True)
        write_whole(path, text)
    except OSError as error:
        stored.problem(f"{path} could not be written: {error.strerror or error}", HOST_LACKS)
    else:
        stored.files.append(path)


def write_whole(path: Path, text: str) -> None:
    """Write a file so that its name never stands for a part of it; OSError leaves nothing behind."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        with partial.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())  # some file systems find only now that they are full
        partial.replace(path)
    except OSError:
        with suppress(OSError):
            partial.unlink()
        raise
