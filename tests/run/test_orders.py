"""Steps on their way to the workers, and the profile as their source."""

from __future__ import annotations

import json

import pytest

from imsbench.profile import load_profile, parse_profile, shipped_profiles
from imsbench.run.orders import Order, of_profile, step_config, step_of
from imsbench.run.record import StepRecord


@pytest.mark.parametrize("name", shipped_profiles())
def test_every_step_of_every_shipped_profile_survives_the_way(name: str) -> None:
    for step in load_profile(name).steps():
        assert step_of(json.loads(json.dumps(step_config(step)))) == step


def test_what_runs_beside_calls_survives_too() -> None:
    text = (
        "name: x\nsubscribers: {count: 400}\nphases: [{fill: {rate: 10, to: 400}}, "
        "{together: [{calls: {rate: 1.5, duration: 20s, hold: {mean: 333ms}}}, "
        "{cycle: {rate: 100}}]}]\n"
    )
    step = parse_profile(text).steps()[1]
    assert step.beside is not None
    assert step_of(json.loads(json.dumps(step_config(step)))) == step


def test_a_profile_gives_its_steps_in_order_and_ends() -> None:
    profile = load_profile("quickstart")
    source = of_profile(profile)
    orders = [next(source)]
    for _ in profile.steps()[1:]:
        orders.append(source.send(StepRecord(orders[-1].step)))
    with pytest.raises(StopIteration):
        source.send(StepRecord(orders[-1].step))
    assert orders == [Order(step) for step in profile.steps()]
