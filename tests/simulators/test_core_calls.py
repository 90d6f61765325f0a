"""Calls through the reference core over loopback TCP, ipsec off: every fork, both sides."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from imsbench.protocol.sip import Request, Response, response_to, serialize_message
from simulators.core.cxclient import CxFailure
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
from tests.simulators.core_helpers import DOMAIN, POPULATION, FakeCx


def test_the_whole_ladder_with_preconditions() -> None:
    async def scenario() -> None:
        async with two_phones() as (core, caller, callee):
            a = Caller(caller, callee.subscriber.impu_tel)
            a.invite(("supported", "100rel, precondition"))
            trying = await caller.response(100, "INVITE")
            assert ";tag=" not in (trying.get("to") or "")
            b = await Callee.rings(callee)
            b.answer(183, ("require", "100rel"), ("rseq", "1"), body=sdp(callee))
            progress = await a.progress(183)
            assert progress.body == sdp(callee)
            assert progress.get("rseq") == "1"
            a.send("PRACK", ("rack", "1 1 INVITE"))
            assert (await b.takes("PRACK")).get("rack") == "1 1 INVITE"
            await caller.response(200, "PRACK")
            a.send("UPDATE", body=sdp(caller, "a=curr:qos local sendrecv"))
            update = await b.takes("UPDATE", body=sdp(callee, "a=curr:qos local sendrecv"))
            assert b"curr:qos local sendrecv" in update.body
            assert (await caller.response(200, "UPDATE")).body.endswith(b"local sendrecv\r\n")
            b.answer(180)
            await a.progress(180)
            b.answer(200)
            await a.progress(200)
            a.ack()
            await b.takes("ACK")
            assert core.result()["calls"] == {"setting up": 0, "answered": 1}
            await ends(a, b)
            assert core.counts()["calls"] == 0
            counters = core.counters
            assert counters["calls attempted"] == counters["calls answered"] == 1
            assert counters["calls ended: BYE of the caller"] == 1
            for name in ("INVITE", "ACK", "BYE", "PRACK", "UPDATE"):
                assert counters[f"received {name}"] == counters[f"sent {name}"] == 1, name
            for name in ("183 INVITE", "180 INVITE", "200 INVITE", "200 UPDATE", "200 BYE"):
                assert counters[f"received {name}"] == counters[f"sent {name}"] == 1, name
            assert counters["sent 100 INVITE"] == 1

    run(scenario)


def test_a_plain_call_that_the_callee_ends() -> None:
    async def scenario() -> None:
        async with two_phones() as (core, caller, callee):
            a, b = await answered(caller, callee)
            await ends(b, a)
            assert core.counters["calls ended: BYE of the callee"] == 1
            assert core.counts()["calls"] == 0

    run(scenario)


def test_what_the_called_phone_gets() -> None:
    async def scenario() -> None:
        cx = FakeCx()
        async with two_phones(cx) as (core, caller, callee):
            host, port = core.address
            a = Caller(caller, callee.subscriber.impu_tel)
            sent = a.invite(
                ("p-preferred-identity", f"<{caller.subscriber.impu_tel}>"),
                ("p-asserted-identity", "<sip:forged@example.org>"),
                ("p-access-network-info", "3GPP-E-UTRAN-FDD"),
                ("require", "sec-agree"),
                ("proxy-require", "sec-agree"),
                ("security-verify", "ipsec-3gpp;q=0.1"),
                ("supported", "100rel, precondition"),
                ("p-early-media", "supported"),
            )
            invite = (await Callee.rings(callee)).invited
            assert cx.asked[-1] == f"LIR {callee.subscriber.impu_tel}"
            assert invite.uri == callee.contact
            assert invite.get("p-called-party-id") == f"<{callee.subscriber.impu_tel}>"
            assert invite.get_all("p-asserted-identity") == [
                f"<{caller.subscriber.impu_tel}>", f"<{caller.subscriber.impu_sip}>",
            ]  # fmt: skip
            for gone in (
                "p-preferred-identity", "p-access-network-info", "require", "proxy-require",
                "security-verify", "route",
            ):  # fmt: skip
                assert invite.get(gone) is None, gone
            assert invite.get("max-forwards") == "65"
            scscf = f"scscf.{DOMAIN}:6060"
            assert invite.get_all("record-route") == [
                f"<sip:mt@{host}:{port};lr>", f"<sip:mt@{scscf};lr>",
                f"<sip:mo@{scscf};lr>", f"<sip:mo@{host}:{port};lr>",
            ]  # fmt: skip
            vias = invite.values("via")
            assert len(vias) == 2
            assert vias[0].startswith(f"SIP/2.0/TCP {host}:{port};branch=z9hG4bK")
            assert vias[1].endswith(f"rport={caller.port};received=127.0.0.1")
            assert invite.body == sent.body
            for kept in ("from", "to", "call-id", "cseq", "contact", "supported", "p-early-media"):
                assert invite.get(kept) == sent.get(kept), kept

    run(scenario)


@pytest.mark.parametrize(
    "uri",
    [
        "tel:+15550000002",
        "tel:+1-555-000.0002",
        f"sip:+15550000002@{DOMAIN};user=phone",
        f"sip:+15550000002@{DOMAIN.upper()}",
    ],
)
def test_every_way_to_write_a_number_finds_the_phone(uri: str) -> None:
    async def scenario() -> None:
        async with two_phones() as (_, caller, callee):
            a = Caller(caller, uri)
            a.invite()
            await caller.response(100, "INVITE")
            b = await Callee.rings(callee)
            b.answer(486)
            await a.fails(486)
            called = (b.invited.get("p-called-party-id") or "").strip("<>")
            assert POPULATION.number_of(called) == 1

    run(scenario)


def test_the_caller_gets_the_callee_s_identity_and_the_record_routes_as_they_were() -> None:
    async def scenario() -> None:
        async with two_phones() as (core, caller, callee):
            a = Caller(caller, callee.subscriber.impu_sip)
            a.invite()
            await caller.response(100, "INVITE")
            b = await Callee.rings(callee)
            b.invited.headers = [h for h in b.invited.headers if h[0] != "record-route"]
            b.answer(180, ("p-access-network-info", "3GPP-E-UTRAN-FDD"))
            ringing = await a.progress(180)
            assert ringing.get_all("p-asserted-identity") == [
                f"<{callee.subscriber.impu_sip}>", f"<{callee.subscriber.impu_tel}>",
            ]  # fmt: skip
            assert ringing.get("p-access-network-info") is None
            assert len(ringing.get_all("record-route")) == 4
            assert len(ringing.values("via")) == 1
            assert core.counters["Record-Routes changed by phones"] == 1

    run(scenario)


@pytest.mark.parametrize("status", [486, 603, 600, 302, 580])
def test_a_refusal_goes_back_and_is_acknowledged_hop_by_hop(status: int) -> None:
    async def scenario() -> None:
        async with two_phones() as (core, caller, callee):
            a = Caller(caller, callee.subscriber.impu_tel)
            a.invite()
            await caller.response(100, "INVITE")
            b = await Callee.rings(callee)
            b.answer(status)
            ack = await callee.request("ACK")
            assert ack.branch == b.invited.branch
            assert ack.cseq == b.invited.cseq
            await a.fails(status)
            await callee.silence()
            assert core.counters[f"calls ended: INVITE {status}"] == 1
            assert core.counts()["calls"] == 0

    run(scenario)


def test_a_cancel_becomes_487() -> None:
    async def scenario() -> None:
        async with two_phones() as (core, caller, callee):
            a = Caller(caller, callee.subscriber.impu_tel)
            a.invite()
            await caller.response(100, "INVITE")
            b = await Callee.rings(callee)
            b.answer(180)
            await a.progress(180)
            a.cancel()
            await caller.response(200, "CANCEL")
            cancel = await callee.request("CANCEL")
            assert cancel.branch == b.invited.branch
            assert cancel.uri == b.invited.uri
            assert cancel.values("via") == b.invited.values("via")[:1]
            b.answer(200, request=cancel)
            b.answer(487)
            await callee.request("ACK")
            await a.fails(487)
            assert core.counters["calls ended: INVITE 487"] == 1

    run(scenario)


def test_a_cancel_waits_for_the_first_provisional_response() -> None:
    async def scenario() -> None:
        async with two_phones() as (_, caller, callee):
            a = Caller(caller, callee.subscriber.impu_tel)
            a.invite()
            await caller.response(100, "INVITE")
            b = Callee(callee, await callee.request("INVITE"))
            a.cancel()
            await caller.response(200, "CANCEL")
            await callee.silence()
            b.answer(100)
            b.answer(200, request=await callee.request("CANCEL"))
            b.answer(487)
            await a.fails(487)

    run(scenario)


def test_a_cancel_before_the_callee_is_found() -> None:
    async def scenario() -> None:
        found = asyncio.Event()

        class SlowCx(FakeCx):
            async def location_information(self, impu: str) -> str:
                await found.wait()
                return await super().location_information(impu)

        async with two_phones(SlowCx()) as (_, caller, callee):
            a = Caller(caller, callee.subscriber.impu_tel)
            a.invite()
            await caller.response(100, "INVITE")
            a.cancel()
            await caller.response(200, "CANCEL")
            found.set()
            await a.fails(487)
            await callee.silence()

    run(scenario)


def test_a_cancel_that_crosses_the_200() -> None:
    async def scenario() -> None:
        async with two_phones() as (core, caller, callee):
            a = Caller(caller, callee.subscriber.impu_tel)
            a.invite()
            await caller.response(100, "INVITE")
            b = await Callee.rings(callee)
            b.answer(180)
            await a.progress(180)
            b.answer(200)
            a.cancel()
            await a.progress(200)
            await caller.response(200, "CANCEL")
            a.ack()
            await b.takes("ACK")
            await ends(a, b)
            await callee.silence()
            assert core.counters["CANCELs after the final response"] == 1

    run(scenario)


def test_a_cancel_without_an_invite_is_481() -> None:
    async def scenario() -> None:
        async with two_phones() as (_, caller, callee):
            a = Caller(caller, callee.subscriber.impu_tel)
            a.invited = a.build("INVITE")
            a.cancel()
            await caller.response(481, "CANCEL")

    run(scenario)


@pytest.mark.parametrize(
    ("uri", "status"),
    [
        ("tel:+19999999999", 404),
        (POPULATION.subscriber(5).impu_tel, 480),
        (POPULATION.subscriber(1).impu_temporary, 404),
        ("mailto:somebody@example.org", 416),
    ],
)
def test_who_cannot_be_called(uri: str, status: int) -> None:
    async def scenario() -> None:
        async with two_phones() as (core, caller, _):
            a = Caller(caller, uri)
            a.invite()
            await caller.response(100, "INVITE")
            await a.fails(status)
            assert core.counters[f"calls ended: INVITE {status}"] == 1
            assert core.counts()["calls"] == 0

    run(scenario)


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        (CxFailure("LIR", "no answer"), 504),
        (CxFailure("LIR", "not connected"), 480),
        (CxFailure("LIR", "refused", 5003, experimental=True), 480),
        (CxFailure("LIR", "refused", 5012), 500),
    ],
)
def test_an_hss_that_fails_to_locate(failure: CxFailure, status: int) -> None:
    async def scenario() -> None:
        cx = FakeCx()
        async with two_phones(cx) as (core, caller, callee):
            cx.failures["LIR"] = failure
            a = Caller(caller, callee.subscriber.impu_tel)
            a.invite()
            await caller.response(100, "INVITE")
            refused = await a.fails(status)
            assert "LIR" in (refused.get("warning") or "")
            assert core.counters[str(failure)] == 1

    run(scenario)


def test_a_callee_whose_connection_is_gone() -> None:
    async def scenario() -> None:
        async with two_phones() as (core, caller, callee):
            await callee.close()
            await asyncio.sleep(0.05)
            a = Caller(caller, callee.subscriber.impu_tel)
            a.invite()
            await caller.response(100, "INVITE")
            await a.fails(500)
            assert core.counters["phones unreachable"] == 1

    run(scenario)


def test_what_an_invite_must_have() -> None:
    async def scenario() -> None:
        async with two_phones() as (core, caller, callee):
            a = Caller(caller, callee.subscriber.impu_tel)
            good = a.routes
            for routes in ([], good[:1], good[::-1], [*good, "<sip:elsewhere;lr>"], ["<nothing>"]):
                a.routes = routes
                a.invite()
                await a.fails(400)
            a.routes = good
            a.invite(("proxy-require", "sec-agree, levitation"))
            refused = await a.fails(420)
            assert refused.get("unsupported") == "levitation"
            request = a.build("INVITE")
            request.headers = [
                (name, "4" if name == "max-forwards" else value) for name, value in request.headers
            ]
            caller.send(request)
            a.invited = request
            await a.fails(483)
            assert core.counts()["calls"] == 0
            await callee.silence()

    run(scenario)


def test_a_loop_and_a_merged_request_are_482() -> None:
    async def scenario() -> None:
        async with two_phones() as (core, caller, callee):
            host, port = core.address
            a = Caller(caller, callee.subscriber.impu_tel)
            a.invite(("via", f"SIP/2.0/TCP {host}:{port};branch=z9hG4bKold"))
            await a.fails(482)
            a.invite()
            await caller.response(100, "INVITE")
            await Callee.rings(callee)
            a.invite()
            await a.fails(482)

    run(scenario)


def test_a_phone_that_is_not_registered_cannot_call() -> None:
    async def scenario() -> None:
        async with two_phones() as (core, _, callee):
            stranger = CallPhone(core, 2)
            await stranger.connect()
            a = Caller(stranger, callee.subscriber.impu_tel)
            a.invite()
            await a.fails(403)

    run(scenario)


def test_requests_of_nobody_s_dialog() -> None:
    async def scenario() -> None:
        async with two_phones() as (core, caller, callee):
            a, b = await answered(caller, callee)
            target, routes = a.target, a.routes
            a.target = "sip:elsewhere@192.0.2.1"
            a.send("BYE")
            await caller.response(404, "BYE")
            a.target, a.routes = target, routes[::-1]
            a.send("BYE")
            await caller.response(400, "BYE")
            a.send("ACK")
            a.routes = routes
            stranger = await CallPhone(core, 2).attach()
            b.phone, phone = stranger, b.phone
            b.send("BYE")
            await stranger.response(403, "BYE")
            b.phone = phone
            await ends(a, b)
            a.send("BYE")
            await caller.response(481, "BYE")
            a.send("ACK")
            await caller.silence()
            await callee.silence()
            assert core.counters["ACKs without a call"] == 2

    run(scenario)


def test_both_hang_up_at_once() -> None:
    async def scenario() -> None:
        async with two_phones() as (core, caller, callee):
            a, b = await answered(caller, callee)
            a.send("BYE")
            b.send("BYE")
            to_callee, to_caller = await callee.request("BYE"), await caller.request("BYE")
            callee.send(response_to(to_callee, 200, "OK"))
            caller.send(response_to(to_caller, 200, "OK"))
            await caller.response(200, "BYE")
            await callee.response(200, "BYE")
            assert core.counts()["calls"] == 0
            assert sum(n for name, n in core.counters.items() if "calls ended" in name) == 1

    run(scenario)


def test_hold_resume_and_info_go_both_ways() -> None:
    async def scenario() -> None:
        async with two_phones() as (core, caller, callee):
            a, b = await answered(caller, callee)
            held = b.send("INVITE", body=sdp(callee, "a=sendonly"))
            await callee.response(100, "INVITE")
            invite = await caller.request("INVITE")
            assert invite.body == held.body
            assert invite.get("record-route") is None
            answer = response_to(
                invite, 200, "OK", headers=[("contact", f"<{caller.contact}>"),
                ("content-type", "application/sdp")], body=sdp(caller, "a=recvonly"),
            )  # fmt: skip
            caller.send(answer)
            assert (await callee.response(200, "INVITE")).body == answer.body
            b.send("ACK", cseq=held.cseq)
            await caller.request("ACK")
            a.send("INFO")
            await b.takes("INFO")
            await caller.response(200, "INFO")
            a.send("UPDATE")
            await b.takes("UPDATE", 491)
            await caller.response(491, "UPDATE")
            assert core.counters["calls answered"] == 1
            await ends(a, b)

    run(scenario)


def test_a_phone_may_move_within_a_call() -> None:
    async def scenario() -> None:
        async with two_phones() as (_, caller, callee):
            a, b = await answered(caller, callee)
            moved = f"sip:moved@127.0.0.1:{caller.port}"
            update = a.build("UPDATE")
            update.headers = [
                (name, f"<{moved}>" if name == "contact" else value)
                for name, value in update.headers
            ]
            caller.send(update)
            await b.takes("UPDATE")
            await caller.response(200, "UPDATE")
            b.target = moved
            await ends(b, a)

    run(scenario)


def test_retransmissions_do_no_harm() -> None:
    async def scenario() -> None:
        async with two_phones() as (core, caller, callee):
            a = Caller(caller, callee.subscriber.impu_tel)
            invite = a.invite()
            await caller.response(100, "INVITE")
            caller.send(invite)
            await caller.response(100, "INVITE")
            b = await Callee.rings(callee)
            b.answer(183, ("require", "100rel"), ("rseq", "1"))
            b.answer(183, ("require", "100rel"), ("rseq", "1"))
            await a.progress(183)
            await a.progress(183)
            b.answer(200)
            b.answer(200)
            await a.progress(200)
            await a.progress(200)
            b.answer(180)
            a.ack()
            a.ack()
            await b.takes("ACK")
            await b.takes("ACK")
            assert core.counters["retransmitted requests"] == 1
            assert core.counters["provisional responses after the final one"] == 1
            assert core.counters["calls answered"] == 1
            await callee.silence()
            await caller.silence()

    run(scenario)


def test_two_early_dialogs() -> None:
    async def scenario() -> None:
        async with two_phones() as (_, caller, callee):
            a = Caller(caller, callee.subscriber.impu_tel)
            a.invite()
            await caller.response(100, "INVITE")
            first = await Callee.rings(callee)
            second = Callee(callee, first.invited)
            second.tag = "other"
            first.answer(183)
            second.answer(183)
            assert (await a.progress(183)).get("to") != (await a.progress(183)).get("to")
            a.send("PRACK")
            await second.takes("PRACK")
            await caller.response(200, "PRACK")
            second.answer(200)
            await a.progress(200)
            a.ack()
            await second.takes("ACK")

    run(scenario)


def test_timer_c_ends_what_rings_for_ever() -> None:
    async def scenario() -> None:
        async with two_phones(timer_c_s=0.3) as (core, caller, callee):
            a = Caller(caller, callee.subscriber.impu_tel)
            a.invite()
            await caller.response(100, "INVITE")
            b = await Callee.rings(callee)
            await asyncio.sleep(0.2)
            b.answer(180)  # moves it
            await a.progress(180)
            await callee.silence(0.2)
            b.answer(200, request=await callee.request("CANCEL"))
            b.answer(487)
            await a.fails(487)
            assert core.counters["Timer C"] == 1

    run(scenario)


def test_a_phone_that_does_not_answer_is_408(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulators.core.proxy.TRANSACTION_S", 0.2)

    async def scenario() -> None:
        async with two_phones() as (core, caller, callee):
            a, b = await answered(caller, callee)
            a.send("INFO")
            await callee.request("INFO")
            await caller.response(408, "INFO")
            await ends(a, b)
            c = Caller(caller, callee.subscriber.impu_tel)
            c.invite()
            await caller.response(100, "INVITE")
            await callee.request("INVITE")
            refused = await caller.response(408, "INVITE")
            assert refused.status == 408
            await asyncio.sleep(0.3)
            assert core.counters["ACKs missing"] == 1
            assert core.counts()["calls"] == 0

    run(scenario)


def test_the_end_of_a_registration_releases_its_calls() -> None:
    async def scenario() -> None:
        async with two_phones() as (core, caller, callee):
            _, _ = await answered(caller, callee)
            gone = await caller.exchange(caller.refresh(0))
            assert gone.status == 200
            bye = await callee.request("BYE")
            assert (bye.get("reason") or "").startswith("SIP;cause=503;text=")
            callee.send(response_to(bye, 200, "OK"))
            assert core.counters["calls ended: released: registration ended"] == 1
            assert core.counts()["calls"] == 0

    run(scenario)


@pytest.mark.parametrize(
    "data",
    [
        b"INVITE tel:+1 SIP/2.0\r\nContent-Length: 0\r\n\r\n",
        b"INVITE tel:+1 SIP/2.0\r\nVia: x\r\nFrom: x\r\nTo: x\r\nCall-ID: x\r\nCSeq: 1 INVITE\r\n"
        b"Max-Forwards: many\r\nContent-Length: 0\r\n\r\n",
        b"BYE x SIP/2.0\r\nVia: ;;\r\nFrom: ;tag=\r\nTo: ;tag=a\r\nCall-ID: x\r\nCSeq: 1 BYE\r\n"
        b"Route: <\r\nContent-Length: 0\r\n\r\n",
        b"CANCEL x SIP/2.0\r\nVia: ,,\r\nFrom: x\r\nTo: x\r\nCall-ID: x\r\nCSeq: 1 CANCEL\r\n"
        b"Content-Length: 0\r\n\r\n",
        b"ACK x SIP/2.0\r\nVia: x\r\nFrom: x\r\nTo: x\r\nCall-ID: x\r\nCSeq: 1 ACK\r\n"
        b"Content-Length: 0\r\n\r\n",
        b"SIP/2.0 200 OK\r\nVia: x;branch=z9hG4bKp0\r\nFrom: x\r\nTo: x\r\nCall-ID: x\r\n"
        b"CSeq: 1 INVITE\r\nContent-Length: 0\r\n\r\n",
        b"\x00\xff\r\n\r\n" * 20,
    ],
)
def test_malformed_bytes_are_never_fatal(data: bytes) -> None:
    async def scenario() -> None:
        async with two_phones() as (core, caller, callee):
            broken = await CallPhone(core, 2).attach()
            broken.writer.write(data)
            await asyncio.sleep(0.05)
            a, b = await answered(caller, callee)
            await ends(a, b)
            assert not any("internal" in name for name in core.counters)

    run(scenario)


def test_a_contact_that_is_none_in_a_response_is_counted() -> None:
    async def scenario() -> None:
        async with two_phones() as (core, caller, callee):
            a = Caller(caller, callee.subscriber.impu_tel)
            a.invite()
            await caller.response(100, "INVITE")
            b = await Callee.rings(callee)
            broken = response_to(b.invited, 180, "Ringing", to_tag="b", headers=[("contact", "?")])
            callee.send(broken)
            message = await caller.message()
            assert isinstance(message, Response)
            assert message.status == 180
            assert core.counters["malformed: Contact of a response"] == 1

    run(scenario)


def test_mutated_messages_never_raise() -> None:
    async def scenario() -> None:
        raised: list[dict[str, object]] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: raised.append(context))
        random = Random(7)
        async with two_phones() as (core, caller, callee):
            for turn in range(150):
                await reconnect(caller, callee)
                a = Caller(caller, callee.subscriber.impu_tel)
                caller.writer.write(mutated(a.build("INVITE", body=sdp(caller)), random))
                a.invite(body=sdp(caller))
                await asyncio.sleep(0.002)
                while not callee.inbox.empty():
                    message = callee.inbox.get_nowait()
                    if isinstance(message, Request) and message.method != "ACK":
                        status = random.choice((180, 183, 200, 486))
                        contact = ("contact", f"<{callee.contact}>")
                        answer = response_to(message, status, "?", to_tag="b", headers=[contact])
                        callee.writer.write(mutated(answer, random))
                        callee.send(answer)
                await asyncio.sleep(0.002)
                a.remote += ";tag=b"
                a.target = callee.contact
                for method in ("ACK", "PRACK", "BYE", "CANCEL"):
                    caller.writer.write(mutated(a.build(method), random))
                await asyncio.sleep(0.002 if turn % 10 else 0.02)
            assert core.counters["calls attempted"] > 100
            assert not [name for name in core.counters if name.startswith("internal")]
        assert not raised, raised

    run(scenario)


def mutated(message: Request | Response, random: Random) -> bytes:
    """The message with a few bytes changed, lost or doubled."""
    data = bytearray(serialize_message(message))
    for _ in range(random.randint(1, 4)):
        at = random.randrange(len(data))
        match random.randrange(4):
            case 0:
                data[at] = random.choice(b'\r\n ;,<>"@:=\x00\xff09az')
            case 1:
                del data[at : at + random.randint(1, 12)]
            case 2:
                data[at:at] = data[max(0, at - 20) : at]
            case _:
                data[at:at] = random.choice((b"\r\n", b";tag=b", b"<", b"\xc3\x28", b"sip:", b","))
    return bytes(data)


async def reconnect(*phones: CallPhone) -> None:
    """Phones whose connection was closed for its bytes register anew; what came is forgotten."""
    for phone in phones:
        if phone.closed.is_set():
            await phone.close()
            await phone.attach()
        while not phone.inbox.empty():
            phone.inbox.get_nowait()
