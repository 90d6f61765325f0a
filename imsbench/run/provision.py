"""The subscribers of a profile in the forms that HSSs are provisioned in, for a core with one of its own.

    csv        a line each, a header first: for anything
    pyhss      JSON lines for PyHSS's REST API: the APN first, then "auc", "subscriber" and "ims_subscriber"
               of each; what the API itself assigns (apn_id, auc_id) is left out
    open5gs    JSON lines for mongoimport: documents of Open5GS's collection "subscribers"

The two HSSs' forms are those of PyHSS 2.0 and Open5GS 2.7 (schema_version 1).
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from typing import Any

from imsbench.profile import Profile
from imsbench.protocol.aka import opc as opc_of
from imsbench.run import configs
from imsbench.subscriber import Population, Subscriber

COLUMNS = ("n", "impi", "impus", "msisdn", "k")
"""What every row has; opc or op follows. The public identities are parted by blanks."""
AMF = "8000"
"""Authentication management field: the separation bit (TS 33.102 annex H)."""
FIRST_SQN = 32
"""SEQ 1: the first that a USIM accepts which has seen none (TS 33.102 annex C)."""
APN = "ims"
"""The access point that IMS signalling uses; phones of a benchmark attach to nothing."""
_BIT_RATE = 1_000_000_000


class _Echo:
    """A file for csv that hands each line back."""

    def write(self, line: str) -> str:
        return line


def subscriber_lines(profile: Profile, form: str = "csv") -> Iterator[str]:
    """The lines, with their ends, in one of FORMATS; ValueError if a profile does not fit it."""
    return FORMATS[form](configs.population(profile))


def _csv(people: Population) -> Iterator[str]:
    last = "opc" if people.op is None else "op"
    writer = csv.writer(_Echo(), lineterminator="\n")
    yield writer.writerow((*COLUMNS, last))
    for one in _all(people):
        key = one.opc if one.op is None else one.op
        assert key is not None
        yield writer.writerow(
            (one.n, one.impi, " ".join(one.impus), one.msisdn, one.k.hex(), key.hex())
        )


def _pyhss(people: Population) -> Iterator[str]:
    usual = Population(1, mcc=people.mcc, mnc=people.mnc).home_domain
    if people.home_domain != usual:
        raise ValueError(
            f"PyHSS makes identities of {usual} from MCC and MNC; subscribers.domain is "
            f"{people.home_domain}"
        )
    return _pyhss_lines(people)


def _pyhss_lines(people: Population) -> Iterator[str]:
    yield _line({"apn": {"apn": APN, "apn_ambr_dl": _BIT_RATE, "apn_ambr_ul": _BIT_RATE, "qci": 5}})
    for one in _all(people):
        auc = {"imsi": one.imsi, "ki": one.k.hex(), "opc": _opc(one).hex(), "amf": AMF}
        subscriber = {"imsi": one.imsi, "msisdn": one.msisdn, "enabled": True, "nam": 0}
        ims = {"imsi": one.imsi, "msisdn": one.msisdn, "msisdn_list": one.msisdn}
        yield _line(
            {
                "auc": auc | {"sqn": FIRST_SQN},
                "subscriber": subscriber,
                "ims_subscriber": ims | {"ifc_path": "default_ifc.xml"},
            }
        )


def _open5gs(people: Population) -> Iterator[str]:
    rate = {"value": _BIT_RATE, "unit": 0}
    ambr = {"downlink": rate, "uplink": rate}
    arp = {"priority_level": 1, "pre_emption_capability": 1, "pre_emption_vulnerability": 1}
    session = {
        "name": APN,
        "type": 3,
        "qos": {"index": 5, "arp": arp},
        "ambr": ambr,
        "pcc_rule": [],
    }
    for one in _all(people):
        security: dict[str, Any] = {
            "k": one.k.hex(),
            "op": one.op.hex() if one.op is not None else None,
            "opc": one.opc.hex() if one.opc is not None else None,
            "amf": AMF,
            "sqn": {"$numberLong": str(FIRST_SQN)},
        }
        document = {
            "schema_version": 1,
            "imsi": one.imsi,
            "msisdn": [one.msisdn],
            "imeisv": [],
            "mme_host": [],
            "mme_realm": [],
            "purge_flag": [],
            "security": security,
            "ambr": ambr,
            "slice": [{"sst": 1, "default_indicator": True, "session": [session]}],
            "access_restriction_data": 32,
            "network_access_mode": 0,
            "subscriber_status": 0,
            "subscribed_rau_tau_timer": 12,
            "__v": 0,
        }
        yield _line(document)


def _all(people: Population) -> Iterator[Subscriber]:
    return map(people.subscriber, range(people.count))


def _opc(one: Subscriber) -> bytes:
    if one.opc is not None:
        return one.opc
    assert one.op is not None
    return opc_of(one.k, one.op)


def _line(value: dict[str, Any]) -> str:
    return json.dumps(value) + "\n"


FORMATS: dict[str, Callable[[Population], Iterator[str]]] = {
    "csv": _csv,
    "pyhss": _pyhss,
    "open5gs": _open5gs,
}
"""What each form is called."""
