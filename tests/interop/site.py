"""A reference core with its HSS, phones of ours and SIPp, all on the loopback.

SIPp takes keys as text, reads a "[" in them as one of its own keywords, and cuts a RES at its first
zero byte; so the keys are plain text, and the HSS's seed is one whose RANDs give no such RES.
"""

from __future__ import annotations

import csv
import random
import subprocess
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from imsbench.engine.connections import EngineSettings
from imsbench.engine.driver import Driver
from imsbench.engine.loop import Loop, clock
from imsbench.host.control import ControlChannel
from imsbench.outcome import Outcome
from imsbench.phone.actions import Action
from imsbench.phone.phone import Network, Phone, PhoneSettings
from imsbench.phone.requests import answer_request
from imsbench.profile import Profile, parse_profile
from imsbench.protocol.aka import Milenage
from imsbench.run import configs
from imsbench.run.phones import Phones
from imsbench.run.topology import Node
from imsbench.subscriber import Population
from tests.simulators.process_helpers import free_port, started

SIPP = "sipp"
FOLDER = Path(__file__).parent
K, OP = b"imsbench-secret1", b"operator-secret1"
LIMIT_S = 20.0
PROFILE = """
name: interop
seed: {seed}
subscribers: {{count: {count}, k: "{k}", op: "{op}"}}
phones: {{ipsec: off}}
phases: [{{fill: {{rate: 1, to: {count}}}}}]
"""


@dataclass
class Core:
    """A running core."""

    port: int
    channel: ControlChannel

    def wait_registered(self, number: int) -> None:
        """Until so many are registered; TimeoutError after the limit."""
        deadline = clock() + LIMIT_S
        while self.channel.wait("tick")["counts"]["registered"] < number:
            if clock() > deadline:
                raise TimeoutError(f"not {number} registered in {LIMIT_S:g} s")

    def result(self) -> Counter[str]:
        """End it; what it counted."""
        self.channel.send("stop")
        return Counter(self.channel.wait("result")["counters"])


@contextmanager
def core_and_hss(profile: Profile) -> Iterator[Core]:
    """A core without IPsec and its HSS, on the loopback."""
    hss_port, core_port = free_port(), free_port()
    hss_config = configs.hss_config(profile, Node()) | {"listen": ["127.0.0.1", hss_port]}
    core_config = configs.core_config(profile, Node()) | {
        "listen": ["127.0.0.1", core_port], "hss": ["127.0.0.1", hss_port], "pcrf": None,
    }  # fmt: skip
    with started("simulators.hss") as (_, hss), started("simulators.core") as (_, core):
        hss.send("config", **hss_config)
        hss.wait("ready")
        core.send("config", **core_config)
        core.wait("ready")
        yield Core(core_port, core)


def profile_of(count: int) -> Profile:
    """So many subscribers, all with the same keys."""
    text = PROFILE.format(seed=fit_seed(), count=count, k=K.hex(), op=OP.hex())
    return parse_profile(text)


def fit_seed(challenges: int = 40) -> int:
    """The first seed of an HSS whose first challenges have no zero byte in their RES."""
    milenage = Milenage(K, op=OP)
    for seed in count(1):
        source = random.Random(f"hss {seed}")
        answers = (milenage.f2345(source.randbytes(16))[0] for _ in range(challenges))
        if all(0 not in answer for answer in answers):
            return seed
    raise AssertionError


class PhoneSite:
    """Phones of ours at a core: the first ones of the population."""

    def __init__(self, port: int, population: Population, phones: int) -> None:
        self.loop = Loop()
        self.network = Network(
            PhoneSettings("127.0.0.1", port, ipsec=False), population, random.Random(1)
        )
        self.driver = Driver(
            self.loop, EngineSettings(), None, lambda _address: None, answer_request
        )
        addresses = {n: f"127.1.0.{n + 1}" for n in range(phones)}
        self.outcomes: list[Outcome] = []
        self.phones = Phones(
            self.loop, self.driver, self.network, addresses,
            subscribe=False, on_outcome=self.outcomes.append,
        )  # fmt: skip

    def register(self) -> None:
        """All of them."""
        for phone in self.phones.all:
            self.phones.register(phone, clock())
        self.turn_until(lambda: len(self.outcomes) == len(self.phones.all))
        assert all(outcome.succeeded for outcome in self.outcomes), self.outcomes

    def start(self, flow: Coroutine[Action, Any, None], phone: Phone, call_id: str) -> None:
        """Run a call's flow; what it raises is a defect."""
        self.driver.start(flow, phone, raise_problem, call_id)

    def turn_until(self, condition: Callable[[], bool]) -> None:
        """Let the loop turn until something is so; TimeoutError after the limit."""
        deadline = clock() + LIMIT_S

        def look(_none: object) -> None:
            if condition() or clock() > deadline:
                self.loop.stop()
            else:
                self.loop.call_at(clock() + 0.02, look, None)

        self.loop.call_at(clock(), look, None)
        self.loop.run()
        if not condition():
            raise TimeoutError(f"not so in {LIMIT_S:g} s")

    def close(self) -> None:
        """Close all connections, then the loop."""
        for phone in self.phones.all:
            if phone.clear is not None and phone.clear.connection is not None:
                phone.clear.connection.abort()
        self.driver.close()
        self.loop.close()


def raise_problem(_phone: object, problem: BaseException | None) -> None:
    """How a flow ended: a defect of ours is not swallowed."""
    if problem is not None:
        raise problem


class Sipp:
    """One run of SIPp: so many phones, each with a connection of its own and one call."""

    def __init__(
        self,
        folder: Path,
        parts: list[str],
        core: Core,
        population: Population,
        pairs: list[tuple[int, int]],
    ) -> None:
        """parts: files here, one scenario together; pairs: (number of SIPp's phone, number of the phone of
        ours that it calls).
        """
        self._folder = folder
        write_scenario(folder / "scenario.xml", parts)
        write_users(folder / "users.csv", population, pairs)
        self._process = subprocess.Popen(
            [
                SIPP, f"127.0.0.1:{core.port}", "-sf", str(folder / "scenario.xml"),
                "-i", "127.0.2.1", "-p", str(free_port()), "-t", "tn", "-max_socket", "100",
                "-inf", str(folder / "users.csv"), "-cid_str", "interop-%u",
                "-key", "domain", population.home_domain, "-m", str(len(pairs)), "-r", "10",
                "-timeout", f"{LIMIT_S:g}s", "-timeout_error", "-nostdin",
                "-trace_stat", "-stf", str(folder / "stat.csv"), "-fd", "1",
                "-trace_err", "-error_file", str(folder / "errors.log"),
            ],
            cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self._process.poll() is not None

    def counts(self) -> dict[str, int]:
        """Its own count of calls, when it has ended: created, successful, failed."""
        code = self._process.wait(LIMIT_S)
        with (self._folder / "stat.csv").open() as file:
            last = list(csv.DictReader(file, delimiter=";"))[-1]
        found = {
            "created": int(last["TotalCallCreated"]),
            "successful": int(last["SuccessfulCall(C)"]),
            "failed": int(last["FailedCall(C)"]),
        }
        errors = self._folder / "errors.log"
        text = errors.read_text() if errors.exists() else ""
        assert code == 0, f"SIPp ended with {code}: {found}\n{text[-3000:]}"
        return found

    def close(self) -> None:
        """End it if it has not."""
        if not self.over:
            self._process.kill()
            self._process.wait()


def write_scenario(path: Path, parts: list[str]) -> None:
    """What stands in the scenarios of these files here, as one."""
    bodies = []
    for part in parts:
        text = (FOLDER / f"{part}.xml").read_text()
        bodies.append(text[text.index("\n", text.index("<scenario")) : text.index("</scenario>")])
    head = '<?xml version="1.0" encoding="UTF-8"?>\n<scenario name="phone">'
    path.write_text(f"{head}{''.join(bodies)}</scenario>\n")


def write_users(path: Path, population: Population, pairs: list[tuple[int, int]]) -> None:
    """IMSI, MSISDN, the MSISDN that is called, and the keyword that answers the challenge."""
    lines = ["SEQUENTIAL"]
    for theirs, ours in pairs:
        user, called = population.subscriber(theirs), population.subscriber(ours)
        keys = f"aka_K={K.decode()} aka_OP={OP.decode()} aka_AMF=0x8000"
        answer = f"[authentication username={user.impi} {keys}]"
        lines.append(";".join((user.imsi, user.msisdn, called.msisdn, answer)))
    path.write_text("\n".join(lines) + "\n")
