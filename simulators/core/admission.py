"""What a P-CSCF lets in, by the port and the SAs it came in by (TS 24.229 §5.2.2, §5.2.6, TS 33.203 §7)."""

from __future__ import annotations

import ipaddress
from collections import Counter

from imsbench.protocol.address import parse_name_addr, parse_uri, same_address, split_host_port
from imsbench.protocol.sip import Request
from simulators.core.agreement import unknown_extensions, verify
from simulators.core.answer import Answer, refusal
from simulators.core.ways import Way


class Admission:
    """The checks before a request is served; each refusal is counted by name."""

    def __init__(self, counters: Counter[str]) -> None:
        self._counters = counters

    def check(self, connection: Way, request: Request, *, ipsec: bool) -> Answer | None:
        """The refusal of a request, or None."""
        if request.method == "REGISTER":
            refused = unknown_extensions(request)
            if refused is not None:
                self._counters["refused: unknown extension"] += 1
                return refused
        if not ipsec:
            return None
        if connection.sas is None:
            return self._in_clear(request)
        return self._inside(connection, request)

    def _in_clear(self, request: Request) -> Answer | None:
        """TS 24.229 §5.2.6.3.2: the unprotected port takes only REGISTER (and emergency, not here)."""
        if request.method != "REGISTER":
            self._counters["refused: not REGISTER on the unprotected port"] += 1
            return refusal(403, "only REGISTER on the unprotected port")
        return None

    def _inside(self, connection: Way, request: Request) -> Answer | None:
        held = connection.sas
        assert held is not None
        if held.state not in ("temporary", "established"):
            self._counters["refused: SAs given up"] += 1
            return refusal(403, "these SAs have been given up")
        if held.state == "temporary" and request.method != "REGISTER":
            self._counters["refused: not REGISTER in temporary SAs"] += 1
            return refusal(403, "only REGISTER before the registration")
        # A REGISTER must repeat Security-Server; what else repeats it must be right.
        if request.method == "REGISTER" or request.get("security-verify") is not None:
            refused = verify(request, held.security_server)
            if refused is not None:
                self._counters["refused: Security-Verify"] += 1
                return refused
        if not _from(request, connection.peer_address):
            self._counters["refused: foreign address in Via or Contact"] += 1
            return refusal(403, "Via or Contact is not of the SAs' address")
        return None


def _from(request: Request, address: str) -> bool:
    """Whether the topmost Via and the Contact, where they are IP literals, name this address."""
    via = request.values("via")[0]
    sent_by = via.partition(";")[0].rpartition(" ")[2]
    try:
        hosts = [split_host_port(sent_by)[0]]
        contact = request.get("contact")
        if contact and contact != "*":
            hosts.append(parse_uri(parse_name_addr(contact).uri).host)
    except ValueError:
        return False
    return all(same_address(host, address) for host in hosts if _is_literal(host))


def _is_literal(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
