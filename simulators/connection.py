"""One Diameter connection over TCP: capabilities, watchdog, requests out, requests in (see peer.py)."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from diameter.message import MessageHeader

from simulators.base import (
    BASE,
    FLAG_ERROR,
    VENDOR_3GPP,
    VENDOR_ETSI,
    Capabilities,
    CapabilitiesExchangeAnswer,
    CapabilitiesExchangeRequest,
    DeviceWatchdogRequest,
    DiameterMessage,
    DisconnectCause,
    DisconnectPeerRequest,
    ErrorAnswer,
    VendorSpecificApplicationId,
    decode,
    refusal,
)
from simulators.codec import BadMessage, EncodeError, Result, session_id_of
from simulators.framing import MessageReader, parse_header
from simulators.watchdog import Verdict, Watchdog

if TYPE_CHECKING:
    from simulators.peer import Peer

MAX_UNSENT = 16 << 20
"""Octets a peer may leave unread before its connection is closed."""
DISCONNECT_S = 1.0
"""How long a DPR waits for its DPA."""

log = logging.getLogger(__name__)


class PeerError(Exception):
    """A request did not get an answer that can be used."""


class NoConnection(PeerError):
    """There is no open connection, or it was lost while the answer was awaited."""


class AnswerTimeout(PeerError):
    """No answer came in time."""


class BadAnswer(PeerError):
    """An answer came that cannot be read."""


class Connection(asyncio.Protocol):
    """One transport connection between two Diameter peers."""

    def __init__(self, peer: Peer, *, initiator: bool) -> None:
        loop = asyncio.get_running_loop()
        self.peer = peer
        """The node this connection belongs to."""
        self.initiator = initiator
        """Whether we connected, and so send the CER."""
        self.remote_host: bytes | None = None
        """Origin-Host of the other side, once capabilities are exchanged."""
        self.remote_realm: bytes | None = None
        """Its Origin-Realm."""
        self.relays = False
        """Whether it passes on what is for others (RFC 6733 §2.8.1)."""
        self.opened: asyncio.Future[None] = loop.create_future()
        """Done when capabilities are exchanged; NoConnection if they cannot be."""
        self.ended: asyncio.Future[None] = loop.create_future()
        """Done when the transport is closed."""
        self.opened.add_done_callback(_retrieve)
        self._loop = loop
        self._reader = MessageReader()
        self._transport: asyncio.Transport | None = None
        self._pending: dict[int, tuple[DiameterMessage, asyncio.Future[DiameterMessage]]] = {}
        self._hop_by_hop = peer.random.getrandbits(32)
        self._read_at = 0.0
        self._watchdog = Watchdog(peer.watchdog_s, peer.random, time.perf_counter())
        self._leaving = False
        self._timer: asyncio.TimerHandle | None = None

    # --- asyncio.Protocol -----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """TCP is up: the initiator opens with a CER (RFC 6733 §5.3)."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.peer.add(self)
        self._arm(self.peer.watchdog_s)
        if self.initiator:
            message = CapabilitiesExchangeRequest(**self._capabilities())
            self._send_request(message).add_done_callback(self._on_cea)

    def data_received(self, data: bytes) -> None:
        """Octets came: whatever goes wrong with one message, the next one is served."""
        self._read_at = time.perf_counter()
        self._watchdog.heard(self._read_at)
        for message in self._reader.feed(data):
            if self._transport is None or self._transport.is_closing():
                return
            self._on_message(message)
        if self._reader.lost:
            self._fail("framing_errors", self._reader.lost)

    def connection_lost(self, exc: Exception | None) -> None:
        """The transport is gone: everything that waits is told."""
        self._transport = None
        if self._timer is not None:
            self._timer.cancel()
        self.peer.closed(self)
        lost = NoConnection(f"Diameter connection lost: {exc or 'closed by the other side'}")
        for _, future in self._pending.values():
            if not future.done():
                future.set_exception(lost)
        self._pending.clear()
        if not self.opened.done():
            self.opened.set_exception(lost)
        if not self.ended.done():
            self.ended.set_result(None)

    @property
    def suspect(self) -> bool:
        """Whether a watchdog went unanswered (RFC 3539 §3.4.1)."""
        return self._watchdog.suspect

    # --- requests of ours -----------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether capabilities are exchanged and requests may be sent."""
        return self._transport is not None and self.remote_host is not None and not self._leaving

    async def request(self, message: DiameterMessage, timeout_s: float = 5.0) -> DiameterMessage:
        """As Peer.request, on this connection."""
        if not self.is_open:
            raise NoConnection(f"{message.name}: connection is not open")
        if message.destination_realm is None:
            message.destination_realm = self.remote_realm
        future = self._send_request(message)
        timer = self._loop.call_later(timeout_s, self._expire, message, future, timeout_s)
        try:
            return await future
        finally:
            timer.cancel()
            self._pending.pop(message.header.hop_by_hop_identifier, None)

    async def disconnect(self, cause: DisconnectCause) -> None:
        """DPR, wait for the DPA, close (RFC 6733 §5.4)."""
        if self.is_open:
            message = DisconnectPeerRequest(disconnect_cause=cause)
            future = self._send_request(message)
            self._leaving = True
            await asyncio.wait((future,), timeout=DISCONNECT_S)
            self._pending.pop(message.header.hop_by_hop_identifier, None)
            if future.done():
                _retrieve(future)  # lost meanwhile: that is what was wanted
        if self._transport is not None:
            self._transport.close()
            await asyncio.shield(self.ended)

    def abort(self) -> None:
        """Close at once, without a DPR."""
        if self._transport is not None:
            self._transport.abort()

    def _send_request(self, message: DiameterMessage) -> asyncio.Future[DiameterMessage]:
        peer = self.peer
        future: asyncio.Future[DiameterMessage] = self._loop.create_future()
        self._hop_by_hop = (self._hop_by_hop + 1) & 0xFFFFFFFF
        header = message.header
        header.hop_by_hop_identifier = self._hop_by_hop
        header.end_to_end_identifier = peer.next_end_to_end()
        if message.session_id is None and message.carries_session:
            message.session_id = peer.new_session_id()
        self._send(message)
        self._pending[self._hop_by_hop] = (message, future)
        peer.counters["requests_sent"] += 1
        return future

    def _expire(
        self, message: DiameterMessage, future: asyncio.Future[DiameterMessage], timeout_s: float
    ) -> None:
        if not future.done():
            self.peer.counters["answer_timeouts"] += 1
            future.set_exception(AnswerTimeout(f"{message.name}: no answer in {timeout_s:g} s"))

    # --- messages in ------------------------------------------------------------------------------

    def _on_message(self, data: bytes) -> None:
        header = parse_header(data)
        if not header.is_request:
            self._on_answer(header, data)
        elif self.remote_host is None and header.command_code != CapabilitiesExchangeRequest.code:
            # RFC 6733 §5.6.1: before capabilities are exchanged nothing else is served
            self._fail("requests_before_cer", f"command {header.command_code} before CER")
        else:
            self._on_request(header, data)

    def _on_answer(self, header: MessageHeader, data: bytes) -> None:
        request, future = self._pending.pop(header.hop_by_hop_identifier, (None, None))
        if request is None or future is None or future.done():
            self.peer.counters["unmatched_answers"] += 1  # late, or never asked for
            return
        if header.command_code != request.code:
            self.peer.counters["bad_answers"] += 1
            future.set_exception(BadAnswer(f"{request.name} answered by {header.command_code}"))
            return
        try:
            # RFC 6733 §7.2: with the E bit the command's own grammar does not hold
            cls = ErrorAnswer if header.command_flags & FLAG_ERROR else request.answer_class
            future.set_result(decode(data, header, cls))
        except BadMessage as error:
            self.peer.counters["bad_answers"] += 1
            future.set_exception(BadAnswer(f"{request.name}: {error}"))

    def _on_request(self, header: MessageHeader, data: bytes) -> None:
        read_at = self._read_at
        try:
            request = self._parse_request(header, data)
            if self._serve_base(request):
                return
            if self.peer.on_request is None:
                raise BadMessage(Result.COMMAND_UNSUPPORTED, "nothing is served here")
            self.peer.counters["requests_received"] += 1
            answer = self.peer.on_request(request, self)
        except BadMessage as error:
            self._refuse(header, data, error)
        except Exception as error:  # a defect of the handler: the peer must not hang for it
            self._handler_failed(error)
            self._refuse(header, data, _unable(error))
        else:
            if answer is None or isinstance(answer, DiameterMessage):
                self._reply(request, data, answer, read_at)
            else:
                self.peer.run(self._reply_later(request, data, answer, read_at))

    def _parse_request(self, header: MessageHeader, data: bytes) -> DiameterMessage:
        """The request as an object; BadMessage with what RFC 6733 §7.1.3 says about its header."""
        cls = self._request_class(header)
        if cls is None:
            if header.application_id in self.peer.applications or not header.application_id:
                text = f"command {header.command_code} of application {header.application_id}"
                raise BadMessage(Result.COMMAND_UNSUPPORTED, text)
            text = f"application {header.application_id}"
            raise BadMessage(Result.APPLICATION_UNSUPPORTED, text)
        # §3: E must not be set in a request
        if header.command_flags & FLAG_ERROR:
            raise BadMessage(Result.INVALID_HDR_BITS, "E bit in a request")
        return decode(data, header, cls)

    def _request_class(self, header: MessageHeader) -> type[DiameterMessage] | None:
        """The class of this command, if we serve it."""
        one = self.peer.applications.get(header.application_id, BASE)
        found = one.requests.get(header.command_code)
        # base commands are served whatever application id they carry
        return found or BASE.requests.get(header.command_code)

    async def _reply_later(
        self,
        request: DiameterMessage,
        data: bytes,
        work: Awaitable[DiameterMessage | None],
        read_at: float,
    ) -> None:
        try:
            answer = await work
        except BadMessage as error:
            self._refuse(request.header, data, error)
        except Exception as error:  # as in _on_request
            self._handler_failed(error)
            self._refuse(request.header, data, _unable(error))
        else:
            self._reply(request, data, answer, read_at)

    def _reply(
        self,
        request: DiameterMessage,
        data: bytes,
        answer: DiameterMessage | None,
        read_at: float,
    ) -> None:
        if answer is None:
            self.peer.counters["requests_unanswered"] += 1
            return
        if self._transport is None:
            self.peer.counters["answers_without_connection"] += 1
            return
        try:
            self._send(answer)
        except EncodeError as error:
            self._handler_failed(error)
            self._refuse(request.header, data, _unable(error))
            return
        self.peer.counters["answers_sent"] += 1
        if self.peer.on_answered is not None:
            self.peer.on_answered(request, answer, time.perf_counter() - read_at)

    def _refuse(self, header: MessageHeader, data: bytes, error: BadMessage) -> None:
        """Answer a request that cannot be served, with its result code (RFC 6733 §7)."""
        self.peer.counters[f"refused_{int(error.result)}"] += 1
        if self._transport is None:
            return
        cls = self._request_class(header)
        about = self._capabilities() if cls and issubclass(cls, Capabilities) else {}
        self._send(refusal(header, cls, error, session_id=session_id_of(data), **about))

    def _handler_failed(self, error: Exception) -> None:
        self.peer.counters["handler_failures"] += 1
        log.error("Diameter request handler failed", exc_info=error)

    def _send(self, message: DiameterMessage) -> None:
        transport = self._transport
        assert transport is not None
        if message.origin_host is None:
            message.origin_host = self.peer.origin_host
        if message.origin_realm is None:
            message.origin_realm = self.peer.origin_realm
        transport.write(message.as_bytes())
        if transport.get_write_buffer_size() > MAX_UNSENT:
            self._fail("send_buffer_full", "the other side does not read")
            transport.abort()

    # --- base protocol ------------------------------------------------------------------------------

    def _serve_base(self, request: DiameterMessage) -> bool:
        """Serve CER, DWR and DPR; False for any other request."""
        if isinstance(request, CapabilitiesExchangeRequest):
            self._on_cer(request)
        elif isinstance(request, DeviceWatchdogRequest):
            self._send(
                request.answer(
                    result_code=Result.SUCCESS, origin_state_id=self.peer.origin_state_id
                )
            )
        elif isinstance(request, DisconnectPeerRequest):
            self.peer.counters["dpr_received"] += 1
            self._leaving = True
            self._send(request.answer(result_code=Result.SUCCESS))
            # §5.4: the sender of the DPR closes; a timer does it if that never happens
            self._arm(DISCONNECT_S)
        else:
            return False
        return True

    def _on_cer(self, cer: CapabilitiesExchangeRequest) -> None:
        if not cer.host_ip_address:
            self.peer.counters["cer_without_host_ip_address"] += 1
        ours = self.peer.applications.keys()
        if cer.applications().isdisjoint(ours) and not cer.relays:
            self._send(cer.answer(result_code=Result.NO_COMMON_APPLICATION, **self._capabilities()))
            self._fail("no_common_application", str(cer.origin_host))
            return
        self._send(cer.answer(result_code=Result.SUCCESS, **self._capabilities()))
        self._open(cer)

    def _on_cea(self, future: asyncio.Future[DiameterMessage]) -> None:
        if future.cancelled() or future.exception() is not None:
            self._fail("cer_failed", "no usable CEA")
            return
        cea = future.result()
        if isinstance(cea, CapabilitiesExchangeAnswer) and cea.result_code == Result.SUCCESS:
            self._open(cea)
        else:
            self._fail("cer_refused", f"CEA says {cea.outcome}")

    def _open(self, capabilities: Capabilities) -> None:
        again = self.remote_host is not None
        self.remote_host = capabilities.origin_host
        self.remote_realm = capabilities.origin_realm
        self.relays = capabilities.relays
        if not again:
            self.peer.opened(self)
            self.opened.set_result(None)

    def _capabilities(self) -> dict[str, Any]:
        """AVPs of a CER or CEA (RFC 6733 §5.3; Supported-Vendor-Id 13019: TS 29.229 §5.6)."""
        assert self._transport is not None
        address = self._transport.get_extra_info("sockname")[0].partition("%")[0]
        return {
            "host_ip_address": [address],
            "vendor_id": 0,
            "product_name": self.peer.product_name,
            "origin_state_id": self.peer.origin_state_id,
            "supported_vendor_id": [VENDOR_3GPP, VENDOR_ETSI],
            "vendor_specific_application_id": [
                VendorSpecificApplicationId(vendor_id=one.vendor, auth_application_id=one.id)
                for one in self.peer.applications.values()
            ],
        }

    def _arm(self, delay_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(delay_s, self._on_timer)

    def _on_timer(self) -> None:
        if self._leaving or self.remote_host is None:
            self._fail("closed_by_timer", "left alone after a DPR, or no CER came")
            return
        verdict, again_s = self._watchdog.expired(time.perf_counter())
        match verdict:
            case Verdict.SEND_DWR:
                self.peer.counters["dwr_sent"] += 1
                dwr = DeviceWatchdogRequest(origin_state_id=self.peer.origin_state_id)
                self._send_request(dwr).add_done_callback(_retrieve)
            case Verdict.SUSPECT:
                self.peer.counters["watchdog_suspects"] += 1
            case Verdict.DEAD:
                self._fail("watchdog_closed", "no sign of life")
                return
        self._arm(again_s)

    def _fail(self, counter: str, text: str) -> None:
        """Close for a reason, counted by name."""
        self.peer.counters[counter] += 1
        log.info("Diameter connection with %s closed: %s", self.remote_host, text)
        if self._transport is not None:
            self._transport.close()


def _retrieve(future: asyncio.Future[Any]) -> None:
    """A failure is told to who waits for it, and to nobody if nobody does."""
    if not future.cancelled():
        future.exception()


def _unable(error: Exception) -> BadMessage:
    return BadMessage(Result.UNABLE_TO_COMPLY, f"internal: {type(error).__name__}")
