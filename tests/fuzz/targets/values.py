"""Header values: addresses, lists, security agreements, Digest, the AKA nonce."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar

from imsbench.protocol import address, digest
from imsbench.protocol.aka import AkaError, Milenage, SqnWindow, run_aka, split_nonce
from imsbench.protocol.secagree import (
    MECHANISMS,
    Mechanism,
    SecurityAgreementError,
    choose,
    parse_security,
    sa_set,
    serialize_security,
    split_list,
)
from imsbench.protocol.sip import tag_of
from simulators.core.agreement import normalized
from tests.fuzz.harness import Run, Target

T = TypeVar("T")
_LINES = b"\n"
_OURS = [Mechanism(alg, ealg, 1, 2, 3, 4) for alg, ealg in MECHANISMS]
_K, _OPC = bytes(range(16)), bytes(range(16, 32))


def _text(data: bytes) -> str:
    """As a SIP message's headers are decoded."""
    return data.decode("utf-8", "replace")


def _or_none(read: Callable[[str], T], text: str) -> T | None:
    """What a reader makes of a text; None for the ValueError that it documents."""
    try:
        return read(text)
    except ValueError:
        return None


def _address() -> Run:
    def run(data: bytes) -> Hashable:
        text = _text(data)
        one, _, other = text.partition("\n")
        uri = _or_none(address.parse_uri, one)
        if uri is not None and uri.host:
            where = address.host_port(uri.host, uri.port)
            assert address.split_host_port(where) == (uri.host, uri.port), where
        named = _or_none(address.parse_name_addr, one)
        if named is not None:
            _or_none(address.parse_uri, named.uri)
        every = _or_none(lambda value: address.parse_name_addrs([value, other]), one)
        port = _or_none(address.split_host_port, one)
        _or_none(address.canonical_identity, one)
        address.same_address(one, other)
        parameters = address.parse_parameters(one)
        assert all(name == name.strip().lower() for name in parameters)
        address.unquote(one)
        tag_of(one)
        scheme = uri.scheme if uri else ""
        return (
            scheme,
            named is not None,
            every is not None,
            port is not None,
            min(len(parameters), 8),
        )

    return run


def _lists() -> Run:
    def run(data: bytes) -> Hashable:
        text = _text(data)
        entries = split_list(text)
        assert all(entry and entry == entry.strip() for entry in entries)
        assert split_list(",".join(entries)) == entries, "joined and split again, it differs"
        if '"' not in text and text.rfind("<") <= text.rfind(">"):
            assert split_list(f'{text},""') == [*entries, '""'], "quotes far away change it"
        return min(len(entries), 12), '"' in text

    return run


def _secagree() -> Run:
    def run(data: bytes) -> Hashable:
        values = _text(data).split("\n")
        normalized(values)
        try:
            offered = parse_security(values)
        except SecurityAgreementError:
            return "refused"
        for mechanism in offered:
            assert parse_security([serialize_security([mechanism])]) == [mechanism]
            assert 1 <= mechanism.spi_c < 2**32
            assert 1 <= mechanism.port_s < 65536
        try:
            chosen = choose(offered, _OURS)
            sas = sa_set("198.18.0.1", "198.19.0.10", _OURS[0], chosen, bytes(16), bytes(16))
        except SecurityAgreementError:
            return "nothing in common"
        return min(len(offered), 4), sas.alg, sas.ealg, chosen.q >= 0

    return run


def _digest() -> Run:
    def run(data: bytes) -> Hashable:
        values = _text(data).split("\n")
        fields = _or_none(digest.parse_digest, values[0])
        if fields is not None:
            written = digest.serialize_digest(fields)
            assert digest.parse_digest(written) == fields, f"written as {written!r}"
            digest.check_response(fields, b"RES", "REGISTER")
        try:
            challenge = digest.parse_challenge(values)
            _or_none(split_nonce, challenge.nonce)
            answer = digest.answer_authorization(
                challenge, "user@home", "sip:home", "REGISTER", b"12345678", cnonce="c"
            )
            digest.auts_authorization(
                challenge, "user@home", "sip:home", "REGISTER", bytes(14), cnonce="c"
            )
        except ValueError:
            return fields is not None, len(fields or ())
        read = digest.parse_digest(answer)
        assert digest.check_response(read, b"12345678", "REGISTER"), "our answer is not right"
        digest.parse_digest(digest.mac_failure_authorization(challenge, "user@home", "sip:home"))
        return min(len(challenge.qop), 4), min(len(values), 4), min(len(fields or ()), 12)

    return run


def _nonce() -> Run:
    milenage = Milenage(_K, opc=_OPC)
    window = SqnWindow()

    def run(data: bytes) -> Hashable:
        try:
            rand, autn = split_nonce(_text(data))
        except ValueError:
            return "no nonce"
        try:
            run_aka(milenage, rand, autn, window)
        except AkaError as error:
            return type(error).__name__
        return "accepted"

    return run


def _address_seeds() -> list[bytes]:
    return [
        b"sip:user:secret@host.example:5060;transport=tcp;lr?Subject=x",
        b"sip:+15550000001@[2001:db8::1]:6101;ob\n[2001:0db8:0::1]",
        b"tel:+15550000001;phone-context=ims.example",
        b'"A \\"quoted\\" name, with <" <sip:a@b;x=1>;tag=1;+sip.instance="<urn:x>";expires=7',
        b"sip:a@b;tag=9, <sip:c@d>;q=0.5, Name <tel:+1>\n<sip:e>",
        b"198.18.0.1:65535\n198.18.0.1",
    ]


def _list_seeds() -> list[bytes]:
    return [
        b"a, b ,c", b'"x, y" <sip:a,b@c>, <sip:d;lr>,, e', b"<sip:a,b>,<sip:c>", b"Digest a=b, c=\"d,e\"",
    ]  # fmt: skip


def _secagree_seeds() -> list[bytes]:
    one = (
        b"ipsec-3gpp;q=0.5;alg=hmac-sha-1-96;prot=esp;mod=trans;ealg=%b;spi-c=%d;spi-s=%d;port-c=%d;"
        b"port-s=5063"
    )
    first, second = one % (b"null", 4096, 4097, 40000), one % (b"aes-cbc", 2**32 - 1, 257, 65535)
    old = b"ipsec-3gpp; alg=hmac-md5-96; spi-c=1;spi-s=2 ;port-c=3;port-s=4"
    return [first, first + b"," + second, second + b"\n" + first, b"tls;q=1, " + old, old]


def _digest_seeds() -> list[bytes]:
    nonce = b"AAECAwQFBgcICQoLDA0OD9fGuIhXtYAA7JmTBL/o3NU="
    return [
        b'Digest realm="ims.example",nonce="'
        + nonce
        + b'",algorithm=AKAv1-MD5,qop="auth,auth-int"',
        b'Digest realm="a\\"b", nonce="' + nonce + b'" , algorithm=akav1-md5,opaque="x",stale=TRUE',
        b'Basic realm="x"\nDigest realm=y,nonce=' + nonce + b',algorithm="AKAv1-MD5"',
        b'Digest username="u@h",realm="h",uri="sip:h",nonce="n",response="'
        + b"0" * 32
        + b'",qop=auth,nc=00000001,cnonce="c",auts="AAAAAAAAAAAAAAAAAAA=",algorithm=AKAv1-MD5',
        b'Digest a=b, NTLM, Digest realm="r",nonce="n"',
    ]


def _nonce_seeds() -> list[bytes]:
    import base64

    from imsbench.protocol.aka import generate_vector

    vector = generate_vector(Milenage(_K, opc=_OPC), bytes(16), 32, b"\x80\0")
    good = base64.b64encode(vector.rand + vector.autn)
    return [good, base64.b64encode(vector.rand + vector.autn + b"server data"), good[:-8]]


_SIP_WORDS = (
    b"sip:",
    b"sips:",
    b"tel:",
    b";tag=",
    b";lr",
    b"<sip:a>",
    b'"a"',
    b"::1",
    b"127.0.0.1",
)
_AGREEMENT_WORDS = (
    b"ipsec-3gpp", b";alg=", b";ealg=", b";spi-c=", b";port-c=", b";q=", b";prot=esp", b";mod=trans",
    b"hmac-md5-96", b"aes-cbc", b"des-ede3-cbc", b"null", b"q=1.000", b";mode=tun",
)  # fmt: skip
_DIGEST_WORDS = (
    b"Digest ", b"realm=", b"nonce=", b"algorithm=AKAv1-MD5", b"qop=", b'"auth"', b"auth-int", b'="',
    b'",', b"\\", b'\\"', b"opaque=", b"auts=", b"response=",
)  # fmt: skip

TARGETS = [
    Target("address", "URIs, name-addrs, host and port", _address, _address_seeds, _SIP_WORDS),
    Target("lists", "split_list", _lists, _list_seeds, (b"<,", b",>", b'",', b"\\,")),
    Target("secagree", "Security-Client and -Server", _secagree, _secagree_seeds, _AGREEMENT_WORDS),
    Target("digest", "challenges and credentials", _digest, _digest_seeds, _DIGEST_WORDS),
    Target("nonce", "AKA nonce, and AKA itself", _nonce, _nonce_seeds, (b"=", b"==", b"A" * 44)),
]
