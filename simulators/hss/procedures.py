"""Cx procedures of the HSS (TS 29.228 §6): request -> answer, step by step in the order of the text.

Every procedure stops at the first error. A subscriber's three identities (temporary, sip, tel) form one
implicit registration set, so the state that TS 29.228 keeps per identity is one state per subscriber, and "a
name stored anywhere in the subscription" is that subscriber's name. In an AKA registration the first UAR is
answered 2001 FIRST_REGISTRATION, the MAR stores the S-CSCF name, and so the second UAR is answered 2002 with
that name.

No I/O and no clock; RAND comes from a random.Random that is handed in.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from diameter.message.avp import Avp

from imsbench.protocol.aka import MacFailure, Milenage, check_auts, generate_vector
from imsbench.subscriber import Population, Subscriber
from simulators.base import VENDOR_3GPP, DiameterMessage
from simulators.codec import BadMessage, Result
from simulators.cx import (
    AKA_SCHEME,
    UNKNOWN_SCHEME,
    Command,
    CxResult,
    LocationInfoRequest,
    MultimediaAuthRequest,
    ServerAssignmentRequest,
    ServerAssignmentType,
    SipAuthDataItem,
    UserAuthorizationRequest,
    UserAuthorizationType,
    UserDataAlreadyAvailable,
    experimental,
)
from simulators.hss.store import Entry, State, Store
from simulators.hss.userdata import FilterCriteria, UserDataWriter

AMF = b"\x80\x00"
"""Authentication management field: the separation bit set, the rest zero (TS 33.102 annex H)."""
MAX_VECTORS = 5
"""Most vectors given in one MAA (TS 29.229 §6.3.8 asks for "at most" the number requested)."""

_SCHEMES = frozenset({AKA_SCHEME.lower(), UNKNOWN_SCHEME.lower()})
"""What is answered with AKA vectors; in small letters, as some S-CSCFs write "unknown"."""
_DEREGISTRATIONS = frozenset(
    {
        ServerAssignmentType.TIMEOUT_DEREGISTRATION,
        ServerAssignmentType.USER_DEREGISTRATION,
        ServerAssignmentType.ADMINISTRATIVE_DEREGISTRATION,
        ServerAssignmentType.DEREGISTRATION_TOO_MUCH_DATA,
    }
)
_STORING_DEREGISTRATIONS = frozenset(
    {
        ServerAssignmentType.TIMEOUT_DEREGISTRATION_STORE_SERVER_NAME,
        ServerAssignmentType.USER_DEREGISTRATION_STORE_SERVER_NAME,
    }
)


class Procedures:
    """The HSS without its sockets."""

    def __init__(
        self,
        population: Population,
        *,
        seed: int = 1,
        filter_criteria: Sequence[FilterCriteria] = (),
        visited_networks: frozenset[bytes] = frozenset(),
        barred: frozenset[int] = frozenset(),
        unregistered_services: bool = False,
        keeps_server_name: bool = True,
    ) -> None:
        self.population = population
        """Who is subscribed."""
        self.store = Store(population.count)
        """What changed about them."""
        self.counters: Counter[str] = Counter()
        """What happened beside the answers, by name."""
        self._random = random.Random(f"hss {seed}")
        self._user_data = UserDataWriter(filter_criteria)
        self._visited_networks = visited_networks  # empty: roaming is allowed everywhere
        self._barred = barred  # subscribers all of whose identities are barred
        self._unregistered_services = unregistered_services
        self._keeps_server_name = keeps_server_name
        self._by_command: dict[int, Callable[[Any], DiameterMessage]] = {
            Command.USER_AUTHORIZATION: self.on_uar,
            Command.MULTIMEDIA_AUTH: self.on_mar,
            Command.SERVER_ASSIGNMENT: self.on_sar,
            Command.LOCATION_INFO: self.on_lir,
        }

    def answer(self, request: DiameterMessage) -> DiameterMessage:
        """Serve any request; BadMessage 3001 for what an HSS does not serve (RTR, PPR)."""
        serve = self._by_command.get(request.code)
        if serve is None:
            raise BadMessage(Result.COMMAND_UNSUPPORTED, f"an HSS serves no {request.name}")
        return serve(request)

    def on_uar(self, request: UserAuthorizationRequest) -> DiameterMessage:
        """User registration status query (TS 29.228 §6.1.1.1)."""
        n, error = self._subscriber(request.user_name, request.public_identity)
        if n is None:
            return _no(request, error)
        if n in self._barred:
            return request.answer(result_code=Result.AUTHORIZATION_REJECTED)
        what = request.user_authorization_type or UserAuthorizationType.REGISTRATION
        if what is UserAuthorizationType.REGISTRATION_AND_CAPABILITIES:
            return request.answer(result_code=Result.SUCCESS)
        entry = self.store.get(n)
        if what is UserAuthorizationType.DE_REGISTRATION:
            # A pending authentication counts as registered: the text's "Experimental-Result-Code set to
            # DIAMETER_SUCCESS" is read as Result-Code, there is no such experimental code.
            if entry.state is State.NOT_REGISTERED and not entry.pending:
                return _no(request, CxResult.IDENTITY_NOT_REGISTERED)
            return request.answer(result_code=Result.SUCCESS, server_name=entry.server_name or None)
        visited = request.visited_network_identifier
        if self._visited_networks and visited not in self._visited_networks:
            return _no(request, CxResult.ROAMING_NOT_ALLOWED)
        if entry.state is not State.NOT_REGISTERED or entry.server_name:
            result = experimental(CxResult.SUBSEQUENT_REGISTRATION)
            return request.answer(experimental_result=result, server_name=entry.server_name or None)
        return _no(request, CxResult.FIRST_REGISTRATION)

    def on_mar(self, request: MultimediaAuthRequest) -> DiameterMessage:
        """Authentication (TS 29.228 §6.3.1)."""
        n, error = self._subscriber(request.user_name, request.public_identity)
        if n is None:
            return _no(request, error)
        asked = request.sip_auth_data_item
        assert asked is not None  # required: the decoder saw to it
        if (asked.sip_authentication_scheme or "").lower() not in _SCHEMES:
            return self._refuse_scheme(request, asked.sip_authentication_scheme)
        if not request.sip_number_auth_items:
            raise _bad_value("no vectors asked for", 607, bytes(4))
        subscriber = self.population.subscriber(n)
        milenage = _milenage(subscriber)
        entry, name = self.store.get(n), request.server_name or ""
        if asked.sip_authorization is not None:
            if entry.server_name != name:
                # only the S-CSCF that sent the challenge may report its failure
                return request.answer(result_code=Result.UNABLE_TO_COMPLY)
            if not self._resynchronise(n, milenage, asked.sip_authorization):
                return request.answer(result_code=Result.UNABLE_TO_COMPLY)
        elif entry.state is not State.REGISTERED or entry.server_name != name:
            self.store.change(n, server_name=name, pending=True)
        items = self._vectors(n, milenage, min(request.sip_number_auth_items, MAX_VECTORS))
        return request.answer(
            result_code=Result.SUCCESS,
            user_name=request.user_name,
            public_identity=request.public_identity,
            sip_number_auth_items=len(items),
            sip_auth_data_item=items,
        )

    def on_sar(self, request: ServerAssignmentRequest) -> DiameterMessage:
        """S-CSCF registration and de-registration (TS 29.228 §6.1.2.1)."""
        what = request.server_assignment_type
        assert what is not None  # required: the decoder saw to it
        ends = what in _DEREGISTRATIONS or what in _STORING_DEREGISTRATIONS
        n, error = self._subscription(request, many=ends)
        if n is None:
            return _no(request, error)
        identities = request.public_identity
        if len(identities) > 1 and not ends:
            extra = Avp(601, VENDOR_3GPP, identities[1].encode(), 0xC0)
            text = f"several identities with {what.name}"
            raise BadMessage(Result.AVP_OCCURS_TOO_MANY_TIMES, text, extra)
        if ends:
            return self._deregister(n, request, keep=what in _STORING_DEREGISTRATIONS)
        entry, name = self.store.get(n), request.server_name or ""
        if what in (
            ServerAssignmentType.AUTHENTICATION_FAILURE,
            ServerAssignmentType.AUTHENTICATION_TIMEOUT,
        ):
            forget = "" if entry.state is State.NOT_REGISTERED else None
            self.store.change(n, pending=False, server_name=forget)
            return self._yes(n, request)
        if what is ServerAssignmentType.NO_ASSIGNMENT:
            if entry.server_name != name:
                return request.answer(result_code=Result.UNABLE_TO_COMPLY)
            return self._yes(n, request, profile=True)
        return self._assign(n, request, entry, name)

    def on_lir(self, request: LocationInfoRequest) -> DiameterMessage:
        """Location query (TS 29.228 §6.1.4.1)."""
        n = self._number_of_impu(request.public_identity)
        if n is None:
            return _no(request, CxResult.USER_UNKNOWN)
        entry = self.store.get(n)
        may_be_served = self._unregistered_services or request.originating_request is not None
        if entry.state is State.NOT_REGISTERED and not may_be_served:
            return _no(request, CxResult.IDENTITY_NOT_REGISTERED)
        if entry.server_name:
            return request.answer(result_code=Result.SUCCESS, server_name=entry.server_name)
        return _no(request, CxResult.UNREGISTERED_SERVICE)

    def user_data(self, n: int) -> bytes:
        """The User-Data of a subscriber (TS 29.228 annex E)."""
        return self._user_data.serialize(self.population.subscriber(n))

    # --- who --------------------------------------------------------------------------------------

    def _subscriber(self, impi: str | None, impu: str | None) -> tuple[int | None, CxResult]:
        """The subscriber of a pair of identities; None and why not."""
        private, public = self._number_of_impi(impi), self._number_of_impu(impu)
        if private is None or public is None:
            return None, CxResult.USER_UNKNOWN
        if private != public:
            return None, CxResult.IDENTITIES_DONT_MATCH
        return private, CxResult.USER_UNKNOWN

    def _subscription(
        self, request: ServerAssignmentRequest, *, many: bool
    ) -> tuple[int | None, CxResult]:
        """The subscriber of a SAR: User-Name, identities, or both, that belong together."""
        if not request.public_identity and not (many and request.user_name):
            raise _missing("Public-Identity", 601, VENDOR_3GPP)
        numbers = [self._number_of_impu(one) for one in request.public_identity]
        if request.user_name is not None:
            numbers.append(self._number_of_impi(request.user_name))
        if None in numbers:
            return None, CxResult.USER_UNKNOWN
        if len(set(numbers)) > 1:
            return None, CxResult.IDENTITIES_DONT_MATCH
        return numbers[0], CxResult.USER_UNKNOWN

    def _number_of_impi(self, impi: str | None) -> int | None:
        if not impi or ":" in impi or impi.startswith("+"):
            return None
        return self.population.number_of(impi)

    def _number_of_impu(self, impu: str | None) -> int | None:
        if not impu or ":" not in impu:
            return None
        return self.population.number_of(impu)

    # --- what ---------------------------------------------------------------------------------------

    def _refuse_scheme(self, request: MultimediaAuthRequest, scheme: str | None) -> DiameterMessage:
        """A scheme that needs a password: AKA keys are no passwords, so it is said and counted."""
        self.counters["schemes_refused"] += 1
        return request.answer(
            experimental_result=experimental(CxResult.AUTH_SCHEME_NOT_SUPPORTED),
            error_message=f"no {scheme!r}: these subscribers have AKA keys, ask for {AKA_SCHEME}",
        )

    def _resynchronise(self, n: int, milenage: Milenage, authorization: bytes) -> bool:
        """SQN_HE = SQN_MS, if AUTS is the phone's own (TS 33.102 §6.3.5)."""
        # TS 29.229 §6.3.11: RAND and AUTS, one after the other
        if len(authorization) != 30:
            text = f"RAND and AUTS are 30 octets, not {len(authorization)}"
            raise _bad_value(text, 610, authorization)
        try:
            sqn = check_auts(milenage, authorization[:16], authorization[16:])
        except MacFailure:
            self.counters["resynchronisations_refused"] += 1
            return False
        self.store.set_sqn(n, sqn)
        self.counters["resynchronisations"] += 1
        return True

    def _vectors(self, n: int, milenage: Milenage, count: int) -> list[SipAuthDataItem]:
        """Fresh vectors, lowest item number first (TS 29.229 §6.3.13)."""
        items = []
        for number in range(1, count + 1):
            rand = self._random.randbytes(16)
            vector = generate_vector(milenage, rand, self.store.next_sqn(n), AMF)
            items.append(
                SipAuthDataItem(
                    sip_item_number=number,
                    sip_authentication_scheme=AKA_SCHEME,
                    sip_authenticate=vector.rand + vector.autn,
                    sip_authorization=vector.xres,
                    confidentiality_key=vector.ck,
                    integrity_key=vector.ik,
                )
            )
        return items

    def _assign(
        self, n: int, request: ServerAssignmentRequest, entry: Entry, name: str
    ) -> DiameterMessage:
        """REGISTRATION, RE_REGISTRATION, UNREGISTERED_USER: the S-CSCF takes the subscriber."""
        if entry.server_name and entry.server_name != name:
            result = experimental(CxResult.IDENTITY_ALREADY_REGISTERED)
            return request.answer(experimental_result=result, server_name=entry.server_name)
        unregistered = request.server_assignment_type is ServerAssignmentType.UNREGISTERED_USER
        self.store.change(
            n,
            state=State.UNREGISTERED if unregistered else State.REGISTERED,
            server_name=name,
            pending=False,
            scscf_host=request.origin_host,
            scscf_realm=request.origin_realm,
        )
        has_it = request.user_data_already_available
        profile = has_it != UserDataAlreadyAvailable.USER_DATA_ALREADY_AVAILABLE
        return self._yes(n, request, profile=profile)

    def _deregister(
        self, n: int, request: ServerAssignmentRequest, *, keep: bool
    ) -> DiameterMessage:
        if keep and self._keeps_server_name:
            self.store.change(n, state=State.UNREGISTERED, pending=False)
            return self._yes(n, request)
        self.store.change(n, state=State.NOT_REGISTERED, server_name="", pending=False)
        if keep:
            return _no(request, CxResult.SUCCESS_SERVER_NAME_NOT_STORED)
        return self._yes(n, request)

    def _yes(
        self, n: int, request: ServerAssignmentRequest, *, profile: bool = False
    ) -> DiameterMessage:
        subscriber = self.population.subscriber(n)
        return request.answer(
            result_code=Result.SUCCESS,
            user_name=subscriber.impi,
            user_data=self._user_data.serialize(subscriber) if profile else None,
        )


def _milenage(subscriber: Subscriber) -> Milenage:
    return Milenage(subscriber.k, opc=subscriber.opc, op=subscriber.op)


def _no(request: DiameterMessage, result: CxResult) -> DiameterMessage:
    """An answer that is an Experimental-Result and nothing else."""
    return request.answer(experimental_result=experimental(result))


def _bad_value(text: str, code: int, payload: bytes) -> BadMessage:
    failed = Avp(code, VENDOR_3GPP, payload, 0xC0)
    return BadMessage(Result.INVALID_AVP_VALUE, text, failed)


def _missing(name: str, code: int, vendor: int) -> BadMessage:
    return BadMessage(Result.MISSING_AVP, f"{name} is missing", Avp(code, vendor, b"", 0xC0))
