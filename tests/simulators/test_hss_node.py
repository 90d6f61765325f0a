"""The HSS as a node and as a process: over TCP, with latency and errors, RTR, PPR, the control channel."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from imsbench.distribution import Distribution
from imsbench.histogram import Histogram
from imsbench.host.control import ControlChannel
from imsbench.host.namespace import have_net_admin
from imsbench.protocol.aka import Milenage, SqnWindow, run_aka
from imsbench.subscriber import Population
from simulators.base import DiameterMessage
from simulators.codec import Result
from simulators.connection import Connection
from simulators.cx import CX, PushProfileRequest, ReasonCode, RegistrationTerminationRequest
from simulators.hss import HssNode, Injection, Procedures, State
from simulators.hss.__main__ import config_from_profile, node_from_config
from simulators.peer import NoConnection, Peer
from tests.simulators.diameter_helpers import RawPeer, run
from tests.simulators.process_helpers import ROOT, free_port, started, wait_for
from tests.simulators.test_codec import uar as complete_uar
from tests.simulators.test_hss import ALICE, PEOPLE, T, mar, sar, uar

MODULE = "simulators.hss"


@asynccontextmanager
async def serving(**injection: Any) -> AsyncIterator[tuple[HssNode, Peer, list[DiameterMessage]]]:
    """An HSS, an S-CSCF connected to it, and the requests that the S-CSCF gets."""
    node = HssNode(
        Procedures(PEOPLE),
        origin_host="hss.home",
        origin_realm="home",
        injection=Injection(**injection),
    )
    pushed: list[DiameterMessage] = []

    def on_request(request: DiameterMessage, connection: Connection) -> DiameterMessage:
        pushed.append(request)
        return request.answer(result_code=Result.SUCCESS)

    scscf = Peer(
        origin_host="scscf1.home", origin_realm="home", applications=(CX,), on_request=on_request
    )
    await scscf.connect(*await node.peer.listen("127.0.0.1", 0))
    try:
        yield node, scscf, pushed
    finally:
        await scscf.close()
        await node.peer.close()


async def register(scscf: Peer) -> None:
    """Alice, at our S-CSCF."""
    request = sar(T.REGISTRATION)
    request.origin_host = None
    assert (await scscf.request(request)).outcome == "2001"


def test_it_measures_its_own_response_time_by_command() -> None:
    async def scenario() -> None:
        async with serving() as (node, scscf, _):
            for request in (uar(), mar(), uar()):
                await scscf.request(request)
            await register(scscf)
            report = json.loads(json.dumps(node.to_json()))
            assert report["registered"] == 1
            assert {name: one["count"] for name, one in report["commands"].items()} == {
                "UAR": 2,
                "MAR": 1,
                "SAR": 1,
            }
            assert report["commands"]["UAR"]["results"] == {"exp. 2001": 1, "exp. 2002": 1}
            times = Histogram.from_json(report["commands"]["UAR"]["response_time"])
            assert times.count == 2
            assert 0.0 < times.mean < 0.1
            assert report["counters"]["answers_sent"] == 4

    run(scenario())


def test_latency_is_added_to_the_answer_and_seen_in_the_measurement() -> None:
    async def scenario() -> None:
        async with serving(latency=Distribution("constant", 0.05)) as (node, scscf, _):
            await asyncio.gather(*(scscf.request(uar()) for _ in range(20)))
            times = node.commands["UAR"].response_time
            assert times.count == 20
            assert times.minimum >= 0.05
            assert times.maximum < 0.5  # beside one another, not one after another

    run(scenario())


def test_a_share_of_the_requests_is_refused_and_changes_nothing() -> None:
    async def outcomes(seed: int) -> list[str]:
        node = HssNode(
            Procedures(PEOPLE),
            origin_host="hss.home",
            origin_realm="home",
            injection=Injection(error_share=0.3, error_result=3004),
            seed=seed,
        )
        raw = await RawPeer.connect(await node.peer.listen("127.0.0.1", 0))
        found = []
        for _ in range(200):
            raw.send(complete_uar(user_name=ALICE.impi, public_identity=ALICE.impu_sip).as_bytes())
            data = await raw.receive()
            found.append("error" if data[4] & 0x20 else "answer")  # the E bit of 3xxx
        assert node.peer.counters["errors_injected"] == found.count("error")
        await raw.close()
        await node.peer.close()
        return found

    async def scenario() -> None:
        first = await outcomes(1)
        assert 0.2 < first.count("error") / len(first) < 0.4
        assert await outcomes(1) == first
        assert await outcomes(2) != first
        async with serving(error_share=1.0) as (node, scscf, _):
            answer = await scscf.request(mar())
            assert (answer.outcome, answer.header.is_error) == ("5012", False)
            assert len(node.procedures.store) == 0

    run(scenario())


def test_faults_strike_their_commands_only_and_delays_are_told_apart() -> None:
    async def scenario() -> None:
        faults = [
            {"what": "error", "names": ["MAR"], "share": 1.0, "code": 5012, "delay": {}},
            {"what": "delay", "names": ["UAR"], "share": 0.5, "code": None,
             "delay": {"kind": "constant", "mean_s": 0.02}},
        ]  # fmt: skip
        async with serving(faults=faults) as (node, scscf, _):
            assert (await scscf.request(mar())).outcome == "5012"
            for _ in range(100):
                await scscf.request(uar())
            stats = node.commands["UAR"]
            assert (stats.response_time.count, stats.delayed.count) == (50, 50)
            assert stats.delayed.minimum >= 0.02
            told = node.to_json()["steady_faults"]
            assert [(one["of"], one["struck"]) for one in told] == [(1, 1), (100, 50)]

    run(scenario())


def test_rtr_and_ppr_strike_so_many_of_those_who_are_registered() -> None:
    async def scenario() -> None:
        async with serving() as (node, scscf, pushed):
            await register(scscf)
            strikes = node.strikes()
            assert await strikes["ppr"](1, None) == (1, 0)
            assert await strikes["rtr"](2, None) == (1, 1)  # there is one only
            assert await strikes["rtr"](None, 1.0) == (0, 0)  # and then none
            assert [type(one) for one in pushed] == [
                PushProfileRequest, RegistrationTerminationRequest,
            ]  # fmt: skip

    run(scenario())


@pytest.mark.parametrize("reason", [ReasonCode.PERMANENT_TERMINATION, ReasonCode.SERVER_CHANGE])
def test_rtr_sets_the_state_and_goes_to_the_scscf_of_the_subscriber(reason: ReasonCode) -> None:
    async def scenario() -> None:
        async with serving() as (node, scscf, pushed):
            await register(scscf)
            answer = await node.send_rtr(0, reason)
            assert answer.outcome == "2001"
            (rtr,) = pushed
            assert isinstance(rtr, RegistrationTerminationRequest)
            assert rtr.user_name == ALICE.impi
            assert rtr.public_identity == []
            assert rtr.destination_host == b"scscf1.home"
            assert rtr.destination_realm == b"home"
            assert rtr.deregistration_reason is not None
            assert rtr.deregistration_reason.reason_code is reason
            assert node.procedures.store.registered == 0
            assert node.counters()["rtr_answered_2001"] == 1
            with pytest.raises(LookupError):
                await node.send_rtr(0)

    run(scenario())


def test_rtr_and_ppr_go_to_the_realm_of_the_scscf_whatever_the_next_hop_is_of() -> None:
    async def scenario() -> None:
        async with serving() as (node, scscf, pushed):
            request = sar(T.REGISTRATION)
            request.origin_host, request.origin_realm = None, b"beyond.the.relay"
            assert (await scscf.request(request)).outcome == "2001"
            await node.send_ppr(0)
            await node.send_rtr(0)
            assert [one.destination_realm for one in pushed] == [b"beyond.the.relay"] * 2

    run(scenario())


def test_rtr_for_a_new_server_names_the_identities_and_keeps_the_state() -> None:
    async def scenario() -> None:
        async with serving() as (node, scscf, pushed):
            await register(scscf)
            await node.send_rtr(0, ReasonCode.NEW_SERVER_ASSIGNED)
            (rtr,) = pushed
            assert isinstance(rtr, RegistrationTerminationRequest)
            assert tuple(rtr.public_identity) == ALICE.impus
            assert node.procedures.store.get(0).state is State.REGISTERED

    run(scenario())


def test_rtr_that_removes_the_scscf_is_for_the_unregistered() -> None:
    async def scenario() -> None:
        async with serving() as (node, scscf, _):
            await register(scscf)
            with pytest.raises(LookupError, match="REMOVE_S-CSCF"):
                await node.send_rtr(0, ReasonCode.REMOVE_S_CSCF)
            await scscf.request(sar(T.USER_DEREGISTRATION_STORE_SERVER_NAME))
            assert (await node.send_rtr(0, ReasonCode.REMOVE_S_CSCF)).outcome == "2001"
            assert len(node.procedures.store) == 0

    run(scenario())


def test_rtr_without_a_way_to_the_scscf() -> None:
    async def scenario() -> None:
        async with serving() as (node, scscf, _):
            await scscf.request(sar(T.REGISTRATION, origin_host=b"gone.home"))
            with pytest.raises(NoConnection):
                await node.send_rtr(0)

    run(scenario())


def test_ppr_pushes_the_profile() -> None:
    async def scenario() -> None:
        async with serving() as (node, scscf, pushed):
            with pytest.raises(LookupError):
                await node.send_ppr(0)
            await register(scscf)
            assert (await node.send_ppr(0)).outcome == "2001"
            (ppr,) = pushed
            assert isinstance(ppr, PushProfileRequest)
            assert ppr.user_data == node.procedures.user_data(0)
            assert ppr.user_name == ALICE.impi

    run(scenario())


# --- the process ------------------------------------------------------------------------------------


def config(**values: Any) -> dict[str, Any]:
    """A config message as a coordinator sends it."""
    return {
        "population": {"count": 100, "seed": 3, "k": None, "op": None, "opc": None},
        "links": [],
        "addresses": [],
        "routes": [],
        "listen": ["127.0.0.1", free_port()],
        "origin_host": "hss.home",
        "origin_realm": "home",
        "response_time": {"kind": "constant", "mean_s": 0.0, "sigma": 1.0},
        "error_share": 0.0,
        "error_result": 5012,
        "seed": 3,
    } | values


def test_the_process_serves_ticks_obeys_and_reports() -> None:
    settings = config()
    milenage, window = Milenage(ALICE.k, opc=ALICE.opc), SqnWindow()
    pushed: list[DiameterMessage] = []

    def on_request(request: DiameterMessage, connection: Connection) -> DiameterMessage:
        pushed.append(request)
        return request.answer(result_code=Result.SUCCESS)

    async def load(channel: ControlChannel) -> None:
        scscf = Peer(
            origin_host="scscf1.home",
            origin_realm="home",
            applications=(CX,),
            on_request=on_request,
        )
        await scscf.connect(*settings["listen"])
        channel.send("set_sqn", n=0, sqn=77 << 5)
        channel.send("set_sqn", n=1_000, sqn=1)  # nobody: counted, not fatal
        channel.send("nonsense")
        await asyncio.sleep(0.2)
        nonce = (await scscf.request(mar())).sip_auth_data_item[0].sip_authenticate
        assert run_aka(milenage, nonce[:16], nonce[16:], window).sqn >> 5 == 78
        await register(scscf)
        channel.send("ppr", n=0)
        channel.send("rtr", n=0, reason=2)
        channel.send("rtr", n=5)
        async with asyncio.timeout(5):
            while len(pushed) < 2:
                await asyncio.sleep(0.01)
        await scscf.close()

    with started(MODULE) as (process, channel):
        channel.send("config", **settings)
        channel.wait("ready")
        run(load(channel))
        tick = wait_for(channel, "tick", lambda one: one["counts"].get("SAR"))
        assert tick["counts"] == {"MAR": 1, "SAR": 1, "registered": 0, "connections": 0}
        assert tick["cpu_s"] > 0
        channel.send("measure")
        measured = channel.wait("measured")["commands"]
        assert {name: one["count"] for name, one in measured.items()} == {"MAR": 1, "SAR": 1}
        assert Histogram.from_json(measured["SAR"]["response_time"]).count == 1
        channel.send("measure")
        assert channel.wait("measured")["commands"] == {}  # nothing since
        channel.send("stop")
        result = channel.wait("result")
        assert process.wait(5) == 0
    assert [type(one) for one in pushed] == [PushProfileRequest, RegistrationTerminationRequest]
    assert result["commands"]["MAR"]["results"] == {"2001": 1}
    assert result["registered"] == 0
    counters = result["counters"]
    assert counters["bad_control_messages"] == 2
    assert counters["rtr_answered_2001"] == 1
    assert counters["rtr_failed"] == 1


def test_a_process_that_was_stopped_tells_for_how_long() -> None:
    with started(MODULE) as (process, channel):
        channel.send("config", **config())
        channel.wait("ready")
        channel.wait("tick")
        process.send_signal(signal.SIGSTOP)
        stopped_at = time.monotonic()
        time.sleep(0.5)
        process.send_signal(signal.SIGCONT)
        tick = wait_for(channel, "tick", lambda one: any(s[1] > 0.4 for s in one["stalls"]))
        at = next(at for at, length_s in tick["stalls"] if length_s > 0.4)
        assert stopped_at - 0.1 < at < stopped_at + 0.1
        channel.send("stop")
        result = channel.wait("result")
        assert process.wait(5) == 0
    assert Histogram.from_json(result["loop_lag"]).maximum > 0.4


def test_the_process_ends_when_its_coordinator_does() -> None:
    with started(MODULE) as (process, channel):
        channel.send("config", **config())
        channel.wait("ready")
        channel.close()
        assert process.wait(5) == 0


def test_an_address_that_is_taken_is_an_error_by_name() -> None:
    with socket.socket() as taken, started(MODULE) as (process, channel):
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        channel.send("config", **config(listen=list(taken.getsockname())))
        error = channel.wait("error")
        assert error["exit"] == 5
        assert "address already in use" in error["text"]
        assert process.wait(5) == 5


@pytest.mark.net
@pytest.mark.skipif(not have_net_admin(), reason="needs CAP_NET_ADMIN")
@pytest.mark.parametrize("address", ["198.19.0.20", "2001:2:0:2::20"])
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
description: An HSS for a core elsewhere.
subscribers: {count: 10, op: 000102030405060708090a0b0c0d0e0f}
target: {kind: external, name: a core, version: "1", pcscf: "192.0.2.1:5060"}
simulators: {hss: {listen: "127.0.0.1:3868", response_time: {kind: exponential, mean: 5ms}}}
phases: [{fill: {rate: 1, to: 10}}]
"""


def test_alone_it_serves_the_subscribers_of_a_profile(tmp_path: Path) -> None:
    profile = tmp_path / "alone.yaml"
    profile.write_text(PROFILE)
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "simulators.hss",
        str(profile),
        "--listen",
        f"127.0.0.1:{port}",
    ]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    people = Population(count=10, op=bytes(range(16)))
    one = people.subscriber(9)

    async def ask() -> str:
        peer = Peer(origin_host="icscf", origin_realm="home", applications=(CX,))
        await peer.connect("127.0.0.1", port)
        answer = await peer.request(uar(user_name=one.impi, public_identity=one.impu_sip))
        assert answer.origin_host == f"hss.{people.home_domain}".encode()
        await peer.close()
        return answer.outcome

    try:
        assert run(ask()) == "exp. 2001"
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=5)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    assert "UAR: 1" in log


def test_alone_a_bad_profile_is_exit_code_2(tmp_path: Path) -> None:
    profile = tmp_path / "bad.yaml"
    profile.write_text("name: x\n")
    command = [sys.executable, "-m", "simulators.hss", str(profile)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=20, check=False
    )
    assert done.returncode == 2
    assert "subscribers" in done.stderr


def test_a_profile_and_a_coordinator_configure_alike(tmp_path: Path) -> None:
    from imsbench.profile import load_profile
    from imsbench.run.configs import hss_config, population
    from imsbench.run.topology import Node

    path = tmp_path / "alone.yaml"
    path.write_text(PROFILE)
    profile = load_profile(str(path))
    mine, theirs = config_from_profile(profile), hss_config(profile, Node())
    assert {key: theirs[key] for key in mine if key != "listen"} == {
        key: mine[key] for key in mine if key != "listen"
    }
    assert list(mine["listen"]) == theirs["listen"]
    node = node_from_config(theirs)
    assert node.procedures.population == population(profile)
    assert node.procedures.population.subscriber(0).op == bytes(range(16))
