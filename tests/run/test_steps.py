"""Steps of the load on a real loop: due times exact, every phone used as planned, nothing lost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from imsbench.engine.loop import clock
from imsbench.profile import Step, parse_profile
from imsbench.run.steps import StepRun
from tests.run.registrar import Site


def steps(phases: str, count: int = 10) -> tuple[Step, ...]:
    """The steps of a profile with these phases."""
    text = f"name: x\nsubscribers: {{count: {count}}}\ngenerator: {{arrivals: constant}}\n"
    return parse_profile(f"{text}phases: {phases}\n").steps()


@pytest.fixture
def site() -> Iterator[Site]:
    """Ten phones and their registrar."""
    site = Site(10)
    yield site
    site.close()


def run_step(
    site: Site,
    step: Step,
    *,
    worker: int = 0,
    workers: int = 1,
    seed: int = 1,
    drain_s: float = 9.0,
) -> StepRun:
    """Run one step to its end."""
    site.phones.step = step.index
    run = StepRun(
        site.loop, site.phones, site.calls, step,
        seed=seed, worker=worker, workers=workers, drain_s=drain_s, on_done=site.loop.stop,
    )  # fmt: skip
    run.begin(clock() + 0.02)
    site.turn_until_stopped()
    return run


FILL = "[{fill: {rate: 100, to: 10}}]"
CYCLE = "[{fill: {rate: 100, to: 10}}, {cycle: {rate: 100, passes: 2}}]"


def test_a_fill_registers_every_phone_at_its_instant(site: Site) -> None:
    (fill,) = steps(FILL)
    run = run_step(site, fill)
    assert site.phones.registered == 10
    assert [o.phone for o in sorted(site.outcomes, key=lambda o: o.due_at)] == list(range(10))
    offsets = sorted(o.due_at - run.first_due_at for o in site.outcomes)
    assert offsets == pytest.approx([i / 100 for i in range(10)])
    assert all(o.succeeded and o.step == 0 and o.lateness_s >= 0 for o in site.outcomes)
    assert (run.started, run.dropped) == (10, 0)
    assert not site.phones.outstanding.total()
    assert not site.phones.busy


def test_a_fill_of_one_worker_of_two_takes_its_arrivals(site: Site) -> None:
    (fill,) = steps(FILL)
    run = run_step(site, fill, worker=1, workers=2)
    offsets = sorted(o.due_at - run.first_due_at for o in site.outcomes)
    assert offsets == pytest.approx([(2 * i + 1) / 100 for i in range(10)])


def test_a_cycle_deregisters_and_registers_every_phone_once_a_pass(site: Site) -> None:
    fill, cycle = steps(CYCLE)
    run_step(site, fill)
    site.outcomes.clear()
    run_step(site, cycle)
    assert site.phones.registered == 10
    for procedure in ("deregistration", "registration"):
        assert sorted(o.phone for o in site.of(procedure)) == sorted(2 * list(range(10)))
    ended = {(o.phone, round(o.ended_at, 9)) for o in site.of("deregistration")}
    assert len(ended) == 20
    for registration in site.of("registration"):
        # Due when the phone holds nothing any more, after its own de-registration's 200.
        assert any(
            d.phone == registration.phone and d.ended_at <= registration.due_at
            for d in site.of("deregistration")
        )
    assert all(o.step == 1 for o in site.outcomes)


def test_a_hold_may_have_each_phone_refresh_once_ahead_of_its_timer(site: Site) -> None:
    fill, hold = steps(
        "[{fill: {rate: 100, to: 10}}, {hold: {duration: 200ms, refresh: registration}}]"
    )
    run_step(site, fill)
    site.outcomes.clear()
    run = run_step(site, hold)
    refreshed = sorted(site.outcomes, key=lambda o: o.due_at)
    assert [(o.procedure, o.phone) for o in refreshed] == [("reregistration", n) for n in range(10)]
    offsets = [o.due_at - run.first_due_at for o in refreshed]
    assert offsets == pytest.approx([i * 0.02 for i in range(10)])
    assert all(o.succeeded and o.step == 1 for o in refreshed)
    assert (run.started, run.dropped) == (10, 0)


@pytest.mark.parametrize("what", ["registration", "subscription"])
def test_a_phone_that_has_nothing_to_refresh_is_a_counted_drop(site: Site, what: str) -> None:
    (hold,) = steps(f"[{{hold: {{duration: 50ms, registered: 10, refresh: {what}}}}}]")
    run = run_step(site, hold)
    assert (run.started, run.dropped, site.outcomes) == (0, 10, [])


def test_the_order_of_a_cycle_comes_from_the_seed() -> None:
    orders = []
    for seed in (1, 1, 2):
        site = Site(10)
        fill, cycle = steps(CYCLE)
        run_step(site, fill)
        run_step(site, cycle, seed=seed)
        due = sorted(site.of("deregistration"), key=lambda o: o.due_at)
        orders.append([o.phone for o in due])
        site.close()
    assert orders[0] == orders[1]
    assert orders[0] != orders[2]


def test_an_arrival_without_an_idle_phone_is_a_counted_drop() -> None:
    site = Site(1)
    fill, cycle = steps("[{fill: {rate: 100, to: 1}}, {cycle: {rate: 100, passes: 5}}]", count=1)
    run_step(site, fill)
    site.delay_s = 0.05
    run = run_step(site, cycle)
    assert run.dropped > 0
    assert run.started + run.dropped == 5
    site.close()


def test_a_repair_registers_only_what_is_missing(site: Site) -> None:
    fill, cycle = steps(CYCLE)
    site.refuse = {site.population.subscriber(n).impi for n in (3, 7)}
    run_step(site, fill)
    assert site.phones.registered == 8
    site.refuse.clear()
    site.outcomes.clear()
    site.phones.step = cycle.index
    repair = StepRun(
        site.loop,
        site.phones,
        site.calls,
        cycle,
        seed=1,
        worker=0,
        workers=1,
        drain_s=9.0,
        on_done=site.loop.stop,
    )
    repair.begin(clock(), repair=True, repair_rate=100.0)
    site.turn_until_stopped()
    assert sorted(o.phone for o in site.outcomes) == [3, 7]
    assert site.phones.registered == 10


def test_a_hold_lasts_its_time_and_does_nothing(site: Site) -> None:
    fill, hold = steps("[{fill: {rate: 100, to: 10}}, {hold: {duration: 300ms}}]")
    run_step(site, fill)
    site.outcomes.clear()
    before = clock()
    run_step(site, hold)
    assert clock() - before >= 0.3
    assert not site.outcomes


def test_a_refused_phone_holds_nothing(site: Site) -> None:
    site.refuse = {site.population.subscriber(0).impi}
    (fill,) = steps("[{fill: {rate: 100, to: 1}}]")
    run_step(site, fill)
    (outcome,) = site.outcomes
    assert (outcome.stage, outcome.cause) == ("challenge", "403")
    phone = site.phones.all[0]
    assert (phone.registration, phone.clear, phone.client, phone.sas) == (None, None, None, None)
    site.turn_for(0.02)
    assert not site.far.sockets


def test_refreshes_are_made_when_due_and_counted_where_they_are_due() -> None:
    site = Site(2, expires_s=1)  # refreshed at half: 0.5 s
    fill, hold = steps("[{fill: {rate: 100, to: 2}}, {hold: {duration: 800ms}}]", count=2)
    run_step(site, fill)
    registered = {o.phone: o.ended_at for o in site.outcomes}
    run_step(site, hold)
    refreshes = site.of("reregistration")
    assert len(refreshes) == 2
    for refresh in refreshes:
        assert refresh.step == 1
        assert refresh.succeeded
        assert refresh.due_at == pytest.approx(registered[refresh.phone] + 0.5)
    assert site.received["REGISTER 600000"] == 2 * 2 + 2
    site.close()


def test_a_failed_refresh_ends_the_registration(site: Site) -> None:
    site.expires_s = 1
    fill, hold = steps("[{fill: {rate: 100, to: 1}}, {hold: {duration: 700ms}}]")
    run_step(site, fill)
    site.refuse = {site.population.subscriber(0).impi}
    run_step(site, hold)
    (refresh,) = site.of("reregistration")
    assert refresh.cause == "403"
    assert site.phones.registered == 0
    assert site.phones.all[0].registration is None


def test_a_step_ends_although_refreshes_keep_coming(site: Site) -> None:
    site.expires_s = 1  # each phone refreshes twice a second …
    site.delay_s = 0.4  # … and takes 0.4 s for it: there is always one under way
    (fill,) = steps(FILL)
    run = run_step(site, fill)
    assert run.unfinished == 0
    assert len(site.of("registration")) == 10
    site.turn_for(1.0)
    late = [o for o in site.of("reregistration") if o.due_at > run.first_due_at + 0.1]
    assert late
    assert {o.step for o in late} == {-1}  # due after the plan: of no step


def test_a_drain_has_an_end_and_what_is_left_is_counted(site: Site) -> None:
    site.delay_s = 1.0
    (fill,) = steps(FILL)
    run = run_step(site, fill, drain_s=0.1)
    assert run.unfinished == 10


def test_passes_are_shared_among_workers_as_the_phones_are() -> None:
    fill, cycle = steps("[{fill: {rate: 100, to: 3}}, {cycle: {rate: 100, passes: 3}}]", count=3)
    offsets: list[float] = []
    for worker in (0, 1):
        site = Site(3)
        site.phones.all = [p for p in site.phones.all if p.n % 2 == worker]
        run_step(site, fill, worker=worker, workers=2)
        run = run_step(site, cycle, worker=worker, workers=2)
        assert run.dropped == 0
        assert run.started == 3 * len(site.phones.all)
        offsets += [o.due_at - run.first_due_at for o in site.of("deregistration")]
        site.close()
    assert sorted(offsets) == pytest.approx([i / 100 for i in range(9)])


def test_a_refresh_that_came_due_while_the_phone_was_busy_is_made_when_it_is_not() -> None:
    site = Site(1, expires_s=1)
    fill, hold = steps("[{fill: {rate: 100, to: 1}}, {hold: {duration: 900ms}}]", count=1)
    run_step(site, fill)
    phone = site.phones.all[0]
    site.phones.busy[phone.n] = 1  # something of its own is under way
    site.turn_for(0.7)
    assert not site.of("reregistration")
    del site.phones.busy[phone.n]
    began = clock()
    site.phones._catch_up(phone)
    run_step(site, hold)
    first = site.of("reregistration")[0]
    assert first.due_at == pytest.approx(
        began, abs=0.05
    )  # its own procedure's time is not lateness
    site.close()
