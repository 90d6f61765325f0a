"""Who is registered, until when and where (RFC 3261 §10.3, TS 24.229 §5.4.1).

One contact per private identity: without outbound (RFC 5626) a phone has one registration flow, so
a REGISTER with another contact replaces the one before.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from imsbench.protocol.address import canonical_or_same
from imsbench.protocol.sip import Request, Response
from simulators.core.register import Register
from simulators.core.userdata import UserData

OnAnswer = Callable[[Response | None], None]


class PhoneRoute(Protocol):
    """The way to a registered phone, as the P-CSCF offers it (the Path of RFC 3327)."""

    def send(self, request: Request, on_answer: OnAnswer) -> None:
        """Send a request; the final response, or None: it could not be sent or was not answered."""
        ...

    def expired(self) -> None:
        """The registration ran out; SAs live on for their margin."""
        ...

    def release(self) -> None:
        """The network ended the registration: give up SAs and connections, later."""
        ...


@dataclass(slots=True)
class Subscription:
    """One reg-event dialog (RFC 3680, RFC 6665)."""

    call_id: str
    local_tag: str
    local: str
    """Our From value: the subscriber's To with our tag."""
    remote: str
    """Our To value: the subscriber's From."""
    target: str
    """Remote target: URI of the SUBSCRIBE's Contact."""
    expires_at: float
    """On the loop's clock, seconds."""
    cseq: int = 0
    """Of the last NOTIFY."""
    remote_cseq: int = 0
    """Of the last SUBSCRIBE."""
    version: int = 0
    """Of the next reginfo document (RFC 3680 §5.1)."""
    timer: asyncio.TimerHandle | None = None


@dataclass(slots=True)
class Registration:
    """An implicit registration set with its contact."""

    number: int
    """Distinct in this process: makes the ids of reginfo."""
    impi: str
    impu: str
    """The identity that was registered explicitly."""
    user_data: UserData
    contact: str
    """Contact value without expires."""
    contact_uri: str
    call_id: str
    cseq: int
    route: PhoneRoute
    expires_at: float
    """On the loop's clock, seconds."""
    event: str = "registered"
    """Last contact event (RFC 3680 §5.2.3)."""
    timer: asyncio.TimerHandle | None = None
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    """By our tag."""

    @property
    def identities(self) -> tuple[str, ...]:
        """Public identities that may be used, the default first."""
        return self.user_data.identities


class Registrar:
    """The registrations of an S-CSCF, by private and by public identity."""

    def __init__(self, counters: Counter[str], on_expired: Callable[[Registration], None]) -> None:
        self._by_impi: dict[str, Registration] = {}
        self._by_impu: dict[str, Registration] = {}
        self._on_expired = on_expired
        self._counters = counters
        self._number = 0

    def __len__(self) -> int:
        return len(self._by_impi)

    def __iter__(self) -> Iterator[Registration]:
        return iter(list(self._by_impi.values()))

    def by_impi(self, impi: str) -> Registration | None:
        """The registration of a private identity."""
        return self._by_impi.get(impi)

    def by_impu(self, impu: str) -> Registration | None:
        """The registration that a (canonical) public identity, barred or not, belongs to."""
        return self._by_impu.get(impu)

    def add(
        self, register: Register, user_data: UserData, route: PhoneRoute, expires_s: int
    ) -> Registration:
        """A new registration, or a re-authenticated one renewed with a new profile."""
        registration = self._by_impi.get(register.impi)
        if registration is None:
            self._number += 1
            registration = Registration(
                self._number, register.impi, register.impu, user_data, "", "", "", 0, route, 0.0
            )
            self._by_impi[register.impi] = registration
        self.replace_profile(registration, user_data)
        self.refresh(registration, register, route, expires_s)
        return registration

    def replace_profile(self, registration: Registration, user_data: UserData) -> None:
        """The implicit set is this from now on (TS 29.228 §6.2.2.1, §6.1.2)."""
        self._forget_identities(registration)
        registration.user_data = user_data
        for identity in _all_identities(registration):
            self._by_impu[identity] = registration

    def refresh(
        self, registration: Registration, register: Register, route: PhoneRoute, expires_s: int
    ) -> None:
        """Renew the contact and its expiry (RFC 3261 §10.3 step 7)."""
        loop = asyncio.get_running_loop()
        registration.contact = register.contact
        registration.contact_uri = register.contact_uri
        registration.call_id = register.request.call_id
        registration.cseq = register.request.cseq
        registration.route = route
        registration.expires_at = loop.time() + expires_s
        if registration.timer is not None:
            registration.timer.cancel()
        registration.timer = loop.call_later(expires_s, self._expire, registration)

    def remove(self, registration: Registration) -> None:
        """Forget a registration; its subscriptions are the caller's to end."""
        if registration.timer is not None:
            registration.timer.cancel()
        if self._by_impi.get(registration.impi) is registration:
            del self._by_impi[registration.impi]
        self._forget_identities(registration)

    def _expire(self, registration: Registration) -> None:
        self._counters["registrations expired"] += 1
        self.remove(registration)
        self._on_expired(registration)

    def _forget_identities(self, registration: Registration) -> None:
        for identity in _all_identities(registration):
            if self._by_impu.get(identity) is registration:
                del self._by_impu[identity]


def _all_identities(registration: Registration) -> list[str]:
    data = registration.user_data
    listed = map(canonical_or_same, (*data.identities, *data.barred))
    return [registration.impu, *listed]
