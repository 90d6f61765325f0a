"""Thresholds of a profile: texts, scopes, aborts, and what is wrong with them all at once."""

from __future__ import annotations

import pytest

from imsbench.profile import Profile, ProfileError, parse_profile
from imsbench.run.execute import threshold_problem

PROFILE = """
name: scoped
subscribers: {count: 100}
phases:
  - fill: {rate: 100, to: 100}
  - cycle: {rate: [10, 20]}
  - calls: {rate: 1, duration: 10s, hold: {mean: 1s}}
thresholds:
"""


def parse(*thresholds: str) -> Profile:
    lines = "".join(f"  - {text}\n" for text in thresholds)
    return parse_profile(PROFILE + lines, threshold_problem=threshold_problem)


@pytest.mark.parametrize(
    ("during", "steps"),
    [
        ("fill", [0]), ("cycle", [1, 2]), ("cycle at 20/s", [2]), ("cycle at 600/min", [1]),
        ("calls", [3]), ("step 1", [0]), ("step 4", [3]),
    ],
)  # fmt: skip
def test_scopes(during: str, steps: list[int]) -> None:
    profile = parse(f"{{that: registration_time.p99 < 1s, during: {during}}}")
    (condition,) = profile.thresholds
    assert [s.index for s in profile.steps() if condition.applies(s)] == steps
    assert condition.title == f"registration_time.p99 < 1s in {during}"


def test_a_text_alone_is_for_every_step_and_stays_a_text() -> None:
    profile = parse(
        "call_drop_rate < 0.1%", "{that: call_drop_rate < 1%, during: calls, abort: true}"
    )
    plain, scoped = profile.model_dump(mode="json")["thresholds"]
    assert plain == "call_drop_rate < 0.1%"
    assert scoped == {
        "that": "call_drop_rate < 1%", "during": "calls", "abort": True, "after": "0s",
    }  # fmt: skip
    assert all(profile.thresholds[0].applies(step) for step in profile.steps())
    assert Profile.model_validate(profile.model_dump(mode="json")) == profile


def test_everything_wrong_is_told_at_once_with_its_line() -> None:
    with pytest.raises(ProfileError) as told:
        parse(
            "{that: call_drop_rat < 1%}",
            "{that: call_drop_rate < 1%, during: lunch}",
            "{that: call_drop_rate < 1%, after: 3s}",
            "{that: call_drop_rate < 1%, abrot: true}",
            "{that: call_drop_rate < 1%, during: calls at 5/hour}",
        )
    found = {problem.path: (problem.line, problem.text) for problem in told.value.problems}
    assert found["thresholds[0]"][0] == 9
    assert "did you mean call_drop_rate?" in found["thresholds[0]"][1]
    assert found["thresholds[1].during"] == (10, found["thresholds[1].during"][1])
    assert '"cycle at 50/s", or "step 3"' in found["thresholds[1].during"][1]
    assert "after is for a threshold with abort: true" in found["thresholds[2]"][1]
    assert "did you mean abort?" in found["thresholds[3].abrot"][1]
    assert found["thresholds[4].during"][0] == 13


@pytest.mark.parametrize("during", ["storm", "hold", "cycle at 30/s", "step 5"])
def test_a_scope_without_a_step_is_refused(during: str) -> None:
    with pytest.raises(ProfileError) as told:
        parse(f"{{that: call_drop_rate < 1%, during: {during}}}")
    (problem,) = told.value.problems
    assert (problem.path, problem.line) == ("thresholds[0].during", 9)
    assert "the load has no such step: 4 of fill, cycle, calls" in problem.text


def test_a_profiles_sentence_tells_the_arrivals_of_its_steps() -> None:
    assert "(constant and Poisson arrivals, " not in parse("registration_time.p99 < 1s").describe()
    text = (
        PROFILE.replace("calls: {", "calls: {arrivals: constant, ")
        + "  - registration_time.p99 < 1s\n"
    )
    assert "(Poisson and constant arrivals, " in parse_profile(text).describe()


def test_a_threshold_on_calls_where_nobody_calls_is_refused() -> None:
    assert parse("{that: calls_in_progress.max < 50, during: calls}").thresholds
    with pytest.raises(ProfileError) as told:
        parse("registration_time.p99 < 1s", "{that: session_setup_time.p99 < 1s, during: cycle}")
    (problem,) = told.value.problems
    assert problem.path == "thresholds[1]"
    assert problem.line == 10
    assert "session_setup_time is of calls, and no step that it is for makes any" in problem.text


def test_all_that_is_wrong_anywhere_is_told_at_once() -> None:
    """A wrong type, a sum, a fault and thresholds outside the load, and KPIs that nothing measures."""
    text = (
        PROFILE.replace("to: 100", "to: 900")
        + """  - {that: registration_time.p99 < 1s, during: hold}
  - {that: session_setup_time.p99 < 1s, during: cycle}
  - registation_time.p99 < 1s
  - {that: 5, during: calls}
faults:
  - {what: core_stal, step: 9, duration: 2s}
  - {what: core_stall, step: 9, duration: 2s}
  - {what: hss_restart, step: storm, duration: 2s}
generator: {workers: many}
"""
    )
    with pytest.raises(ProfileError) as told:
        parse_profile(text, threshold_problem=threshold_problem)
    assert {problem.path for problem in told.value.problems} == {
        "phases[0].fill.to", "thresholds[0].during", "thresholds[1]", "thresholds[2]",
        "thresholds[3].that", "faults[0].what", "faults[1].step", "faults[2].step",
        "generator.workers",
    }  # fmt: skip
