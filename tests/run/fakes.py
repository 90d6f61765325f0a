"""Stand-ins for worker, core and HSS: the whole life of a child, and no SIP.

Each does what its environment variable says: FAKE_WORKER_0, FAKE_CORE, FAKE_HSS.
"""

from __future__ import annotations

import os
import select
import signal
import time
from typing import Any

from imsbench.host.control import ControlChannel, Message, child_channel, die_with_parent
from imsbench.host.namespace import enter_new_network_namespace
from imsbench.kpi.halves import Halves
from imsbench.kpi.kpis import StepKpis
from imsbench.outcome import Outcome
from imsbench.run.orders import step_of

STEP_S = 0.3
TICK_S = 0.1


class Fake:
    """One child; a worker if its configuration has a profile."""

    def __init__(self, channel: ControlChannel, config: Message, behaviour: str) -> None:
        self.channel = channel
        self.behaviour = behaviour
        self.share = (0, 1)
        if "profile" in config:
            self.share = config["worker"], config["workers"]
        self.registered = 0
        self.running: Message | None = None
        self.ends_at = 0.0

    def serve(self) -> None:
        """Until "stop" or the end of the channel."""
        self.channel.send("ready")
        self.channel.setblocking(False)
        poll = select.poll()
        poll.register(self.channel.fileno(), select.POLLIN)
        began_at = time.monotonic()
        while not self.channel.closed:
            poll.poll(TICK_S * 1e3)
            if self.behaviour == "die" and time.monotonic() - began_at > 0.5:
                os.kill(os.getpid(), signal.SIGKILL)
            stalls = [(time.monotonic(), 0.25)] if self.behaviour == "stalling" else []
            absent = self.behaviour == "absent"
            self.channel.send(
                "tick",
                registered=self.registered,
                attempted=20 if absent else 1,
                succeeded=0 if absent else 1,
                failed=20 if absent else 0,
                unreached=20 if absent else 0,
                cause="refused" if absent else "",
                **self.kpis_so_far(),
                stalls=stalls,
            )
            for message in self.channel.receive():
                if message["type"] == "stop":
                    self.send_result()
                    return
                if message["type"] == "measure":
                    self.channel.send("measured", commands={"UAR": {"count": 3}})
                if message["type"] == "start_at":
                    self.running = message
                    self.ends_at = message["at"] + (
                        60.0 if self.behaviour in ("slow", "breaking") else STEP_S
                    )
            if self.running and time.monotonic() >= self.ends_at:
                self.channel.send("step_done", **self.end_of_step(self.running))
                self.running = None

    def kpis_so_far(self) -> dict[str, Any]:
        """A "breaking" worker's every registration fails from the beginning."""
        if self.behaviour != "breaking" or not self.running:
            return {}
        kpis, at = StepKpis(), self.running["at"]
        kpis.record(
            Outcome("registration", 0, 0, at, at, at, at + 0.01, cause="403", stage="answer")
        )
        return {"kpis": kpis.to_json(), "kpis_of": step_of(self.running["step"]).index}

    def end_of_step(self, order: Message) -> dict[str, Any]:
        """Everybody succeeds; a "lossy" worker loses half its phones in its first fill."""
        step, (share, shares) = step_of(order["step"]), self.share
        wanted = step.registered_before if order["repair"] else step.registered
        mine = len(range(share, wanted, shares))
        first = step.index == 0 and not order["repair"]
        lossy = self.behaviour == "lossy" and first
        if self.behaviour == "gone":
            self.registered = 0
        elif self.behaviour.startswith("losing") and first:
            self.registered = mine - int(self.behaviour.split()[1])
        elif self.behaviour.startswith("losing") and order["repair"]:
            self.registered = min(mine, self.registered + 2)
        else:
            self.registered = mine // 2 if lossy else mine
        kpis = StepKpis()
        at = order["at"]
        for n in range(len(range(share, step.attempts, shares))):
            kpis.record(Outcome("registration", n, step.index, at, at, at, at + 0.01, status=200))
        failure = {"procedure": "registration", "stage": "answer", "cause": "403", "ladder": []}
        return {
            "step": step.index,
            "repair": order["repair"],
            "registered": self.registered,
            "kpis": kpis.to_json(),
            "halves": Halves().to_json(),
            "health": {"wall_s": STEP_S, "cpu_s": 0.1, "dropped": 0},
            "failures": [failure] if lossy else [],
            "counters": {"connections": 2},
        }

    def send_result(self) -> None:
        """An unfinished step ends with what it has so far; then the result."""
        if self.running:
            self.channel.send("step_done", **self.end_of_step(self.running))
        stalls = [(time.monotonic() - 60.0, 0.5)] if self.behaviour == "stalling" else []
        self.channel.send(
            "result", registered=self.registered, counters={"all": 1}, ladders=[], stalls=stalls
        )


def main() -> None:
    """Play one child."""
    channel = child_channel()
    assert channel is not None
    die_with_parent()
    name = os.environ["IMSBENCH_NAME"]
    if os.environ.get("IMSBENCH_NAMESPACE") == "new":
        enter_new_network_namespace()
    channel.send("namespace", pid=os.getpid())
    config = channel.wait("config")
    behaviour = os.environ.get("FAKE_" + name.upper().replace("-", "_"), "")
    if behaviour == "refuse":
        channel.send("error", text="there is no /dev/net/tun", exit=5)
        return
    Fake(channel, config, behaviour).serve()


if __name__ == "__main__":
    main()
