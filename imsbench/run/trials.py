"""What a search's trial plans on one worker: its arrivals, warm-up and evaluated part, and its phones."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from imsbench.phone.phone import Phone
from imsbench.profile import Step, TrialLoad


@dataclass(frozen=True, slots=True)
class Part:
    """Arrivals of one load in the warm-up, or after it."""

    load: TrialLoad
    """What arrives."""
    at: float
    """The first arrival, or the instant from which chance spreads them, seconds."""
    rate: float
    """Arrivals per second, of all workers."""
    count: int
    """Arrivals, of all workers."""
    name: str
    """Unlike that of any other part of the step: chance draws by it."""


def parts_of(step: Step, first_due_at: float) -> Iterator[Part]:
    """Two for each load; those of the warm-up end one of their own gaps before the others begin."""
    trial = step.trial
    assert trial is not None
    evaluated_at = first_due_at + step.warm_up_s
    for load, rate in trial.loads.items():
        before, early = rate * trial.before, trial.attempts_before(load, step.warm_up_s)
        yield Part(load, evaluated_at - early / before, before, early, f"{load}/before")
        count = trial.attempts(load, step.duration_s - step.warm_up_s)
        yield Part(load, evaluated_at, rate, count, load)


def phones_of(step: Step, phones: Sequence[Phone], seed: str) -> list[Phone]:
    """The phones of its registrations, cycles or releases, in an order drawn from the seed."""
    trial = step.trial
    assert trial is not None
    if "registration" in trial.loads:
        mine = [p for p in phones if p.n < step.registered and p.registration is None]
    elif "release" in trial.loads:
        mine = [p for p in phones if p.n >= step.registered and p.registration is not None]
    else:
        mine = [p for p in phones if p.n < step.registered]
    random.Random(seed).shuffle(mine)
    return mine
