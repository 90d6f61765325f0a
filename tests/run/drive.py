"""Run a coordinator with stand-ins for all its children, in a process of its own; prints JSON."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

from imsbench.profile import parse_profile
from imsbench.run import network
from imsbench.run.coordinator import Coordinator
from imsbench.run.events import Event, Stage
from imsbench.run.exits import RunRefused
from imsbench.run.launch import Modules
from imsbench.run.record import StepRecord

FAKE = "tests.run.fakes"


def main() -> int:
    """argv: the YAML of a profile."""
    events: list[str] = []

    def watch(event: Event) -> None:
        events.append(type(event).__name__)
        if not isinstance(event, Stage):
            sys.stderr.write(f"{asdict(event)}\n")
            sys.stderr.flush()

    profile = parse_profile(sys.argv[1])
    network.enter(profile)
    coordinator = Coordinator(profile, watch, modules=Modules(FAKE, FAKE, FAKE, FAKE))
    try:
        record = coordinator.run()
    except RunRefused as refusal:
        json.dump({"refused": str(refusal), "exit_code": refusal.exit_code}, sys.stdout)
        return 0
    told = {
        "status": record.status,
        "reason": record.reason,
        "exit_code": record.exit_code,
        "steps": [summary(step) for step in record.steps],
        "stalls": [
            [record.longest_stall_s(name, step) for step in record.steps]
            for name in ("hss", "core")
        ],
        "longest_stall": max((stall.length_s for stall in record.stalls), default=0.0),
        "workers": sorted(record.workers),
        "simulators": sorted(record.simulators),
        "events": events,
    }
    json.dump(told, sys.stdout)
    return 0


def summary(step: StepRecord) -> dict[str, object]:
    """What the tests look at."""
    return {
        "complete": step.complete,
        "attempted": step.kpis.procedures["registration"].attempted,
        "before": step.registered_before,
        "after": step.registered_after,
        "failures": len(step.failures),
        "counters": step.counters,
        "simulated": step.simulated,
        "repairs": [[round_.registered_before, round_.registered_after] for round_ in step.repairs],
    }


if __name__ == "__main__":
    sys.exit(main())
