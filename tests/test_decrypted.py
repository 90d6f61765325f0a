"""Captures read by Wireshark's own ESP: with the keys beside them every ICV is right, nothing is
malformed, and the SIP inside can be read. It is the one judge here that shares no code with us."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.net,
    pytest.mark.tun,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("tshark") is None, reason="no tshark on this machine"),
]

ROOT = Path(__file__).resolve().parent.parent
PROFILE = """
name: small
subscribers: {{count: 6}}
phones: {{algs: [{alg}], ealgs: [{ealg}], ip_version: {version}}}
generator: {{workers: {workers}}}
phases:
  - fill: {{rate: 20, to: 6}}
"""
FIELDS = (
    "esp.spi", "esp.icv_good", "esp.icv_bad", "sip.Method", "sip.Status-Code",
    "sip.CSeq.method", "_ws.malformed", "ip.src", "ip.dst", "ipv6.src", "ipv6.dst",
)  # fmt: skip
Row = dict[str, str]


def imsbench(*arguments: str) -> str:
    command = [sys.executable, "-m", "imsbench", *arguments]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=90, check=False
    )
    assert done.returncode in (0, 3), done.stdout + done.stderr  # 3: a machine too busy to vouch
    return done.stdout


def write_profile(
    folder: Path, alg: str = "hmac-sha-1-96", ealg: str = "null", version: int = 4, workers: int = 1
) -> str:
    path = folder / "small.yaml"
    path.write_text(PROFILE.format(alg=alg, ealg=ealg, version=version, workers=workers))
    return str(path)


def dissect(folder: Path, capture: Path) -> list[Row]:
    """Each frame as tshark reads it with the keys of its capture."""
    profile = folder / "wireshark"
    profile.mkdir(exist_ok=True)
    shutil.copy(f"{capture}.esp_sa", profile / "esp_sa")
    command = ["tshark", "-r", str(capture), "-T", "fields", "-E", "occurrence=f"]
    for name in ("encryption_decode", "authentication_check"):
        command += ["-o", f"esp.enable_{name}:TRUE"]
    for field in FIELDS:
        command += ["-e", field]
    environment = {
        "WIRESHARK_CONFIG_DIR": str(profile),
        "HOME": str(folder),
        "PATH": "/usr/bin:/bin",
    }
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    return [dict(zip(FIELDS, row, strict=True)) for row in rows]


def assert_every_frame_is_right(rows: list[Row]) -> None:
    protected = [row for row in rows if row["esp.spi"]]
    assert protected
    assert [row for row in rows if row["_ws.malformed"]] == []
    verdicts = {(row["esp.icv_good"], row["esp.icv_bad"]) for row in protected}
    assert verdicts <= {("1", "0"), ("True", "False")}, verdicts


def sip(rows: list[Row], *, protected: bool) -> Counter[str]:
    """Requests by method, responses by code and method."""
    return Counter(
        row["sip.Method"] or f"{row['sip.Status-Code']} {row['sip.CSeq.method']}"
        for row in rows
        if bool(row["esp.spi"]) is protected and (row["sip.Method"] or row["sip.Status-Code"])
    )


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize(
    ("alg", "ealg"),
    [
        ("hmac-sha-1-96", "null"),
        ("hmac-md5-96", "aes-cbc"),
        ("hmac-sha-1-96", "des-ede3-cbc"),
        ("null", "aes-gcm"),
    ],
)
def test_a_registration_can_be_read_inside_esp(
    tmp_path: Path, alg: str, ealg: str, version: int
) -> None:
    capture = tmp_path / "one.pcapng"
    profile = write_profile(tmp_path, alg, ealg, version)
    told = imsbench("register", profile, "--pcap", str(capture))
    assert f"SAs {alg}/{ealg}" in told
    assert "packets of 1 phone; none is missing" in told
    rows = dissect(tmp_path, capture)
    assert_every_frame_is_right(rows)
    assert sip(rows, protected=False) == {"REGISTER": 1, "401 REGISTER": 1}
    # The second REGISTER and NOTIFY are the de-registration's.
    assert sip(rows, protected=True) == {
        "REGISTER": 2, "200 REGISTER": 2, "SUBSCRIBE": 1, "200 SUBSCRIBE": 1,
        "NOTIFY": 2, "200 NOTIFY": 2,
    }  # fmt: skip


def test_wrong_keys_are_noticed(tmp_path: Path) -> None:
    """The judge does judge: one bit of a key, and no ICV is right."""
    capture = tmp_path / "one.pcapng"
    imsbench("register", write_profile(tmp_path), "--pcap", str(capture))
    keys = Path(f"{capture}.esp_sa")
    keys.write_text(keys.read_text().replace('00000000"', '00000001"'))
    protected = [row for row in dissect(tmp_path, capture) if row["esp.spi"]]
    assert {row["esp.icv_bad"] for row in protected} <= {"1", "True"}


def test_the_command_that_is_printed_does_it(tmp_path: Path) -> None:
    capture = tmp_path / "one.pcapng"
    told = imsbench("register", write_profile(tmp_path), "--pcap", str(capture))
    (command,) = (line.strip() for line in told.splitlines() if "tshark" in line)
    done = subprocess.run(
        command, shell=True, capture_output=True, text=True, timeout=60, check=True
    )
    assert "Request: SUBSCRIBE" in done.stdout


def test_aes_gmac_is_captured_and_its_keys_are_a_comment(tmp_path: Path) -> None:
    """Wireshark 4.0 knows no ENCR_NULL_AUTH_AES_GMAC, so it must not decode it as something else."""
    capture = tmp_path / "one.pcapng"
    imsbench("register", write_profile(tmp_path, "aes-gmac"), "--pcap", str(capture))
    rows = dissect(tmp_path, capture)
    assert [row for row in rows if row["_ws.malformed"]] == []
    assert sum(bool(row["esp.spi"]) for row in rows) >= 10
    assert not sip(rows, protected=True)


def test_a_run_writes_a_file_for_each_worker_of_the_first_phones(tmp_path: Path) -> None:
    profile = write_profile(tmp_path, workers=2)
    arguments = ("--out", str(tmp_path), "--pcap", str(tmp_path / "r.pcapng"), "--pcap-phones", "3")
    told = imsbench("run", profile, *arguments)
    assert told.count("none is missing") == 2
    phones = []
    for worker in (0, 1):
        rows = dissect(tmp_path, tmp_path / f"r-worker-{worker}.pcapng")
        assert_every_frame_is_right(rows)
        found = {row[end] for row in rows for end in ("ip.src", "ip.dst")} - {"198.19.0.10"}
        assert sip(rows, protected=True)["NOTIFY"] == len(found)
        phones.append(sorted(found))
    assert phones == [["198.18.0.1", "198.18.0.2"], ["198.18.128.1"]]
