"""Rx procedures of the PCRF (TS 29.214): AAR opens or changes an AF session, STR ends it.

The simulator has no bearers of its own: whatever can be read is authorised, for a phone at any address.
What is wrong with a message is counted by name in ``wrong``, whether it was refused for it or not.

No I/O and no clock. A request that is refused changes nothing.
"""

from __future__ import annotations

from collections import Counter

from diameter.message.avp import Avp

from simulators.base import FLAG_RETRANSMIT, DiameterMessage
from simulators.codec import BadMessage, Result
from simulators.ipfilter import Network
from simulators.pcrf.media import Change, ServiceInfoError, merge
from simulators.pcrf.sessions import Report, Session, Sessions
from simulators.rx import (
    APPLICATION_RX,
    IP_CAN_3GPP_EPS,
    RAT_EUTRAN,
    AaRequest,
    RxRequestType,
    RxResult,
    SessionTerminationRequest,
    SpecificAction,
    experimental,
    read_framed,
)

AFTER_BEARER_SETUP = frozenset(
    {
        SpecificAction.INDICATION_OF_SUCCESSFUL_RESOURCES_ALLOCATION,
        SpecificAction.ACCESS_NETWORK_INFO_REPORT,
    }
)
"""What a RAR reports once the bearer of new media stands, if subscribed."""

_KNOWN_ACTIONS = frozenset(range(1, 22)) - {5}  # 0 and 5 are void


class Procedures:
    """The PCRF without its sockets."""

    def __init__(self, seed: int = 1) -> None:
        self.sessions = Sessions(seed)
        """What it holds."""
        self.counters: Counter[str] = Counter()
        """What happened beside the answers, by name."""
        self.wrong: Counter[str] = Counter()
        """What was wrong with requests, by name."""

    def answer(self, request: DiameterMessage) -> DiameterMessage:
        """Serve any request; BadMessage 3001 for what a PCRF does not serve (RAR, ASR)."""
        if isinstance(request, AaRequest):
            return self.on_aar(request)
        if isinstance(request, SessionTerminationRequest):
            return self.on_str(request)
        raise BadMessage(Result.COMMAND_UNSUPPORTED, f"a PCRF serves no {request.name}")

    def on_aar(self, request: AaRequest) -> DiameterMessage:
        """Open a session, or change the one of this Session-Id."""
        session = self.sessions.get(request.session_id)
        asked = request.header
        if (
            session is not None
            and asked.command_flags & FLAG_RETRANSMIT
            and session.last_request == asked.end_to_end_identifier
        ):
            # RFC 6733 §5.5.4: sent again after a fail-over, served once
            self.counters["retransmissions"] += 1
            return _authorised(request)
        self._note_general(request)
        if session is None:
            if request.rx_request_type is RxRequestType.UPDATE_REQUEST:
                self.wrong["update_of_unknown_session"] += 1
                return request.answer(result_code=Result.UNKNOWN_SESSION_ID)
            return self._open(request)
        if request.rx_request_type is RxRequestType.INITIAL_REQUEST:
            self.wrong["initial_of_known_session"] += 1
            return _refused(request, RxResult.DUPLICATED_AF_SESSION)
        return self._update(request, session)

    def on_str(self, request: SessionTerminationRequest) -> DiameterMessage:
        """End a session."""
        session = self.sessions.end(request.session_id)
        if session is None:
            self.wrong["str_of_unknown_session"] += 1
            return request.answer(result_code=Result.UNKNOWN_SESSION_ID)
        self._note_general(request)
        self.counters[f"ended_by_cause_{request.termination_cause}"] += 1
        return request.answer(result_code=Result.SUCCESS)

    # --- AAR --------------------------------------------------------------------------------------------

    def _open(self, request: AaRequest) -> DiameterMessage:
        """A new session: it says whose it is and where that phone is."""
        phone = self._phone(request)
        restoration = request.rx_request_type is RxRequestType.PCSCF_RESTORATION
        if phone is None and not (restoration and request.subscription_id):
            self.wrong["address_missing"] += 1
            failed = Avp(8, 0, bytes(4), 0x40)
            raise BadMessage(Result.MISSING_AVP, "no Framed-IP-Address nor -IPv6-Prefix", failed)
        if not request.subscription_id:
            self.wrong["subscription_id_missing"] += 1
        if not request.media_component_description and not restoration:
            self.wrong["media_missing"] += 1
        session = Session(
            id=request.session_id or "",
            af_host=request.origin_host or b"",
            af_realm=request.origin_realm or b"",
            phone=phone,
        )
        return self._provision(request, session)

    def _update(self, request: AaRequest, session: Session) -> DiameterMessage:
        """A known session: what the request leaves out stays."""
        if request.origin_host != session.af_host:
            self.wrong["session_of_another_af"] += 1
        phone = self._phone(request)
        if phone is not None and session.phone is not None and phone != session.phone:
            self.wrong["address_changed"] += 1
        return self._provision(request, session)

    def _provision(self, request: AaRequest, session: Session) -> DiameterMessage:
        """Check the media; only then anything changes."""
        try:
            change = merge(
                session.components, request.media_component_description, session.phone, self.wrong
            )
        except ServiceInfoError as error:
            self.wrong[error.name] += 1
            return _refused(request, error.result, str(error))
        session.af_host = request.origin_host or b""
        session.af_realm = request.origin_realm or b""
        session.last_request = request.header.end_to_end_identifier
        if request.specific_action:
            session.actions = frozenset(request.specific_action)
        if request.subscription_id:
            session.subscriptions = tuple(
                (one.subscription_id_type, one.subscription_id_data or "")
                for one in request.subscription_id
            )
        self.sessions.keep(session, change.components)
        self._schedule_report(session, change)
        return _authorised(request)

    def _schedule_report(self, session: Session, change: Change) -> None:
        """New media get a bearer; who subscribed to it is told when it stands."""
        actions = tuple(sorted(session.actions & AFTER_BEARER_SETUP))
        if actions and change.installed:
            session.reports[session.last_request] = Report(actions, change.installed)

    def _phone(self, request: AaRequest) -> Network | None:
        try:
            return read_framed(request.framed_ip_address, request.framed_ipv6_prefix)
        except ValueError as error:
            self.wrong["address_malformed"] += 1
            if request.framed_ip_address is not None:
                failed = Avp(8, 0, request.framed_ip_address, 0x40)
            else:
                failed = Avp(97, 0, request.framed_ipv6_prefix or b"", 0x40)
            raise BadMessage(Result.INVALID_AVP_VALUE, str(error), failed) from None

    def _note_general(self, request: AaRequest | SessionTerminationRequest) -> None:
        """What an AF should not send, and nobody is hurt by."""
        if request.auth_application_id != APPLICATION_RX:
            self.wrong["application_id_differs"] += 1
        if isinstance(request, AaRequest) and not _KNOWN_ACTIONS.issuperset(
            request.specific_action
        ):
            self.wrong["specific_action_void"] += 1


def _authorised(request: AaRequest) -> DiameterMessage:
    return request.answer(
        result_code=Result.SUCCESS, ip_can_type=IP_CAN_3GPP_EPS, rat_type=RAT_EUTRAN
    )


def _refused(request: AaRequest, result: RxResult, text: str | None = None) -> DiameterMessage:
    return request.answer(experimental_result=experimental(result), error_message=text)
