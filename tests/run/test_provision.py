"""The subscribers that another HSS is given are those that the phones play."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from imsbench import cli
from imsbench.profile import parse_profile
from imsbench.protocol.aka import Milenage, SqnWindow
from imsbench.run import configs
from imsbench.run.provision import FIRST_SQN, FORMATS, subscriber_lines

TEXT = "name: few\nsubscribers: {count: 3%s}\nphases:\n  - fill: {rate: 1, to: 1}\n"


def test_a_line_for_each_subscriber() -> None:
    profile = parse_profile(TEXT % "")
    rows = list(csv.DictReader(subscriber_lines(profile)))
    people = configs.population(profile)
    assert [row["n"] for row in rows] == ["0", "1", "2"]
    for n, row in enumerate(rows):
        one = people.subscriber(n)
        assert (row["impi"], row["msisdn"]) == (one.impi, one.msisdn)
        assert row["impus"].split() == list(one.impus)
        assert (row["k"], row["opc"]) == (one.k.hex(), one.opc.hex() if one.opc else "")
    assert rows[1]["impi"] == "001010000000002@ims.mnc001.mcc001.3gppnetwork.org"


def test_an_op_is_given_as_such() -> None:
    keys = ", k: 000102030405060708090a0b0c0d0e0f, op: 101112131415161718191a1b1c1d1e1f"
    lines = list(subscriber_lines(parse_profile(TEXT % keys)))
    assert lines[0] == "n,impi,impus,msisdn,k,op\n"
    assert lines[3].endswith("0f,101112131415161718191a1b1c1d1e1f\n")


def test_the_command_prints_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["subscribers", "quickstart"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert len(rows) == 200


def objects(form: str, extra: str = "") -> list[dict[str, Any]]:
    """The JSON lines of a form."""
    return [json.loads(line) for line in subscriber_lines(parse_profile(TEXT % extra), form)]


def test_pyhss_has_an_access_point_and_three_objects_of_each_subscriber() -> None:
    apn, *rows = objects("pyhss")
    assert apn["apn"]["apn"] == "ims"
    people = configs.population(parse_profile(TEXT % ""))
    assert len(rows) == 3
    for n, row in enumerate(rows):
        one = people.subscriber(n)
        assert list(row) == ["auc", "subscriber", "ims_subscriber"]  # in the order they are made
        assert {part["imsi"] for part in row.values()} == {one.imsi}
        assert one.opc is not None
        auc = {"imsi": one.imsi, "ki": one.k.hex(), "opc": one.opc.hex(), "amf": "8000", "sqn": 32}
        assert row["auc"] == auc
        # Without the plus: PyHSS stores digits.
        assert row["subscriber"]["msisdn"] == row["ims_subscriber"]["msisdn_list"] == one.msisdn
        assert row["ims_subscriber"]["ifc_path"] == "default_ifc.xml"
        assert "auc_id" not in row["subscriber"]  # the API's own


def test_pyhss_knows_opc_only() -> None:
    k, op = bytes(range(16)), bytes(range(16, 32))
    _, first, *_ = objects("pyhss", f", k: {k.hex()}, op: {op.hex()}")
    assert first["auc"]["opc"] == Milenage(k, op=op).opc.hex()


def test_pyhss_makes_the_domain_itself(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"ims\.mnc001\.mcc001\.3gppnetwork\.org"):
        objects("pyhss", ", domain: ims.example")
    assert len(objects("open5gs", ", domain: ims.example")) == 3
    profile = tmp_path / "p.yaml"
    profile.write_text(TEXT % ", domain: ims.example")
    assert cli.main(["subscribers", str(profile), "--format", "pyhss"]) == 2
    assert "ims.example" in capsys.readouterr().err


def test_open5gs_documents() -> None:
    documents = objects("open5gs")
    people = configs.population(parse_profile(TEXT % ""))
    for n, document in enumerate(documents):
        one = people.subscriber(n)
        assert (document["imsi"], document["msisdn"]) == (one.imsi, [one.msisdn])
        assert document["schema_version"] == 1
        assert one.opc is not None
        assert document["security"] == {
            "k": one.k.hex(), "op": None, "opc": one.opc.hex(), "amf": "8000",
            "sqn": {"$numberLong": "32"},
        }  # fmt: skip
        (slice_,) = document["slice"]
        (session,) = slice_["session"]
        assert (session["name"], session["qos"]["index"]) == ("ims", 5)


def test_open5gs_takes_an_op_as_such() -> None:
    op = bytes(range(16, 32)).hex()
    first, *_ = objects("open5gs", f", op: {op}")
    assert (first["security"]["op"], first["security"]["opc"]) == (op, None)


@pytest.mark.parametrize("form", FORMATS)
def test_the_first_sqn_is_one_that_a_new_phone_accepts(form: str) -> None:
    assert SqnWindow().accept(FIRST_SQN)
    assert not SqnWindow().accept(0)
    lines = list(subscriber_lines(parse_profile(TEXT % ""), form))
    assert len(lines) == 3 + (form != "open5gs")
    assert all(line.endswith("\n") for line in lines)
