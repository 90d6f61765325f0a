"""Diameter: what an HSS is sent through its door, and what it answers to the S-CSCF."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Any

from imsbench.subscriber import Population
from simulators.base import (
    CapabilitiesExchangeAnswer,
    DeviceWatchdogRequest,
    DiameterMessage,
    DisconnectCause,
    DisconnectPeerRequest,
    VendorSpecificApplicationId,
)
from simulators.core.cxclient import CxFailure
from simulators.core.hssclient import HssClient
from simulators.core.settings import CoreSettings
from simulators.cx import (
    AKA_SCHEME,
    DeregistrationReason,
    LocationInfoRequest,
    MultimediaAuthRequest,
    PushProfileRequest,
    ReasonCode,
    RegistrationTerminationRequest,
    ServerAssignmentRequest,
    ServerAssignmentType,
    SipAuthDataItem,
    UserAuthorizationRequest,
    UserAuthorizationType,
    UserDataAlreadyAvailable,
)
from simulators.hss.node import HssNode
from simulators.hss.procedures import Procedures
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
from tests.simulators.core_helpers import user_data_of
from tests.simulators.diameter_helpers import cer

_POPULATION = Population(10)
_DOMAIN = _POPULATION.home_domain
_ONE = _POPULATION.subscriber(0)
_IDENTITY: dict[str, Any] = {
    "session_id": "scscf;1;2", "origin_host": b"scscf", "origin_realm": b"home",
    "destination_realm": b"home", "user_name": _ONE.impi,
}  # fmt: skip


async def _hss(data: bytes) -> Hashable:
    procedures = Procedures(_POPULATION)
    node = HssNode(procedures, origin_host="hss", origin_realm="home")
    connection, transport = connected(node.peer, initiator=False)
    connection.data_received(cer().as_bytes())
    connection.data_received(reframed(data))
    await turns(1)
    transport.closed = True
    connection.connection_lost(None)
    kinds = tuple(kind_of(answer) for answer in messages_of(transport)[1:4])
    no_defect(node.peer)
    assert len(node.peer.counters) < 40
    assert len(procedures.store) <= _POPULATION.count
    return kinds, transport.closed


async def _cx(data: bytes) -> Hashable:
    """Two bits of the first octet: which question the input is the answer to."""
    client = HssClient(CoreSettings(("127.0.0.1", 5060), _DOMAIN))
    told: list[object] = []
    client.on_rtr = lambda impi, impus, reason: told.append((impi, len(impus), reason.name))

    def on_ppr(impi: str, user_data: bytes) -> bool:
        told.append((impi, len(user_data)))
        return bool(user_data)

    client.on_ppr = on_ppr
    connection, transport = connected(client.peer, initiator=True)
    asked = messages_of(transport)[0]
    connection.data_received(answered(asked, _CEA))
    await turns(1)
    assert connection.is_open
    choice = data[0] if data else 0
    task = asyncio.ensure_future(_QUESTIONS[choice & 3](client))
    await turns(2)
    question = messages_of(transport)[-1]
    connection.data_received(as_answer(question, reframed(data[1:])))
    await turns(3)
    result = "silence"
    if not task.done():
        task.cancel()
    await asyncio.wait((task,))
    if not task.cancelled():
        error = task.exception()
        if error is not None and not isinstance(error, CxFailure):
            raise error
        result = error.cause if isinstance(error, CxFailure) else "answered"
    transport.closed = True
    connection.connection_lost(None)
    no_defect(client.peer)
    return choice & 3, result, len(told)


_QUESTIONS: tuple[Callable[[HssClient], Awaitable[object]], ...] = (
    lambda client: client.user_authorization(
        _ONE.impi, _ONE.impu_sip, UserAuthorizationType.REGISTRATION
    ),
    lambda client: client.multimedia_auth(_ONE.impi, _ONE.impu_sip, "sip:scscf"),
    lambda client: client.server_assignment(
        _ONE.impi, [_ONE.impu_sip], "sip:scscf", ServerAssignmentType.REGISTRATION
    ),
    lambda client: client.multimedia_auth(_ONE.impi, _ONE.impu_sip, "sip:scscf", bytes(30)),
)


def _cea() -> DiameterMessage:
    application = VendorSpecificApplicationId(vendor_id=10415, auth_application_id=16777216)
    return CapabilitiesExchangeAnswer(
        result_code=2001, origin_host=b"hss", origin_realm=b"home", host_ip_address=["127.0.0.1"],
        vendor_id=0, product_name="hss", vendor_specific_application_id=[application],
    )  # fmt: skip


_CEA = _cea()


def _requests() -> list[DiameterMessage]:
    impu = _ONE.impu_temporary
    mar: dict[str, Any] = {
        "public_identity": impu, "sip_number_auth_items": 1, "server_name": "sip:scscf",
    }  # fmt: skip
    sar = ServerAssignmentRequest(
        public_identity=[impu], server_name="sip:scscf", server_assignment_type=ServerAssignmentType(1),
        user_data_already_available=UserDataAlreadyAvailable(0), **_IDENTITY,
    )  # fmt: skip
    end = ServerAssignmentRequest(
        public_identity=list(_ONE.impus), server_name="sip:scscf",
        server_assignment_type=ServerAssignmentType.USER_DEREGISTRATION,
        user_data_already_available=UserDataAlreadyAvailable(1), **_IDENTITY,
    )  # fmt: skip
    return [
        UserAuthorizationRequest(
            public_identity=impu, visited_network_identifier=b"home",
            user_authorization_type=UserAuthorizationType(0), **_IDENTITY,
        ),
        MultimediaAuthRequest(
            sip_auth_data_item=SipAuthDataItem(sip_authentication_scheme=AKA_SCHEME), **mar, **_IDENTITY
        ),
        sar,
        MultimediaAuthRequest(
            sip_auth_data_item=SipAuthDataItem(
                sip_authentication_scheme=AKA_SCHEME, sip_authorization=bytes(30)
            ), **mar, **_IDENTITY,
        ),
        LocationInfoRequest(
            public_identity=impu, **{k: v for k, v in _IDENTITY.items() if k != "user_name"}
        ),
        end,
        DeviceWatchdogRequest(origin_host=b"scscf", origin_realm=b"home"),
        cer(),
        DisconnectPeerRequest(
            origin_host=b"scscf", origin_realm=b"home", disconnect_cause=DisconnectCause.BUSY
        ),
    ]  # fmt: skip


def _hss_seeds() -> list[bytes]:
    every = [request.as_bytes() for request in _requests()]
    return [*every, b"".join(every[:6]), b"".join(every)]


def _cx_seeds() -> list[bytes]:
    """What the HSS answers to the S-CSCF, and what it asks it."""
    made = []
    procedures = Procedures(_POPULATION)
    for request in _requests()[:4]:
        answer = procedures.answer(request)
        answer.origin_host, answer.origin_realm = b"hss", b"home"
        choice = {300: 0, 303: 1, 301: 2}[request.code]
        made.append(bytes([choice]) + answer.as_bytes())
    rtr = RegistrationTerminationRequest(
        public_identity=list(_ONE.impus),
        deregistration_reason=DeregistrationReason(reason_code=ReasonCode(0)), **_IDENTITY,
    )  # fmt: skip
    ppr = PushProfileRequest(user_data=user_data_of(_ONE), **_IDENTITY)
    made.append(b"\0" + rtr.as_bytes() + made[0][1:])
    made.append(b"\1" + ppr.as_bytes() + made[1][1:])
    return made


_WORDS = (
    b"\0\0\x01\x07\x40\0\0\x08", b"\0\0\x02\x59\xc0\0\0\x0c\0\0\x28\xaf", b"\0\0\x01\x17\x40\0\0\x08",
    b"\0\0\x01\x0c\x40\0\0\x0c\0\0\x07\xd1", b"\0\0\x28\xaf", b"\x01\0\0\x14", b"\0\0\x02\x64",
)  # fmt: skip

TARGETS = [
    Target(
        "hss", "Diameter messages through the HSS's door", target_of(_hss), _hss_seeds, _WORDS,
        reshape=reshape_diameter,
    ),
    Target(
        "cx", "Diameter answers and requests at the S-CSCF", target_of(_cx), _cx_seeds, _WORDS,
        reshape=reshape_behind_first,
    ),
]  # fmt: skip
