"""What a profile says of everything but the load: who, the target, the simulators; checked and frozen.

A model that stands alone is checked here; what several sections must agree on, in ``agreement``.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from imsbench.profile.faults import HssFault, PcrfFault, TargetFault
from imsbench.profile.fields import (
    Algorithms,
    Boolean,
    Distribution,
    Duration,
    Endpoint,
    IdleClose,
    Integer,
    Key,
    Line,
    Pattern,
    Port,
    PositiveDuration,
    Rate,
    Settings,
    Share,
    WholeSeconds,
)
from imsbench.profile.lab import Lab
from imsbench.profile.limits import Limits
from imsbench.profile.mechanisms import Alg, Ealg, Mechanism, combine


class Subscribers(Settings):
    """The home network's subscribers: identities and keys are computed from these."""

    count: Annotated[Integer, Field(ge=1, le=10_000_000)]
    """How many there are; one phone each."""
    mcc: Annotated[str, Field(pattern=r"^[0-9]{3}$")] = "001"
    """Mobile country code, 3 digits, quoted in YAML."""
    mnc: Annotated[str, Field(pattern=r"^[0-9]{2,3}$")] = "01"
    """Mobile network code, 2 or 3 digits, quoted in YAML."""
    first_msin: Annotated[Integer, Field(ge=0)] = 1
    """MSIN of subscriber 0."""
    first_msisdn: Annotated[Integer, Field(ge=1_000_000, lt=10**15)] = 15550000001
    """MSISDN of subscriber 0, without the plus (E.164: at most 15 digits)."""
    domain: Annotated[str, Field(pattern=r"^([A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*)?$")] = ""
    """Home network domain; empty: ims.mncNNN.mccNNN.3gppnetwork.org."""
    k: Key | None = None
    """One K for all, 32 hex digits; null: derived from the seed and the number."""
    op: Key | None = None
    """The operator's OP, 32 hex digits; excludes opc."""
    opc: Key | None = None
    """One OPc for all, 32 hex digits; null and no op: derived from the seed and the number."""

    @model_validator(mode="after")
    def _check(self) -> Subscribers:
        if self.op is not None and self.opc is not None:
            raise ValueError("op and opc exclude each other: an OPc is already made from an OP")
        width = 15 - len(self.mcc) - len(self.mnc)
        if self.first_msin + self.count > 10**width:
            raise ValueError(f"first_msin + count does not fit the {width} digits of an MSIN")
        if self.first_msisdn + self.count > 10**15:
            raise ValueError("first_msisdn + count does not fit the 15 digits of E.164")
        return self


class Phones(Settings):
    """How the simulated phones behave; all alike."""

    ip_version: Literal[4, 6] = 4
    """The phones' IP version; each phone has an address of its own."""
    ipsec: Literal["auto", "userspace", "kernel", "off"] = "auto"
    """Who does ESP; off: no sec-agree headers, everything in clear."""
    transport: Literal["tcp", "udp"] = "tcp"
    """udp: all but requests over 1,300 bytes, which go by TCP (RFC 3261 §18.1.1)."""
    timers: Literal["rfc3261", "3gpp"] = "rfc3261"
    """Values of T1, T2 and T4: of RFC 3261, or those of a phone in TS 24.229 table 7.7.1."""
    algs: Annotated[tuple[Alg, ...], Algorithms] = ("hmac-sha-1-96",)
    """Integrity algorithms, in order; each is offered with every one of ealgs that goes with it."""
    ealgs: Annotated[tuple[Ealg, ...], Algorithms] = ("null",)
    """Encryption algorithms, in order; null: integrity only. aes-gcm goes with alg null alone."""
    port_us: Port = 6101
    """Protected server port of every phone."""
    port_uc_first: Port = 20000
    """First protected client port of the ring."""
    port_uc_count: Annotated[Integer, Field(ge=64, le=4096)] = 64
    """Protected client ports in the ring: an ended connection's port rests before it is reused."""
    clear_port: Port = 5060
    """Port in Via and Contact of the unprotected REGISTER."""
    expires: WholeSeconds = 600_000
    """Registration expiry asked for, seconds (TS 24.229 §5.1.1.2)."""
    subscribe_reg_event: Boolean = True
    """Whether each phone subscribes to its registration event package (TS 24.229 §5.1.1.3)."""
    subscription_expires: WholeSeconds = 600_000
    """Subscription expiry asked for, seconds."""
    refresh_phase: Literal["natural", "uniform"] = "natural"
    """natural: refreshes come in the wave of the fill; uniform: the first of each phone is drawn in
    (0, interval), so that they are spread evenly from the beginning."""
    tcp_idle_close: IdleClose = None
    """Seconds after which a phone closes an idle connection; None ("never"): it holds it."""
    keepalive: Literal["none", "crlf"] = "none"
    """Whether phones send CRLF keep-alives (RFC 5626 §3.5.1)."""
    keepalive_interval: PositiveDuration = 120.0
    """Seconds between two keep-alives of a phone."""
    access_network_info: Line = "3GPP-E-UTRAN-FDD;utran-cell-id-3gpp=0010100010000001"
    """P-Access-Network-Info of protected requests; empty: not sent."""
    user_agent: Line = "imsbench"
    """User-Agent header."""
    max_challenges: Annotated[Integer, Field(ge=1, le=10)] = 3
    """401 responses that a registration attempt answers, the first included: some cores repeat it."""
    registration_timeout: PositiveDuration = 32.0
    """Longest whole registration attempt, seconds (TS 24.229 table 7.7.1: 128 s a transaction)."""
    transaction_timeout: PositiveDuration = 32.0
    """Longest wait for a final response to any other request, seconds (RFC 3261 Timer F)."""

    @property
    def timer_values(self) -> tuple[float, float, float]:
        """T1, T2 and T4, seconds."""
        return (2.0, 16.0, 17.0) if self.timers == "3gpp" else (0.5, 4.0, 5.0)

    @property
    def mechanisms(self) -> tuple[Mechanism, ...]:
        """(alg, ealg) offered, the preferred first (TS 33.203 annex H)."""
        return combine(self.algs, self.ealgs)

    @model_validator(mode="after")
    def _check(self) -> Phones:
        last = self.port_uc_first + self.port_uc_count - 1
        if last > 65535:
            raise ValueError(f"port_uc_first + port_uc_count reaches {last}; at most 65535")
        if self.port_uc_first <= self.port_us <= last:
            raise ValueError("port_us lies in the ring of port_uc; they must differ")
        if self.transport == "udp" and self.keepalive == "crlf":
            raise ValueError("keepalive crlf is for TCP (RFC 5626 §3.5.1), transport is udp")
        return self


class CallFaults(Settings):
    """What an embedded target does wrong with answered calls, to see that it is noticed."""

    lose_bye_share: Share = 0.0
    """Share of answered calls whose BYE is neither forwarded nor answered."""
    early_bye_share: Share = 0.0
    """Share of answered calls that the target ends by BYEs of its own …"""
    early_bye: Distribution = Distribution()
    """… so long after the answer."""
    die_at_call: Annotated[Integer, Field(ge=0)] = 0
    """The target dies when this many calls have been answered; 0: never."""


class Limiter(Settings):
    """How many new attempts an embedded target takes a second; beyond it, it answers 503 at once."""

    registrations: Rate | None = None
    """Initial registrations per second; null: no limit."""
    calls: Rate | None = None
    """Calls per second; null: no limit."""
    burst: Annotated[Integer, Field(ge=1, le=10_000)] = 1
    """Attempts that are taken at once after a rest: the depth of each token bucket."""


class Declared(Settings):
    """What is known of the target but not measured by a run; reports show it, marked as declared."""

    table: Literal["memory", "limits", "host", "setup"]
    """Which table of the report it is a row of."""
    item: Annotated[Line, Field(min_length=1)]
    """First column: "Disk"."""
    value: Annotated[str, Field(min_length=1, max_length=500)]
    """Second column: "pd-balanced, 30 GB: 3,000 IOPS"."""


OF_OURS = (
    "ipsec", "reauthenticate", "delay", "loss_share", "faults", "call_faults", "limiter", "rx_grace",
)  # fmt: skip
"""Fields of a target that only the reference core and the null target heed."""


class Target(Settings):
    """The system under test."""

    kind: Literal["embedded", "null", "lab", "external"] = "embedded"
    """embedded: the reference core; null: the generator's floor; lab: a real core that the run starts
    beside it; external: a core of yours."""
    lab: Lab = Lab()
    """Which core a lab has, and how it runs."""
    name: Line = ""
    """What reports call it; empty: by its kind."""
    version: Line = ""
    """Its version, for reports."""
    pcscf: Endpoint | None = None
    """P-CSCF of an external target, as "address:port"."""
    ipsec: Literal["auto", "userspace", "kernel"] | None = None
    """Who does an embedded or null target's end of ESP; null: as phones.ipsec says."""
    expires: WholeSeconds = 3600
    """Expiry granted at most by an embedded or null target, seconds."""
    min_expires: WholeSeconds = 60
    """Shortest expiry an embedded target accepts, else 423, seconds (RFC 3261 §10.3)."""
    reauthenticate: Boolean = False
    """Whether an embedded target challenges refreshes."""
    declared: tuple[Declared, ...] = ()
    """What is known of it but not measured: disk, network, receive queues, limits."""
    delay: Distribution = Distribution()
    """Delay an embedded target adds before each response."""
    loss_share: Share = 0.0
    """Share of requests that an embedded target drops (0..1)."""
    faults: tuple[TargetFault, ...] = ()
    """What an embedded target does wrong all along with chosen messages; the first that strikes counts."""
    call_faults: CallFaults = CallFaults()
    """What an embedded target does wrong with calls."""
    limiter: Limiter = Limiter()
    """How many new attempts an embedded target takes."""
    rx_grace: Duration = 0.0
    """From the loss of a bearer until an embedded target ends the call."""
    pid_files: tuple[Annotated[str, Field(pattern=r"^/.+")], ...] = ()
    """Where an external target on this machine keeps its process ids: CPU and memory are read of them
    and of their descendants."""
    commands: tuple[Pattern, ...] = ()
    """The same by regular expressions, searched in the command lines of this machine's processes."""

    @property
    def title(self) -> str:
        """Its name and version in a report."""
        names = {
            "embedded": "reference core",
            "null": "null target",
            "lab": self.lab.title,
            "external": "external core",
        }
        return f"{self.name or names[self.kind]} {self.version}".rstrip()

    @model_validator(mode="after")
    def _check(self) -> Target:
        if self.kind == "lab":
            self._refuse(*OF_OURS)
        else:
            self._refuse("lab", kinds="a lab")
        if self.kind == "external":
            if self.pcscf is None:
                raise ValueError("an external target needs pcscf")
            self._refuse(*OF_OURS, "expires", "min_expires")
        elif self.pcscf is not None:
            raise ValueError(f"pcscf is for external targets only, this one is {self.kind}")
        elif self.pid_files or self.commands:
            raise ValueError("pid_files and commands are for external targets: ours is known")
        if self.kind == "null" and self.limiter != Limiter():
            raise ValueError("limiter is for an embedded target, this one is null")
        if self.min_expires > self.expires:
            raise ValueError("min_expires exceeds expires")
        return self

    def _refuse(self, *names: str, kinds: str = "embedded and null targets") -> None:
        """ValueError where a field that is for other kinds of target is set."""
        fields = type(self).model_fields
        if wrong := [name for name in names if getattr(self, name) != fields[name].default]:
            raise ValueError(f"{', '.join(wrong)}: only for {kinds}")


class ServicePoint(Settings):
    """One service point trigger of a filter criterion (TS 29.228 annex E)."""

    kind: Literal["RequestURI", "Method", "SIPHeader", "SessionCase", "SessionDescription"]
    """What is looked at."""
    value: Annotated[str, Field(min_length=1, max_length=200)]
    """What it is compared with: URI, method, header name, session case 0-4 or SDP line."""
    content: Annotated[str, Field(max_length=200)] = ""
    """Content of the header or line; empty: any."""
    group: Annotated[Integer, Field(ge=0)] = 0
    """Group of the normal form it belongs to."""
    negated: Boolean = False
    """Whether it must not match."""
    registration_types: Annotated[tuple[Literal[0, 1, 2], ...], Field(max_length=2)] = ()
    """0 initial, 1 re-registration, 2 de-registration; at most two."""


class FilterCriteria(Settings):
    """One initial filter criterion of every subscriber (TS 29.228 annex E)."""

    priority: Annotated[Integer, Field(ge=0)]
    """Lower comes first."""
    server_name: Annotated[str, Field(pattern=r"^sips?:[!-~]+$", max_length=200)]
    """SIP URI of the application server."""
    points: tuple[ServicePoint, ...] = ()
    """The trigger; none: always."""
    conjunctive: Boolean = True
    """Whether the trigger is in conjunctive normal form."""
    default_handling: Literal[0, 1] | None = None
    """0 session continued, 1 session terminated, when the server does not answer."""
    service_info: Annotated[str, Field(max_length=1000)] = ""
    """Given to the application server as it is."""


class Hss(Settings):
    """The HSS simulator."""

    response_time: Distribution = Distribution()
    """Delay added to each answer."""
    error_share: Share = 0.0
    """Share of requests answered with error_result (0..1)."""
    error_result: Annotated[Integer, Field(ge=3001, le=5999)] = 5012
    """Result-Code of injected errors (RFC 6733 §7.1): DIAMETER_UNABLE_TO_COMPLY."""
    listen: Endpoint | None = None
    """Where it serves an external target, as "address:port"."""
    connections: Annotated[Integer, Field(ge=1, le=256)] = 1
    """Diameter connections of an external target that are waited for before the load: an I-CSCF and a
    S-CSCF of their own are 2."""
    faults: tuple[HssFault, ...] = ()
    """What it does wrong all along with chosen commands; the first that strikes counts."""
    filter_criteria: tuple[FilterCriteria, ...] = ()
    """Initial filter criteria in every subscriber's User-Data; none by default."""


class Pcrf(Settings):
    """The PCRF simulator."""

    enabled: Boolean = True
    """false: there is none, so that an embedded target asks nobody about bearers (no Rx)."""
    response_time: Distribution = Distribution()
    """Delay added to each answer."""
    error_share: Share = 0.0
    """Share of requests answered with error_result (0..1)."""
    error_result: Annotated[Integer, Field(ge=3001, le=5999)] = 5012
    """Result-Code of injected errors (RFC 6733 §7.1): DIAMETER_UNABLE_TO_COMPLY."""
    silence_share: Share = 0.0
    """Share of requests that are never answered (0..1)."""
    faults: tuple[PcrfFault, ...] = ()
    """What it does wrong all along with chosen commands; the first that strikes counts."""
    bearer_setup: Distribution = Distribution()
    """From an answer to the report that its bearer is there, for an AF that subscribed to it."""
    listen: Endpoint | None = None
    """Where it serves an external target, as "address:port"."""
    connections: Annotated[Integer, Field(ge=1, le=256)] = 1
    """Diameter connections of an external target that are waited for before the load."""


class Simulators(Settings):
    """What plays the rest of the network."""

    hss: Hss | None = None
    """The HSS; null: defaults for an embedded target, none for the others."""
    pcrf: Pcrf | None = None
    """The PCRF; null: defaults for an embedded target, none for the others."""


class Generator(Settings):
    """The load generator itself."""

    workers: Annotated[Integer, Field(ge=1, le=256)] = 1
    """Worker processes; each owns a network namespace and every workers-th phone."""
    limits: Limits = Limits()
    """What it may suffer and still vouch for a step."""
    arrivals: Literal["constant", "poisson"] = "poisson"
    """Arrivals of cycles; fills are always constant, so that "0 to 1,000 in 10 s" is exact."""
    drain: Duration = 66.0
    """Longest wait, seconds, after a step for its attempts to end; it ends when they have."""
