"""Where a run's steps come from: its profile, or somebody who decides by what the last step measured."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from imsbench.profile import Profile, Step
from imsbench.run.record import StepRecord


@dataclass(frozen=True, slots=True)
class Order:
    """One step to be driven."""

    step: Step
    """What is done; no two orders of a run have the same index."""
    counted: bool = True
    """Whether it is a step of the result; False: it only prepares one."""
    repair: bool = True
    """Whether its precondition is restored before it."""
    title: str = ""
    """The step in words while it goes; empty: its own."""


Source = Generator[Order, StepRecord, None]
"""Yields the next step, and is sent what the step measured. Closed when the run ends before it does."""


def of_profile(profile: Profile) -> Source:
    """The steps of a profile, whatever they measure."""
    for step in profile.steps():
        yield Order(step)


_STEP: TypeAdapter[Step] = TypeAdapter(Step)


def step_config(step: Step) -> dict[str, Any]:
    """A step as it travels to a worker."""
    told: dict[str, Any] = _STEP.dump_python(step, mode="json")
    return told


def step_of(config: dict[str, Any]) -> Step:
    """The inverse of step_config."""
    return _STEP.validate_python(config)
