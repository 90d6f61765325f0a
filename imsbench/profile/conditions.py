"""Thresholds as a profile has them: a condition on a number, where it must hold, and what breaking it does.

Which numbers there are is the KPIs' business (``that`` is read there); which steps, is looked at here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from math import isclose
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from imsbench.profile.fields import Boolean, Duration, Settings
from imsbench.profile.steps import Step
from imsbench.profile.units import parse_rate

_DURING = re.compile(r"(fill|hold|cycle|calls|storm|mix)(?: at (\S+))?|step ([1-9][0-9]{0,5})")
_FORM = 'fill, hold, cycle, calls, storm or mix, "cycle at 50/s", or "step 3"'


def _during(value: str) -> str:
    found = _DURING.fullmatch(value)
    if value and found is None:
        raise ValueError(f"must be {_FORM}")
    if found is not None and found[2] is not None:
        parse_rate(found[2])
    return value


class Condition(Settings):
    """One threshold; a text alone is its ``that``."""

    that: Annotated[str, Field(min_length=1, max_length=200)]
    """What must hold in each step, such as "registration_time.p99 < 200ms"; read by the KPIs."""
    during: Annotated[str, AfterValidator(_during)] = ""
    """In which steps alone: a kind, a kind at a rate, or the step of a number (from 1); empty: in all."""
    abort: Boolean = False
    """Whether breaking it ends the run early."""
    after: Duration = 0.0
    """How much of a step's evaluated time must have passed before it may."""

    @model_validator(mode="after")
    def _check(self) -> Condition:
        if self.after and not self.abort:
            raise ValueError("after is for a threshold with abort: true")
        return self

    @model_serializer(mode="wrap")
    def _serialize(self, write: SerializerFunctionWrapHandler) -> Any:
        written = write(self)
        return written if self.during or self.abort else self.that

    @property
    def title(self) -> str:
        """As a report has it: "call_drop_rate < 0.1% in calls"."""
        return f"{self.that} in {self.during}" if self.during else self.that

    def applies(self, step: Step) -> bool:
        """Whether it must hold in this step."""
        found = _DURING.fullmatch(self.during)
        if found is None:
            return True
        kind, rate, number = found.groups()
        if number is not None:
            return step.index == int(number) - 1
        return step.kind == kind and (rate is None or isclose(step.rate, parse_rate(rate)))


def _from_text(value: object) -> object:
    return {"that": value} if isinstance(value, str) else value


ConditionField = Annotated[Condition, BeforeValidator(_from_text)]


def unmatched(
    conditions: Sequence[Condition | None], steps: Sequence[Step]
) -> Iterator[tuple[str, str]]:
    """Path and fault of each condition that no step of the load is meant by; None: no condition."""
    for index, condition in enumerate(conditions):
        if condition is not None and not any(map(condition.applies, steps)):
            kinds = ", ".join(dict.fromkeys(step.kind for step in steps))
            text = (
                f"is {condition.during!r}, but the load has no such step: {len(steps)} of {kinds}"
            )
            yield f"thresholds[{index}].during", text
