"""From a profile to the plain settings of one worker's phones, calls and engine."""

from __future__ import annotations

from collections.abc import Callable

from imsbench.distribution import Distribution
from imsbench.engine.connections import EngineSettings
from imsbench.host import addresses
from imsbench.phone.leg import CallSettings
from imsbench.phone.phone import PhoneSettings
from imsbench.profile import Calls, Profile
from imsbench.run.calls import CallMix


def phone_settings(profile: Profile, pcscf: tuple[str, int]) -> PhoneSettings:
    """How the phones behave, and the P-CSCF they know."""
    phones = profile.phones
    host, port = pcscf
    return PhoneSettings(
        pcscf_address=host,
        pcscf_port=port,
        ipsec=phones.ipsec != "off",
        mechanisms=phones.mechanisms,
        port_us=phones.port_us,
        port_uc_first=phones.port_uc_first,
        port_uc_count=phones.port_uc_count,
        clear_port=phones.clear_port,
        expires_s=phones.expires,
        subscription_expires_s=phones.subscription_expires,
        access_network_info=phones.access_network_info,
        user_agent=phones.user_agent,
        max_challenges=phones.max_challenges,
        registration_timeout_s=phones.registration_timeout,
        transaction_timeout_s=phones.transaction_timeout,
        transport=phones.transport,
    )


def engine_settings(profile: Profile, outer_device: str) -> EngineSettings:
    """Ports, timers and transports; outer_device: where what is not protected arrives."""
    phones = profile.phones
    protected, udp = phones.ipsec != "off", phones.transport == "udp"
    t1_s, t2_s, t4_s = phones.timer_values
    return EngineSettings(
        ip_version=phones.ip_version,
        port_us=phones.port_us if protected else 0,
        outer_device=outer_device,
        idle_close_s=phones.tcp_idle_close or 0.0,
        keepalive_s=phones.keepalive_interval if phones.keepalive == "crlf" else 0.0,
        t1_s=t1_s,
        t2_s=t2_s,
        t4_s=t4_s,
        udp=udp,
        clear_port=phones.clear_port if udp and not protected else 0,
    )


def phone_addresses(profile: Profile, worker: int, workers: int) -> dict[int, str]:
    """Number and address of every phone of one worker, in order."""
    network = addresses.phone_network(profile.phones.ip_version, worker, workers)
    first = network.network_address + 1
    numbers = range(worker, profile.subscribers.count, workers)
    return {n: str(first + index) for index, n in enumerate(numbers)}


def second_address(profile: Profile, worker: int, workers: int) -> Callable[[int], str]:
    """Where each phone of one worker re-attaches, by its number: behind the addresses of all its phones."""
    held = len(range(worker, profile.subscribers.count, workers))
    version = profile.phones.ip_version

    def address_of(n: int) -> str:
        return addresses.phone_address(version, worker, workers, held + n // workers)

    return address_of


def call_mix(calls: Calls, *, t1_s: float = 0.5, transaction_timeout_s: float = 32.0) -> CallMix:
    """The calls of a profile, as the phones take them."""
    settings = CallSettings(
        t1_s=t1_s,
        transaction_timeout_s=transaction_timeout_s,
        preconditions=calls.preconditions,
        reliable_ringing=calls.reliable_ringing,
        ringing=calls.ringing,
        request_uri=calls.request_uri,
        session_expires_s=calls.session_expires,
        hold_resume=calls.hold_resume,
        no_answer_s=calls.no_answer,
        hold=Distribution(calls.hold.kind, calls.hold.mean, calls.hold.sigma),
        ring=Distribution(calls.ring.kind, calls.ring.mean, calls.ring.sigma),
    )
    return CallMix(
        settings,
        shares=(
            ("busy", calls.busy),
            ("rejected", calls.rejected),
            ("cancelled", calls.cancelled),
            ("unregistered", calls.unregistered),
        ),
        bye_by_callee=calls.bye_by_callee,
        cancel_after_s=calls.cancel_after,
        fixed_pairs=calls.pairs == "fixed",
        calls_per_phone=calls.calls_per_phone,
    )
