"""Re-attaches, mixes of procedures and paces that are not constant, as one worker carries them out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from imsbench.outcome import Outcome
from imsbench.profile import Step
from tests.run.registrar import Site
from tests.run.test_steps import run_step, steps


@pytest.fixture
def site() -> Iterator[Site]:
    """Ten phones and their registrar."""
    site = Site(10)
    yield site
    site.close()


def offsets_of(outcomes: list[Outcome], first_due_at: float) -> list[float]:
    return sorted(o.due_at - first_due_at for o in outcomes)


def test_a_phone_that_re_attaches_is_gone_without_a_word(site: Site) -> None:
    fill, reattach = steps("[{fill: {rate: 100, to: 10}}, {reattach: {rate: 100}}]")
    run_step(site, fill)
    site.turn_for(0.1)  # the last answers are acknowledged: what is sent to nobody would be reset
    homes = {phone.n: phone.address for phone in site.phones.all}
    before = set(site.far.sockets)
    site.outcomes.clear()
    run = run_step(site, reattach)
    assert site.phones.registered == 10
    assert [o.procedure for o in site.outcomes] == ["registration"] * 10
    assert sorted(o.phone for o in site.outcomes) == list(range(10))
    assert offsets_of(site.outcomes, run.first_due_at) == pytest.approx(
        [i / 100 for i in range(10)]
    )
    site.turn_for(0.05)
    # The far end has been told nothing: it still holds every connection of the old addresses.
    assert before <= set(site.far.sockets)
    assert site.phones.by_address == {f"127.0.2.{p.n + 1}": p for p in site.phones.all}
    assert not any("vanished" in event for event in site.driver.events)
    run_step(site, reattach)
    assert {phone.n: phone.address for phone in site.phones.all} == homes  # and back again


def test_a_share_of_a_cycle_re_attaches_the_same_phones_whoever_plays_them() -> None:
    phases = "[{fill: {rate: 200, to: 40}}, {cycle: {rate: 200, reattach: 0.4}}]"
    fill, cycle = steps(phases, count=40)
    moved: list[dict[int, str]] = []
    for workers in (1, 2):
        addresses: dict[int, str] = {}
        left: Counter[str] = Counter()
        for worker in range(workers):
            site = Site(40)
            site.phones.all = [p for p in site.phones.all if p.n % workers == worker]
            run_step(site, fill, worker=worker, workers=workers)
            run_step(site, cycle, worker=worker, workers=workers)
            addresses |= {phone.n: phone.address for phone in site.phones.all}
            left += Counter(o.procedure for o in site.outcomes if o.step == 1)
            site.close()
        moved.append(addresses)
        assert left["registration"] == 40
        assert 40 * 0.2 < 40 - left["deregistration"] < 40 * 0.6
    assert moved[0] == moved[1]


def test_a_mix_starts_each_procedure_at_its_instants(site: Site) -> None:
    phases = (
        "[{fill: {rate: 100, to: 10}}, {load: {rates: {"
        "refreshes: [[0s, 0], [400ms, 50/s]], reattaches: [[0s, 20], [400ms, 20]], "
        "power_cycles: [[0s, 10], [400ms, 10]]}}}]"
    )
    fill, mix = steps(phases)
    run_step(site, fill)
    site.outcomes.clear()
    run = run_step(site, mix)
    assert run.offered == {"refresh": 10, "reattach": 8, "power_cycle": 4}
    assert run.dropped == 0
    assert Counter(o.procedure for o in site.outcomes) == {
        "reregistration": 10, "deregistration": 4, "registration": 12,
    }  # fmt: skip
    assert all(o.succeeded and o.step == 1 for o in site.outcomes)
    # 0 to 50/s in 0.4 s: arrival i where 62.5 t² = i.
    refreshed = offsets_of(site.of("reregistration"), run.first_due_at)
    assert refreshed == pytest.approx([(i / 62.5) ** 0.5 for i in range(10)])
    gone = offsets_of(site.of("deregistration"), run.first_due_at)
    assert gone == pytest.approx([0.0, 0.1, 0.2, 0.3])


def due(step_of: Step, worker: int, workers: int) -> dict[str, list[float]]:
    """The instants at which one worker's procedures are due, by procedure."""
    site = Site(10)
    site.phones.all = [p for p in site.phones.all if p.n % workers == worker]
    (fill,) = steps("[{fill: {rate: 200, to: 10}}]")
    run_step(site, fill, worker=worker, workers=workers)
    site.outcomes.clear()
    run = run_step(site, step_of, worker=worker, workers=workers)
    found: dict[str, list[float]] = {}
    for outcome in site.outcomes:
        # The registration of a power cycle is due when its de-registration has ended.
        if outcome.procedure != "registration":
            found.setdefault(outcome.procedure, []).append(outcome.due_at - run.first_due_at)
    site.close()
    return found


def test_two_runs_and_any_number_of_workers_offer_the_same_instants() -> None:
    phases = (
        "[{fill: {rate: 100, to: 10}}, {load: {arrivals: poisson, rates: {"
        "refreshes: [[0s, 5], [400ms, 80/s]], power_cycles: [[0s, 30], [400ms, 0]]}}}]"
    )
    _, mix = steps(phases)
    alone, again = due(mix, 0, 1), due(mix, 0, 1)
    assert {name: len(found) for name, found in alone.items()} == {
        "reregistration": 17, "deregistration": 6,
    }  # fmt: skip
    parts = [due(mix, worker, 3) for worker in range(3)]
    for name, instants in alone.items():
        assert sorted(again[name]) == pytest.approx(sorted(instants), abs=1e-9)
        together = sorted(at for part in parts for at in part.get(name, []))
        assert together == pytest.approx(sorted(instants), abs=1e-9)


@pytest.mark.parametrize(
    ("rate", "wanted"),
    [
        ("{from: 0.001, to: 100}", [(i / 250) ** 0.5 for i in range(10)]),
        ("{burst: 4, every: 100ms}", [0.0] * 4 + [0.1] * 4 + [0.2] * 2),
    ],
)
def test_a_fill_by_a_ramp_and_by_bursts(rate: str, wanted: list[float]) -> None:
    (fill,) = steps(f"[{{fill: {{rate: {rate}, to: 10}}}}]")
    offsets: list[float] = []
    for worker in (0, 1):
        site = Site(10)
        site.phones.all = [p for p in site.phones.all if p.n % 2 == worker]
        run = run_step(site, fill, worker=worker, workers=2)
        offsets += offsets_of(site.outcomes, run.first_due_at)
        site.close()
    assert sorted(offsets) == pytest.approx(wanted, abs=2e-3)
