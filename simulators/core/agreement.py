"""The P-CSCF's side of the security agreement (RFC 3329 §2.3, TS 33.203 §7.2, TS 24.229 §5.2.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from imsbench.protocol.secagree import (
    Mechanism,
    SecurityAgreementError,
    parse_security,
    split_list,
)
from imsbench.protocol.sip import Header, Request
from simulators.core.answer import Answer, refusal

Policy = Sequence[tuple[str, str]]
"""(alg, ealg) pairs, the preferred first."""

_SUPPORTED_EXTENSIONS = frozenset(("sec-agree", "path", "gruu"))


@dataclass(frozen=True, slots=True)
class Offer:
    """A Security-Client that can be agreed upon."""

    client: Mechanism
    """The phone's mechanism that the policy prefers."""
    entries: tuple[str, ...]
    """All entries, normalized: the protected REGISTER must repeat them (TS 33.203 §7.3.2.3)."""


def normalized(values: Sequence[str]) -> tuple[str, ...]:
    """Entries of security headers without white space and case, to be compared."""
    return tuple(
        "".join(entry.split()).lower() for value in values for entry in split_list(value) if entry
    )


def unknown_extensions(request: Request) -> Answer | None:
    """420 for a Require or Proxy-Require that is not understood (RFC 3261 §8.2.2.3, §16.3)."""
    wanted = {
        option.lower()
        for name in ("require", "proxy-require")
        for option in request.values(name)
        if option
    }
    unknown = sorted(wanted - _SUPPORTED_EXTENSIONS)
    return refusal(420, "", ("unsupported", ", ".join(unknown))) if unknown else None


def read_offer(request: Request, policy: Policy) -> Offer | Answer:
    """The offer of a REGISTER, or its refusal.

    No sec-agree in Require and Proxy-Require: 421 (RFC 3329 §2.3.1). No Security-Client, or none that
    the policy knows: 494 with what could be agreed. A broken one: 400.
    """
    required = {option.lower() for option in request.values("require")}
    proxy_required = {option.lower() for option in request.values("proxy-require")}
    if "sec-agree" not in required | proxy_required:
        return refusal(421, "", ("require", "sec-agree"))
    values = request.get_all("security-client")
    try:
        offered = parse_security(values)
    except SecurityAgreementError as error:
        return refusal(400, f"Security-Client: {error}")
    if len({(m.spi_c, m.spi_s, m.port_c, m.port_s) for m in offered}) > 1:
        return refusal(400, "Security-Client: mechanisms differ in SPIs or ports")
    for alg, ealg in policy:  # TS 33.203 §7.2: the P-CSCF's order decides
        for mechanism in offered:
            if (mechanism.alg, mechanism.ealg) == (alg, ealg):
                if mechanism.spi_c == mechanism.spi_s or mechanism.port_c == mechanism.port_s:
                    return refusal(400, "Security-Client: client and server SPI or port are one")
                return Offer(mechanism, normalized(values))
    return refusal(494, "no common security mechanism", *policy_headers(policy))


def policy_headers(policy: Policy) -> list[Header]:
    """Security-Server of a 494 without SAs: what could be agreed (RFC 3329 §2.3.1)."""
    return [
        ("security-server", f"ipsec-3gpp;q={_q(i)};alg={alg};prot=esp;mod=trans;ealg={ealg}")
        for i, (alg, ealg) in enumerate(policy)
    ]


def server_mechanisms(
    policy: Policy, spi_c: int, spi_s: int, port_c: int, port_s: int
) -> list[Mechanism]:
    """Security-Server: the whole policy with descending q, one set of SPIs and ports (annex H)."""
    return [
        Mechanism(alg, ealg, spi_c, spi_s, port_c, port_s, q=float(_q(i)))
        for i, (alg, ealg) in enumerate(policy)
    ]


def verify(request: Request, security_server: str) -> Answer | None:
    """494 with Security-Server unless Security-Verify repeats what was sent (RFC 3329 §2.3.1)."""
    if normalized(request.get_all("security-verify")) == normalized([security_server]):
        return None
    why = "Security-Verify differs" if request.get("security-verify") else "no Security-Verify"
    return refusal(494, why, ("security-server", security_server))


def _q(position: int) -> str:
    return f"{max(1, 9 - position) / 10:g}"
