"""What real cores do and phones have to live with, as ladders on virtual time.

Each of these was seen at a core that nobody here wrote (Kamailio 5.6.3): what a phone answers, what it
refuses, and under which name it is counted.
"""

from __future__ import annotations

import pytest

from imsbench.phone.actions import Receive, Timeout
from imsbench.phone.phone import Phone
from imsbench.phone.registration import abandon, deregister, register, reregister
from imsbench.phone.subscription import refresh_subscription, subscribe_reg_event
from imsbench.protocol.secagree import parse_security
from imsbench.protocol.sip import Header
from tests.phone.helpers import PCSCF, Hand, make_phone, registered
from tests.phone.test_subscription import FAR, answer, notify, reginfo, subscribed


def server(pair: int = 0, alg: str = "hmac-sha-1-96", ealg: str = "null") -> Header:
    """Security-Server in that core's spelling: no q, one mechanism, another port pair for every phone."""
    spi, port_c, port_s = 4096 + 2 * pair, 40_000 + pair, 50_000 + pair
    return (
        "security-server",
        f"ipsec-3gpp;prot=esp;mod=trans;spi-c={spi};spi-s={spi + 1};"
        f"port-c={port_c};port-s={port_s};alg={alg};ealg={ealg}",
    )


def at_pair(pair: int) -> Phone:
    """A phone that has registered over its own port pair of the P-CSCF."""
    phone = make_phone()
    hand = Hand(phone, register)
    hand.challenge(server(pair))
    hand.accept()
    assert hand.outcome.succeeded, hand.outcome
    return phone


# --- the first REGISTER


@pytest.mark.parametrize("port", [5060, 5070])
def test_the_first_register_names_the_clear_port_and_the_next_port_us(port: int) -> None:
    # A P-CSCF may take any other Via port for a re-registration, and the two contacts for two bindings.
    hand = Hand(make_phone(clear_port=port, port_us=6200), register)
    first = hand.expect("REGISTER")
    for name in ("via", "contact"):
        assert f"198.18.0.1:{port}" in (first.get(name) or "")
    assert hand.exchange.channel.local_port == 0  # TCP leaves from any: it is answered there
    hand.challenge(server())
    second = hand.expect("REGISTER")
    for name in ("via", "contact"):
        assert "198.18.0.1:6200" in (second.get(name) or "")


def test_without_ipsec_all_requests_name_the_clear_port() -> None:
    hand = Hand(make_phone(ipsec=False, clear_port=5070), register)
    hand.challenge()
    assert "198.18.0.1:5070" in (hand.expect("REGISTER").get("contact") or "")


# --- the agreement


def test_every_phone_has_another_port_pair_of_the_pcscf() -> None:
    for pair in (0, 7, 199):
        phone = at_pair(pair)
        assert phone.sas is not None
        assert (phone.sas.port_pc, phone.sas.port_ps) == (40_000 + pair, 50_000 + pair)
        assert phone.signalling.remote_port == 50_000 + pair
        hand = Hand(phone, subscribe_reg_event, "subscription")
        request = hand.expect("SUBSCRIBE")
        assert request.get_all("route")[0] == f"<sip:{PCSCF}:{50_000 + pair};lr>"
        assert request.get_all("security-verify") == [server(pair)[1]]


def test_a_security_server_without_q_is_taken_and_counted() -> None:
    phone = at_pair(3)
    assert phone.network.events["security_server_without_q"] == 1
    assert registered().network.events["security_server_without_q"] == 0


@pytest.mark.parametrize("chosen", [0, 1, 2])
def test_the_mechanism_is_read_back_whichever_of_the_offer_it_echoes(chosen: int) -> None:
    mechanisms = (("hmac-sha-1-96", "null"), ("hmac-sha-1-96", "aes-cbc"), ("hmac-md5-96", "null"))
    phone = make_phone(mechanisms=mechanisms)
    hand = Hand(phone, register)
    offer = parse_security(hand.expect("REGISTER").get_all("security-client"))
    assert [(one.alg, one.ealg) for one in offer] == list(mechanisms)
    hand.challenge(server(0, *mechanisms[chosen]))
    assert phone.sas is not None
    assert (phone.sas.alg, phone.sas.ealg) == mechanisms[chosen]
    hand.accept()
    assert hand.outcome.succeeded


# --- challenges


def test_a_repeated_challenge_is_answered_and_counted() -> None:
    # An S-CSCF that sends its 401 before it has stored the vector does not know a fast phone's answer.
    phone = make_phone()
    hand = Hand(phone, register)
    hand.challenge(server())
    first = hand.expect("REGISTER").get("authorization")
    hand.challenge()
    assert hand.expect("REGISTER").get("authorization") != first  # another nonce, another response
    hand.accept()
    assert hand.outcome.succeeded
    assert hand.ladder == [
        "-> REGISTER clear", "<- 401", "protect 20000",
        "-> REGISTER protected", "<- 401", "-> REGISTER protected", "<- 200", "close",
    ]  # fmt: skip
    assert phone.network.events["repeated_challenges"] == 1


def test_a_resynchronisation_is_no_repeated_challenge() -> None:
    phone = make_phone()
    hand = Hand(phone, register)
    hand.challenge(server(), vector=hand.vector(sqn=1 << 20))
    hand.accept()
    hand = Hand(phone, register)
    hand.challenge(server(), vector=hand.vector(sqn=64))
    hand.challenge(server(), vector=hand.vector(sqn=(1 << 20) + 32))
    hand.accept()
    assert hand.outcome.succeeded
    assert phone.network.events["repeated_challenges"] == 0


@pytest.mark.parametrize("most", [1, 2, 5])
def test_so_many_challenges_are_answered_and_no_more(most: int) -> None:
    hand = Hand(make_phone(ipsec=False, max_challenges=most), register)
    for _ in range(most):
        hand.challenge()
    hand.challenge()
    assert hand.done
    assert (hand.outcome.cause, hand.outcome.challenges) == ("too many challenges", most)


def test_every_refresh_may_be_challenged_over_a_new_agreement() -> None:
    phone = at_pair(0)
    for turn in range(1, 4):
        hand = Hand(phone, reregister, "reregistration")
        hand.sqn = turn << 16
        old = phone.sas
        hand.challenge(server(turn))
        request = hand.expect("REGISTER")
        assert hand.exchange.channel.local_port == 20_000 + turn
        assert request.get_all("security-verify") == [server(turn)[1]]
        hand.accept()
        assert hand.outcome.succeeded
        assert hand.ladder == [
            "-> REGISTER protected", "<- 401", f"protect {20_000 + turn}",
            "-> REGISTER protected", "<- 200", "settle, close", f"unprotect {20_000 + turn - 1}",
        ]  # fmt: skip
        assert phone.sas is not None
        assert phone.sas is not old
        assert phone.newer is None
    assert phone.network.events["challenged_refreshes"] == 3


def test_a_repeated_challenge_of_a_refresh_keeps_the_old_set_to_the_end() -> None:
    phone = at_pair(0)
    hand = Hand(phone, reregister, "reregistration")
    hand.sqn = 1 << 16
    hand.challenge(server(1))
    hand.challenge(server(2))
    hand.accept()
    assert hand.outcome.succeeded
    assert hand.ladder[2:] == [
        "protect 20001", "-> REGISTER protected", "<- 401",
        "close", "unprotect 20001", "protect 20001",
        "-> REGISTER protected", "<- 200", "settle, close", "unprotect 20000",
    ]  # fmt: skip


# --- requests of the network


def test_a_request_comes_over_the_pcscfs_own_connection_but_not_in_clear() -> None:
    phone = subscribed()
    assert answer(phone, notify(phone, cseq=2), 1.0, protected=True).status == 200
    assert answer(phone, notify(phone, cseq=3), 1.0, protected=False).status == 403
    assert phone.network.events["clear_request_by_target"] == 1


def test_a_notify_before_the_200_to_subscribe_is_counted() -> None:
    phone = registered()
    hand = Hand(phone, subscribe_reg_event, "subscription")
    answer(phone, notify(phone), hand.now, protected=True)
    hand.answer(200, FAR, ("expires", "3600"))
    assert hand.outcome.succeeded
    assert phone.network.events["notify_before_2xx"] == 1
    hand = Hand(phone, subscribe_reg_event, "subscription")
    hand.answer(200, FAR, ("expires", "3600"))
    assert isinstance(hand.action, Receive)
    answer(phone, notify(phone), hand.now, protected=True)
    assert phone.network.events["notify_before_2xx"] == 1


def test_a_notify_before_the_200_to_a_refresh_is_answered() -> None:
    phone = subscribed()
    hand = Hand(phone, reregister, "reregistration")
    body = reginfo(phone, "active", "refreshed")
    assert answer(phone, notify(phone, cseq=2, body=body), hand.now, protected=True).status == 200
    hand.accept()
    assert hand.outcome.succeeded
    assert phone.subscription is not None


def test_a_notify_of_the_last_registration_before_the_200_to_a_new_one_is_late() -> None:
    phone = subscribed()
    late = notify(phone, cseq=2)
    hand = Hand(phone, register)  # the phone starts afresh
    hand.sqn = 1 << 20
    hand.challenge(server())
    assert answer(phone, late, hand.now, protected=True).status == 481
    hand.accept()
    assert hand.outcome.succeeded
    assert phone.network.events["late_notify"] == 1


# --- the subscription


def test_a_refresh_after_which_no_notify_comes_is_counted() -> None:
    phone = subscribed()
    for _ in range(2):
        hand = Hand(phone, refresh_subscription, "subscription_refresh")
        hand.answer(200, ("expires", "3600"))
        assert hand.outcome.succeeded
    assert phone.network.events["refresh_without_notify"] == 1  # of the second it is not known yet
    hand = Hand(phone, deregister, "deregistration")
    hand.answer(200)
    assert phone.network.events["refresh_without_notify"] == 2


def test_a_refresh_with_its_notify_before_or_after_the_200_is_not() -> None:
    phone = subscribed()
    hand = Hand(phone, refresh_subscription, "subscription_refresh")
    answer(phone, notify(phone, cseq=2), hand.now, protected=True)
    hand.answer(200, ("expires", "3600"))
    hand = Hand(phone, refresh_subscription, "subscription_refresh")
    hand.answer(200, ("expires", "3600"))
    answer(phone, notify(phone, cseq=3), hand.now, protected=True)
    hand = Hand(phone, deregister, "deregistration")
    hand.answer(200)
    assert phone.network.events["refresh_without_notify"] == 0


# --- the end


@pytest.mark.parametrize("event", ["unregistered", "expired", "deactivated"])
def test_the_notify_of_the_own_deregistration_comes_before_its_200(event: str) -> None:
    phone = subscribed()
    told: list[str] = []
    phone.network.on_deregistered = lambda _phone, what: told.append(what)
    hand = Hand(phone, deregister, "deregistration")
    request = notify(phone, cseq=2, body=reginfo(phone, "terminated", event))
    assert answer(phone, request, hand.now, protected=True).status == 200
    hand.answer(200)
    assert hand.outcome.succeeded
    assert told == []  # nobody ended it but the phone
    events = phone.network.events
    assert events["notify_of_own_deregistration"] == 1
    assert events[f"own_deregistration_called_{event}"] == (event != "unregistered")
    assert events["subscription_active_after_deregistration"] == 1


def test_a_subscription_that_ends_with_its_registration_is_as_it_should_be() -> None:
    phone = subscribed()
    Hand(phone, deregister, "deregistration")
    body = reginfo(phone, "terminated", "unregistered")
    answer(phone, notify(phone, cseq=2, state="terminated", body=body), 1.0, protected=True)
    assert phone.network.events["subscription_active_after_deregistration"] == 0


def test_the_200_to_a_deregistration_is_lost() -> None:
    # Also where it came in clear: the phone's policy drops it, and counts it (clear_responses_in).
    phone = at_pair(0)
    hand = Hand(phone, deregister, "deregistration")
    hand.fail(Timeout("timeout", "no final response in 32 s"))
    assert (hand.outcome.stage, hand.outcome.cause) == ("deregistration", "timeout")
    assert phone.network.events["deregistrations_unanswered"] == 1
    tidy = Hand(phone, lambda one, _outcome: abandon(one))
    assert tidy.ladder == ["close", "unprotect 20000"]
    assert not phone.deregistering
    again = Hand(phone, register)
    again.sqn = 1 << 16
    again.challenge(server(1))
    again.accept()
    assert again.outcome.succeeded


def test_a_deregistration_may_be_challenged_and_answered_over_a_new_agreement() -> None:
    phone = at_pair(0)
    hand = Hand(phone, deregister, "deregistration")
    hand.sqn = 1 << 16
    hand.challenge(server(1))
    assert hand.expect("REGISTER").get("expires") == "0"
    assert hand.exchange.channel.remote_port == 50_001
    hand.answer(200)
    assert hand.outcome.succeeded
    assert hand.ladder == [
        "-> REGISTER protected", "<- 401", "protect 20001", "-> REGISTER protected", "<- 200",
        "close", "close", "unprotect 20000", "unprotect 20001",
    ]  # fmt: skip
