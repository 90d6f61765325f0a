"""Digest-AKAv1-MD5: golden vectors, binary RES, challenges as servers really write them."""

from __future__ import annotations

import contextlib
import hashlib
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imsbench.protocol.aka import (
    Milenage,
    SqnWindow,
    generate_vector,
    make_nonce,
    run_aka,
    split_nonce,
)
from imsbench.protocol.digest import (
    Challenge,
    answer_authorization,
    auts_authorization,
    check_response,
    digest_response,
    initial_authorization,
    mac_failure_authorization,
    parse_challenge,
    parse_digest,
    refresh_authorization,
    serialize_challenge,
    serialize_digest,
)

REALM = "ims.mnc001.mcc001.3gppnetwork.org"
USERNAME = f"001010000000001@{REALM}"
URI = f"sip:{REALM}"
NONCE = "I1U8vpY3qJ0hiuZNrke/NVXzKLQ1d7m5Sp/6w1Tfr7M="
RES = bytes.fromhex("a54211d5e3ba50bf")
AUTS = bytes.fromhex("ba853f3c123ccf44e93596e355c6")
CNONCE = "0a4f113b"
PLAIN = Challenge(REALM, NONCE, "AKAv1-MD5", (), "")
AUTH = Challenge(REALM, NONCE, "AKAv1-MD5", ("auth",), "")


def _md5(data: bytes) -> str:
    return hashlib.md5(data).hexdigest()


@pytest.mark.parametrize(
    ("password", "qop", "expected"),
    [
        (RES, "", "1125a3c2e293453f07e08957ff235efc"),
        (RES, "auth", "402ab8df9f3a4d63a9f47c2f90e02938"),
        (b"", "", "6821238d21754c12bf172c668144dbb6"),
        (b"", "auth", "da492ad7b08bb89514f214f8c2fdb82b"),
    ],
)
def test_golden_responses(password: bytes, qop: str, expected: str) -> None:
    got = digest_response(
        USERNAME, REALM, password, "REGISTER", URI, NONCE, qop=qop, nc="00000001", cnonce=CNONCE
    )
    assert got == expected


def test_published_example_of_rfc_2617() -> None:
    """RFC 2617 §3.5."""
    assert (
        digest_response(
            "Mufasa", "testrealm@host.com", b"Circle Of Life", "GET", "/dir/index.html",
            "dcd98b7102dd2f0e8b11d0f600bfb0c093", qop="auth", nc="00000001", cnonce="0a4f113b",
        )
        == "6629fae49393a05397450978507c4ef1"
    )  # fmt: skip


def test_auth_int_covers_the_body() -> None:
    """RFC 2617 §3.2.2.3."""
    body = b"v=0\r\n"
    ha1 = _md5(b"u:r:" + RES)
    ha2 = _md5(f"REGISTER:sip:r:{_md5(body)}".encode())
    expected = _md5(f"{ha1}:n:00000002:c:auth-int:{ha2}".encode())
    got = digest_response(
        "u",
        "r",
        RES,
        "REGISTER",
        "sip:r",
        "n",
        qop="auth-int",
        nc="00000002",
        cnonce="c",
        body=body,
    )
    assert got == expected


def test_unknown_qop_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown qop"):
        digest_response("u", "r", RES, "REGISTER", "sip:r", "n", qop="auth-conf")


@pytest.mark.parametrize("length", [0, 1, 4, 8, 16, 32])
def test_res_of_any_length_and_a_zero_at_each_byte(length: int) -> None:
    for place in range(length):
        res = bytearray(b"\xff" * length)
        res[place] = 0
        ha1 = _md5(f"{USERNAME}:{REALM}:".encode() + bytes(res))
        expected = _md5(f"{ha1}:{NONCE}:{_md5(f'REGISTER:{URI}'.encode())}".encode())
        assert digest_response(USERNAME, REALM, bytes(res), "REGISTER", URI, NONCE) == expected


def test_thousands_of_random_challenges_are_answered() -> None:
    """From the HSS's vector to the S-CSCF's check, through the header texts of both ends."""
    source = random.Random(3310)
    zeros: set[int] = set()
    for _ in range(4000):
        milenage = Milenage(source.randbytes(16), opc=source.randbytes(16))
        vector = generate_vector(
            milenage, source.randbytes(16), source.getrandbits(48) | 32, b"\x80\0"
        )
        zeros.update(place for place, byte in enumerate(vector.xres) if not byte)
        qop = source.choice([(), ("auth",), ("auth", "auth-int"), ("auth-int",)])
        opaque = source.choice(["", "x,y; z"])
        offered = Challenge(REALM, make_nonce(vector.rand, vector.autn), "AKAv1-MD5", qop, opaque)
        challenge = parse_challenge([serialize_challenge(offered)])
        assert challenge == offered
        result = run_aka(milenage, *split_nonce(challenge.nonce), SqnWindow())
        value = answer_authorization(
            challenge, USERNAME, URI, "REGISTER", result.res, cnonce=source.randbytes(4).hex()
        )
        fields = parse_digest(value)
        assert fields["nonce"] == offered.nonce
        assert fields.get("opaque", "") == opaque
        assert check_response(fields, vector.xres, "REGISTER")
        assert not check_response(fields, vector.xres[:-1], "REGISTER")
        assert not check_response(fields, vector.xres, "SUBSCRIBE")
    assert zeros == set(range(8))


def test_initial_authorization() -> None:
    assert initial_authorization(USERNAME, REALM, URI) == (
        f'Digest username="{USERNAME}",realm="{REALM}",uri="{URI}",nonce="",response=""'
    )


def test_answer_without_qop() -> None:
    assert answer_authorization(PLAIN, USERNAME, URI, "REGISTER", RES, cnonce=CNONCE) == (
        f'Digest username="{USERNAME}",realm="{REALM}",uri="{URI}",nonce="{NONCE}",'
        'response="1125a3c2e293453f07e08957ff235efc",algorithm=AKAv1-MD5'
    )


def test_answer_with_qop_and_opaque() -> None:
    challenge = Challenge(REALM, NONCE, "AKAv1-MD5", ("auth", "auth-int"), "5c,c0")
    assert answer_authorization(challenge, USERNAME, URI, "REGISTER", RES, cnonce=CNONCE) == (
        f'Digest username="{USERNAME}",realm="{REALM}",uri="{URI}",nonce="{NONCE}",opaque="5c,c0",'
        'response="402ab8df9f3a4d63a9f47c2f90e02938",algorithm=AKAv1-MD5,'
        'qop=auth,nc=00000001,cnonce="0a4f113b"'
    )


def test_nonce_count_is_eight_hex_digits() -> None:
    value = answer_authorization(AUTH, USERNAME, URI, "REGISTER", RES, cnonce=CNONCE, nc=26)
    assert parse_digest(value)["nc"] == "0000001a"


def test_auts_goes_with_an_empty_password() -> None:
    value = auts_authorization(AUTH, USERNAME, URI, "REGISTER", AUTS, cnonce=CNONCE)
    fields = parse_digest(value)
    assert fields["auts"] == "uoU/PBI8z0TpNZbjVcY="
    assert fields["response"] == "da492ad7b08bb89514f214f8c2fdb82b"
    assert check_response(fields, b"", "REGISTER")
    plain = parse_digest(auts_authorization(PLAIN, USERNAME, URI, "REGISTER", AUTS, cnonce=CNONCE))
    assert plain["response"] == "6821238d21754c12bf172c668144dbb6"
    assert "qop" not in plain


def test_mac_failure_has_an_empty_response_and_no_auts() -> None:
    fields = parse_digest(mac_failure_authorization(AUTH, USERNAME, URI))
    assert fields["response"] == ""
    assert fields["nonce"] == NONCE
    assert "auts" not in fields


def test_refresh_repeats_nonce_and_response() -> None:
    fields = parse_digest(refresh_authorization(USERNAME, REALM, URI, NONCE, "ab" * 16))
    assert fields == {
        "scheme": "Digest", "username": USERNAME, "realm": REALM, "uri": URI, "nonce": NONCE,
        "response": "ab" * 16, "algorithm": "AKAv1-MD5",
    }  # fmt: skip


def test_challenge_without_a_known_qop_cannot_be_answered() -> None:
    challenge = Challenge(REALM, NONCE, "AKAv1-MD5", ("auth-conf",), "")
    with pytest.raises(ValueError, match="auth-conf"):
        answer_authorization(challenge, USERNAME, URI, "REGISTER", RES, cnonce=CNONCE)


@pytest.mark.parametrize(
    ("value", "qop", "opaque"),
    [
        (f'Digest realm="{REALM}",nonce="{NONCE}",algorithm=AKAv1-MD5,qop="auth"', ("auth",), ""),
        (f'Digest realm="{REALM}", nonce="{NONCE}", algorithm=AKAv1-MD5', (), ""),
        (
            f'digest  NONCE = "{NONCE}" ,\t Realm="{REALM}" , ALGORITHM="AKAv1-MD5", '
            'qop="auth,auth-int", opaque="a,\\"b\\"=c"',
            ("auth", "auth-int"),
            'a,\\"b\\"=c',
        ),
        (f'Digest realm="{REALM}",nonce="{NONCE}",algorithm=AKAv1-MD5,qop=Auth,', ("auth",), ""),
        (
            f'Digest realm="{REALM}",nonce="{NONCE}",algorithm=AKAv1-MD5,qop="auth , auth-int",'
            'stale=FALSE,ik="00112233",ck="44",x-unknown=1;2',
            ("auth", "auth-int"),
            "",
        ),
    ],
)  # fmt: skip
def test_one_challenge(value: str, qop: tuple[str, ...], opaque: str) -> None:
    assert parse_challenge([value]) == Challenge(REALM, NONCE, "AKAv1-MD5", qop, opaque)


def test_algorithm_in_any_case_is_echoed_as_written() -> None:
    challenge = parse_challenge([f'Digest realm="r",nonce="{NONCE}",algorithm=akav1-md5'])
    value = answer_authorization(challenge, "u", "sip:r", "REGISTER", RES, cnonce="")
    assert value.endswith("algorithm=akav1-md5")


AKA = f'Digest realm="{REALM}",nonce="{NONCE}",algorithm=AKAv1-MD5'


@pytest.mark.parametrize(
    "values",
    [
        ['Digest realm="r",nonce="n",algorithm=MD5', AKA],
        ['Digest realm="r",nonce="n"', 'Basic realm="r"', AKA],
        [f'Digest realm="r",nonce="n",algorithm=MD5, {AKA}'],
        [f"{AKA}, Basic realm=\"r\""],
        ["Negotiate", AKA],
        ["Negotiate YII==", AKA],
        ['Digest realm="broken', AKA],
        ['Digest realm="",nonce="",algorithm=AKAv1-MD5', AKA],
        ['Digest realm="r",nonce="n",algorithm=AKAv1-MD5,qop="auth-conf"', AKA],
    ],
)  # fmt: skip
def test_the_aka_challenge_is_found_among_several(values: list[str]) -> None:
    assert parse_challenge(values) == PLAIN


@pytest.mark.parametrize(
    ("values", "offered"),
    [
        ([], "offered: nothing"),
        (['Digest realm="r",nonce="n"'], "offered: Digest MD5"),
        (['Digest realm="r",nonce="n",algorithm=SHA-256', 'Basic realm="r"'], "SHA-256, Basic"),
        (['Digest realm="r",nonce="n",algorithm=AKAv2-MD5'], "AKAv2-MD5"),
        (['Digest realm="r",algorithm=AKAv1-MD5'], "without realm or nonce"),
        (['Digest realm="r",nonce="n",algorithm=AKAv1-MD5,qop="x, y"'], "with qop x y"),
        (['Digest realm="r'], "unreadable"),
        ([""], "empty"),
    ],
)
def test_without_aka_what_was_offered_is_named(values: list[str], offered: str) -> None:
    with pytest.raises(ValueError, match=offered):
        parse_challenge(values)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("", "empty"),
        ("   ", "unreadable"),
        ('realm="r"', "no scheme"),
        ('Digest realm="r', "unreadable"),
        ('Digest realm="r" nonce="n"', "unreadable"),
        ("Digest nonce", "unreadable"),
        ('Digest nonce="a",nonce="b"', "nonce given twice"),
        ('Digest a=1, Digest a=2', "2 challenges"),
        ('Digest a=b"c"', "unreadable"),
        ("Digest a=b\\", "unreadable"),  # written out in quotes, it would end none
    ],
)  # fmt: skip
def test_unreadable_values(value: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_digest(value)


def test_missing_parameters_prove_nothing() -> None:
    assert not check_response({}, RES, "REGISTER")
    value = answer_authorization(AUTH, USERNAME, URI, "REGISTER", RES, cnonce=CNONCE)
    fields = parse_digest(value)
    assert check_response(fields, RES, "REGISTER")
    for name in ("username", "realm", "uri", "nonce", "response", "nc", "cnonce", "qop"):
        without = {key: text for key, text in fields.items() if key != name}
        assert not check_response(without, RES, "REGISTER")
    assert not check_response(fields | {"qop": "auth-conf"}, RES, "REGISTER")


_names = st.from_regex(r"[a-z][a-z0-9-]{0,8}", fullmatch=True).filter(
    lambda name: name not in ("scheme", "algorithm", "nc", "stale", "qop", "response")
)
_quotable = st.text(st.characters(codec="utf-8", exclude_characters='"\\'), max_size=30)


@given(st.dictionaries(_names, _quotable, min_size=1, max_size=6), st.booleans())
def test_serialize_and_parse_are_a_pair(fields: dict[str, str], credentials: bool) -> None:
    fields = {"scheme": "Digest", **fields, "algorithm": "AKAv1-MD5"}
    fields |= {"qop": "auth", "nc": "00000001", "response": "0f"} if credentials else {"qop": "a,b"}
    assert parse_digest(serialize_digest(fields)) == fields


def test_only_tokens_are_written_without_quotes() -> None:
    fields = parse_digest('Digest algorithm="a, b",nc="",stale=true')
    assert serialize_digest(fields) == 'Digest algorithm="a, b",nc="",stale=true'


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    for value in (text, f"Digest {text}"):
        with contextlib.suppress(ValueError):
            assert parse_digest(value)["scheme"]
