"""The torture messages of RFC 4475, one for each of its sections, and what becomes of each here.

The messages in ``tests/data/torture`` have the features of the RFC's, under its names, in octets of our own.
A benchmark's phone is no general-purpose SIP element: it reads what messages need to find their
transaction and leaves every other header as text until somebody asks. So a fault in a header that nobody
reads here harms nothing and refuses nothing; ``note`` says so where the RFC would have it refused.
"""

from __future__ import annotations

import pathlib
from dataclasses import dataclass

import pytest

from imsbench.protocol.address import canonical_identity, parse_name_addr, parse_uri
from imsbench.protocol.digest import parse_digest
from imsbench.protocol.sip import (
    Malformed,
    Message,
    Request,
    Response,
    parse_message,
    serialize_message,
    tag_of,
)
from imsbench.protocol.stream import SipReader
from simulators.core.agreement import unknown_extensions
from simulators.core.register import parse_register

FOLDER = pathlib.Path(__file__).parents[1] / "data" / "torture"
OK = "accepted"


@dataclass(frozen=True)
class Case:
    """One message: what the RFC wants, what the reader of datagrams and that of streams do."""

    name: str
    section: str
    wants: str
    datagram: str = OK
    stream: str = OK
    """Where a stream differs, how: bytes that are awaited, or a framing that is lost."""
    note: str = ""
    """Where we differ from the RFC: stricter or laxer, and why."""


CASES = (
    Case("wsinv", "3.1.1.1", "accept"),
    Case(
        "intmeth", "3.1.1.2", "accept", "NUL in headers", "NUL in headers",
        note="stricter: only a quoted-pair may hold a NUL; no IMS core sends one, and texts with NUL break "
             "logs and C programs that read the results",
    ),
    Case("esc01", "3.1.1.3", "accept"),
    Case("escnull", "3.1.1.4", "accept",
         note="the reference core refuses two contacts (TS 24.229 §5.1.1.2: one a registration)"),
    Case("esc02", "3.1.1.5", "accept"),
    Case("lwsdisp", "3.1.1.6", "accept"),
    Case("longreq", "3.1.1.7", "accept"),
    Case("dblreq", "3.1.1.8", "accept, octets behind it dropped", OK, "accepted, then no Via"),
    Case("semiuri", "3.1.1.9", "accept"),
    Case("transports", "3.1.1.10", "accept"),
    Case("mpart01", "3.1.1.11", "accept"),
    Case("unreason", "3.1.1.12", "accept"),
    Case("noreason", "3.1.1.13", "accept"),
    Case("badinv01", "3.1.2.1", "400",
         note="laxer: empty list entries and parameters are passed over wherever values are cut up"),
    Case("clerr", "3.1.2.2", "400, a stream is closed", "Content-Length beyond the datagram",
         "awaited"),
    Case("ncl", "3.1.2.3", "400, a stream is closed", "bad Content-Length", "bad Content-Length"),
    Case("scalar02", "3.1.2.4", "400", "bad CSeq", "bad CSeq"),
    Case("scalarlg", "3.1.2.5", "drop", "bad CSeq", "bad CSeq"),
    Case("quotbal", "3.1.2.6", "400", note="refused where the To is read: canonical_identity()"),
    Case("ltgtruri", "3.1.2.7", "400", note="refused where the Request-URI is read: parse_uri()"),
    Case("lwsruri", "3.1.2.8", "400", "bad start line", "bad start line"),
    Case("lwsstart", "3.1.2.9", "400", "bad start line", "bad start line"),
    Case("trws", "3.1.2.10", "400", "bad start line", "bad start line"),
    Case("escruri", "3.1.2.11", "400",
         note="laxer: nobody here routes by a Request-URI; parse_uri() leaves its headers out"),
    Case("baddate", "3.1.2.12", "400", note="laxer: nobody here reads a Date"),
    Case("regbadct", "3.1.2.13", "400", note="refused where the Contact is read: parse_register()"),
    Case("badaspec", "3.1.2.14", "400, or accept", note="accepted: blanks inside <> are taken off"),
    Case("baddn", "3.1.2.15", "400, or accept",
         note="accepted: the comma of an unquoted display name does no harm in a From, which is no list"),
    Case("badvers", "3.1.2.16", "505", "bad start line", "bad start line",
         note="as any start line that is not SIP/2.0's; a phone sends no 505"),
    Case("mismatch01", "3.1.2.17", "400", "CSeq method differs", "CSeq method differs"),
    Case("mismatch02", "3.1.2.18", "501 or 400", "CSeq method differs", "CSeq method differs"),
    Case("bigcode", "3.1.2.19", "drop", "bad status line", "bad status line"),
    Case("badbranch", "3.2.1", "400, or an RFC 2543 transaction",
         note="laxer: over TCP nothing is retransmitted, so no request is matched by its branch"),
    Case("insuf", "3.3.1", "400", "no From", "no From"),
    Case("unkscm", "3.3.2", "416", note="refused where the Request-URI is read: parse_uri()"),
    Case("novelsc", "3.3.3", "416", note="refused where the Request-URI is read: parse_uri()"),
    Case("unksm2", "3.3.4", "400", note="refused where To and Contact are read: parse_register()"),
    Case("bext01", "3.3.5", "420", note="420 by the core to REGISTER, with all four in Unsupported"),
    Case("invut", "3.3.6", "415"),
    Case("regaut01", "3.3.7", "accept, the scheme ignored"),
    Case("multi01", "3.3.8", "400", "two From", "two From"),
    Case("mcl01", "3.3.9", "400, a stream is closed", "two Content-Lengths", "two Content-Lengths"),
    Case("bcast", "3.3.10", "drop", note="no transaction has it: the engine drops and counts it"),
    Case("zeromf", "3.3.11", "accept at an endpoint"),
    Case("cparam01", "3.3.12", "accept: a header parameter"),
    Case("cparam02", "3.3.13", "accept: a URI parameter"),
    Case("regescrt", "3.3.14", "accept"),
    Case("sdp01", "3.3.15", "406"),
    Case("inv2543", "3.4.1", "accept", OK, "no Content-Length on a stream"),
)  # fmt: skip


def data_of(name: str) -> bytes:
    return (FOLDER / f"{name}.dat").read_bytes()


def request_of(name: str) -> Request:
    message = parse_message(data_of(name))
    assert isinstance(message, Request)
    return message


def spoken(message: Request | Response | Malformed) -> str:
    return message.reason if isinstance(message, Malformed) else OK


def test_every_message_has_a_row() -> None:
    assert sorted(case.name for case in CASES) == sorted(path.stem for path in FOLDER.iterdir())
    assert len(CASES) == 49


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.section} {case.name}")
def test_datagram(case: Case) -> None:
    assert spoken(parse_message(data_of(case.name))) == case.datagram


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.section} {case.name}")
def test_stream(case: Case) -> None:
    reader = SipReader()
    found = [spoken(message) for message in reader.feed(data_of(case.name))]
    assert ", then ".join(found) == ("" if case.stream == "awaited" else case.stream)
    assert bool(reader.pending) == (case.stream == "awaited")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_is_accepted_survives_being_written(case: Case) -> None:
    message = parse_message(data_of(case.name))
    if isinstance(message, Malformed):
        return
    again = parse_message(serialize_message(message))
    assert isinstance(again, Message)
    assert [h for h in again.headers if h[0] != "content-length"] == [
        h for h in message.headers if h[0] != "content-length"
    ]
    assert again.body == message.body


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_difference_from_the_rfc_has_its_reason(case: Case) -> None:
    refused, wanted = case.datagram != OK, not case.wants.startswith("accept")
    unread = ("406", "415")  # bodies and Accept are the application's: nobody here takes an INVITE
    if refused != wanted and case.wants not in unread:
        assert case.note


class TestAccepted:
    """What is accepted is also understood."""

    def test_wsinv(self) -> None:
        request = request_of("wsinv")
        assert (request.method, request.cseq, request.branch) == ("INVITE", 9, "oldstyle")
        assert tag_of(request.get("to") or "") == "4711x"
        sender = parse_name_addr(request.get("from") or "")
        assert (sender.display, sender.parameters["tag"]) == ('A Liddell \\"', "7abc")
        assert len(request.values("via")) == 3
        assert request.get("subject") == ""
        assert request.get("nobodysbusiness") == ";;,,;;,;"
        assert request.get("brandnew") == "first half second half of it"
        contact = parse_name_addr(request.get("contact") or "")
        assert contact.display == 'Said "hello"'
        assert contact.parameters == {"another": "one", "more": "", "q": "0.25"}
        assert int(request.get("max-forwards") or "") == 42

    def test_intmeth_without_its_nul(self) -> None:
        message = parse_message(data_of("intmeth").replace(b"NUL:\\\0", b"NUL:"))
        assert isinstance(message, Request)
        assert message.method == "!odd-Method0123456789_*+`.%like'this~"
        uri = parse_uri(message.uri)
        assert (uri.user, uri.host) == (
            "1.odd_one~(is-it!not)&what's+it$/worth?,/;;*",
            "example.com",
        )
        sender = parse_name_addr(message.get("from") or "")
        assert sender.display == "one~` two'+_ three*%!.-"
        assert sender.parameters["aparam''~+*_!.-%"] == "größe"
        assert message.get("anextension-!.%*+_`'~") == "\ufeff大停電"

    def test_escapes_are_kept_as_written(self) -> None:
        request = request_of("esc01")
        assert parse_uri(request.uri).user == "sips%3Abob%40example.com"
        contact = parse_uri(parse_name_addr(request.get("contact") or "").uri)
        assert contact.parameters == {"%6c%72": "", "n%61me": "v%61lue%25%34%31"}
        assert len(request_of("esc02").values("contact")) == 2
        assert len(request_of("escnull").values("contact")) == 2

    def test_addresses(self) -> None:
        assert parse_name_addr(request_of("lwsdisp").get("from") or "").display == "alice"
        semi = parse_uri(request_of("semiuri").uri)
        assert (semi.user, semi.host) == ("bob;par=b%40example.net", "example.com")
        assert len(request_of("longreq").values("via")) == 34
        assert len(request_of("transports").values("via")) == 5

    def test_bodies(self) -> None:
        assert bytes(range(256)) in request_of("mpart01").body
        assert request_of("dblreq").body == b""
        assert request_of("inv2543").body.startswith(b"v=0")

    def test_reasons(self) -> None:
        unusual, empty = parse_message(data_of("unreason")), parse_message(data_of("noreason"))
        assert isinstance(unusual, Response)
        assert isinstance(empty, Response)
        assert unusual.reason.startswith("= 2**3 * 5**2 но сто")
        assert (empty.status, empty.reason) == (100, "")

    def test_contact_parameters(self) -> None:
        header = parse_register(request_of("cparam01"))
        assert parse_uri(header.contact_uri).parameters == {}
        uri = parse_register(request_of("cparam02"))
        assert parse_uri(uri.contact_uri).parameters == {"unknownparam": ""}
        escaped = parse_register(request_of("regescrt"))
        assert escaped.contact_uri == "sip:bob@example.com?Route=%3Csip:sip.example.com%3E"

    def test_an_unknown_authorization_scheme_is_told_by_its_name(self) -> None:
        value = request_of("regaut01").get("authorization") or ""
        assert parse_digest(value)["scheme"] == "NobodyKnowsThisScheme"


class TestRefusedByWhoReads:
    """What the reader leaves alone is refused by who needs it."""

    def test_request_uris(self) -> None:
        for name in ("ltgtruri", "unkscm", "novelsc"):
            with pytest.raises(ValueError, match="not a SIP or tel URI"):
                parse_uri(request_of(name).uri)

    def test_an_unbalanced_quote(self) -> None:
        with pytest.raises(ValueError, match="blank"):
            canonical_identity(parse_name_addr(request_of("quotbal").get("to") or "").uri)

    @pytest.mark.parametrize(
        ("name", "why"),
        [
            ("regbadct", "outside of <>"),
            ("unksm2", "not a SIP or tel URI"),
            ("escnull", "several contacts"),
        ],
    )
    def test_registers(self, name: str, why: str) -> None:
        with pytest.raises(ValueError, match=why):
            parse_register(request_of(name))

    def test_extensions(self) -> None:
        refused = unknown_extensions(request_of("bext01"))
        assert refused is not None
        assert refused.status == 420
        assert refused.headers == [
            ("unsupported", "nobodyhasthis, noproxyhasthis, norhasitthis, northis")
        ]

    def test_empty_entries_are_passed_over(self) -> None:
        request = request_of("badinv01")
        assert request.values("via") == ["SIP/2.0/UDP 192.0.2.15;;", ";"]
        assert parse_name_addr(request.get("contact") or "").parameters == {}
