"""What children are told follows from the profile."""

from __future__ import annotations

import json

import pytest

from imsbench.host import choose
from imsbench.lab.settings import LabSettings
from imsbench.profile import Profile, ProfileError, load_profile, parse_profile
from imsbench.run import configs
from imsbench.run.derive import one_phone, with_lab, with_target, with_version
from imsbench.run.network import plan
from imsbench.run.topology import CORE, HSS, PCRF, Node
from imsbench.subscriber import Population
from simulators.core.settings import CoreSettings
from simulators.hss.userdata import FilterCriteria, UserDataWriter

QUICKSTART = load_profile("quickstart")

EXTERNAL = parse_profile(
    """
name: mine
subscribers: {count: 10, k: "000102030405060708090a0b0c0d0e0f", op: "ffeeddccbbaa99887766554433221100"}
target: {kind: external, name: my core, version: "1.2", pcscf: "192.0.2.10:5070"}
simulators: {hss: {listen: "192.0.2.20:3868", response_time: {kind: lognormal, mean: 5ms}}}
phases: [{fill: {rate: 5, to: 10}}]
"""
)


def test_every_message_is_plain_json() -> None:
    topology = plan(QUICKSTART)
    for config in (
        configs.hss_config(QUICKSTART, topology.nodes[HSS]),
        configs.pcrf_config(QUICKSTART, topology.nodes[PCRF]),
        configs.core_config(QUICKSTART, topology.nodes[CORE]),
        configs.worker_config(QUICKSTART, topology, 0, keep_ladders=True),
    ):
        assert json.loads(json.dumps(config, allow_nan=False)) == config


def test_core_and_hss_find_each_other() -> None:
    topology = plan(QUICKSTART)
    hss = configs.hss_config(QUICKSTART, topology.nodes[HSS])
    core = configs.core_config(QUICKSTART, topology.nodes[CORE])
    assert core["hss"] == hss["listen"]
    assert core["hss_realm"] == hss["origin_realm"] == core["domain"]
    assert hss["addresses"] == [hss["listen"][0]]
    assert core["addresses"] == [core["listen"][0]]


def test_core_and_pcrf_find_each_other() -> None:
    pcrf = configs.pcrf_config(QUICKSTART, plan(QUICKSTART).nodes[PCRF])
    core = configs.core_config(QUICKSTART, plan(QUICKSTART).nodes[CORE])
    assert core["pcrf"] == pcrf["listen"]
    assert core["pcrf_realm"] == pcrf["origin_realm"]
    assert pcrf["addresses"] == [pcrf["listen"][0]]
    assert not core["rx_wait_for_bearer"]


def test_a_bearer_that_takes_time_is_waited_for() -> None:
    text = """
name: x
subscribers: {count: 4}
simulators: {pcrf: {bearer_setup: {mean: 50ms}, silence_share: 0.5}}
target: {rx_grace: 2s, call_faults: {lose_bye_share: 0.25, early_bye: {mean: 3s}}}
phases: [{fill: {rate: 1, to: 4}}]
"""
    profile = parse_profile(text)
    pcrf, core = configs.pcrf_config(profile, Node()), configs.core_config(profile, Node())
    assert pcrf["bearer_setup"] == {"kind": "constant", "mean_s": 0.05, "sigma": 1.0}
    assert pcrf["silence_share"] == 0.5
    settings = CoreSettings.from_config(core)
    assert settings.rx_wait_for_bearer
    assert settings.rx_grace_s == 2.0
    assert settings.faults.lose_bye_share == 0.25
    assert settings.faults.early_bye.mean_s == 3.0


def test_without_a_pcrf_the_core_asks_nobody() -> None:
    text = "name: x\nsubscribers: {count: 4}\nphases: [{fill: {rate: 1, to: 4}}]\n"
    profile = parse_profile(text + "simulators: {pcrf: {enabled: false}}\n")
    assert configs.simulators_of(profile) == [HSS]
    assert configs.core_config(profile, Node())["pcrf"] is None
    assert PCRF not in plan(profile).nodes


def test_a_worker_gets_its_profile_back() -> None:
    topology = plan(QUICKSTART)
    config = configs.worker_config(QUICKSTART, topology, 0, keep_ladders=False)
    assert Profile.model_validate(config["profile"]) == QUICKSTART
    assert config["pcscf"] == configs.core_config(QUICKSTART, topology.nodes[CORE])["listen"]
    assert config["phone_prefix"] == topology.phone_prefixes[0]


def test_an_external_target_is_asked_at_its_own_address() -> None:
    assert configs.pcscf(EXTERNAL) == ("192.0.2.10", 5070)
    hss = configs.hss_config(EXTERNAL, plan(QUICKSTART).nodes[HSS])
    assert hss["listen"] == ["192.0.2.20", 3868]
    assert hss["response_time"] == {"kind": "lognormal", "mean_s": 0.005, "sigma": 1.0}
    assert hss["population"]["k"] == "000102030405060708090a0b0c0d0e0f"
    assert hss["population"]["opc"] is None


def test_the_target_can_be_exchanged() -> None:
    null = with_target(QUICKSTART, "null")
    assert null.target.kind == "null"
    assert null.target.expires == QUICKSTART.target.expires
    assert not configs.needs_hss(null)
    other = with_target(QUICKSTART, "192.0.2.1:5060")
    assert (other.target.kind, other.target.pcscf) == ("external", "192.0.2.1:5060")
    assert other.phases == QUICKSTART.phases
    embedded = with_target(EXTERNAL, "embedded")
    assert embedded.target.name == ""
    assert embedded.simulators.hss is not None
    assert embedded.simulators.hss.listen is None
    elsewhere = with_target(EXTERNAL, "192.0.2.11:5060")
    assert elsewhere.target.name == "my core"
    assert elsewhere.simulators == EXTERNAL.simulators


def test_the_core_is_told_its_limits() -> None:
    assert configs.core_config(QUICKSTART, plan(QUICKSTART).nodes[CORE])["limiter"] == {
        "registrations_per_s": 0.0, "calls_per_s": 0.0, "burst": 1,
    }  # fmt: skip
    values = QUICKSTART.model_dump(mode="json")
    values["target"]["limiter"] = {"registrations": "37/s", "calls": "660/min", "burst": 4}
    limited = Profile.model_validate(values)
    config = configs.core_config(limited, plan(limited).nodes[CORE])
    assert config["limiter"] == {"registrations_per_s": 37.0, "calls_per_s": 11.0, "burst": 4}
    assert with_target(limited, "null").target.limiter == QUICKSTART.target.limiter


def test_a_target_that_is_none_is_refused_by_name() -> None:
    with pytest.raises(ProfileError, match=r"--target localhost: target\.pcscf: .*address:port"):
        with_target(QUICKSTART, "localhost")
    with pytest.raises(ProfileError) as caught:
        with_target(QUICKSTART, "foo")
    assert "Value error" not in str(caught.value)


def test_one_phone_registers_once_and_nothing_is_judged() -> None:
    single = one_phone(QUICKSTART)
    (step,) = single.steps()
    assert (step.kind, step.attempts, single.subscribers.count) == ("fill", 1, 1)
    assert single.thresholds == ()
    assert single.phones == QUICKSTART.phones
    assert configs.population(single).subscriber(0) == configs.population(QUICKSTART).subscriber(0)


@pytest.mark.parametrize(
    ("phones", "target", "core", "tun"),
    [
        ("auto", None, "auto", True),
        ("off", None, "off", False),
        ("kernel", None, "kernel", False),
        ("kernel", "userspace", "userspace", True),
        ("userspace", "kernel", "kernel", True),
    ],
)
def test_each_end_has_the_esp_it_was_given(
    phones: str, target: str | None, core: str, tun: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choose, "esp_refusal", lambda ip_version: "no ESP")
    data = QUICKSTART.model_dump()
    data["phones"]["ipsec"], data["target"]["ipsec"] = phones, target
    profile = Profile.model_validate(data)
    config = configs.core_config(profile, plan(profile).nodes[CORE])
    assert (config["ipsec"], configs.needs_tun(profile)) == (core, tun)


def test_auto_wants_no_tun_device_where_the_kernel_has_esp(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(choose, "esp_refusal", lambda ip_version: "")
    assert not configs.needs_tun(QUICKSTART)


def test_filter_criteria_reach_the_hss() -> None:
    text = """
name: x
subscribers: {count: 1}
simulators:
  hss:
    filter_criteria:
      - priority: 1
        server_name: sip:as.example.org
        points: [{kind: Method, value: REGISTER, registration_types: [0]}]
phases: [{fill: {rate: 1, to: 1}}]
"""
    (criterion,) = configs.hss_config(parse_profile(text), Node())["filter_criteria"]
    xml = UserDataWriter([FilterCriteria.from_config(criterion)]).serialize(
        Population(1).subscriber(0)
    )
    assert b"<ServerName>sip:as.example.org</ServerName>" in xml
    assert b"<Method>REGISTER</Method><Extension><RegistrationType>0" in xml


def test_connections_that_are_waited_for_are_the_profiles_to_say() -> None:
    text = """
name: external
subscribers: {count: 4}
target: {kind: external, pcscf: "192.0.2.10:5060"}
simulators:
  hss: {listen: "192.0.2.20:3868", connections: 2}
  pcrf: {listen: "192.0.2.21:3868"}
phases: [{fill: {rate: 1, to: 4}}]
"""
    assert configs.awaited_connections(parse_profile(text)) == {"hss": 2, "pcrf": 1}


LAB = load_profile("kamailio-host-short")


def test_a_lab_has_hss_and_pcrf_and_is_waited_for_at_both() -> None:
    assert configs.simulators_of(LAB) == ["hss", "pcrf"]
    assert configs.awaited_connections(LAB) == {"hss": 2, "pcrf": 1}
    assert configs.awaited_connections(QUICKSTART) == {}
    config = configs.lab_config(LAB, Node())
    assert config["variant"] == "host"
    settings = LabSettings.from_config(config["lab"])
    assert settings.pcrf is not None
    assert settings.ipsec is None
    assert (settings.expires_s, settings.min_expires_s) == (40, 30)
    assert (settings.pcscf, settings.scscf.address) == (("198.19.0.10", 5060), "198.19.0.12")


def test_a_profile_of_a_lab_keeps_its_own_lab_and_others_get_the_default() -> None:
    large = load_profile("kamailio-host")
    assert with_lab(large, "kamailio").target == large.target
    with pytest.raises(ProfileError, match=r"phones\.ipsec"):
        with_lab(large, "kamailio", "uml")
    protected = with_lab(QUICKSTART, "kamailio", "uml")
    assert (protected.target.kind, protected.target.lab.variant) == ("lab", "uml")
    assert protected.target.expires == QUICKSTART.target.expires
    config = configs.lab_config(protected, Node())
    assert config["lab"]["ipsec"]["entries"] > 200  # a refresh takes one more


PROTECTED_LAB = """
name: guest
subscribers: {count: 100}
target: {kind: lab, lab: {variant: uml%s}}
phases: [{fill: {rate: 5, to: 100}}, {cycle: {rate: [10, 40]}}]
"""


def lab_of(fields: str) -> dict[str, object]:
    profile = parse_profile(PROTECTED_LAB % fields)
    settings: dict[str, object] = configs.lab_config(profile, Node())["lab"]
    return settings


@pytest.mark.parametrize(
    ("fields", "entries"),
    [
        (
            "",
            125 + 120,
        ),  # a quarter more than phones, and those of three seconds of the fastest cycle
        (", ipsec_entries: 300", 300),
        (", provoke: [small_pool]", 50),
        (", ipsec_entries: 300, provoke: [small_pool]", 50),
    ],
)
def test_a_lab_has_associations_for_its_phones_and_those_that_left(
    fields: str, entries: int
) -> None:
    assert lab_of(fields)["ipsec"] == {"entries": entries}


@pytest.mark.parametrize(
    ("defect", "switch"),
    [
        ("clear_requests", "tcp_reuse_port"),
        ("clear_deregistration", "keep_sas_at_deregistration"),
        ("second_challenge", "await_vector"),
    ],
)
def test_a_provoked_defect_is_one_switch_of_the_core(defect: str, switch: str) -> None:
    sound, provoked = lab_of(""), lab_of(f", provoke: [{defect}]")
    assert sound[switch] is True
    assert {name for name in sound if sound[name] != provoked[name]} == {switch}


def test_the_command_line_adds_defects_to_those_of_the_profile() -> None:
    profile = parse_profile(PROTECTED_LAB % ", provoke: [small_pool]")
    derived = with_lab(profile, "kamailio", "", ["clear_requests"])
    assert derived.target.lab.provoke == ("small_pool", "clear_requests")
    with pytest.raises(ProfileError, match="there is no IPsec to do it wrong with"):
        parse_profile(
            "name: x\nsubscribers: {count: 1}\nphones: {ipsec: 'off'}\n"
            "target: {kind: lab, lab: {provoke: [clear_requests]}}\n"
            "phases: [{fill: {rate: 1, to: 1}}]\n"
        )


def test_a_version_that_was_found_out_is_in_the_title_unless_the_profile_gives_one() -> None:
    assert with_version(LAB, "5.6.3").target.title == "Kamailio lab (host) 5.6.3"
    given = with_version(with_version(LAB, "1.0"), "2.0")
    assert given.target.version == "1.0"
