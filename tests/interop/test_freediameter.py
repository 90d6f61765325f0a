"""freeDiameter, which shares no code with us, as a strict peer and as a relay to HSS and PCRF.

It checks every CER, CEA, DWR and DWA it gets, and routes by realm, application and host.
"""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from pathlib import Path

import pytest

from simulators.base import ErrorAnswer
from simulators.cx import RegistrationTerminationRequest
from simulators.hss.store import State
from simulators.rx import AbortSessionRequest, ReAuthRequest
from tests.interop.relay import REALM, WATCHDOG_S, Site, lacking, relayed
from tests.simulators.diameter_helpers import run
from tests.simulators.dissection import dissect
from tests.simulators.rx_helpers import LOSS, aar, signalling, termination
from tests.simulators.test_hss import ALICE, T, lir, mar, sar, uar

pytestmark = pytest.mark.skipif(bool(lacking()), reason=lacking() or "-")

DWR = (280).to_bytes(3, "big")
RELAY = f"relay.{REALM}".encode()


def complaints(site: Site) -> list[str]:
    """What the daemon wrote that is no notice."""
    lines = site.log.read_text(errors="replace").splitlines()
    return [line for line in lines if "ERROR" in line or "FATAL" in line]


async def registration(site: Site) -> list[str]:
    """Alice registers: what each Cx request is answered."""
    requests = (uar(), mar(), uar(), sar(T.REGISTRATION), lir(ALICE.impu_tel))
    return [(await site.ask(request)).outcome for request in requests]


def test_requests_of_a_core_reach_the_simulators(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with relayed(tmp_path) as site:
            expected = ["exp. 2001", "2001", "exp. 2002", "2001", "2001"]
            assert await registration(site) == expected
            assert site.hss.procedures.store.registered == 1
            for request in (aar(signalling(), session_id="a;1;1"), aar(session_id="a;1;2")):
                answer = await site.ask(request)
                assert (answer.outcome, answer.origin_host) == ("2001", f"pcrf.{REALM}".encode())
            assert len(site.pcrf.procedures.sessions) == 2
            assert (await site.ask(termination("a;1;2"))).outcome == "2001"
            assert site.hss.peer.connections[0].remote_host == RELAY
            refused = [name for name in site.hss.peer.counters if name.startswith("refused")]
            assert refused == []
            assert complaints(site) == []

    run(scenario())


def test_requests_of_the_simulators_reach_the_core(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with relayed(tmp_path) as site:
            await registration(site)
            assert (await site.hss.send_rtr(0)).outcome == "2001"
            assert site.hss.procedures.store.get(0).state is State.NOT_REGISTERED
            await site.ask(aar(session_id="a;1;1", specific_action=[LOSS]))
            assert (await site.pcrf.send_rar("a;1;1", [LOSS])).outcome == "2001"
            assert (await site.pcrf.send_asr("a;1;1")).outcome == "2001"
            kinds = [type(one) for one in site.asked]
            assert kinds == [RegistrationTerminationRequest, ReAuthRequest, AbortSessionRequest]
            for one in site.asked:
                assert one.destination_host == site.core.origin_host
                assert list(getattr(one, "route_record", ())) != []  # RFC 6733 §6.1.9
            assert complaints(site) == []

    run(scenario())


def test_a_realm_that_nobody_serves_is_an_error_by_name(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with relayed(tmp_path) as site:
            request = uar()
            request.origin_host = request.origin_realm = None
            request.destination_realm = b"elsewhere.example"
            answer = await site.core.request(request)
            assert isinstance(answer, ErrorAnswer)
            assert answer.outcome == "3002"
            assert await registration(site) == ["exp. 2001", "2001", "exp. 2002", "2001", "2001"]

    run(scenario())


@pytest.mark.slow
def test_both_sides_watch_a_connection_that_is_idle(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with relayed(tmp_path) as site:
            async with asyncio.timeout(WATCHDOG_S + 3.0):
                while not (site.core.counters["dwr_sent"] and watched(site)):
                    await asyncio.sleep(0.1)
            assert site.core.counters["watchdog_suspects"] == 0
            assert site.core.counters["connections_closed"] == 0
            assert await registration(site) == ["exp. 2001", "2001", "exp. 2002", "2001", "2001"]
            assert complaints(site) == []

    def watched(site: Site) -> bool:
        """Whether the relay has asked the HSS, and was answered."""
        segments = site.taps["hss"].segments
        return {data[4] >> 7 for _, data in segments if data[5:8] == DWR} == {0, 1}

    run(scenario(), limit_s=WATCHDOG_S + 20.0)


@pytest.mark.skipif(shutil.which("tshark") is None, reason="no tshark on this machine")
def test_tshark_knows_every_avp_that_passed(tmp_path: Path) -> None:
    sites: list[Site] = []

    async def scenario() -> None:
        async with relayed(tmp_path) as site:
            sites.append(site)
            await registration(site)
            await site.ask(aar(signalling(), session_id="a;1;1"))
            await site.ask(aar(session_id="a;1;2"))
            await site.pcrf.send_rar("a;1;2", [LOSS])
            await site.ask(termination("a;1;2"))
            await site.hss.send_ppr(0)
            await site.hss.send_rtr(0)

    run(scenario())
    found: Counter[str] = Counter()
    for name, tap in sites[0].taps.items():
        path = tmp_path / f"{name}.pcap"
        tap.write(path)
        rows = dissect(
            path, "diameter.cmd.code", "_ws.expert", "_ws.malformed", "diameter.avp.unknown"
        )
        assert {tuple(row[1:]) for row in rows} == {("", "", "")}, (name, rows)
        found += Counter(code for row in rows for code in row[0].split(","))
    # CER, UAR, MAR, SAR, LIR, RTR, PPR; AAR, RAR, STR; DPR
    assert {"257", "300", "303", "301", "302", "304", "305", "265", "258", "275"} <= found.keys()
