"""Registration at the reference core over loopback TCP, ipsec off (TS 24.229 §5.4.1)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from imsbench.distribution import Distribution
from imsbench.protocol import digest
from imsbench.protocol.aka import MacFailure, run_aka, split_nonce
from imsbench.protocol.sip import serialize_message
from simulators.core.cxclient import CxFailure
from simulators.cx import ReasonCode
from tests.simulators.core_helpers import DOMAIN, FakeCx, TestPhone, running

Scenario = Callable[[], Coroutine[Any, Any, None]]


def run(scenario: Scenario) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(20):
            await scenario()

    asyncio.run(bounded())


def test_a_phone_registers_and_the_200_says_all_that_it_needs() -> None:
    async def scenario() -> None:
        cx = FakeCx()
        async with running(cx) as core:
            phone = TestPhone(core)
            await phone.connect()
            ok = await phone.register()
            assert ok.status == 200
            assert cx.asked == [
                "UAR REGISTRATION", "MAR", "UAR REGISTRATION", "SAR REGISTRATION",
            ]  # fmt: skip
            assert ok.get_all("p-associated-uri") == [
                f"<{phone.subscriber.impu_sip}>", f"<{phone.subscriber.impu_tel}>",
            ]  # fmt: skip
            assert ok.get("service-route") == f"<sip:orig@scscf.{DOMAIN}:6060;lr>"
            contact = ok.get("contact") or ""
            assert contact.endswith(';+sip.instance="<urn:x:1>";expires=3600')
            assert (ok.get("path") or "").startswith("<sip:term@127.0.0.1")
            via = ok.get("via") or ""
            assert ";received=127.0.0.1" in via
            assert core.counts()["registered"] == 1
            await phone.close()

    run(scenario)


def test_the_keys_never_leave_towards_the_phone() -> None:
    async def scenario() -> None:
        async with running() as core:
            phone = TestPhone(core)
            await phone.connect()
            unauthorized = await phone.exchange(phone.initial())
            text = serialize_message(unauthorized).decode().lower()
            assert "ck=" not in text
            assert "ik=" not in text
            await phone.close()

    run(scenario)


def test_a_refresh_is_not_challenged_and_costs_one_uar() -> None:
    async def scenario() -> None:
        cx = FakeCx()
        async with running(cx) as core:
            phone = TestPhone(core)
            await phone.connect()
            await phone.register()
            cx.asked.clear()
            ok = await phone.exchange(phone.refresh(1200))
            assert ok.status == 200
            assert (ok.get("contact") or "").endswith("expires=1200")
            assert cx.asked == ["UAR REGISTRATION"]
            await phone.close()

    run(scenario)


def test_a_refresh_over_another_connection_is_challenged() -> None:
    async def scenario() -> None:
        async with running() as core:
            phone = TestPhone(core)
            await phone.connect()
            await phone.register()
            await phone.close()
            await phone.connect()
            unauthorized = await phone.exchange(phone.refresh())
            ok = await phone.exchange(phone.register_request(phone.answer_to(unauthorized)))
            assert (unauthorized.status, ok.status) == (401, 200)
            await phone.close()

    run(scenario)


def test_reauthenticate_challenges_a_refresh() -> None:
    async def scenario() -> None:
        cx = FakeCx()
        async with running(cx, reauthenticate=True) as core:
            phone = TestPhone(core)
            await phone.connect()
            await phone.register()
            unauthorized = await phone.exchange(phone.refresh())
            ok = await phone.exchange(phone.register_request(phone.answer_to(unauthorized)))
            assert (unauthorized.status, ok.status) == (401, 200)
            assert cx.asked[-1] == "SAR RE_REGISTRATION"
            assert core.counts()["registered"] == 1
            await phone.close()

    run(scenario)


def test_deregistration() -> None:
    async def scenario() -> None:
        cx = FakeCx()
        async with running(cx) as core:
            phone = TestPhone(core)
            await phone.connect()
            await phone.register()
            cx.asked.clear()
            ok = await phone.exchange(phone.refresh(0))
            assert ok.status == 200
            assert cx.asked == ["UAR DE_REGISTRATION", "SAR USER_DEREGISTRATION"]
            assert core.counts()["registered"] == 0
            again = await phone.exchange(phone.refresh(0))
            assert again.status == 401  # nothing vouches for the connection any more
            await phone.close()

    run(scenario)


def test_it_registers_again_after_deregistration() -> None:
    async def scenario() -> None:
        async with running() as core:
            phone = TestPhone(core)
            await phone.connect()
            for _ in range(3):
                assert (await phone.register()).status == 200
                assert (await phone.exchange(phone.refresh(0))).status == 200
            await phone.close()

    run(scenario)


def test_too_brief_an_expiry_is_423() -> None:
    async def scenario() -> None:
        async with running(min_expires_s=60) as core:
            phone = TestPhone(core)
            await phone.connect()
            brief = await phone.exchange(phone.initial(59))
            assert (brief.status, brief.get("min-expires")) == (423, "60")
            await phone.close()

    run(scenario)


def test_wrong_res_is_403_and_reported_to_the_hss() -> None:
    async def scenario() -> None:
        cx = FakeCx()
        async with running(cx) as core:
            phone = TestPhone(core)
            await phone.connect()
            unauthorized = await phone.exchange(phone.initial())
            wrong = phone.answer_to(unauthorized, res=b"no")
            answer = await phone.exchange(phone.register_request(wrong))
            assert answer.status == 403
            assert cx.asked[-1] == "SAR AUTHENTICATION_FAILURE"
            assert core.counters["wrong responses"] == 1
            assert core.counts()["registered"] == 0
            await phone.close()

    run(scenario)


def test_mac_failure_is_an_empty_response_and_403() -> None:
    async def scenario() -> None:
        cx = FakeCx()
        cx.wrong_k = True
        async with running(cx) as core:
            phone = TestPhone(core)
            await phone.connect()
            unauthorized = await phone.exchange(phone.initial())
            challenge = digest.parse_challenge(unauthorized.get_all("www-authenticate"))
            with pytest.raises(MacFailure):
                run_aka(phone.milenage, *split_nonce(challenge.nonce), phone.window)
            refusal = digest.mac_failure_authorization(
                challenge, phone.subscriber.impi, f"sip:{DOMAIN}"
            )
            answer = await phone.exchange(phone.register_request(refusal))
            assert answer.status == 403
            assert "MAC failure" in (answer.get("warning") or "")
            assert cx.asked[-1] == "SAR AUTHENTICATION_FAILURE"
            await phone.close()

    run(scenario)


def test_sqn_out_of_range_is_resynchronised() -> None:
    async def scenario() -> None:
        cx = FakeCx()
        async with running(cx) as core:
            phone = TestPhone(core)
            for seq in range(1, 5):
                assert phone.window.accept(32 * seq * 100)
            await phone.connect()
            first = await phone.exchange(phone.initial())
            auts = phone.answer_to(first)
            assert "auts=" in auts
            second = await phone.exchange(phone.register_request(auts))
            ok = await phone.exchange(phone.register_request(phone.answer_to(second)))
            assert ok.status == 200
            assert "MAR resynchronisation" in cx.asked
            assert core.counters["resynchronisations"] == 1
            await phone.close()

    run(scenario)


def test_a_third_resynchronisation_is_refused() -> None:
    async def scenario() -> None:
        async with running() as core:
            phone = TestPhone(core)
            await phone.connect()
            answer = await phone.exchange(phone.initial())
            for _ in range(3):
                assert answer.status == 401
                phone.window.accept(phone.window.highest + 32 * 1000)  # ahead again
                answer = await phone.exchange(phone.register_request(phone.answer_to(answer)))
            assert answer.status == 403
            await phone.close()

    run(scenario)


@pytest.mark.parametrize(
    ("failure", "status", "words"),
    [
        (CxFailure("UAR", "no answer"), 504, "Cx UAR: no answer from the HSS"),
        (CxFailure("UAR", "not connected"), 480, "Cx UAR: no connection to the HSS"),
        (CxFailure("MAR", "refused", 5012), 500, "Cx MAR: Result-Code 5012 from the HSS"),
        (CxFailure("MAR", "malformed"), 500, "Cx MAR: the answer of the HSS lacks"),
        (
            CxFailure("UAR", "refused", 5004, experimental=True),
            403,
            "Cx UAR: Experimental-Result-Code 5004",
        ),
        (CxFailure("UAR", "refused", 5003), 403, "Cx UAR: Result-Code 5003"),
    ],
)
def test_a_failing_hss_is_named_with_its_procedure(
    failure: CxFailure, status: int, words: str
) -> None:
    async def scenario() -> None:
        cx = FakeCx()
        cx.failures[failure.command] = failure
        async with running(cx) as core:
            phone = TestPhone(core)
            await phone.connect()
            answer = await phone.exchange(phone.initial())
            assert answer.status == status
            assert words in (answer.get("warning") or "")
            assert core.counters[str(failure)] == 1
            await phone.close()

    run(scenario)


def test_a_sar_that_fails_leaves_nobody_registered() -> None:
    async def scenario() -> None:
        cx = FakeCx()
        cx.failures["SAR"] = CxFailure("SAR", "no answer")
        async with running(cx) as core:
            phone = TestPhone(core)
            await phone.connect()
            answer = await phone.register()
            assert answer.status == 504
            assert core.counts()["registered"] == 0
            await phone.close()

    run(scenario)


@pytest.mark.parametrize(
    "user_data",
    [
        b"",
        b"<x/>",
        b"<IMSSubscription/>",
        b'<!DOCTYPE a [<!ENTITY b "c">]><x>&b;</x>',
        b'<?xml version="1.0" encoding="no-such"?><IMSSubscription/>',
        b"<IMSSubscription>\xe9</IMSSubscription>",
        b"<IMSSubscription><PublicIdentity><Identity>sip:a@b&#13;&#10;X: y</Identity>"
        b"</PublicIdentity></IMSSubscription>",
    ],
)
def test_user_data_that_cannot_be_read_is_500(user_data: bytes) -> None:
    async def scenario() -> None:
        cx = FakeCx()
        cx.user_data = user_data
        async with running(cx) as core:
            phone = TestPhone(core)
            await phone.connect()
            assert (await phone.register()).status == 500
            assert core.counts()["registered"] == 0
            await phone.close()

    run(scenario)


def test_an_unknown_user_is_403() -> None:
    async def scenario() -> None:
        async with running() as core:
            phone = TestPhone(core)
            await phone.connect()
            request = phone.initial()
            uri = f"sip:{DOMAIN}"
            request.headers = [
                (n, digest.initial_authorization(f"nobody@{DOMAIN}", DOMAIN, uri))
                if n == "authorization"
                else (n, v)
                for n, v in request.headers
            ]
            answer = await phone.exchange(request)
            assert answer.status == 403
            assert "5001" in (answer.get("warning") or "")
            await phone.close()

    run(scenario)


def test_a_registration_expires_and_the_hss_is_told() -> None:
    async def scenario() -> None:
        cx = FakeCx()
        async with running(cx, min_expires_s=1, expires_s=1) as core:
            phone = TestPhone(core)
            await phone.connect()
            await phone.register()
            assert core.counts()["registered"] == 1
            await asyncio.sleep(1.2)
            assert core.counts()["registered"] == 0
            assert cx.asked[-1] == "SAR TIMEOUT_DEREGISTRATION"
            assert core.counters["registrations expired"] == 1
            await phone.close()

    run(scenario)


def test_an_rtr_for_another_users_identity_ends_nothing() -> None:
    async def scenario() -> None:
        async with running() as core:
            phone = TestPhone(core)
            await phone.connect()
            await phone.register()
            end = core.scscf.deregister_by_network
            impi, impu = phone.subscriber.impi, phone.subscriber.impu_sip
            assert end("other", [impu], ReasonCode.PERMANENT_TERMINATION) == 0
            assert end(impi, ["sip:else@where"], ReasonCode.PERMANENT_TERMINATION) == 0
            assert end(impi, [], ReasonCode.REMOVE_S_CSCF) == 0
            assert end(impi, [impu], ReasonCode.NEW_SERVER_ASSIGNED) == 1
            assert core.counts()["registered"] == 0
            await phone.close()

    run(scenario)


def test_injected_losses_and_delays_follow_the_choice_of_answers() -> None:
    async def scenario() -> None:
        async with running(loss_share=1.0, answers=("REGISTER 401",)) as core:
            phone = TestPhone(core)
            await phone.connect()
            phone.writer.write(serialize_message(phone.initial()))
            brief = await phone.exchange(phone.initial(1))  # 423: not chosen
            assert brief.status == 423
            assert core.counters["answers lost as injected"] == 1
            await phone.close()

    run(scenario)


def test_an_injected_delay_is_waited_for() -> None:
    async def scenario() -> None:
        delay = Distribution("constant", 0.2)
        async with running(delay=delay, answers=("REGISTER",)) as core:
            phone = TestPhone(core)
            await phone.connect()
            loop = asyncio.get_running_loop()
            begin = loop.time()
            assert (await phone.register()).status == 200
            assert loop.time() - begin >= 0.4
            await phone.close()

    run(scenario)


def test_a_request_that_cannot_be_read_is_400_and_the_connection_serves_on() -> None:
    async def scenario() -> None:
        async with running() as core:
            phone = TestPhone(core)
            await phone.connect()
            wire = serialize_message(phone.initial())
            # A number that our own reader would take, or the phone could not read its response.
            phone.writer.write(wire.replace(b"CSeq: 1 REGISTER", b"CSeq: 1 INVITE"))
            refused = await phone.next_response()
            assert (refused.status, refused.reason) == (400, "Bad Request (CSeq method differs)")
            assert refused.call_id == phone.call_id
            phone.writer.write(wire.replace(b"Call-ID: call-0\r\n", b""))
            assert (await phone.register()).status == 200
            counts = core.result()["counters"]
            assert counts["malformed: CSeq method differs"] == 1
            assert counts["malformed: no Call-ID"] == 1
            assert counts["malformed requests answered 400"] == 1
            await phone.close()

    run(scenario)


def test_a_request_without_a_frame_is_400_and_the_end_of_its_connection() -> None:
    async def scenario() -> None:
        async with running() as core:
            phone = TestPhone(core)
            await phone.connect()
            wire = serialize_message(phone.initial())
            phone.writer.write(wire.replace(b"Content-Length: 0\r\n", b""))
            assert (await phone.next_response()).status == 400
            async with asyncio.timeout(3):
                await phone.closed.wait()
            await phone.close()

    run(scenario)


def test_a_sequence_number_beyond_all_bounds_is_400() -> None:
    async def scenario() -> None:
        async with running() as core:
            phone = TestPhone(core)
            reader, writer = await asyncio.open_connection(*core.address)
            phone.writer = writer
            wire = serialize_message(phone.initial())
            writer.write(wire.replace(b"CSeq: 1 ", b"CSeq: 99999999999999999999 "))
            async with asyncio.timeout(3):
                answer = await reader.readuntil(b"\r\n\r\n")
            assert answer.startswith(b"SIP/2.0 400 Bad Request (bad CSeq)\r\n")
            assert b"CSeq: 99999999999999999999 REGISTER\r\n" in answer
            await phone.close()

    run(scenario)
