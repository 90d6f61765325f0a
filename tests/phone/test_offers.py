"""Offers and answers within calls, whatever the network makes of them (RFC 3261 §13.2.1, §14; RFC 3264)."""

from __future__ import annotations

from typing import Any

import pytest

from imsbench.phone.messages import contact
from imsbench.protocol.sdp import fits, make_answer, parse_sdp, serialize_sdp
from imsbench.protocol.sip import Header, Request, Response, response_to
from tests.phone.pair import CALL_ID, Pair, Side
from tests.phone.test_call import plan

OFFER = (
    b"v=0\r\no=- 77 5 IN IP4 198.19.0.10\r\ns=-\r\nc=IN IP4 198.19.0.10\r\nt=0 0\r\n"
    b"m=audio 40000 RTP/AVP 0\r\n"
)


def ask(
    pair: Pair, to: Side, method: str, body: bytes, cseq: int, *headers: Header, after_s: float = 0
) -> None:
    """A request of the network inside the call."""
    branch = f"z9hG4bKask{cseq}{method}"
    common = [
        ("via", f"SIP/2.0/TCP net;branch={branch}"), ("from", "<sip:n>;tag=n"),
        ("to", "<sip:p>;tag=p"), ("call-id", CALL_ID), ("cseq", f"{cseq} {method}"), *headers,
    ]  # fmt: skip
    request = Request(method, "sip:x", common, body, branch=branch, call_id=CALL_ID, cseq=cseq)
    pair.at(after_s, to.read, request)


def is_invite(message: Request | Response) -> bool:
    """Whether it is an INVITE that begins a call."""
    return (
        isinstance(message, Request)
        and message.method == "INVITE"
        and "tag=" not in (message.get("to") or "")
    )


class Network:
    """A hook: changes the caller's INVITE and its ACK, asks the phones in the call, keeps answers."""

    def __init__(self, body: bytes, *asked: tuple[str, bytes, int, tuple[Header, ...]]) -> None:
        self.body = body
        self.asked = asked
        self.answers: list[Response] = []
        self.side = "callee"
        self.ack_answers = True
        self.offered: bytes = b""
        self.acknowledges = True

    def __call__(self, pair: Pair, name: str, message: Request | Response) -> bool:
        if isinstance(message, Response):
            return self._on_response(pair, name, message)
        if is_invite(message):
            message.body = self.body if self.body != b"as it is" else message.body
        elif message.method == "ACK" and name == "caller":
            if self.offered and self.ack_answers:
                offer = parse_sdp(self.offered)
                message.body = serialize_sdp(make_answer(offer, "198.19.0.10", 40_000, "3", 1))
            for n, (method, body, cseq, headers) in enumerate(self.asked):
                ask(pair, self._asked_side(pair), method, body, cseq, *headers, after_s=1.0 + n)
        return True

    def _asked_side(self, pair: Pair) -> Side:
        return pair.callee if self.side == "callee" else pair.caller

    def _on_response(self, pair: Pair, name: str, message: Response) -> bool:
        if message.method == "INVITE" and message.cseq == 1 and message.status == 200:
            self.offered = message.body if not self.body else b""
        if not message.branch.startswith("z9hG4bKask"):
            return True
        self.answers.append(message)
        if message.method == "INVITE" and message.status >= 200 and self.acknowledges:
            ask(pair, self._asked_side(pair), "ACK", b"", message.cseq)
        return False


def called(network: Network, **values: Any) -> Pair:
    """A call whose messages the network changes."""
    pair = Pair(plan(**values))
    pair.hook = network
    return pair.run()


@pytest.mark.parametrize("method", ["UPDATE", "INVITE"])
def test_the_2xx_to_an_invite_without_an_offer_has_one(method: str) -> None:
    network = Network(b"", (method, OFFER, 900, ()))
    pair = called(network)
    assert pair.ladder[:5] == ["-> INVITE", "<- 100", "<- 180", "<- 200", "-> ACK"]
    assert parse_sdp(network.offered).media[0].qos is None  # no preconditions to be met any more
    assert [answer.status for answer in network.answers] == [200]
    assert pair.side.wrong == "the SDP of the INVITE is not what the caller sent"
    assert pair.over


def test_the_answer_to_it_comes_in_the_ack() -> None:
    network = Network(b"")
    network.ack_answers = False
    pair = Pair(plan())
    pair.plan.offer = None
    pair.callee_plan = plan()
    pair.hook = network
    pair.run()
    assert pair.side.wrong == "SDP of the ACK: does not begin with v=0"
    assert pair.over


@pytest.mark.parametrize("preconditions", [True, False])
def test_a_body_that_is_no_sdp_is_refused(preconditions: bool) -> None:
    network = Network(b"v=0\r\nnonsense\r\n", ("UPDATE", OFFER, 900, ()))
    pair = called(network, preconditions=preconditions)
    assert pair.ladder == ["-> INVITE", "<- 100", "<- 488", "-> ACK"]
    assert (pair.outcome.status, pair.outcome.cause) == (488, "488")
    assert "399 imsbench" in pair.outcome.detail
    assert pair.side.events == {"bad_sdp": 1}
    assert pair.over


def test_an_offer_before_the_answer_to_the_first_one_is_too_early() -> None:
    """RFC 3311 §5.2: without preconditions the answer is in the 2xx, and this comes before."""
    network = Network(b"as it is")

    def hook(pair: Pair, name: str, message: Request | Response) -> bool:
        if isinstance(message, Response) and message.status == 180:
            ask(pair, pair.callee, "UPDATE", OFFER, 2)
        return network(pair, name, message)

    pair = Pair(plan(preconditions=False, ring_s=1.0))
    pair.hook = hook
    pair.run()
    assert [answer.status for answer in network.answers] == [500]
    assert not pair.outcome.wrong  # the answer of the 2xx is that to the INVITE
    assert pair.over


@pytest.mark.parametrize("method", ["UPDATE", "INVITE"])
def test_an_offer_before_any_description_of_ours_is_too_early(method: str) -> None:
    """To a phone that is busy: it waits for the ACK to its 486, and has described nothing."""
    network = Network(b"as it is")

    def hook(pair: Pair, name: str, message: Request | Response) -> bool:
        if isinstance(message, Response) and message.status == 486:
            ask(pair, pair.callee, method, OFFER, 900)
        return network(pair, name, message)

    pair = Pair(plan(expected="busy"))
    pair.hook = hook
    pair.run()
    (answer,) = network.answers
    assert (answer.status, pair.side.events["offer_too_early"]) == (500, 1)
    assert 0 <= int(answer.get("retry-after") or -1) <= 10
    assert pair.over


def test_a_reinvite_without_an_offer_is_answered_with_one() -> None:
    network = Network(b"as it is", ("INVITE", b"", 900, ()))
    pair = called(network)
    (answer,) = network.answers
    assert parse_sdp(answer.body).media[0].kind == "audio"
    assert pair.over


@pytest.mark.parametrize("what", ["hold", "resume"])
def test_a_reinvite_that_is_only_tried_is_given_up(what: str) -> None:
    """A 100 ends Timer B (RFC 3261 §17.1.1.2): from then on only the phone itself can end its wait."""
    silent_from = 2 if what == "hold" else 3

    def hook(pair: Pair, name: str, message: Request | Response) -> bool:
        if isinstance(message, Request) and message.method == "INVITE" and not is_invite(message):
            invites.append(message)
            if len(invites) + 1 >= silent_from:
                pair.forward(pair.callee, response_to(message, 100, "Trying"))
                return False
        return True

    invites: list[Request] = []
    pair = Pair(plan(hold_resume=True, hold_s=9.0))
    pair.hook = hook
    pair.run()
    assert pair.over
    outcome = pair.outcome
    assert (outcome.stage, outcome.cause, outcome.dropped) == (what, "timeout", True)
    assert "-> BYE" in pair.ladder
    given_up_after_s = outcome.ended_at - outcome.answered_at
    assert given_up_after_s == pytest.approx((3.0 if what == "hold" else 6.0) + 32.0, abs=0.05)


def test_a_refused_reinvite_whose_ack_never_comes_leaves_the_call_as_it_was() -> None:
    network = Network(b"as it is", ("INVITE", b"no SDP", 900, ()), ("INVITE", OFFER, 901, ()))
    network.acknowledges, network.side = False, "caller"
    pair = called(network, hold_s=100.0)
    assert [answer.status for answer in network.answers] == [488, 500]  # RFC 3261 §14.2
    assert pair.outcome.events == {"bad_sdp": 1, "ack_missing": 1, "offer_too_early": 1}
    assert pair.over
    assert not pair.outcome.cause


def test_a_reinvite_while_our_own_invite_is_under_way_is_glare() -> None:
    network = Network(b"as it is")

    def hook(pair: Pair, name: str, message: Request | Response) -> bool:
        if isinstance(message, Response) and message.status == 180:
            ask(pair, pair.caller, "INVITE", OFFER, 900)
        return network(pair, name, message)

    network.side = "caller"
    pair = Pair(plan(ring_s=1.0))
    pair.hook = hook
    pair.run()
    assert [answer.status for answer in network.answers] == [491]
    assert pair.outcome.events == {"glare": 1}  # its ACK is in turn
    assert not pair.outcome.cause


def offer_of(*streams: str, session: str = "") -> bytes:
    """A description of the network with these m= lines and their attributes."""
    head = OFFER[: OFFER.index(b"m=")]
    return head + session.encode() + "".join(f"{stream}\r\n" for stream in streams).encode()


@pytest.mark.parametrize("side", ["caller", "callee"])
@pytest.mark.parametrize("method", ["UPDATE", "INVITE"])
def test_an_answer_within_a_call_fits_its_offer_line_by_line(method: str, side: str) -> None:
    """RFC 3264 §6: as many streams in the same order, refused ones with port 0, formats among the offered."""
    body = offer_of(
        "m=video 40002 RTP/AVP 31", "m=audio 40000 RTP/AVP 0 8", "a=sendonly", session="b=AS:60\r\n"
    )
    network = Network(b"as it is", (method, body, 900, ()))
    network.side = side
    pair = called(network)
    (response,) = network.answers
    answer = parse_sdp(response.body)
    assert fits(parse_sdp(body), answer) == ""
    video, audio = answer.media
    assert (video.kind, video.port) == ("video", 0)
    assert (audio.port, audio.formats, audio.direction) == (50_000, ("0",), "recvonly")
    phone = pair.callee.phone if side == "callee" else pair.caller.phone
    assert response.get("contact") == contact(phone, phone.subscriber.imsi)
    assert pair.over


def test_a_direction_of_the_whole_session_is_answered() -> None:
    body = offer_of("m=audio 40000 RTP/AVP 0", session="a=sendonly\r\n")
    network = Network(b"as it is", ("INVITE", body, 900, ()))
    called(network)
    assert parse_sdp(network.answers[0].body).media[0].direction == "recvonly"


def test_an_offer_without_audio_is_refused_and_the_session_stays() -> None:
    video = offer_of("m=video 40002 RTP/AVP 31")
    asked = ("UPDATE", video, 900, ()), ("INVITE", b"", 901, ())
    network = Network(b"as it is", *asked)
    called(network)
    refusal, after = network.answers
    assert (refusal.status, refusal.get("warning")) == (
        488, '399 imsbench "no audio stream to answer"',
    )  # fmt: skip
    assert [media.port for media in parse_sdp(after.body).media] == [50_000]


@pytest.mark.parametrize(
    ("asked", "supported", "answered", "required"),
    [
        ("90", "timer", "90;refresher=uac", ["timer"]),
        ("90", "100rel", "90;refresher=uas", []),
        ("1800;refresher=uas", "timer", "1800;refresher=uas", []),
        ("1800 ;Refresher=UAC", "timer", "1800;refresher=uac", ["timer"]),
        ("soon;refresher=uac", "timer", None, []),
    ],
)
def test_the_session_timer_of_an_answer(
    asked: str, supported: str, answered: str | None, required: list[str]
) -> None:
    """RFC 4028 §9, Table 2."""
    headers: tuple[Header, ...] = (("session-expires", asked), ("supported", supported))
    network = Network(b"as it is", ("UPDATE", b"", 900, headers))
    pair = called(network)
    (answer,) = network.answers
    assert (answer.get("session-expires"), answer.values("require")) == (answered, required)
    owed = answered is not None and answered.endswith("uas")
    assert pair.side.events.get("refresh_owed", 0) == owed


def test_the_called_phone_agrees_to_the_session_timer() -> None:
    answers: list[Response] = []

    def look(_pair: Pair, _name: str, message: Request | Response) -> bool:
        if isinstance(message, Response) and message.method == "INVITE" and message.status == 200:
            answers.append(message)
        return True

    pair = Pair(plan(session_expires_s=90))
    pair.hook = look
    pair.run()
    assert answers[0].get("session-expires") == "90;refresher=uac"
    assert answers[0].values("require") == ["timer"]
    assert not pair.outcome.cause


def test_a_bye_out_of_order_does_not_end_the_wait_for_an_ack() -> None:
    """It is refused (RFC 3261 §12.2.2): the 2xx is repeated on, and the call ended after 64*T1."""
    bye = ("BYE", b"", 3, ())
    network = Network(b"as it is", ("INVITE", OFFER, 900, ()), bye)
    network.acknowledges = False
    pair = called(network, hold_s=100.0)
    assert [a.status for a in network.answers if a.method == "BYE"] == [500]
    assert (pair.side.stage, pair.side.cause) == ("talk", "timeout")
    assert "<- BYE" in pair.ladder
    assert pair.over


@pytest.mark.parametrize("contact_of", ["INVITE", "200"])
def test_messages_without_a_contact(contact_of: str) -> None:
    """RFC 3261 §8.1.1.8, §12.1.1: nobody to send the requests of the call to."""

    def strip(_pair: Pair, _name: str, message: Request | Response) -> bool:
        if isinstance(message, Request) == (contact_of == "INVITE"):
            message.headers = [h for h in message.headers if h[0] != "contact"]
        return True

    pair = Pair(plan(preconditions=False))
    pair.hook = strip
    outcome = pair.run().outcome
    if contact_of == "INVITE":
        assert pair.ladder == ["-> INVITE", "<- 100", "<- 400", "-> ACK"]
        assert (outcome.cause, pair.side.wrong) == ("400", "no Contact in the INVITE")
    else:
        assert pair.ladder[3:] == ["<- 200", "-> ACK", "-> BYE", "<- 200"]
        assert (outcome.cause, outcome.wrong) == ("", "no Contact by the 200")
    assert pair.over


def test_requests_that_a_call_refuses_are_counted_by_the_names_of_the_field() -> None:
    methods = ("REFER", "A1", "A2", "A3")
    network = Network(b"as it is", *((name, b"", 900 + n, ()) for n, name in enumerate(methods)))
    network.side = "caller"
    pair = called(network)
    assert [answer.status for answer in network.answers] == [405] * 4
    assert pair.outcome.events == {"unexpected_refer": 1, "unexpected_request": 3}


@pytest.mark.parametrize("without", ["offer", "100rel"])
def test_ringing_is_not_reliable_without_an_offer_or_support(without: str) -> None:
    network = Network(b"" if without == "offer" else b"as it is")

    def hook(pair: Pair, name: str, message: Request | Response) -> bool:
        if is_invite(message) and without == "100rel":
            message.headers = [h for h in message.headers if h[0] != "supported"]
        return network(pair, name, message)

    pair = Pair(plan(reliable_ringing=True))
    pair.hook = hook
    pair.run()
    assert pair.ladder[:5] == ["-> INVITE", "<- 100", "<- 180", "<- 200", "-> ACK"]
    assert not pair.outcome.cause


def test_an_update_with_an_offer_before_the_answer_to_ours_is_glare() -> None:
    """RFC 3311 §5.2: the offer of our 2xx waits for the ACK."""
    network = Network(b"")

    def hook(pair: Pair, name: str, message: Request | Response) -> bool:
        if isinstance(message, Response) and message.cseq == 1 and message.status == 200:
            ask(pair, pair.callee, "UPDATE", OFFER, 800)
        return network(pair, name, message)

    pair = Pair(plan())
    pair.hook = hook
    pair.run()
    assert [answer.status for answer in network.answers if answer.method == "UPDATE"] == [491]
    assert pair.side.events["glare"] == 1


def test_a_contact_that_is_the_request_uri_is_one() -> None:
    """A back-to-back user agent may give what it was asked for."""
    uris: list[str] = []

    def hook(_pair: Pair, _name: str, message: Request | Response) -> bool:
        if is_invite(message):
            assert isinstance(message, Request)
            uris.append(message.uri)
        if isinstance(message, Response) and message.get("contact"):
            message.headers = [
                (name, f"<{uris[0]}>" if name == "contact" else value)
                for name, value in message.headers
            ]
        return True

    pair = Pair(plan())
    pair.hook = hook
    assert pair.run().outcome.wrong == ""
