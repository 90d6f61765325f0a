"""How messages come from phones and go to them: by TCP, or by UDP as a flow of datagrams."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol
from weakref import WeakValueDictionary

from imsbench.protocol.address import split_host_port
from imsbench.protocol.salvage import bad_request
from imsbench.protocol.sip import (
    Malformed,
    Message,
    Request,
    Response,
    parse_message,
    serialize_message,
)
from simulators.core.datagrams import Datagrams, datagram_socket
from simulators.core.phonelink import PhoneLink
from simulators.core.transport import Kind, SipConnection, outer_devices
from simulators.core.unreliable import LONGEST_INVITE_S, Kept, Unreliable

if TYPE_CHECKING:
    from simulators.core.security import PhoneSas, SecurityAssociations

MOST_BYTES = 1300
"""Longest request by UDP (RFC 3261 §18.1.1)."""
SIP_PORT = 5060


class FlowOwner(Protocol):
    """Who is told what phones send by UDP."""

    def on_message(
        self, connection: SipConnection | DatagramFlow, message: Request | Response
    ) -> None:
        """A message that did not come before was read."""
        ...


class DatagramFlow:
    """A phone's datagrams: to everybody above what a TCP connection is (TS 33.203 §7.1).

    In clear they go back and forth between two ports. Inside SAs those of the phone come from its
    port_uc to port_ps, and those for it go from port_pc to its port_us.
    """

    __slots__ = (
        "__weakref__", "_to", "_udp", "impi", "kind", "link", "peer_address", "peer_port", "sas",
        "socket",
    )  # fmt: skip

    def __init__(
        self, udp: Udp, kind: Kind, peer: tuple[str, int], to_port: int, socket: Datagrams
    ) -> None:
        self._udp = udp
        self._to = to_port
        self.kind = kind
        self.peer_address, self.peer_port = peer
        self.socket = socket
        """What is sent to it leaves by this one."""
        self.sas: PhoneSas | None = None
        """The SA set that carries it; None on the unprotected port."""
        self.impi = ""
        """ipsec off: whose registration was authenticated by it."""
        self.link: PhoneLink | None = None
        """ipsec off: our connection for what is too large for it."""

    def write(self, data: bytes) -> bool:
        """Send a message; a request again and again until it is answered. Always True."""
        self._udp.send(self, data, lost=False)
        return True

    def lose(self, data: bytes) -> None:
        """A response that is lost as injected; one to the same request, sent again, may not be."""
        self._udp.send(self, data, lost=True)

    def transmit(self, data: bytes, port: int = 0) -> None:
        """Send the bytes once."""
        self.socket.send(data, self.peer_address, port or self._to)


Way = SipConnection | DatagramFlow


class Udp:
    """The UDP sockets of a P-CSCF, and the flows of the phones that use them."""

    def __init__(
        self, owner: FlowOwner, unreliable: Unreliable, counters: Counter[str], host: str
    ) -> None:
        self._owner = owner
        self._unreliable = unreliable
        self._counters = counters
        self._host = host
        self._device = ""
        self._security: SecurityAssociations | None = None
        self._clear: Datagrams | None = None
        self._protected: Datagrams | None = None
        self._clients: dict[int, Datagrams] = {}
        self._refusers: list[Datagrams] = []
        self._flows: WeakValueDictionary[tuple[str, int], DatagramFlow] = WeakValueDictionary()
        self._by_tcp: Kept[str, bool] = Kept(LONGEST_INVITE_S)

    def listen(self, port: int) -> None:
        """Serve the unprotected port; OSError."""
        sock = datagram_socket(self._host, port)
        self._clear = Datagrams(sock, self._on_clear, self._counters)

    def listen_protected(self, port_ps: int, device: str, security: SecurityAssociations) -> None:
        """Serve port_ps inside SAs, and count what comes to it in clear; OSError."""
        self._device, self._security = device, security
        sock = datagram_socket(self._host, port_ps, device=device)
        self._protected = Datagrams(sock, self._on_protected, self._counters)
        for outer in outer_devices(device) if device else ():
            sock = datagram_socket(self._host, port_ps, device=outer)
            self._refusers.append(Datagrams(sock, self._refuse, self._counters))

    def send(self, flow: DatagramFlow, data: bytes, *, lost: bool) -> None:
        """Send a message by a flow, or lose it, and take care of its transaction."""
        message = parse_message(data)
        if isinstance(message, Malformed):  # of what a phone wrote; it has no transaction
            self._counters[f"relayed although malformed: {message.reason}"] += 1
            flow.transmit(data)
        elif isinstance(message, Request):
            flow.transmit(data)
            self._unreliable.sent_request(message, flow.transmit, data)
        else:
            transmit = _back(flow, message)
            if not lost:
                transmit(data)
            peer = flow.peer_address, flow.peer_port
            self._unreliable.sent_response(message, peer, transmit, data)

    def as_datagram(self, data: bytes) -> bytes | None:
        """A message that was written for TCP, as it goes by UDP; None: it must not (RFC 3261 §18.1.1).

        A CANCEL, and the ACK of a failure, go the way of their INVITE (§9.1, §17.1.1.3).
        """
        message = parse_message(data)
        if not isinstance(message, Request):
            return data
        if len(data) > MOST_BYTES:
            if message.method == "INVITE":
                self._by_tcp.put(message.branch, True)
            return None
        if self._by_tcp.get(message.branch):
            return None
        return data.replace(b"SIP/2.0/TCP", b"SIP/2.0/UDP", 1)

    def close(self) -> None:
        """Close all sockets."""
        self._unreliable.close()
        sockets = [*self._clients.values(), *self._refusers, self._clear, self._protected]
        for sock in sockets:
            if sock is not None:
                sock.close()

    # private

    def _on_clear(self, data: bytes, address: str, port: int) -> None:
        flow = self._flows.get((address, port))
        if flow is None:
            assert self._clear is not None
            flow = DatagramFlow(self, "clear", (address, port), port, self._clear)
            self._flows[address, port] = flow
        self._receive(flow, data)

    def _on_protected(self, data: bytes, address: str, port: int) -> None:
        assert self._security is not None
        held = self._security.find(address, port)
        if held is None:
            self._counters["protected datagrams without SAs"] += 1
            return
        if held.flow is None:
            sas = held.sas
            socket = self._client(sas.port_pc)
            held.flow = DatagramFlow(self, "protected", (address, port), sas.port_us, socket)
            held.flow.sas = held
        self._receive(held.flow, data)

    def _client(self, port_pc: int) -> Datagrams:
        """The socket on a protected client port: one for all phones."""
        found = self._clients.get(port_pc)
        if found is None:
            sock = datagram_socket(self._host, port_pc, device=self._device)
            found = self._clients[port_pc] = Datagrams(sock, self._astray, self._counters)
        return found

    def _receive(self, flow: DatagramFlow, data: bytes) -> None:
        if not data.strip(b"\r\n\0"):
            self._counters["keep-alive datagrams"] += 1
            return
        message = parse_message(data)
        if isinstance(message, Malformed):
            self._counters[f"malformed: {message.reason}"] += 1
            refusal = bad_request(message.head, message.reason, to_tag="malformed")
            if refusal is not None:
                _back(flow, refusal)(serialize_message(refusal))
                self._counters["malformed requests answered 400"] += 1
            return
        transmit = _back(flow, message) if isinstance(message, Request) else flow.transmit
        peer = flow.peer_address, flow.peer_port
        if not self._unreliable.absorbs(message, peer, transmit):
            self._owner.on_message(flow, message)

    def _refuse(self, _data: bytes, _address: str, _port: int) -> None:
        self._counters["clear datagrams to the protected port"] += 1

    def _astray(self, _data: bytes, _address: str, _port: int) -> None:
        # TS 33.203 §7.1: by UDP phones send everything to port_ps.
        self._counters["datagrams to the protected client port"] += 1


def _back(flow: DatagramFlow, message: Message) -> Callable[[bytes], None]:
    """Where the responses of a request go (RFC 3261 §18.2.2, RFC 3581 §4; in SAs TS 33.203 §7.1)."""
    if flow.sas is not None:
        return flow.transmit
    via = message.values("via")[0]
    if ";rport" in via:
        return flow.transmit
    try:
        port = split_host_port(via.partition(";")[0].split()[-1])[1] or SIP_PORT
    except (ValueError, IndexError):
        return flow.transmit
    return lambda data: flow.transmit(data, port)
