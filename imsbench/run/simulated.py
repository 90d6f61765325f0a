"""What the simulators answered in a step, asked of them when it is over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from imsbench.run.crew import Crew

Json = dict[str, Any]


def answered(crew: Crew, names: Sequence[str]) -> dict[str, Json]:
    """What each simulator has answered since this was asked last, by its name and by command.

    ChildLost if a simulator does not answer: it is silent then.
    """
    for name in names:
        crew.send(name, "measure")
    missing, found = set(names), dict[str, Json]()
    while missing:
        for name, message in crew.receive(0.2):
            if message["type"] == "measured" and name in missing:
                found[name] = message["commands"]
                missing.discard(name)
    return found
