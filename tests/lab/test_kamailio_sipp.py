"""SIPp and imsbench register with the same Kamailio at the same rate: both succeed every time.

Both come from one network namespace, where a lab stands. Neither subscribes, as SIPp does not. How long
it took is not judged: how busy the machine is decides both (docs/lab.md has figures).
"""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from imsbench.lab import packages
from imsbench.profile import parse_profile
from imsbench.report.result import read_result
from imsbench.run import configs
from tests.interop import site

ROOT = Path(__file__).resolve().parent.parent.parent
LACKING = packages.advice(packages.missing())
pytestmark = [
    pytest.mark.net,
    pytest.mark.slow,
    pytest.mark.skipif(LACKING != "", reason=LACKING),
    pytest.mark.skipif(shutil.which("sipp") is None, reason="needs SIPp: package sip-tester"),
    pytest.mark.skipif(os.geteuid() != 0, reason="a lab that stands is joined with the host: root"),
]

EACH = 60
"""Registrations of either."""
PROFILE = f"""
name: side
seed: {site.fit_seed(2 * EACH)}
subscribers: {{count: {2 * EACH}, k: "{site.K.hex()}", op: "{site.OP.hex()}"}}
phones: {{ipsec: "off", subscribe_reg_event: false}}
target: {{kind: lab}}
phases: [{{fill: {{rate: 10, to: {EACH}}}}}]
generator: {{arrivals: constant}}
"""
BESIDE_A_LAB = """
import subprocess, sys
from imsbench.host import links, namespace
namespace.enter_new_network_namespace()
links.set_sysctl("net/ipv4/ip_forward", 1)
imsbench = [sys.executable, "-m", "imsbench"]
folder, domain, count = sys.argv[1:]
subprocess.run([*imsbench, "lab", "up", "kamailio", f"{folder}/side.yaml"], check=True)
try:
    subprocess.run([
        "sipp", "198.19.0.10:5060", "-sf", f"{folder}/scenario.xml", "-i", "198.19.255.253", "-t", "t1",
        "-inf", f"{folder}/users.csv", "-key", "domain", domain, "-m", count, "-r", "10",
        "-timeout", "60s", "-timeout_error", "-nostdin", "-trace_stat", "-stf", f"{folder}/stat.csv",
        "-fd", "1",
    ], check=True, stdout=subprocess.DEVNULL, cwd=folder)
    target = ["--target", "198.19.0.10:5060", "--out", folder]
    done = subprocess.run([*imsbench, "run", f"{folder}/side.yaml", *target], check=False)
    assert done.returncode in (0, 3), done.returncode
finally:
    subprocess.run([*imsbench, "lab", "down"], check=True)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where both have left what they counted."""
    (tmp_path / "side.yaml").write_text(PROFILE)
    people = configs.population(parse_profile(PROFILE))
    site.write_scenario(tmp_path / "scenario.xml", ["register"])
    # The second half of the subscribers: the first half is imsbench's.
    pairs = [(number, number) for number in range(EACH, 2 * EACH)]
    site.write_users(tmp_path / "users.csv", people, pairs)
    done = subprocess.run(
        [sys.executable, "-c", BESIDE_A_LAB, str(tmp_path), people.home_domain, str(EACH)],
        cwd=ROOT, capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return tmp_path


def test_both_succeed_every_time(folder: Path) -> None:
    with (folder / "stat.csv").open() as file:
        sipp = list(csv.DictReader(file, delimiter=";"))[-1]
    (path,) = folder.glob("*_side_external/result.json")
    ours = read_result(path).steps[0].kpis.procedures["registration"]
    assert int(sipp["SuccessfulCall(C)"]) == ours.succeeded == EACH
    assert int(sipp["FailedCall(C)"]) == 0
