"""The security agreement: headers as they come, the choice, the four SAs."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imsbench.protocol.secagree import (
    ALGS,
    EALGS,
    MAX_SPI,
    MECHANISMS,
    Mechanism,
    Sa,
    SecurityAgreementError,
    choose,
    cipher_key,
    esp_keys,
    integrity_key,
    parse_security,
    sa_set,
    serialize_security,
    split_list,
)

CLIENT = Mechanism("hmac-sha-1-96", "null", 1001, 1002, 20000, 6101)
SERVER = Mechanism("hmac-sha-1-96", "null", 2001, 2002, 40000, 5063)
CLIENT_TEXT = (
    "ipsec-3gpp;alg=hmac-sha-1-96;prot=esp;mod=trans;ealg=null;"
    "spi-c=1001;spi-s=1002;port-c=20000;port-s=6101"
)
CK, IK = bytes(range(16)), bytes(range(16, 32))
TAIL = "spi-c=1001;spi-s=1002;port-c=20000;port-s=6101"


def test_offer_as_standards_write_it() -> None:
    assert serialize_security([CLIENT]) == CLIENT_TEXT
    assert parse_security([CLIENT_TEXT]) == [CLIENT]


def test_defaults() -> None:
    """TS 33.203 annex H: prot esp, mod trans, ealg null when absent."""
    (mechanism,) = parse_security([f"ipsec-3gpp; alg=hmac-sha-1-96; {TAIL}"])
    assert mechanism == CLIENT
    assert mechanism.q < 0


@pytest.mark.parametrize(
    "entry",
    [
        f"IPSEC-3GPP;ALG=HMAC-SHA-1-96;PROT=ESP;MOD=TRANS;EALG=NULL;{TAIL.upper()}",
        f'ipsec-3gpp ; alg = "hmac-sha-1-96" ; mode=trans ; {TAIL.replace(";", " ; ")}',
        f"ipsec-3gpp;{TAIL};ealg=;unknown=1;alg=hmac-sha-1-96",
    ],
)
def test_forms_of_the_same_entry(entry: str) -> None:
    assert parse_security([entry]) == [CLIENT]


def test_several_mechanisms_on_one_line_or_many() -> None:
    md5 = replace(CLIENT, alg="hmac-md5-96")
    aes = replace(CLIENT, ealg="aes-cbc")
    one = serialize_security([CLIENT, md5, aes])
    assert one.count(",") == 2
    assert parse_security([one]) == [CLIENT, md5, aes]
    assert parse_security(one.split(",")) == [CLIENT, md5, aes]
    assert parse_security([one.replace(",", " ,\t")]) == [CLIENT, md5, aes]


def test_measured_core_form() -> None:
    value = (
        "ipsec-3gpp;q=0.1;prot=esp;mod=trans;spi-c=2001;spi-s=2002;port-c=40000;port-s=5063;"
        "alg=hmac-sha-1-96;ealg=null"
    )
    (mechanism,) = parse_security([value])
    assert mechanism == replace(SERVER, q=0.1)
    assert serialize_security([mechanism]) == value


@pytest.mark.parametrize(
    "values",
    [
        ["ipsec-3gpp; q=0.1; Alg=HMAC-SHA-1-96 ;odd=\"a,b\";" + TAIL],
        [f"ipsec-3gpp;q=0.500;alg=hmac-sha-1-96;{TAIL}", f"ipsec-3gpp;alg=hmac-md5-96;{TAIL}"],
    ],
)  # fmt: skip
def test_echo_is_unchanged(values: list[str]) -> None:
    """TS 33.203 §7.2: Security-Verify repeats Security-Server byte for byte."""
    assert serialize_security(parse_security(values)) == ",".join(values)


def test_other_mechanisms_are_passed_over() -> None:
    values = [
        "tls;q=0.9, digest;d-alg=md5",
        f"ipsec-3gpp;alg=hmac-sha-1-96;mod=UDP-enc-tun;{TAIL}",
        f"ipsec-3gpp;alg=hmac-sha-1-96;prot=ah;{TAIL}",
        CLIENT_TEXT,
    ]
    assert parse_security(values) == [CLIENT]
    assert parse_security(["tls", ""]) == []
    assert parse_security([]) == []


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (f"ipsec-3gpp;{TAIL}", "without alg"),
        (f"ipsec-3gpp;alg=;{TAIL}", "without alg"),
        ("ipsec-3gpp", "without alg"),
        (CLIENT_TEXT.replace("spi-c=1001;", ""), "spi-c is missing"),
        (CLIENT_TEXT.replace("spi-s=1002", "spi-s=x"), "spi-s is missing or not a number"),
        (CLIENT_TEXT.replace("spi-s=1002", "spi-s=-1"), "spi-s is missing or not a number"),
        (CLIENT_TEXT.replace("spi-s=1002", "spi-s=0x10"), "spi-s is missing or not a number"),
        (CLIENT_TEXT.replace("spi-s=1002", "spi-s=0"), "spi-s=0 is out of range"),
        (CLIENT_TEXT.replace("spi-s=1002", "spi-s=4294967296"), "out of range"),
        (CLIENT_TEXT.replace("port-c=20000", "port-c=0"), "port-c=0 is out of range"),
        (CLIENT_TEXT.replace("port-s=6101", "port-s=65536"), "port-s=65536 is out of range"),
        (CLIENT_TEXT.replace("port-s=6101", "port-s="), "port-s is missing"),
        (CLIENT_TEXT + ";q=high", "q is not a number"),
        (CLIENT_TEXT + ";q=nan", "q is not a number"),
        (CLIENT_TEXT + ";q=1.1", "q is not a number from 0 to 1"),
        (CLIENT_TEXT + ";q=-0.1", "q is not a number"),
    ],
)
def test_broken_entries_name_their_reason(entry: str, reason: str) -> None:
    with pytest.raises(SecurityAgreementError, match=reason):
        parse_security([CLIENT_TEXT, entry])


def test_highest_q_wins() -> None:
    md5 = replace(SERVER, alg="hmac-md5-96", q=0.2)
    sha = replace(SERVER, q=0.1)
    supported = [CLIENT, replace(CLIENT, alg="hmac-md5-96")]
    assert choose([sha, md5], supported) is md5
    assert choose([md5, sha], supported) is md5
    assert choose([md5, sha], [CLIENT]) is sha


def test_order_decides_between_equals_and_no_q_counts_as_one() -> None:
    md5 = replace(SERVER, alg="hmac-md5-96")
    supported = [CLIENT, replace(CLIENT, alg="hmac-md5-96")]
    assert choose([SERVER, md5], supported) is SERVER
    assert choose([md5, SERVER], supported) is md5
    assert choose([replace(SERVER, q=0.9), md5], supported) is md5


def test_no_common_mechanism_names_both_sides() -> None:
    with pytest.raises(SecurityAgreementError, match="offered hmac-sha-1-96/null, supported"):
        choose([SERVER], [replace(CLIENT, ealg="aes-cbc")])
    with pytest.raises(SecurityAgreementError, match="offered nothing"):
        choose([], [CLIENT])


@pytest.mark.parametrize(
    ("phone", "pcscf"),
    [("198.18.0.1", "198.19.0.10"), ("2001:2:0:1::1", "2001:2:0:2::10")],
)
def test_four_sas(phone: str, pcscf: str) -> None:
    """TS 33.203 §7.1: which SPI, which ports, in which direction."""
    sas = sa_set(phone, pcscf, CLIENT, SERVER, CK, IK)
    assert sas.sas_from("phone") == (
        Sa(spi=2002, source=phone, source_port=20000, destination=pcscf, destination_port=5063),
        Sa(spi=2001, source=phone, source_port=6101, destination=pcscf, destination_port=40000),
    )
    assert sas.sas_from("pcscf") == (
        Sa(spi=1002, source=pcscf, source_port=40000, destination=phone, destination_port=6101),
        Sa(spi=1001, source=pcscf, source_port=5063, destination=phone, destination_port=20000),
    )
    assert sas.sas_to("phone") == sas.sas_from("pcscf")
    assert sas.sas_to("pcscf") == sas.sas_from("phone")
    assert (sas.alg, sas.ealg) == ("hmac-sha-1-96", "null")
    assert (sas.integrity_key, sas.cipher_key) == (IK + bytes(4), b"")


def test_keys() -> None:
    """TS 33.203 annex I, with the golden keys."""
    ik = bytes.fromhex("f769bcd751044604127672711c6d3441")
    assert integrity_key("hmac-sha-1-96", ik).hex() == "f769bcd751044604127672711c6d344100000000"
    assert integrity_key("hmac-md5-96", ik) == ik
    assert cipher_key("aes-cbc", CK) == CK
    assert cipher_key("null", CK) == b""
    ck = bytes.fromhex("b40ba9a3c58b2a05bbf0d987b21bf8cb")
    tripled = "b40ba9a3c58b2a05bbf0d987b21bf8cbb40ba9a3c58b2a05"
    assert cipher_key("des-ede3-cbc", ck).hex() == tripled
    with pytest.raises(SecurityAgreementError, match="hmac-sha-256"):
        integrity_key("hmac-sha-256", IK)
    with pytest.raises(SecurityAgreementError, match="aes-ctr"):
        cipher_key("aes-ctr", CK)


@pytest.mark.parametrize(
    ("alg", "ealg", "parameters"),
    [
        ("null", "aes-gcm", b"\x59AES_GCM_SALT\0\x0c"),
        ("aes-gmac", "null", b"\x58AES_GMAC_SALT\0\x0d"),
    ],
)
def test_salts(alg: str, ealg: str, parameters: bytes) -> None:
    """TS 33.203 annex I: S = FC || P0 || L0, key CK || IK, the 32 least significant bits."""
    salt = hmac.new(CK + IK, parameters, hashlib.sha256).digest()[28:]
    integrity, cipher = esp_keys(alg, ealg, CK, IK)
    assert (integrity, cipher) == ((IK + salt, b"") if alg == "aes-gmac" else (b"", CK + salt))


@pytest.mark.parametrize("alg", ALGS)
@pytest.mark.parametrize("ealg", EALGS)
def test_what_goes_together(alg: str, ealg: str) -> None:
    """TS 33.203 annex H: null with aes-gcm and only so; aes-gmac encrypts nothing."""
    alone = (alg == "null") == (ealg == "aes-gcm") and (alg != "aes-gmac" or ealg == "null")
    assert ((alg, ealg) in MECHANISMS) is alone
    offer, answer = replace(CLIENT, alg=alg, ealg=ealg), replace(SERVER, alg=alg, ealg=ealg)
    if alone:
        sas = sa_set("198.18.0.1", "198.19.0.10", offer, answer, CK, IK)
        assert (sas.integrity_key, sas.cipher_key) == esp_keys(alg, ealg, CK, IK)
    else:
        with pytest.raises(SecurityAgreementError, match=f"alg {alg} does not go with ealg {ealg}"):
            sa_set("198.18.0.1", "198.19.0.10", offer, answer, CK, IK)


@pytest.mark.parametrize(
    ("value", "entries"),
    [
        ("", []),
        (" , ,", []),
        ("a", ["a"]),
        ("a, b ,c", ["a", "b", "c"]),
        ("<a,b>,c", ["<a,b>", "c"]),
        ("<a,b>;x,<c>", ["<a,b>;x", "<c>"]),
        ('"a,b",c', ['"a,b"', "c"]),
        ('"a\\",b",c', ['"a\\",b"', "c"]),
        ('"<" <a>,"b', ['"<" <a>', '"b']),
        ("<a,b", ["<a,b"]),
        ("a>,b", ["a>", "b"]),
        ("a>><,b", ["a>><,b"]),  # brackets do not nest, quotes elsewhere or not
        ('a>><,b,"c"', ['a>><,b,"c"']),
        ("<<a>,b>,c", ["<<a>", "b>", "c"]),
        ('<<a>,b>,"c"', ["<<a>", "b>", '"c"']),
        ("<" + "," * 60_000, ["<" + "," * 60_000]),
    ],
)
def test_split_list(value: str, entries: list[str]) -> None:
    assert split_list(value) == entries


_mechanisms = st.builds(
    Mechanism,
    alg=st.sampled_from(ALGS),
    ealg=st.sampled_from(EALGS),
    spi_c=st.integers(1, MAX_SPI),
    spi_s=st.integers(1, MAX_SPI),
    port_c=st.integers(1, 65535),
    port_s=st.integers(1, 65535),
    q=st.sampled_from([-1.0, 0.0, 0.001, 0.1, 0.5, 0.999, 1.0]),
)


@given(st.lists(_mechanisms, max_size=4))
def test_serialize_and_parse_are_a_pair(mechanisms: list[Mechanism]) -> None:
    text = serialize_security(mechanisms)
    parsed = parse_security([text])
    assert parsed == mechanisms
    assert serialize_security(parsed) == text


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(SecurityAgreementError):
        parse_security([text, f"ipsec-3gpp;{text}", f"{CLIENT_TEXT};{text}"])
