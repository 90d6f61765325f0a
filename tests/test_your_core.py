"""docs/your-core.md says what is so: its profile, its fields, its stages, and the loader for PyHSS."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from imsbench.profile import load_profile, parse_profile
from imsbench.profile.model import Hss, Pcrf, Phones, Subscribers, Target
from imsbench.profile.phases import Calls
from imsbench.run.advice import advice
from imsbench.run.provision import subscriber_lines

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "your-core.md").read_text()
MODELS: dict[str, type[BaseModel]] = {
    "phones": Phones, "target": Target, "subscribers": Subscribers, "simulators.hss": Hss,
    "simulators.pcrf": Pcrf, "calls": Calls,
}  # fmt: skip


def block(language: str) -> str:
    """The page's one block of code in this language."""
    (found,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return str(found)


def test_its_profile_is_one() -> None:
    profile = parse_profile(block("yaml"))
    assert profile.target.kind == "external"
    assert profile.simulators.hss is not None
    assert profile.simulators.hss.connections == 2


def test_its_fields_exist() -> None:
    named = set(re.findall(r"`((?:phones|target|subscribers|calls|simulators\.\w+)\.\w+)", PAGE))
    assert len(named) > 12
    for path in sorted(named):
        section, _, field = path.rpartition(".")
        assert field in MODELS[section].model_fields, path


def test_readme_leads_to_it() -> None:
    assert "](docs/your-core.md)" in (ROOT / "README.md").read_text()


def test_every_stage_of_its_table_is_one_that_phones_have() -> None:
    rows = re.findall(r"^\| (`[^|]*) \| ([^|]*) \| ", PAGE[PAGE.index("## 6.") :], re.MULTILINE)
    stages = {stage for names, _ in rows for stage in re.findall(r"`([a-z]+)`", names)}
    assert len(rows) > 20
    texts = " ".join(path.read_text() for path in (ROOT / "imsbench").glob("phone/*.py"))
    texts += (ROOT / "imsbench" / "run" / "calls.py").read_text()
    assert [stage for stage in sorted(stages) if f'"{stage}"' not in texts] == []


@pytest.mark.parametrize(
    ("stage", "cause", "part"),
    [
        ("challenge", "408", "failed inside"),
        ("subscribe", "timeout", "the protected one does not"),
        ("notify", "no notify", "port_us"),
        ("deregistration", "timeout", "in clear"),
        ("refresh", "timeout", "the protected one does not"),
    ],
)
def test_advice_of_check_says_the_same(stage: str, cause: str, part: str) -> None:
    assert part in advice(load_profile("quickstart"), stage, cause)


class Pyhss(BaseHTTPRequestHandler):
    """As much of PyHSS's REST API as makes objects: each gets a number, and refers to those that exist."""

    made: dict[str, list[dict[str, Any]]]

    def do_PUT(self) -> None:
        name = self.path.strip("/")
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if name == "subscriber":
            numbers = (body["auc_id"], body["default_apn"], int(body["apn_list"]))
            assert numbers == (len(self.made["auc"]), 1, 1)
        self.made.setdefault(name, []).append(body)
        answer = json.dumps(body | {f"{name}_id": len(self.made[name])}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""


@pytest.fixture
def pyhss() -> Iterator[tuple[str, dict[str, list[dict[str, Any]]]]]:
    made: dict[str, list[dict[str, Any]]] = {}
    handler = type("Handler", (Pyhss,), {"made": made})
    server = HTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", made
    server.shutdown()
    thread.join()
    server.server_close()


def test_its_loader_makes_the_subscribers(pyhss: tuple[str, dict[str, Any]]) -> None:
    url, made = pyhss
    profile = parse_profile(block("yaml").replace("1000", "3"))
    lines = "".join(subscriber_lines(profile, "pyhss"))
    command = [sys.executable, "-c", block("python"), url]
    done = subprocess.run(command, input=lines, text=True, capture_output=True, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")
    assert {name: len(objects) for name, objects in made.items()} == {
        "apn": 1, "auc": 3, "subscriber": 3, "ims_subscriber": 3,
    }  # fmt: skip
