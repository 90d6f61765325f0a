"""Do searches find a limit that is known? ``python -m tests.bench.search [-n N] [-j J] [--out DIR]``

Each of the three methods, for registrations and for calls, N times (5) against the reference core
with its limiter (profiles/search-limiter.yaml). A line each: capacity, interval, error, and what was
at its limit. Exit code 1 if one is more than 5 % off, its interval does not hold
the truth, or it was not found. About six minutes a search, so three hours for all, one after the other, on
a machine that does nothing else. With -j, so many side by side: they make each other late by milliseconds,
so the generator's limits on those are wider then. What is searched for is counted in refusals.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from imsbench.profile import load_profile
from imsbench.report.result import read_result
from imsbench.search.methods import METHODS

PROFILE = "search-limiter"
PROFILES = Path(__file__).resolve().parents[2] / "profiles"
ALLOWED = 0.05
"""Of the truth."""


_WIDER = (
    "generator:\n  limits: {due: 50ms, lateness: 100ms, simulator_mean: 50ms, simulator_p99: 100ms, "
    "simulator_stall: 1s, gc_pause: 500ms}\n"
)


def side_by_side(profile: str, out: Path) -> str:
    """The profile with limits for searches that share a machine, in a file."""
    text = (PROFILES / f"{profile}.yaml").read_text()
    assert text.count("generator:\n") == 1
    path = out / f"{profile}-side-by-side.yaml"
    path.write_text(text.replace("generator:\n", _WIDER))
    return str(path)


def truths(profile: str) -> dict[str, float]:
    """What is to be found, by procedure, per second."""
    limiter = load_profile(profile).target.limiter
    assert limiter.registrations is not None
    assert limiter.calls is not None
    return {"registration": limiter.registrations, "call": limiter.calls}


def one(profile: str, procedure: str, method: str, truth: float, out: Path) -> bool:
    """One search, one line; whether it found the truth."""
    out.mkdir(parents=True)
    command = [sys.executable, "-m", "imsbench", "search", profile]
    command += ["--procedure", procedure, "--method", method, "--out", str(out)]
    began_at = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lasted_s = time.monotonic() - began_at
    folders = list(out.glob("*/result.json"))
    found = read_result(folders[0]).search if folders else None
    head = f"{procedure:<12} {method:<8} {lasted_s:5.0f} s  exit {done.returncode}"
    if found is None or found.low is None or found.high is None:
        why = found.reason if found else done.stderr.strip().rpartition("\n")[2]
        print(f"{head}  {why}", flush=True)
        return False
    error = found.low / truth - 1
    inside = found.low <= truth <= found.high
    print(
        f"{head}  {found.low:7.4g}/s in {found.low:.4g} to {found.high:.4g} of {truth:g}: "
        f"{error:+.1%}, {'holds it' if inside else 'MISSES IT'}; {found.outcome}; {found.resource}",
        flush=True,
    )
    return found.outcome == "found" and inside and abs(error) <= ALLOWED


def main() -> int:
    """All of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=5, help="repetitions (default: 5)")
    parser.add_argument("-j", type=int, default=1, help="searches side by side (default: 1)")
    parser.add_argument("--procedure", choices=("registration", "call"), action="append")
    parser.add_argument("--method", choices=list(METHODS), action="append")
    parser.add_argument("--out", type=Path, help="keep the results here")
    chosen = parser.parse_args()
    with TemporaryDirectory() as temporary, ThreadPoolExecutor(chosen.j) as pool:
        out = chosen.out or Path(temporary)
        out.mkdir(parents=True, exist_ok=True)
        profile = PROFILE if chosen.j == 1 else side_by_side(PROFILE, out)
        # Round by round: were it ended early, each method would have been tried.
        asked = [
            pool.submit(one, profile, procedure, method, truth, out / f"{procedure}-{method}-{n}")
            for n in range(1, chosen.n + 1)
            for method in chosen.method or METHODS
            for procedure, truth in truths(PROFILE).items()
            if procedure in (chosen.procedure or (procedure,))
        ]
        found = [search.result() for search in asked]
    print(f"{sum(found)} of {len(found)} found the truth within {ALLOWED:.0%}, inside the interval")
    return 0 if all(found) else 1


if __name__ == "__main__":
    sys.exit(main())
