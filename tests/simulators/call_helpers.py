"""Phones that call, spelled out message by message: what is sent, and what must come."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, ClassVar

from imsbench.protocol.address import parse_name_addr
from imsbench.protocol.sip import (
    Header,
    Malformed,
    Message,
    Request,
    Response,
    ack_for_failure,
    response_to,
    serialize_message,
    tag_of,
)
from imsbench.protocol.stream import SipReader
from simulators.core.service import ReferenceCore
from tests.simulators.core_helpers import TIMEOUT_S, FakeCx, TestPhone, running

SDP: Header = ("content-type", "application/sdp")


def sdp(phone: CallPhone, *lines: str, port: int = 49152) -> bytes:
    """One audio stream of this phone; further lines behind it."""
    text = [
        "v=0", f"o=- 1 1 IN IP4 {phone.address}", "s=-", f"c=IN IP4 {phone.address}", "t=0 0",
        f"m=audio {port} RTP/AVP 116", "b=AS:41", "b=RS:600", "b=RR:2000",
        "a=rtpmap:116 AMR-WB/16000/1", *lines,
    ]  # fmt: skip
    return "".join(f"{line}\r\n" for line in text).encode()


class CallPhone(TestPhone):
    """A phone with one mailbox for all that is no REGISTER; NOTIFYs are answered and left out."""

    address = "127.0.0.1"
    opened: ClassVar[list[CallPhone]] = []
    """All that connected; run() closes them."""

    def __init__(self, core: ReferenceCore, n: int = 0) -> None:
        super().__init__(core, n)
        self.inbox: asyncio.Queue[Request | Response] = asyncio.Queue()
        self.service_route: list[str] = []

    async def _read(self, reader: asyncio.StreamReader) -> None:
        sip = SipReader()
        try:
            while data := await reader.read(65536):
                for message in sip.feed(data):
                    self._on_message(message)
        except ConnectionError:
            pass
        finally:
            self.closed.set()

    def _on_message(self, message: Request | Response | Malformed) -> None:
        assert not isinstance(message, Malformed), message
        if isinstance(message, Request) and message.method == "NOTIFY":
            self.send(response_to(message, 200, "OK"))
        elif message.method in ("REGISTER", "SUBSCRIBE"):
            assert isinstance(message, Response)
            self._responses.put_nowait(message)
        else:
            self.inbox.put_nowait(message)

    async def connect(self, address: tuple[str, int] | None = None) -> None:
        """See TestPhone."""
        await super().connect(address)
        CallPhone.opened.append(self)

    async def attach(self) -> CallPhone:
        """Connect and register."""
        await self.connect()
        ok = await self.register()
        assert ok.status == 200
        self.service_route = ok.get_all("service-route")
        return self

    @property
    def contact(self) -> str:
        """Its contact URI."""
        return f"sip:{self.subscriber.imsi}@{self.address}:{self.port}"

    def send(self, message: Request | Response) -> None:
        """Write a message."""
        self.writer.write(serialize_message(message))

    async def message(self) -> Request | Response:
        """The next message that came."""
        async with asyncio.timeout(TIMEOUT_S):
            return await self.inbox.get()

    async def response(self, status: int, method: str) -> Response:
        """The next message, which must be this response."""
        message = await self.message()
        assert isinstance(message, Response), message
        assert (message.status, message.method) == (status, method), message.headers
        return message

    async def request(self, method: str) -> Request:
        """The next message, which must be this request."""
        message = await self.message()
        assert isinstance(message, Request), (message, message.headers)
        assert message.method == method, message
        return message

    async def silence(self, seconds: float = 0.1) -> None:
        """Nothing must come for a while."""
        await asyncio.sleep(seconds)
        assert self.inbox.empty(), self.inbox.get_nowait()


class Side:
    """One phone's side of a call: what its next request looks like (RFC 3261 §12)."""

    count = 0

    def __init__(self, phone: CallPhone, call_id: str, local: str, remote: str) -> None:
        self.phone = phone
        self.call_id = call_id
        self.local = local
        self.remote = remote
        self.target = ""
        self.routes: list[str] = []
        self.cseq = 0

    def build(self, method: str, *headers: Header, body: bytes = b"", cseq: int = 0) -> Request:
        """A request of this side."""
        Side.count += 1
        phone = self.phone
        if method not in ("ACK", "CANCEL"):
            self.cseq += 1
        number = cseq or self.cseq
        branch = f"z9hG4bKcall{Side.count}"
        common: list[Header] = [
            ("via", f"SIP/2.0/TCP {phone.address}:{phone.port};branch={branch};rport"),
            *(("route", route) for route in self.routes),
            ("max-forwards", "70"),
            ("from", self.local),
            ("to", self.remote),
            ("call-id", self.call_id),
            ("cseq", f"{number} {method}"),
        ]
        if method in ("INVITE", "UPDATE"):
            common.append(("contact", f"<{phone.contact}>"))
        if body:
            common.append(SDP)
        return Request(
            method, self.target, [*common, *headers], body,
            branch=branch, call_id=self.call_id, cseq=number,
        )  # fmt: skip

    def send(self, method: str, *headers: Header, body: bytes = b"", cseq: int = 0) -> Request:
        """Send it."""
        request = self.build(method, *headers, body=body, cseq=cseq)
        self.phone.send(request)
        return request

    def learn(self, message: Message, *, reverse: bool) -> None:
        """The dialog out of the message that made it."""
        self.routes = message.values("record-route")
        if reverse:
            self.routes.reverse()
        self.target = parse_name_addr(message.get("contact") or "").uri


class Caller(Side):
    """The calling side."""

    def __init__(self, phone: CallPhone, uri: str, call_id: str = "") -> None:
        Side.count += 1
        call_id = call_id or f"call-{phone.subscriber.n}-{Side.count}"
        super().__init__(
            phone, call_id, f"<{phone.subscriber.impu_sip}>;tag=a{Side.count}", f"<{uri}>"
        )
        host, port = phone.core.address
        self.target = uri
        self.routes = [f"<sip:{host}:{port};lr>", *phone.service_route]
        self.invited: Request | None = None

    def invite(self, *headers: Header, body: bytes | None = None) -> Request:
        """Send the INVITE."""
        self.invited = self.send("INVITE", *headers, body=sdp(self.phone) if body is None else body)
        return self.invited

    async def progress(self, status: int) -> Response:
        """A response to the INVITE that makes a dialog."""
        response = await self.phone.response(status, "INVITE")
        self.learn(response, reverse=True)
        self.remote = response.get("to") or ""
        return response

    async def fails(self, status: int) -> Response:
        """The INVITE's final failure; acknowledged."""
        response = await self.phone.response(status, "INVITE")
        assert self.invited is not None
        self.phone.send(ack_for_failure(self.invited, response))
        return response

    def ack(self) -> None:
        """ACK to the 2xx."""
        assert self.invited is not None
        self.send("ACK", cseq=self.invited.cseq)

    def cancel(self) -> None:
        """CANCEL of the INVITE (RFC 3261 §9.1)."""
        invite = self.invited
        assert invite is not None
        names = ("via", "route", "max-forwards", "from", "to", "call-id")
        kept = [header for header in invite.headers if header[0] in names]
        kept.append(("cseq", f"{invite.cseq} CANCEL"))
        self.phone.send(Request("CANCEL", invite.uri, kept))


class Callee(Side):
    """The called side."""

    def __init__(self, phone: CallPhone, invite: Request) -> None:
        tag = f"b{Side.count}"
        super().__init__(
            phone, invite.call_id, f"{invite.get('to')};tag={tag}", invite.get("from") or ""
        )
        self.tag = tag
        self.invited = invite
        self.learn(invite, reverse=False)

    @classmethod
    async def rings(cls, phone: CallPhone) -> Callee:
        """The INVITE comes; 100 is sent."""
        invite = await phone.request("INVITE")
        callee = cls(phone, invite)
        callee.answer(100)
        return callee

    def answer(
        self, status: int, *headers: Header, body: bytes = b"", request: Request | None = None
    ) -> None:
        """A response to the INVITE, or to another request."""
        request = request or self.invited
        added = [*headers]
        if request.method in ("INVITE", "UPDATE") and 100 < status < 300:
            added.append(("contact", f"<{self.phone.contact}>"))
        if body:
            added.append(SDP)
        tag = "" if status == 100 else self.tag
        response = response_to(request, status, "Because", to_tag=tag, headers=added, body=body)
        self.phone.send(response)

    async def takes(self, method: str, status: int = 200, *, body: bytes = b"") -> Request:
        """A request within the dialog comes and is answered."""
        request = await self.phone.request(method)
        if method != "ACK":
            self.answer(status, body=body, request=request)
        return request


async def answered(caller: CallPhone, callee: CallPhone) -> tuple[Caller, Callee]:
    """A plain call between two phones, up to the ACK."""
    a = Caller(caller, callee.subscriber.impu_tel)
    a.invite()
    await caller.response(100, "INVITE")
    b = await Callee.rings(callee)
    b.answer(180)
    await a.progress(180)
    b.answer(200, body=sdp(callee))
    await a.progress(200)
    a.ack()
    await b.takes("ACK")
    return a, b


async def ends(leaves: Side, stays: Side) -> None:
    """BYE of one side, 200 of the other."""
    leaves.send("BYE")
    bye = await stays.phone.request("BYE")
    stays.phone.send(response_to(bye, 200, "OK"))
    await leaves.phone.response(200, "BYE")


@asynccontextmanager
async def two_phones(
    cx: FakeCx | None = None, **changes: Any
) -> AsyncIterator[tuple[ReferenceCore, CallPhone, CallPhone]]:
    """A core and two registered phones."""
    # Its port stands in Route entries, so it must be known beforehand.
    async with running(cx, listen=("127.0.0.1", free_port()), **changes) as core:
        caller, callee = CallPhone(core, 0), CallPhone(core, 1)
        await caller.attach()
        await callee.attach()
        yield core, caller, callee


def free_port() -> int:
    """A TCP port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


def tag(message: Message, name: str) -> str:
    """The tag of a From or To."""
    return tag_of(message.get(name) or "")


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    """Run a scenario, never longer than twenty seconds."""

    async def bounded() -> None:
        try:
            async with asyncio.timeout(20):
                await scenario()
        finally:
            while CallPhone.opened:
                await CallPhone.opened.pop().close()

    asyncio.run(bounded())
