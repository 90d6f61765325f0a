"""From a profile to the plain settings of one worker's phones and engine."""

from __future__ import annotations

from imsbench.engine.connections import EngineSettings
from imsbench.host import addresses
from imsbench.phone.phone import PhoneSettings
from imsbench.profile import Profile


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
