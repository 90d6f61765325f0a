"""What a profile needs of a host follows from its load."""

from __future__ import annotations

import pytest

from imsbench.host import limits
from imsbench.profile import Profile, load_profile, parse_profile
from imsbench.run import preflight
from imsbench.run.exits import RunRefused

QUICKSTART = load_profile("quickstart")
CLEAR = parse_profile(
    """
name: clear
subscribers: {count: 50000}
phones: {ipsec: "off"}
generator: {workers: 4}
phases: [{fill: {rate: 100, to: 50000}}]
"""
)


def test_protected_phones_hold_two_connections_and_a_ring_of_ports() -> None:
    needs = preflight.needs(QUICKSTART)
    assert (needs.phones, needs.workers, needs.connections_per_phone) == (200, 1, 2)
    assert (needs.tun, needs.embedded) == (True, True)
    assert needs.shortest_period_s == 200 / 40  # the faster of its cycles
    assert QUICKSTART.phones.port_us in needs.other_ports


def test_phones_in_clear_need_no_tun_and_no_ring() -> None:
    needs = preflight.needs(CLEAR)
    assert (needs.connections_per_phone, needs.tun, needs.shortest_period_s) == (1, False, 0.0)
    assert needs.other_ports == ()


@pytest.mark.parametrize(("profile", "sockets"), [(QUICKSTART, 4), (CLEAR, 3)])
def test_phones_that_use_udp_have_connections_beside_it(profile: Profile, sockets: int) -> None:
    phones = profile.phones.model_copy(update={"transport": "udp"})
    needs = preflight.needs(profile.model_copy(update={"phones": phones}))
    assert needs.connections_per_phone == sockets


def test_a_re_authenticated_refresh_takes_a_port_too() -> None:
    target = QUICKSTART.target.model_copy(update={"reauthenticate": True, "expires": 8})
    again = QUICKSTART.model_copy(update={"target": target})
    assert preflight.needs(again).shortest_period_s == 4.0


def test_all_that_a_host_lacks_is_told_in_one_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    small = limits.HostState(open_files=1024, memory_bytes=1 << 20)
    monkeypatch.setattr(limits, "read_host", lambda _needs: small)
    with pytest.raises(RunRefused) as refusal:
        preflight.refuse_if_lacking(CLEAR)
    assert refusal.value.exit_code == 5
    text = str(refusal.value)
    assert "open files of a worker" in text
    assert "memory" in text
    assert "12,500 phones" in text


def test_a_phone_registers_no_faster_than_it_can() -> None:
    """One phone cycled at 1,000,000/s: each of its 10 registrations takes a port, not 60,000,000."""
    text = (
        "name: one\nsubscribers: {count: 1}\nphases:\n  - fill: {rate: 1, to: 1}\n"
        "  - cycle: {rate: 1000000, passes: %d}\n"
    )
    needs = preflight.needs(parse_profile(text % 10))
    assert (needs.shortest_period_s, needs.renewals) == (preflight.PROCEDURE_S, 10)
    host = limits.HostState(open_files=1_000_000, memory_bytes=64 << 30)
    assert limits.refusal(limits.check(needs, host)) == ""
    refused = limits.refusal(limits.check(preflight.needs(parse_profile(text % 1000)), host))
    assert "raise phones.port_uc_count to 1002" in refused
