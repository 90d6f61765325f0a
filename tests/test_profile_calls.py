"""Calls in profiles: side by side with a cycle or a hold, and what they must agree with."""

from __future__ import annotations

import pytest

from imsbench.profile import Distribution, ProfileError, parse_profile
from imsbench.run.configs import drain_s

HEAD = "name: x\nsubscribers: {count: 1000}\ngenerator: {arrivals: constant}\n"
FILL = "  - fill: {rate: 100, to: 1000}\n"


def problems_of(phases: str, head: str = HEAD) -> dict[str, str]:
    """What is wrong with these phases, by path."""
    with pytest.raises(ProfileError) as caught:
        parse_profile(f"{head}phases:\n{FILL}{phases}")
    found: dict[str, str] = {}
    for problem in caught.value.problems:
        found[problem.path] = f"{found.get(problem.path, '')} {problem.text}"
    return found


TOGETHER = """\
  - together:
      - cycle: {rate: 20}
      - calls: {rate: 5, duration: 60s, warm_up: 10s, hold: {mean: 30s}}
"""


def test_calls_beside_a_cycle_are_one_step() -> None:
    profile = parse_profile(f"{HEAD}phases:\n{FILL}{TOGETHER}  - hold: {{duration: 5s}}\n")
    _, step, last = profile.steps()
    assert (step.kind, step.rate, step.registered, step.index) == ("calls", 5.0, 1000, 1)
    assert (step.warm_up_s, step.duration_s) == (10.0, 70.0)
    assert (step.attempts, step.evaluated_calls, step.registrations) == (350, 300, 1000)
    assert step.beside is not None
    assert (step.beside.kind, step.beside.rate, step.beside.attempts) == ("cycle", 20.0, 1000)
    assert step.title == "1,000 registered and cycled at 20/s, calls"
    assert last.index == 2
    assert (
        "calls between 1,000 registered at 5/s for 1 min 10 s, held 30 s, and beside them each of "
        "1,000 de-registered and registered again at 20/s in 50 s" in profile.describe()
    )


def test_calls_beside_a_hold_plan_no_registration() -> None:
    text = TOGETHER.replace("cycle: {rate: 20}", "hold: {duration: 60s}")
    step = parse_profile(f"{HEAD}phases:\n{FILL}{text}").steps()[1]
    assert step.registrations == 0
    assert step.title == "1,000 registered and held, calls"


@pytest.mark.parametrize(
    ("old", "new", "path", "said"),
    [
        (
            "cycle: {rate: 20}",
            "fill: {rate: 20, to: 1000}",
            "",
            "calls and one of cycle, reattach and hold",
        ),
        ("cycle: {rate: 20}", "calls: {rate: 1, duration: 1s}", "", "calls and one of cycle"),
        ("cycle: {rate: 20}", "cycle: {rate: [20, 30]}", "", "one rate of each, not a list"),
        ("cycle: {rate: 20}", "cycle: {rate: 10}", "", "cycle takes 100 s, its calls only 60 s"),
        ("cycle: {rate: 20}", "hold: {duration: 61s}", "", "hold takes 61 s, its calls only 60 s"),
        ("rate: 20}", "rate: 20, registered: 500}", "", "is 500, but 1,000 are registered by then"),
        ("warm_up: 10s", "unregistered: 0.1", ".calls.unregistered", "all 1,000 subscribers are"),
        ("rate: 5,", "rate: 50,", "", "too few"),
    ],
)
def test_what_does_not_go_together_is_refused(old: str, new: str, path: str, said: str) -> None:
    assert old in TOGETHER
    found = problems_of(TOGETHER.replace(old, new))
    wanted = f"phases[1]{path or '.together'}" if path != "" else "phases[1]"
    texts = [text for where, text in found.items() if where.startswith(wanted)]
    assert any(said in text for text in texts), found


def test_parts_that_want_different_populations_are_refused() -> None:
    text = TOGETHER.replace("rate: 20}", "rate: 20, registered: 1000}").replace(
        "rate: 5,", "rate: 5, registered: 900,"
    )
    assert "want 900 and 1,000 registered" in problems_of(text)["phases[1].together"]


@pytest.mark.parametrize(
    ("distribution", "longest_s"),
    [
        ({"mean": "90s"}, 90.0),
        ({"kind": "uniform", "mean": "90s"}, 180.0),
        ({"kind": "exponential", "mean": "90s"}, 621.7),
        ({"kind": "lognormal", "mean": "90s", "sigma": 0.5}, 372.3),
    ],
)
def test_the_longest_of_a_distribution(distribution: dict[str, object], longest_s: float) -> None:
    """One draw in a thousand is above it, and of constant and uniform none."""
    made = Distribution.model_validate(distribution)
    assert made.longest == pytest.approx(longest_s, rel=1e-3)


def test_the_warm_up_waits_for_the_longest_hold_and_the_drain_for_the_last_call() -> None:
    calls = "  - calls: {rate: 1, duration: 60s, hold: {kind: exponential, mean: 10s}}\n"
    profile = parse_profile(f"{HEAD}phases:\n{FILL}{calls}")
    fill, step = profile.steps()
    assert step.warm_up_s == pytest.approx(10 * 6.9078 + 128, abs=0.01)
    assert drain_s(profile, fill) == profile.generator.drain
    assert drain_s(profile, step) > profile.generator.drain + 180 + 69


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("{kind: embedded, pid_files: [/run/x.pid]}", "for external targets: ours is known"),
        ("{kind: external, pcscf: '192.0.2.1:5060', commands: ['(']}", "is no regular expression"),
        ("{kind: external, pcscf: '192.0.2.1:5060', commands: ['']}", "must not be empty"),
        ("{kind: external, pcscf: '192.0.2.1:5060', pid_files: [x.pid]}", "pattern"),
        ("{kind: external, pcscf: '192.0.2.1:5060', rx_grace: 1s}", "only for embedded"),
        ("{call_faults: {lose_bye_share: 2}}", "less than or equal to 1"),
    ],
)
def test_what_a_target_may_say(target: str, said: str) -> None:
    found = problems_of("", HEAD + f"target: {target}\n")
    assert any(said in text for text in found.values()), found


def test_a_pcrf_that_is_switched_off_needs_no_address() -> None:
    head = HEAD + (
        "target: {kind: external, pcscf: '192.0.2.1:5060'}\nsimulators: {pcrf: {enabled: false}}\n"
    )
    profile = parse_profile(f"{head}phases:\n{FILL}")
    assert profile.simulators.pcrf is not None
    assert not profile.simulators.pcrf.enabled
