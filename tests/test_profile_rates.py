"""Rates of a profile that are not constant: ramps, bursts, and what steps come of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imsbench.arrivals import Arrivals
from imsbench.profile import Pace, Profile, ProfileError, parse_profile
from imsbench.profile.rates import (
    Bursts,
    Points,
    Ramp,
    Speed,
    area,
    pace_along,
    pace_of,
    pace_over,
)

SMALL = "name: x\nsubscribers: {count: 100}\ngenerator: {arrivals: constant}\nphases:\n"


def profile(*phases: str) -> Profile:
    """With these phases."""
    return parse_profile(SMALL + "".join(f"  - {phase}\n" for phase in phases))


speeds = st.one_of(
    st.floats(0.5, 50.0),
    st.builds(
        lambda a, b: Ramp.model_validate({"from": a, "to": b}),
        st.floats(0.5, 50.0),
        st.floats(0.5, 50.0),
    ),
    st.builds(
        lambda n, s: Bursts.model_validate({"burst": n, "every": f"{s}s"}),
        st.integers(1, 40),
        st.integers(1, 30),
    ),
)


def offsets_of(pace: Pace) -> list[float]:
    return list(Arrivals(pace.rate, pace.attempts, points=pace.points, burst=pace.burst))


@given(speeds, st.integers(1, 300))
def test_a_pace_of_so_many_ends_with_the_last(speed: Speed, attempts: int) -> None:
    pace = pace_of(speed, attempts)
    offsets = offsets_of(pace)
    assert len(offsets) == attempts
    assert offsets[-1] < pace.duration_s or pace.duration_s == pytest.approx(offsets[-1])
    if pace.points:
        assert area(pace.points) == pytest.approx(attempts)


@given(speeds, st.floats(1.0, 60.0), st.floats(0.0, 30.0))
def test_as_many_are_due_before_the_evaluation_as_the_plan_says(
    speed: Speed, duration_s: float, lead_s: float
) -> None:
    pace = pace_over(speed, duration_s, lead_s)
    assert pace.duration_s == pytest.approx(lead_s + duration_s)
    due = sum(at < lead_s - 1e-6 for at in offsets_of(pace))
    at_the_instant = sum(abs(at - lead_s) <= 1e-6 for at in offsets_of(pace))
    assert due <= pace.due_before(lead_s) <= due + at_the_instant


def test_a_curve_begins_with_its_first_rate_in_the_warm_up() -> None:
    curve: Points = ((0.0, 2.0), (10.0, 4.0))
    pace = pace_along(curve, lead_s=5.0)
    assert pace.points == ((0.0, 2.0), (5.0, 2.0), (15.0, 4.0))
    assert (pace.rate, pace.attempts, pace.duration_s) == (3.0, 40, 15.0)
    assert pace.due_before(5.0) == 10


def test_a_ramp_takes_as_long_as_its_mean_rate() -> None:
    steps = profile(
        "fill: {rate: 50, to: 100}", "cycle: {rate: [10, {from: 10/s, to: 30/s}]}"
    ).steps()
    assert [step.duration_s for step in steps] == [2.0, 10.0, 5.0]
    assert (steps[2].rate, steps[2].attempts, steps[2].spelled_rate) == (20.0, 100, "10 to 30/s")


def test_bursts_take_whole_intervals() -> None:
    step = profile("fill: {rate: {burst: 40, every: 10s}, to: 100}").steps()[0]
    assert (step.duration_s, step.attempts, step.burst) == (30.0, 100, 40)
    assert step.spelled_rate == "40 at once every 10 s"


def test_evaluated_calls_of_a_ramp_and_of_bursts() -> None:
    made = "duration: 20s, warm_up: 10s, hold: {mean: 2s}"
    for rate, wanted in (("2/s", 40), ("{from: 1/s, to: 3/s}", 40), ("{burst: 5, every: 4s}", 25)):
        steps = profile("fill: {rate: 50, to: 100}", f"calls: {{rate: {rate}, {made}}}").steps()
        assert steps[1].evaluated_calls == wanted, rate


def test_a_profile_with_ramps_and_bursts_survives_its_own_dump() -> None:
    given_ = profile(
        "fill: {rate: {from: 10, to: 50}, to: 100, arrivals: poisson}",
        "cycle: {rate: [{burst: 10, every: 2s}, 5/s], reattach: 0.25, arrivals: constant}",
        "reattach: {rate: {from: 5, to: 10}}",
        "storm: {within: 2s, back_off: none}",
        "busy_hour: {duration: 60s, scale: 2, calls: {hold: {mean: 5s}}}",
        "load: {rates: {calls: [[0s, 0], [10s, 1/s]], refreshes: [[0s, 1], [10s, 1]]}, "
        "calls: {hold: {mean: 5s}}}",
    )
    again = Profile.model_validate(given_.model_dump(mode="json"))
    assert again == given_
    assert again.steps() == given_.steps()


@pytest.mark.parametrize(
    ("rate", "said"),
    [
        ("{from: 10/s}", "to is missing"),
        ("{from: 0, to: 5/s}", "from must be a rate above 0"),
        ("{from: 1, to: 5, over: 3s}", "over is unknown"),
        ("{burst: 0, every: 3s}", "burst must be greater than or equal to 1"),
        ("{burst: 5}", "every is missing"),
        ("{burst: 5, every: 3}", "every must be a duration with its unit"),
    ],
)
def test_what_is_wrong_with_a_rate_is_told_where_it_stands(rate: str, said: str) -> None:
    with pytest.raises(ProfileError) as caught:
        profile(f"fill: {{rate: {rate}, to: 100}}", "cycle: {}")
    text = str(caught.value)
    assert "line 5: phases[0].fill.rate: must be a rate, a ramp" in text
    assert said in text
    assert "phases[1].cycle.rate: is missing" in text


def test_the_sentence_tells_every_load() -> None:
    text = profile(
        "fill: {rate: {from: 10, to: 50}, to: 100}",
        "reattach: {rate: 5}",
        "cycle: {rate: {burst: 10, every: 2s}, reattach: 0.25}",
        "storm: {core: lost, within: 2s, back_off: none}",
        "busy_hour: {duration: 1min, calls: {hold: {mean: 5s}}}",
        "load: {rates: {refreshes: [[0s, 1], [10s, 3]]}, scale: 2}",
    ).describe()
    for part in (
        "from 0 to 100 registered at 10 to 50/s in 3.333 s",
        "each of 100 re-attached from another address at 5/s in 20 s",
        "0.25 of them re-attached instead, at 10 at once every 2 s in 20 s",
        "all 100 lose their connections and come back within 2 s after 5 s, trying again 1 s after a "
        "failure, while the core has lost its state",
        "calls between 100 registered at 0.0388889/s",
        "and beside them refreshes at 0.02778/s, re-attaches at 0.01389/s and power cycles at",
        "refreshes at 4/s on average of 100 registered 10 s long",
    ):
        assert part in text


def test_which_steps_are_the_same_all_along_and_where_phones_move() -> None:
    calls = "duration: 10s, warm_up: 0s, hold: {mean: 1s}"
    slope = "[[0s, 1], [10s, 2]]"
    cases = {
        "cycle: {rate: 10}": (True, False),
        "cycle: {rate: 10, reattach: 0.1}": (True, True),
        "cycle: {rate: {from: 1, to: 10}}": (False, False),
        "cycle: {rate: {burst: 5, every: 1s}}": (False, False),
        "reattach: {rate: 10}": (True, True),
        "storm: {}": (False, False),
        f"calls: {{rate: 1, {calls}}}": (True, False),
        f"calls: {{rate: {{from: 1, to: 2}}, {calls}}}": (False, False),
        f"together: [{{calls: {{rate: 1, {calls}}}}}, {{reattach: {{rate: 10}}}}]": (True, True),
        "busy_hour: {duration: 10s, calls: {hold: {mean: 1s}}}": (True, True),
        "busy_hour: {duration: 10s, reattaches: 0, calls: {hold: {mean: 1s}}}": (True, False),
        f"load: {{rates: {{refreshes: {slope}}}}}": (False, False),
        f"load: {{rates: {{calls: {slope}, reattaches: {slope}}}, calls: {{hold: {{mean: 1s}}}}}}": (
            False,
            True,
        ),
    }
    for phase, wanted in cases.items():
        step = profile("fill: {rate: 50, to: 100}", phase).steps()[1]
        assert (step.uniform, step.moves) == wanted, phase
