"""Why attempts of a run on disk failed, in lines for a person."""

from __future__ import annotations

from pathlib import Path

from imsbench.report import failures
from imsbench.report.form import plain
from imsbench.report.result import RunResult
from imsbench.run.advice import advice
from imsbench.run.execute import stored_result
from imsbench.run.exits import USAGE, RunRefused


def lines(path: Path, number: int | None) -> list[str]:
    """Every kind of failure of a result, or the first of kind ``number``; RunRefused if there is none."""
    result = stored_result(path)
    found = failures.kinds(result)
    if number is None:
        if not found:
            return ["No attempt failed."]
        return [*failures.listed(found), "", "The first of a kind: --failure N"]
    if number > len(found):
        there = f"there are {len(found)}" if found else "no attempt failed"
        raise RunRefused(f"{path}: there is no failure {number}: {there}", USAGE)
    return _one(result, found[number - 1])


def _one(result: RunResult, kind: failures.Kind) -> list[str]:
    first = kind.first
    told = [f"{kind.number}. {kind.describe()}", f"   {kind.group}; {kind.count:,} of this kind"]
    if first is None:
        return [*told, "   None of them is kept: the step has too many kinds of failures."]
    if first.detail:
        told.append(f"   the far end said: {plain(first.detail)}")
    told.append(f"   {advice(result.profile, kind.stage, kind.cause, first.detail)}")
    ladder = list(kind.ladder())
    if ladder:
        told += [
            "",
            *ladder,
            "",
            "times count from the instant at which it was due; * inside a security association",
        ]
    return told
