"""A whole search by the command line against the reference core with a limit that is known."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from imsbench.report.result import read_result

# The generator's limits are wide: what is tested is the search, on whatever machine this is.
PROFILE = """
name: limited
subscribers: {count: 400}
phones: {ipsec: 'off'}
target: {limiter: {registrations: 20/s, burst: 6}}
phases: [{fill: {rate: 20/s, to: 1}}]
search:
  registration: {start: 16/s, increase: 4/s}
  time_limits: {registration: 10s, subscription: 10s, deregistration: 10s}
  stir: 1s
  transient: 1s
  duration: 5s
  release: 100/s
generator:
  arrivals: constant
  limits: {due: 5s, lateness: 5s, host_cpu: 1.0, steal: 1.0, gc_pause: 5s, clock_jump: 5s,
           resent: 1.0, simulator_mean: 5s, simulator_p99: 5s, simulator_stall: 5s}
"""


@pytest.mark.net
@pytest.mark.slow
def test_a_search_finds_the_limit_of_the_reference_core(tmp_path: Path) -> None:
    profile = tmp_path / "limited.yaml"
    profile.write_text(PROFILE)
    command = [
        sys.executable, "-m", "imsbench", "search", str(profile),
        "--procedure", "registration", "--method", "stepped", "--out", str(tmp_path),
    ]  # fmt: skip
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=600, env=dict(os.environ)
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (
        "Begin at 16 attempts/s; after each step that meets the objective add 4/s." in done.stderr
    )
    (folder,) = tmp_path.glob("*_limited_embedded")
    found = read_result(folder).search
    assert found is not None
    assert (found.outcome, found.low, found.high) == ("found", 20.0, 24.0)
    assert found.broke == "initial_registration_success_rate"
    assert [(one.stage, one.cause) for one in found.causes] == [("challenge", "503")]
    overload = next(one for one in found.trials if one.role == "overload")
    assert overload.offered == 30.0
    # The core takes 20/s, and at most the bucket's six beside.
    assert 20.0 * 0.9 <= overload.succeeded <= 20.0 + 6 / 5 + 0.1
    relief = [one for one in found.trials if one.role == "relief"]
    assert relief
    assert found.relief_s is not None or not all(one.vouched for one in relief)
    assert (
        "**Capacity: 20/s (the limit lies in 20 to 24; confirmed)"
        in (folder / "report.md").read_text()
    )
