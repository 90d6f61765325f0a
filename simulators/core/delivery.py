"""How the P-CSCF's own requests, and what it forwards, reach a phone: inside its SAs, by TCP or UDP."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from simulators.core.phonelink import PhoneLink
from simulators.core.phones import Phone
from simulators.core.transport import ConnectionOwner
from simulators.core.ways import DatagramFlow, Udp


class Delivery:
    """Sends to phones; a phone that registered by UDP gets datagrams, unless they were too large."""

    def __init__(
        self, owner: ConnectionOwner, udp: Udp, host: str, sent_by: str, counters: Counter[str]
    ) -> None:
        self._owner = owner
        self._udp = udp
        self._host = host
        self._sent_by = sent_by
        self._counters = counters

    def via(self, branch: str) -> str:
        """The Via of this P-CSCF; of what goes by UDP it is changed on its way out."""
        return f"SIP/2.0/TCP {self._sent_by};branch={branch}"

    def deliver(self, phone: Phone, data: bytes, on_failed: Callable[[], None]) -> None:
        """Send to a phone by the P-CSCF's own connection, with ipsec off by the phone's."""
        flow = phone.datagrams
        datagram = self._udp.as_datagram(data) if flow is not None else None
        if flow is not None and datagram is not None:
            flow.write(datagram)
        elif phone.sas is not None and phone.sas.link is not None:
            phone.sas.link.send(data, on_failed)
        elif flow is not None:
            self._link(flow).send(data, on_failed)
        elif phone.flow is None or not phone.flow.write(data):
            self._counters["requests without a connection to the phone"] += 1
            on_failed()

    def _link(self, flow: DatagramFlow) -> PhoneLink:
        """ipsec off: our connection to the port that the phone's datagrams come from."""
        if flow.link is None:
            far_end = flow.peer_address, flow.peer_port
            flow.link = PhoneLink(self._owner, (self._host, 0), far_end)
        return flow.link
