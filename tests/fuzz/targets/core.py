"""The reference core's message door: SIP from phones, in clear and inside security associations."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from imsbench.host.backend import AddReader
from imsbench.protocol import digest
from imsbench.protocol.aka import AkaError, SqnWindow, run_aka, split_nonce
from imsbench.protocol.reginfo import parse_reginfo
from imsbench.protocol.secagree import SaSet
from imsbench.protocol.sip import Malformed, Request, Response, serialize_message
from imsbench.protocol.stream import SipReader
from simulators.core.cxclient import AuthVector, CxFailure
from simulators.core.service import ReferenceCore
from simulators.core.settings import CoreSettings
from simulators.core.transport import SipConnection
from tests.fuzz.harness import Run, Target
from tests.fuzz.targets import sip
from tests.fuzz.targets.loop import Loop, NowhereTransport, turns
from tests.simulators.core_helpers import DOMAIN, POPULATION, FakeCx, milenage_of

_PHONE = "198.18.0.1"
_ONE = POPULATION.subscriber(0)
_OFFER = (
    "ipsec-3gpp;alg=hmac-sha-1-96;prot=esp;mod=trans;ealg=null;spi-c=4000;spi-s=4001;"
    "port-c=20000;port-s=6101"
)
_SWITCH = b"\n--\n"
"""In an input: what follows comes by the protected connection of the last agreement."""


class _Backend:
    """Installs nothing; knows what is installed."""

    name, device = "nothing", ""

    def __init__(self) -> None:
        self.sets: list[SaSet] = []

    def attach(self, add_reader: AddReader) -> None:
        pass

    def install(self, sas: SaSet) -> None:
        self.sets.append(sas)

    def remove(self, sas: SaSet) -> None:
        self.sets.remove(sas)

    def counters(self) -> dict[str, int]:
        return {}

    def close(self) -> None:
        pass


class _Cx(FakeCx):
    """Refuses an AUTS that does not check, as an HSS does."""

    async def multimedia_auth(
        self, impi: str, impu: str, server_name: str, resynchronisation: bytes = b""
    ) -> AuthVector:
        try:
            return await super().multimedia_auth(impi, impu, server_name, resynchronisation)
        except AkaError:
            raise CxFailure("MAR", "refused", 5012) from None


class _Door:
    """A core of its own, and the connections of one phone to it."""

    def __init__(self, *, ipsec: bool) -> None:
        self.backend = _Backend() if ipsec else None
        settings = CoreSettings(
            ("198.19.0.10", 5060), DOMAIN, ipsec="userspace" if ipsec else "off", min_expires_s=1
        )
        self.core = ReferenceCore(settings, self.backend, cx=_Cx())
        self.transports: list[NowhereTransport] = []
        self.connection = self._open("clear", 5060)

    def _open(self, kind: str, port: int) -> SipConnection:
        connection = SipConnection(self.core.pcscf, "clear" if kind == "clear" else "protected")
        transport = NowhereTransport((_PHONE, port), ("198.19.0.10", 5060))
        self.transports.append(transport)
        connection.connection_made(transport)
        return connection

    def go_inside(self) -> None:
        """Go on inside the newest set, if there is one."""
        if self.backend is not None and self.backend.sets:
            self.connection = self._open("protected", self.backend.sets[-1].port_uc)

    async def feed(self, data: bytes) -> None:
        """Message by message, as they would come: each is served before the next."""
        start = 0
        while start < len(data):
            end = data.find(b"\r\n\r\n", start)
            end = len(data) if end < 0 else end + 4
            self.connection.data_received(data[start:end])
            await turns(2)
            start = end

    def messages(self) -> list[Request | Response]:
        """All that was sent to the phone, which must be whole messages."""
        found: list[Request | Response] = []
        for transport in self.transports:
            reader = SipReader()
            for message in reader.feed(b"".join(transport.written)):
                if isinstance(message, Malformed):
                    # A 400 repeats the CSeq or Via that was wrong (RFC 3261 §8.2.6).
                    echo = message.data.startswith(b"SIP/2.0 400 Bad Request (")
                    assert echo, f"the core sends no message: {message}"
                else:
                    found.append(message)
        return found

    async def close(self) -> None:
        await self.core.close()
        await turns(1)


def _work(*, ipsec: bool) -> Callable[[], Run]:
    async def work(data: bytes) -> Hashable:
        door = _Door(ipsec=ipsec)
        try:
            parts = data.split(_SWITCH)[:8]
            for index, part in enumerate(parts):
                if index:
                    door.go_inside()
                await door.feed(part)
            counts = door.core.counts()
            return _judge(door, counts)
        finally:
            await door.close()

    def make() -> Run:
        loop = Loop()
        return lambda data: loop.run(work(data))

    return make


def _judge(door: _Door, counts: dict[str, int]) -> Hashable:
    internal = [name for name in counts if name.startswith("internal errors")]
    assert not internal, internal
    assert counts["registered"] <= 1
    assert len(counts) < 60
    kinds = []
    for message in door.messages():
        if isinstance(message, Request):
            parse_reginfo(message.body)
            kinds.append(message.method)
        else:
            kinds.append(str(message.status))
    return tuple(kinds[:6])


# -- what a phone sends to it, in full: its vectors come from a fixed RAND, so its answers are known


def _register(headers: Sequence[tuple[str, str]], cseq: int, port: int, expires: int) -> bytes:
    identity = _ONE.impu_temporary
    common = [
        ("via", f"SIP/2.0/TCP {_PHONE}:{port};branch=z9hG4bK{cseq};rport"),
        ("max-forwards", "70"),
        ("from", f"<{identity}>;tag=phone"),
        ("to", f"<{identity}>"),
        ("call-id", "call"),
        ("cseq", f"{cseq} REGISTER"),
        ("contact", f'<sip:{_ONE.imsi}@{_PHONE}:{port}>;+sip.instance="<urn:x:1>"'),
        ("expires", str(expires)),
        ("supported", "path"),
    ]
    return serialize_message(Request("REGISTER", f"sip:{DOMAIN}", [*common, *headers]))


def _subscribe(cseq: int, port: int, expires: int, to: str = "") -> bytes:
    identity = _ONE.impu_sip
    headers = [
        ("via", f"SIP/2.0/TCP {_PHONE}:{port};branch=z9hG4bKs{cseq};rport"),
        ("from", f"<{identity}>;tag=phone"),
        ("to", to or f"<{identity}>"),
        ("call-id", "call-s"),
        ("cseq", f"{cseq} SUBSCRIBE"),
        ("contact", f"<sip:{_ONE.imsi}@{_PHONE}:{port}>"),
        ("event", "reg"),
        ("expires", str(expires)),
    ]
    return serialize_message(Request("SUBSCRIBE", identity, headers))


def _conversation(*, ipsec: bool) -> list[bytes]:
    """A phone's whole life, recorded against a core: every message it sends."""
    loop = Loop()
    port = 6101 if ipsec else 5060
    uri = f"sip:{DOMAIN}"
    agreement = (
        [("require", "sec-agree"), ("proxy-require", "sec-agree"), ("security-client", _OFFER)]
        if ipsec else []
    )  # fmt: skip
    first = digest.initial_authorization(_ONE.impi, DOMAIN, uri)
    initial = _register([*agreement, ("authorization", first)], 1, 5060, 600)

    async def challenged() -> Response:
        door = _Door(ipsec=ipsec)
        await door.feed(initial)
        response = door.messages()[0]
        await door.close()
        assert isinstance(response, Response)
        assert response.status == 401
        return response

    response = loop.run(challenged())
    challenge = digest.parse_challenge(response.get_all("www-authenticate"))
    rand, autn = split_nonce(challenge.nonce)
    result = run_aka(milenage_of(_ONE), rand, autn, SqnWindow())
    proof = digest.answer_authorization(
        challenge, _ONE.impi, uri, "REGISTER", result.res, cnonce="c"
    )
    auts = digest.auts_authorization(challenge, _ONE.impi, uri, "REGISTER", bytes(14), cnonce="c")
    verify = [("security-verify", value) for value in response.get_all("security-server")]
    switch = _SWITCH if ipsec else b""
    inside = [*agreement, *verify]
    answer = _register([*inside, ("authorization", proof)], 2, port, 600)
    life = [
        initial, switch, answer, _subscribe(1, port, 600), b"\r\n\r\n",
        _register([*inside, ("authorization", proof)], 3, port, 700), _subscribe(2, port, 0),
        _register([*inside, ("authorization", proof)], 4, port, 0),
    ]  # fmt: skip
    resynchronisation = _register([*inside, ("authorization", auts)], 2, port, 600)
    refusal = _register([*inside, ("authorization", first)], 2, port, 600)
    return [
        b"".join(life),
        initial + switch + resynchronisation,
        initial + switch + refusal,
        initial,
    ]


_WORDS = (
    *sip.WORDS, _SWITCH, b"Security-Client: ", b"Security-Verify: ", b"Authorization: ", b"Expires: 0\r\n",
    b"Require: ", b"SUBSCRIBE", b"Event: reg\r\n", b"Contact: *\r\n", b"INVITE", b"ACK", b'auts="', b"\x01",
)  # fmt: skip

TARGETS = [
    Target(
        "core", "the P-CSCF's door without IPsec", _work(ipsec=False),
        lambda: _conversation(ipsec=False), _WORDS,
    ),
    Target(
        "core-sas", "the P-CSCF's door with security agreements", _work(ipsec=True),
        lambda: _conversation(ipsec=True), _WORDS,
    ),
]  # fmt: skip
