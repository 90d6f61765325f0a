"""The files of a lab's core: what is filled in, what is left out, and that nothing is missing."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import get_args
from xml.etree import ElementTree

import pytest

from imsbench.lab import configs
from imsbench.lab.settings import Endpoint, IpsecPool, LabSettings, Transport

LAB = LabSettings(
    domain="ims.mnc001.mcc001.3gppnetwork.org",
    pcscf=Endpoint("198.19.0.10", 5060),
    icscf=Endpoint("198.19.0.11", 4060),
    scscf=Endpoint("198.19.0.12", 6060),
    hss=Endpoint("198.19.0.20", 3868),
    pcrf=Endpoint("198.19.0.30", 3868),
)


def braces_close(text: str) -> bool:
    return text.count("{") == text.count("}")


@pytest.mark.parametrize("transport", get_args(Transport))
@pytest.mark.parametrize("ipsec", [None, IpsecPool(20)])
@pytest.mark.parametrize("pcrf", [None, LAB.pcrf])
def test_every_core_has_all_its_files(
    transport: Transport, ipsec: IpsecPool | None, pcrf: Endpoint | None
) -> None:
    lab = replace(LAB, ipsec=ipsec, pcrf=pcrf, phone_transport=transport)
    files = configs.render(lab)
    expected = {"pcscf.cfg", "icscf.cfg", "scscf.cfg", "icscf.xml", "scscf.xml"}
    assert expected <= set(files)
    assert ("pcscf.xml" in files) == (pcrf is not None)
    for name, text in files.items():
        assert "{{" not in text
        assert "{%" not in text
        if name.endswith(".cfg"):
            assert braces_close(text), name
            assert text.startswith("#!KAMAILIO\n")


def test_each_server_listens_at_its_own_place_by_both_transports() -> None:
    files = configs.render(LAB)
    for server, where in (
        ("pcscf", "198.19.0.10:5060"),
        ("icscf", "198.19.0.11:4060"),
        ("scscf", "198.19.0.12:6060"),
    ):
        listens = [line for line in files[f"{server}.cfg"].splitlines() if "listen=" in line]
        assert listens == [f"listen=udp:{where}", f"listen=tcp:{where}"]


def test_a_route_is_never_empty_which_kamailio_would_not_read() -> None:
    for pcrf in (None, LAB.pcrf):
        text = configs.render(replace(LAB, pcrf=pcrf))["pcscf.cfg"]
        lines = [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]
        for line, following in pairwise(lines):
            assert not (line.rstrip().endswith("{") and following.strip() == "}"), line


def test_without_ipsec_nothing_of_it_is_there_but_the_module_that_the_registrar_binds() -> None:
    text = configs.render(LAB)["pcscf.cfg"]
    assert text.index("ims_ipsec_pcscf.so") < text.index("ims_registrar_pcscf.so")
    assert 'modparam("ims_ipsec_pcscf", "ipsec_max_connections", 0)' in text
    assert "ipsec_forward" not in text
    assert "ipsec_create" not in text


def test_with_ipsec_its_pool_is_what_was_asked_for() -> None:
    pool = IpsecPool(30, client_port=41000, server_port=51000, spi_start=9000)
    text = configs.render(replace(LAB, ipsec=pool))["pcscf.cfg"]
    for name, value in (
        ("ipsec_max_connections", 30),
        ("ipsec_client_port", 41000),
        ("ipsec_server_port", 51000),
        ("ipsec_spi_id_start", 9000),
        ("ipsec_spi_id_range", 1000),
    ):
        assert f'modparam("ims_ipsec_pcscf", "{name}", {value})' in text
    assert IpsecPool(600).spi_range == 2400


PROTECTED = replace(LAB, ipsec=IpsecPool(20))


@pytest.mark.parametrize(
    ("provoking", "right", "wrong"),
    [
        (replace(PROTECTED, tcp_reuse_port=False), "tcp_reuse_port=yes", "tcp_reuse_port=no"),
        (
            replace(PROTECTED, keep_sas_at_deregistration=False),
            "{s.replace,expires=0,expires=1}",
            "A defect that was asked for",
        ),
    ],
)
def test_a_defect_is_provoked_only_where_that_is_asked(
    provoking: LabSettings, right: str, wrong: str
) -> None:
    sound = configs.render(PROTECTED)["pcscf.cfg"]
    assert right in sound
    assert wrong not in sound
    provoked = configs.render(provoking)["pcscf.cfg"]
    assert right not in provoked
    assert wrong in provoked


def test_diameter_peers_are_the_hss_and_the_pcrf_by_address() -> None:
    files = configs.render(LAB)
    for server, peer, application in (
        ("icscf", "198.19.0.20", "16777216"),
        ("scscf", "198.19.0.20", "16777216"),
        ("pcscf", "198.19.0.30", "16777236"),
    ):
        root = ElementTree.fromstring(files[f"{server}.xml"].encode())
        assert root.attrib["FQDN"] == f"{server}.{LAB.domain}"
        assert [one.attrib["FQDN"] for one in root.iter("Peer")] == [peer]
        assert [one.attrib["FQDN"] for one in root.iter("DefaultRoute")] == [peer]
        assert [one.attrib["id"] for one in root.iter("Auth")] == [application]


def test_the_icscf_finds_the_scscf_in_its_table_where_colons_are_escaped() -> None:
    table = configs.render(LAB)["icscf.db/s_cscf"]
    assert table.splitlines()[1] == r"1:S-CSCF:sip\:198.19.0.12\:6060"


def test_write_makes_the_folders_of_the_tables(tmp_path: Path) -> None:
    configs.write(LAB, tmp_path)
    assert (tmp_path / "icscf.db/version").read_text().startswith("table_name")
    assert (tmp_path / "pcscf.cfg").is_file()


def test_settings_come_back_from_a_control_channel() -> None:
    config = {
        "domain": LAB.domain,
        "pcscf": ["198.19.0.10", 5060],
        "icscf": ["198.19.0.11", 4060],
        "scscf": ["198.19.0.12", 6060],
        "hss": ["198.19.0.20", 3868],
        "pcrf": None,
        "ipsec": {"entries": 7},
    }
    lab = LabSettings.from_config(config)
    assert lab == replace(LAB, pcrf=None, ipsec=IpsecPool(7))
    with pytest.raises(TypeError):
        LabSettings.from_config(config | {"unknown": 1})
    with pytest.raises(ValueError, match="children"):
        LabSettings.from_config(config | {"children": 0})


def test_an_early_answer_is_tried_again_unless_its_defect_is_provoked() -> None:
    tries = "usleep("
    assert tries in configs.render(LAB)["scscf.cfg"]
    assert tries not in configs.render(replace(LAB, await_vector=False))["scscf.cfg"]


def test_only_a_nonce_that_was_never_answered_is_worth_a_wait() -> None:
    text = configs.render(LAB)["scscf.cfg"]
    condition, _, _ = text.partition("usleep(")
    assert condition.rstrip().endswith("$sht(answered=>$adn) == $null) {")
    assert "$sht(answered=>$adn) = 1;" in text
    assert f"autoexpire={LAB.expires_s + 60};" in text


@pytest.mark.parametrize(("entries", "refused"), [(163, False), (164, True)])
def test_a_pool_beyond_what_the_diameter_stack_can_watch_is_refused(
    entries: int, refused: bool
) -> None:
    lab = replace(LAB, children=1, ipsec=IpsecPool(entries))
    assert bool(lab.pool_problem()) == refused
    assert replace(lab, pcrf=None).pool_problem() == ""
