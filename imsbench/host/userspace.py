"""User-space ESP: a TUN device and raw sockets carry SA sets where the kernel's IPsec does not.

    protected socket --TCP--> TUN --read--> seal --> raw socket --ESP--> outer link
    protected socket <--TCP-- TUN <--write-- open <-- raw socket <--ESP-- outer link

Theory of operation
* A protected socket is bound to the TUN (SO_BINDTODEVICE, ``device``). The kernel then routes what it
  sends into the TUN only (default route of the worst metric), and finds it only for packets that came
  out of the TUN. So nothing of it can leave in clear, and a clear segment does not reach it.
* What the TUN hands out is looked up by its bytes: addresses and ports stand side by side in both IP
  versions (IPv4 12:24, IPv6 8:44), one slice is the key of the SA. No SA: counted, dropped.
* What the raw socket hands out is looked up by its SPI, which is unique at a host, and checked against
  the SA's addresses and, once opened, its ports (RFC 4301 §5.2; TS 33.203 §7.1 selectors). An IPv6 raw
  socket gives no IP header: the destination there is guarded by the TCP or UDP checksum alone.
* ESP leaves by an IPPROTO_RAW socket with its own IP header, the one the kernel made for the segment
  (transport mode keeps it, RFC 4303 §3.1.1); on IPv4 the kernel sets length and checksum anew.
* Fragments are not sealed (RFC 4303 §3.1.1 wants whole datagrams): TUN MTU 1400 leaves room for ESP
  in 1500, TCP sizes itself by it, and SIP over UDP ends at 1300 bytes (RFC 3261 §18.1.1).

Two listeners on one protected server port
    protected   SO_BINDTODEVICE to ``device``: takes what came through an SA
    clear       SO_BINDTODEVICE to an outer link, one listener per link (a worker has one, a core one
                per worker): takes what came in clear, to count and close it
Listeners bound to different devices do not conflict. A clear listener must not stay unbound: it can
share the port by SO_REUSEPORT only, and then the kernel takes the first listener of the hash chain
that fits, not the better one (observed on IPv4, Linux 6.18): a SYN out of an SA may reach the unbound
listener, whose SYN-ACK takes the main route and leaves in clear.

``protected_ports``
A reset that answers a segment of no socket any more belongs to no device, nor, on IPv6, does the last
acknowledgement of a connection in TIME_WAIT; the main route would send them in clear. With the ranges
of protected ports given, rules send all that leaves from them to the TUN, so it goes into an SA or
nowhere (also the SYN-ACK of an unbound clear listener).

The constructor configures the namespace by netlink: before a loop starts (see ``links``). Rules and
routes end with the namespace, the device with ``close``.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Sequence

from imsbench.host import links, rawsocket, tun
from imsbench.host.backend import AddReader, BackendError, Side
from imsbench.host.clearwatch import ClearWatch
from imsbench.protocol.esp import EspError, EspIn, EspKeys, EspOut
from imsbench.protocol.secagree import Sa, SaSet

BATCH = 32
"""Packets taken at one wake-up of a descriptor, at most: SIP must not starve behind them."""
_ESP = 50
_READ_SIZE = 2048  # the TUN's packets are not longer than its MTU
_DATAGRAM_SIZE = 65535
_TRANSPORTS = (socket.IPPROTO_TCP, socket.IPPROTO_UDP)
_IPV4_HEADER = struct.Struct("!2sH5sBH8s")
_IPV6_HEADER = struct.Struct("!4sHBB")
_WORD = struct.Struct("!H")
_PORTS = struct.Struct("!HH")
_SPI = struct.Struct("!I")

_COUNTERS = (
    "packets_out",
    "bytes_out",
    "packets_in",
    "bytes_in",
    "no_sa_out",
    "unknown_spi",
    "wrong_address",
    "wrong_port",
    "bad_icv",
    "replayed",
    "truncated",
    "bad_padding",
    "sequence_exhausted",
    "tun_write_failed",
    "raw_send_failed",
    "other_out",
)


class _Outbound(EspOut):
    """A sending SA, and where its packets go."""

    __slots__ = ("address",)

    def __init__(self, sa: Sa, keys: EspKeys) -> None:
        super().__init__(sa.spi, keys)
        self.address = (sa.destination, 0)


class _Inbound(EspIn):
    """A receiving SA, and what its packets must show."""

    __slots__ = ("addresses", "ports", "source")

    def __init__(self, sa: Sa, keys: EspKeys) -> None:
        super().__init__(sa.spi, keys)
        self.addresses = _packed(sa.source) + _packed(sa.destination)
        self.source = _text(self.addresses[: len(self.addresses) // 2])
        self.ports = _PORTS.pack(sa.source_port, sa.destination_port)

    def serves(self, sa: Sa) -> bool:
        """Whether it was made for this very SA."""
        return self.addresses + self.ports == _selector(sa)


class UserspaceEsp:
    """SaBackend over a TUN device and raw sockets (RFC 4303 transport mode, TS 33.203 §6.3)."""

    def __init__(
        self,
        side: Side,
        ip_version: int,
        tun_name: str = "esp0",
        *,
        protected_ports: Sequence[tuple[int, int]] = (),
    ) -> None:
        """Make the device and the sockets in this namespace; BackendError if the host refuses."""
        self.name = "userspace"
        self.device = tun_name
        self._side = side
        self._version = ip_version
        self._seal = self._seal_ipv6 if ip_version == 6 else self._seal_ipv4
        self._out: dict[bytes, _Outbound] = {}
        self._in: dict[bytes, _Inbound] = {}
        self._count = dict.fromkeys(_COUNTERS, 0)
        try:
            self._tun = tun.open_tun(tun_name)
        except tun.TunError as error:
            raise BackendError(f"user-space ESP needs a TUN device: {error}") from error
        try:
            self._receiver = rawsocket.open_raw(ip_version, _ESP)
            self._sender = rawsocket.open_raw(ip_version, socket.IPPROTO_RAW)
            tun.configure_tun(tun_name, ip_version, protected_ports)
            self._watch = ClearWatch(ip_version, tun_name, protected_ports)
        except PermissionError as error:
            self.close()
            raise BackendError("user-space ESP needs raw sockets: CAP_NET_RAW") from error
        except (OSError, links.LinkError) as error:
            self.close()
            raise BackendError(f"user-space ESP: {error}") from error

    def attach(self, add_reader: AddReader) -> None:
        """Give all descriptors to the loop, which must let go of them before ``close``."""
        add_reader(self._tun.fileno(), self._seal)
        add_reader(self._watch.fileno(), self._watch.read)
        opened = self._open_ipv6 if self._version == 6 else self._open_ipv4
        add_reader(self._receiver.fileno(), opened)

    def install(self, sas: SaSet) -> None:
        """Two SAs out, two in; BackendError where an SPI or a pair of ports is taken."""
        keys = EspKeys(sas.alg, sas.ealg, sas.integrity_key, sas.cipher_key)
        out = [(_selector(sa), sa) for sa in sas.sas_from(self._side)]
        into = [(_SPI.pack(sa.spi), sa) for sa in sas.sas_to(self._side)]
        for selector, sa in out:
            if selector in self._out:
                raise BackendError(
                    f"an SA from {sa.source} port {sa.source_port} "
                    f"to {sa.destination} port {sa.destination_port} exists"
                )
        for spi, sa in into:
            if spi in self._in:
                raise BackendError(f"an SA with SPI {sa.spi} to {sa.destination} exists")
        self._out.update((selector, _Outbound(sa, keys)) for selector, sa in out)
        self._in.update((spi, _Inbound(sa, keys)) for spi, sa in into)

    def remove(self, sas: SaSet) -> None:
        """Take a set away, sending SAs first; one that is not there is no error.

        What its sockets have sent before is still in the device's queue and leaves under the SAs: the
        acknowledgement of a FIN, without which the far end would send it again and again.
        """
        while self._seal():
            pass
        for sa in sas.sas_from(self._side):
            selector = _selector(sa)
            outbound = self._out.get(selector)
            if outbound is not None and outbound.spi == sa.spi:
                del self._out[selector]
        for sa in sas.sas_to(self._side):
            spi = _SPI.pack(sa.spi)
            inbound = self._in.get(spi)
            if inbound is not None and inbound.serves(sa):
                del self._in[spi]

    def counters(self) -> dict[str, int]:
        """Totals since the start: packets and bytes of ESP each way, and what was dropped and why.

        ``no_sa_out``: a segment of a protected socket without SA; ``other_out``: neither TCP nor UDP
        (ICMP, neighbour discovery), or a fragment. ``unknown_spi`` … ``bad_padding``: what came and
        was refused. ``clear_in``: TCP segments in clear to a protected port, refused;
        ``clear_responses_in``: those of them that begin a SIP response. ``tun_queue_dropped``,
        ``raw_queue_dropped``: the kernel had no room for a packet of ours. ``sas``: how many there are
        now; ``raw_buffer``: granted receive buffer, bytes.
        """
        return self._count | {
            "clear_in": self._watch.segments,
            "clear_responses_in": self._watch.responses,
            "tun_queue_dropped": tun.queue_drops(self.device),
            "raw_queue_dropped": rawsocket.queue_drops(self._receiver),
            "sas": len(self._out) + len(self._in),
            "raw_buffer": self._receiver.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF),
        }

    def close(self) -> None:
        """Close the sockets and the device, which ends with its file."""
        for name in ("_tun", "_receiver", "_sender", "_watch"):
            file = getattr(self, name, None)
            if file is not None:
                file.close()

    def _seal_ipv4(self) -> bool:
        """Seal what the device hands out; whether there may be more."""
        read, descriptor, find = os.read, self._tun.fileno(), self._out.get
        send, count = self._sender.sendto, self._count
        for _ in range(BATCH):
            try:
                packet = read(descriptor, _READ_SIZE)
            except BlockingIOError:
                return False
            outbound = find(packet[12:24])
            protocol = packet[9]
            if (
                outbound is None
                or protocol not in _TRANSPORTS
                or packet[0] != 0x45
                or packet[6] & 0x3F
                or packet[7]
            ):
                self._drop_out(packet[0] == 0x45 and not packet[6] & 0x3F, protocol)
                continue
            iv_size = outbound.keys.iv_size
            iv = os.urandom(iv_size) if iv_size else b""
            try:
                esp = outbound.seal(protocol, packet[20:], iv)
                # the kernel fills in length and checksum (raw(7))
                sent = send(packet[:9] + b"\x32" + packet[10:20] + esp, outbound.address)
            except EspError as error:
                count[error.counter] += 1
            except OSError:
                count["raw_send_failed"] += 1
            else:
                count["packets_out"] += 1
                count["bytes_out"] += sent
        return True

    def _seal_ipv6(self) -> bool:
        """Seal what the device hands out; whether there may be more."""
        read, descriptor, find = os.read, self._tun.fileno(), self._out.get
        send, count = self._sender.sendto, self._count
        for _ in range(BATCH):
            try:
                packet = read(descriptor, _READ_SIZE)
            except BlockingIOError:
                return False
            outbound = find(packet[8:44])
            protocol = packet[6]
            if outbound is None or protocol not in _TRANSPORTS:
                self._drop_out(True, protocol)
                continue
            iv_size = outbound.keys.iv_size
            iv = os.urandom(iv_size) if iv_size else b""
            try:
                esp = outbound.seal(protocol, packet[40:], iv)
                header = _IPV6_HEADER.pack(packet[:4], len(esp), _ESP, packet[7])
                sent = send(header + packet[8:40] + esp, outbound.address)
            except EspError as error:
                count[error.counter] += 1
            except OSError:
                count["raw_send_failed"] += 1
            else:
                count["packets_out"] += 1
                count["bytes_out"] += sent
        return True

    def _drop_out(self, whole: bool, protocol: int) -> None:
        kind = "no_sa_out" if whole and protocol in _TRANSPORTS else "other_out"
        self._count[kind] += 1

    def _open_ipv4(self) -> None:
        receive, find, count = self._receiver.recv, self._in.get, self._count
        write, descriptor = os.write, self._tun.fileno()
        for _ in range(BATCH):
            try:
                packet = receive(_DATAGRAM_SIZE)
            except BlockingIOError:
                return
            except OSError:  # an ICMP error came in for something sent
                continue
            start = (packet[0] & 0x0F) << 2
            inbound = find(packet[start : start + 4])
            if inbound is None:
                count["unknown_spi"] += 1
                continue
            if packet[12:20] != inbound.addresses:
                count["wrong_address"] += 1
                continue
            try:
                protocol, segment = inbound.open(packet[start:])
            except EspError as error:
                count[error.counter] += 1
                continue
            if segment[:4] != inbound.ports:
                count["wrong_port"] += 1
                continue
            try:
                write(descriptor, _ipv4_header(packet, start, protocol, len(segment)) + segment)
            except OSError:
                count["tun_write_failed"] += 1
            else:
                count["packets_in"] += 1
                count["bytes_in"] += len(packet)

    def _open_ipv6(self) -> None:
        receive, find, count = self._receiver.recvfrom, self._in.get, self._count
        write, descriptor = os.write, self._tun.fileno()
        for _ in range(BATCH):
            try:
                packet, source = receive(_DATAGRAM_SIZE)
            except BlockingIOError:
                return
            except OSError:
                continue
            inbound = find(packet[:4])
            if inbound is None:
                count["unknown_spi"] += 1
                continue
            if source[0] != inbound.source:
                count["wrong_address"] += 1
                continue
            try:
                protocol, segment = inbound.open(packet)
            except EspError as error:
                count[error.counter] += 1
                continue
            if segment[:4] != inbound.ports:
                count["wrong_port"] += 1
                continue
            header = _IPV6_HEADER.pack(b"\x60\0\0\0", len(segment), protocol, 64)
            try:
                write(descriptor, header + inbound.addresses + segment)
            except OSError:
                count["tun_write_failed"] += 1
            else:
                count["packets_in"] += 1
                count["bytes_in"] += len(packet)


def _ipv4_header(packet: bytes, start: int, protocol: int, size: int) -> bytes:
    """The received header (up to ``start``) for what was inside: length, protocol, checksum change."""
    (received,) = _WORD.unpack_from(packet, 2)
    (check,) = _WORD.unpack_from(packet, 10)
    length = start + size
    # RFC 1624: the complement of a sum rises by as much as the summed words fall
    check += received - length + _ESP - protocol
    check = (check & 0xFFFF) + (check >> 16)
    fixed = _IPV4_HEADER.pack(packet[:2], length, packet[4:9], protocol, check, packet[12:20])
    return fixed + packet[20:start]


def _selector(sa: Sa) -> bytes:
    """Addresses and ports as they stand in a packet that this SA takes."""
    ports = _PORTS.pack(sa.source_port, sa.destination_port)
    return _packed(sa.source) + _packed(sa.destination) + ports


def _packed(address: str) -> bytes:
    return socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)


def _text(address: bytes) -> str:
    return socket.inet_ntop(socket.AF_INET6 if len(address) == 16 else socket.AF_INET, address)
