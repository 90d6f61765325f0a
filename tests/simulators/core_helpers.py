"""Ends for tests of the reference core: a Cx in memory, and a phone spelled out step by step."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from imsbench.protocol import digest
from imsbench.protocol.aka import (
    AkaResult,
    Milenage,
    SqnWindow,
    SyncFailure,
    check_auts,
    generate_vector,
    run_aka,
    split_nonce,
)
from imsbench.protocol.sip import Malformed, Request, Response, response_to, serialize_message
from imsbench.protocol.stream import SipReader
from imsbench.subscriber import Population, Subscriber
from simulators.core.cxclient import AuthVector, CxFailure
from simulators.core.service import ReferenceCore
from simulators.core.settings import CoreSettings
from simulators.cx import ServerAssignmentType, UserAuthorizationType

POPULATION = Population(10)
DOMAIN = POPULATION.home_domain
TIMEOUT_S = 3.0


def milenage_of(subscriber: Subscriber) -> Milenage:
    """Milenage with a subscriber's keys."""
    return Milenage(subscriber.k, opc=subscriber.opc, op=subscriber.op)


def user_data_of(subscriber: Subscriber) -> bytes:
    """A User-Data document with the temporary identity barred."""
    temporary, *others = subscriber.impus
    plain = "".join(
        f"<PublicIdentity><Identity>{uri}</Identity></PublicIdentity>" for uri in reversed(others)
    )
    return (
        f"<IMSSubscription><PrivateID>{subscriber.impi}</PrivateID><ServiceProfile>"
        f"<PublicIdentity><BarringIndication>1</BarringIndication><Identity>{temporary}</Identity>"
        f"</PublicIdentity>{plain}</ServiceProfile></IMSSubscription>"
    ).encode()


class FakeCx:
    """An HSS in memory: as much of TS 29.228 §6 as the CSCFs can tell apart."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        """Each procedure with what distinguishes it."""
        self.sqn: dict[str, int] = {}
        self.failures: dict[str, CxFailure] = {}
        """Command -> what it fails with."""
        self.user_data: bytes | None = None
        """Sent instead of the subscriber's own."""
        self.wrong_k = False

    def _subscriber(self, impi: str, command: str) -> Subscriber:
        if command in self.failures:
            raise self.failures[command]
        n = POPULATION.number_of(impi)
        if n is None:
            raise CxFailure(command, "refused", 5001, experimental=True)
        return POPULATION.subscriber(n)

    async def user_authorization(
        self, impi: str, impu: str, authorization_type: UserAuthorizationType
    ) -> str:
        self.asked.append(f"UAR {authorization_type.name}")
        self._subscriber(impi, "UAR")
        return ""

    async def multimedia_auth(
        self, impi: str, impu: str, server_name: str, resynchronisation: bytes = b""
    ) -> AuthVector:
        self.asked.append("MAR resynchronisation" if resynchronisation else "MAR")
        subscriber = self._subscriber(impi, "MAR")
        milenage = milenage_of(subscriber)
        if self.wrong_k:
            milenage = Milenage(bytes(16), opc=bytes(16))
        if resynchronisation:
            rand, auts = resynchronisation[:16], resynchronisation[16:]
            self.sqn[impi] = check_auts(milenage, rand, auts)
        self.sqn[impi] = self.sqn.get(impi, 0) + 32
        vector = generate_vector(milenage, b"0123456789abcdef", self.sqn[impi], b"\x80\0")
        return AuthVector(vector.rand, vector.autn, vector.xres, vector.ck, vector.ik)

    async def server_assignment(
        self,
        impi: str,
        impus: Sequence[str],
        server_name: str,
        assignment_type: ServerAssignmentType,
    ) -> bytes:
        self.asked.append(f"SAR {assignment_type.name}")
        subscriber = self._subscriber(impi, "SAR")
        return user_data_of(subscriber) if self.user_data is None else self.user_data

    async def location_information(self, impu: str) -> str:
        self.asked.append(f"LIR {impu}")
        if "LIR" in self.failures:
            raise self.failures["LIR"]
        if POPULATION.number_of(impu) is None:
            raise CxFailure("LIR", "refused", 5001, experimental=True)
        return f"sip:scscf.{DOMAIN}:6060"


class TestPhone:
    """One phone on one connection; every step is a call."""

    __test__ = False

    def __init__(self, core: ReferenceCore, n: int = 0, *, local_port: int = 0) -> None:
        self.core = core
        self.subscriber = POPULATION.subscriber(n)
        self.milenage = milenage_of(self.subscriber)
        self.window = SqnWindow()
        self.local_port = local_port
        self.call_id = f"call-{n}"
        self.cseq = 0
        self.challenge: digest.Challenge | None = None
        self.aka: AkaResult | None = None
        self.authorization = ""
        """The last one sent."""
        self.extra: list[tuple[str, str]] = []
        """Headers added to each request."""
        self.requests: asyncio.Queue[Request] = asyncio.Queue()
        self._responses: asyncio.Queue[Response] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self.closed = asyncio.Event()

    async def connect(self, address: tuple[str, int] | None = None) -> None:
        """Connect to the P-CSCF; a task reads, answers NOTIFYs with 200 and queues the rest."""
        host, port = address or self.core.address
        local = ("127.0.0.1", self.local_port) if self.local_port else None
        reader, self.writer = await asyncio.open_connection(host, port, local_addr=local)
        self.closed.clear()
        self._task = asyncio.create_task(self._read(reader))

    async def _read(self, reader: asyncio.StreamReader) -> None:
        sip = SipReader()
        try:
            while data := await reader.read(65536):
                for message in sip.feed(data):
                    assert not isinstance(message, Malformed), message
                    if isinstance(message, Response):
                        self._responses.put_nowait(message)
                    else:
                        self.requests.put_nowait(message)
                        self.writer.write(serialize_message(response_to(message, 200, "OK")))
        except ConnectionResetError:
            pass
        self.closed.set()

    async def close(self) -> None:
        """Close the connection."""
        self.writer.close()
        if self._task is not None:
            self._task.cancel()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()

    @property
    def port(self) -> int:
        """What Via and Contact show: the port of its connection."""
        return int(self.writer.get_extra_info("sockname")[1])

    async def exchange(self, request: Request) -> Response:
        """Send a request, wait for its final response."""
        self.writer.write(serialize_message(request))
        return await self.next_response()

    async def next_response(self) -> Response:
        """The next response of the core."""
        async with asyncio.timeout(TIMEOUT_S):
            return await self._responses.get()

    async def notify(self) -> Request:
        """The next request of the core."""
        async with asyncio.timeout(TIMEOUT_S):
            return await self.requests.get()

    def build(
        self, method: str, uri: str, identity: str, headers: list[tuple[str, str]]
    ) -> Request:
        """A request with what every request has."""
        self.cseq += 1
        port = self.port
        branch = f"z9hG4bK{self.cseq}"
        common = [
            ("via", f"SIP/2.0/TCP 127.0.0.1:{port};branch={branch};rport"),
            ("max-forwards", "70"),
            ("from", f"<{identity}>;tag=phone"),
            ("to", f"<{identity}>"),
            ("call-id", self.call_id),
            ("cseq", f"{self.cseq} {method}"),
            ("contact", f'<sip:{self.subscriber.imsi}@127.0.0.1:{port}>;+sip.instance="<urn:x:1>"'),
        ]
        names = {name for name, _ in headers}
        kept = [header for header in common if header[0] not in names]
        return Request(method, uri, [*kept, *headers, *self.extra], branch=branch)

    def register_request(self, authorization: str, expires: int = 600_000) -> Request:
        """A REGISTER."""
        self.authorization = authorization
        return self.build(
            "REGISTER",
            f"sip:{DOMAIN}",
            self.subscriber.impu_temporary,
            [("expires", str(expires)), ("authorization", authorization), ("supported", "path")],
        )

    def initial(self, expires: int = 600_000) -> Request:
        """The first REGISTER."""
        uri = f"sip:{DOMAIN}"
        authorization = digest.initial_authorization(self.subscriber.impi, DOMAIN, uri)
        return self.register_request(authorization, expires)

    def refresh(self, expires: int = 600_000) -> Request:
        """A re-REGISTER, or with 0 a de-registration: last nonce, last response."""
        return self.register_request(self.authorization, expires)

    def answer_to(self, unauthorized: Response, *, res: bytes | None = None) -> str:
        """The Authorization that answers a 401; a SyncFailure becomes AUTS."""
        assert unauthorized.status == 401, (unauthorized, unauthorized.headers)
        self.challenge = digest.parse_challenge(unauthorized.get_all("www-authenticate"))
        rand, autn = split_nonce(self.challenge.nonce)
        impi, uri = self.subscriber.impi, f"sip:{DOMAIN}"
        try:
            self.aka = run_aka(self.milenage, rand, autn, self.window)
        except SyncFailure as failure:
            return digest.auts_authorization(
                self.challenge, impi, uri, "REGISTER", failure.auts, cnonce="c"
            )
        password = self.aka.res if res is None else res
        return digest.answer_authorization(
            self.challenge, impi, uri, "REGISTER", password, cnonce="c"
        )

    async def register(self, expires: int = 600_000) -> Response:
        """REGISTER, 401, REGISTER: the final response."""
        unauthorized = await self.exchange(self.initial(expires))
        return await self.exchange(self.register_request(self.answer_to(unauthorized), expires))

    def subscribe_request(self, expires: int = 600_000, *, to: str = "") -> Request:
        """SUBSCRIBE to the own registration; ``to`` is the To of a refresh."""
        impu = self.subscriber.impu_sip
        headers = [("event", "reg"), ("expires", str(expires)), ("call-id", f"{self.call_id}-s")]
        if to:
            headers.append(("to", to))
        return self.build("SUBSCRIBE", impu, impu, headers)


@asynccontextmanager
async def running(cx: FakeCx | None = None, **changes: Any) -> AsyncIterator[ReferenceCore]:
    """A reference core on loopback; settings may be changed by name, ``backend`` handed in."""
    backend = changes.pop("backend", None)
    values: dict[str, Any] = {
        "listen": ("127.0.0.1", 0),
        "domain": DOMAIN,
        "ipsec": "off" if backend is None else "auto",
    }
    settings = CoreSettings(**values | changes)
    core = ReferenceCore(settings, backend, cx=cx or FakeCx())
    await core.start()
    try:
        yield core
    finally:
        await core.close()
        await asyncio.sleep(0)
