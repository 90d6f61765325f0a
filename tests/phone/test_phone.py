"""What a phone names of itself: new in each run, reproducible where it is asked for."""

from __future__ import annotations

import random

from imsbench.phone.phone import FIRST_SPI, Network, Phone, PhoneSettings
from imsbench.subscriber import Population


def names(start: int | None, seed: int = 1) -> tuple[str, int, int]:
    """Identifier, first SPI and port_uc of a run's first phone."""
    network = Network(PhoneSettings("192.0.2.1"), Population(1), random.Random(seed), start)
    (offer,) = Phone(network, 0, "198.18.0.1").offer()
    assert (offer.spi_c, offer.spi_s) == (offer.spi_c, offer.spi_c + 1)
    return network.identifier(), offer.spi_c, offer.port_c


def test_runs_with_one_seed_name_nothing_alike() -> None:
    first, second = names(0x0123_4567_89AB_CDEF), names(0xFEDC_BA98_7654_3210)
    assert all(mine != theirs for mine, theirs in zip(first, second, strict=True))
    assert names(0x0123_4567_89AB_CDEF, seed=2) == first


def test_every_start_is_within_what_the_standards_allow() -> None:
    for start in (0, 1, 2**32 - 1, 2**32, 2**64 - 1):
        _, spi, port = names(start)
        assert FIRST_SPI <= spi < 2**31
        assert 20_000 <= port < 20_064


def test_without_a_start_the_source_decides() -> None:
    assert names(None) == names(None) != names(None, seed=2)
