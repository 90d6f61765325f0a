"""The reg-event subscription and its NOTIFYs (TS 24.229 §5.1.1.3, RFC 6665)."""

from __future__ import annotations

import pytest

from imsbench.phone.actions import Incoming, Receive, Timeout
from imsbench.phone.phone import Phone
from imsbench.phone.requests import answer_request
from imsbench.phone.subscription import refresh_subscription, subscribe_reg_event
from imsbench.protocol.reginfo import Contact, Reginfo, Registration, serialize_reginfo
from imsbench.protocol.sip import Header, Request, Response
from tests.phone.helpers import PCSCF, Hand, registered

FAR = ("contact", f"<sip:scscf@{PCSCF}:6060>")
ROUTE = ("record-route", f"<sip:{PCSCF}:5063;lr>")


def notify(
    phone: Phone, *, cseq: int = 1, state: str = "active;expires=3600", body: bytes = b""
) -> Request:
    """A NOTIFY of the phone's subscription dialog."""
    subscription = phone.subscription
    call_id = subscription.call_id if subscription else "gone"
    tag = subscription.from_tag if subscription else "gone"
    headers: list[Header] = [
        ("via", f"SIP/2.0/TCP {PCSCF}:40001;branch=z9hG4bKn{cseq}"),
        ROUTE,
        ("from", "<sip:x@y>;tag=far"),
        ("to", f"<sip:x@y>;tag={tag}"),
        ("call-id", call_id),
        ("cseq", f"{cseq} NOTIFY"),
        FAR,
        ("subscription-state", state),
    ]
    return Request(
        "NOTIFY", "sip:phone", headers, body, branch=f"z9hG4bKn{cseq}", call_id=call_id, cseq=cseq
    )


def answer(phone: Phone, request: Request, at: float, *, protected: bool) -> Response:
    """What the phone answers at once."""
    answered = answer_request(phone, Incoming(request, at, None, protected=protected))
    assert isinstance(answered, Response)
    return answered


def reginfo(phone: Phone, state: str, event: str) -> bytes:
    """A document about this phone's contact."""
    uri = f"sip:user@{phone.address}:6101"
    contact = Contact(id="c", state=state, event=event, uri=uri, expires=None)
    registration = Registration(aor="sip:x@y", id="r", state=state, contacts=[contact])
    return serialize_reginfo(Reginfo(version=0, state="full", registrations=[registration]))


def test_subscribe_then_notify() -> None:
    phone = registered()
    hand = Hand(phone, subscribe_reg_event, "subscription")
    request = hand.expect("SUBSCRIBE")
    assert request.uri == phone.subscriber.impu_sip
    assert request.get("event") == "reg"
    assert request.get("accept") == "application/reginfo+xml"
    assert request.get_all("route") == [f"<sip:{PCSCF}:5063;lr>", f"<sip:orig@{PCSCF}:6060;lr>"]
    assert request.get("require") == "sec-agree"
    assert request.get_all("security-verify")
    hand.answer(200, FAR, ROUTE, ("expires", "3600"))
    assert isinstance(hand.action, Receive)
    assert answer(phone, notify(phone), hand.now + 0.01, protected=True).status == 200
    hand.receive()
    assert hand.outcome.succeeded
    assert hand.outcome.time_s == pytest.approx(0.010)  # SUBSCRIBE -> 200
    assert hand.outcome.notify_at == pytest.approx(hand.outcome.ended_at + 0.01)


def test_the_notify_may_come_before_the_200() -> None:
    phone = registered()
    hand = Hand(phone, subscribe_reg_event, "subscription")
    assert answer(phone, notify(phone), hand.now, protected=True).status == 200
    hand.answer(200, FAR, ("expires", "3600"))
    assert hand.done
    assert hand.outcome.succeeded
    assert hand.outcome.notify_at < hand.outcome.ended_at
    assert phone.subscription is not None
    assert phone.subscription.route_set == (f"<sip:{PCSCF}:5063;lr>",)


def test_a_request_of_the_dialog_that_is_no_notify_is_none() -> None:
    """A NOTIFY with a body that is no reginfo is refused: then the wait goes on, and ends in time."""
    phone = registered()
    hand = Hand(phone, subscribe_reg_event, "subscription")
    hand.answer(200, FAR, ("expires", "3600"))
    bad = notify(phone, body=b"not xml")
    assert answer(phone, bad, hand.now, protected=True).status == 400
    hand.receive()
    assert isinstance(hand.action, Receive)
    assert hand.action.timeout_s == pytest.approx(32.0 - 0.010)
    assert answer(phone, notify(phone, cseq=2), hand.now + 0.01, protected=True).status == 200
    hand.receive()
    assert hand.outcome.succeeded
    assert hand.outcome.notify_at > hand.outcome.ended_at


def test_no_notify_is_a_failure_of_its_own() -> None:
    hand = Hand(registered(), subscribe_reg_event, "subscription")
    hand.answer(200, FAR, ("expires", "3600"))
    hand.receive(Timeout("timeout"))
    assert (hand.outcome.stage, hand.outcome.cause) == ("notify", "no notify")


def test_refresh_stays_in_the_dialog() -> None:
    phone = registered()
    hand = Hand(phone, subscribe_reg_event, "subscription")
    answer(phone, notify(phone), hand.now, protected=True)
    hand.answer(200, FAR, ROUTE, ("expires", "3600"))
    assert phone.subscription is not None
    hand = Hand(phone, refresh_subscription, "subscription_refresh")
    request = hand.expect("SUBSCRIBE")
    assert request.uri == f"sip:scscf@{PCSCF}:6060"  # the remote target
    assert request.cseq == 2
    assert (request.get("to") or "").endswith(";tag=far")
    hand.answer(200, ("expires", "1800"))
    assert hand.outcome.succeeded
    assert phone.subscription.expires_at == pytest.approx(hand.outcome.ended_at + 1800)


@pytest.mark.parametrize("status", [403, 481, 503])
def test_a_refused_subscription_is_named(status: int) -> None:
    hand = Hand(registered(), subscribe_reg_event, "subscription")
    hand.answer(status)
    assert (hand.outcome.stage, hand.outcome.cause) == ("subscribe", str(status))


def test_a_2xx_without_expires_is_a_failure() -> None:
    hand = Hand(registered(), subscribe_reg_event, "subscription")
    hand.answer(200, FAR)
    assert hand.outcome.cause == "no Expires"


def subscribed() -> Phone:
    """A phone with a standing subscription."""
    phone = registered()
    hand = Hand(phone, subscribe_reg_event, "subscription")
    answer(phone, notify(phone), hand.now, protected=True)
    hand.answer(200, FAR, ("expires", "3600"))
    assert hand.outcome.succeeded
    return phone


def test_late_and_foreign_notifies_are_counted_not_failures() -> None:
    phone = subscribed()
    foreign = notify(phone, cseq=9)
    foreign.call_id = "another"
    assert answer(phone, foreign, 1.0, protected=True).status == 481
    late = notify(phone, cseq=2)
    phone.subscription = None
    assert answer(phone, late, 1.0, protected=True).status == 481
    assert phone.network.events["late_notify"] == 1
    assert phone.network.events["notify_for_no_dialog"] == 1


def test_a_notify_out_of_order_is_refused() -> None:
    phone = subscribed()
    assert answer(phone, notify(phone, cseq=5), 1.0, protected=True).status == 200
    assert answer(phone, notify(phone, cseq=4), 1.0, protected=True).status == 500
    assert phone.network.events["notify_out_of_order"] == 1


def test_a_notify_that_is_no_reginfo_is_refused_and_counted() -> None:
    phone = subscribed()
    hostile = b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "b">]><a>&b;</a>'
    assert answer(phone, notify(phone, cseq=2, body=hostile), 1.0, protected=True).status == 400
    assert phone.network.events["bad_reginfo"] == 1


@pytest.mark.parametrize("event", ["deactivated", "rejected", "probation"])
def test_the_network_ends_the_registration(event: str) -> None:
    phone = subscribed()
    told: list[str] = []
    phone.network.on_deregistered = lambda _phone, what: told.append(what)
    body = reginfo(phone, "terminated", event)
    request = notify(phone, cseq=2, state="terminated", body=body)
    assert answer(phone, request, 1.0, protected=True).status == 200
    assert told == [event]
    assert phone.network.events[f"network_deregistration_{event}"] == 1


def test_the_network_names_no_counter_of_ours() -> None:
    phone = subscribed()
    request = notify(phone, cseq=2, body=reginfo(phone, "terminated", "x" * 1000))
    assert answer(phone, request, 1.0, protected=True).status == 200
    assert phone.network.events["network_deregistration_other"] == 1
    assert max(map(len, phone.network.events)) < 40


def test_a_contact_that_is_no_uri_is_no_target() -> None:
    phone = registered()
    hand = Hand(phone, subscribe_reg_event, "subscription")
    hand.answer(200, ("expires", "600"), ("contact", "<sip:a b>"))
    assert phone.subscription is not None
    assert phone.subscription.target == ""
    assert phone.network.events["dialog_without_tag_or_contact"] == 1


def test_the_notify_of_our_own_deregistration_is_no_news() -> None:
    phone = subscribed()
    told: list[str] = []
    phone.network.on_deregistered = lambda _phone, what: told.append(what)
    body = reginfo(phone, "terminated", "unregistered")
    answer(phone, notify(phone, cseq=2, body=body), 1.0, protected=True)
    assert not told


def test_subscription_state_may_shorten_the_subscription() -> None:
    phone = subscribed()
    answer(phone, notify(phone, cseq=2, state="active;expires=100"), 50.0, protected=True)
    assert phone.subscription is not None
    assert phone.subscription.expires_at == 150.0


def test_a_request_in_clear_is_refused_and_counted() -> None:
    phone = subscribed()
    assert answer(phone, notify(phone, cseq=2), 1.0, protected=False).status == 403
    assert phone.network.events["clear_request_by_target"] == 1


@pytest.mark.parametrize(("method", "status"), [("OPTIONS", 200), ("INVITE", 405), ("FOO", 405)])
def test_other_requests_are_answered(method: str, status: int) -> None:
    phone = subscribed()
    request = notify(phone)
    request.method = method
    assert answer(phone, request, 1.0, protected=True).status == status


def test_a_subscription_of_no_time_is_a_failure() -> None:
    hand = Hand(registered(), subscribe_reg_event, "subscription")
    hand.answer(200, FAR, ("expires", "0"))
    assert hand.outcome.cause == "Expires 0"


def test_a_shortened_subscription_is_refreshed_earlier() -> None:
    phone = subscribed()
    moved: list[Phone] = []
    phone.network.on_refresh_moved = moved.append
    assert phone.subscription is not None
    phone.subscription.refresh_at = 3000.0
    answer(phone, notify(phone, cseq=2, state="active;expires=100"), 50.0, protected=True)
    assert phone.subscription.refresh_at == 100.0
    assert moved == [phone]


def test_the_own_contact_is_found_by_address_not_by_text() -> None:
    phone = subscribed()
    told: list[str] = []
    phone.network.on_deregistered = lambda _phone, what: told.append(what)
    body = reginfo(phone, "terminated", "rejected").replace(b":6101", b"")
    answer(phone, notify(phone, cseq=2, body=body), 1.0, protected=True)
    assert told == ["rejected"]
