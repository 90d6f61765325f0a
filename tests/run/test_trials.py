"""Steps made for a search, on a real loop: for a given time, the warm-up apart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from imsbench.engine.loop import clock
from imsbench.profile import Calls, Step, Trial, TrialLoad
from imsbench.run.steps import StepRun
from tests.run.registrar import Site


@pytest.fixture
def site() -> Iterator[Site]:
    """Forty phones and their registrar."""
    site = Site(40)
    yield site
    site.close()


def trial(
    loads: dict[TrialLoad, float], registered: int, *, warm_up_s: float = 0.0, **values: Any
) -> Step:
    """A step of 0.2 s after its warm-up."""
    return Step(
        index=7, kind="trial", rate=sum(loads.values()), registered=registered, registered_before=0,
        passes=1, duration_s=warm_up_s + 0.2, arrivals="constant", title="a trial",
        warm_up_s=warm_up_s, trial=Trial(loads, before=values.pop("before", 1.0)), **values,
    )  # fmt: skip


def run_trial(site: Site, step: Step, *, worker: int = 0, workers: int = 1) -> StepRun:
    """To its end."""
    site.phones.step = step.index
    run = StepRun(
        site.loop, site.phones, site.calls, step,
        seed=1, worker=worker, workers=workers, drain_s=5.0, on_done=site.loop.stop,
    )  # fmt: skip
    run.begin(clock() + 0.02)
    site.turn_until_stopped()
    return run


def test_registrations_last_the_time_and_the_warm_up_belongs_to_no_step(site: Site) -> None:
    step = trial({"registration": 100.0}, 40, warm_up_s=0.1, before=0.5)
    assert (step.registrations, step.attempts) == (20, 25)
    run = run_trial(site, step)
    offsets = sorted(o.due_at - run.first_due_at for o in site.outcomes)
    assert offsets[:5] == pytest.approx([i / 50 for i in range(5)])
    assert offsets[5:] == pytest.approx([0.1 + i / 100 for i in range(20)])
    assert sum(o.step == 7 for o in site.outcomes) == 20
    assert all((o.step == 7) == (o.due_at >= run.first_due_at + 0.1) for o in site.outcomes)
    assert site.phones.registered == 25
    assert (run.dropped, run.unfinished) == (0, 0)


def test_what_is_beyond_the_base_is_released(site: Site) -> None:
    run_trial(site, trial({"registration": 100.0}, 40))
    assert site.phones.registered == 20
    base = sorted(p.n for p in site.phones.all if p.registration is not None and p.n < 10)
    run = run_trial(site, trial({"release": 200.0}, 10))
    assert [p.n for p in site.phones.all if p.registration is not None] == base
    assert run.dropped == 0


def test_a_cycle_uses_few_phones_again_and_again(site: Site) -> None:
    run_trial(site, trial({"registration": 25.0}, 5))
    assert site.phones.registered == 5
    site.outcomes.clear()
    run_trial(site, trial({"cycle": 100.0}, 5))
    assert len(site.of("registration")) == len(site.of("deregistration")) == 20
    assert site.phones.registered == 5


def test_calls_and_a_cycle_side_by_side(site: Site) -> None:
    run_trial(site, trial({"registration": 200.0}, 40))
    site.outcomes.clear()
    calls = Calls.model_validate({"rate": 1, "duration": "1s", "hold": {"mean": "5ms"}})
    step = trial({"cycle": 20.0, "calls": 20.0}, 40, warm_up_s=0.1, calls=calls)
    assert (step.registrations, step.evaluated_calls, step.attempts) == (4, 4, 12)
    run = run_trial(site, step)
    # On a machine that stands still meanwhile an arrival may find all phones busy: counted, not lost.
    assert run.called + run.without_pair == 4
    assert sum(o.step == 7 for o in site.call_outcomes) == run.called
    assert run.started + run.dropped == 6
    assert len(site.of("registration")) == run.started


def test_the_shares_of_workers_make_the_whole(site: Site) -> None:
    due = []
    for worker in range(2):
        one = Site(40)
        run = run_trial(one, trial({"registration": 100.0}, 40), worker=worker, workers=2)
        due += [o.due_at - run.first_due_at for o in one.outcomes]
        one.close()
    assert sorted(due) == pytest.approx([i / 100 for i in range(20)])
