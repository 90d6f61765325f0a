"""``python -m tests.fuzz TARGET --count N --seed S [--seconds T]``: fuzz one target, or ``all``."""

from __future__ import annotations

import argparse
import logging
import resource
import sys
import traceback

from tests.fuzz.harness import Report, Target, fuzz, save
from tests.fuzz.targets import TARGETS

_MEMORY_BYTES = 2 << 30


def main() -> int:
    """The number of targets with findings, as an exit code."""
    names = "\n".join(f"  {target.name:<14} {target.reads}" for target in TARGETS.values())
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz",
        description=f"targets:\n{names}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("target", choices=[*TARGETS, "all"], metavar="TARGET")
    parser.add_argument("--count", type=int, default=10_000, help="inputs (default 10000)")
    parser.add_argument("--seed", type=int, default=1, help="of the mutations (default 1)")
    parser.add_argument("--seconds", type=float, default=0.0, help="stop after so many")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)  # what a simulator logs of an input is no finding
    # What wants more memory than this gets a MemoryError, which is a finding.
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    chosen = list(TARGETS.values()) if options.target == "all" else [TARGETS[options.target]]
    return sum(_run(target, options.count, options.seed, options.seconds) for target in chosen)


def _run(target: Target, count: int, seed: int, limit_s: float) -> bool:
    report: Report = fuzz(target, count, seed, limit_s=limit_s)
    sys.stdout.write(f"{report}\n")
    for finding in report.findings:
        path = save(finding, target.name)
        sys.stdout.write(f"  {finding}\n    {path}\n    {finding.data[:200]!r}\n")
        for line in traceback.format_tb(finding.error.__traceback__)[-4:]:
            sys.stdout.write(f"    {line.splitlines()[0].strip()}\n")
    sys.stdout.flush()
    return bool(report.findings)


if __name__ == "__main__":
    sys.exit(main())
