"""Subscribers are computed: identities, keys, and the way back from an identity to its number."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imsbench.subscriber import Population

POPULATION = Population(1000)
DOMAIN = "ims.mnc001.mcc001.3gppnetwork.org"


def test_identities() -> None:
    subscriber = POPULATION.subscriber(41)
    assert subscriber.imsi == "001010000000042"
    assert subscriber.impi == f"001010000000042@{DOMAIN}"
    assert subscriber.impus == (
        f"sip:001010000000042@{DOMAIN}",
        f"sip:+15550000042@{DOMAIN}",
        "tel:+15550000042",
    )
    assert (subscriber.impu_temporary, subscriber.impu_sip, subscriber.impu_tel) == subscriber.impus
    assert subscriber.msisdn == "15550000042"
    assert subscriber.n == 41


def test_three_digit_mnc() -> None:
    population = Population(10, mcc="310", mnc="410", first_msin=123456789)
    subscriber = population.subscriber(0)
    assert subscriber.imsi == "310410123456789"
    assert subscriber.domain == "ims.mnc410.mcc310.3gppnetwork.org"
    assert population.number_of(subscriber.impi) == 0


def test_keys_come_from_seed_and_number_alone() -> None:
    again = Population(5000)
    assert POPULATION.subscriber(7) == again.subscriber(7)
    keys = {POPULATION.subscriber(n).k for n in range(1000)}
    opcs = {POPULATION.subscriber(n).opc for n in range(1000)}
    assert len(keys) == len(opcs) == 1000
    assert not keys & opcs
    assert {len(k) for k in keys} == {16}
    assert Population(1000, seed=2).subscriber(7).k != POPULATION.subscriber(7).k


def test_given_keys_are_used() -> None:
    k, op, opc = bytes(16), b"o" * 16, b"c" * 16
    one = Population(2, k=k, opc=opc).subscriber(1)
    assert (one.k, one.opc, one.op) == (k, opc, None)
    other = Population(2, op=op).subscriber(1)
    assert (other.opc, other.op) == (None, op)
    assert other.k == Population(2).subscriber(1).k


@pytest.mark.parametrize("n", [-1, 1000, 10**9])
def test_nobody_beyond_the_count(n: int) -> None:
    with pytest.raises(IndexError, match="of 1000"):
        POPULATION.subscriber(n)


@given(
    st.integers(0, 49_999),
    st.sampled_from(
        [
            Population(50_000),
            Population(50_000, mcc="262", mnc="02", first_msin=700, first_msisdn=49_170_000_0000),
            Population(50_000, mnc="001", first_msin=0, domain="IMS.Example"),
        ]
    ),
)
def test_every_identity_leads_back(n: int, population: Population) -> None:
    subscriber = population.subscriber(n)
    for identity in (subscriber.impi, *subscriber.impus):
        assert population.number_of(identity) == n
    assert population.number_of(f"{subscriber.impu_sip};user=phone") == n
    assert population.number_of(subscriber.impu_sip.replace(subscriber.domain, "ims.example")) in (
        n if subscriber.domain.lower() == "ims.example" else None,
    )


@pytest.mark.parametrize(
    "identity",
    [
        "",
        "sip:",
        f"001010000001001@{DOMAIN}",
        f"001010000000000@{DOMAIN}",
        f"00101000000001@{DOMAIN}",
        f"0010100000000001@{DOMAIN}",
        f"002010000000001@{DOMAIN}",
        "001010000000001@ims.other",
        "001010000000001",
        f"sip:alice@{DOMAIN}",
        f"sip:+1555000000x@{DOMAIN}",
        f"sip:+015550000001@{DOMAIN}",
        f"sip:+15550000000@{DOMAIN}",
        f"sip:+15550001001@{DOMAIN}",
        f"sip:15550000001@{DOMAIN}",
        f"sips:001010000000001@{DOMAIN}",
        "tel:15550000001",
        "tel:001010000000001",
        "tel:+1\u0665550000001",
        f"sip:00101000000000²@{DOMAIN}",
        f"sip:+{'9' * 5000}@{DOMAIN}",
    ],
)
def test_strangers_are_nobody(identity: str) -> None:
    assert POPULATION.number_of(identity) is None


def test_identities_of_another_population_are_nobody() -> None:
    other = replace(POPULATION, mnc="02").subscriber(3)
    assert POPULATION.number_of(other.impi) is None
    assert POPULATION.number_of(other.impu_sip) is None
