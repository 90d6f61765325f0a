"""Profiles: what is right loads and describes itself, what is wrong is refused whole, with its place."""

from __future__ import annotations

import ast
import inspect
import json
import pathlib
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imsbench.profile import (
    Profile,
    ProfileError,
    load_profile,
    model,
    parse_duration,
    parse_profile,
    parse_rate,
    plan,
    serialize_duration,
    shipped_profiles,
    spell_duration,
)
from imsbench.profile.source import Source
from imsbench.protocol.secagree import ALGS, EALGS, MECHANISMS

SMALL = """
name: small
subscribers: {count: 100}
phases:
  - fill: {rate: 50/s, to: 100}
"""


def problems_of(text: str) -> dict[str, tuple[int | None, str]]:
    with pytest.raises(ProfileError) as caught:
        parse_profile(text)
    return {problem.path: (problem.line, problem.text) for problem in caught.value.problems}


GOLDEN = {
    "kamailio-host": (
        "5,000 phones over IPv4 and TCP, in clear, against the Kamailio lab (host): from 0 to 5,000 "
        "registered at 100/s in 50 s; each of 5,000 de-registered and registered again at 50/s in "
        "1 min 40 s, 100/s in 50 s and 200/s in 25 s; calls between 5,000 registered at 10/s, 25/s "
        "and 50/s for 2 min each, held 30 s (constant arrivals, seed 1, 1 worker, at least 9 min "
        "45 s)."
    ),
    "kamailio-uml": (
        "100 phones over IPv4 and TCP, IPsec (userspace), hmac-sha-1-96, no encryption, against the "
        "Kamailio lab (uml): from 0 to 100 registered at 40/s in 2.5 s; each of 100 de-registered and"
        " registered again 4 times at 10/s in 40 s and 20/s in 20 s; calls between 100 registered at "
        "5/s for 1 min 10 s, held 4 s (constant arrivals, seed 1, 1 worker, at least 2 min 12 s)."
    ),
    "kamailio-uml-aes": (
        "60 phones over IPv4 and TCP, IPsec (userspace), hmac-sha-1-96, aes-cbc, against the Kamailio "
        "lab (uml): from 0 to 60 registered at 20/s in 3 s; each of 60 de-registered and registered "
        "again 4 times at 10/s in 24 s; 60 held registered 12 s, each registration refreshed once; "
        "calls between 60 registered at 5/s for 1 min 10 s, held 4 s (constant arrivals, seed 1, "
        "1 worker, at least 1 min 49 s)."
    ),
    "kamailio-uml-short": (
        "10 phones over IPv4 and TCP, IPsec (userspace), hmac-sha-1-96, aes-cbc, against the Kamailio"
        " lab (uml): from 0 to 10 registered at 2/s in 5 s; 10 held registered 35 s; each of 10 de-"
        "registered and registered again at 2/s in 5 s; calls between 10 registered at 1/s for 18 s, "
        "held 2 s (constant arrivals, seed 1, 1 worker, at least 1 min 3 s)."
    ),
    "kamailio-host-short": (
        "200 phones over IPv4 and TCP, in clear, against the Kamailio lab (host): from 0 to 200 "
        "registered at 25/s in 8 s; each of 200 de-registered and registered again at 20/s in 10 s; "
        "calls between 200 registered at 5/s for 20 s, held 4 s (constant arrivals, seed 1, 1 worker, "
        "at least 38 s)."
    ),
    "ella-1000": (
        "1,000 phones over IPv4 and TCP, IPsec (auto), hmac-sha-1-96, no encryption, against the "
        "reference core: from 0 to 1,000 registered at 100/s in 10 s; each of 1,000 de-registered "
        "and registered again at 10/s in 1 min 40 s, 25/s in 40 s and 50/s in 20 s; calls between "
        "1,000 registered at 2/s and 5/s for 11 min 58 s each, held 1 min 30 s (constant "
        "arrivals, seed 1, 1 worker, at least 26 min 46 s)."
    ),
    "ella-1000-poisson": (
        "1,000 phones over IPv4 and TCP, IPsec (auto), hmac-sha-1-96, no encryption, against the "
        "reference core: from 0 to 1,000 registered at 100/s in 10 s; each of 1,000 de-registered "
        "and registered again at 10/s in 1 min 40 s, 25/s in 40 s and 50/s in 20 s; calls between "
        "1,000 registered at 2/s and 5/s for 11 min 58 s each, held 1 min 30 s (Poisson arrivals, "
        "seed 1, 1 worker, at least 26 min 46 s)."
    ),
    "ella-50000": (
        "50,000 phones over IPv4 and TCP, IPsec (auto), hmac-sha-1-96, no encryption, against the "
        "reference core: from 0 to 50,000 registered at 100/s in 8 min 20 s; each of 50,000 "
        "de-registered and registered again at 50/s in 16 min 40 s, 100/s in 8 min 20 s and 150/s "
        "in 5 min 33 s; calls between 50,000 registered at 25/s, 50/s and 100/s for 8 min 38 s "
        "each, held 1 min 30 s (constant arrivals, seed 1, 8 workers, at least 1 h 4 min 47 s)."
    ),
    "ella-50000-poisson": (
        "50,000 phones over IPv4 and TCP, IPsec (auto), hmac-sha-1-96, no encryption, against the "
        "reference core: from 0 to 50,000 registered at 100/s in 8 min 20 s; each of 50,000 "
        "de-registered and registered again at 50/s in 16 min 40 s, 100/s in 8 min 20 s and 150/s "
        "in 5 min 33 s; calls between 50,000 registered at 25/s, 50/s and 100/s for 8 min 38 s "
        "each, held 1 min 30 s (Poisson arrivals, seed 1, 8 workers, at least 1 h 4 min 47 s)."
    ),
    "calls-5000": (
        "5,000 phones over IPv4 and TCP, IPsec (auto), hmac-sha-1-96, no encryption, against the "
        "reference core: from 0 to 5,000 registered at 100/s in 50 s; calls between 5,000 "
        "registered at 25/s for 8 min 38 s, held 1 min 30 s (constant arrivals, seed 1, 1 worker, "
        "at least 9 min 28 s)."
    ),
    "busy-hour-1000": (
        "1,000 phones over IPv4 and TCP, IPsec (auto), hmac-sha-1-96, no encryption, against the "
        "reference core: from 0 to 1,000 registered at 50/s in 20 s; calls between 1,000 registered at "
        "3.88889/s for 9 min 26 s, held 20 s, and beside them refreshes at 2.778/s, re-attaches at "
        "1.389/s and power cycles at 0.2778/s of 1,000 registered (Poisson arrivals, seed 1, 1 worker, "
        "at least 9 min 46 s)."
    ),
    "storm-1000": (
        "1,000 phones over IPv4 and TCP, IPsec (auto), hmac-sha-1-96, no encryption, against the "
        "reference core: from 0 to 1,000 registered at 50/s in 20 s; all 1,000 lose their connections "
        "and come back within 5 s after 5 s, backing off from 30 s to at most 30 min, while the core has "
        "kept its state; all 1,000 lose their connections and come back within 5 s after 5 s, backing "
        "off from 30 s to at most 30 min, while the core has lost its state; each of 1,000 re-attached "
        "from another address at 20/s in 50 s (constant arrivals, seed 1, 1 worker, at least 1 min 30 s)."
    ),
    "first-light-1000": (
        "1,000 phones over IPv4 and TCP, IPsec (auto), hmac-sha-1-96, no encryption, against the "
        "reference core: from 0 to 1,000 registered at 100/s in 10 s; each of 1,000 de-registered "
        "and registered again at 10/s in 1 min 40 s, 25/s in 40 s and 50/s in 20 s (constant "
        "arrivals, seed 1, 1 worker, at least 2 min 50 s)."
    ),
    "search-limiter": (
        "2,000 phones over IPv4 and TCP, in clear, against the reference core: from 0 to 100 registered "
        "at 30/s in 3.333 s; calls between 100 registered at 1/s for 1 min, held 2 s, and beside them "
        "each of 100 de-registered and registered again at 3/s in 33.33 s (constant arrivals, seed 1, "
        "1 worker, at least 1 min 3 s)."
    ),
    "quickstart": (
        "200 phones over IPv4 and TCP, IPsec (auto), hmac-sha-1-96, no encryption, against the "
        "reference core: from 0 to 200 registered at 50/s in 4 s; each of 200 de-registered and "
        "registered again at 20/s in 10 s and 40/s in 5 s; calls between 200 registered at 10/s "
        "for 14 s, held 3 s (constant arrivals, seed 1, 1 worker, at least 33 s)."
    ),
}


def test_every_shipped_profile_has_a_golden_sentence() -> None:
    assert {name: load_profile(name).describe() for name in shipped_profiles()} == GOLDEN


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_a_shipped_profile_is_named_as_its_file(name: str) -> None:
    assert load_profile(name).name == name


def test_quickstart_lets_every_phone_refresh_during_its_calls_and_stays_short() -> None:
    profile = load_profile("quickstart")
    *_, cycle, calls = profile.steps()
    refresh_s = min(profile.target.expires, profile.phones.expires) / 2
    assert profile.target.min_expires <= profile.target.expires
    # The last cycle registers every phone again; the first of them refreshes after the warm-up of
    # the calls, the last before they end.
    assert refresh_s - cycle.duration_s >= calls.warm_up_s
    assert calls.duration_s > refresh_s
    assert calls.calls is not None
    assert calls.warm_up_s > calls.calls.hold.longest  # the load stands when it is evaluated
    assert calls.evaluated_calls == 100  # enough for a p99
    assert profile.duration_s + calls.calls.hold.mean < 40


@pytest.mark.parametrize(
    ("name", "registered", "cycles", "calls"),
    [
        ("ella-1000", 1000, [10, 25, 50], [2, 5]),
        ("ella-1000-poisson", 1000, [10, 25, 50], [2, 5]),
        ("ella-50000", 50_000, [50, 100, 150], [25, 50, 100]),
        ("ella-50000-poisson", 50_000, [50, 100, 150], [25, 50, 100]),
    ],
)
def test_the_published_load_points(
    name: str, registered: int, cycles: list[float], calls: list[float]
) -> None:
    profile = load_profile(name)
    fill, *others = profile.steps()
    assert (fill.rate, fill.registered, fill.duration_s) == (100.0, registered, registered / 100)
    assert [(s.kind, s.rate) for s in others] == [
        *(("cycle", rate) for rate in cycles), *(("calls", rate) for rate in calls),
    ]  # fmt: skip
    for step in others:
        assert step.registered == registered
        assert step.arrivals == ("poisson" if name.endswith("poisson") else "constant")
        if step.calls is not None:
            assert (step.calls.hold.kind, step.calls.hold.mean) == ("constant", 90.0)
            assert (step.calls.ring.mean, step.calls.preconditions) == (0.0, True)
            assert step.warm_up_s == 90.0 + 128.0
            assert step.rate * step.calls.duration >= 1000  # calls of a published p99
    assert min(profile.target.expires, profile.phones.expires) - 600 == 3000
    assert profile.phones.refresh_phase == "uniform"
    assert (profile.phones.algs, profile.phones.ealgs) == (("hmac-sha-1-96",), ("null",))
    assert not profile.target.reauthenticate
    assert profile.phones.subscribe_reg_event


def test_calls_that_are_evaluated() -> None:
    text = SMALL + "  - calls: {rate: [3, 7], duration: 20s, warm_up: 5s, hold: {mean: 1s}}\n"
    constant = "generator: {arrivals: constant}\n"
    steps = parse_profile(text + constant).steps()[1:]
    for step in steps:
        due = [i / step.rate for i in range(step.attempts)]
        assert step.evaluated_calls == sum(at >= step.warm_up_s for at in due)
    assert [step.evaluated_calls for step in parse_profile(text).steps()] == [0, None, None]


def test_steps_of_the_published_scale() -> None:
    steps = load_profile("first-light-1000").steps()
    assert [(s.index, s.kind, s.rate, s.attempts, s.duration_s) for s in steps] == [
        (0, "fill", 100.0, 1000, 10.0),
        (1, "cycle", 10.0, 1000, 100.0),
        (2, "cycle", 25.0, 1000, 40.0),
        (3, "cycle", 50.0, 1000, 20.0),
    ]
    assert [s.registered_before for s in steps] == [0, 1000, 1000, 1000]
    assert steps[0].title == "From 0 to 1,000 registered, in 10 s"
    assert steps[1].title == "1,000 registered"


def test_a_fill_is_constant_whatever_the_arrivals() -> None:
    text = SMALL + "  - cycle: {rate: 10, passes: 2}\n  - hold: {duration: 5s}\n"
    fill, cycle, hold = parse_profile(text).steps()
    assert (fill.arrivals, cycle.arrivals) == ("constant", "poisson")
    assert (cycle.attempts, cycle.duration_s, cycle.title) == (
        200,
        20.0,
        "100 registered, 2 passes",
    )
    assert (hold.rate, hold.attempts, hold.registered) == (0.0, 0, 100)


def test_a_profile_survives_the_way_to_a_worker() -> None:
    for name in shipped_profiles():
        profile = load_profile(name)
        assert Profile.model_validate(json.loads(json.dumps(profile.model_dump()))) == profile
        assert Profile.model_validate_json(profile.model_dump_json()) == profile


def test_a_dump_keeps_units() -> None:
    dump = parse_profile(SMALL).model_dump()
    assert dump["phones"]["registration_timeout"] == "32s"
    assert dump["phones"]["expires"] == "600000s"
    assert dump["phones"]["tcp_idle_close"] == "never"


def test_external_target() -> None:
    text = (
        SMALL + 'target: {kind: external, pcscf: "192.0.2.1:5060", name: my core, version: "2.1"}\n'
    )
    profile = parse_profile(text)
    assert profile.target.title == "my core 2.1"
    assert "against my core 2.1: from 0" in profile.describe()


def test_transport_and_timers() -> None:
    profile = parse_profile(SMALL)
    assert profile.phones.timer_values == (0.5, 4.0, 5.0)
    assert "IPv4 and TCP" in profile.describe()
    profile = parse_profile(SMALL + "phones: {transport: udp, timers: 3gpp}")
    assert profile.phones.timer_values == (2.0, 16.0, 17.0)  # TS 24.229 table 7.7.1
    assert "IPv4 and UDP" in profile.describe()


def test_all_problems_come_at_once_with_path_and_line() -> None:
    found = problems_of(
        """name: Bad Name
subscribers: {count: 0, mcc: 001, frist_msin: 3}
seed: 1
seed: 2
phones:
  ip_version: 5
  expires: 12
  algs: [sha9]
  ealgs: []
  port_us: 70000
  subscribe_reg_event: 1
target: {kind: external}
phases:
  - fill: {rate: -1, to: 200}
  - cycle: {rate: [10, x/s]}
    hold: {duration: 3}
  - {}
  - cycle: {}
generator: {workers: true, limits: {worker_cpu: .nan}}
thresholds: x
simulators: 3
"""
    )
    expected = {
        "name": (1, "must match pattern"),
        "subscribers.count": (2, "must be greater than or equal to 1, got 0"),
        "subscribers.mcc": (2, "quote it"),
        "subscribers.frist_msin": (2, "did you mean first_msin?"),
        "seed": (4, "given twice, first in line 3"),
        "phones.ip_version": (6, "must be 4 or 6, got 5"),
        "phones.expires": (7, "a duration with its unit"),
        "phones.algs[0]": (
            8,
            "must be 'hmac-sha-1-96', 'hmac-md5-96', 'aes-gmac' or 'null', got 'sha9'",
        ),
        "phones.ealgs": (9, "a list of at least one"),
        "phones.port_us": (10, "must be less than or equal to 65535, got 70000"),
        "phones.subscribe_reg_event": (11, "must be true or false"),
        "target": (12, "an external target needs pcscf"),
        "phases[0].fill.rate": (14, "a rate above 0"),
        "phases[1].cycle.rate": (15, "got 'x/s'"),
        "phases[1].hold.duration": (16, "a duration with its unit"),
        "phases[2]": (17, "exactly one of fill, hold, cycle, reattach, storm, calls, "),
        "phases[3].cycle.rate": (18, "is missing"),
        "generator.workers": (19, "must be a whole number"),
        "generator.limits.worker_cpu": (19, "finite"),
        "thresholds": (20, "must be a list"),
        "simulators": (21, "must be a mapping"),
    }
    assert set(found) == set(expected)
    for path, (line, text) in expected.items():
        assert found[path][0] == line, path
        assert text in found[path][1], path


@pytest.mark.parametrize("algs", [["hmac-sha-1-96"], ["null", "hmac-sha-1-96"], list(ALGS)])
@pytest.mark.parametrize("ealgs", [["null"], ["aes-gcm", "null"], list(EALGS)])
def test_what_goes_together_is_offered(algs: list[str], ealgs: list[str]) -> None:
    """The profile's own table says what the protocol's says, in the profile's order."""
    expected = [(alg, ealg) for alg in algs for ealg in ealgs if (alg, ealg) in MECHANISMS]
    text = SMALL + f"phones: {{algs: {algs}, ealgs: {ealgs}}}\n"
    alone = {("alg", alg) for alg in algs} - {("alg", alg) for alg, _ in expected}
    alone |= {("ealg", ealg) for ealg in ealgs} - {("ealg", ealg) for _, ealg in expected}
    if alone:
        assert alone == {tuple(what.split()[:2]) for _, what in problems_of(text).values()}
    else:
        assert parse_profile(text).phones.mechanisms == tuple(expected)


def test_algorithms_that_go_with_nothing_are_refused_by_name_all_at_once() -> None:
    found = problems_of(SMALL + "phones:\n  algs: [aes-gmac, null]\n  ealgs:\n    - aes-cbc\n")
    assert found == {
        "phones.algs[0]": (7, "alg aes-gmac goes only with ealg null, not aes-cbc"),
        "phones.algs[1]": (7, "alg null goes only with ealg aes-gcm, not aes-cbc"),
        "phones.ealgs[0]": (
            9,
            "ealg aes-cbc goes only with alg hmac-sha-1-96 or hmac-md5-96, not aes-gmac or null",
        ),
    }
    found = problems_of(SMALL + "phones: {algs: [hmac-sha-1-96], ealgs: [null, aes-gcm]}\n")
    assert {path: text for path, (_, text) in found.items()} == {
        "phones.ealgs[1]": "ealg aes-gcm goes only with alg null, not hmac-sha-1-96"
    }


@pytest.mark.parametrize(
    ("algs", "ealgs", "text"),
    [
        ("[hmac-sha-1-96]", "[null]", "hmac-sha-1-96, no encryption,"),
        ("[hmac-md5-96]", "[aes-cbc, null]", "hmac-md5-96, aes-cbc or no encryption,"),
        ("[null]", "[aes-gcm]", "(auto), aes-gcm, against"),
        ("[aes-gmac]", '["null"]', "aes-gmac, no encryption,"),
        ("[hmac-sha-1-96, null]", "[null, aes-gcm]", "hmac-sha-1-96, no encryption; or aes-gcm,"),
    ],
)
def test_protection_in_words(algs: str, ealgs: str, text: str) -> None:
    """YAML's own null is the algorithm of that name."""
    profile = parse_profile(SMALL + f"phones: {{algs: {algs}, ealgs: {ealgs}}}\n")
    assert text in profile.describe()


def test_disagreements_come_together_with_faults_of_other_sections() -> None:
    found = problems_of(
        """name: small
subscribers: {count: 10}
phones: {keepalive: maybe}
simulators: {hss: {}}
target: {kind: external, pcscf: "192.0.2.1:5060"}
phases:
  - fill: {rate: 1, to: 200}
  - hold: {duration: 10s, registered: 3}
generator: {workers: 20}
"""
    )
    assert set(found) == {
        "phones.keepalive", "simulators.hss.listen", "phases[0].fill.to",
        "phases[1].hold.registered", "generator.workers",
    }  # fmt: skip
    assert found["phases[0].fill.to"] == (7, "is 200, but there are 10 subscribers")


@pytest.mark.parametrize(
    ("extra", "path", "text"),
    [
        ("phones: {port_us: 20001}", "phones", "ring"),
        ("phones: {port_uc_first: 65500}", "phones", "65563"),
        ("phones: {user_agent: \"a\\r\\nX: y\"}", "phones.user_agent", "pattern"),
        ("phones: {ip_version: 6}\ntarget: {kind: external, pcscf: '192.0.2.1:5060'}",
         "target.pcscf", "IPv6"),
        ("target: {kind: external, pcscf: '2001:db8::1:5060'}", "target.pcscf", "brackets"),
        ("target: {kind: external, pcscf: 'core.example:5060'}", "target.pcscf", "address:port"),
        ("target: {kind: external, pcscf: '192.0.2.1:0'}", "target.pcscf", "address:port"),
        ("target: {kind: external, pcscf: '192.0.2.1:5060', loss_share: 0.5}", "target", "loss_share"),
        ("target: {kind: external, pcscf: '192.0.2.1:5060', limiter: {calls: 11/s}}", "target",
         "limiter"),
        ("target: {kind: 'null', limiter: {calls: 11/s}}", "target", "limiter is for an embedded"),
        ("target: {limiter: {calls: 0/s}}", "target.limiter.calls", "above 0"),
        ("target: {pcscf: '192.0.2.1:5060'}", "target", "external targets only"),
        ("target: {kind: external, pcscf: '192.0.2.1:5060', ipsec: kernel}", "target", "ipsec"),
        ("phones: {ipsec: 'off'}\ntarget: {ipsec: kernel}", "target.ipsec", "phones.ipsec is off"),
        ("phones: {transport: udp, keepalive: crlf}", "phones", "transport is udp"),
        ("phones: {transport: udp}\ntarget: {kind: 'null'}", "phones.transport", "speaks TCP only"),
        ("target: {expires: 30s}", "target", "min_expires exceeds expires"),
        ("target: {expires: 30500ms}", "target.expires", "whole seconds"),
        ("target: {kind: 'null'}\nsimulators: {hss: {}}", "simulators.hss", "no HSS"),
        ("simulators: {hss: {listen: '192.0.2.1:3868'}}", "simulators.hss.listen", "external"),
        ("target: {kind: 'null'}\nsimulators: {pcrf: {}}", "simulators.pcrf", "no PCRF"),
        ("simulators: {pcrf: {listen: '192.0.2.1:3868'}}", "simulators.pcrf.listen", "finds its PCRF"),
        ("generator: {workers: 101}", "generator.workers", "101 workers for 100 subscribers"),
    ],
)  # fmt: skip
def test_sections_must_agree(extra: str, path: str, text: str) -> None:
    found = problems_of(SMALL + extra)
    assert set(found) == {path}
    assert text in found[path][1]


@pytest.mark.parametrize(
    ("phases", "path"),
    [
        ("[{hold: {duration: 1s}}]", "phases[0].hold.registered"),
        ("[{cycle: {rate: 1}}]", "phases[0].cycle.registered"),
        ("[{fill: {rate: 1, to: 50}}, {fill: {rate: 1, to: 50}}]", "phases[1].fill.to"),
        ("[{cycle: {rate: 1, registered: 101}}]", "phases[0].cycle.registered"),
    ],
)
def test_phases_must_follow_from_each_other(phases: str, path: str) -> None:
    assert set(problems_of(f"name: x\nsubscribers: {{count: 100}}\nphases: {phases}")) == {path}


@pytest.mark.parametrize(
    ("subscribers", "text"),
    [
        (f"{{count: 1, op: '{'a' * 32}', opc: '{'b' * 32}'}}", "exclude each other"),
        ("{count: 10, first_msin: 9999999999}", "digits of an MSIN"),
        ("{count: 10, first_msisdn: 999999999999999}", "E.164"),
    ],
)
def test_subscribers_must_be_possible(subscribers: str, text: str) -> None:
    found = problems_of(
        f"name: x\nsubscribers: {subscribers}\nphases: [{{fill: {{rate: 1, to: 1}}}}]"
    )
    assert text in found["subscribers"][1]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "is empty"),
        ("- a\n- b", "must be a mapping"),
        ("null", "must be a mapping"),
        ("a: [", "is not valid YAML"),
        ("a: &x [*x]", "line 1: alias *x: write the value out"),
        ("a: 1\n---\nb: 2", "another document"),
        ("name: \x00", "is not valid YAML"),
        ("[" * 5000, "is not valid YAML|nested too deeply"),
        (
            "a: !!python/object:os.system x",
            "tag tag:yaml.org,2002:python/object:os.system is not used",
        ),
        ("a: !!bool x", "tag tag:yaml.org,2002:bool is not used"),
        ("a: !!set {x}", "tag tag:yaml.org,2002:set is not used"),
        ("a: 2024-99-99", "cannot be read: month"),
        ("? [a]\n: b", "a key must be a plain word"),
        ("a: " + "[" * 33 + "]" * 33, "is nested too deeply"),
        ("{a: " * 33 + "1" + "}" * 33, "is nested too deeply"),
        ("seed: " + "9" * 20, "is too large a number"),
        ("seed: " + "9" * 4000, "must be a whole number, got '9999"),
    ],
)
def test_yaml_that_is_no_profile(text: str, what: str) -> None:
    with pytest.raises(ProfileError, match=what.replace("*", r"\*")):
        parse_profile(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0100", 100), ("+7", 7), ("-3", -3), ("1:40", "1:40"), ("1_000", "1_000"), ("0x10", "0x10"),
        ("1.5", 1.5), ("-.5", -0.5), ("5.", 5.0), ("1e3", 1000.0), (".inf", inf), ("08", 8),
        ("00112233445566778899001122334455", "00112233445566778899001122334455"),
        ("0011223344556677889900112233e455", "0011223344556677889900112233e455"),
    ],
)  # fmt: skip
def test_numbers_are_decimal(text: str, value: object) -> None:
    """YAML 1.1 has 0100 for 64, and 1:40 for 100."""
    assert Source(f"a: {text}").value == {"a": value}


def test_an_msin_with_leading_zeros_is_that_number() -> None:
    text = SMALL.replace("count: 100", "first_msin: 0000000100, count: 100")
    assert text != SMALL
    assert parse_profile(text).subscribers.first_msin == 100


@pytest.mark.parametrize(
    "section",
    [
        "target: {commands: ['a{99999999999}']}",
        f"target: {{commands: ['{'(' * 3000}']}}",
        "generator: {limits: {worker_cpu: true}}",
        "generator: {limits: {host_cpu: '1'}}",
        "search: {overload: '9'}",
        "search: {confidence: '0.9'}",
    ],
)
def test_what_cannot_be_meant_is_named(section: str) -> None:
    with pytest.raises(ProfileError) as told:
        parse_profile(SMALL + section)
    assert any(problem.path.startswith(section.split(":")[0]) for problem in told.value.problems)
    assert all(len(problem.text) < 300 for problem in told.value.problems)


@pytest.mark.parametrize(("given", "text"), [("5%", "0.05"), ("'0.1 %'", "0.001")])
def test_a_percentage_for_a_share_is_told_as_a_number(given: str, text: str) -> None:
    found = problems_of(SMALL + f"search: {{resolution: {given}}}")
    assert found["search.resolution"][1].startswith(f"must be a number: {text}, got ")


def test_files_and_names(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "small.yaml"
    path.write_text("\ufeff" + SMALL, encoding="utf-8")
    assert load_profile(str(path)).name == "small"
    path.write_bytes(b"name: \xff")
    for bad in (str(path), str(tmp_path), str(tmp_path / "none.yaml"), "a\0/b", "x.yaml"):
        with pytest.raises(ProfileError, match="cannot be read"):
            load_profile(bad)
    path.write_bytes(b"#" * 1_000_001)
    with pytest.raises(ProfileError, match="exceeds"):
        load_profile(str(path))
    with pytest.raises(
        ProfileError,
        match=r"there are: busy-hour-1000, .*ella-1000, .*first-light-1000, .*quickstart",
    ):
        load_profile("nope")


@given(st.text(max_size=60))
def test_no_text_breaks_the_parser(text: str) -> None:
    with pytest.raises(ProfileError) as caught:
        parse_profile(text)
    assert caught.value.problems
    assert str(caught.value)


@given(st.integers(0, 10**14).map(lambda us: us / 1e6))
def test_durations_round_trip(duration_s: float) -> None:
    assert parse_duration(serialize_duration(duration_s)) == duration_s


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("200ms", 0.2), ("12s", 12.0), ("5m", 300.0), ("5min", 300.0), ("8m20s", 500.0),
        ("1h", 3600.0), ("1h30m", 5400.0), ("1.5 s", 1.5), ("250us", 0.00025), ("1d", 86400.0),
        ("0s", 0.0),
    ],
)  # fmt: skip
def test_durations_with_units(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "value", ["", "12", "s", "-1s", "1 fortnight", "1s2", 12, 1.5, None, True, []]
)
def test_durations_without_a_unit_are_refused(value: object) -> None:
    with pytest.raises(ValueError, match="a duration with its unit"):
        parse_duration(value)


@pytest.mark.parametrize(
    ("value", "rate"), [("100/s", 100.0), ("6/min", 0.1), ("7200/h", 2.0), (25, 25.0), (0.33, 0.33)]
)
def test_rates(value: object, rate: float) -> None:
    assert parse_rate(value) == rate


@pytest.mark.parametrize(
    "value",
    [0, -1, "0/s", "x", "5", "1/fortnight", None, True, float("nan"), float("inf"), 10**400],
)
def test_rates_must_be_positive_numbers(value: object) -> None:
    with pytest.raises(ValueError, match="a rate above 0"):
        parse_rate(value)


@pytest.mark.parametrize("value", [5e-324, "0.000000000001/d"])
def test_a_rate_that_never_comes_to_anything_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="at least 1e-08/s"):
        parse_rate(value)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (0.2, "200 ms"), (10, "10 s"), (12.5, "12.5 s"), (500, "8 min 20 s"),
     (3600, "1 h"), (600_000, "6 d 22 h 40 min")],
)  # fmt: skip
def test_durations_in_words(seconds: float, words: str) -> None:
    assert spell_duration(seconds) == words


@pytest.mark.parametrize("module", [model, plan])
def test_every_field_says_what_it_is(module: object) -> None:
    assert inspect.ismodule(module)
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if not isinstance(node, ast.ClassDef):
            continue
        for field, after in zip(node.body, [*node.body[1:], None], strict=True):
            if isinstance(field, ast.AnnAssign):
                documented = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
                assert documented, f"{node.name}: {ast.unparse(field)}"


def test_off_is_a_word_and_thresholds_are_read_with_the_rest() -> None:
    text = "name: x\nsubscribers: {count: 1}\nphones: {ipsec: off}\nphases: [{fill: {rate: 1, to: 1}}]\n"
    assert parse_profile(text).phones.ipsec == "off"
    broken = text.replace("count: 1", "count: none") + 'thresholds: ["good", "bad"]\n'
    with pytest.raises(ProfileError) as caught:
        parse_profile(broken, "x", lambda threshold, _calls: "is bad" if threshold == "bad" else "")
    assert [problem.path for problem in caught.value.problems] == [
        "subscribers.count",
        "thresholds[1]",
    ]
