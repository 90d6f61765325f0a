"""From settings to the files that Kamailio reads: configuration, Diameter peers, the I-CSCF's tables."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from imsbench.lab.settings import Endpoint, LabSettings
from imsbench.protocol.address import host_port

SERVERS = ("scscf", "icscf", "pcscf")
"""A core's servers, in the order of their start: nobody is there before those it talks to."""
TITLES = {"pcscf": "P-CSCF", "icscf": "I-CSCF", "scscf": "S-CSCF"}

_CX, _RX = 16777216, 16777236
_DIAMETER_PORTS = {"icscf": 3869, "scscf": 3870, "pcscf": 3871}


def render(lab: LabSettings) -> dict[str, str]:
    """All files of a core, by their path in its folder."""
    files = {f"{name}.cfg": _server(lab, name) for name in SERVERS}
    files |= {f"{name}.xml": _diameter(lab, name) for name in SERVERS if _peer(lab, name)}
    files |= {f"icscf.db/{name}": text for name, text in _tables(lab).items()}
    return files


def write(lab: LabSettings, folder: Path) -> None:
    """Write all files of a core into a folder; OSError if it does not take them."""
    for name, text in render(lab).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def endpoint_of(lab: LabSettings, server: str) -> Endpoint:
    """Where a server serves SIP."""
    return {"pcscf": lab.pcscf, "icscf": lab.icscf, "scscf": lab.scscf}[server]


def _server(lab: LabSettings, name: str) -> str:
    template = _environment().get_template(f"{name}.cfg.j2")
    return template.render(lab=lab, here=endpoint_of(lab, name))


def _peer(lab: LabSettings, name: str) -> Endpoint | None:
    return lab.pcrf if name == "pcscf" else lab.hss


def _diameter(lab: LabSettings, name: str) -> str:
    template = _environment().get_template("diameter.xml.j2")
    return template.render(
        lab=lab,
        role=name,
        peer=_peer(lab, name),
        acceptor=Endpoint(endpoint_of(lab, name).address, _DIAMETER_PORTS[name]),
        application=_RX if name == "pcscf" else _CX,
    )


def _tables(lab: LabSettings) -> dict[str, str]:
    """The I-CSCF's tables in the form of db_text, where a colon in a value is escaped."""
    scscf = _sip(lab.scscf).replace(":", r"\:")
    return {
        "s_cscf": f"id(int) name(string) s_cscf_uri(string)\n1:S-CSCF:{scscf}\n",
        "s_cscf_capabilities": "id(int) id_s_cscf(int) capability(int)\n1:1:0\n2:1:1\n",
        "nds_trusted_domains": f"id(int) trusted_domain(string)\n1:{lab.domain}\n",
        "version": "table_name(string) table_version(int)\n"
        "s_cscf:6\nnds_trusted_domains:1\ns_cscf_capabilities:1\n",
    }


@cache
def _environment() -> Environment:
    # What is filled in is checked settings, and no markup: nothing to escape.
    environment = Environment(
        loader=PackageLoader("imsbench.lab"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.filters |= {
        "endpoint": lambda where: host_port(*where),
        "sip": _sip,
        "hop": _hop,
        "parameter": _parameter,
    }
    return environment


def _sip(where: Endpoint) -> str:
    return f"sip:{host_port(*where)}"


def _hop(where: Endpoint, transport: str) -> str:
    """The URI of a next hop; UDP is what a URI without a transport means."""
    return _sip(where) + _parameter(transport)


def _parameter(transport: str) -> str:
    return ";transport=tcp" if transport == "tcp" else ""
