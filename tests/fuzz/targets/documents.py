"""XML from the network: reginfo at the phone, User-Data at the S-CSCF."""

from __future__ import annotations

from collections.abc import Hashable

from imsbench.protocol.reginfo import ReginfoError, parse_reginfo, serialize_reginfo
from simulators.core.userdata import UserDataError, parse_user_data
from tests.fuzz.harness import Run, Target, kind_of
from tests.simulators.core_helpers import POPULATION, user_data_of

REGINFO = b"""<?xml version="1.0" encoding="UTF-8"?>
<reginfo xmlns="urn:ietf:params:xml:ns:reginfo" version="1" state="full">
<registration aor="sip:a@b" id="r1" state="active"><contact id="c1" state="active" event="registered"
 expires="600" q="0.5"><uri>sip:1@198.18.0.1:6101</uri><unknown-param name="x">"y"</unknown-param>
</contact></registration><registration aor="tel:+1" id="r2" state="terminated">
<contact id="c2" state="terminated" event="expired"><uri>sip:2@b</uri></contact></registration></reginfo>
"""
_BOMB = (
    b'<?xml version="1.0"?><!DOCTYPE r [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]>'
    b'<reginfo xmlns="urn:ietf:params:xml:ns:reginfo" version="0" state="full">&b;</reginfo>'
)
_WORDS = (
    b"<", b"/>", b"</", b"<!--", b"-->", b"<![CDATA[", b"]]>", b"<?xml ", b"?>", b"<!DOCTYPE r [", b"]>",
    b'<!ENTITY a "b">', b"&a;", b"&amp;", b"&#0;", b"&#13;", b"&#x10FFFF;", b"&#xD800;", b' xmlns="urn:x"',
    b' encoding="utf-7"', b' encoding="UTF-16"', b' encoding="x"', b' encoding="idna"',
    b' encoding="cp037"', b' standalone="no"', b"<a>" * 20, b"<a>" * 400, b"<uri>", b"</uri>", b"xml:",
)  # fmt: skip


def _reginfo() -> Run:
    def run(data: bytes) -> Hashable:
        try:
            document = parse_reginfo(data)
        except ReginfoError as error:
            return kind_of(error)
        assert parse_reginfo(serialize_reginfo(document)) == document, "written, it differs"
        return document.state, min(len(document.registrations), 6)

    return run


def _user_data() -> Run:
    def run(data: bytes) -> Hashable:
        try:
            read = parse_user_data(data)
        except UserDataError as error:
            return kind_of(error)
        for identity in (*read.identities, *read.barred):
            assert identity.isprintable(), "an identity that would break a header"
        return min(len(read.identities), 6), min(len(read.barred), 6)

    return run


def _reginfo_seeds() -> list[bytes]:
    utf16 = REGINFO.replace(b"UTF-8", b"UTF-16").decode().encode("utf-16")
    return [REGINFO, REGINFO.replace(b"\n", b""), utf16, _BOMB]


def _user_data_seeds() -> list[bytes]:
    plain = user_data_of(POPULATION.subscriber(0))
    head = b'<?xml version="1.0" encoding="UTF-8"?>\n'
    return [plain, head + plain, head.replace(b"UTF-8", b"latin-1") + plain, _BOMB]


TARGETS = [
    Target("reginfo", "reg-event documents", _reginfo, _reginfo_seeds, _WORDS, 300_000),
    Target("userdata", "User-Data of the HSS", _user_data, _user_data_seeds, _WORDS, 300_000),
]
