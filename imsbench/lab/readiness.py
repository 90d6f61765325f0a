"""Whether a server of a core is there, by evidence: it answers OPTIONS over TCP (RFC 3261 §11)."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

from imsbench.lab.settings import Endpoint, LabError
from imsbench.protocol.address import host_port

_POLL_S = 0.1
_ANSWER_S = 2.0


def wait_for(
    title: str, where: Endpoint, timeout_s: float, check: Callable[[], None] = lambda: None
) -> None:
    """Until the server answers; LabError if it has not within ``timeout_s`` seconds.

    check: called often meanwhile; may raise what makes waiting vain.
    """
    deadline = time.monotonic() + timeout_s
    while not answers_options(where):
        check()
        if time.monotonic() > deadline:
            raise LabError(
                f"the {title} at {host_port(*where)} did not answer OPTIONS within {timeout_s:g} s"
            )
        time.sleep(_POLL_S)


def answers_options(where: Endpoint) -> bool:
    """Whether OPTIONS to this address is answered 200 over TCP, within two seconds."""
    try:
        with socket.create_connection(where, timeout=_ANSWER_S) as connection:
            connection.sendall(_options(where, host_port(*connection.getsockname()[:2])))
            return connection.recv(4096).startswith(b"SIP/2.0 200 ")
    except OSError:
        return False


def _options(where: Endpoint, here: str) -> bytes:
    uri = f"sip:{host_port(*where)}"
    lines = [
        f"OPTIONS {uri} SIP/2.0",
        f"Via: SIP/2.0/TCP {here};branch=z9hG4bKready{time.monotonic_ns()}",
        "Max-Forwards: 70",
        f"From: <sip:readiness@{here}>;tag=ready",
        f"To: <{uri}>",
        f"Call-ID: ready-{time.monotonic_ns()}@{here}",
        "CSeq: 1 OPTIONS",
        "Content-Length: 0",
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()
