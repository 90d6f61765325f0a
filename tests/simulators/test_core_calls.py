"""Calls through the reference core over loopback TCP, ipsec off: every fork, both sides."""

from __future__ import annotations

from tests.simulators.call_helpers import (
    Callee,
    Caller,
    ends,
    run,
    sdp,
    two_phones,
)


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
