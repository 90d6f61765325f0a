"""Rx of the reference core against the PCRF simulator, and calls that the network or a fault ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from imsbench.distribution import Distribution
from imsbench.protocol.sdp import SdpError, make_answer, make_offer, parse_sdp, serialize_sdp
from imsbench.protocol.sip import response_to
from simulators.base import DisconnectCause
from simulators.core.media import describe
from simulators.core.service import ReferenceCore
from simulators.core.settings import CoreSettings, Faults
from simulators.pcrf import Injection, PcrfNode
from simulators.rx import Flows, FlowStatus, FlowUsage, MediaType, RxResult
from tests.simulators.call_helpers import (
    Callee,
    Caller,
    CallPhone,
    answered,
    ends,
    run,
    sdp,
    two_phones,
)
from tests.simulators.core_helpers import DOMAIN

REALM = "pcrf.test"


@asynccontextmanager
async def with_pcrf(
    injection: Injection | None = None, bearer_setup: Distribution | None = None, **changes: Any
) -> AsyncIterator[tuple[ReferenceCore, CallPhone, CallPhone, PcrfNode]]:
    """A core that asks a PCRF, two registered phones."""
    pcrf = PcrfNode(
        origin_host="pcrf", origin_realm=REALM, injection=injection, bearer_setup=bearer_setup
    )
    address = await pcrf.peer.listen("127.0.0.1", 0)
    try:
        settings = {"pcrf": address, "pcrf_realm": REALM} | changes
        async with two_phones(**settings) as (core, caller, callee):
            yield core, caller, callee, pcrf
    finally:
        await pcrf.peer.close()


def count(pcrf: PcrfNode, command: str) -> int:
    stats = pcrf.commands.get(command)
    return stats.count if stats is not None else 0


async def until(condition: Any) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(3):
        while not condition():
            await asyncio.sleep(0.01)


async def take_bye(side: CallPhone) -> str:
    """A BYE of the network, answered; its Reason."""
    bye = await side.request("BYE")
    side.send(response_to(bye, 200, "OK"))
    return bye.get("reason") or ""


async def with_preconditions(caller: CallPhone, callee: CallPhone) -> tuple[Caller, Callee]:
    """Up to the 180 of a call whose answer comes in the 183, with a second offer by UPDATE."""
    a = Caller(caller, callee.subscriber.impu_tel)
    a.invite()
    await caller.response(100, "INVITE")
    b = await Callee.rings(callee)
    b.answer(183, body=sdp(callee, port=50_000))
    await a.progress(183)
    a.send("PRACK")
    await b.takes("PRACK")
    await caller.response(200, "PRACK")
    a.send("UPDATE", body=sdp(caller))
    await b.takes("UPDATE", body=sdp(callee, port=50_000))
    await caller.response(200, "UPDATE")
    b.answer(180)
    await a.progress(180)
    return a, b


def test_a_call_with_preconditions_is_four_aars_and_two_strs() -> None:
    async def scenario() -> None:
        async with with_pcrf() as (core, caller, callee, pcrf):
            await until(lambda: count(pcrf, "AAR") == 2)  # signalling of both
            assert core.counts()["rx_sessions"] == 2
            a, b = await with_preconditions(caller, callee)
            b.answer(200)
            await a.progress(200)
            a.ack()
            await b.takes("ACK")
            assert (count(pcrf, "AAR"), len(pcrf.procedures.sessions)) == (6, 4)
            await ends(a, b)
            await until(lambda: count(pcrf, "STR") == 2)
            assert len(pcrf.procedures.sessions) == core.counts()["rx_sessions"] == 2
            await caller.exchange(caller.refresh(0))
            counters = core.counters
            await until(lambda: counters["Rx STR: 2001"] == 3)
            assert not pcrf.procedures.wrong
            assert counters["Rx AAR"] == counters["Rx AAR: 2001"] == 6
            assert counters["Rx STR"] == count(pcrf, "STR") == 3

    run(scenario)


def test_what_the_pcrf_is_told() -> None:
    async def scenario() -> None:
        async with with_pcrf() as (_, caller, callee, pcrf):
            await with_preconditions(caller, callee)
            media = [s for s in pcrf.procedures.sessions._by_id.values() if s.is_media]
            by_number = {dict(s.subscriptions).popitem()[1]: s for s in media}
            assert set(by_number) == {caller.subscriber.msisdn, callee.subscriber.msisdn}
            session = by_number[caller.subscriber.msisdn]
            assert session.actions == {2, 4}
            rtp, rtcp = session.components[1].flows.values()
            assert [(r.direction, r.source.ports, r.destination.ports) for r in rtp.rules] == [
                ("in", ((49152, 49152),), ((50_000, 50_000),)),
                ("out", ((50_000, 50_000),), ((49152, 49152),)),
            ]
            assert rtcp.usage is FlowUsage.RTCP
            assert session.components[1].bandwidth == (41_000, 41_000)

    run(scenario)


def test_a_180_does_not_overtake_the_183_that_waits_for_the_pcrf() -> None:
    async def scenario() -> None:
        slow = Injection(latency=Distribution("constant", 0.1))
        async with with_pcrf(slow) as (_, caller, callee, _):
            a = Caller(caller, callee.subscriber.impu_tel)
            a.invite()
            await caller.response(100, "INVITE")
            b = await Callee.rings(callee)
            b.answer(183, body=sdp(callee))
            b.answer(180)
            b.answer(200)
            for status in (183, 180, 200):
                await a.progress(status)

    run(scenario)


@pytest.mark.parametrize(
    ("result", "text"), [(RxResult.REQUESTED_SERVICE_NOT_AUTHORIZED, "exp. 5063"), (5012, "5012")]
)
def test_a_refused_aar_fails_the_call_with_500(result: int, text: str) -> None:
    async def scenario() -> None:
        async with with_pcrf(Injection(error_share=1.0, error_result=result)) as parts:
            core, caller, callee, pcrf = parts
            a = Caller(caller, callee.subscriber.impu_tel)
            a.invite()
            await caller.response(100, "INVITE")
            b = await Callee.rings(callee)
            b.answer(183, body=sdp(callee))
            refused = await a.fails(500)
            assert refused.get("warning") == f'399 reference-core "Rx AAR: {text}"'
            b.answer(200, request=await callee.request("CANCEL"))
            b.answer(487)
            await callee.request("ACK")
            await callee.silence()
            assert core.counters["calls refused by the PCRF"] == 1
            assert core.counts()["calls"] == core.counts()["rx_sessions"] == 0
            assert count(pcrf, "STR") == 0

    run(scenario)


def test_a_refusal_after_the_callee_answered_ends_its_leg() -> None:
    async def scenario() -> None:
        async with with_pcrf(Injection(error_share=1.0)) as (_, caller, callee, _):
            a = Caller(caller, callee.subscriber.impu_tel)
            a.invite()
            await caller.response(100, "INVITE")
            b = await Callee.rings(callee)
            b.answer(200, body=sdp(callee))
            await a.fails(500)
            await b.takes("ACK")
            bye = await b.takes("BYE")
            assert bye.get("to") == b.local
            assert bye.get("from") == b.remote

    run(scenario)


def test_a_silent_pcrf_fails_the_call_in_time() -> None:
    async def scenario() -> None:
        async with with_pcrf(Injection(silence_share=1.0), rx_timeout_s=0.2) as parts:
            core, caller, callee, _ = parts
            a = Caller(caller, callee.subscriber.impu_tel)
            a.invite()
            await caller.response(100, "INVITE")
            b = await Callee.rings(callee)
            b.answer(183, body=sdp(callee))
            refused = await a.fails(500)
            assert refused.get("warning") == '399 reference-core "Rx AAR: no answer"'
            assert core.counters["Rx AAR: no answer"] >= 1

    run(scenario)


def test_an_update_that_the_pcrf_refuses_releases_the_call() -> None:
    async def scenario() -> None:
        async with with_pcrf() as (_, caller, callee, pcrf):
            a, b = await answered(caller, callee)
            pcrf.inject(Injection(error_share=1.0))
            a.send("UPDATE", body=sdp(caller))
            await b.takes("UPDATE", body=sdp(callee))
            await caller.response(500, "UPDATE")
            assert "no resources" in await take_bye(caller)
            assert "no resources" in await take_bye(callee)

    run(scenario)


@pytest.mark.parametrize("actions", [(2,), (4,), (2, 4)])
def test_a_lost_bearer_ends_the_call(actions: tuple[int, ...]) -> None:
    async def scenario() -> None:
        async with with_pcrf(rx_grace_s=0.2) as (core, caller, callee, pcrf):
            await answered(caller, callee)
            loop = asyncio.get_running_loop()
            session = pcrf.procedures.sessions.draw(1, actions)[0]
            started = loop.time()
            answer = await pcrf.send_rar(session.id, actions)
            assert answer.result_code == 2001
            reason = await take_bye(callee)
            assert loop.time() - started >= 0.2
            assert reason == await take_bye(caller)
            assert reason.startswith('SIP;cause=503;text="bearer ')
            await until(lambda: count(pcrf, "STR") == 2)
            assert core.counters["Rx RAR"] == 1
            assert core.counts()["calls"] == 0

    run(scenario)


def test_an_asr_ends_the_call() -> None:
    async def scenario() -> None:
        async with with_pcrf() as (core, caller, callee, pcrf):
            a, b = await answered(caller, callee)
            session = pcrf.procedures.sessions.draw(1)[0]
            assert (await pcrf.send_asr(session.id)).result_code == 2001
            await take_bye(callee)
            await take_bye(caller)
            await until(lambda: count(pcrf, "STR") == 2)
            assert core.counters["calls ended: released: aborted by the PCRF"] == 1
            a.send("BYE")
            await caller.response(481, "BYE")
            assert b.cseq == 0

    run(scenario)


def test_the_loss_of_the_signalling_bearer_ends_the_calls_of_the_phone() -> None:
    async def scenario() -> None:
        async with with_pcrf() as (core, caller, callee, pcrf):
            await answered(caller, callee)
            phone = core.pcscf.phone(caller.subscriber.impi)
            assert phone is not None
            await pcrf.send_rar(phone.signalling, (4,))
            await take_bye(callee)
            await take_bye(caller)

    run(scenario)


def test_a_report_for_no_session_is_5002() -> None:
    async def scenario() -> None:
        async with with_pcrf() as (_, caller, callee, pcrf):
            a, b = await answered(caller, callee)
            session = pcrf.procedures.sessions.draw(1)[0]
            await ends(a, b)
            await until(lambda: count(pcrf, "STR") == 2)
            pcrf.procedures.sessions.keep(session, session.components)
            assert (await pcrf.send_asr(session.id)).result_code == 5002

    run(scenario)


def test_an_answer_waits_for_the_bearer_if_told_to() -> None:
    async def scenario() -> None:
        setup = Distribution("constant", 0.15)
        async with with_pcrf(bearer_setup=setup, rx_wait_for_bearer=True) as parts:
            core, caller, callee, _ = parts
            loop = asyncio.get_running_loop()
            a = Caller(caller, callee.subscriber.impu_tel)
            a.invite()
            await caller.response(100, "INVITE")
            b = await Callee.rings(callee)
            started = loop.time()
            b.answer(183, body=sdp(callee))
            await a.progress(183)
            assert loop.time() - started >= 0.3  # one leg after the other
            b.answer(486)
            await a.fails(486)
            assert core.counters["Rx RAR"] == 2

    run(scenario)


VIDEO = ("m=video 49154 RTP/AVP 99", "b=AS:300", "a=rtpmap:99 H264/90000")


def test_an_answer_waits_for_the_bearer_of_every_medium_on_every_leg() -> None:
    """Only when each component of both legs is reported do the resources count as reserved."""

    async def scenario() -> None:
        late = Distribution("constant", 60.0)  # the PCRF says nothing of itself in time
        async with with_pcrf(bearer_setup=late, rx_wait_for_bearer=True) as parts:
            core, caller, callee, pcrf = parts
            a = Caller(caller, callee.subscriber.impu_tel)
            a.invite(body=sdp(caller, *VIDEO))
            await caller.response(100, "INVITE")
            b = await Callee.rings(callee)
            b.answer(183, body=sdp(callee, *VIDEO))
            told: set[str] = set()
            for leg in (1, 2):
                await until(lambda leg=leg: core.counters["Rx AAR: 2001"] == 2 + leg)
                (session,) = {one.id for one in pcrf.procedures.sessions.draw(9)} - told
                told.add(session)
                for component in (1, 2):
                    await pcrf.send_rar(session, (8,), flows=[Flows(component)])
                    await asyncio.sleep(0.05)
                    if (leg, component) != (2, 2):
                        assert caller.inbox.empty()
                        assert core.counters["Rx AAR"] == 2 + leg + (component - 1) * (2 - leg)
            await a.progress(183)
            b.answer(486)
            await a.fails(486)

    run(scenario)


def test_a_bearer_that_never_comes_fails_the_call_and_a_cancel_need_not_wait() -> None:
    async def scenario() -> None:
        setup = Distribution("constant", 5.0)
        changes: dict[str, Any] = {"rx_wait_for_bearer": True, "rx_bearer_timeout_s": 0.3}
        async with with_pcrf(bearer_setup=setup, **changes) as (core, caller, callee, _):
            for cancelled in (False, True):
                a = Caller(caller, callee.subscriber.impu_tel)
                a.invite()
                await caller.response(100, "INVITE")
                b = await Callee.rings(callee)
                b.answer(183, body=sdp(callee))
                if cancelled:
                    await asyncio.sleep(0.05)
                    a.cancel()
                    await caller.response(200, "CANCEL")
                else:
                    refused = await a.fails(500)
                    assert "bearer" in (refused.get("warning") or "")
                b.answer(200, request=await callee.request("CANCEL"))
                b.answer(487)
                await callee.request("ACK")
                if cancelled:
                    await a.fails(487)
            assert core.counts()["calls"] == 0
            assert core.counters["Rx: bearers not reported in time"] == 1

    run(scenario)


def test_an_offer_in_the_200_is_answered_in_the_ack() -> None:
    async def scenario() -> None:
        async with with_pcrf() as (_, caller, callee, pcrf):
            a = Caller(caller, callee.subscriber.impu_tel)
            a.invite(body=b"")
            await caller.response(100, "INVITE")
            b = await Callee.rings(callee)
            b.answer(200, body=sdp(callee))
            await a.progress(200)
            assert a.invited is not None
            a.send("ACK", cseq=a.invited.cseq, body=sdp(caller))
            await b.takes("ACK")
            await until(lambda: pcrf.procedures.sessions.media == 2)
            await ends(a, b)

    run(scenario)


def test_sdp_that_cannot_be_read_fails_the_call() -> None:
    async def scenario() -> None:
        async with with_pcrf() as (core, caller, callee, _):
            a = Caller(caller, callee.subscriber.impu_tel)
            a.invite(body=b"v=1\r\n")
            await caller.response(100, "INVITE")
            b = await Callee.rings(callee)
            b.answer(183, body=sdp(callee))
            refused = await a.fails(500)
            assert (refused.get("warning") or "").startswith('399 reference-core "Rx AAR: SDP: ')
            assert core.counters["SDP without service information"] == 1

    run(scenario)


def test_a_pcrf_that_comes_back_is_asked_again() -> None:
    async def scenario() -> None:
        async with with_pcrf() as (core, caller, callee, _):
            policy = core.policy
            assert policy is not None
            connection = policy.peer.connections[0]
            leaving = asyncio.create_task(connection.disconnect(DisconnectCause.BUSY))
            await until(lambda: not connection.is_open)
            a = Caller(caller, callee.subscriber.impu_tel)
            a.invite()
            await caller.response(100, "INVITE")
            b = await Callee.rings(callee)
            b.answer(183, body=sdp(callee))
            refused = await a.fails(500)
            assert "no connection" in (refused.get("warning") or "")
            b.answer(200, request=await callee.request("CANCEL"))
            b.answer(487)
            await callee.request("ACK")
            await leaving
            await until(lambda: policy.peer.connections and policy.peer.connections[0].is_open)
            await answered(caller, callee)

    run(scenario)


# -- service information


def test_both_legs_of_an_ipv6_call_as_their_own_phones_see_it() -> None:
    offer = make_offer("2001:db8::1", 4000, "1", preconditions=True)
    answer = make_answer(offer, "2001:db8::2", 5000, "2", 1)
    given = parse_sdp(serialize_sdp(answer))
    given.media[0].attributes = ["sendonly", "rtpmap:116 AMR-WB/16000/1"]
    given.media[0].bandwidth = ["AS:30"]
    bodies = serialize_sdp(offer), serialize_sdp(given)
    (caller,) = describe(*bodies, of_offerer=True)
    (callee,) = describe(*bodies, of_offerer=False)
    assert caller.media_type is callee.media_type is MediaType.AUDIO
    assert caller.flow_status is FlowStatus.ENABLED_DOWNLINK
    assert callee.flow_status is FlowStatus.ENABLED_UPLINK
    assert (caller.max_requested_bandwidth_ul, caller.max_requested_bandwidth_dl) == (
        30_000,
        49_000,
    )
    assert (callee.max_requested_bandwidth_ul, callee.max_requested_bandwidth_dl) == (
        49_000,
        30_000,
    )
    assert (caller.rs_bandwidth, caller.rr_bandwidth) == (600, 2000)
    assert callee.rs_bandwidth is None
    uplink, downlink = caller.codec_data
    assert uplink.startswith("uplink\noffer\nm=audio 4000 RTP/AVP 116")
    assert downlink.startswith("downlink\nanswer\nm=audio 5000 RTP/AVP 116")
    assert callee.media_sub_component[0].flow_description[0] == (
        b"permit in 17 from 2001:db8::2 5000 to 2001:db8::1 4000"
    )


def test_a_refused_stream_is_removed_and_streams_must_match() -> None:
    offer = make_offer("192.0.2.1", 4000, "1", preconditions=False)
    answer = make_answer(offer, "192.0.2.2", 5000, "2", 1)
    answer.media[0].port = 0
    (removed,) = describe(serialize_sdp(offer), serialize_sdp(answer), of_offerer=True)
    assert removed.flow_status is FlowStatus.REMOVED
    assert not removed.media_sub_component
    answer.media = []
    with pytest.raises(SdpError):
        describe(serialize_sdp(offer), serialize_sdp(answer), of_offerer=True)


# -- faults


def test_byes_are_lost_as_injected() -> None:
    async def scenario() -> None:
        async with two_phones(faults=Faults(lose_bye_share=1.0)) as (core, caller, callee):
            a, b = await answered(caller, callee)
            a.send("BYE")
            b.send("BYE")
            await caller.silence()
            await callee.silence()
            assert core.counters["BYEs lost as injected"] == 2
            assert core.counters["calls ended: BYE lost as injected"] == 1
            a.send("INFO")
            await caller.response(481, "INFO")

    run(scenario)


def test_the_share_of_lost_byes_is_drawn_from_the_seed() -> None:
    async def scenario() -> None:
        async with two_phones(faults=Faults(lose_bye_share=0.5)) as (core, caller, callee):
            lost = 0
            for _ in range(20):
                a, b = await answered(caller, callee)
                a.send("BYE")
                await asyncio.sleep(0.01)
                if callee.inbox.empty():
                    lost += 1
                else:
                    await b.takes("BYE")
                    await caller.response(200, "BYE")
            assert 0 < lost < 20
            assert core.counters["BYEs lost as injected"] == lost

    run(scenario)


def test_early_byes_go_to_both_sides() -> None:
    async def scenario() -> None:
        faults = Faults(early_bye_share=1.0, early_bye=Distribution("constant", 0.1))
        async with two_phones(faults=faults) as (core, caller, callee):
            a, b = await answered(caller, callee)
            loop = asyncio.get_running_loop()
            started = loop.time()
            to_callee = await callee.request("BYE")
            to_caller = await caller.request("BYE")
            assert 0.05 < loop.time() - started < 1.0
            assert (to_callee.uri, to_caller.uri) == (callee.contact, caller.contact)
            assert (to_callee.get("from"), to_callee.get("to")) == (a.local, b.local)
            assert (to_caller.get("from"), to_caller.get("to")) == (b.local, a.local)
            assert to_callee.cseq > a.cseq
            for phone, bye in ((callee, to_callee), (caller, to_caller)):
                phone.send(response_to(bye, 200, "OK"))
            assert core.counters["early BYEs as injected"] == 1
            assert core.counters["calls ended: released: as injected"] == 1

    run(scenario)


def test_a_core_dies_at_the_call_it_is_told_to() -> None:
    async def scenario() -> None:
        async with two_phones(faults=Faults(die_at_call=2)) as (core, caller, callee):
            died: list[bool] = []
            core.pcscf.calls.die = lambda: died.append(True)
            a, b = await answered(caller, callee)
            await ends(a, b)
            assert not died
            await answered(caller, callee)
            assert died == [True]

    run(scenario)


def test_call_settings_come_by_config() -> None:
    config = {
        "listen": ["127.0.0.1", 5060],
        "domain": DOMAIN,
        "pcrf": ["127.0.0.1", 3869],
        "rx_grace_s": 5.0,
        "rx_wait_for_bearer": True,
        "timer_c_s": 190.0,
        "faults": {"early_bye_share": 0.1, "early_bye": {"kind": "constant", "mean_s": 3.0}},
    }
    settings = CoreSettings.from_config(config)
    assert settings.pcrf == ("127.0.0.1", 3869)
    assert (settings.rx_grace_s, settings.rx_timeout_s, settings.rx_wait_for_bearer) == (5, 3, True)
    assert settings.faults.early_bye.mean_s == 3.0
    for wrong in ({"faults": {"lose_bye_share": 2.0}}, {"rx_grace_s": -1.0}, {"timer_c_s": 0}):
        with pytest.raises(ValueError, match=r"."):
            CoreSettings.from_config(config | wrong)
