"""Kamailio with its P-CSCF in user-mode Linux: kernel ESP there, ours here, every procedure inside it.

On the wire, read by tshark: each of a phone's four security associations carries packets, and nothing
but ESP leaves from or reaches a protected port.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from imsbench.lab import packages, uml
from imsbench.run import exits

ROOT = Path(__file__).resolve().parent.parent.parent
LACKING = packages.advice(packages.missing()) or uml.missing()
pytestmark = [
    pytest.mark.net,
    pytest.mark.tun,
    pytest.mark.slow,
    pytest.mark.skipif(LACKING != "", reason=LACKING),
    pytest.mark.skipif(shutil.which("tshark") is None, reason="no tshark on this machine"),
]

PHONES = 4
PROFILE = f"""
name: guest
subscribers: {{count: {PHONES}}}
phones: {{ipsec: userspace, ealgs: [EALG]}}
generator: {{arrivals: constant}}
target:
  kind: lab
  lab: {{variant: uml, children: 1, ipsec_entries: 24, provoke: [PROVOKE]}}
  expires: 60s
  min_expires: 30s
phases:
  - fill: {{rate: 1, to: {PHONES}}}
  - cycle: {{rate: 1}}
"""
REFRESH = "  - hold: {duration: 40s}\n  - cycle: {rate: 1}\n"
"""Every phone refreshes, at half of its expiry; and starts anew, so that none does while it calls."""
CALLS = "  - calls: {rate: 0.5, duration: 20s, warm_up: 1s, hold: {mean: 1s}}\n"
PCSCF = "198.19.0.10"
FIRST_PROTECTED, LAST_PROTECTED = 40_000, 59_999


def run(
    folder: Path, text: str, *arguments: str, code: int = exits.KEPT
) -> tuple[dict[str, Any], str]:
    """The result of a run that ends with this exit code, and what was printed."""
    path = folder / "guest.yaml"
    path.write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "imsbench", "run", str(path), "--out", str(folder), *arguments],
        cwd=ROOT, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    # A machine too busy to vouch for it says that instead.
    assert done.returncode in (code, exits.UNVOUCHED), done.stdout + done.stderr
    (result,) = folder.glob("*_guest_lab/result.json")
    return json.loads(result.read_text()), done.stdout


def frames(capture: Path) -> list[list[str]]:
    fields = ("ip.src", "ip.dst", "ip.proto", "esp.spi", "tcp.len", "tcp.srcport", "tcp.dstport")
    command = ["tshark", "-r", str(capture), "-T", "fields", "-E", "occurrence=f"]
    for field in fields:
        command += ["-e", field]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return [line.split("\t") for line in done.stdout.splitlines()]


def associations(capture: Path) -> dict[tuple[str, str], list[int]]:
    """SPIs of the ESP packets that each phone sent to the P-CSCF, and those of the other way, in order."""
    seen: dict[tuple[str, str], set[int]] = defaultdict(set)
    for source, destination, protocol, spi, *_ in frames(capture):
        if protocol == "50":
            phone = source if destination == PCSCF else destination
            seen[phone, destination].add(int(spi, 16))
    return {way: sorted(spis) for way, spis in seen.items()}


def in_clear(capture: Path) -> list[list[str]]:
    """TCP outside ESP, from or to a port of an association."""
    found = []
    for frame in frames(capture):
        source, _, _, _, _, *ports = frame
        if any(ports):
            near, far = ports if source == PCSCF else reversed(ports)  # the P-CSCF's, the phone's
            if FIRST_PROTECTED <= int(near) <= LAST_PROTECTED or far == "6101":
                found.append(frame)
    return found


@pytest.mark.parametrize("ealg", ["null", "aes-cbc"])
def test_every_procedure_succeeds_inside_four_associations(tmp_path: Path, ealg: str) -> None:
    text = PROFILE.replace("EALG", f'"{ealg}"').replace("PROVOKE", "") + REFRESH + CALLS
    capture = tmp_path / "guest.pcapng"
    result, _ = run(tmp_path, text, "--pcap", str(capture), "--pcap-phones", str(PHONES))
    wanted = {"registration", "reregistration", "subscription", "deregistration"}
    counts: dict[str, int] = defaultdict(int)
    for step in result["steps"]:
        for name, found in step["kpis"]["procedures"].items():
            assert found["succeeded"] == found["attempted"], (name, step["failures"])
            counts[name] += found["attempted"]
    assert all(counts[name] for name in wanted), counts
    called = result["steps"][-1]["kpis"]["sessions"]
    assert called["planned"] == called["attempted"] > 0, result["steps"][-1]["failures"]
    assert (called["wrong"], called["dropped"]) == (0, 0)
    seen = associations(capture)
    assert len(seen) == 2 * PHONES
    for spis in seen.values():
        # Of two registrations both SPIs of a side: a client's and a server's, one after the other.
        pairs = [spi for spi in spis if spi + 1 in spis]
        assert len(pairs) >= 2, seen
    outside = in_clear(capture)
    assert [frame for frame in outside if frame[0] != PCSCF and frame[4] != "0"] == []
    # A NOTIFY of a registration that has ended may still leave the core so: refused, and told.
    assert bool(outside) == bool(counted(result, "esp clear_in"))


def told_logs(done: Event) -> str:
    """What `lab logs` says while a run is under way, as soon as the guest's P-CSCF has written something."""
    said = ""
    while not done.wait(1.0) and "pcscf: " not in said:
        told = subprocess.run(
            [sys.executable, "-m", "imsbench", "lab", "logs"],
            cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        said = told.stdout
    return said


def test_the_guest_tells_what_its_processes_and_its_kernel_use(tmp_path: Path) -> None:
    text = PROFILE.replace("EALG", '"null"').replace("PROVOKE", "")
    text += "  - hold: {duration: 10s}\n"
    done = Event()
    with ThreadPoolExecutor(1) as beside:
        logs = beside.submit(told_logs, done)
        try:
            result, said = run(tmp_path, text)
        finally:
            done.set()
    assert "pcscf: " in logs.result()
    assert "scscf: " in logs.result()
    assert result["idle"]["kernel_memory_bytes"] > 10 << 20
    held = result["steps"][-1]["sut"]
    assert 0 < held["cpu_cores"] < 2, held
    assert held["memory_kind"] == "pss"
    assert held["processes"] > 2 * 24  # each entry of the pool has processes of its own
    assert "Kernel memory per registered subscriber" in said


def counted(result: dict[str, Any], name: str) -> int:
    return sum(int(worker["counters"].get(name, 0)) for worker in result["workers"])


CLEAR = {
    "clear_requests": "clear_connection_to_port_us_by_target",
    "clear_deregistration": "esp clear_responses_in",
}


@pytest.mark.parametrize("defect", CLEAR)
def test_what_leaves_in_clear_is_told_by_name(tmp_path: Path, defect: str) -> None:
    result, said = run(tmp_path, PROFILE.replace("EALG", '"null"').replace("PROVOKE", defect))
    assert counted(result, CLEAR[defect]) > 0
    assert CLEAR[defect] in said.replace("\\", "")


def test_a_pool_that_is_used_up_is_told_by_name(tmp_path: Path) -> None:
    text = PROFILE.replace("EALG", '"null"').replace("PROVOKE", "small_pool")
    result, _ = run(tmp_path, text, code=exits.BROKEN)  # the cycle wants all of them registered
    causes = {failure["cause"] for step in result["steps"] for failure in step["failures"]}
    assert "no Security-Server" in causes  # a busy guest may let others time out beside them
    registered = [step["registered_after"] for step in result["steps"]]
    assert 0 < registered[0] <= PHONES // 2
