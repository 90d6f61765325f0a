"""Rx: what a PCRF is sent through its door, and what it answers and reports to the P-CSCF."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, cast

from imsbench.distribution import Distribution
from simulators.base import CapabilitiesExchangeAnswer, VendorSpecificApplicationId
from simulators.core.calls import Call, Leg, Negotiated
from simulators.core.phones import Phone
from simulators.core.policy import RxPolicy
from simulators.core.sessions import PolicyFailure
from simulators.core.settings import CoreSettings
from simulators.pcrf import PcrfNode
from simulators.pcrf.procedures import Procedures
from simulators.rx import (
    APPLICATION_RX,
    AbortSessionRequest,
    Flows,
    FlowStatus,
    MediaComponentDescription,
    ReAuthRequest,
    RxResult,
    experimental,
)
from tests.fuzz.harness import Target
from tests.fuzz.reshape import reshape_behind_first, reshape_diameter
from tests.fuzz.targets.doors import (
    answered,
    as_answer,
    connected,
    kind_of,
    messages_of,
    no_defect,
    reframed,
    target_of,
)
from tests.fuzz.targets.loop import turns
from tests.simulators.diameter_helpers import cer
from tests.simulators.rx_helpers import ACCESS, ALLOCATED, LOSS, RELEASE, aar, audio, signalling
from tests.simulators.rx_helpers import termination as str_of

if TYPE_CHECKING:
    from simulators.core.pcscf import Pcscf
    from simulators.core.proxy import Transaction

_MOST_SESSIONS = 64
_APPLICATION = VendorSpecificApplicationId(vendor_id=10415, auth_application_id=APPLICATION_RX)
_CEA = CapabilitiesExchangeAnswer(
    result_code=2001, origin_host=b"pcrf", origin_realm=b"home", host_ip_address=["127.0.0.1"],
    vendor_id=0, product_name="pcrf", vendor_specific_application_id=[_APPLICATION],
)  # fmt: skip
_SESSION = "pcscf;1;1"
_SDP = (
    b"v=0\r\no=- 1 1 IN IP4 198.18.0.%d\r\ns=-\r\nc=IN IP4 198.18.0.%d\r\nt=0 0\r\n"
    b"m=audio 50000 RTP/AVP 116\r\nb=AS:41\r\na=rtpmap:116 AMR-WB/16000/1\r\n"
    b"m=video 50002 RTP/AVP 99\r\nb=AS:300\r\na=rtpmap:99 H264/90000\r\n"
)


async def _pcrf(data: bytes) -> Hashable:
    """Messages of an AF, its bearers set up at once."""
    node = PcrfNode(origin_host="pcrf", origin_realm="home", bearer_setup=Distribution())
    connection, transport = connected(node.peer, initiator=False)
    connection.data_received(cer(vendor_specific_application_id=[_APPLICATION]).as_bytes())
    connection.data_received(reframed(data))
    await turns(2)
    transport.closed = True
    connection.connection_lost(None)
    await turns(1)
    kinds = tuple(kind_of(answer) for answer in messages_of(transport)[1:4])
    no_defect(node.peer)
    procedures = node.procedures
    assert len(node.peer.counters) + len(procedures.wrong) < 60
    assert len(procedures.sessions) <= _MOST_SESSIONS
    assert 0 <= procedures.sessions.media <= len(procedures.sessions)
    return kinds, len(procedures.sessions), transport.closed


async def _rx(data: bytes) -> Hashable:
    """The first octet: whether a call's media or a phone's signalling were asked for."""
    settings = CoreSettings(
        ("127.0.0.1", 5060), "home", pcrf=("127.0.0.1", 3868), rx_wait_for_bearer=True
    )
    counters: Counter[str] = Counter()
    policy = RxPolicy(settings, counters)
    policy.peer.new_session_id = lambda: _SESSION  # type: ignore[method-assign]  # that of the seeds
    lost: list[str] = []
    policy.on_lost = lambda _call, why: lost.append(why)
    connection, transport = connected(policy.peer, initiator=True)
    connection.data_received(answered(messages_of(transport)[0], _CEA))
    await turns(1)
    assert connection.is_open
    of_call = bool(data and data[0] & 1)
    task = asyncio.ensure_future(_ask(policy, of_call=of_call))
    await turns(2)
    question = messages_of(transport)[-1]
    connection.data_received(as_answer(question, reframed(data[1:])))
    await turns(4)
    result = "waits"
    if not task.done():
        task.cancel()
    await asyncio.wait((task,))
    if not task.cancelled():
        error = task.exception()
        if error is not None and not isinstance(error, PolicyFailure):
            raise error
        result = str(error)[:20] if error is not None else "authorized"
    transport.closed = True
    connection.connection_lost(None)
    await turns(1)
    no_defect(policy.peer)
    assert len(counters) < 60
    assert policy.count <= 1
    return of_call, result, len(lost), tuple(kind_of(one) for one in messages_of(transport)[2:5])


async def _ask(policy: RxPolicy, *, of_call: bool) -> None:
    phone = Phone(cast("Pcscf", None), "001010000000001@home")
    phone.address = "198.18.0.1"
    phone.associated = ("sip:+15550000001@home", "tel:+15550000001")
    if of_call:
        leg = Leg("caller", phone)
        call = Call("c", "t", cast("Transaction", None), leg)
        await policy.authorize(call, Negotiated(leg, _SDP % (1, 1), _SDP % (2, 2)))
    else:
        policy.registered(phone)
        await turns(4)
        policy.deregistered(phone)


def _pcrf_seeds() -> list[bytes]:
    video = audio(2)
    wanted = [LOSS, RELEASE, ALLOCATED, ACCESS]
    gone = MediaComponentDescription(1, flow_status=FlowStatus.REMOVED)
    made = [
        aar(),
        aar(signalling(), session_id="registration"),
        aar(audio(), video, specific_action=wanted, session_id="two"),
        aar(gone, audio(3), session_id="two"),
        str_of("two"),
        str_of("unknown"),
        str_of("registration"),
    ]
    every = [request.as_bytes() for request in made]
    return [*every, b"".join(every[:4]), b"".join(every)]


def _rx_seeds() -> list[bytes]:
    """What the PCRF answers to the P-CSCF, and what it reports."""
    common: dict[str, Any] = {
        "session_id": _SESSION, "origin_host": b"pcrf", "origin_realm": b"home",
        "destination_host": b"pcscf.home", "destination_realm": b"home",
    }  # fmt: skip
    question = aar(session_id=_SESSION)
    accepted = Procedures(1).answer(question)
    refused = question.answer(
        experimental_result=experimental(RxResult.REQUESTED_SERVICE_NOT_AUTHORIZED)
    )
    for answer in (accepted, refused):
        answer.origin_host, answer.origin_realm = b"pcrf", b"home"
    reports = [
        ReAuthRequest(specific_action=[ALLOCATED], flows=[Flows(1, [1, 2])], **common),
        ReAuthRequest(specific_action=[ACCESS], **common),
        ReAuthRequest(specific_action=[RELEASE], abort_cause=0, **common),
        ReAuthRequest(specific_action=[9], flows=[Flows(2)], **common),
        AbortSessionRequest(abort_cause=0, **common),
    ]
    yes, no = accepted.as_bytes(), refused.as_bytes()
    told = [report.as_bytes() for report in reports]
    made = [b"\0" + yes, b"\1" + no, b"\1" + yes + told[0], b"\1" + yes + told[1]]
    made += [b"\1" + yes + told[0] + told[3], b"\0" + yes + told[2]]
    return [*made, b"\1" + told[4] + yes, b"\1" + yes + b"".join(told)]


_WORDS = (
    b"\0\0\x01\x07\x40\0\0\x11pcscf;1;1\0\0\0", b"\0\0\x02\x01\xc0\0\0\x10\0\0\x28\xaf",
    b"\0\0\x01\x0c\x40\0\0\x0c\0\0\x07\xd1", b"\0\0\x02\x05", b"\0\0\x02\x07", b"\0\0\x28\xaf",
    b"permit out 17 from 198.18.0.2 4000 to 198.18.0.1 5000", b"\0\0\x01\xff\xc0\0\0\x10",
)  # fmt: skip

TARGETS = [
    Target(
        "pcrf", "Diameter messages through the PCRF's door", target_of(_pcrf), _pcrf_seeds, _WORDS,
        reshape=reshape_diameter,
    ),
    Target(
        "rx", "Diameter answers and reports at the P-CSCF", target_of(_rx), _rx_seeds, _WORDS,
        reshape=reshape_behind_first,
    ),
]  # fmt: skip
