"""The PCRF as a node and as a process: bearers, RAR, ASR, faults, the control channel; tshark reads it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from imsbench.distribution import Distribution
from imsbench.histogram import Histogram
from imsbench.host.control import ControlChannel
from imsbench.host.namespace import have_net_admin
from simulators.base import DiameterMessage
from simulators.codec import Result
from simulators.connection import AnswerTimeout, Connection
from simulators.pcrf import Injection, PcrfNode
from simulators.pcrf.__main__ import config_from_profile, node_from_config
from simulators.peer import NoConnection, Peer
from simulators.rx import (
    RX,
    AbortCause,
    AbortSessionRequest,
    FlowStatus,
    MediaComponentDescription,
    ReAuthRequest,
    framed,
)
from tests.simulators.diameter_helpers import run
from tests.simulators.dissection import Tap, dissect
from tests.simulators.process_helpers import ROOT, free_port, started, wait_for
from tests.simulators.rx_helpers import (
    ACCESS,
    ALLOCATED,
    LOSS,
    RELEASE,
    aar,
    audio,
    signalling,
    termination,
)

MODULE = "simulators.pcrf"
CALL = "pcscf.home;1;1"


class Af:
    """A P-CSCF: its peer, and what the PCRF asked of it."""

    def __init__(self, result: int = Result.SUCCESS) -> None:
        self.asked: list[DiameterMessage] = []
        self.times: list[float] = []
        self.answered_at = 0.0
        self.result = result
        self.peer = Peer(
            origin_host="pcscf.home", origin_realm="home", applications=(RX,), on_request=self._on
        )

    def _on(self, request: DiameterMessage, connection: Connection) -> DiameterMessage:
        self.asked.append(request)
        self.times.append(asyncio.get_running_loop().time())
        return request.answer(result_code=self.result)

    async def ask(self, request: DiameterMessage, timeout_s: float = 5.0) -> str:
        answer = await self.peer.request(request, timeout_s)
        self.answered_at = asyncio.get_running_loop().time()
        return answer.outcome

    async def wait(self, count: int) -> list[DiameterMessage]:
        """The requests of the PCRF, once there are so many."""
        async with asyncio.timeout(5):
            while len(self.asked) < count:
                await asyncio.sleep(0.005)
        return self.asked


@asynccontextmanager
async def serving(**options: Any) -> AsyncIterator[tuple[PcrfNode, Af]]:
    """A PCRF and a P-CSCF connected to it."""
    bearer_setup = options.pop("bearer_setup", None)
    seed = options.pop("seed", 1)
    node = PcrfNode(
        origin_host="pcrf.home",
        origin_realm="home",
        bearer_setup=bearer_setup,
        injection=Injection(**options),
        seed=seed,
    )
    af = Af()
    await af.peer.connect(*await node.peer.listen("127.0.0.1", 0))
    try:
        yield node, af
    finally:
        await af.peer.close()
        await node.peer.close()


def test_it_measures_its_own_response_time_by_command() -> None:
    async def scenario() -> None:
        async with serving() as (node, af):
            await af.ask(aar())
            await af.ask(aar(signalling(), session_id="registration"))
            await af.ask(aar(audio(0)))
            assert node.counts() == {
                "AAR": 3,
                "sessions": 2,
                "media_sessions": 1,
                "most_media_sessions": 1,
            }
            await af.ask(termination())
            await af.ask(termination())
            report = json.loads(json.dumps(node.to_json()))
            assert report["commands"]["AAR"]["results"] == {"2001": 2, "exp. 5061": 1}
            assert report["commands"]["STR"]["results"] == {"2001": 1, "5002": 1}
            times = Histogram.from_json(report["commands"]["AAR"]["response_time"])
            assert times.count == 3
            assert 0.0 < times.mean < 0.1
            assert (report["sessions"], report["media_sessions"]) == (1, 0)
            assert report["wrong"] == {
                "component_0_not_signalling": 1,
                "str_of_unknown_session": 1,
            }
            assert report["counters"]["answers_sent"] == 5

    run(scenario())


def test_without_bearer_setup_a_report_follows_the_answer_at_once() -> None:
    async def scenario() -> None:
        async with serving() as (node, af):
            await af.ask(aar(specific_action=[LOSS, ALLOCATED, ACCESS]))
            (rar,) = await af.wait(1)
            assert isinstance(rar, ReAuthRequest)
            assert (rar.session_id, rar.specific_action) == (CALL, [ALLOCATED, ACCESS])
            assert (rar.destination_host, rar.destination_realm) == (b"pcscf.home", b"home")
            assert [(one.media_component_number, one.flow_number) for one in rar.flows] == [
                (1, [1, 2])
            ]
            assert (rar.ip_can_type, rar.rat_type, rar.abort_cause) == (5, 1004, None)
            assert af.times[0] >= af.answered_at - 0.05
            await af.ask(aar(specific_action=[ALLOCATED]))  # nothing new: no report
            await asyncio.sleep(0.05)
            assert len(af.asked) == 1
            assert node.counters()["rar_answered_2001"] == 1

    run(scenario())


@pytest.mark.parametrize("latency_s", [0.0, 0.05])
def test_a_report_comes_when_the_bearer_stands_counted_from_the_answer(latency_s: float) -> None:
    async def scenario() -> None:
        setup = Distribution("constant", 0.2)
        latency = Distribution("constant", latency_s)
        async with serving(bearer_setup=setup, latency=latency) as (node, af):
            await af.ask(aar(specific_action=[ALLOCATED]))
            await af.wait(1)
            assert 0.15 < af.times[0] - af.answered_at < 0.6
            assert node.commands["AAR"].response_time.minimum >= latency_s

    run(scenario())


def test_no_report_for_a_session_that_ended_meanwhile() -> None:
    async def scenario() -> None:
        async with serving(bearer_setup=Distribution("constant", 0.1)) as (node, af):
            await af.ask(aar(specific_action=[ALLOCATED]))
            await af.ask(termination())
            await af.ask(aar(audio(4)))  # the same name again, without a subscription to it
            await asyncio.sleep(0.2)
            assert not af.asked
            assert node.counters()["reports_overtaken"] == 1

    run(scenario())


def test_a_medium_taken_away_meanwhile_is_in_no_report() -> None:
    async def scenario() -> None:
        async with serving(bearer_setup=Distribution("constant", 0.1)) as (_, af):
            await af.ask(aar(audio(1), audio(2), specific_action=[ALLOCATED]))
            gone = MediaComponentDescription(2, flow_status=FlowStatus.REMOVED)
            await af.ask(aar(gone, specific_action=[]))
            (rar,) = await af.wait(1)
            assert isinstance(rar, ReAuthRequest)
            assert [one.media_component_number for one in rar.flows] == [1]

    run(scenario())


@pytest.mark.parametrize(
    ("action", "cause", "sent"),
    [
        (LOSS, None, AbortCause.BEARER_RELEASED),
        (RELEASE, AbortCause.PS_TO_CS_HANDOVER, AbortCause.PS_TO_CS_HANDOVER),
    ],
)
def test_rar_tells_of_a_lost_bearer_to_who_subscribed(
    action: int, cause: int | None, sent: int
) -> None:
    async def scenario() -> None:
        async with serving() as (node, af):
            with pytest.raises(LookupError):
                await node.send_rar(CALL, [action])
            await af.ask(aar(specific_action=[action]))
            assert (await node.send_rar(CALL, [action], cause)).outcome == "2001"
            (rar,) = af.asked
            assert isinstance(rar, ReAuthRequest)
            assert (rar.specific_action, rar.abort_cause) == ([action], sent)
            with pytest.raises(LookupError, match="did not subscribe"):
                await node.send_rar(CALL, [ACCESS])
            assert len(node.procedures.sessions) == 1  # it is the AF that ends it

    run(scenario())


def test_asr_asks_the_af_to_end_a_session() -> None:
    async def scenario() -> None:
        async with serving() as (node, af):
            with pytest.raises(LookupError):
                await node.send_asr(CALL)
            await af.ask(aar())
            cause = AbortCause.INSUFFICIENT_BEARER_RESOURCES
            assert (await node.send_asr(CALL, cause)).outcome == "2001"
            (asr,) = af.asked
            assert isinstance(asr, AbortSessionRequest)
            assert (asr.session_id, asr.abort_cause) == (CALL, cause)
            assert len(node.procedures.sessions) == 1  # until the STR
            assert await af.ask(termination()) == "2001"

    run(scenario())


def test_a_session_that_the_af_does_not_know_is_none() -> None:
    async def scenario() -> None:
        async with serving() as (node, af):
            af.result = Result.UNKNOWN_SESSION_ID
            await af.ask(aar())
            assert (await node.send_asr(CALL)).outcome == "5002"
            assert node.state()["sessions"] == 0
            assert node.counters()["sessions_unknown_to_af"] == 1

    run(scenario())


def test_an_af_that_is_gone_cannot_be_asked() -> None:
    async def scenario() -> None:
        async with serving() as (node, af):
            await af.ask(aar(origin_host=b"gone.home", specific_action=[RELEASE, ALLOCATED]))
            with pytest.raises(NoConnection):
                await node.send_rar(CALL)
            await asyncio.sleep(0.05)
            assert node.counters()["rar_failed"] == 1  # the report of the bearer

    run(scenario())


def test_rar_and_asr_strike_so_many_of_the_sessions_of_calls() -> None:
    async def scenario() -> None:
        async with serving() as (node, af):
            for n in range(3):
                await af.ask(aar(session_id=f"call;{n}", specific_action=[RELEASE]))
            strikes = node.strikes()
            assert await strikes["rar"](None, 0.34) == (1, 0)
            assert await strikes["asr"](5, None) == (3, 2)
            assert node.counters()["asr_sent"] == 3

    run(scenario())


@pytest.mark.parametrize(
    ("result", "outcome"),
    [(5065, "exp. 5065"), (4261, "exp. 4261"), (5012, "5012"), (5003, "5003"), (3004, "3004")],
)
def test_an_injected_error_is_of_the_kind_that_its_number_is(result: int, outcome: str) -> None:
    async def scenario() -> None:
        async with serving(error_share=1.0, error_result=result) as (node, af):
            assert await af.ask(aar()) == outcome
            assert node.state()["sessions"] == 0
            assert node.counters()["errors_injected"] == 1

    run(scenario())


def test_a_share_of_the_requests_is_never_answered() -> None:
    async def answered(seed: int) -> list[bool]:
        async with serving(silence_share=0.3, seed=seed) as (node, af):

            async def one(n: int) -> bool:
                try:
                    await af.ask(aar(session_id=f"call;{n}"), timeout_s=0.5)
                except AnswerTimeout:
                    return False
                return True

            found = await asyncio.gather(*(one(n) for n in range(100)))
            silent = found.count(False)
            assert 15 < silent < 45
            assert node.counters()["silences_injected"] == silent
            assert node.state()["sessions"] == 100 - silent  # they change nothing
            assert node.commands["AAR"].count == 100 - silent
            return found

    async def scenario() -> None:
        first = await answered(1)
        assert await answered(1) == first
        assert await answered(2) != first

    run(scenario())


# --- the process ------------------------------------------------------------------------------------


def config(**values: Any) -> dict[str, Any]:
    """A config message as a coordinator sends it."""
    return {
        "links": [],
        "addresses": [],
        "routes": [],
        "listen": ["127.0.0.1", free_port()],
        "origin_host": "pcrf.home",
        "origin_realm": "home",
        "response_time": {"kind": "constant", "mean_s": 0.0, "sigma": 1.0},
        "error_share": 0.0,
        "error_result": 5012,
        "silence_share": 0.0,
        "bearer_setup": {"kind": "constant", "mean_s": 0.01, "sigma": 1.0},
        "seed": 3,
    } | values


def test_the_process_serves_ticks_obeys_and_reports() -> None:
    settings = config()
    af_asked: list[DiameterMessage] = []

    async def load(channel: ControlChannel) -> None:
        af = Af()
        await af.peer.connect(*settings["listen"])
        for n in range(10):
            actions = [RELEASE, ALLOCATED] if n == 0 else [RELEASE]
            await af.ask(aar(session_id=f"call;{n}", specific_action=actions))
        await af.ask(aar(signalling(), session_id="registration"))
        await af.wait(1)  # the bearer's report
        channel.send("rar", session="call;3", actions=[RELEASE], abort_cause=3)
        await af.wait(2)
        channel.send("rar", n=4)
        await af.wait(6)
        channel.send("asr", n=12)  # more than there are
        await af.wait(16)
        channel.send("rar", session="nobody")
        channel.send("nonsense")
        channel.send("rar", actions=["x"], n=1)
        await asyncio.sleep(0.2)
        af_asked.extend(af.asked)
        await af.peer.close()

    with started(MODULE) as (process, channel):
        channel.send("config", **settings)
        channel.wait("ready")
        run(load(channel))
        tick = wait_for(channel, "tick", lambda one: one["counts"].get("AAR") == 11)
        assert tick["counts"] == {
            "AAR": 11,
            "sessions": 11,
            "media_sessions": 10,
            "most_media_sessions": 10,
            "connections": 0,
        }
        assert tick["cpu_s"] > 0
        channel.send("stop")
        result = channel.wait("result")
        assert process.wait(5) == 0
    rars = [one for one in af_asked if isinstance(one, ReAuthRequest)]
    assert [one.session_id for one in rars[:2]] == ["call;0", "call;3"]
    assert rars[1].abort_cause == 3
    assert len({one.session_id for one in rars[2:]}) == 4
    asrs = [one.session_id for one in af_asked if isinstance(one, AbortSessionRequest)]
    assert sorted(str(one) for one in asrs) == [f"call;{n}" for n in range(10)]
    assert result["commands"]["AAR"]["results"] == {"2001": 11}
    assert (result["sessions"], result["media_sessions"]) == (11, 10)
    assert result["wrong"] == {}
    counters = result["counters"]
    assert counters["bad_control_messages"] == 2
    assert counters["rar_answered_2001"] == 6
    assert counters["asr_answered_2001"] == 10
    assert counters["sessions_wanted_in_vain"] == 2
    assert counters["rar_failed"] == 1


@pytest.mark.net
@pytest.mark.skipif(not have_net_admin(), reason="needs CAP_NET_ADMIN")
@pytest.mark.parametrize("address", ["198.19.0.30", "2001:2:0:2::30"])
def test_in_a_namespace_of_its_own_it_gives_itself_its_address(address: str) -> None:
    with started(MODULE, "new") as (process, channel):
        assert channel.wait("namespace")["pid"] == process.pid
        channel.send("config", **config(addresses=[address], listen=[address, 3868]))
        channel.wait("ready")
        assert os.readlink(f"/proc/{process.pid}/ns/net") != os.readlink("/proc/self/ns/net")
        channel.send("stop")
        channel.wait("result")
        assert process.wait(5) == 0


PROFILE = """
name: alone
description: A PCRF for a core elsewhere.
subscribers: {count: 10}
target: {kind: external, name: a core, version: "1", pcscf: "192.0.2.1:5060"}
simulators:
  hss: {listen: "127.0.0.1:3868"}
  pcrf: {listen: "127.0.0.1:3869", silence_share: 0.5, bearer_setup: {kind: uniform, mean: 80ms}}
phases: [{fill: {rate: 1, to: 10}}]
"""


def test_a_profile_and_a_coordinator_configure_alike(tmp_path: Path) -> None:
    from imsbench.profile import load_profile
    from imsbench.run.configs import pcrf_config
    from imsbench.run.topology import Node

    path = tmp_path / "alone.yaml"
    path.write_text(PROFILE)
    profile = load_profile(str(path))
    mine, theirs = config_from_profile(profile), pcrf_config(profile, Node())
    assert list(mine.pop("listen")) == ["127.0.0.1", 3869]
    assert {key: theirs[key] for key in mine} == mine
    assert mine["bearer_setup"] == {"kind": "uniform", "mean_s": 0.08, "sigma": 1.0}
    assert node_from_config(theirs).peer.origin_host == mine["origin_host"].encode()


def test_alone_it_serves_anybody(tmp_path: Path) -> None:
    profile = tmp_path / "alone.yaml"
    profile.write_text(PROFILE.replace("0.5", "0.0"))
    port = free_port()
    command = [sys.executable, "-m", MODULE, str(profile), "--listen", f"127.0.0.1:{port}"]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)

    async def ask() -> DiameterMessage:
        af = Af()
        await af.peer.connect("127.0.0.1", port)
        answer = await af.peer.request(aar())
        await af.peer.close()
        return answer

    try:
        answer = run(ask())
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=5)
    finally:
        process.kill()
        process.wait()
    assert answer.outcome == "2001"
    assert answer.origin_host == b"pcrf.ims.mnc001.mcc001.3gppnetwork.org"
    assert process.returncode == 0
    assert "AAR: 1" in log
    assert "sessions: 1" in log


# --- an independent reader ------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("tshark") is None, reason="no tshark on this machine")
def test_tshark_reads_every_message_without_complaint(tmp_path: Path) -> None:
    tap = Tap()

    async def scenario() -> None:
        node = PcrfNode(origin_host="pcrf.home", origin_realm="home")
        af = Af()
        await af.peer.connect(*await tap.relay(await node.peer.listen("127.0.0.1", 0)))
        await af.ask(aar(signalling(), session_id="registration"))
        actions = [LOSS, RELEASE, ALLOCATED, ACCESS]
        await af.ask(aar(specific_action=actions, af_charging_identifier=b"icid"))
        await af.wait(1)
        six = audio(phone="2001:2:0:1::7", other="2001:2:0:1::8")
        await af.ask(aar(six, session_id="six", framed_ip_address=None, **framed("2001:2::7")))
        await af.ask(aar(audio(0), session_id="refused"))
        await node.send_rar(CALL, [LOSS])
        await node.send_asr(CALL)
        for session_id in (CALL, "six", "nobody"):
            await af.ask(termination(session_id))
        await af.peer.close()
        await node.peer.close()
        await tap.finished()

    run(scenario())
    path = tmp_path / "rx.pcap"
    tap.write(path)
    messages = dissect(path, "diameter.cmd.code", "_ws.expert", "_ws.malformed")
    codes = Counter(code for one in messages for code in one[0].split(","))
    assert codes == {"257": 2, "265": 8, "258": 4, "274": 2, "275": 6, "282": 2}
    assert {tuple(one[1:]) for one in messages} == {("", "")}
    texts = dissect(path, "diameter.Flow-Description", "diameter.Media-Type")
    described = {text for one in texts for text in one[0].split(",")} - {""}
    assert "permit out 17 from 198.18.0.8 4000 to 198.18.0.7 5000" in described
    assert {one[1] for one in texts} >= {"0", "4"}
