"""Registration flows on virtual time, asserted as ladders (TS 24.229 §5.1.1)."""

from __future__ import annotations

import base64
import math

import pytest

from imsbench.phone.actions import Timeout, TransportError
from imsbench.phone.phone import MAX_SHARED_TEXTS, refresh_delay
from imsbench.phone.registration import deregister, register, reregister
from imsbench.protocol.aka import Milenage, check_auts, make_nonce
from imsbench.protocol.digest import check_response, parse_digest
from imsbench.protocol.secagree import parse_security
from imsbench.protocol.sip import parse_message, serialize_message
from tests.phone.helpers import SECURITY_SERVER, Hand, make_phone, registered

SERVER = ("security-server", SECURITY_SERVER)


def test_initial_registration_with_ipsec() -> None:
    phone = make_phone()
    hand = Hand(phone, register)
    first = hand.expect("REGISTER")
    assert first.uri == "sip:ims.mnc001.mcc001.3gppnetwork.org"
    assert first.get("route") is None
    assert first.get("p-access-network-info") is None  # TS 24.229 §5.1.1.2.1: not before an SA
    assert first.get("require") == first.get("proxy-require") == "sec-agree"
    assert "198.18.0.1:5060" in (first.get("via") or "")
    authorization = parse_digest(first.get("authorization") or "")
    assert authorization["response"] == authorization["nonce"] == ""
    offer = parse_security(first.get_all("security-client"))
    hand.challenge(SERVER)

    second = hand.expect("REGISTER")
    channel = hand.exchange.channel
    assert (channel.local_port, channel.remote_port, channel.protected) == (20_000, 5063, True)
    assert second.call_id == first.call_id
    assert second.cseq == first.cseq + 1
    assert second.branch != first.branch
    assert second.get_all("security-verify") == [SECURITY_SERVER]  # echoed unchanged
    assert parse_security(second.get_all("security-client")) == offer  # TS 33.203 §7.2: identical
    assert "198.18.0.1:6101" in (second.get("contact") or "")
    assert second.get("p-access-network-info")
    hand.accept()

    assert hand.done
    assert hand.outcome.succeeded
    assert hand.ladder == [
        "-> REGISTER clear",
        "<- 401",
        "protect 20000",
        "-> REGISTER protected",
        "<- 200",
        "close",  # the clear connection has done its work
    ]
    assert phone.registration is not None
    assert phone.registration.expires_at == pytest.approx(hand.outcome.ended_at + 3600)
    assert phone.registration.impu == phone.subscriber.impu_sip
    assert phone.sas is not None
    assert (phone.sas.spi_ps, phone.sas.spi_pc) == (7002, 7001)
    assert (phone.sas.spi_uc, phone.sas.spi_us) == (offer[0].spi_c, offer[0].spi_s)


def test_times_of_an_attempt() -> None:
    hand = Hand(make_phone(), register)
    hand.now = 100.5  # the generator was half a second late
    hand.challenge(SERVER)
    hand.now += 0.2  # and needed 200 ms for the challenge
    hand.accept()
    outcome = hand.outcome
    assert outcome.lateness_s == pytest.approx(0.5)
    assert outcome.time_s == pytest.approx(0.010 + 0.2 + 0.001 + 0.010)
    assert outcome.time_from_due_s == pytest.approx(0.5 + 0.001 + 0.221)
    assert outcome.phone_s == pytest.approx(0.2)
    assert outcome.responded_at - outcome.sent_at == pytest.approx(0.010)  # the 401


def test_the_answer_is_right_with_and_without_qop() -> None:
    for qop in ("auth", ""):
        hand = Hand(make_phone(), register)
        vector = hand.vector()
        hand.challenge(SERVER, vector=vector, qop=qop)
        value = hand.expect("REGISTER").get("authorization") or ""
        assert check_response(parse_digest(value), vector.xres, "REGISTER")
        assert ("qop" in parse_digest(value)) == bool(qop)


def test_without_ipsec_there_is_no_security_agreement() -> None:
    hand = Hand(make_phone(ipsec=False), register)
    first = hand.expect("REGISTER")
    names = {name for name, _ in first.headers}
    assert not names & {"require", "proxy-require", "security-client"}
    hand.challenge()
    hand.accept()
    assert hand.outcome.succeeded
    assert hand.ladder == [
        "-> REGISTER clear", "<- 401", "-> REGISTER clear", "<- 200",
    ]  # fmt: skip
    assert hand.phone.clear is not None
    assert hand.phone.sas is None


def test_ipv6_addresses_are_bracketed_and_compared_as_addresses() -> None:
    hand = Hand(make_phone(address="2001:2:0:1::1"), register)
    assert "[2001:2:0:1::1]:5060" in (hand.expect("REGISTER").get("via") or "")
    hand.challenge(SERVER)
    hand.answer(200, ("contact", "<sip:x@[2001:2:0:1:0:0:0:1]:6101>;expires=60"))
    assert hand.outcome.succeeded


def test_a_second_401_is_answered() -> None:
    hand = Hand(make_phone(), register)
    hand.challenge(SERVER)
    hand.challenge()  # same agreement, a new challenge
    hand.accept()
    assert hand.outcome.succeeded
    assert hand.outcome.challenges == 2
    assert hand.ladder.count("protect 20000") == 1


def test_a_second_401_with_a_new_agreement_replaces_the_sas() -> None:
    hand = Hand(make_phone(), register)
    hand.challenge(SERVER)
    hand.challenge(("security-server", SECURITY_SERVER.replace("7002", "7004")))
    hand.accept()
    assert hand.outcome.succeeded
    assert hand.ladder[2:8] == [
        "protect 20000", "-> REGISTER protected", "<- 401", "close", "unprotect 20000",
        "protect 20000",
    ]  # fmt: skip


def test_the_fourth_401_is_a_failure() -> None:
    hand = Hand(make_phone(), register)
    for _ in range(4):
        hand.challenge(SERVER)
    assert hand.done
    assert hand.outcome.cause == "too many challenges"


def test_mac_failure_tells_the_network_and_is_named() -> None:
    hand = Hand(make_phone(), register)
    vector = hand.vector()
    vector = type(vector)(vector.rand, vector.autn[:-1] + b"\0", vector.xres, vector.ck, vector.ik)
    hand.challenge(SERVER, vector=vector)
    authorization = parse_digest(hand.expect("REGISTER").get("authorization") or "")
    assert authorization["response"] == ""  # TS 24.229 §5.1.1.5.3: empty, and no AUTS
    assert "auts" not in authorization
    hand.answer(403)
    assert hand.done
    assert (hand.outcome.stage, hand.outcome.cause) == ("aka", "mac failure")
    assert "protect 20000" not in hand.ladder  # TS 33.203 §6.1.2: no SA from a failed challenge


def test_sqn_out_of_range_resynchronises_once() -> None:
    phone = make_phone()
    hand = Hand(phone, register)
    hand.challenge(SERVER, vector=hand.vector(sqn=1 << 20))
    hand.accept()  # the USIM has now seen SQN 2^20
    hand = Hand(phone, register)
    stale = hand.vector(sqn=64)
    offered = parse_security(hand.expect("REGISTER").get_all("security-client"))[0]
    hand.challenge(SERVER, vector=stale)

    request = hand.expect("REGISTER")
    assert not hand.exchange.channel.protected
    assert not [line for line in hand.ladder if line.startswith("protect")]
    authorization = parse_digest(request.get("authorization") or "")
    assert check_response(authorization, b"", "REGISTER")  # RFC 3310 §3.4: an empty password
    subscriber = phone.subscriber
    auts = base64.b64decode(authorization["auts"])
    milenage = Milenage(subscriber.k, opc=subscriber.opc)
    assert check_auts(milenage, stale.rand, auts) == 1 << 20
    again = parse_security(request.get_all("security-client"))[0]
    assert again.spi_c != offered.spi_c  # TS 24.229 §5.1.1.5.3: new SPIs and port_uc
    assert again.port_c != offered.port_c
    hand.challenge(SERVER, vector=hand.vector(sqn=(1 << 20) + 32))
    hand.accept()
    assert hand.outcome.succeeded
    assert hand.outcome.resynchronisations == 1


def test_a_stale_challenge_with_a_strange_qop_is_named_too() -> None:
    hand = Hand(registered(), register)
    hand.challenge(SERVER, vector=hand.vector(1), qop="auth-conf")
    assert (hand.outcome.cause, hand.outcome.stage) == ("bad challenge", "aka")
    assert "auth-conf" in hand.outcome.detail


def test_a_second_stale_challenge_ends_the_attempt() -> None:
    phone = make_phone()
    hand = Hand(phone, register)
    hand.challenge(SERVER, vector=hand.vector(sqn=1 << 20))
    hand.accept()
    hand = Hand(phone, register)
    hand.challenge(SERVER, vector=hand.vector(sqn=64))
    hand.challenge(SERVER, vector=hand.vector(sqn=96))
    assert hand.done
    assert (hand.outcome.stage, hand.outcome.cause) == ("aka", "sync failure")


def test_423_is_asked_again_with_min_expires_once() -> None:
    hand = Hand(make_phone(ipsec=False, expires_s=10), register)
    hand.challenge()
    hand.answer(423, ("min-expires", "60"))
    assert hand.expect("REGISTER").get("expires") == "60"
    hand.answer(423, ("min-expires", "90"))
    assert hand.done
    assert hand.outcome.cause == "423"


def test_423_without_min_expires_is_a_failure() -> None:
    hand = Hand(make_phone(ipsec=False), register)
    hand.answer(423)
    assert hand.done
    assert hand.outcome.cause == "423"
    assert "Min-Expires" in hand.outcome.detail


@pytest.mark.parametrize(
    ("headers", "cause"),
    [
        ((), "bad challenge"),
        (
            (("www-authenticate", 'Digest realm="x",nonce="AAAA",algorithm=AKAv1-MD5'),),
            "bad challenge",
        ),
        ((("www-authenticate", 'Digest realm="x",nonce="y",algorithm=MD5'),), "bad challenge"),
    ],
)
def test_a_challenge_that_is_none_is_named(
    headers: tuple[tuple[str, str], ...], cause: str
) -> None:
    hand = Hand(make_phone(), register)
    hand.answer(401, *headers)
    assert hand.done
    assert (hand.outcome.stage, hand.outcome.cause) == ("aka", cause)


@pytest.mark.parametrize(
    ("server", "cause"),
    [
        (None, "no Security-Server"),
        (
            "ipsec-3gpp;alg=hmac-md5-96;spi-c=1000;spi-s=1001;port-c=1;port-s=2",
            "bad Security-Server",
        ),
        (
            "ipsec-3gpp;alg=hmac-sha-1-96;spi-c=0;spi-s=1001;port-c=1;port-s=2",
            "bad Security-Server",
        ),
        ("tls", "bad Security-Server"),
    ],
)
def test_without_a_usable_agreement_nothing_is_protected(server: str | None, cause: str) -> None:
    hand = Hand(make_phone(), register)
    hand.challenge(*([("security-server", server)] if server else []))
    assert hand.done
    assert hand.outcome.cause == cause
    assert "protect 20000" not in hand.ladder


def test_a_final_response_says_why_with_its_warning() -> None:
    hand = Hand(make_phone(), register)
    hand.answer(
        504, ("warning", '399 scscf "Cx UAR: no answer from the HSS"'), ("retry-after", "30 (busy)")
    )
    outcome = hand.outcome
    assert (outcome.stage, outcome.cause, outcome.status) == ("challenge", "504", 504)
    assert "no answer from the HSS" in outcome.detail
    assert outcome.retry_after_s == 30.0


def test_a_timeout_and_a_refused_connection_are_told_apart() -> None:
    hand = Hand(make_phone(), register)
    hand.fail(Timeout("timeout"))
    assert (hand.outcome.stage, hand.outcome.cause) == ("challenge", "timeout")
    hand = Hand(make_phone(), register)
    hand.fail(TransportError("refused"), sent=False)
    assert (hand.outcome.stage, hand.outcome.cause) == ("connect", "refused")
    assert hand.outcome.sent_at != hand.outcome.sent_at


def test_the_whole_attempt_has_one_timeout() -> None:
    hand = Hand(make_phone(registration_timeout_s=32.0), register)
    assert hand.exchange.timeout_s == 32.0
    hand.now += 30.0
    hand.exchange.started_at = 100.0
    action = hand.exchange
    hand.challenge(SERVER)
    assert action.timeout_s == 32.0
    assert hand.exchange.timeout_s == pytest.approx(32.0 - 0.011, abs=0.1)


def test_a_200_without_our_binding_is_no_registration() -> None:
    hand = Hand(make_phone(ipsec=False), register)
    hand.challenge()
    hand.answer(200, ("contact", "<sip:other@198.18.0.9:5060>;expires=60, <bad"))
    assert hand.outcome.cause == "no binding"
    hand = Hand(make_phone(ipsec=False), register)
    hand.challenge()
    hand.accept(expires_s=0)  # granted nothing: not a registration to be refreshed at once
    assert hand.outcome.cause == "no binding"


@pytest.mark.parametrize("value", ["<>", "<sip:a", "<sip:a b@c>", "urn:service:sos", "?"])
def test_an_associated_identity_that_is_none_is_named(value: str) -> None:
    phone = make_phone(ipsec=False)
    hand = Hand(phone, register)
    hand.challenge()
    contact = (hand.exchange.request.get("contact") or "").split(";")[0]
    hand.answer(200, ("contact", f"{contact};expires=60"), ("p-associated-uri", value))
    assert (hand.outcome.cause, hand.outcome.stage) == ("bad P-Associated-URI", "answer")
    assert phone.registration is None


def test_without_a_registration_there_is_no_refresh_and_no_time() -> None:
    hand = Hand(make_phone(), reregister, "reregistration")
    assert (hand.outcome.cause, hand.outcome.stage) == ("not registered", "start")
    assert math.isnan(hand.outcome.ended_at)


def test_texts_are_shared_up_to_a_bound() -> None:
    network = make_phone().network
    for n in range(3 * MAX_SHARED_TEXTS):
        assert network.shared(f"<sip:{n}>") == f"<sip:{n}>"
    assert len(network.texts) == MAX_SHARED_TEXTS
    first = network.texts["<sip:0>"]
    assert network.shared("".join(("<sip:", "0>"))) is first


def test_plain_200_to_a_refresh_keeps_the_old_sas() -> None:
    phone = registered()
    sas, client = phone.sas, phone.client
    hand = Hand(phone, reregister, "reregistration")
    request = hand.expect("REGISTER")
    offer = parse_security(request.get_all("security-client"))[0]
    assert sas is not None
    assert (offer.port_c, offer.port_s) == (
        20_001,
        sas.port_us,
    )  # new client port, same server port
    assert offer.spi_c not in (sas.spi_uc, sas.spi_us)
    assert request.get_all("security-verify") == [SECURITY_SERVER]
    authorization = parse_digest(request.get("authorization") or "")
    assert authorization["nonce"]
    assert authorization["response"]
    hand.accept()
    assert hand.outcome.succeeded
    assert hand.ladder == ["-> REGISTER protected", "<- 200"]
    assert phone.sas is sas
    assert phone.client is client


def test_a_challenged_refresh_makes_a_new_set_beside_the_old() -> None:
    phone = registered()
    hand = Hand(phone, reregister, "reregistration")
    hand.sqn = 1 << 12
    offered = phone.signalling, phone.registration and phone.registration.security_verify
    hand.challenge(("security-server", SECURITY_SERVER.replace("port-c=40001", "port-c=40002")))
    assert phone.newer is not None
    assert hand.exchange.channel.local_port == 20_001
    # Until the 200 whatever else the phone sends goes inside the old set, and says so.
    assert phone.signalling.local_port == 20_000
    assert offered == (phone.signalling, phone.registration and phone.registration.security_verify)
    hand.accept()
    assert phone.signalling.local_port == 20_001
    assert hand.outcome.succeeded
    assert hand.ladder == [
        "-> REGISTER protected",  # over the old set
        "<- 401",
        "protect 20001",
        "-> REGISTER protected",  # over the new one
        "<- 200",
        "settle, close",  # transactions on the old set end there (TS 33.203 §7.4)
        "unprotect 20000",
    ]
    assert phone.newer is None


def test_a_refresh_that_fails_after_the_challenge_leaves_both_sets_to_abandon() -> None:
    from imsbench.phone.registration import abandon

    phone = registered()
    hand = Hand(phone, reregister, "reregistration")
    hand.sqn = 1 << 12
    hand.challenge(SERVER)
    hand.fail(Timeout("timeout"))
    assert hand.outcome.cause == "timeout"
    tidy = Hand(phone, lambda p, _o: abandon(p))
    assert [line for line in tidy.ladder if line.startswith("unprotect")] == [
        "unprotect 20000", "unprotect 20001",
    ]  # fmt: skip


def test_deregistration_ends_in_order() -> None:
    phone = registered()
    hand = Hand(phone, deregister, "deregistration")
    assert hand.expect("REGISTER").get("expires") == "0"
    hand.answer(200)
    assert hand.outcome.succeeded
    # 200 read, connections closed inside the SAs, then the SAs go.
    assert hand.ladder == ["-> REGISTER protected", "<- 200", "close", "unprotect 20000"]
    assert phone.registration is None
    assert phone.sas is None


def test_ring_of_client_ports_comes_round() -> None:
    phone = make_phone(port_uc_count=64)
    ports = [phone.offer()[0].port_c for _ in range(65)]
    assert len(set(ports[:64])) == 64
    assert ports[64] == ports[0]


def test_every_request_is_well_formed() -> None:
    hand = Hand(make_phone(), register)
    for _ in range(2):
        request = hand.expect("REGISTER")
        parsed = parse_message(serialize_message(request))
        assert not hasattr(parsed, "data"), parsed
        hand.challenge(SERVER)


@pytest.mark.parametrize(
    ("expires_s", "delay_s"), [(600_000, 599_400), (3600, 3000), (1201, 601), (1200, 600), (60, 30)]
)
def test_refresh_600_s_before_expiry_or_at_half(expires_s: float, delay_s: float) -> None:
    assert refresh_delay(expires_s) == delay_s


def test_the_ring_of_client_ports_skips_the_one_in_use() -> None:
    """64 refreshes without a challenge, each of which offers a port."""
    phone = registered()
    for _ in range(63):
        Hand(phone, reregister, "reregistration").accept()
    hand = Hand(phone, reregister, "reregistration")
    offer = parse_security(hand.expect("REGISTER").get_all("security-client"))[0]
    assert phone.sas is not None
    assert phone.sas.port_uc == 20_000
    assert offer.port_c == 20_001


def test_a_refresh_names_the_realm_of_the_challenge() -> None:
    phone = make_phone()
    hand = Hand(phone, register)
    vector = hand.vector()
    nonce = make_nonce(vector.rand, vector.autn)
    text = f'Digest realm="another.example",nonce="{nonce}",algorithm=AKAv1-MD5,qop="auth"'
    hand.answer(401, ("www-authenticate", text), SERVER)
    hand.accept()
    for flow in (reregister, deregister):
        hand = Hand(phone, flow, "reregistration")
        given = parse_digest(hand.expect("REGISTER").get("authorization") or "")
        assert given["realm"] == "another.example"
        if flow is reregister:
            hand.accept()


def test_without_its_associations_a_phone_sends_nothing_in_clear() -> None:
    phone = registered()
    phone.client = None
    with pytest.raises(TransportError, match="registration lost"):
        _ = phone.signalling
    phone.clear = phone.clear_channel()  # of a registration that is being made
    with pytest.raises(TransportError, match="registration lost"):
        _ = phone.signalling
    assert not registered(ipsec=False).signalling.protected


@pytest.mark.parametrize("ipsec", [True, False])
def test_a_200_without_a_challenge_protects_nothing(ipsec: bool) -> None:
    """IPsec is never switched off in silence; a phone that has none may be registered so."""
    phone = make_phone(ipsec=ipsec)
    hand = Hand(phone, register)
    hand.accept()
    assert hand.outcome.cause == ("not protected" if ipsec else "")
    assert (phone.registration is None) is ipsec
