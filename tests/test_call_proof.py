"""Calls: a target that does wrong is found out, to the call; and what is on the wire, judged by tshark."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.net, pytest.mark.tun, pytest.mark.slow]

ROOT = Path(__file__).resolve().parent.parent

PROFILE = """
name: calls
subscribers: {{count: {phones}}}
phones: {{ip_version: {version}, ipsec: {ipsec}, transaction_timeout: 2s}}
generator: {{arrivals: constant, drain: 10s}}
target: {{call_faults: {{{faults}}}}}
phases:
  - fill: {{rate: 40, to: {phones}}}
  - calls: {{rate: {rate}, duration: {duration}s, warm_up: 0s, hold: {{mean: {hold}}}{more}}}
"""
CALLS, RATE = 30, 15


def profile(
    *,
    faults: str = "",
    more: str = "",
    version: int = 4,
    ipsec: str = "off",
    hold: str = "1s",
    phones: int = 2 * CALLS,
    rate: int = RATE,
    duration: int = CALLS // RATE,
) -> str:
    """The YAML of a short run with calls."""
    return PROFILE.format(
        faults=faults, more=f", {more}" if more else "", version=version, ipsec=ipsec,
        hold=hold, phones=phones, rate=rate, duration=duration,
    )  # fmt: skip


def run(tmp_path: Path, text: str, *, alteration: str = "", exits: tuple[int, ...] = (0, 3)) -> Any:
    """The result of a run, as JSON; 3 is a machine too busy to vouch, which changes no count."""
    file = tmp_path / "calls.yaml"
    file.write_text(text)
    if alteration:
        command = ["tests.altered_run", alteration, str(file), str(tmp_path)]
    else:
        command = ["imsbench", "run", str(file), "--out", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode in exits, done.stdout + done.stderr
    result = json.loads(next(tmp_path.glob("*_calls_*/result.json")).read_text())
    assert result["exit_code"] == done.returncode
    return result


def sessions(result: Any) -> Any:
    """The session KPIs of the step with calls."""
    return result["steps"][-1]["kpis"]["sessions"]


def failures(result: Any) -> dict[tuple[str, str], int]:
    """What failed, by stage and cause."""
    listed = sessions(result)["failures"]
    return {(one["stage"], one["cause"]): one["count"] for one in listed}


# -- a target that drops calls


def test_calls_that_the_network_ends_early_are_drops(tmp_path: Path) -> None:
    faults = "early_bye_share: 0.3, early_bye: {mean: 300ms}"
    result = run(tmp_path, profile(faults=faults))
    injected = result["core"]["counters"]["early BYEs as injected"]
    found = sessions(result)
    assert found["attempted"] == found["answered"] == CALLS
    assert 2 <= injected <= 20  # a share of 0.3, drawn
    assert found["dropped"] == injected
    assert found["planned"] == CALLS - injected
    report = next(tmp_path.glob("*_calls_*/report.md")).read_text()
    assert f"{CALLS} of {CALLS} were established, {injected} dropped" in report
    assert failures(result) == {("talk", "released by the network"): injected}
    (failure,) = result["steps"][-1]["failures"]
    assert "as injected" in failure["detail"]  # the Reason that the network gave
    for ladder in (failure["ladder"], failure["callee_ladder"]):  # BYEs went to both sides
        assert any(line["direction"] == "<-" and "BYE" in line["text"] for line in ladder)


def test_calls_whose_bye_is_lost_are_drops(tmp_path: Path) -> None:
    result = run(tmp_path, profile(faults="lose_bye_share: 0.3", more="bye_by_callee: 0.5"))
    core = result["core"]["counters"]
    injected = core["calls ended: BYE lost as injected"]
    found = sessions(result)
    assert found["answered"] == CALLS
    assert 2 <= injected <= 20
    assert found["dropped"] == injected
    assert sum(failures(result).values()) == injected
    # Where the called phone hangs up, the calling one waits for its BYE in vain.
    assert set(failures(result)) == {("bye", "timeout"), ("bye", "no bye")}


def test_both_faults_at_once_are_counted_once_a_call(tmp_path: Path) -> None:
    faults = "lose_bye_share: 0.4, early_bye_share: 0.4, early_bye: {kind: uniform, mean: 800ms}"
    result = run(tmp_path, profile(faults=faults))
    core = result["core"]["counters"]
    ended = {name: n for name, n in core.items() if name.startswith("calls ended: ")}
    injected = sum(n for name, n in ended.items() if "injected" in name)
    assert sum(ended.values()) == CALLS
    assert sessions(result)["dropped"] == injected
    assert sessions(result)["planned"] == CALLS - injected


def test_a_target_that_dies_in_mid_calls_leaves_a_result(tmp_path: Path) -> None:
    result = run(tmp_path, profile(faults="die_at_call: 15", hold="200ms"), exits=(4,))
    assert result["status"] == "target_died"
    step = result["steps"][-1]
    assert not step["complete"]
    found = sessions(result)
    # Calls last 0.2 s and are made at 15/s: most had ended as planned, the others fell with the core.
    assert 5 <= found["planned"] <= 15
    assert found["attempted"] <= 15 + 1
    assert next(tmp_path.glob("*_calls_*/report.md")).read_text()


# -- a target that changes what it relays


@pytest.mark.parametrize(
    ("what", "detail"),
    [
        ("identity", "caller shown as sip:+19999999999@elsewhere.example"),
        ("offer", "the SDP of the INVITE is not what the caller sent"),
        ("answer", "SDP of 183: not what the called phone sent"),
    ],
)
def test_a_call_that_is_not_the_one_made_is_wrong(tmp_path: Path, what: str, detail: str) -> None:
    result = run(tmp_path, profile(hold="200ms"), alteration=f"relayed-{what}")
    found = sessions(result)
    assert (found["attempted"], found["answered"], found["dropped"]) == (CALLS, CALLS, 0)
    assert found["wrong"] == found["planned"] == CALLS // 2  # every other one
    assert failures(result) == {("check", "wrong call"): CALLS // 2}
    (failure,) = result["steps"][-1]["failures"]
    assert failure["detail"] == detail


# -- the wire


MIX = (
    "reliable_ringing: true, hold_resume: true, session_expires: 1, bye_by_callee: 0.5, "
    "calls_per_phone: 8"
)


@pytest.mark.skipif(not shutil.which("tshark"), reason="needs tshark: apt-get install tshark")
@pytest.mark.skipif(not shutil.which("tcpdump"), reason="needs tcpdump: apt-get install tcpdump")
@pytest.mark.parametrize("version", [4, 6])
def test_tshark_finds_nothing_malformed_in_calls(tmp_path: Path, version: int) -> None:
    text = profile(more=MIX, version=version, ipsec="auto", phones=6, rate=4, duration=2)
    result = run(tmp_path, text, alteration="captured")
    calls = sessions(result)["planned"]
    assert calls == 8
    phones, hss, pcrf = (tmp_path / f"{name}.pcap" for name in ("phones", "hss", "pcrf"))
    for capture in (phones, hss, pcrf):
        for judgement in (
            "_ws.malformed",
            "_ws.expert.severity == error",
            '_ws.expert.group in {"Malformed", "Undecoded", "Protocol"}',
            "diameter.avp.unknown or diameter.avp.invalid-data",
        ):
            assert _fields(capture, judgement, "frame.number") == []
    _judge_sip(phones, calls)
    _judge_rx(pcrf, calls, result)


def _judge_sip(capture: Path, calls: int) -> None:
    """What is inside ESP: every message of the calls, on its way in and on its way out."""
    methods: Counter[str] = Counter()
    for (listed,) in _fields(capture, "esp and sip.Method", "sip.Method"):
        methods.update(listed.split(","))
    # INVITE, hold and resume; the ACKs of those; two reliable responses; one UPDATE for the
    # preconditions and at least one refresh; each message passes the link twice.
    assert methods["INVITE"] == methods["ACK"] == 2 * 3 * calls
    assert methods["PRACK"] == 2 * 2 * calls
    assert methods["UPDATE"] >= 2 * 2 * calls
    assert methods["BYE"] == 2 * calls
    bodies = [
        row for row in _fields(capture, "esp and sdp", "sdp.version") for _ in row[0].split(",")
    ]
    assert len(bodies) == 2 * 8 * calls  # four offers, four answers


def _judge_rx(capture: Path, calls: int, result: Any) -> None:
    commands: Counter[str] = Counter()
    for code, requests in _fields(
        capture, "diameter.applicationId == 16777236", "diameter.cmd.code", "diameter.flags.request"
    ):
        for pair in zip(code.split(","), requests.split(","), strict=True):
            commands["/".join(pair)] += 1
    rx = result["pcrf"]["commands"]
    registrations = 6
    assert commands["265/1"] == commands["265/0"] == rx["AAR"]["count"]
    assert rx["AAR"]["count"] == 2 * 4 * calls + registrations
    assert commands["275/1"] == commands["275/0"] == rx["STR"]["count"] == 2 * calls
    media = "diameter.flags.request == 1 and diameter.Media-Component-Number == 1"
    rows = _fields(capture, media, "diameter.Flow-Description", "diameter.Media-Type")
    assert rows
    for flows, types in rows:
        assert flows.startswith("permit ")  # TS 29.214: an IPFilterRule
        assert set(types.split(",")) == {"0"}  # AUDIO


def _fields(capture: Path, display_filter: str, *fields: str) -> list[list[str]]:
    """Fields of the frames that match, as tshark reads them; ESP without encryption is looked into."""
    command = ["tshark", "-r", str(capture), "-Y", display_filter, "-T", "fields"]
    command += ["-o", "esp.enable_null_encryption_decode_heuristic:TRUE"]
    for field in fields:
        command += ["-e", field]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return [line.split("\t") for line in done.stdout.splitlines()]
