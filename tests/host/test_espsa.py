"""Keys for Wireshark: its lines, and whose are written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from imsbench.host.backend import BackendError
from imsbench.host.espsa import KeyWritingBackend, esp_sa_lines
from imsbench.protocol.secagree import MECHANISMS, Mechanism, SaSet, esp_keys, sa_set

CK, IK = bytes(range(16)), bytes(range(16, 32))
IK_TEXT, CK_TEXT = "0x" + IK.hex(), "0x" + CK.hex()


def sas(alg: str = "hmac-sha-1-96", ealg: str = "null", phone: str = "198.18.0.1") -> SaSet:
    client = Mechanism(alg, ealg, 0x1001, 0x1002, 20000, 6101)
    server = Mechanism(alg, ealg, 0x2001, 0x2002, 40000, 5063)
    pcscf = "2001:2:0:2::10" if ":" in phone else "198.19.0.10"
    return sa_set(phone, pcscf, client, server, CK, IK)


def test_four_lines_for_a_set() -> None:
    end = f'"NULL","","HMAC-SHA-1-96 [RFC2404]","{IK_TEXT}00000000"'
    assert esp_sa_lines(sas()).splitlines() == [
        f'"IPv4","198.18.0.1","198.19.0.10","0x00002002",{end}',
        f'"IPv4","198.18.0.1","198.19.0.10","0x00002001",{end}',
        f'"IPv4","198.19.0.10","198.18.0.1","0x00001002",{end}',
        f'"IPv4","198.19.0.10","198.18.0.1","0x00001001",{end}',
    ]


@pytest.mark.parametrize(
    ("alg", "ealg", "end"),
    [
        ("hmac-md5-96", "null", f'"NULL","","HMAC-MD5-96 [RFC2403]","{IK_TEXT}"'),
        (
            "hmac-md5-96",
            "aes-cbc",
            f'"AES-CBC [RFC3602]","{CK_TEXT}","HMAC-MD5-96 [RFC2403]","{IK_TEXT}"',
        ),
        (
            "hmac-md5-96",
            "des-ede3-cbc",
            f'"TripleDES-CBC [RFC2451]","{CK_TEXT}{CK[:8].hex()}",'
            f'"HMAC-MD5-96 [RFC2403]","{IK_TEXT}"',
        ),
        (
            "null",
            "aes-gcm",
            '"AES-GCM with 16 octet ICV [RFC4106]",'
            f'"0x{esp_keys("null", "aes-gcm", CK, IK)[1].hex()}","NULL",""',
        ),
    ],
)
def test_algorithms_as_wireshark_names_them(alg: str, ealg: str, end: str) -> None:
    line = esp_sa_lines(sas(alg, ealg, "2001:2:0:1::1")).splitlines()[0]
    assert line == f'"IPv6","2001:2:0:1::1","2001:2:0:2::10","0x00002002",{end}'


def test_what_wireshark_does_not_know_is_a_comment() -> None:
    lines = esp_sa_lines(sas("aes-gmac")).splitlines()
    assert len(lines) == 4
    assert all(line.startswith("# ") and "aes-gmac" in line for line in lines)


@pytest.mark.parametrize(("alg", "ealg"), MECHANISMS)
def test_every_mechanism_has_its_lines(alg: str, ealg: str) -> None:
    assert esp_sa_lines(sas(alg, ealg)).count("\n") == 4


class FakeBackend:
    """A backend that carries nothing."""

    name = "fake"
    device = "fake0"

    def __init__(self) -> None:
        self.calls: list[str] = []

    def attach(self, add_reader: Callable[[int, Callable[[], object]], object]) -> None:
        self.calls.append("attach")

    def install(self, sas: SaSet) -> None:
        if sas.spi_uc == 0:
            raise BackendError("refused")
        self.calls.append("install")

    def remove(self, sas: SaSet) -> None:
        self.calls.append("remove")

    def counters(self) -> dict[str, int]:
        return {"sas": 4}

    def close(self) -> None:
        self.calls.append("close")


def test_keys_of_chosen_phones_are_written_as_their_sas_are_installed(tmp_path: Path) -> None:
    inner, path = FakeBackend(), tmp_path / "keys"
    path.touch(mode=0o644)
    backend = KeyWritingBackend(inner, path, ["198.18.0.1", "198.18.0.2"])
    assert (backend.name, backend.device) == ("fake", "fake0")
    backend.attach(lambda descriptor, callback: None)
    chosen = [sas(), sas("null", "aes-gcm", "198.18.0.2")]
    for one in (chosen[0], sas(phone="198.18.0.3"), chosen[1]):
        backend.install(one)
    with pytest.raises(BackendError):
        backend.install(replace(sas(), spi_uc=0))
    backend.remove(chosen[0])
    assert backend.counters() == {"sas": 4}
    backend.close()
    assert path.read_text() == "".join(esp_sa_lines(one) for one in chosen)
    assert path.stat().st_mode & 0o777 == 0o600  # keys are nobody else's
    assert inner.calls == ["attach", "install", "install", "install", "remove", "close"]


def test_keys_that_cannot_be_written_are_counted(tmp_path: Path) -> None:
    backend = KeyWritingBackend(FakeBackend(), Path("/dev/full"), ["198.18.0.1"])
    for _ in range(10_000):
        backend.install(sas())
        if "keys_not_written" in backend.counters():
            break
    assert backend.counters()["keys_not_written"] > 0
    backend.close()
