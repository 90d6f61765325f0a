"""Every failure gets advice that fits it."""

from __future__ import annotations

import pytest

from imsbench.profile import load_profile
from imsbench.run.advice import advice
from imsbench.run.derive import with_target

EMBEDDED = load_profile("quickstart")
EXTERNAL = with_target(EMBEDDED, "192.0.2.10:5060")


@pytest.mark.parametrize(
    ("stage", "cause", "word"),
    [
        ("connect", "refused", "192.0.2.10:5060"),
        ("challenge", "refused", "UDP"),
        ("connect", "timeout", "ip route add 198.18.0.0/16 via"),
        ("challenge", "403", "ims.mnc001.mcc001.3gppnetwork.org"),
        ("challenge", "494", "hmac-sha-1-96"),
        ("challenge", "504", "Diameter"),
        ("aka", "mac failure", "subscribers.k"),
        ("aka", "sync failure", "AUTS"),
        ("resynchronisation", "403", "AUTS"),
        ("aka", "bad challenge", "AKAv1-MD5"),
        ("aka", "no Security-Server", "phones.ipsec"),
        ("sa", "sa refused", "imsbench check"),
        ("answer", "timeout", "protocol 50"),
        ("answer", "403", "RES"),
        ("answer", "no binding", "ladder"),
        ("invite", "Rx", "PCRF"),
        ("invite", "404", "calls.request_uri"),
        ("invite", "timeout", "called phone's ladder"),
        ("prack", "481", "Record-Route"),
        ("check", "wrong call", "P-Asserted-Identity"),
        ("somewhere", "else", "ladder"),
    ],
)
def test_advice_fits_the_failure(stage: str, cause: str, word: str) -> None:
    assert word in advice(EXTERNAL, stage, cause)


def test_an_embedded_target_needs_no_route() -> None:
    assert "ip route add" not in advice(EMBEDDED, "connect", "timeout")


def test_the_cores_own_warning_comes_first() -> None:
    detail = '500 Server Internal Error; warning: 399 pcscf "an SA from 198.18.0.1 exists"'
    text = advice(EXTERNAL, "challenge", "500", detail)
    assert text.startswith("the core says: “an SA from 198.18.0.1 exists”; if that does not tell: ")
    assert text.endswith(advice(EXTERNAL, "challenge", "500"))
    plain = advice(EXTERNAL, "challenge", "500", "500 Oops; warning: 399 without quotes")
    assert plain.startswith("the core says: “399 without quotes”")
