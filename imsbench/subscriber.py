"""Subscribers: number n -> identities and keys, computed and never stored.

Phones and HSS agree on 50,000 subscribers without a file because both compute them from
(seed, n). Identities follow TS 23.003 §13 (as cited in the project's notes, unverified).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Subscriber:
    """One IMS subscription: one private identity, one implicit registration set."""

    n: int
    """Number in the population, from 0."""
    imsi: str
    """15 digits: MCC, MNC, MSIN."""
    msisdn: str
    """E.164 digits without the plus."""
    domain: str
    """Home network domain name."""
    k: bytes
    """Permanent key, 16 bytes."""
    opc: bytes | None
    """OPc, 16 bytes; None where the operator's OP is given instead."""
    op: bytes | None
    """OP, 16 bytes; None where OPc is known."""

    @property
    def impi(self) -> str:
        """Private identity: IMSI@home domain."""
        return f"{self.imsi}@{self.domain}"

    @property
    def impu_temporary(self) -> str:
        """Temporary public identity, derived from the IMSI; registers, and is barred else."""
        return f"sip:{self.imsi}@{self.domain}"

    @property
    def impu_sip(self) -> str:
        """Default public identity, as a SIP URI of the MSISDN."""
        return f"sip:+{self.msisdn}@{self.domain}"

    @property
    def impu_tel(self) -> str:
        """Public identity as a tel URI."""
        return f"tel:+{self.msisdn}"

    @property
    def impus(self) -> tuple[str, str, str]:
        """The implicit registration set: temporary (barred), sip, tel."""
        return self.impu_temporary, self.impu_sip, self.impu_tel


@dataclass(frozen=True, slots=True)
class Population:
    """Subscribers 0 … count-1 of one home network."""

    count: int
    """How many there are."""
    seed: int = 1
    """From which the keys are derived."""
    mcc: str = "001"
    """Mobile country code, 3 digits."""
    mnc: str = "01"
    """Mobile network code, 2 or 3 digits; padded to 3 in the domain."""
    first_msin: int = 1
    """MSIN of subscriber 0."""
    first_msisdn: int = 1_555_000_0001
    """MSISDN of subscriber 0."""
    domain: str = ""
    """Home domain; empty: ims.mncNNN.mccNNN.3gppnetwork.org."""
    k: bytes | None = None
    """One K for all; None: derived from (seed, n)."""
    op: bytes | None = None
    """The operator's OP; with it no OPc is given."""
    opc: bytes | None = None
    """One OPc for all; None: derived from (seed, n)."""

    @property
    def home_domain(self) -> str:
        """The home network's domain name (TS 23.003 §13.2)."""
        return self.domain or f"ims.mnc{self.mnc.zfill(3)}.mcc{self.mcc}.3gppnetwork.org"

    def subscriber(self, n: int) -> Subscriber:
        """Subscriber n; IndexError if there is none."""
        if not 0 <= n < self.count:
            raise IndexError(f"subscriber {n} of {self.count}")
        width = 15 - len(self.mcc) - len(self.mnc)
        imsi = f"{self.mcc}{self.mnc}{self.first_msin + n:0{width}d}"
        opc = None if self.op is not None else self.opc or self._derive(b"opc", n)
        return Subscriber(
            n=n,
            imsi=imsi,
            msisdn=str(self.first_msisdn + n),
            domain=self.home_domain,
            k=self.k or self._derive(b"k", n),
            opc=opc,
            op=self.op,
        )

    def number_of(self, identity: str) -> int | None:
        """The number behind an IMPI or any IMPU; None if it is nobody's."""
        scheme, _, rest = identity.partition(":")
        if not rest:
            rest = scheme  # an IMPI has no scheme
        elif scheme not in ("sip", "tel"):
            return None
        user, _, domain = rest.partition(";")[0].partition("@")
        if scheme != "tel" and domain.lower() != self.home_domain.lower():
            return None
        if user.startswith("+"):
            return None if user.startswith("+0") else self._index(user[1:], self.first_msisdn)
        prefix = self.mcc + self.mnc
        if scheme == "tel" or len(user) != 15 or not user.startswith(prefix):
            return None
        return self._index(user[len(prefix) :], self.first_msin)

    def _index(self, digits: str, first: int) -> int | None:
        # Neither an E.164 number nor an IMSI is longer; int() refuses thousands of digits.
        if len(digits) > 15 or not digits.isascii() or not digits.isdigit():
            return None
        n = int(digits) - first
        return n if 0 <= n < self.count else None

    def _derive(self, what: bytes, n: int) -> bytes:
        text = b"imsbench|%s|%d|%d" % (what, self.seed, n)
        return hashlib.sha256(text).digest()[:16]
