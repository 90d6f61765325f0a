"""What a phone under load makes of a registration that the network ends, and when."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from imsbench.engine.loop import clock
from tests.run.registrar import Site


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site(1)
    site.phones.register(site.phones.all[0], clock())
    turn_until(site, lambda: site.phones.registered == 1)
    yield site
    site.close()


def turn_until(site: Site, wanted: Callable[[], bool]) -> None:
    for _ in range(500):
        if wanted():
            return
        site.turn_for(0.01)
    raise TimeoutError(f"not so within 5 s: {site.outcomes}")


def end_by_network(site: Site) -> None:
    phone = site.phones.all[0]
    assert phone.network.on_deregistered is not None
    phone.network.on_deregistered(phone, "expired")


def test_a_registration_that_the_network_ends_is_over(site: Site) -> None:
    end_by_network(site)
    turn_until(site, lambda: site.phones.registered == 0)
    assert site.phones.all[0].registration is None


def test_the_end_of_a_registration_says_nothing_of_the_next(site: Site) -> None:
    phone = site.phones.all[0]

    def register_again(*_: object) -> None:
        site.phones.register(phone, clock(), 0)

    site.phones.deregister(phone, clock(), register_again)
    end_by_network(site)  # its NOTIFY is there before the 200 to the de-REGISTER
    turn_until(site, lambda: len(site.outcomes) == 3)
    site.turn_for(0.02)
    assert [outcome.procedure for outcome in site.outcomes] == [
        "registration", "deregistration", "registration",
    ]  # fmt: skip
    assert site.phones.registered == 1
    assert phone.registration is not None
