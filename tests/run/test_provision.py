"""The subscribers that another HSS is given are those that the phones play."""

from __future__ import annotations

import csv
import io

import pytest

from imsbench import cli
from imsbench.profile import parse_profile
from imsbench.run import configs
from imsbench.run.provision import subscriber_lines

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
