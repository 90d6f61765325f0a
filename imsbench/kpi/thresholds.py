"""Thresholds: what must hold in every step, as one line of text each.

    registration_time.p99 < 200ms
    initial_registration_success_rate >= 99.9%
    registration_time.count >= 1000
    calls_in_progress.mean >= 178

A time KPI is followed by a statistic (mean, min, max, count, p50, p99, p99.9 …) and compared with
a duration; ``count`` with a number; a ratio KPI has no statistic and is compared with a percentage;
a KPI of how many there are at once has mean and max, compared with a number.
"""

from __future__ import annotations

import difflib
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from imsbench.kpi.definitions import DEFINITIONS, SessionLevel, SessionRatio, SessionTime
from imsbench.kpi.kpis import StepKpis

State = Literal["kept", "broken", "undefined"]
"""undefined: nothing was measured that could be compared, or too little."""

_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_FORM = re.compile(
    r"\s*(?P<key>[a-z_]+)(?:\.(?P<statistic>[a-z0-9.]+))?\s*(?P<sign><=|>=|<|>)\s*(?P<limit>\S.*?)\s*"
)
_QUANTILE = re.compile(r"p([0-9]{1,2}(?:\.[0-9]{1,3})?)")
_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*(us|ms|s|min)")
_PERCENTAGE = re.compile(r"([0-9]{1,3}(?:\.[0-9]{0,9})?|\.[0-9]{1,9})\s*%")
_NUMBER = re.compile(r"[0-9]{1,12}")
_SCALE = {"us": Decimal("1e-6"), "ms": Decimal("1e-3"), "s": Decimal(1), "min": Decimal(60)}
_LEVEL = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")
_STATISTICS = "mean, min, max, count, or a quantile such as p50, p99, p99.9"


class ThresholdError(ValueError):
    """A threshold that cannot be read; the text says what is wrong and what is allowed."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """One condition on one number of a step."""

    text: str
    """As the profile has it."""
    key: str
    """The KPI."""
    statistic: str
    """Which number of a time or level KPI; empty for a ratio."""
    sign: str
    """One of < <= > >=."""
    limit: float
    """Seconds, a share (0..1), a count or calls at once."""

    @property
    def of_calls(self) -> bool:
        """Whether only steps with calls have its number."""
        return isinstance(DEFINITIONS[self.key], (SessionTime, SessionRatio, SessionLevel))

    def value(self, kpis: StepKpis) -> float | None:
        """The number compared; None if it is undefined in this step."""
        match DEFINITIONS[self.key].kind:
            case "ratio":
                return kpis.ratio(self.key).value
            case "level":
                level = kpis.level(self.key)
                most = float(level.maximum) if level.observed_s else None
                return level.mean if self.statistic == "mean" else most
        histogram = kpis.histogram(self.key)
        if self.statistic == "count":
            return float(histogram.count)
        if not histogram.count:
            return None
        match self.statistic:
            case "mean":
                return histogram.mean
            case "min":
                return histogram.minimum
            case "max":
                return histogram.maximum
            case quantile:
                return kpis.quantile(self.key, float(Decimal(quantile[1:]) / 100))

    def evaluate(self, kpis: StepKpis) -> State:
        """Whether it holds in this step."""
        value = self.value(kpis)
        if value is None:
            return "undefined"
        return "kept" if _COMPARE[self.sign](value, self.limit) else "broken"


def parse_threshold(text: str) -> Threshold:
    """Read one threshold; ThresholdError says what is wrong with it."""
    form = _FORM.fullmatch(text)
    if form is None:
        raise ThresholdError(
            f"{text!r} is not a threshold; write a KPI, one of < <= > >=, and a limit with its "
            'unit, such as "registration_time.p99 < 200ms"'
        )
    key, statistic, limit = form["key"], form["statistic"] or "", form["limit"]
    definition = DEFINITIONS.get(key)
    if definition is None:
        raise ThresholdError(f"{text!r}: {_unknown(key)}")
    if definition.kind == "ratio":
        if statistic:
            raise ThresholdError(f"{text!r}: {key} is a rate and has no {statistic!r}")
        share, sign = _percentage(text, limit), form["sign"]
        if (sign, share) in ((">", 1.0), ("<", 0.0)):
            raise ThresholdError(f"{text!r}: can never hold: no rate is {sign} {limit}")
        return Threshold(text, key, "", sign, share)
    if definition.kind == "level":
        if statistic not in ("mean", "max"):
            raise ThresholdError(f"{text!r}: after {key} comes a dot and one of mean, max")
        return Threshold(text, key, statistic, form["sign"], _level(text, limit))
    _check_statistic(text, key, statistic)
    read = _count if statistic == "count" else _seconds
    return Threshold(text, key, statistic, form["sign"], read(text, limit))


def parse_thresholds(texts: Sequence[str]) -> tuple[list[Threshold], list[tuple[int, str]]]:
    """All thresholds that can be read, and (position, what is wrong) of all that cannot."""
    thresholds: list[Threshold] = []
    errors: list[tuple[int, str]] = []
    for position, text in enumerate(texts):
        try:
            thresholds.append(parse_threshold(text))
        except ThresholdError as error:
            errors.append((position, str(error)))
    return thresholds, errors


def overall(states: Sequence[State]) -> State:
    """One threshold over all steps: broken anywhere is broken, kept somewhere is else kept."""
    if "broken" in states:
        return "broken"
    return "kept" if "kept" in states else "undefined"


def _unknown(key: str) -> str:
    close = difflib.get_close_matches(key, DEFINITIONS, 1)
    hint = f"; did you mean {close[0]}?" if close else ""
    return f"there is no KPI {key!r}{hint} There are: {', '.join(DEFINITIONS)}"


def _check_statistic(text: str, key: str, statistic: str) -> None:
    quantile = _QUANTILE.fullmatch(statistic)
    if quantile is not None and 0 < float(quantile[1]) < 100:
        return
    if statistic not in ("mean", "min", "max", "count"):
        raise ThresholdError(f"{text!r}: after {key} comes a dot and one of {_STATISTICS}")


def _percentage(text: str, limit: str) -> float:
    found = _PERCENTAGE.fullmatch(limit)
    if found is None or float(found[1]) > 100:
        raise ThresholdError(
            f"{text!r}: the limit of a rate is a percentage from 0% to 100%, in digits: 99.9%"
        )
    return float(Decimal(found[1]) / 100)  # decimal: 999 of 1,000 keep ">= 99.9%"


def _seconds(text: str, limit: str) -> float:
    found = _DURATION.fullmatch(limit)
    if found is None:
        raise ThresholdError(f'{text!r}: the limit is a duration such as "200ms" or "1.5s"')
    return float(Decimal(found[1]) * _SCALE[found[2]])


def _count(text: str, limit: str) -> float:
    if _NUMBER.fullmatch(limit) is None:
        raise ThresholdError(f"{text!r}: the limit of a count is a whole number")
    return float(limit)


def _level(text: str, limit: str) -> float:
    if _LEVEL.fullmatch(limit) is None:
        raise ThresholdError(f"{text!r}: the limit of calls at once is a number")
    return float(limit)
