"""Kernel ESP: SA sets as XFRM states and policies of this network namespace (RFC 4301 §4.4).

    protected socket --TCP--> policy (out) --> state: ESP --> outer link
    protected socket <--TCP-- policy (in)  <-- state: ESP <-- outer link

Theory of operation
* An SA is a state (keys, SPI, replay window) and a policy: this flow, by both addresses and ports and
  any protocol, goes out in that SA or not at all, and comes in by it or is dropped. States carry the
  same selector, so a packet of another flow in an SA is dropped too (RFC 4301 §5.2).
* The policies are exact, one per SA: a wildcard policy would gather every SA in its list of cached
  states on Linux 6.13 and later.
* Guards are policies that block the protected ports themselves, right behind those of the SAs. What
  comes to a protected port in clear is dropped and counted (``clear_in``), before there is an SA, while
  there are some and after they went; and nothing leaves from one in clear: no reset, no segment sent
  again, no last acknowledgement of a connection whose SAs are gone (``no_sa_out``).
* So a protected socket is bound to no device, and no second listener waits for clear connections.
* A set is one batch of netlink: states first, then policies, and the other way round when it goes, so
  that no policy waits for a state. A set that the kernel refuses in part is taken away again.
* States and policies bear this program's mark (reqid, priority). In a namespace that outlives its
  process they are swept at the next start; nothing else there is touched.

Packets never pass through this process. What each SA carried is read from the kernel, what was refused
from its /proc/net/xfrm_stat, which counts for the namespace and, where it can, under the same names as
``userspace`` does.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

from imsbench.host import links
from imsbench.host import xfrm_messages as messages
from imsbench.host.backend import AddReader, BackendError, Side
from imsbench.host.netlink import NETLINK_XFRM, NetlinkError, NetlinkSocket, Refusal, Request
from imsbench.protocol.secagree import Sa, SaSet

_STATISTICS = Path("/proc/thread-self/net/xfrm_stat")
_GONE = (errno.ENOENT, errno.ESRCH)
_SWEEP_BATCH = 256

_NAMES = {
    "XfrmInNoStates": "unknown_spi",
    "XfrmInStateProtoError": "bad_icv",
    "XfrmInStateSeqError": "replayed",
    "XfrmInStateMismatch": "wrong_port",
    "XfrmInTmplMismatch": "clear_in",
    "XfrmInNoPols": "clear_in",
    "XfrmInPolBlock": "clear_in",
    "XfrmOutPolBlock": "no_sa_out",
    "XfrmOutNoStates": "no_sa_out",
    "XfrmOutStateSeqError": "sequence_exhausted",
}
"""Counters of the kernel that have a name here; the others keep theirs."""
_PROBES = {
    4: Sa(0x494D, "192.0.2.1", 1, "192.0.2.2", 1),
    6: Sa(0x494D, "2001:db8::1", 1, "2001:db8::2", 1),
}

_SetKey = tuple[str, int, int, int, int, int]


class KernelEsp:
    """SaBackend over the kernel's XFRM (RFC 4303 transport mode, TS 33.203 §6.3)."""

    def __init__(
        self, side: Side, ip_version: int, *, protected_ports: Sequence[tuple[int, int]] = ()
    ) -> None:
        """Sweep what a dead process left and guard the ports; BackendError if the host refuses.

        ``protected_ports`` are the (first, last) ranges of this side's protected ports.
        """
        self.name = "kernel"
        self.device = ""
        self._side = side
        self._version = ip_version
        self._sets: set[_SetKey] = set()
        self._carried = dict.fromkeys(("packets_out", "bytes_out", "packets_in", "bytes_in"), 0)
        self._before = _read_statistics()
        self._lock = _lock_namespace(ip_version)
        try:
            self._netlink = _open_netlink()
            self._sweep()
            self._guard(protected_ports)
        except BackendError:
            self._release()
            raise

    def attach(self, add_reader: AddReader) -> None:
        """Nothing to carry: the kernel does."""

    def install(self, sas: SaSet) -> None:
        """Four states and four policies in one batch; BackendError names what the kernel refuses."""
        try:
            algorithms = messages.algorithm_attributes(
                sas.alg, sas.ealg, sas.integrity_key, sas.cipher_key
            )
        except messages.UnsupportedAlgorithmError as error:
            raise BackendError(str(error)) from error
        made = self._messages(sas)
        requests = [(messages.NEW_STATE, m.new_state(algorithms)) for m in made]
        requests += [(messages.NEW_POLICY, m.new_policy()) for m in made]
        refusals = self._transact(requests)
        if refusals:
            self._roll_back(made, refusals)
            place = min(refusals)
            refusal = refusals[place]
            text = _named(refusal, self._version, f"{sas.alg} with {sas.ealg}")
            ordered = (*sas.sas_from(self._side), *sas.sas_to(self._side))
            raise BackendError(_install_error(place, ordered, refusal, text))
        self._sets.add(_key(sas))

    def remove(self, sas: SaSet) -> None:
        """Policies first, then states, read for the last time; a set that is not there is no error."""
        key = _key(sas)
        if key not in self._sets:
            return
        self._sets.remove(key)
        made = self._messages(sas)
        requests = [(messages.DELETE_POLICY, m.policy_id()) for m in made]
        requests += [(messages.GET_STATE, m.state_id()) for m in made]
        requests += [(messages.DELETE_STATE, m.state_id()) for m in made]
        refusals = self._transact(requests)
        for refusal in refusals.values():
            if refusal.number not in _GONE:  # flushed by somebody else: what was wanted
                raise BackendError(f"the kernel does not delete an SA set: {refusal}")

    def counters(self) -> dict[str, int]:
        """Totals since the start; one netlink dump over all SAs.

        ``packets_out`` … ``bytes_in``: what SAs carried, bytes without ESP (messages.Use). ``clear_in``:
        packets in clear to a protected port, dropped. ``no_sa_out``: packets from a protected port
        without SA, not sent. ``unknown_spi``, ``bad_icv`` (or broken padding), ``replayed``,
        ``wrong_port`` (the SA of another flow): what came and was dropped. ``Xfrm…``: the rest of
        /proc/net/xfrm_stat, where it is not zero. ``sas``: how many there are now.
        """
        count = self._carried | dict.fromkeys(_NAMES.values(), 0)
        for state in self._dump(messages.GET_STATE):
            self._add_use(count, state)
        for name, value in _read_statistics().items():
            risen = value - self._before.get(name, 0)
            if name in _NAMES:
                count[_NAMES[name]] += risen
            elif risen:
                count[name] = risen
        return count | {"sas": 4 * len(self._sets)}

    def close(self) -> None:
        """Take states, policies and guards away; the sockets they served must be closed by then."""
        try:
            self._sweep()
        finally:
            self._release()

    # private

    def _release(self) -> None:
        for name in ("_netlink", "_lock"):
            held = getattr(self, name, None)
            if held is not None:
                held.close()

    def _messages(self, sas: SaSet) -> list[messages.SaMessages]:
        made = [messages.SaMessages(sa, "out") for sa in sas.sas_from(self._side)]
        made += [messages.SaMessages(sa, "in") for sa in sas.sas_to(self._side)]
        return made

    def _transact(self, requests: Sequence[Request]) -> dict[int, Refusal]:
        """Have them done; states that are told on the way count as carried."""
        try:
            answers = self._netlink.transact(requests)
        except NetlinkError as error:
            raise BackendError(f"kernel ESP: {error}") from error
        for state in answers.bodies:
            self._add_use(self._carried, state)
        return answers.refusals

    def _dump(self, kind: int) -> Iterator[bytes]:
        try:
            yield from self._netlink.dump(kind)
        except NetlinkError as error:
            raise BackendError(f"kernel ESP: {error}") from error

    def _add_use(self, count: dict[str, int], state: bytes) -> None:
        use = messages.read_use(state, self._version)
        if use is None:
            return
        way, packets, carried = use
        count["packets_" + way] += packets
        count["bytes_" + way] += carried

    def _roll_back(self, made: Sequence[messages.SaMessages], refusals: dict[int, Refusal]) -> None:
        """Delete what was made of a set, and only that: what exists already is another's."""
        requests = [
            (messages.DELETE_POLICY, m.policy_id())
            for place, m in enumerate(made, len(made))
            if place not in refusals
        ]
        requests += [
            (messages.DELETE_STATE, m.state_id())
            for place, m in enumerate(made)
            if place not in refusals
        ]
        if requests:
            self._transact(requests)

    def _guard(self, protected_ports: Sequence[tuple[int, int]]) -> None:
        if not protected_ports:
            return
        # A clear connection must not get one of these ports by chance.
        try:
            links.reserve_ports(protected_ports)
        except links.LinkError as error:
            raise BackendError(f"kernel ESP: {error}") from error
        requests = []
        for port, mask in messages.port_masks(protected_ports):
            for direction in messages.DIRECTIONS:
                guard = messages.new_guard(self._version, direction, port, mask)
                requests.append((messages.NEW_POLICY, guard))
        for refusal in self._transact(requests).values():
            raise BackendError(f"the kernel does not guard the protected ports: {refusal}")

    def _sweep(self) -> None:
        """Delete all that bears the mark, policies before states."""
        requests: list[Request] = []
        for body in self._dump(messages.GET_POLICY):
            policy = messages.own_policy(body, self._version)
            if policy is not None:
                requests.append((messages.DELETE_POLICY, policy))
        for body in self._dump(messages.GET_STATE):
            state = messages.own_state(body, self._version)
            if state is not None:
                requests.append((messages.DELETE_STATE, state))
        for start in range(0, len(requests), _SWEEP_BATCH):
            self._transact(requests[start : start + _SWEEP_BATCH])


def esp_refusal(ip_version: int) -> str:
    """Why the kernel carries no ESP in this network namespace, and what to load; "" if it does.

    Tried for real: an SA between documentation addresses is added and deleted, which also makes the
    kernel load its modules.
    """
    probe = messages.SaMessages(_PROBES[ip_version], "out")
    algorithms = messages.algorithm_attributes("hmac-sha-1-96", "null", bytes(20), b"")
    try:
        netlink = _open_netlink()
    except BackendError as error:
        return str(error)
    try:
        answers = netlink.transact(
            [
                (messages.NEW_STATE, probe.new_state(algorithms)),
                (messages.DELETE_STATE, probe.state_id()),
            ]
        )
    except NetlinkError as error:
        return f"kernel ESP: {error}"
    finally:
        netlink.close()
    refusal = answers.refusals.get(0)
    if refusal is None or refusal.number == errno.EEXIST:  # somebody else tries it right now
        return ""
    return _named(refusal, ip_version, "hmac-sha-1-96 with null")


def kernel_has_esp(ip_version: int) -> bool:
    """Whether the kernel carries ESP in this network namespace (see esp_refusal)."""
    return not esp_refusal(ip_version)


def _open_netlink() -> NetlinkSocket:
    try:
        return NetlinkSocket(NETLINK_XFRM)
    except OSError as error:
        raise BackendError(
            f"the kernel has no XFRM ({error.strerror}): load xfrm_user, or use ipsec: userspace"
        ) from error


def _lock_namespace(ip_version: int) -> socket.socket:
    """Held by the one backend of a network namespace: an abstract Unix address belongs to it.

    An SA is named by destination, SPI and protocol: two ends in one namespace would collide, and
    sweeping must not take what is in use.
    """
    lock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    try:
        lock.bind(f"\0imsbench-xfrm-ipv{ip_version}")
    except OSError as error:
        lock.close()
        raise BackendError(
            f"another process carries IPv{ip_version} SAs by the kernel in this network namespace: "
            "end it, or use another namespace"
        ) from error
    return lock


def _read_statistics() -> dict[str, int]:
    """/proc/net/xfrm_stat of this network namespace."""
    try:
        lines = _STATISTICS.read_text().splitlines()
    except OSError as error:
        raise BackendError(
            f"the kernel does not count what IPsec drops ({_STATISTICS}: {error.strerror}): it needs "
            "CONFIG_XFRM_STATISTICS, or use ipsec: userspace"
        ) from error
    return {name: int(value) for name, value in map(str.split, lines)}


def _key(sas: SaSet) -> _SetKey:
    return (sas.phone_address, sas.port_uc, sas.spi_uc, sas.spi_us, sas.spi_pc, sas.spi_ps)


def _install_error(place: int, sas: Sequence[Sa], refusal: Refusal, text: str) -> str:
    """What failed of a set: its states come first, in the order of ``sas``, then their policies."""
    sa = sas[place % len(sas)]
    if place >= len(sas):
        flow = f"{sa.source} port {sa.source_port} to {sa.destination} port {sa.destination_port}"
        if refusal.number == errno.EEXIST:
            return f"a policy from {flow} exists"
        return f"the kernel does not take a policy from {flow}: {text}"
    if refusal.number == errno.EEXIST:
        return f"an SA with SPI {sa.spi} to {sa.destination} exists"
    return text


def _named(refusal: Refusal, ip_version: int, algorithms: str) -> str:
    """A refusal of the kernel's, with what to do about it."""
    match refusal.number:
        case errno.EPROTONOSUPPORT | errno.ENOENT | errno.EAFNOSUPPORT:
            module = "esp6" if ip_version == 6 else "esp4"
            return (
                f"the kernel has no ESP for IPv{ip_version} ({refusal}): load it (modprobe {module}), "
                "or use ipsec: userspace"
            )
        case errno.ENOSYS:
            return (
                f"the kernel lacks an algorithm of {algorithms} ({refusal}): load it "
                "(modprobe authenc, hmac, sha1, md5, cbc, aes, crypto_null …)"
            )
        case errno.EPERM:
            return "kernel ESP needs CAP_NET_ADMIN over this network namespace"
    return f"the kernel does not take an SA: {refusal}"
