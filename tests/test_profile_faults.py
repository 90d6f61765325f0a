"""Faults in profiles: what is wrong with them is told at once, with lines; what is right reads back."""

from __future__ import annotations

import pytest

from imsbench.profile import (
    Profile,
    ProfileError,
    faults_of_step,
    parse_profile,
)
from imsbench.run import configs, derive
from imsbench.run.topology import Node

BASE = """name: small
subscribers: {count: 100}
phases:
  - fill: {rate: 10/s, to: 100}
  - cycle: {rate: [10/s, 20/s]}
"""


def problems(text: str) -> dict[str, tuple[int | None, str]]:
    with pytest.raises(ProfileError) as caught:
        parse_profile(BASE + text)
    return {problem.path: (problem.line, problem.text) for problem in caught.value.problems}


def test_all_kinds_read_and_travel_as_json() -> None:
    profile = parse_profile(
        BASE
        + """
target:
  faults:
    - {what: error, on: [INVITE, REGISTER], status: 503, share: 0.05}
    - {what: delay, on: ["401 REGISTER", "180 INVITE"], delay: {mean: 50ms}}
simulators:
  hss: {faults: [{what: silence, commands: [MAR], share: 0.01}]}
  pcrf: {faults: [{what: error, result: 5065}]}
faults:
  - {what: core_stall, step: 2, at: 2s, duration: 2s}
  - {what: hss_restart, at: 5s, duration: 3s}
  - {what: rtr, step: cycle, rate: 2/s, duration: 1s}
  - {what: tcp_reset, step: fill, at: 1s, share: 1.0}
"""
    )
    assert Profile.model_validate(profile.model_dump(mode="json")) == profile
    assert profile.describe().endswith("), with 8 faults injected.")
    steps = profile.steps()
    assert [n for n, _ in faults_of_step(profile.faults, None)] == [1]
    assert [[n for n, _ in faults_of_step(profile.faults, step)] for step in steps] == [
        [3], [0, 2], [2],
    ]  # fmt: skip
    error, delay = configs.core_config(profile, Node())["steady_faults"]
    assert (error["names"], error["share"], error["code"]) == (["INVITE", "REGISTER"], 0.05, 503)
    assert delay["delay"] == {"kind": "constant", "mean_s": 0.05, "sigma": 1.0}
    (silence,) = configs.hss_config(profile, Node())["faults"]
    assert (silence["what"], silence["names"]) == ("silence", ["MAR"])
    (refusal,) = configs.pcrf_config(profile, Node())["faults"]
    assert (refusal["names"], refusal["code"]) == ([], 5065)


def test_everything_wrong_is_told_at_once() -> None:
    found = problems(
        """target: {faults: [{what: error, on: ["200 INVITE"], status: 503}]}
simulators: {hss: {faults: [{what: error, commands: [AAR], result: 5012}]}}
faults:
  - {what: core_stall, at: 2s}
  - {what: rtr, rate: 2/s}
  - {what: asr, count: 1, share: 0.5}
  - {what: flood, count: 1}
  - {what: ppr, count: 1, step: -1}
"""
    )
    assert "requests" in found["target.faults[0]"][1]
    assert found["simulators.hss.faults[0].commands[0]"][0] == 7
    assert found["faults[0]"] == (9, "core_stall has a duration, and no rate, count or share")
    assert "a rate, and nothing else, has a duration" in found["faults[1]"][1]
    assert "exactly one of rate, count and share" in found["faults[2]"][1]
    assert found["faults[3].what"][0] == 12
    assert "position of a step" in found["faults[4].step"][1]


@pytest.mark.parametrize(
    ("fault", "path", "text"),
    [
        ("{what: error, on: [INVITE]}", "target.faults[0]", "has a status"),
        ("{what: loss, on: [INVITE], status: 503}", "target.faults[0]", "has a status"),
        ("{what: delay, on: [INVITE]}", "target.faults[0]", "has a delay above 0"),
        ("{what: loss, on: []}", "target.faults[0].on", "at least one"),
        ("{what: loss, on: [ACK]}", "target.faults[0].on[0]", "pattern"),
        ("{what: loss, on: [INVITE], share: 0}", "target.faults[0].share", "greater than 0"),
        ("{what: error, on: [CANCEL], status: 503}", "target.faults[0]", "CANCEL"),
    ],
)
def test_steady_faults_of_a_target_are_checked(fault: str, path: str, text: str) -> None:
    assert text in problems(f"target: {{faults: [{fault}]}}\n")[path][1]


@pytest.mark.parametrize(
    ("fault", "where", "text"),
    [
        ("{what: rtr, count: 1, step: 4}", "step", "is 4, but the load has 3 steps"),
        (
            "{what: rtr, count: 1, step: calls}",
            "step",
            "is calls, but the load has no such step: 3 of fill, cycle",
        ),
        ("{what: rtr, count: 1, step: 1, at: 10s}", "at", "step 1 takes 10 s only"),
        ("{what: rtr, count: 1, step: cycle, at: 6s}", "at", "one of the steps takes 5 s only"),
        ("{what: rtr, count: 1, at: 25s}", "at", "the load takes 25 s only"),
    ],
)
def test_a_timed_fault_lies_within_its_step(fault: str, where: str, text: str) -> None:
    line, said = problems(f"faults:\n  - {fault}\n")[f"faults[0].{where}"]
    assert line == 7
    assert text in said


@pytest.mark.parametrize(
    ("others", "what"),
    [
        ("target: {kind: 'null'}", "core_stall"),
        ("target: {kind: 'null'}", "hss_restart"),
        ("simulators: {pcrf: {enabled: false}}", "pcrf_restart"),
        ("target: {kind: external, pcscf: '192.0.2.1:5060'}", "hss_restart"),
    ],
)
def test_a_fault_needs_somebody_to_do_it(others: str, what: str) -> None:
    found = problems(f"{others}\nfaults: [{{what: {what}, duration: 1s}}]\n")
    assert what in found["faults[0].what"][1]


def test_another_target_and_a_first_call_drop_what_they_have_not() -> None:
    profile = parse_profile(
        BASE
        + """
phones: {ipsec: 'off'}
target: {faults: [{what: loss, on: [INVITE]}]}
simulators: {hss: {faults: [{what: silence}]}}
faults: [{what: core_stall, duration: 1s}, {what: hss_restart, duration: 1s}]
"""
    )
    null = derive.with_target(profile, "null")
    assert (null.faults, null.target.faults) == ((), ())
    assert derive.with_target(profile, "192.0.2.1:5060").faults == ()
    assert derive.with_target(profile, "embedded").faults == profile.faults
    assert derive.with_target(profile, "lab").faults == profile.faults[1:]
    call = derive.one_call(profile)
    assert (call.faults, call.target.faults) == ((), ())
    assert call.simulators.hss is not None
    assert call.simulators.hss.faults == ()
    assert derive.one_phone(profile).faults == ()
