"""What a reference core is told: addresses, policies, what it injects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from imsbench.distribution import Distribution
from simulators.core.limiter import LimiterSettings

REG_AWAIT_AUTH_S = 240.0
"""How long a challenge and its temporary SAs wait for the answer (TS 24.229 table 7.8: 4 minutes)."""

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Faults:
    """What a core does wrong with answered calls; shares 0..1 of them, drawn from the seed."""

    lose_bye_share: float = 0.0
    """BYEs of this share are neither forwarded nor answered."""
    early_bye_share: float = 0.0
    """This share is ended by BYEs of the core to both sides …"""
    early_bye: Distribution = field(default_factory=Distribution)
    """… so long after the answer, seconds."""
    die_at_call: int = 0
    """The process ends without a word when this many calls have been answered; 0: never."""

    def __post_init__(self) -> None:
        if not (0.0 <= self.lose_bye_share <= 1.0 and 0.0 <= self.early_bye_share <= 1.0):
            raise ValueError("lose_bye_share and early_bye_share are shares, 0..1")

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Faults:
        """From a control channel's config; TypeError or ValueError if it is not fit."""
        values = dict(config)
        if values.get("early_bye"):
            values["early_bye"] = Distribution(**values["early_bye"])
        return cls(**values)


@dataclass(frozen=True, slots=True)
class CoreSettings:
    """Settings of the reference core; durations in seconds."""

    listen: Address
    """IP address and unprotected port of the P-CSCF."""
    domain: str
    """Home domain: the realm of challenges, the domain of every identity."""
    hss: Address = ("127.0.0.1", 3868)
    """Where the HSS listens for Diameter."""
    hss_realm: str = ""
    """Destination-Realm of Cx requests; empty: the home domain."""
    ipsec: str = "auto"
    """auto, userspace, kernel or off."""
    ip_version: int = 4
    """4 or 6."""
    port_ps: int = 5063
    """Protected server port, the same for all phones."""
    port_pc_first: int = 40_000
    """First protected client port of the ring."""
    port_pc_count: int = 128
    """Protected client ports in the ring of each phone address."""
    algs: tuple[tuple[str, str], ...] = (("hmac-sha-1-96", "null"),)
    """(alg, ealg) pairs in the order of preference (TS 33.203 §7.2)."""
    expires_s: int = 3600
    """Registration expiry granted at most."""
    min_expires_s: int = 60
    """Below this a REGISTER is answered 423 (RFC 3261 §10.3)."""
    subscription_expires_s: int = 600_000
    """Subscription expiry granted at most (TS 24.229 §5.4.2.1.1)."""
    reauthenticate: bool = False
    """Whether a re-REGISTER inside the SAs is challenged again."""
    delay: Distribution = field(default_factory=Distribution)
    """Injected before the chosen answers."""
    loss_share: float = 0.0
    """Share of the chosen answers that is never sent, 0..1."""
    answers: tuple[str, ...] = ()
    """Answers that delay and loss apply to, "REGISTER" or "REGISTER 401"; empty: all."""
    pcrf: Address | None = None
    """Where the PCRF listens for Diameter; None: no Rx."""
    pcrf_realm: str = ""
    """Destination-Realm of Rx requests; empty: the home domain."""
    rx_timeout_s: float = 3.0
    """How long the PCRF may take for an answer."""
    rx_grace_s: float = 0.0
    """Between the report of a lost bearer and the release of the call."""
    rx_wait_for_bearer: bool = False
    """Whether an SDP answer goes on only when the PCRF reports that the bearer is there …"""
    rx_bearer_timeout_s: float = 10.0
    """… within this time."""
    timer_c_s: float = 200.0
    """How long an INVITE may ring after its last provisional response (RFC 3261 §16.6: over 3 minutes)."""
    steady_faults: tuple[Mapping[str, Any], ...] = ()
    """What goes wrong all along with chosen requests and answers (simulators.faults), on purpose."""
    faults: Faults = field(default_factory=Faults)
    """What goes wrong with calls, on purpose."""
    limiter: LimiterSettings = field(default_factory=LimiterSettings)
    """How many new attempts a second are taken."""
    timers: tuple[float, float, float] = (0.5, 4.0, 5.0)
    """T1, T2 and T4 towards phones that use UDP, seconds (TS 24.229 table 7.7.1)."""
    seed: int = 1
    """Seed of delays, losses, faults and tags."""

    def __post_init__(self) -> None:
        if self.port_pc_count < 64:
            raise ValueError("port_pc_count: a ring of at least 64 ports is needed")
        if not 0 < self.min_expires_s <= self.expires_s:
            raise ValueError("min_expires_s must be positive and at most expires_s")
        if not 0.0 <= self.loss_share <= 1.0:
            raise ValueError("loss_share is a share, 0..1")
        if min(self.timer_c_s, self.rx_timeout_s, self.rx_bearer_timeout_s) <= 0:
            raise ValueError("timer_c_s, rx_timeout_s and rx_bearer_timeout_s must be positive")
        if min(self.timers) <= 0:
            raise ValueError("timers must be positive")
        if self.rx_grace_s < 0:
            raise ValueError("rx_grace_s must not be negative")
        if self.port_ps in (5060, 5061, self.listen[1]):  # TS 33.203 §7.1
            raise ValueError("port_ps must differ from 5060, 5061 and the unprotected port")
        if self.port_pc_first <= self.port_ps < self.port_pc_first + self.port_pc_count:
            raise ValueError("port_ps lies in the ring of client ports")

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> CoreSettings:
        """From a control channel's config; ValueError or KeyError if it is not fit."""
        plain = (
            "ipsec", "ip_version", "port_ps", "port_pc_first", "port_pc_count", "expires_s",
            "min_expires_s", "subscription_expires_s", "reauthenticate", "loss_share", "seed",
            "hss_realm", "pcrf_realm", "rx_timeout_s", "rx_grace_s", "rx_wait_for_bearer",
            "rx_bearer_timeout_s", "timer_c_s",
        )  # fmt: skip
        values: dict[str, Any] = {name: config[name] for name in plain if name in config}
        if config.get("algs"):
            values["algs"] = tuple((str(alg), str(ealg)) for alg, ealg in config["algs"])
        if config.get("timers"):
            t1_s, t2_s, t4_s = config["timers"]
            values["timers"] = (float(t1_s), float(t2_s), float(t4_s))
        if config.get("delay"):
            values["delay"] = Distribution(**config["delay"])
        values["steady_faults"] = tuple(config.get("steady_faults", ()))
        if config.get("faults"):
            values["faults"] = Faults.from_config(config["faults"])
        if config.get("limiter"):
            values["limiter"] = LimiterSettings.from_config(config["limiter"])
        if config.get("hss"):
            values["hss"] = _address(config["hss"])
        if config.get("pcrf"):
            values["pcrf"] = _address(config["pcrf"])
        values["answers"] = tuple(config.get("answers", ()))
        return cls(listen=_address(config["listen"]), domain=config["domain"], **values)


def _address(value: Sequence[Any]) -> Address:
    host, port = value
    return str(host), int(port)
